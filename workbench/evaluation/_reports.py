"""Reports: metrics, scores of pairs and rankings of one model. No torch.

Scores that were made elsewhere become the same reports."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from workbench.data import Pairs
from workbench.evaluation._rankings import RANKING_COLUMNS, ranking_table
from workbench.files import Facts
from workbench.metrics import kendall, metrics_table, ndcg, spearman, spearman_by_subset
from workbench.printing import LOG


@dataclass(frozen=True)
class Report:
    """The results of an evaluation; `table` shows them x 100.

    Attributes:
        metrics: suite -> {"spearman", "n", "subsets", "kcc", "ndcg", "queries"} in [-1, 1], for
            transfer tasks {"accuracy", "n", "f1" (of pairs), "dev_accuracy", "classifier"};
            "sts-average" and "transfer-average" of all seven.
        scores: suite, subset, pair_id, gold, predicted (classes by number).
        rankings: As `ranking_table` returns them.
        config: The settings of a run whose encoder was evaluated; they have its seed.
    """

    metrics: Facts
    scores: DataFrame = field(repr=False)
    rankings: DataFrame = field(repr=False)
    config: Any = field(default=None, repr=False)

    def table(self) -> DataFrame:
        """Return the metrics x 100 with a row for each suite, without empty columns.

        Columns: suite, pairs, Spearman, KCC, NDCG, queries, classified, accuracy, F1. NDCG is the
        mean over the queries; KCC over those that have a tau, `metrics[suite]["queries_with_kcc"]`.
        """
        return metrics_table(self.metrics)

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False, float_format="{:.2f}".format, na_rep="")


def extract_table(source: Any, kind: str) -> DataFrame:
    """Return the "rankings" or "scores" of a run or report, or a table as it is."""
    # Tables, runs and reports: whatever a notebook has at hand.
    table = source if isinstance(source, DataFrame) else getattr(source, kind)
    # A run has a method of this name, a report a table.
    return table if isinstance(table, DataFrame) else table()


def report_pairs(scored: Mapping[str, tuple[Pairs, Any]], *, how: str = "all") -> Report:
    """Return the report of one system's scores.

    Args:
        scored: suite -> its pairs and a score for each, [n], larger is closer.
        how: As of `evaluate`.

    Raises:
        ValueError: There is not one score for each pair, or one is nan.
    """
    metrics = {}
    scores = []
    rankings = []
    for suite, (pairs, predicted) in scored.items():
        values = np.asarray(predicted, float)
        metrics[suite], ranked = score_pairs(suite, pairs, values, how)
        rankings.append(ranked)
        # One text for all rows, or one for each.
        scores.append(scores_table(suite, pairs.subset or "", pairs.pair_id, pairs.gold, values))
    return Report(metrics, pd.concat(scores, ignore_index=True), join_rankings(rankings))


def scores_table(
    suite: str, subset: Any, ids: Iterable[Any], gold: ndarray, predicted: ndarray
) -> DataFrame:
    """Return the table of scores of a suite: suite, subset, pair_id (text), gold, predicted."""
    columns = {
        "suite": suite,
        "subset": subset,
        "pair_id": list(map(str, ids)),
        "gold": gold.astype(float),
        "predicted": predicted.astype(float),
    }
    return DataFrame(columns)


def join_rankings(tables: Sequence[DataFrame]) -> DataFrame:
    """Return the ranking tables of several suites as one."""
    # Empty tables have no column types, and would change those of the others.
    filled = [table for table in tables if len(table)]
    return pd.concat(filled or [DataFrame(columns=list(RANKING_COLUMNS))], ignore_index=True)


def score_pairs(suite: str, pairs: Pairs, predicted: ndarray, how: str) -> tuple[Facts, DataFrame]:
    gold = pairs.gold
    correlation = spearman_by_subset(gold, predicted, pairs.subset, how=how)
    if np.isnan(correlation):
        LOG.warning(
            "%s: Spearman is undefined: fewer than two pairs, or all scores or all "
            "labels are equal, of the suite or of one of its subsets",
            suite,
        )
    values = {"n": len(gold), "spearman": correlation}
    if pairs.subset is not None:
        subsets = {}
        # Subsets are in the order of the file.
        for name, rows in pd.Series(gold).groupby(pairs.subset, sort=False).indices.items():
            subsets[name] = {"spearman": spearman(gold[rows], predicted[rows]), "n": len(rows)}
        values |= {"aggregation": how, "subsets": subsets}
    ranked = ranking_table(pairs, predicted, suite)
    if len(ranked):
        values |= ranking_metrics(ranked)
    return values, ranked


def ranking_metrics(table: DataFrame) -> Facts:
    """Return kcc, ndcg, queries and queries_with_kcc of a ranking table of one suite."""
    queries: Any = per_query_metrics(table)
    # A query whose gold or scores are all equal has no tau; it is left out of the mean and of
    # queries_with_kcc.
    kcc, ndcg = queries[["kcc", "ndcg"]].mean().tolist()
    defined = int(queries["kcc"].count())
    return {"kcc": kcc, "ndcg": ndcg, "queries": len(queries), "queries_with_kcc": defined}


def per_query_metrics(table: DataFrame) -> DataFrame:
    """Return how well the ranking of each query keeps the order of gold.

    Args:
        table: As `ranking_table` returns it.

    Returns:
        suite, query_id, query; kcc, tau-b, in [-1, 1]; ndcg, of linear gain, in [0, 1]; each is
        nan for a query where it is undefined (kcc: all labels or all scores are equal; ndcg: no
        label above 0, or one below); n, the number of targets.
    """
    key = ["suite", "query_id", "query"]
    rows = []
    values = table[["gold", "score"]].to_numpy()
    # A table of its own for each of thousands of queries would take as long as the rest.
    groups: Any = table.groupby(key, sort=False, observed=True).indices
    for names, places in groups.items():
        gold, scores = values[places].T
        rows.append([*names, kendall(gold, scores), ndcg(gold, scores), len(places)])
    return DataFrame(rows, columns=[*key, "kcc", "ndcg", "n"])
