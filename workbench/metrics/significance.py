"""Significance: intervals, paired permutation tests, and the power of seeds.

Intervals are over pairs, over seeds, or over both.
"""

from collections.abc import Callable
from math import exp, hypot, isnan, log, nan, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy import ndarray
from numpy.typing import ArrayLike

from workbench.metrics.measures import (
    Names,
    centred_ranks,
    paired_numbers,
    rows_by_set,
    spearman,
)

# Spearman of scores; the share of predicted classes that equal gold; or the mean of values, such as
# one for each query, which reads no gold.
Measure = Literal["spearman", "accuracy", "mean"]
_Function = Callable[[ndarray], ndarray]
# Numbers that are drawn at once; another number draws other resamples of several datasets.
_BLOCK = 20_000
_AT_ONCE = 16  # resamples that are ranked at once: few enough for the processor's cache
# Ends of a 95% interval, as shares of the distribution.
_LOW, _HIGH = 0.025, 0.975


class Interval(NamedTuple):
    value: float
    low: float
    high: float


class PermutationTest(NamedTuple):
    difference: float
    p_value: float


class Spread(NamedTuple):
    """Mean and sample standard deviation (n - 1) over n seeds."""

    mean: float
    std: float
    n: int


def bootstrap_interval(
    gold: ArrayLike,
    predicted: ArrayLike,
    other: ArrayLike | None = None,
    *,
    sets: Names = None,
    measure: Measure = "spearman",
    samples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return a 95% percentile bootstrap confidence interval over pairs.

    It reflects the sampling of pairs, not of seeds.

    Args:
        gold: n labels.
        predicted: n scores, for `measure="accuracy"` classes.
        other: A second model's scores of the same pairs: the value is the first model's minus the
            second's.
        sets: The dataset of each pair: the value is the mean over datasets, and each is resampled
            on its own.
        measure: Spearman of the scores, the accuracy of predicted classes, or the mean of values.
        samples, seed: Number of resamples, and of their generator.

    Undefined resamples are left out; the ends are nan if most are undefined.
    """
    value = mean_over_sets(gold, predicted, sets=sets, measure=measure)
    options = {"sets": sets, "measure": measure, "samples": samples, "seed": seed}
    values = bootstrap_values(gold, predicted, **options)
    if other is not None:
        value -= mean_over_sets(gold, other, sets=sets, measure=measure)
        values -= bootstrap_values(gold, other, **options)  # of the same resamples
    return percentile_interval(value, values)


def percentile_interval(value: float, resampled: ndarray) -> Interval:
    """Return a value with the ends of the middle 95% of its resamples.

    Undefined resamples are left out; the ends are nan if most are undefined.
    """
    # A constant resample has no correlation; a few of them may be dropped, most of them not.
    if np.isnan(value) or np.mean(np.isnan(resampled)) > 0.5:
        return Interval(value, nan, nan)
    low, high = np.nanquantile(resampled, [_LOW, _HIGH]).tolist()
    return Interval(value, low, high)


def mean_over_sets(
    gold: ArrayLike, predicted: ArrayLike, *, sets: Names = None, measure: Measure = "spearman"
) -> float:
    """Return the measure as a mean over datasets; `sets` is that of each pair."""
    truth, scores = _scored(gold, predicted, measure)
    value_of, _, _ = _FUNCTIONS[measure]
    rows_of_sets = rows_by_set(sets, len(truth))
    return float(np.mean([value_of(truth[rows], scores[rows]) for rows in rows_of_sets]))


def bootstrap_values(
    gold: ArrayLike,
    predicted: Any,
    *,
    sets: Names = None,
    measure: Measure = "spearman",
    samples: int = 1000,
    seed: int = 0,
) -> ndarray:
    """Return a model's value on each resample of the pairs [samples].

    A seed draws the same for every model. The arguments are those of `bootstrap_interval`.

    predicted: [n], or [models, n] for values [models, samples], which takes less time than one
        model after the other: pairs are drawn, and gold is ranked, once (benchmarks/compare.py).
    """
    scored = [_scored(gold, scores, measure) for scores in np.atleast_2d(predicted)]
    truth = scored[0][0]
    models = np.array([scores for _, scores in scored])
    rows = rows_by_set(sets, len(truth))
    sizes = list(map(len, rows))
    if min(sizes) < 2:
        values: Any = np.full((len(models), samples), np.nan)
    else:
        _, resampled, _ = _FUNCTIONS[measure]
        drawn = zip(rows, _draw_counts(sizes, samples, seed), strict=True)
        values = sum(resampled(truth[row], models[:, row], counts) for row, counts in drawn)
        values /= len(rows)
    return values.reshape(*np.shape(predicted)[:-1], samples)


def permutation_test(
    gold: ArrayLike,
    predicted: ArrayLike,
    other: ArrayLike,
    *,
    sets: Names = None,
    measure: Measure = "spearman",
    samples: int = 1000,
    seed: int = 0,
) -> PermutationTest:
    """Compare two models on the same pairs by a two-sided paired permutation test.

    Under the null hypothesis the two models' ranks (or classes, or values) of a pair can be
    exchanged by tossing a coin. Ranks, not scores, so that the models need not share a scale; they
    are not ranked again after the exchange, which is ten times as quick and gives nearly the same
    p-values. Arguments are those of `bootstrap_interval`. The difference is positive if `predicted`
    is better; both are nan if a correlation is undefined. p_value is the share of the permutations
    with a difference as large, the observed one included. If of 100 or more no other has one, it is
    at most that of a normal distribution with their spread, 1e-12 or more: otherwise a correction
    for 50 tests would leave no difference clear.
    """
    from scipy.special import ndtr

    truth, first = _scored(gold, predicted, measure)
    _, second = _scored(gold, other, measure)
    rows = rows_by_set(sets, len(truth))
    _, _, exchange = _FUNCTIONS[measure]
    of_sets = [exchange(truth[row], first[row], second[row]) for row in rows]

    def difference(tosses: list[ndarray]) -> Any:
        parts = [exchanged(toss) for exchanged, toss in zip(of_sets, tosses, strict=True)]
        return np.mean(parts, axis=0)

    observed = difference([np.zeros((1, len(row))) for row in rows]).item()
    if isnan(observed):
        return PermutationTest(nan, nan)
    coin = np.random.default_rng(seed)
    block = max(1, 10 * _BLOCK // len(truth))
    as_large = 0
    squares = 0.0
    for start in range(0, samples, block):
        count = min(block, samples - start)
        chance = difference(
            [coin.integers(0, 2, (count, len(row)), dtype=np.int8).astype(float) for row in rows]
        )
        # A constant mixture has no correlation and does not count as smaller; rounding must not
        # decide a tie.
        as_large += int((~(abs(chance) < abs(observed) - 1e-12)).sum())
        squares += float((chance**2).sum())
    # The observed table counts as one of the permutations, so that p is never 0.
    p_value = (1 + as_large) / (1 + samples)
    if not as_large and samples >= 100:  # few say little about the spread
        normal = 2 * ndtr(-abs(observed) / sqrt(squares / samples))
        p_value = min(p_value, max(normal, 1e-12))
    return PermutationTest(observed, p_value)


def holm(p_values: ArrayLike) -> ndarray:
    """Return Holm's adjusted p-values of several tests, in the order given; nan stays nan."""
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]  # nan is sorted last
    adjusted = np.full(p.shape, np.nan)
    # Never below the adjusted value of a smaller p: the order of the tests stays.
    adjusted[order] = np.minimum(
        np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)), 1.0
    )
    return adjusted


