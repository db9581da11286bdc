"""Compare systems on suites: scores with intervals, paired tests, smallest detectable differences.

Systems are compared on the pairs, or queries, that all of them have."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.config import BaselineConfig
from workbench.data import AVERAGES
from workbench.errors import DataError, SettingError, unknown_name
from workbench.evaluation import extract_table, per_query_metrics
from workbench.metrics import (
    RETRIEVAL,
    Interval,
    bootstrap_means,
    bootstrap_values,
    hierarchical_interval,
    hierarchical_p,
    holm,
    mean_over_sets,
    percentile_interval,
    permutation_test,
    retrieval_metrics,
    seed_spread,
    sign_flip_test,
    smallest_difference,
)
from workbench.systems._scores import SystemScores, metrics_of
from workbench.systems._verdicts import SystemComparison

# A true difference of so many standard deviations over pairs is detected in 80 of 100 cases: the
# normal quantiles of 0.975 and 0.8.
_DETECTED = 1.959964 + 0.841621
_Tables = Mapping[tuple[str, int], pd.DataFrame]  # system and place of the seed -> its table
_SHOWN = ("kcc", "ndcg", *RETRIEVAL, "queries")  # further metrics of a report
_DIFFERENCE = ["difference", "difference_low", "difference_high", "p_value", "smallest"]


class _Statistic(NamedTuple):
    """What is compared: a mean over pairs or queries, from their scores or values [n].

    draws: Its values under resamples [samples], common to all systems. test: Of two systems.
    """

    measure: str
    items: str  # pairs or queries
    value: Callable[[np.ndarray], float]
    draws: Callable[[np.ndarray], np.ndarray]
    test: Callable[[np.ndarray, np.ndarray], Any]


class _System(NamedTuple):
    """A system on one suite.

    seeds: Those of trained runs; [] for an encoder or for scores without seeds. scores: [seeds, n].
    values: [seeds]. draws: [seeds, samples].
    """

    seeds: list[int]
    scores: np.ndarray
    values: np.ndarray
    draws: np.ndarray


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
    # As on the command line: what is named first is what the others are compared with.
    base = baseline or next(iter(systems), "")
    scored = scores.suites
    if base not in systems:
        raise SettingError(unknown_name("system", base, systems, "among those compared"))
    if unknown := [suite for suite in suites if suite not in scored]:
        raise SettingError(unknown_name("suite", unknown[0], scored, "of these systems"))
    rows: list[dict[str, Any]] = []
    notes = list(scores.notes)
    metrics = {name: metrics_of(own[0]) for name, own in systems.items()}
    # A run reads its file each time that it is asked.
    scored_pairs = _tables_by_seed(systems, partial(extract_table, kind="scores"))
    for suite in suites or scored:
        having = {name: own for name, own in systems.items() if suite in metrics[name]}
        of_pairs = {key: own for key, own in scored_pairs.items() if key[0] in having}
        table, statistic, left_out = _read_suite(suite, having, of_pairs, samples)
        if left_out:
            notes.append(
                f"{suite}: {left_out} {statistic.items} that not every system scored are left out"
            )
        measured = {name: _measure(table[name], having[name], statistic) for name in having}
        for name, system in measured.items():
            row = {"suite": suite, "system": name, **_score_columns(system, statistic)}
            if name != base and base in measured:
                row |= _difference_columns(system, measured[base], statistic)
            else:
                row |= dict.fromkeys(_DIFFERENCE, math.nan)
            of_suite = metrics[name][suite]
            rows.append(row | {key: of_suite[key] for key in _SHOWN if key in of_suite})
    table = pd.DataFrame(rows)
    adjusted = holm(table["p_value"])
    return SystemComparison(table.assign(adjusted=adjusted), base, alpha, scores, notes)


def _read_suite(
    suite: str, systems: Mapping[str, list[Any]], scored: _Tables, samples: int
) -> tuple[pd.DataFrame, _Statistic, int]:
    """Return the scores of the common pairs, or values of queries if there are only rankings.

    These are nDCG@10 if all reports have it, as `read_runs` computes it, otherwise NDCG.

    Returns: the table, whose columns are system and place of the seed; what is compared; and the
    number of pairs or queries that were left out.
    """
    sets = AVERAGES.get(suite, [suite])
    of_pairs = {key: _rows_of(table, sets) for key, table in scored.items()}
    scores, left_out = _common_items(of_pairs, "predicted")
    if len(scores):
        gold = _common_gold(suite, of_pairs)
        is_classified = "accuracy" in metrics_of(next(iter(systems.values()))[0])[suite]
        options: Any = {
            # An average has seven sets, each of which is resampled on its own.
            "sets": scores.index.get_level_values(0).tolist(),
            "measure": "accuracy" if is_classified else "spearman",
        }
        statistic = _Statistic(
            options["measure"],
            "pairs",
            partial(mean_over_sets, gold, **options),
            partial(bootstrap_values, gold, samples=samples, **options),
            partial(permutation_test, gold, samples=samples, **options),
        )
        return scores, statistic, left_out
    measure = RETRIEVAL[0]
    if not all(measure in metrics_of(own[0])[suite] for own in systems.values()):
        measure = "ndcg"
    of_queries = _tables_by_seed(systems, partial(_values_by_query, suite, measure))
    values, left_out = _common_items(of_queries, measure)
    if not len(values):
        raise DataError(
            f"{suite}: {', '.join(systems)} have no pair or query in common; score them on one "
            "version of the set"
        )

    def test(first: np.ndarray, second: np.ndarray) -> Any:
        return sign_flip_test(first - second, samples=samples)

    # A mean over queries: they are drawn again, not the pairs within one.
    draws = partial(bootstrap_means, samples=samples)
    return values, _Statistic(measure, "queries", np.mean, draws, test), left_out


def _tables_by_seed(
    systems: Mapping[str, list[Any]], table_of: Callable[[Any], pd.DataFrame]
) -> _Tables:
    return {
        (name, place): table_of(report)
        for name, own in systems.items()
        for place, report in enumerate(own)
    }


def _rows_of(table: Any, sets: list[str]) -> Any:
    return table[table["suite"].isin(sets)].set_index(["suite", "pair_id"])


def _values_by_query(suite: str, measure: str, report: Any) -> pd.DataFrame:
    """Return the metrics of each query; those without a relevant target have no NDCG."""
    table: Any = extract_table(report, "rankings")
    metrics = per_query_metrics if measure == "ndcg" else retrieval_metrics
    values = metrics(table[table["suite"] == suite])
    return values.dropna(subset=measure).set_index("query_id")


def _common_items(tables: _Tables, column: str) -> tuple[pd.DataFrame, int]:
    """Return a column of all tables for the items that each has, and how many others there are."""
    columns = {key: table[column].astype(float) for key, table in tables.items()}
    # The systems may have scored the pairs in another order: rows are joined by their id.
    common = pd.concat(columns, axis=1, join="inner")
    everything = {item for table in tables.values() for item in table.index}
    return common, len(everything) - len(common)


def _common_gold(suite: str, tables: _Tables) -> np.ndarray:
    """Return the gold of the common pairs; raise DataError if two systems have another."""
    columns, _ = _common_items(tables, "gold")
    gold = columns.iloc[:, 0]
    for name, place in columns:
        different = columns.index[columns[name, place] != gold]
        if len(different):
            raise DataError(
                f"{suite}: {columns.columns[0][0]} and {name} have different gold, first of pair "
                f"{different[0][-1]!r} ({len(different)} pairs); score both on one version of the "
                "set"
            )
    return gold.to_numpy()


def _measure(table: Any, reports: list[Any], statistic: _Statistic) -> _System:
    configs = [getattr(report, "config", BaselineConfig()) for report in reports]
    # An evaluated encoder is a run with a seed that means nothing.
    is_trained = configs[0].method != BaselineConfig.method
    scores = table.to_numpy().T
    return _System(
        [config.seed for config in configs] if is_trained else [],
        scores,
        np.array([statistic.value(own) for own in scores]),
        np.array([statistic.draws(own) for own in scores]),
    )


def _score_columns(system: _System, statistic: _Statistic) -> dict[str, Any]:
    value, low, high = _interval(system.values, system.draws)
    return {
        "measure": statistic.measure,
        "seeds": len(system.values),
        statistic.items: system.scores.shape[1],
        "value": value,
        "std": seed_spread(system.values).std,
        "low": low,
        "high": high,
    }


def _difference_columns(
    system: _System, baseline: _System, statistic: _Statistic
) -> dict[str, Any]:
    own, other = _paired_seeds(system.seeds, baseline.seeds)
    differences = system.values[own] - baseline.values[other]
    draws = system.draws[own] - baseline.draws[other]
    n = len(differences)
    # A permutation test exchanges pairs and knows nothing of seeds.
    if n > 1:
        p_value = hierarchical_p(differences, draws)
        pairs_std = float(draws.mean(axis=0).std())
        smallest = smallest_difference(seed_spread(differences).std, n, pairs_std=pairs_std)
    else:
        p_value = statistic.test(system.scores[own][0], baseline.scores[other][0]).p_value
        # Resamples without a correlation are left out.
        spread: Any = pd.Series(draws[0]).std()
        smallest = _DETECTED * spread
    numbers = [*_interval(differences, draws), p_value, smallest]
    return dict(zip(_DIFFERENCE, numbers, strict=True)) | {"paired_seeds": n}


def _paired_seeds(first: list[int], second: list[int]) -> tuple[Any, Any]:
    """Return the places of the seeds of two systems that are compared with each other.

    All seeds are compared with a system without seeds, otherwise those that both have. If they have
    none in common, the first of each is.
    """
    # An encoder without seeds is the same for every run.
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
    return percentile_interval(float(values[0]), draws[0])
