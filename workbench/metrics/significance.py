"""Significance: intervals, paired permutation tests, and the power of seeds.

Intervals are over pairs, over seeds, or over both.
"""

import math
from collections.abc import Callable, Sequence
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

# Of scores, or of predicted classes: the share that equals gold.
Measure = Literal["spearman", "accuracy"]
# Numbers that are resampled at once; another number draws other resamples of several datasets.
_BLOCK = 20_000
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
        measure: Spearman of the scores, or the accuracy of predicted classes.
        samples, seed: Number of resamples, and of their generator.

    Undefined resamples are left out; the ends are nan if most are undefined.
    """
    truth, scores = paired_numbers(gold, predicted)
    value = mean_over_sets(truth, scores, sets=sets, measure=measure)
    options: Any = {"sets": sets, "measure": measure, "samples": samples, "seed": seed}
    values = bootstrap_values(truth, scores, **options)
    if other is not None:
        second = paired_numbers(gold, other)[1]
        value -= mean_over_sets(truth, second, sets=sets, measure=measure)
        values -= bootstrap_values(truth, second, **options)  # of the same resamples
    return percentile_interval(value, values)


def percentile_interval(value: float, resampled: ndarray) -> Interval:
    """Return a value with the ends of the middle 95% of its resamples.

    Undefined resamples are left out; the ends are nan if most are undefined.
    """
    # A constant resample has no correlation; a few of them may be dropped, most of them not.
    if np.isnan(value) or np.mean(np.isnan(resampled)) > 0.5:
        return Interval(value, math.nan, math.nan)
    low, high = np.nanquantile(resampled, [_LOW, _HIGH]).tolist()
    return Interval(value, low, high)


def mean_over_sets(
    gold: ArrayLike, predicted: ArrayLike, *, sets: Names = None, measure: Measure = "spearman"
) -> float:
    """Return Spearman or accuracy as a mean over datasets; `sets` is that of each pair."""
    truth, scores = paired_numbers(gold, predicted)
    value_of = _VALUES[measure]
    rows_of_sets = rows_by_set(sets, len(truth))
    return float(np.mean([value_of(truth[rows], scores[rows]) for rows in rows_of_sets]))


def bootstrap_values(
    gold: ArrayLike,
    predicted: ArrayLike,
    *,
    sets: Names = None,
    measure: Measure = "spearman",
    samples: int = 1000,
    seed: int = 0,
) -> ndarray:
    """Return a model's value on each resample of the pairs [samples].

    A seed draws the same for every model.
    """
    truth, scores = paired_numbers(gold, predicted)
    rows = rows_by_set(sets, len(truth))
    if min(map(len, rows)) < 2:
        return np.full(samples, np.nan)
    is_right = truth == scores
    gold_codes = _integer_codes(truth, rows)
    score_codes = _integer_codes(scores, rows)

    def values_of_set(drawn: ndarray) -> Any:
        if measure == "accuracy":
            return is_right[drawn].mean(axis=-1)
        centre = (drawn.shape[-1] + 1) / 2
        a = _ranks_of_integers(gold_codes[drawn]) - centre
        b = _ranks_of_integers(score_codes[drawn]) - centre
        squares = np.einsum("...n,...n", a, a) * np.einsum("...n,...n", b, b)
        products = np.einsum("...n,...n", a, b)
        return np.clip(products / np.sqrt(squares), -1, 1)

    # One generator for all blocks: the block's size decides which resamples are drawn.
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // len(truth))
    values = np.empty(samples)
    for start in range(0, samples, block):
        count = min(block, samples - start)
        # All sets are drawn before any is computed: the resamples are those of earlier versions.
        drawn = [row[generator.integers(0, len(row), (count, len(row)))] for row in rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            values[start : start + block] = sum(map(values_of_set, drawn)) / len(drawn)
    return values


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

    The measure is Spearman or accuracy.

    Under the null hypothesis the two models' ranks (or classes) of a pair can be exchanged by
    tossing a coin. Ranks, not scores, so that the models need not share a scale; they are not
    ranked again after the exchange, which is ten times as quick and gives nearly the same p-values.
    Arguments are those of `bootstrap_interval`. The difference is positive if `predicted` is
    better, p_value is in [1 / (samples + 1), 1]; both are nan if a correlation is undefined.
    """
    return permutation_tests(
        gold, [predicted], other, sets=sets, measure=measure, samples=samples, seed=seed
    )[0]