def seed_spread(values: ArrayLike) -> Spread:
    """Return mean and sample standard deviation over seeds.

    A value that is nan (a failed seed) makes both nan.
    """
    numbers = np.asarray(values, float)
    mean = float(numbers.mean()) if len(numbers) else nan
    return Spread(mean, float(numbers.std(ddof=1)) if len(numbers) > 1 else nan, len(numbers))


def seed_interval(values: ArrayLike) -> Interval:
    """Return the mean of n independent values, as of seeds, with its 95% Student t interval.

    The ends are nan for n < 2.
    """
    from scipy.special import stdtrit

    mean, std, n = seed_spread(values)
    # scipy.special and not scipy.stats, which takes a second to import.
    half = float(stdtrit(n - 1, _HIGH)) * std / sqrt(max(1, n))
    return Interval(mean, mean - half, mean + half)


def hierarchical_interval(observed: Any, resampled: Any) -> Interval:
    """Return the mean difference of two methods with its 95% interval over seeds and pairs.

    observed: The difference of each seed, or the mean difference of each start. resampled: The same
        [seeds, draws] under common resamples of the pairs, from `bootstrap_values`.

    Five seeds, resampled, lack the tails of t. So an end's squared distance is the sum of two
    (MOVER, Zou and Donner 2008): that of `seed_interval`, and that of the quantile of the resampled
    means, which are shrunk by the interaction of seeds and pairs, since the first contains it. The
    ends are nan for one seed, or if a draw is undefined."""
    value, low, high = seed_interval(observed)
    below, above = np.quantile(effects_of_pairs(resampled), [_LOW, _HIGH])
    return Interval(
        value,
        value - hypot(value - low, below),
        value + hypot(high - value, above),
    )


