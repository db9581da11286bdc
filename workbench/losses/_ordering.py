"""CoSENT: pairs with higher labels must score higher. Sorting makes n pairs cost n log n instead of n squared.

With x = lambda * scores, the sum over all pairs of pairs factors by the higher one, i:
    sum_{y_i > y_j} exp(x_j - x_i) = sum_i exp(-x_i) * sum_{j: y_j < y_i} exp(x_j),
and in the order of the labels the inner sum is a running sum up to the first item of i's label.
"""

import math

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import softplus

from workbench.losses._arguments import full_precision, require_pairs
from workbench.losses._listwise import clamp_masked, paired_lists


def _cosent_rows(logits: Float[Tensor, "n m"], labels: Shaped[Tensor, "n m"]) -> Float[Tensor, " n"]:
    """Return log(1 + sum_{labels_a > labels_b} exp(logits_b - logits_a)) for each row."""
    labels, order = (labels.detach() + 0).sort(dim=1, stable=True)  # + 0 turns booleans into numbers
    logits = clamp_masked(logits.gather(1, order))
    lower = torch.searchsorted(labels, labels)  # how many items have a strictly lower label
    running = logits.logcumsumexp(dim=1).gather(1, (lower - 1).clamp_min(0))
    terms = torch.where(lower > 0, running - logits, -math.inf)
    # softplus(t) = log(1 + e^t), here of the log of the whole sum; it switches to t itself where float64 cannot tell.
    return softplus(terms.logsumexp(dim=1), threshold=40.0)


@full_precision
def cosent(scores: Float[Tensor, " n"], gold: Shaped[Tensor, "..."], *, scale: float = 20.0) -> Float[Tensor, ""]:
    """Return log(1 + sum over pairs with gold_a > gold_b of exp(lambda (scores_b - scores_a))): CoSENT eq. 10.

    Eq. 11 is the same for the scores of an interaction model. One scalar for the batch, no division. Pairs of equal
    gold are not compared; if all gold is equal, loss and gradient are exactly 0. Time O(n log n), memory O(n).

    `scores` [n] has one score per sentence pair (a cosine, or a cross-encoder's logit), larger is closer; `gold` [n]
    contains floats or integers on any scale: only the order counts; it gets no gradient. scale (lambda > 0) multiplies
    score differences: 20 in the paper, 1 in both codes' interaction models. The value is >= 0; smaller is better.
    """
    require_pairs(scores, gold)
    return _cosent_rows(scale * scores[None], gold[None]).squeeze(0)


@full_precision
def cosent_lists(
    student: Float[Tensor, "n m"], teacher: Float[Tensor, "..."], *, scale: float = 20.0, exclude_positive: bool = True
) -> Float[Tensor, ""]:
    """Return the mean over i of CoSENT inside anchor i's list: items j with scores S(i)_j and labels S^T(i)_j.

    CoSENT table III puts CoSENT in the place of RankCSE's ranking loss without giving a formula; this reading, lists as
    in RankCSE sec. 4.4 and positives out as in its footnote 1, is ours.

    S and S^T are [n, m]; the teacher receives no gradient. scale is lambda > 0 and multiplies. exclude_positive leaves
    column i out of row i's list and needs m >= n. The value is >= 0, and 0 for lists that the teacher ties throughout.
    """
    student, teacher = paired_lists(student, teacher, exclude_positive)
    if student.shape[1] == 0:
        return student.sum()  # one anchor without its positive: nothing to order, 0 with a gradient of 0
    return _cosent_rows(scale * student, teacher).mean()
