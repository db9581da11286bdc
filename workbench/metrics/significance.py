"""How sure a score is: intervals over pairs, paired tests between two models, spread over seeds."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from workbench.metrics._resampling import (
    BLOCK,
    blocks,
    drawn_times,
    weighted_correlations,
    weighted_ranks,
)
from workbench.metrics.correlation import average_ranks, paired_numbers, spearman

Measure = Literal["spearman", "accuracy"]  # of scores, or of predicted classes: the share that is gold
Method = Literal["percentile", "bca"]


class Interval(NamedTuple):
    """A value with the ends of its interval."""

    value: float
    low: float
    high: float


class PermutationTest(NamedTuple):
    """The difference of two models and how often chance alone makes one as large."""

    difference: float
    p_value: float


class Spread(NamedTuple):
    """Mean and sample standard deviation (n - 1) over n seeds."""

    mean: float
    std: float
    n: int

    def __str__(self) -> str:
        """As tables show it: the mean, and where there are several seeds ± the deviation."""
        return f"{self.mean:.2f}" if self.n == 1 else f"{self.mean:.2f} ± {self.std:.2f}"


def bootstrap_interval(
    gold: ArrayLike,
    predicted: ArrayLike,
    other: ArrayLike | None = None,
    *,
    sets: Sequence[str] | None = None,
    measure: Measure = "spearman",
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Bootstrap interval over pairs (or rows) drawn again with replacement. It covers their choice, no more.

    Args:
        gold: n labels.
        predicted: n scores.
        other: A second model's scores of the same pairs: the value is that of `predicted` less its own, both on the
            same drawn pairs. An interval without 0 speaks for a difference.
        sets: The set of each pair: the value is the mean of the sets' values, and each set's pairs are drawn from its
            own. None: all are one set.
        measure: Spearman of the scores, or the accuracy of predicted classes.
        samples: How many draws.
        level: Share of the draws inside the interval.
        seed: Of the draws; the same seed gives the same interval.
        method: "percentile": between quantiles of the draws. "bca": quantiles corrected for bias and skewness (Efron
            1987), by scipy; nearer to its level where a value is close to 1 or the pairs are few, at the cost of n
            further draws, each without one of the pairs.

    Returns:
        value, low, high. Draws on which a correlation is undefined are left out; the ends are nan if most are, of "bca"
        if any is.

    Raises:
        ValueError: Unequal lengths, nan, no samples, or a level outside (0, 1).
    """
    _require_resampling(samples, level)
    truth, scores = paired_numbers(gold, predicted)
    rows = _rows(sets, len(truth))
    value, values = _value(measure, truth, scores, rows), _of_draws(measure, truth, scores, rows)
    if other is not None:
        seconds = paired_numbers(gold, other)[1]
        value -= _value(measure, truth, seconds, rows)
        values = _gains(values, _of_draws(measure, truth, seconds, rows))
    return _interval(value, values, rows, samples=samples, level=level, seed=seed, method=method)


