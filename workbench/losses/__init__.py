"""Losses as pure functions, one equation each.

Tensors in, a scalar out, differentiable, never below float32.

Ties, extremes and degenerate batches of one row or more have a defined value. Shapes that would
broadcast are ValueErrors. Values are not checked, because that would wait for the device: data sets
refuse gold that is not finite, encoders such vectors.
"""

from workbench.losses._arguments import (
    Embeddings as Embeddings,
    PairScores as PairScores,
    Scalar as Scalar,
    Scores as Scores,
    SquareScores as SquareScores,
    Vectors as Vectors,
    full_precision as full_precision,
    tied_ranks as tied_ranks,
    widen as widen,
    widest as widest,
)
from workbench.losses._listwise import (
    entropy_consistency as entropy_consistency,
    info_nce as info_nce,
    js_consistency as js_consistency,
    listmle as listmle,
    listnet as listnet,
    top_one as top_one,
)
from workbench.losses._ordering import (
    approx_ndcg as approx_ndcg,
    cosent as cosent,
    cosent_lists as cosent_lists,
    graded_listmle as graded_listmle,
    rank_kl as rank_kl,
)
from workbench.losses._pairwise import (
    contrastive as contrastive,
    kept_pairs as kept_pairs,
    mse as mse,
    rank_mse as rank_mse,
    triplet as triplet,
)
from workbench.losses._regression import (
    list_correlation as list_correlation,
    list_mse as list_mse,
    pearson as pearson,
)
from workbench.losses._scores import (
    COMPOSITIONS as COMPOSITIONS,
    compose as compose,
    corpus_covariance as corpus_covariance,
    cosine_matrix as cosine_matrix,
    gaussian_rank_similarity as gaussian_rank_similarity,
)