def effects_of_pairs(resampled: Any) -> ndarray:
    """Return by how much each resample of the pairs changes the difference [draws].

    The change is common to all seeds.

    resampled: [seeds, draws]. The mean over seeds is shrunk by its part that is an interaction of
        seeds and pairs.
    """
    draws = np.asarray(resampled, float)
    effects = draws - draws.mean(axis=1, keepdims=True)
    means = effects.mean(axis=0)
    # The part of the variance of `means` that is an interaction.
    interaction = ((effects - means) ** 2).mean() / max(1, len(draws) - 1)
    share = interaction / max(means.var(), 1e-300)
    return means * sqrt(max(0.0, 1 - share))


def hierarchical_p(observed: Any, resampled: Any) -> float:
    """Return the level at which the interval of `hierarchical_interval` ends at 0.

    The arguments are the same; both parts of the distance are taken as normal, with Student's t
    over seeds. Values under 1e-12 are 1e-12; nan for one seed, or if a draw is undefined.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri, stdtrit

    mean, std, n = seed_spread(observed)
    pairs_std = float(effects_of_pairs(resampled).std()) if len(resampled) else 0.0
    if isnan(std + pairs_std):  # std is nan for one seed
        return nan
    seed_error = std / sqrt(n)

    def end(log_p: float) -> float:
        quantile = 1 - exp(log_p) / 2
        return abs(mean) - hypot(stdtrit(n - 1, quantile) * seed_error, ndtri(quantile) * pairs_std)

    # Beyond it quantiles of the normal are not exact.
    lowest = log(1e-12)
    if end(lowest) > 0:
        return 1e-12
    level: Any = brentq(end, 0, lowest)  # without a difference its first end is the root
    return exp(level)


def smallest_difference(std: float, n: int, *, pairs_std: float = 0.0) -> float:
    """Return the smallest true mean difference that n seeds detect in 80 of 100 cases.

    std: Of the difference over seeds. pairs_std: Of its mean over the sampled pairs, common to all
        seeds. A difference is detected if the interval of `hierarchical_interval` is above 0, which
        for pairs_std 0 is a paired t test. Both parts are assumed to be normal; the std that a
        sweep will estimate is averaged over. nan for n < 2."""
    from scipy.optimize import brentq
    from scipy.special import gammaincinv, ndtr, ndtri, stdtrit

    if n < 2:
        return nan
    error = hypot(std / sqrt(n), pairs_std)
    if not error > 0:  # no spread at all, or nan
        return error
    # Quantiles of the variance that a sweep of n seeds will estimate.
    half = (n - 1) / 2
    variances = std**2 * gammaincinv(half, (np.arange(2000) + 0.5) / 2000) / half
    of_seeds = stdtrit(n - 1, _HIGH) ** 2 * variances / n
    of_pairs = (ndtri(_HIGH) * pairs_std) ** 2
    # What the observed difference must exceed, and how often a true difference does.
    needed = np.sqrt(of_seeds + of_pairs)

    def missing_power(true: float) -> float:
        return ndtr((true - needed) / error).mean() - 0.8

    smallest: Any = brentq(missing_power, 0, needed.max() + 10 * error)
    return float(smallest)


def _scored(gold: ArrayLike, predicted: ArrayLike, measure: Measure) -> tuple[ndarray, ndarray]:
    truth, scores = paired_numbers(gold, predicted)
    # An accuracy is a mean, too: 1 for each class that is right.
    return truth, (truth == scores).astype(float) if measure == "accuracy" else scores


def _draw_counts(sizes: list[int], samples: int, seed: int) -> list[ndarray]:
    """Return for each dataset how often its pairs are drawn [pairs, samples], a byte for each."""
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // sum(sizes))
    # No pair of thousands is drawn 256 times; one of fewer cannot be.
    drawn = [np.empty((size, samples), dtype=np.uint8) for size in sizes]
    for start in range(0, samples, block):
        count = min(block, samples - start)
        for size, counts in zip(sizes, drawn, strict=True):
            pairs = generator.integers(0, size, (count, size))
            # One count for all resamples of the block: that of number r begins at r * size.
            cells = pairs + size * np.arange(count)[:, None]
            counted = np.bincount(cells.ravel(), minlength=cells.size)
            counts[:, start : start + count] = counted.reshape(count, size).T
    return drawn


def _resampled_spearman(gold: ndarray, models: ndarray, counts: ndarray) -> ndarray:
    """Return Spearman [models, samples] where each pair counts so often [n, samples]."""
    rank_gold, *rankings = map(_resampled_ranks, [gold, *models])
    values = np.empty((len(models), counts.shape[1]))
    for start in range(0, counts.shape[1], _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        times = counts[:, part].astype(np.int32)
        gold_ranks = rank_gold(times)
        gold_squares = _column_sums(times * gold_ranks, gold_ranks)
        for model, rank in enumerate(rankings):
            ranks = rank(times)
            weighted = times * ranks
            squares = gold_squares * _column_sums(weighted, ranks)
            with np.errstate(invalid="ignore", divide="ignore"):
                values[model, part] = _column_sums(weighted, gold_ranks) / np.sqrt(squares)
    return np.clip(values, -1, 1)


def _resampled_ranks(values: ndarray) -> _Function:
    """Return a function of counts [n, samples] to twice the centred ranks of values [n, samples].

    Ranks are averaged over ties. Resamples need no sorting: how many values are below another
    follows from their counts."""
    _, codes, sizes = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    # The places in this order at which the values that are tied with each one begin and end.
    end = np.cumsum(sizes)[codes]
    begin = end - sizes[codes]

    def ranks(times: ndarray) -> ndarray:
        n, samples = times.shape
        below = np.zeros((n + 1, samples), times.dtype)
        times.take(order, axis=0).cumsum(axis=0, dtype=times.dtype, out=below[1:])
        # As floating point numbers, whose sums of squares do not overflow.
        return below.take(begin, axis=0) + below.take(end, axis=0) - float(n)

    return ranks


def _column_sums(first: ndarray, second: ndarray) -> ndarray:
    return np.einsum("ns,ns->s", first, second)


def _resampled_means(gold: ndarray, models: ndarray, counts: ndarray) -> ndarray:
    # Not a matrix product, which would make a number of eight bytes of each count.
    return np.einsum("mn,ns->ms", models, counts) / len(gold)


def _exchanged_ranks(gold: ndarray, first: ndarray, second: ndarray) -> _Function:
    """Return a function of tosses, 0 or 1 [samples, n], that exchanges the pairs with 1.

    It returns the first's correlation minus the second's [samples].
    """
    truth, *ranks = map(centred_ranks, (gold, first, second))
    # What each pair adds to three sums [3, n] that a correlation follows from.
    terms, other_terms = [np.stack([own, own**2, truth * own]) for own in ranks]
    change = other_terms - terms

    def correlations(sums: ndarray) -> ndarray:
        total, squares, product = sums
        spread = (truth @ truth) * (squares - total * (total / len(truth)))
        with np.errstate(invalid="ignore", divide="ignore"):
            # Sums of half numbers are exact, so constant ranks have no spread at all.
            return np.where(spread > 0, product / np.sqrt(spread), np.nan)

    def difference(tosses: ndarray) -> ndarray:
        moved = change @ tosses.T
        first_sums = terms.sum(axis=1, keepdims=True) + moved
        second_sums = other_terms.sum(axis=1, keepdims=True) - moved
        return correlations(first_sums) - correlations(second_sums)

    return difference


def _exchanged_means(gold: ndarray, first: ndarray, second: ndarray) -> _Function:
    """Return the same for means: an exchange changes the sign of a pair's difference."""
    return lambda tosses: (1 - 2 * tosses) @ (first - second) / len(gold)


_OF_MEAN = (lambda _, values: float(values.mean()), _resampled_means, _exchanged_means)
# measure -> its value, and functions that return its values under resamples and under exchanges
_FUNCTIONS: dict[str, Any] = {
    "spearman": (spearman, _resampled_spearman, _exchanged_ranks),
    "accuracy": _OF_MEAN,
    "mean": _OF_MEAN,
}