def permutation_tests(
    gold: ArrayLike,
    predicted: Sequence[ArrayLike],
    other: ArrayLike,
    *,
    sets: Names = None,
    measure: Measure = "spearman",
    samples: int = 1000,
    seed: int = 0,
) -> list[PermutationTest]:
    """Return `permutation_test` of `predicted[i]` against `other` for each i.

    All tests share the tossed coins, so that a toss of all models is one matrix product: 300 tests
    of 1,000 pairs take a twentieth of the time of single ones (benchmarks/compare.py)."""
    truth, second = paired_numbers(gold, other)
    first = [paired_numbers(gold, scores)[1] for scores in predicted]
    rows = rows_by_set(sets, len(truth))
    exchanges = []
    observed = np.zeros(len(first))
    for row in rows:
        exchange = _exchange(measure, truth[row], [scores[row] for scores in first], second[row])
        exchanges.append((len(row), exchange))
        observed += exchange(np.zeros((1, len(row))))[0] / len(rows)
    # One stream of coins for all models: their p-values differ by the models alone.
    coin = np.random.default_rng(seed)
    block = max(1, 10 * _BLOCK // max(1, len(truth)))
    as_large = np.zeros(len(first), dtype=int)
    for start in range(0, samples, block):
        count = min(block, samples - start)
        chance = np.zeros((count, len(first)))
        for pairs, exchange in exchanges:
            tosses = coin.integers(0, 2, (count, pairs), dtype=np.int8)
            chance += exchange(tosses.astype(float)) / len(rows)
        # A constant mixture has no correlation and does not count as smaller; rounding must not
        # decide a tie.
        is_smaller = abs(chance) < abs(observed) - 1e-12
        as_large += (~is_smaller).sum(axis=0)
    # The observed table counts as one of the permutations, so that p is never 0.
    p_values = np.where(np.isnan(observed), np.nan, (1 + as_large) / (1 + samples))
    return list(map(PermutationTest, observed.tolist(), p_values.tolist()))


def holm(p_values: ArrayLike) -> ndarray:
    """Return Holm's adjusted p-values of several tests, in the order given; nan stays nan."""
    p = np.asarray(p_values, dtype=float)
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
    numbers = np.asarray(values, dtype=float)
    mean = float(numbers.mean()) if len(numbers) else math.nan
    return Spread(mean, float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan, len(numbers))


def seed_interval(values: ArrayLike) -> Interval:
    """Return the mean of n independent values, as of seeds, with its 95% Student t interval.

    The ends are nan for n < 2.
    """
    from scipy.special import stdtrit

    mean, std, n = seed_spread(values)
    # scipy.special and not scipy.stats, which takes a second to import.
    half = float(stdtrit(n - 1, _HIGH)) * std / math.sqrt(max(1, n))
    return Interval(mean, mean - half, mean + half)


def hierarchical_interval(observed: Any, resampled: Any) -> Interval:
    """Return the mean difference of two methods with its 95% interval over seeds and pairs.

    observed: The difference of each seed, or the mean difference of each start. resampled: The same
        [seeds, draws] under common resamples of the pairs, from `bootstrap_values`.

    Five seeds, resampled, lack the tails of t. So an end's squared distance is the sum of two
    (MOVER, Zou and Donner 2008): that of `seed_interval`, and that of the quantile of the resampled
    means, which are shrunk by the interaction of seeds and pairs, since the first contains it. The
    ends are nan for one seed, or if a draw is undefined."""
    # Student's t over seeds has the right tails for five of them; a bootstrap of five does not.
    value, low, high = seed_interval(observed)
    below, above = np.quantile(effects_of_pairs(resampled), [_LOW, _HIGH])
    return Interval(
        value,
        value - math.hypot(value - low, below),
        value + math.hypot(high - value, above),
    )


def effects_of_pairs(resampled: Any) -> ndarray:
    """Return by how much each resample of the pairs changes the difference [draws].

    The change is common to all seeds.

    resampled: [seeds, draws]. The mean over seeds is shrunk by its part that is an interaction of
        seeds and pairs.
    """
    draws = np.asarray(resampled, dtype=float)
    effects = draws - draws.mean(axis=1, keepdims=True)
    means = effects.mean(axis=0)
    # The part of the variance of `means` that is an interaction.
    interaction = ((effects - means) ** 2).mean() / max(1, len(draws) - 1)
    share = interaction / max(means.var(), 1e-300)
    return means * math.sqrt(max(0.0, 1 - share))


def hierarchical_p(observed: Any, resampled: Any) -> float:
    """Return the level at which the interval of `hierarchical_interval` ends at 0.

    The arguments are the same; both parts of the distance are taken as normal, with Student's t
    over seeds. Values under 1e-12 are 1e-12; nan for one seed, or if a draw is undefined.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri, stdtrit

    mean, std, n = seed_spread(observed)
    pairs_std = float(effects_of_pairs(resampled).std()) if len(resampled) else 0.0
    if n < 2 or math.isnan(pairs_std) or math.isnan(mean):
        return math.nan
    seed_error = std / math.sqrt(n)

    def end(log_p: float) -> float:
        quantile = 1 - math.exp(log_p) / 2
        return abs(mean) - math.hypot(
            stdtrit(n - 1, quantile) * seed_error, ndtri(quantile) * pairs_std
        )

    # Beyond it quantiles of the normal are not exact.
    lowest = math.log(1e-12)
    if end(lowest) > 0:
        return 1e-12
    level: Any = brentq(end, lowest, 0)
    return math.exp(level)


def bootstrap_means(values: ArrayLike, *, samples: int = 1000, seed: int = 0) -> ndarray:
    """Return the means of resampled values [samples], such as of one value for each query.

    A seed draws the same queries for every system.
    """
    numbers = np.asarray(values, dtype=float)
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(numbers), (samples, len(numbers)))
    return numbers[drawn].mean(axis=1)


def sign_flip_test(
    differences: ArrayLike, *, samples: int = 1000, seed: int = 0
) -> PermutationTest:
    """Test a mean of paired differences, such as of two systems on each query, two-sided.

    Under the null hypothesis the two values of a query can be exchanged, which changes the sign of
    its difference. p_value is in [1 / (samples + 1), 1]; both are nan without differences.
    """
    values = np.asarray(differences, dtype=float)
    if not len(values):
        return PermutationTest(math.nan, math.nan)
    observed = float(values.mean())
    # One byte for each: 1,000 changes of 10,000 queries are 10 MB.
    signs = np.random.default_rng(seed).integers(0, 2, (samples, len(values)), dtype=np.int8)
    chance = (2.0 * signs - 1) @ values / len(values)
    # Rounding must not decide a tie.
    as_large = int((abs(chance) >= abs(observed) - 1e-12).sum())
    return PermutationTest(observed, (1 + as_large) / (1 + samples))


def smallest_difference(std: float, n: int, *, power: float = 0.8, pairs_std: float = 0.0) -> float:
    """Return the smallest true mean difference that is detected with this power over n seeds.

    std: Of the difference over seeds. pairs_std: Of its mean over the sampled pairs, common to all
        seeds. A difference is detected if the interval of `hierarchical_interval` is above 0, which
        for pairs_std 0 is a paired t test. Both parts are assumed to be normal; the std that a
        sweep will estimate is averaged over. nan for n < 2."""
    from scipy.optimize import brentq
    from scipy.special import gammaincinv, ndtr, ndtri, stdtrit

    error = math.hypot(std / math.sqrt(max(1, n)), pairs_std)
    if n > 1 and error == 0:
        return 0.0
    if n < 2 or not error > 0:
        return math.nan
    # Quantiles of the variance that a sweep of n seeds will estimate.
    half = (n - 1) / 2
    variances = std**2 * gammaincinv(half, (np.arange(2000) + 0.5) / 2000) / half
    of_seeds = stdtrit(n - 1, _HIGH) ** 2 * variances / n
    of_pairs = (ndtri(_HIGH) * pairs_std) ** 2
    # What the observed difference must exceed, and how often a true difference does.
    needed = np.sqrt(of_seeds + of_pairs)

    def missing_power(true: float) -> float:
        return ndtr((true - needed) / error).mean() - power

    smallest: Any = brentq(missing_power, 0, needed.max() + 10 * error)
    return float(smallest)


def _integer_codes(values: ndarray, rows: list[ndarray]) -> ndarray:
    """Return integers from 0 that are ordered and tied as the values of each dataset are."""
    codes = np.empty(len(values), dtype=np.int64)
    for row in rows:
        codes[row] = np.unique(values[row], return_inverse=True)[1]
    return codes


def _ranks_of_integers(codes: ndarray) -> ndarray:
    """Return average ranks [samples, n] along the rows of `codes`, by counting.

    That takes a quarter of the time of sorting.
    """
    size = codes.max() + 1
    # One count for all rows: row r counts in the cells from r * size.
    cells = codes + size * np.arange(len(codes))[:, None]
    counts = np.bincount(cells.ravel(), minlength=len(codes) * size).reshape(-1, size)
    ranks_of_codes = counts.cumsum(axis=1) - (counts - 1) / 2
    return ranks_of_codes.ravel()[cells]


def _exchange(
    measure: Measure, truth: ndarray, models: Sequence[ndarray], other: ndarray
) -> Callable[[ndarray], ndarray]:
    """Return a function of tosses, 0 or 1 [samples, n], that exchanges the pairs with 1.

    It returns the difference of each of the models from the other [samples, models].
    """
    prepare, terms_of, value_of = _PERMUTATIONS[measure]
    gold = prepare(truth)
    terms = terms_of(gold, np.stack([prepare(scores) for scores in models]))
    other_terms = terms_of(gold, prepare(other)[None])
    sums = terms.sum(axis=-1)
    other_sums = other_terms.sum(axis=-1)
    # What the exchange of a pair adds to a model's sums, and takes from the other's.
    change = (other_terms - terms).reshape(-1, len(gold)).T

    def difference(tosses: ndarray) -> ndarray:
        # One matrix product for all models.
        moved = (tosses @ change).reshape(len(tosses), *sums.shape)
        return value_of(gold, sums + moved) - value_of(gold, other_sums - moved)

    return difference


def _rank_terms(gold: ndarray, ranks: ndarray) -> ndarray:
    """Return what each pair adds to three sums [3, models, n] that a correlation follows from."""
    return np.stack([ranks, ranks**2, gold * ranks])


def _correlations(gold: ndarray, sums: ndarray) -> ndarray:
    """Return correlations [samples, models] with gold, centred ranks, from the three sums."""
    total, squares, product = sums.swapaxes(0, 1)
    spread = (gold @ gold) * (squares - total * (total / len(gold)))
    with np.errstate(invalid="ignore", divide="ignore"):
        # Sums of half numbers are exact, so constant ranks have no spread at all.
        return np.where(spread > 0, product / np.sqrt(spread), np.nan)


def _correct_terms(gold: ndarray, classes: ndarray) -> ndarray:
    """Return 1.0 for each class that is right [1, models, n]."""
    return np.equal(gold, classes)[None].astype(float)


def _accuracies(gold: ndarray, sums: ndarray) -> ndarray:
    return sums[:, 0] / len(gold)


_VALUES = {"spearman": spearman, "accuracy": lambda gold, classes: np.mean(gold == classes)}
# measure -> what is compared, a pair's terms of its sums, and the measure that follows from these
_PERMUTATIONS: dict[str, tuple[Any, Any, Any]] = {
    "spearman": (centred_ranks, _rank_terms, _correlations),
    "accuracy": (np.asarray, _correct_terms, _accuracies),
}
