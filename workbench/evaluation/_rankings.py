"""Ranking tables: the rank of each target of each query under a model. No torch.

A table has one row per target of a query, with the columns of `COLUMNS`. Rank 1 is best; equal
scores share an average."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from workbench.data import Pairs
from workbench.metrics import average_ranks, ranking_groups

COLUMNS = ("suite", "query_id", "target_id", "query", "target", "gold", "score", "rank")


def ranking_table(pairs: Pairs, scores: ArrayLike, suite: str) -> pd.DataFrame:
    """Return the ranking table of one model's scores [n] of `pairs`; `suite` is the first column.

    Queries are those of `ranking_groups`, in order of first appearance; query_id is "q0", "q1",
    ...: the same for every model scored on the same data. Targets are in the order of their pairs,
    target_id is the pair's id."""
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(pairs.gold),) or np.isnan(values).any():
        raise ValueError(
            f"scores have shape {values.shape}; there must be {len(pairs.gold)}, none of them nan"
        )
    groups = ranking_groups(pairs.sentence1, pairs.sentence2, pairs.gold)
    if not groups:
        return pd.DataFrame(columns=list(COLUMNS))
    queries = list(groups.values())
    rows = np.concatenate([query.pairs for query in queries])
    return pd.DataFrame(
        {
            "suite": suite,
            "query_id": [f"q{number}" for number, query in enumerate(queries) for _ in query],
            "target_id": np.asarray(pairs.pair_id, dtype=object)[rows],
            "query": [query.query for query in queries for _ in query],
            "target": [target for query in queries for target in query],
            "gold": np.concatenate([query.gold for query in queries]),
            "score": values[rows],
            "rank": np.concatenate([average_ranks(-values[query.pairs]) for query in queries]),
        }
    )
