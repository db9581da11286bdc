"""Metrics of information retrieval for long lists of targets, as ir-measures computes them."""

import math
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from workbench.errors import DataError

# Those of a paper. A document without a judgement counts in them as one of grade 0, which a table
# cannot tell apart.
RETRIEVAL = ("nDCG@10", "RR", "R@100", "AP")


def retrieval_metrics(rankings: DataFrame) -> DataFrame:
    """Return measures of retrieval of each query, in [0, 1], as ir-measures computes them.

    nDCG has the grades as gains; the others count a grade of 1 or more as relevant. Ties are those
    of trec_eval: scores in single precision, then ids in descending order.

    Args:
        rankings: suite, query_id, target_id, gold (whole grades) and score, which is -inf for a
            target that was not retrieved.

    Returns:
        suite, query_id (text) and a column for each of `RETRIEVAL`; 0 for a query without a
        relevant target.

    Raises:
        DataError: A grade is not whole, or ir-measures is not installed.

    Example:
        retrieval_metrics(report.rankings)
    """
    names = ", ".join(RETRIEVAL)
    try:
        from ir_measures import parse_measure, pytrec_eval
    except ModuleNotFoundError as problem:
        raise DataError(
            f'{names} need ir-measures ({problem}): pip install "ranking-workbench[retrieval]"'
        ) from None
    try:
        table = rankings.astype({"gold": "Int64"}).reset_index(drop=True)
    except TypeError:
        raise DataError(f"{names} need whole grades; KCC and NDCG do not") from None
    measures = list(map(parse_measure, RETRIEVAL))
    # One text for each id, however many rows have it: texts of millions of rows take seconds.
    codes, ids = pd.factorize(table["target_id"])
    targets = np.array(list(map(str, ids)), object)[codes]
    scores = table["score"].to_numpy()
    rows = []
    # A category that occurs in no row is no query.
    queries: Any = table.groupby(["suite", "query_id"], sort=False, observed=True)["gold"]
    for (suite, query), grades in queries:
        # A grade of 0 counts as none, and most documents have it.
        graded = grades[grades != 0]
        judged = dict(zip(targets[graded.index], graded.tolist(), strict=True))
        own = grades.index[scores[grades.index] > -math.inf]
        retrieved = dict(zip(targets[own], scores[own].tolist(), strict=True))
        values = pytrec_eval.calc_aggregate(measures, {"": judged}, {"": retrieved})
        rows.append({"suite": suite, "query_id": query, **values})
    return DataFrame(rows, columns=["suite", "query_id", *measures]).rename(columns=str)
