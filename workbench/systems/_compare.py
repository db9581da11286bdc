"""Compare systems on suites: scores with intervals, paired tests, smallest detectable differences.

Systems are compared on the pairs, or queries, that all of them have."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from workbench.config import BaselineConfig
from workbench.data import AVERAGES
from workbench.errors import DataError, require_known
from workbench.evaluation import extract_table, per_query_metrics
from workbench.files import Facts, Names, as_list
from workbench.metrics import (
    RETRIEVAL,
    Interval,
    bootstrap_values,
    effects_of_pairs,
    hierarchical_interval,
    hierarchical_p,
    holm,
    mean_over_sets,
    percentile_interval,
    permutation_test,
    retrieval_metrics,
    seed_spread,
    smallest_difference,
)
from workbench.systems._scores import SystemScores, metrics_of
from workbench.systems._verdicts import SystemComparison

# A true difference of so many standard deviations over pairs is detected in 80 of 100 cases: the
# normal quantiles of 0.975 and 0.8.
_DETECTED = 1.959964 + 0.841621
_SHOWN = ("kcc", "ndcg", *RETRIEVAL, "queries")  # further metrics of a report
_DIFFERENCE = "difference difference_low difference_high seed_std pairs_std p_value smallest"
_KEY = ["suite", "pair_id"]
_VALUES = ["gold", "predicted"]
_Reports = Mapping[str, list[Any]]


class _Items(NamedTuple):
    """What the systems are compared on.

    kind: pairs or queries. measure: Its name in a table. gold: [n]. scores: [n, systems and
    seeds], the columns are the system and the place of the seed. options: Of `bootstrap_values`.
    """

    kind: str
    measure: str
    gold: ndarray
    scores: DataFrame
    options: Facts

    @property
    def lowest(self) -> int:
        """The smallest value that the measure can have; the largest is 1."""
        return -1 if self.measure == "spearman" else 0


class _System(NamedTuple):
    """A system on one suite: its reports, a row of `scores` for each, and their values.

    scores: [seeds, n]. values: [seeds]. draws: [seeds, samples].
    """

    reports: list[Any]
    scores: ndarray
    values: ndarray
    draws: ndarray


def compare_scores(
    scores: SystemScores,
    *,
    baseline: str = "",
    suites: Names = (),
    samples: int = 1000,
) -> SystemComparison:
    """Compare every system with the baseline on every suite.

    Args:
        scores: Of the systems, as readers return them.
        baseline: The name of a system; "": the first.
        suites: Of those that were scored; (): all.
        samples: Number of resamples of the pairs, and of permutations.

    Raises:
        SettingError: No such baseline or suite.
        DataError: The systems were scored on different versions of a suite.
    """
    systems = scores.reports
    # As on the command line: what is named first is what the others are compared with.
    base = baseline or next(iter(systems), "")
    scored = scores.suites
    require_known("system", base, systems, "among those compared")
    suites = as_list(suites)
    for suite in suites:
        require_known("suite", suite, scored, "of these systems")
    rows = []
    notes = list(scores.notes)
    for suite, of_suite in scores.pairs.items():
        # The source of pairs says which scale of gold was guessed.
        parts = re.split("[;,] ", of_suite.source)
        notes += [f"{suite}: {part}" for part in parts if "is a guess" in part]
    metrics = _by_seed(systems, metrics_of)
    # The systems may have scored the pairs in another order: rows are joined by their id.
    tables = _by_seed(
        systems, lambda report: extract_table(report, "scores").set_index(_KEY)[_VALUES]
    )
    pairs = pd.concat(tables, axis=1)
    for suite in suites or scored:
        # Of several seeds some may lack the suite.
        scored_by = {key: own[suite] for key, own in metrics.items() if suite in own}
        having = defaultdict(list)
        for name, place in scored_by:
            having[name].append(systems[name][place])
        if len(having) == 1 < len(systems):
            [only] = having
            notes.append(f"{suite}: only {only} has scores; give its pairs with --on for others")
        elif base not in having:
            notes.append(f"{suite}: no scores of the baseline, {base}; give the pairs with --on")
        is_scored = [column[:2] in scored_by for column in pairs.columns]
        items, left_out = _common_items(
            suite, having, list(scored_by.values()), pairs.loc[:, is_scored]
        )
        if left_out:
            notes.append(
                f"{suite}: {items.kind} left out, not scored by every system: {left_out} (so that "
                "no measure is shown that each has of all its own)"
            )
        # A system's own KCC and NDCG are of all that it scored.
        shown = () if left_out else _SHOWN
        if {own.get("aggregation", "all") for own in scored_by.values()} != {"all"}:
            notes.append(f"{suite}: a run has the mean over its parts; here it is of all pairs")
        measured = _measure(having, items, samples)
        for name, system in measured.items():
            row = {"suite": suite, "system": name, **_score_columns(system, items)}
            row |= dict.fromkeys(_DIFFERENCE.split(), math.nan)
            if math.isnan(row["value"]):
                notes.append(
                    f"{suite}: {name} has no {items.measure}: all gold, or all scores of one of "
                    "its seeds, are equal"
                )
            if name != base and base in measured:
                row |= _difference_columns(system, measured[base], items, samples)
                paired = row["paired_seeds"]
                if paired < max(row["seeds"], len(measured[base].values)):
                    notes.append(
                        f"{suite}: {name} and {base} are compared on {paired} of their seeds: "
                        "those that both have, or the first of each if they share none"
                    )
            # Means over its seeds, as the value is.
            of_seeds = [own for key, own in scored_by.items() if key[0] == name]
            others = DataFrame(of_seeds).filter(shown).astype(float).mean()
            rows.append(row | others.drop(items.kind, errors="ignore").to_dict())
    table = DataFrame(rows)
    table["adjusted"] = holm(table["p_value"])
    return SystemComparison(table, base, scores, notes)


def _by_seed(systems: _Reports, read: Callable[[Any], Any]) -> Any:
    """Return (system, place of the seed) -> what `read` returns for the report."""
    return {
        (name, place): read(report)
        for name, own in systems.items()
        for place, report in enumerate(own)
    }


def _common_items(
    suite: str, systems: _Reports, metrics: list[Facts], pairs: Any
) -> tuple[_Items, int]:
    """Return the common pairs, or the queries if there are only rankings.

    Queries have nDCG@10 if all reports have it, as `read_runs` computes it, otherwise NDCG.

    metrics: Of the suite, of each report.

    Returns: what is compared; and the number of pairs or queries that were left out.
    """
    sets = AVERAGES.get(suite, [suite])
    is_of_suite = pairs.index.isin(sets, level="suite")
    common, left_out = _complete(pairs.loc[is_of_suite])
    if len(common):
        scores = common.xs("predicted", axis=1, level=2)
        gold = _common_gold(suite, common.xs("gold", axis=1, level=2))
        # An average has seven sets, each of which is resampled on its own.
        names = scores.index.get_level_values("suite").tolist()
        measure = "accuracy" if "accuracy" in metrics[0] else "spearman"
        options = {"sets": names, "measure": measure}
        return _Items("pairs", measure, gold, scores, options), left_out
    measure = RETRIEVAL[0] if all(RETRIEVAL[0] in own for own in metrics) else "ndcg"
    tables = _by_seed(systems, partial(_values_by_query, suite, measure))
    values, left_out = _complete(pd.concat(tables, axis=1))
    if values.empty:
        raise DataError(
            f"{suite}: {', '.join(systems)} have no pair or query in common; score them on one "
            "version of the set"
        )
    # A mean over queries: they are drawn again, not the pairs within one.
    options = {"measure": "mean"}
    return _Items("queries", measure, np.zeros(len(values)), values, options), left_out


def _complete(table: Any) -> tuple[Any, int]:
    """Return the rows that every system has, and how many others there are."""
    common = table.dropna()
    return common.astype(float), len(table.dropna(how="all")) - len(common)


def _common_gold(suite: str, gold: Any) -> ndarray:
    """Return the gold of the common pairs; raise DataError if two systems have another."""
    first = gold.iloc[:, 0]
    for (name, _), other in gold.items():
        different = gold.index[other != first]
        if len(different):
            raise DataError(
                f"{suite}: {gold.columns[0][0]} and {name} have different gold, first of pair "
                f"{different[0][-1]!r} ({len(different)} pairs); score both on one version of the "
                "set"
            )
    return first.to_numpy()


def _values_by_query(suite: str, measure: str, report: Any) -> Any:
    """Return the measure of each query; those without a relevant target have no NDCG."""
    table: Any = extract_table(report, "rankings")
    metrics = per_query_metrics if measure == "ndcg" else retrieval_metrics
    return metrics(table[table["suite"] == suite]).set_index("query_id")[[measure]]


def _measure(systems: _Reports, items: _Items, samples: int) -> dict[str, _System]:
    """Return each system with its values; all are resampled at once."""
    scores = items.scores.to_numpy().T
    values = np.array([mean_over_sets(items.gold, own, **items.options) for own in scores])
    draws = bootstrap_values(items.gold, scores, samples=samples, **items.options)
    measured = {}
    for name, reports in systems.items():
        own = items.scores.columns.get_level_values(0) == name
        measured[name] = _System(reports, scores[own], values[own], draws[own])
    return measured


def _score_columns(system: _System, items: _Items) -> Facts:
    value, *ends = _interval(system.values, system.draws)
    low, high = np.clip(ends, items.lowest, 1)  # t of two seeds reaches far beyond
    return {
        "measure": items.measure,
        "seeds": len(system.values),
        items.kind: system.scores.shape[1],
        "value": value,
        "std": seed_spread(system.values).std,
        "low": low,
        "high": high,
    }


def _difference_columns(system: _System, baseline: _System, items: _Items, samples: int) -> Facts:
    own, other = pair_seeds(system.reports, baseline.reports)
    differences = system.values[own] - baseline.values[other]
    draws = _defined(system.draws[own] - baseline.draws[other])
    n = len(differences)
    seed_std = seed_spread(differences).std
    # A permutation test exchanges pairs and knows nothing of seeds.
    if n > 1:
        p_value = hierarchical_p(differences, draws)
        pairs_std = float(effects_of_pairs(draws).std())
        smallest = smallest_difference(seed_std, n, pairs_std=pairs_std)
    else:
        first, second = system.scores[own][0], baseline.scores[other][0]
        p_value = permutation_test(
            items.gold, first, second, samples=samples, **items.options
        ).p_value
        # Resamples without a correlation are left out.
        pairs_std: Any = pd.Series(draws[0]).std()
        smallest = _DETECTED * pairs_std
    if not 0 < smallest <= 1 - items.lowest:  # equal systems, or too few pairs for any difference
        smallest = math.nan
    numbers = [*_interval(differences, draws), seed_std, pairs_std, p_value, smallest]
    return dict(zip(_DIFFERENCE.split(), numbers, strict=True)) | {"paired_seeds": n}


def pair_seeds(first: list[Any], second: list[Any]) -> tuple[Any, Any]:
    """Return the places of the reports of two systems that are compared with each other.

    All seeds are compared with a system without seeds, otherwise those that both have. If they have
    none in common, the first of each is.
    """
    seeds, others = map(_seeds_of, (first, second))
    # An encoder without seeds is the same for every run.
    if not (seeds and others):
        return slice(None), slice(None)
    common = [seed for seed in seeds if seed in others]
    if not common:
        return [0], [0]
    return list(map(seeds.index, common)), list(map(others.index, common))


def _seeds_of(reports: list[Any]) -> list[int]:
    """Return the seed of each report, of those without one its place; [] for a single encoder."""
    configs = [report.config or BaselineConfig(seed=place) for place, report in enumerate(reports)]
    # An evaluated encoder is a run with a seed that means nothing.
    if len(configs) == 1 and configs[0].method == BaselineConfig.method:
        return []
    return [config.seed for config in configs]


def _defined(draws: ndarray) -> ndarray:
    """Return the resamples that have a value of every seed, if most have; otherwise all."""
    is_defined = np.isfinite(draws).all(axis=0)
    return draws[:, is_defined] if is_defined.mean() >= 0.5 else draws


def _interval(values: ndarray, draws: ndarray) -> Interval:
    """Return the mean with its 95% interval over seeds and pairs, or over pairs for one seed."""
    if len(values) > 1:
        return hierarchical_interval(values, _defined(draws))
    return percentile_interval(float(values[0]), draws[0])
