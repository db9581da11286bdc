"""Metrics of information retrieval for long lists of targets, as ir-measures computes them."""

import math
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from workbench.errors import DataError, SettingError

RETRIEVAL = ("nDCG@10", "RR", "R@100", "AP")
# Those in which a document without a judgement counts as one of grade 0, which a table cannot tell
# apart. The C library ends the process at other depths.
_NAMES = re.compile(r"nDCG|AP|RR|Rprec|(nDCG|AP|R|P|Success)@[1-9]\d{0,8}")


def retrieval_metrics(rankings: pd.DataFrame, measures: Sequence[str] = RETRIEVAL) -> pd.DataFrame:
    """Return measures of retrieval of each query, in [0, 1], as ir-measures computes them.

    nDCG has the grades as gains; the others count a grade of 1 or more as relevant. Ties are those
    of trec_eval: scores in single precision, then ids in descending order.

    Args:
        rankings: suite, query_id, target_id, gold (whole grades) and score, which is -inf for a
            target that was not retrieved.
        measures: nDCG, AP, RR, Rprec, and nDCG@k, AP@k, R@k, P@k, Success@k of the first k.

    Returns:
        suite, query_id (text) and a column for each measure; 0 for a query without a relevant
        target.

    Raises:
        DataError: A grade is not whole.
        SettingError: ir-measures is not installed, or has no such measure.

    Example:
        retrieval_metrics(report.rankings, ["nDCG@10", "P@5"])
    """
    try:
        from ir_measures import parse_measure, pytrec_eval
    except ModuleNotFoundError:
        raise SettingError(
            f"{', '.join(measures)} need ir-measures: pip install ranking-workbench[retrieval]"
        ) from None
    for name in measures:
        if not _NAMES.fullmatch(name):
            raise SettingError(f"no measure {name!r}: give one such as {RETRIEVAL}")
    for grade in rankings["gold"][rankings["gold"] % 1 != 0]:
        raise DataError(
            f"gold is {grade:g}, and {', '.join(measures)} need whole grades; KCC and NDCG do not"
        )
    rows = []
    # A category that occurs in no row is no query.
    queries: Any = rankings.groupby(["suite", "query_id"], sort=False, observed=True)
    for (suite, query), part in queries:
        targets = part.set_index(part["target_id"].astype(str))
        # Grade 0 counts as no judgement.
        judged = targets["gold"][targets["gold"] != 0].astype(int).to_dict()
        retrieved = targets["score"][targets["score"] > -math.inf].to_dict()
        evaluator = pytrec_eval.evaluator(list(map(parse_measure, measures)), {"": judged})
        values = {str(each.measure): each.value for each in evaluator.iter_calc({"": retrieved})}
        rows.append({"suite": suite, "query_id": query, **values})
    return pd.DataFrame(rows, columns=["suite", "query_id", *measures])
