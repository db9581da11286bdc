"""How sure a score is: intervals over pairs, paired tests between two models, spread over seeds."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from workbench.metrics.correlation import average_ranks, paired_numbers, spearman

Metric = Callable[[np.ndarray, np.ndarray], float]


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


def _interval(value: float, samples: list[float], level: float) -> Interval:
    """Percentiles of the samples; nan unless the value itself and most of the samples are defined."""
    if np.isnan(value) or np.mean(np.isnan(samples)) > 0.5:
        return Interval(value, float("nan"), float("nan"))
    low, high = np.nanquantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high))


def _require_resampling(samples: int, level: float) -> None:
    if samples < 1 or not 0 < level < 1:
        raise ValueError(f"samples is {samples} and level {level}; give at least one sample and a level such as 0.95")


def bootstrap_interval(
    gold: ArrayLike,
    predicted: ArrayLike,
    *,
    metric: Metric = spearman,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a metric over pairs drawn again with replacement. It covers the choice of pairs, no more.

    Args:
        gold: n labels.
        predicted: n scores.
        metric: (gold, predicted) -> value.
        samples: How many draws.
        level: Share of the draws inside the interval.
        seed: Of the draws; the same seed gives the same interval.

    Returns:
        value, low, high. Draws on which the metric is undefined are left out; the ends are nan if most are.

    Raises:
        ValueError: Unequal lengths, nan, no samples, or a level outside (0, 1).
    """
    _require_resampling(samples, level)
    first, second = paired_numbers(gold, predicted)
    draws = np.random.default_rng(seed)
    values = []
    for _ in range(samples):
        drawn = draws.integers(len(first), size=len(first)) if len(first) else np.empty(0, dtype=int)
        values.append(metric(first[drawn], second[drawn]))
    return _interval(metric(first, second), values, level)


def paired_bootstrap(
    gold: ArrayLike,
    predicted: ArrayLike,
    other: ArrayLike,
    *,
    metric: Metric = spearman,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile interval of metric(gold, predicted) - metric(gold, other), both on the same drawn pairs.

    Args, raises: as `bootstrap_interval`; `other` holds the second model's scores of the same pairs.

    Returns:
        value (positive: `predicted` is better), low, high. An interval without 0 speaks for a difference.
    """
    _require_resampling(samples, level)
    truth, first = paired_numbers(gold, predicted)
    second = paired_numbers(gold, other)[1]
    draws = np.random.default_rng(seed)
    values = []
    for _ in range(samples):
        drawn = draws.integers(len(truth), size=len(truth)) if len(truth) else np.empty(0, dtype=int)
        values.append(metric(truth[drawn], first[drawn]) - metric(truth[drawn], second[drawn]))
    return _interval(metric(truth, first) - metric(truth, second), values, level)


def permutation_test(
    gold: ArrayLike, predicted: ArrayLike, other: ArrayLike, *, samples: int = 1000, seed: int = 0
) -> PermutationTest:
    """Two-sided paired permutation test of two models' Spearman on the same pairs.

    Under the null hypothesis the two models' ranks of a pair can be exchanged, pair by pair, by the toss of a coin.
    Ranks, not scores, are exchanged: the models need not share a scale.

    Args:
        gold: n labels.
        predicted: One model's scores.
        other: The other model's scores of the same pairs.
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
    difference = spearman(truth, first) - spearman(truth, second)
    if np.isnan(difference):
        return PermutationTest(difference, float("nan"))
    first, second = average_ranks(first), average_ranks(second)
    coin = np.random.default_rng(seed)
    as_large = 0
    for _ in range(samples):
        swap = coin.random(len(truth)) < 0.5
        chance = spearman(truth, np.where(swap, second, first)) - spearman(truth, np.where(swap, first, second))
        # A constant mixture has no correlation and cannot be called smaller; rounding must not break a draw.
        as_large += not abs(chance) < abs(difference) - 1e-12
    return PermutationTest(difference, (1 + as_large) / (1 + samples))


def seed_spread(values: ArrayLike) -> Spread:
    """Mean and sample standard deviation over seeds; the deviation is nan for a single seed, both for none.

    A value that is nan makes both nan: a failed seed is not left out in silence.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise ValueError(f"values have shape {numbers.shape}; give one number a seed")
    mean = float(numbers.mean()) if len(numbers) else float("nan")
    return Spread(mean, float(numbers.std(ddof=1)) if len(numbers) > 1 else float("nan"), len(numbers))
