"""Metrics of one model: agreement of scores [n] with gold [n], and the geometry of vectors [n, d].

Agreement is over all pairs or over the targets of a query; for one with 8 targets the calls of
scipy and scikit-learn take 3 to 15 times as long. Alignment and uniformity, on the unit sphere, are
those of Wang and Isola (2020)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb, nan
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.typing import ArrayLike
from pandas import DataFrame

from workbench.metrics.retrieval import RETRIEVAL

Names = Sequence[str] | None  # of the set that each pair belongs to; None: all are in one
FEWEST_TARGETS = 4  # of a query: more than three, RankCSE app. G
FEWEST_QUERIES = 50  # for which the tables show means of KCC and NDCG
_SHORT = 200  # items up to which counting pair by pair takes less time than scipy
_ROWS = 1024  # whose distances to all others are held in memory at once
MEASURE_TITLES = {  # those of retrieval are called by their names
    "spearman": "Spearman",
    "kcc": "KCC",
    "ndcg": "NDCG",
    "accuracy": "accuracy",
    "f1": "F1",
}
_GAINS = {"linear": np.asarray, "exponential": lambda relevance: np.exp2(relevance) - 1}


def paired_numbers(gold: ArrayLike, predicted: ArrayLike) -> tuple[ndarray, ndarray]:
    """Return both as float64 vectors; raise ValueError unless they have one length and no nan."""
    first = np.asarray(gold, float)
    second = np.asarray(predicted, float)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(
            f"gold and predicted have shapes {first.shape} and {second.shape}; they must "
            "be equal vectors"
        )
    for name, values in (("gold", first), ("predicted", second)):
        if missing := int(np.isnan(values).sum()):
            raise ValueError(
                f"{name} contains nan in {missing} of {len(values)} places; drop these pairs"
            )
    return first, second


def average_ranks(values: ArrayLike) -> ndarray:
    """Return ranks from 1, ascending, averaged over ties.

    This is scipy.stats.rankdata without its cost for short lists.
    """
    _, place, size = np.unique(values, return_inverse=True, return_counts=True)
    average = np.cumsum(size) - (size - 1) / 2
    return average[place]


def spearman(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Return Spearman's correlation: Pearson's correlation of the tie-averaged ranks.

    It is in [-1, 1], and nan if one side is constant or n < 2.
    """
    first, second = map(centred_ranks, paired_numbers(gold, predicted))
    squares = (first @ first) * (second @ second)
    if squares == 0:
        return nan
    # Rounding can leave the range by an ulp.
    return float(np.clip(first @ second / np.sqrt(squares), -1, 1))


def centred_ranks(values: ArrayLike) -> ndarray:
    """Return `average_ranks` minus their mean; all are exactly 0 if the values are constant."""
    # Not minus their mean, whose rounding would leave a constant vector unequal to 0.
    ranks = average_ranks(values)
    return ranks - (len(ranks) + 1) / 2


def kendall(gold: ArrayLike, predicted: ArrayLike) -> float:
    """Return Kendall's tau-b, in [-1, 1]; nan if one side is constant or n < 2.

    It is (concordant - discordant) / sqrt((pairs - ties in gold)(pairs - ties in predicted)).
    """
    first, second = paired_numbers(gold, predicted)
    # Short lists by pairs [n, n]; scipy sorts, and its calls cost more than that.
    if len(first) > _SHORT:
        from scipy.stats import kendalltau

        result: Any = kendalltau(first, second)
        return float(result.statistic)
    # Each pair twice, in the numerator and under the root: the factors of 2 cancel.
    # [n, n]: 1 where the row's value is larger than the column's, -1 where it is less.
    a, b = (
        np.greater.outer(values, values) - np.less.outer(values, values) * 1.0
        for values in (first, second)
    )
    untied = np.square(a).sum() * np.square(b).sum()
    return float((a * b).sum() / np.sqrt(untied)) if untied else nan


