"""Losses as pure functions, one equation each: tensors in, a scalar out, differentiable, never below float32.

Ties, extreme values and degenerate batches have a defined value, written at each function. Mistakes raise ValueError.
"""

from workbench.losses._arguments import full_precision
from workbench.losses._listwise import entropy_consistency, info_nce, js_consistency, listmle, listnet, top_one
from workbench.losses._ordering import cosent, cosent_lists
from workbench.losses._pairwise import contrastive, kept_pairs, mse, rank_mse, triplet
from workbench.losses._scores import COMPOSITIONS, compose, cosine_matrix