def permutation_test(
    gold: ArrayLike,
    predicted: ArrayLike,
    other: ArrayLike,
    *,
    sets: Sequence[str] | None = None,
    measure: Measure = "spearman",
    samples: int = 1000,
    seed: int = 0,
) -> PermutationTest:
    """Two-sided paired permutation test of two models' Spearman, or accuracy, on the same pairs.

    Under the null hypothesis the two models' ranks (or classes) of a pair can be exchanged, pair by pair, by the toss
    of a coin. Ranks, not scores, are exchanged, so that the models need not share a scale, and what was exchanged is
    correlated as it is: ranked anew it would say much the same, ten times as slowly.

    Args:
        gold: n labels.
        predicted: One model's scores.
        other: The other model's scores of the same pairs.
        sets: The set of each pair: ranks are those in its set, and the means of the sets' values are compared.
        measure: As `bootstrap_interval`.
        samples: How many exchanges; the smallest p-value is 1 / (samples + 1).
        seed: Of the coin.

    Returns:
        difference (positive: `predicted` is better) and p_value in (0, 1]; both nan where a correlation is undefined.

    Raises:
        ValueError: Unequal lengths, nan, or no samples.
    """
    _require_resampling(samples, 0.95)
    truth, first = paired_numbers(gold, predicted)
    second = paired_numbers(gold, other)[1]
    rows = _rows(sets, len(truth))
    difference = _value(measure, truth, first, rows) - _value(measure, truth, second, rows)
    if np.isnan(difference):
        return PermutationTest(difference, float("nan"))
    if measure == "accuracy":
        gains = [(first[row] == truth[row]) * 1.0 - (second[row] == truth[row]) for row in rows]
        chance = _exchanged(gains, np.random.default_rng(seed), samples)
        return PermutationTest(difference, (1 + int((abs(chance) >= abs(difference) - 1e-12).sum())) / (1 + samples))
    ranked = [[_centred_ranks(side[row]) for side in (truth, first, second)] for row in rows]
    coin = np.random.default_rng(seed)
    # A constant mixture has no correlation and cannot be called smaller; rounding must not break a draw.
    as_large = sum(
        int((~(abs(_exchanged_ranks(ranked, coin, draws)) < abs(difference) - 1e-12)).sum())
        for draws in blocks(samples, len(truth))
    )
    return PermutationTest(difference, (1 + as_large) / (1 + samples))


