"""Losses that follow the values of the targets, not their order: controls of the ranking losses.

A gain of a ranking loss is one of the order only if these gain less.
"""

import torch

from workbench.losses._arguments import (
    AnyShape,
    PairScores,
    Scalar,
    Scores,
    full_precision,
    require_pairs,
)
from workbench.losses._listwise import paired_lists


@full_precision
def list_mse(student: Scores, teacher: AnyShape, *, exclude_positive: bool = True) -> Scalar:
    """Return the mean of (S_ij - S^T_ij)^2 over all lists: regression of the teacher's scores.

    It takes the place of RankCSE's ranking loss.

    S and S^T are [n, m]; gradient flows into the teacher's unless it was computed without.
    exclude_positive leaves column i out of row i's list and needs m >= n; empty lists have loss 0.
    The value is >= 0; of cosines at most 4.
    """
    student, teacher = paired_lists(student, teacher, exclude_positive)
    squares = (student - teacher.to(student.dtype)).square()
    # Not the mean, which is nan if a batch of one sentence leaves no pair.
    return squares.sum() / max(1, squares.numel())


@full_precision
def list_correlation(
    student: Scores, teacher: AnyShape, *, exclude_positive: bool = True
) -> Scalar:
    """Return the mean over i of 1 - Pearson's correlation of S_i and S^T_i.

    It takes the place of RankCSE's ranking loss: values count, up to the offset and the scale of
    each list.

    Arguments are those of `list_mse`. A list whose scores are all equal, the student's or the
    teacher's, has loss 1 and no gradient. The value is in [0, 2].
    """
    student, teacher = paired_lists(student, teacher, exclude_positive)
    if student.shape[1] == 0:
        # One anchor without its positive: nothing to correlate, 0 with a gradient of 0.
        return student.sum()
    return (1 - _row_correlations(student, teacher.to(student.dtype))).mean()


@full_precision
def pearson(scores: PairScores, gold: AnyShape) -> Scalar:
    """Return 1 - Pearson's correlation of the scores of a batch and gold (Pcc-tuning, 2024, eq. 5).

    `scores` [n] has one score per sentence pair, larger is closer; `gold` [n] is on any scale. If
    all scores, or all of gold, are equal, the loss is 1 and has no gradient. The value is in [0,
    2].
    """
    require_pairs(scores, gold)
    return 1 - _row_correlations(scores[None], gold[None].to(scores.dtype)).squeeze(0)


def _row_correlations(first: Scores, second: Scores) -> PairScores:
    """Return Pearson's correlation of each row; 0, without gradient, of a constant one."""
    both = torch.stack([first, second])
    # Compared exactly: after the mean is subtracted a constant row has rounding for numbers.
    is_constant = (both.amax(dim=2) == both.amin(dim=2)).any(dim=0)
    first = first - first.mean(dim=1, keepdim=True)
    second = second - second.mean(dim=1, keepdim=True)
    squares = first.square().sum(dim=1) * second.square().sum(dim=1)
    # Two selections: 0 divided by 0 would make the gradient nan even where it is not selected.
    lengths = torch.where(is_constant, 1.0, squares).sqrt()
    products = (first * second).sum(dim=1)
    return torch.where(is_constant, 0.0, products / lengths)