def ndcg(gold: ArrayLike, predicted: ArrayLike, *, gain: str = "linear") -> float:
    """Return the discounted gain of the predicted order, divided by that of the best order.

    DCG = sum_r gain_r / log2(r + 1), rank r = 1 first, over the full list; targets with tied
    predictions share their mean gain, as in scikit-learn.

    Args:
        gold: Relevances g.
        predicted: Scores, larger is better.
        gain: g ("linear", which fits the range that RankCSE prints) or 2^g - 1 ("exponential").

    Returns:
        A value in [0, 1]; nan where it is undefined: for fewer than two targets, if one relevance
        is negative, or if all are 0.
    """
    relevance, scores = paired_numbers(gold, predicted)
    if len(relevance) < 2 or relevance.min() < 0 or not relevance.any():
        return nan
    gains = _GAINS[gain](relevance)
    discounts = 1 / np.log2(np.arange(len(gains)) + 2)
    # A tie of s targets has the mean of their gains at each of its s ranks.
    _, tie, size = np.unique(-scores, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(size) - 1
    discount_sums = np.diff(np.cumsum(discounts)[last_rank], prepend=0.0)
    mean_gains = np.bincount(tie, weights=gains) / size
    best = np.sort(gains)[::-1] @ discounts
    # The sums of a perfect order round apart.
    return float(min(mean_gains @ discount_sums / best, 1.0))


def spearman_by_subset(
    gold: ArrayLike, predicted: ArrayLike, subset: Names, *, how: str = "all"
) -> float:
    """Return Spearman's correlation of a dataset that consists of subsets, as STS12 to STS16 do.

    Args:
        gold: [n].
        predicted: [n].
        subset: The subset of each pair.
        how: "all": one correlation over all pairs (SimCSE and the methods here); "mean": the mean
            over subsets; or "wmean": weighted by their sizes (BERT-flow, whitening). They differ
            by points.
    """
    if how not in ("all", "mean", "wmean"):
        raise ValueError(f"how is {how!r}; give all, mean or wmean")
    first, second = paired_numbers(gold, predicted)
    if how == "all" or subset is None:
        return spearman(first, second)
    sets = rows_by_set(subset, len(first))
    weights = {"mean": None, "wmean": list(map(len, sets))}[how]
    correlations = [spearman(first[rows], second[rows]) for rows in sets]
    return float(np.average(correlations, weights=weights))


def rows_by_set(sets: Names, count: int) -> list[ndarray]:
    """Return the row numbers of each set of `count` pairs; None: all are in one."""
    if sets is None or not count:
        return [np.arange(count)]
    if len(sets) != count:
        raise ValueError(
            f"there are {len(sets)} names of sets for {count} pairs; give one per pair, or None"
        )
    return [np.flatnonzero(np.asarray(sets) == name) for name in dict.fromkeys(sets)]


def similar_third(gold: ArrayLike, scale: tuple[float, float]) -> ndarray:
    """Return the mask of the similar third: gold above 0.67 of the way up its scale.

    This is the set of RankEncoder figure 5; `gold` is [n].
    """
    low, high = scale
    return np.asarray(gold) > low + 0.67 * (high - low)


@dataclass(frozen=True, eq=False)
class RankingGroup:
    """One query with its targets, in the order of the pairs; iteration yields the targets.

    Attributes:
        pairs: The index of each target's pair, so that `predicted[group.pairs]` are the targets'
            scores.
        gold: [targets].
    """

    query: str
    targets: tuple[str, ...]
    pairs: ndarray
    gold: ndarray

    def __iter__(self) -> Iterator[str]:
        return iter(self.targets)


def ranking_groups(
    sentence1: Sequence[str], sentence2: Sequence[str], gold: ArrayLike
) -> dict[str, RankingGroup]:
    """Return query -> RankingGroup of every sentence in more than three pairs.

    Queries are in order of first appearance. A sentence counts on both sides, a pair of a sentence
    with itself once; repeated pairs are separate targets. STS-B test has 19 such queries: quote the
    number together with any mean (RankCSE app. G).
    """
    labels = np.asarray(gold, float)
    # Targets by the index of their pair, so that a pair of a sentence with itself counts once.
    members = defaultdict[str, dict[int, str]](dict)
    for index, (first, second, _) in enumerate(zip(sentence1, sentence2, labels, strict=True)):
        members[first][index] = second
        members[second][index] = first
    groups = {}
    for query, partners in members.items():
        if len(partners) >= FEWEST_TARGETS:
            pairs = np.array([*partners])
            groups[query] = RankingGroup(query, tuple(partners.values()), pairs, labels[pairs])
    return groups


def alignment(a: ArrayLike, b: ArrayLike) -> float:
    """Return the mean of ||a_i - b_i||^2 over positive pairs, after normalising.

    `a` and `b` are [n, d], the two sides of the pairs (in the papers: those with gold above 4 of
    5). The value is in [0, 4], smaller is better; nan without pairs, or if a vector is zero.
    """
    first = _directions(a)
    second = _directions(b)
    if first.shape != second.shape:
        raise ValueError(
            f"a and b have shapes {first.shape} and {second.shape}; they must be equal"
        )
    if not first.size:
        return nan
    return float(np.square(first - second).sum(axis=1).mean())


def uniformity(x: ArrayLike) -> float:
    """Return the log of the mean of exp(-2 ||x_i - x_j||^2) over pairs of rows i < j.

    `x` is [n, d], and is normalised. The value is in [-8, 0], smaller is better (evenly spread
    vectors of many dimensions reach about -4); nan for fewer than two rows, or if a vector is zero.
    """
    rows = _directions(x)
    n = len(rows)
    if n < 2:
        return nan
    # Block by block: all distances of 100,000 rows would take 80 GB.
    total = 0.0
    for start in range(0, n, _ROWS):
        block = rows[start : start + _ROWS]
        size = len(block)
        potential = (4 * block) @ rows[start:].T  # ||x - y||^2 = 2 - 2 x.y for unit rows
        potential -= 4
        np.exp(potential, out=potential)
        within = np.triu(potential[:, :size], k=1)  # pairs of the block itself, once
        total += potential[:, size:].sum() + within.sum()
    return float(np.log(total / comb(n, 2)))


def _directions(vectors: ArrayLike) -> ndarray:
    """Return rows of length 1, in float64; a row of zeros has no direction and becomes nan."""
    rows = np.atleast_2d(np.asarray(vectors, float))
    if not np.isfinite(rows).all():
        raise ValueError("the vectors contain nan or infinity; the encoder is broken or diverged")
    # Not an error: one empty sentence makes the metric nan and the rest stays.
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, np.nan, lengths)


def metrics_table(metrics: Mapping[str, Any]) -> DataFrame:
    """Return metrics.json as a table, correlations and accuracies x 100.

    Columns that no suite has are left out.
    """
    rows = []
    for suite, values in metrics.items():
        counted = "classified" if "accuracy" in values else "pairs"
        if "kcc" in values and "spearman" not in values:
            counted = "targets"  # of rankings alone
        rows.append({"suite": suite, counted: values.get("n"), **values})
    of_pairs = ["pairs", "targets", "spearman", "kcc", "ndcg", *RETRIEVAL, "queries"]
    # `filter` keeps this order and skips what no suite has.
    table = DataFrame(rows).filter(["suite", *of_pairs, "classified", "accuracy", "f1"])
    for name in table.columns[1:]:
        if name in (*MEASURE_TITLES, *RETRIEVAL):
            table[name] = 100 * table[name].astype(float)
        else:
            table[name] = table[name].astype("Int64")
    return table.rename(columns=MEASURE_TITLES)
