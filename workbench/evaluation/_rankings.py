"""Ranking tables: the rank of each target of each query under a model. No torch.

A table has one row per target of a query, with the columns of `RANKING_COLUMNS`. Rank 1 is best;
equal scores share an average."""

import numpy as np
from numpy.typing import ArrayLike
from pandas import DataFrame

from workbench.data import Pairs
from workbench.metrics import average_ranks

RANKING_COLUMNS = ("suite", "query_id", "target_id", "query", "target", "gold", "score", "rank")


def ranking_table(pairs: Pairs, scores: ArrayLike, suite: str) -> DataFrame:
    """Return the ranking table of one model's scores [n] of `pairs`; `suite` is the first column.

    Queries are those of `ranking_groups`, in order of first appearance; query_id is "q0", "q1",
    ...: the same for every model scored on the same data. Targets are in the order of their pairs,
    target_id is the pair's id.

    Raises:
        ValueError: There is not one score for each pair, or one is nan.
    """
    values = np.asarray(scores, float)
    if values.shape != (len(pairs.gold),) or np.isnan(values).any():
        raise ValueError(
            f"scores have shape {values.shape}; there must be {len(pairs.gold)}, none of them nan"
        )
    groups = pairs.groups()
    if not groups:
        return DataFrame(columns=list(RANKING_COLUMNS))
    # One frame of all queries, not one for each: a suite can have thousands.
    sizes = [len(group.pairs) for group in groups]
    rows = np.concatenate([group.pairs for group in groups])
    columns = {
        "suite": suite,
        "query_id": np.repeat([f"q{number}" for number in range(len(groups))], sizes),
        "target_id": np.asarray(pairs.pair_id, object)[rows],
        "query": np.repeat(np.array([group.query for group in groups], object), sizes),
        "target": [target for group in groups for target in group.targets],
        "gold": pairs.gold[rows].astype(float),
        "score": values[rows],
        "rank": np.concatenate([average_ranks(-values[group.pairs]) for group in groups]),
    }
    return DataFrame(columns)
