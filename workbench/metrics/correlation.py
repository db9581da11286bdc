"""How well predicted scores keep the order of gold: Spearman, Kendall, NDCG. Ties count as ties everywhere."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

AGGREGATIONS = ("all", "mean", "wmean")
GAINS = ("linear", "exponential")
_SHORT = 200  # items up to which counting pair by pair takes less than scipy, which is half a second to load besides


def paired_numbers(gold: ArrayLike, predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64 vectors of one length without nan; ValueError otherwise."""
    first, second = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"gold and predicted have shapes {first.shape} and {second.shape}; give two vectors, equally long"
        )
    for name, values in (("gold", first), ("predicted", second)):
        if missing := int(np.isnan(values).sum()):
            raise ValueError(
                f"{name} holds nan in {missing} of {len(values)} places; drop unlabelled pairs, "
                "and look for the step at which the encoder diverged where a prediction is nan"
            )
    return first, second


def average_ranks(values: ArrayLike) -> np.ndarray:
    """Ranks from 1, ascending, averaged over ties: scipy.stats.rankdata without its cost for short lists."""
    _, place, size = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    return (np.cumsum(size) - (size - 1) / 2)[place]


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Spearman's correlation, ranks averaged over ties: Pearson's correlation of the ranks.

    Args:
        gold: n labels; only their order counts.
        predicted: n scores; larger = closer.

    Returns:
        In [-1, 1]; larger is better. nan where one side is constant or n < 2: then there is no order to agree on.

    Raises:
        ValueError: Unequal lengths, or nan on either side.
    """
    first, second = paired_numbers(gold, predicted)
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    middle = (len(first) + 1) / 2
    a, b = average_ranks(first) - middle, average_ranks(second) - middle
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1, 1))


def kendall(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Kendall's tau-b: concordant less discordant pairs over sqrt((pairs - ties in gold)(pairs - ties in predicted)).

    Args:
        gold: n labels; only their order counts.
        predicted: n scores; larger = closer.

    Returns:
        In [-1, 1]; larger is better. nan where one side is constant or n < 2.

    Raises:
        ValueError: Unequal lengths, or nan on either side.
    """
    first, second = paired_numbers(gold, predicted)
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    if len(first) <= _SHORT:
        above, found = (np.greater.outer(side, side) - np.less.outer(side, side) * 1.0 for side in (first, second))
        return float((above * found).sum() / np.sqrt(np.square(above).sum() * np.square(found).sum()))
    from scipy.stats import kendalltau

    return float(kendalltau(first, second).statistic)  # pyright: ignore[reportAttributeAccessIssue]


def ndcg(gold: ArrayLike, predicted: ArrayLike, *, gain: str = "linear") -> float:
    """Discounted gain of the predicted order over that of the best order, over the full list.

    DCG = sum_r gain_r / log2(r + 1), rank r = 1 first; targets that the prediction ties share their mean gain, as in
    scikit-learn. RankCSE (app. G) does not say which gain it took; its printed range fits the linear one.

    Args:
        gold: n relevances, 0 or more.
        predicted: n scores; larger = closer.
        gain: "linear": the relevance g; "exponential": 2^g - 1.

    Returns:
        In [0, 1]; larger is better. nan for fewer than two targets and where all relevances are 0: every order is best.

    Raises:
        ValueError: Unequal lengths, nan, a negative relevance, or an unknown gain.
    """
    if gain not in GAINS:
        raise ValueError(f"gain is {gain!r}; choose one of {', '.join(GAINS)}")
    relevance, scores = paired_numbers(gold, predicted)
    if (relevance < 0).any():
        raise ValueError(f"gold holds {relevance.min():g}; relevances are 0 or more: shift the scale to begin at 0")
    if len(relevance) < 2 or not relevance.any():
        return float("nan")
    gains = relevance if gain == "linear" else np.exp2(relevance) - 1
    discounts = 1 / np.log2(np.arange(len(gains)) + 2)
    _, group, size = np.unique(-scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(size)
    discount_sums = np.diff(np.concatenate([[0.0], np.cumsum(discounts)[ends - 1]]))
    reached = (np.bincount(group, weights=gains) / size) @ discount_sums
    return float(min(reached / (np.sort(gains)[::-1] @ discounts), 1.0))  # the sums of a perfect order round apart


def spearman_by_subset(
    gold: ArrayLike, predicted: ArrayLike, subset: Sequence[str] | None, *, how: str = "all"
) -> float:
    """Spearman of a set that comes in subsets, as STS12 to STS16 do.

    Args:
        gold: n labels.
        predicted: n scores.
        subset: The subset of each pair; None: all are one.
        how: "all": one correlation over all pairs at once (SimCSE and the four methods here); "mean": the mean over
            subsets; "wmean": weighted by their sizes (BERT-flow, whitening). They differ by points: name the one used.

    Returns:
        In [-1, 1]; nan where a correlation it needs is undefined.

    Raises:
        ValueError: Unequal lengths, nan, or an unknown `how`.
    """
    if how not in AGGREGATIONS:
        raise ValueError(f"how is {how!r}; choose one of {', '.join(AGGREGATIONS)}")
    first, second = paired_numbers(gold, predicted)
    if subset is not None and len(subset) != len(first):
        raise ValueError(f"subset has {len(subset)} entries for {len(first)} pairs; give one a pair, or None")
    if how == "all" or subset is None:
        return spearman(first, second)
    names = np.asarray(subset)
    masks = [names == name for name in dict.fromkeys(subset)]
    values = [spearman(first[mask], second[mask]) for mask in masks]
    weights = [int(mask.sum()) if how == "wmean" else 1 for mask in masks]
    return float(np.average(values, weights=weights)) if values else float("nan")
