"""Compare the predicted smallest difference with simulated sweeps of two encoders.

    python benchmarks/power.py

Scores are gold plus noise: of the pair, in common to the seeds of an encoder, and of pair and seed;
how much of the latter differs by seed. The second encoder has more noise, so that the true
difference is the predicted one. Standard deviations are those of 400 other sweeps. "Shown" is the
share of sweeps whose 95% interval (`hierarchical_interval`) is above 0; predicted is 0.80 in every
row."""

import math

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from workbench.metrics import bootstrap_values, hierarchical_interval, smallest_difference, spearman

SWEEPS, SAMPLES, NOISE, OF_PAIR, BY_SEED = 400, 200, 0.5, 0.4, 0.03


def sweep(
    draw: np.random.Generator, pairs: int, seeds: int, more: float
) -> tuple[np.ndarray, list[list[np.ndarray]]]:
    """Return gold [pairs] and for each of two encoders the scores of its seeds; `more` is the
    second one's noise."""
    gold, encoders = draw.standard_normal(pairs), []
    for noise in (NOISE, NOISE + more):
        common = OF_PAIR * draw.standard_normal(pairs)
        amounts = noise * np.exp(BY_SEED * draw.standard_normal(seeds))
        encoders.append(
            [gold + common + amount * draw.standard_normal(pairs) for amount in amounts]
        )
    return gold, encoders


def differences(draw: np.random.Generator, pairs: int, seeds: int, more: float) -> list[float]:
    gold, (first, second) = sweep(draw, pairs, seeds, more)
    return [spearman(gold, a) - spearman(gold, b) for a, b in zip(first, second, strict=True)]


def is_shown(draw: np.random.Generator, pairs: int, seeds: int, more: float) -> bool:
    gold, encoders = sweep(draw, pairs, seeds, more)
    observed, resampled = (
        [one(a) - one(b) for a, b in zip(*encoders, strict=True)]
        for one in (
            lambda side: spearman(gold, side),
            lambda side: bootstrap_values(gold, side, samples=SAMPLES),
        )
    )
    return hierarchical_interval(observed, resampled).low > 0


def lack(more: float, wanted: float) -> float:
    """Return by how much the true difference, the mean of many sweeps, is above the one that is
    wanted."""
    draw = np.random.default_rng(0)
    return float(np.mean([differences(draw, 4000, 10, more) for _ in range(40)])) - wanted


def main() -> None:
    rows = []
    for pairs in (200, 800):
        for seeds in (3, 5, 10):
            draw = np.random.default_rng([pairs, seeds])
            more = 0.0
            for _ in range(4):  # the deviations are those of the two encoders that differ so much
                known = np.array([differences(draw, pairs, 10, more) for _ in range(SWEEPS)])
                of_seed = float(known.std(axis=1, ddof=1).mean())
                of_pairs = math.sqrt(
                    max(0.0, known.mean(axis=1).var() - of_seed**2 / known.shape[1])
                )
                smallest = smallest_difference(of_seed, seeds, pairs_std=of_pairs)
                more = float(brentq(lack, 0, 50, args=(smallest,), xtol=1e-4))
            alone = smallest_difference(of_seed, seeds)
            shown = np.mean([is_shown(draw, pairs, seeds, more) for _ in range(SWEEPS)])
            rows.append(
                (pairs, seeds, 100 * of_seed, 100 * of_pairs, 100 * smallest, 100 * alone, shown)
            )
    names = [
        "pairs",
        "seeds",
        "std of seeds",
        "std of pairs",
        "smallest",
        "by seeds alone",
        "shown",
    ]
    print(pd.DataFrame(rows, columns=names).round(2).to_string(index=False))
    print(f"n = {SWEEPS}: standard error of a share of 0.8 is {math.sqrt(0.16 / SWEEPS):.3f}")


if __name__ == "__main__":
    main()
