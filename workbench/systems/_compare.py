"""Compare systems on suites: scores with intervals, paired tests, smallest detectable differences.

Systems are compared on the pairs, or queries, that all of them have."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.config import BaselineConfig
from workbench.data import AVERAGES
from workbench.errors import DataError, SettingError, unknown_name
from workbench.evaluation import per_query_metrics
from workbench.metrics import (
    Interval,
    PermutationTest,
    bootstrap_means,
    bootstrap_values,
    hierarchical_interval,
    hierarchical_p,
    holm,
    mean_over_sets,
    permutation_test,
    seed_spread,
    sign_flip_test,
    smallest_difference,
)
from workbench.systems._scores import SystemScores, part_of
from workbench.systems._verdicts import SystemComparison

_ENDS = [0.025, 0.975]  # of a 95% interval, as shares of the distribution
# A true difference of so many standard deviations over pairs is detected in 80 of 100 cases: the
# normal quantiles of 0.975 and 0.8.
_DETECTED = 1.959964 + 0.841621
_SHOWN = ("kcc", "ndcg", "queries")  # further metrics of a report


class _Measured(NamedTuple):
    """The systems on one suite: their values, and these under common resamples of its items.

    seeds: system -> its seeds. values: system -> [seeds]. draws: system -> [seeds, samples].
    test: Of one seed of two systems.
    """

    measure: str
    items: str  # pairs or queries
    count: int
    left_out: int
    seeds: dict[str, list[int]]
    values: dict[str, np.ndarray]
    draws: dict[str, np.ndarray]
    test: Callable[[str, str], PermutationTest]


class _Read:
    """A report or run whose metrics and scores were read once, for all suites."""

    def __init__(self, place: int, source: Any) -> None:
        self.source = source
        config: Any = getattr(source, "config", BaselineConfig())  # of a run
        self.is_trained = config.method != BaselineConfig.method
        self.seed = config.seed if self.is_trained else place
        self.metrics = part_of(source, "metrics")
        scores = part_of(source, "scores")
        self.scores_of = dict(iter(scores.groupby("suite", sort=False)))

    def scores(self, suites: Sequence[str]) -> pd.DataFrame:
        """Return gold and predicted of each pair; the index are suite and id of the pair."""
        tables = [self.scores_of[suite] for suite in suites if suite in self.scores_of]
        if not tables:
            return pd.DataFrame()
        return pd.concat(tables).set_index(["suite", "pair_id"])

    def values_by_query(self, suite: str) -> pd.DataFrame:
        """Return the metrics of each query that has a relevant target."""
        rankings: Any = part_of(self.source, "rankings")
        values = per_query_metrics(rankings[rankings["suite"] == suite])
        return values.dropna(subset="ndcg").set_index("query_id")


_Systems = Mapping[str, list[_Read]]


def compare_scores(
    scores: SystemScores,
    *,
    baseline: str = "",
    suites: Sequence[str] = (),
    alpha: float = 0.05,
    samples: int = 1000,
) -> SystemComparison:
    """Compare every system with the baseline on every suite.

    Args:
        scores: Of the systems, as readers return them.
        baseline: The name of a system; "": the first.
        suites: Of those that were scored; (): all.
        alpha: Level of the verdicts after Holm's correction over all tests.
        samples: Number of resamples of the pairs, and of permutations.

    Raises:
        SettingError: No such baseline or suite.
        DataError: The systems were scored on different versions of a suite.
    """
    systems = scores.reports
    base = baseline or next(iter(systems), "")
    scored = scores.suites
    if base not in systems:
        raise SettingError(unknown_name("system", base, systems, "among those compared"))
    if unknown := [suite for suite in suites if suite not in scored]:
        raise SettingError(unknown_name("suite", unknown[0], scored, "of these systems"))
    rows: list[dict[str, Any]] = []
    notes = list(scores.notes)
    read = {name: [*starmap(_Read, enumerate(own))] for name, own in systems.items()}
    for suite in suites or scored:
        having = {name: own for name, own in read.items() if suite in own[0].metrics}
        measured = _measure(suite, having, samples)
        if measured.left_out:
            notes.append(
                f"{suite}: {measured.left_out} {measured.items} that not every system scored are "
                "left out"
            )
        for name, own in having.items():
            row = _row(name, measured, base)
            metrics = own[0].metrics[suite]
            further = {key: metrics[key] for key in _SHOWN if key in metrics}
            rows.append({"suite": suite, **row, **further})
    table = pd.DataFrame(rows)
    adjusted = holm(table["p_value"])
    return SystemComparison(table.assign(adjusted=adjusted), base, alpha, scores, notes)


def _measure(suite: str, systems: _Systems, samples: int) -> _Measured:
    """Measure Spearman or accuracy on the common pairs, or NDCG if there are only rankings."""
    sets = AVERAGES.get(suite, [suite])
    of_pairs = _tables(systems, lambda one: one.scores(sets))
    if len(_common_items(of_pairs)[0]):
        return _measure_pairs(suite, systems, of_pairs, samples)
    of_queries = _tables(systems, lambda one: one.values_by_query(suite))
    common, left_out = _common_items(of_queries)
    if not len(common):
        raise DataError(
            f"{suite}: {', '.join(systems)} have no pair or query in common; score them on one "
            "version of the set"
        )
    values = _arrays(of_queries, common, "ndcg")
    draws = {
        name: np.stack([bootstrap_means(one, samples=samples) for one in own])
        for name, own in values.items()
    }

    def test(name: str, other: str) -> PermutationTest:
        return sign_flip_test(values[name][0] - values[other][0], samples=samples)

    means = {name: own.mean(axis=1) for name, own in values.items()}
    seeds = _seeds_of(systems)
    return _Measured("ndcg", "queries", len(common), left_out, seeds, means, draws, test)


def _measure_pairs(
    suite: str,
    systems: _Systems,
    tables: dict[str, list[pd.DataFrame]],
    samples: int,
) -> _Measured:
    common, left_out = _common_items(tables)
    gold, *others = (own[0] for own in _arrays(tables, common, "gold").values())
    for name, other in zip([*systems][1:], others, strict=True):
        different = np.flatnonzero(gold != other)
        if len(different):
            raise DataError(
                f"{suite}: {next(iter(systems))} and {name} have different gold, first of pair "
                f"{common[different[0]][-1]!r} ({len(different)} pairs); score both on one version "
                "of the set"
            )
    is_classified = "accuracy" in next(iter(systems.values()))[0].metrics[suite]
    # An average has seven sets, each of which is resampled on its own.
    of_sets: Any = {
        "sets": common.get_level_values(0).tolist(),
        "measure": "accuracy" if is_classified else "spearman",
    }
    predicted = _arrays(tables, common, "predicted")
    values = {}
    draws = {}
    for name, own in predicted.items():
        values[name] = np.array([mean_over_sets(gold, one, **of_sets) for one in own])
        resampled = [bootstrap_values(gold, one, samples=samples, **of_sets) for one in own]
        draws[name] = np.stack(resampled)

    def test(name: str, other: str) -> PermutationTest:
        first = predicted[name][0]
        return permutation_test(gold, first, predicted[other][0], samples=samples, **of_sets)

    seeds = _seeds_of(systems)
    measure = of_sets["measure"]
    return _Measured(measure, "pairs", len(common), left_out, seeds, values, draws, test)


def _seeds_of(systems: _Systems) -> dict[str, list[int]]:
    """Return system -> its seeds; [] for an encoder or scores without seeds."""
    seeds = {}
    for name, own in systems.items():
        has_seeds = len(own) > 1 or own[0].is_trained
        seeds[name] = [one.seed for one in own] if has_seeds else []
    return seeds


def _tables(
    systems: _Systems, table_of: Callable[[_Read], pd.DataFrame]
) -> dict[str, list[pd.DataFrame]]:
    return {name: list(map(table_of, own)) for name, own in systems.items()}


def _arrays(
    tables: Mapping[str, list[pd.DataFrame]], items: pd.Index, column: str
) -> dict[str, np.ndarray]:
    """Return system -> the values of a column of these items [seeds, items]."""
    return {
        name: np.stack([table.loc[items, column].to_numpy(dtype=float) for table in own])
        for name, own in tables.items()
    }


def _common_items(tables: Mapping[str, list[pd.DataFrame]]) -> tuple[pd.Index, int]:
    """Return the items that every table has, in the order of the first, and how many others are."""
    common, *others = (table.index for own in tables.values() for table in own)
    everything = common
    for index in others:
        # As a rule all are equal, and sets of ten thousands of ids take their time.
        if not index.equals(common):
            common = common[common.isin(index)]
            everything = everything.union(index)
    return common, len(everything) - len(common)


def _row(name: str, measured: _Measured, baseline: str) -> dict[str, Any]:
    """Return the row of a system on a suite, with its difference from the baseline."""
    values = measured.values[name]
    value, low, high = _interval(values, measured.draws[name])
    row: dict[str, Any] = {
        "system": name,
        "measure": measured.measure,
        "seeds": len(values),
        measured.items: measured.count,
        "value": value,
        "std": seed_spread(values).std,
        "low": low,
        "high": high,
    }
    compared = ["difference", "difference_low", "difference_high", "p_value", "smallest"]
    if name == baseline or baseline not in measured.values:
        return row | dict.fromkeys(compared, math.nan)
    own, other = _paired_seeds(measured.seeds[name], measured.seeds[baseline])
    differences = values[own] - measured.values[baseline][other]
    draws = measured.draws[name][own] - measured.draws[baseline][other]
    n = len(differences)
    row["paired_seeds"] = n
    if n > 1:
        p_value = hierarchical_p(differences, draws)
        pairs_std = float(draws.mean(axis=0).std())
        smallest = smallest_difference(seed_spread(differences).std, n, pairs_std=pairs_std)
    else:
        p_value = measured.test(name, baseline).p_value
        # Resamples without a correlation are left out.
        spread: Any = pd.Series(draws[0]).std()
        smallest = _DETECTED * spread
    numbers = [*_interval(differences, draws), p_value, smallest]
    return row | dict(zip(compared, numbers, strict=True))


def _paired_seeds(first: list[int], second: list[int]) -> tuple[Any, Any]:
    """Return the places of the seeds of two systems that are compared with each other.

    All seeds are compared with a system without seeds, otherwise those that both have. If they have
    none in common, the first of each is.
    """
    if not (first and second):
        return slice(None), slice(None)
    common = [seed for seed in first if seed in second]
    if not common:
        return [0], [0]
    return [first.index(seed) for seed in common], [second.index(seed) for seed in common]


def _interval(values: np.ndarray, draws: np.ndarray) -> Interval:
    """Return the mean with its 95% interval over seeds and pairs, or over pairs for one seed."""
    if len(values) > 1:
        return hierarchical_interval(values, draws)
    value = float(values[0])
    # A constant resample has no correlation; a few of them may be dropped, most of them not.
    if math.isnan(value) or np.isnan(draws).mean() > 0.5:
        return Interval(value, math.nan, math.nan)
    low, high = np.nanquantile(draws, _ENDS).tolist()
    return Interval(value, low, high)
