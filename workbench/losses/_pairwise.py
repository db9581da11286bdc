"""Losses that compare each score with its own target.

They are the supervised baselines, and RankEncoder's distillation.
"""

import torch
from jaxtyping import Bool
from torch import Tensor

from workbench.losses._arguments import (
    AnyNumbers,
    AnyShape,
    Embeddings,
    PairScores,
    Scalar,
    Scores,
    full_precision,
    require_pairs,
    require_same_shape,
)


@full_precision
def mse(scores: PairScores, gold: AnyNumbers) -> Scalar:
    """Return the mean of (scores - gold)^2: CoSENT eq. 4, of cosines and gold, [n] each.

    gold: on the scale of the scores; the CoSENT code divides labels by their maximum, into [0, 1].
    """
    require_pairs(scores, gold)
    return (scores - gold.to(scores.dtype)).square().mean()


@full_precision
def contrastive(
    scores: PairScores, gold: AnyNumbers, *, epsilon: float, form: str = "paper"
) -> Scalar:
    """Return the mean of y (1 - cos)^2 / 2 + (1 - y) N(cos) / 2: CoSENT eq. 2.

    A second form is the one that its code runs.

    N = max(epsilon, cos)^2 ("paper", eq. 2 as printed: below epsilon a negative still costs
    epsilon^2, without gradient) or max(0, cos - epsilon)^2 ("hinge", Hadsell's margin 1 - epsilon).
    They agree at epsilon = 0 only.

    `scores` are cosines [n]; `gold` [n] is 1 for a similar pair and 0 for another: cut graded
    labels at a threshold first. epsilon, in [-1, 1] (table I: -1 to 0.9), is the cosine above which
    the hinge pushes a negative away. So does the paper's form if epsilon >= 0; if not, it pulls
    every negative above epsilon towards a cosine of 0.
    """
    require_pairs(scores, gold)
    # gold may be booleans or integers.
    similar = gold.to(scores.dtype)
    pushed = {"paper": scores.clamp_min(epsilon), "hinge": (scores - epsilon).clamp_min(0)}[form]
    return 0.5 * (similar * (1 - scores).square() + (1 - similar) * pushed.square()).mean()


@full_precision
def triplet(
    anchor: Embeddings,
    positive: AnyShape,
    negative: AnyShape,
    *,
    margin: float,
) -> Scalar:
    """Return the mean of max(d(a, p) - d(a, n) + epsilon, 0), d Euclidean: CoSENT eq. 6.

    All three are [n, d]; margin is epsilon > 0, by how much the positive must be closer to the
    anchor (SBERT: 1). The distance is exact: nothing is added under the root, and its gradient at
    two equal vectors is 0."""
    require_same_shape(anchor, positive, "anchor and positive")
    require_same_shape(anchor, negative, "anchor and negative")
    # torch's own triplet_margin_loss adds 1e-6 to each difference, and its gradient at equal
    # vectors is not 0.
    near = torch.linalg.vector_norm(anchor - positive, dim=1)
    far = torch.linalg.vector_norm(anchor - negative, dim=1)
    return (near - far + margin).clamp_min(0).mean()


def kept_pairs(target: Scores, *, lower: float | None, upper: float | None) -> Bool[Tensor, "n m"]:
    """Return the mask [n, m] of pairs that RankEncoder sec. 3.5 keeps.

    These have lower <= target <= upper; None is no bound.
    """
    kept = torch.ones_like(target, dtype=torch.bool)
    if lower is not None:
        kept &= target >= lower
    if upper is not None:
        kept &= target <= upper
    return kept


@full_precision
def rank_mse(
    scores: Scores,
    target: AnyShape,
    *,
    lower: float | None,
    upper: float | None,
) -> Scalar:
    """Return the mean of (target - scores)^2 over kept pairs: RankEncoder eq. 6.

    Kept are pairs with tau_l <= target <= tau_u.

    Without bounds it is eq. 4, and the diagonal counts (eq. 4 sums over all i, j); any upper below
    1 drops it. If no pair is kept, eq. 6 is 0 / 0; here loss and gradient are then exactly 0, so
    that such a batch is harmless.

    `scores` are cos(E2(x_i), E2(x_j)), [n, m]; `target` has u_i . u_j, the similarities of rank
    vectors, in the same shape, and gets a gradient unless computed without. `lower` is tau_l (0.5),
    `upper` tau_u (0.8); None: no bound.
    """
    require_same_shape(scores, target, "scores and target")
    kept = kept_pairs(target, lower=lower, upper=upper)
    # where and not a product: 0 times infinity would be nan.
    squares = torch.where(kept, (target - scores).square(), 0.0)
    return (squares.sum() / kept.sum().clamp_min(1)).to(scores.dtype)