def holm(p_values: ArrayLike) -> np.ndarray:
    """Holm's correction for several tests: adjusted p-values in [0, 1], in the order given; nan stays nan.

    To call those under alpha significant keeps the chance of any false call at alpha, however the tests depend.
    """
    given = np.asarray(p_values, dtype=np.float64)
    if given.ndim != 1:
        raise ValueError(f"p_values have shape {given.shape}; give one number a test")
    found = np.full(given.shape, np.nan)
    known = np.flatnonzero(~np.isnan(given))
    order = known[np.argsort(given[known], kind="stable")]
    steps = given[order] * np.arange(len(order), 0, -1)
    found[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return found


def seed_spread(values: ArrayLike) -> Spread:
    """Mean and sample standard deviation over seeds; the deviation is nan for a single seed, both for none.

    A value that is nan makes both nan: a failed seed is not left out in silence.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise ValueError(f"values have shape {numbers.shape}; give one number a seed")
    mean = float(numbers.mean()) if len(numbers) else float("nan")
    return Spread(mean, float(numbers.std(ddof=1)) if len(numbers) > 1 else float("nan"), len(numbers))


def _require_resampling(samples: int, level: float) -> None:
    if samples < 1 or not 0 < level < 1:
        raise ValueError(f"samples is {samples} and level {level}; give at least one sample and a level such as 0.95")


def _rows(sets: Sequence[str] | None, count: int) -> list[np.ndarray]:
    """The rows of each set."""
    if sets is not None and len(sets) != count:
        raise ValueError(f"sets has {len(sets)} entries for {count} pairs; give one a pair, or None")
    if sets is None or not count:
        return [np.arange(count)]
    names = np.asarray(sets)
    return [np.flatnonzero(names == name) for name in dict.fromkeys(sets)]


def _value(measure: Measure, gold: np.ndarray, predicted: np.ndarray, rows: list[np.ndarray]) -> float:
    """The mean over the sets; nan where there is nothing to measure."""
    if measure == "spearman":
        return float(np.mean([spearman(gold[row], predicted[row]) for row in rows]))
    return float(np.mean([np.mean(gold[row] == predicted[row]) if len(row) else np.nan for row in rows]))


def _exchanged(gains: list[np.ndarray], coin: np.random.Generator, samples: int) -> np.ndarray:
    """[samples]: the mean over the sets of the mean gain a row, each row's sign by the toss of a coin."""
    return np.array(
        [
            np.mean([np.mean(np.where(coin.random(len(gain)) < 0.5, gain, -gain)) for gain in gains])
            for _ in range(samples)
        ]
    )


def _of_draws(
    measure: Measure, gold: np.ndarray, predicted: np.ndarray, rows: list[np.ndarray]
) -> Callable[..., np.ndarray]:
    """Of the rows [..., n] drawn of each set: the mean over the sets of the value, [...]."""

    def values(*drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(np.mean(np.broadcast_arrays(*map(of_set, known, drawn)), axis=0))

    of_set: Callable[..., np.ndarray] = _drawn_accuracy if measure == "accuracy" else _drawn_correlation
    known: list[Any] = [gold[row] == predicted[row] for row in rows]
    if measure == "spearman":
        # Whole numbers in the order of the values, equal where these are.
        known = [[np.unique(side[row], return_inverse=True)[1] for side in (gold, predicted)] for row in rows]
    return values


def _gains(ours: Callable[..., np.ndarray], theirs: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Of the same draws, what one gives less what the other gives."""

    def gains(*drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray(ours(*drawn) - theirs(*drawn))

    return gains


def _drawn_accuracy(right: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    return right[drawn].mean(axis=-1)


def _drawn_correlation(places: list[np.ndarray], drawn: np.ndarray) -> np.ndarray:
    """A draw says how often each pair counts: what is sorted once gives the ranks of every draw by adding up."""
    times = drawn_times(np.atleast_2d(drawn), len(places[0]))
    truth, scores = (weighted_ranks(each, times) for each in places)
    return weighted_correlations(truth, scores, times).reshape(drawn.shape[:-1])


def _centred_ranks(values: np.ndarray) -> np.ndarray:
    return average_ranks(values) / len(values) - (len(values) + 1) / (2 * len(values))


def _exchanged_ranks(ranked: list[list[np.ndarray]], coin: np.random.Generator, count: int) -> np.ndarray:
    """[count]: the difference of the sets' mean correlations, each pair's ranks exchanged by the toss of a coin.

    Sum, sum of squares and product with gold of a mixture are those of one model, and for each pair that is exchanged
    the difference that this makes: one matrix product for all draws.
    """
    chance = np.zeros(count)
    for gold, ours, theirs in ranked:
        swap = coin.integers(0, 2, (count, len(gold)), dtype=np.int8).astype(np.float64)
        of_ours, of_theirs = (np.stack([side, side**2, gold * side], axis=1) for side in (ours, theirs))
        one = of_ours.sum(axis=0) + swap @ (of_theirs - of_ours)
        other = of_ours.sum(axis=0) + of_theirs.sum(axis=0) - one
        chance += (_correlations(gold, one) - _correlations(gold, other)) / len(ranked)
    return chance


def _correlations(gold: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """[draws]: Pearson's correlation with centred gold, from sum, sum of squares and product; nan of a constant."""
    spread = (gold @ gold) * (sums[:, 1] - sums[:, 0] ** 2 / len(gold))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 1e-12, sums[:, 2] / np.sqrt(spread), np.nan)


def _interval(
    value: float,
    values: Callable[..., np.ndarray],
    rows: list[np.ndarray],
    *,
    samples: int,
    level: float,
    seed: int,
    method: Method,
) -> Interval:
    """Draws the rows of each set again; nan unless the value itself and most of the draws are defined."""
    if np.isnan(value) or min(map(len, rows)) < 2:
        return Interval(value, float("nan"), float("nan"))
    import scipy.stats  # half a second to load, which looking at runs need not wait for

    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)  # no skewness where all draws are one
        found = scipy.stats.bootstrap(
            [np.arange(len(row)) for row in rows],
            values,
            n_resamples=samples,
            batch=max(1, BLOCK // sum(map(len, rows))),
            vectorized=True,
            confidence_level=level,
            method="BCa" if method == "bca" else "percentile",
            rng=np.random.default_rng(seed),
        )
    if method == "bca" and (found.bootstrap_distribution != value).any():
        return Interval(value, float(found.confidence_interval.low), float(found.confidence_interval.high))
    drawn = found.bootstrap_distribution
    if np.mean(np.isnan(drawn)) > 0.5:
        return Interval(value, float("nan"), float("nan"))
    low, high = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))
