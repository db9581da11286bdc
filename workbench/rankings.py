"""The ranking table: which target stands where for which query, under one model or several. No torch.

A table has one row a query's target, with the columns of `COLUMNS`. Rank 1 is best; equal scores share
their average rank, so a rank may end in .5.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from workbench.metrics import FEWEST_TARGETS, average_ranks, kendall, ndcg, ranking_groups

COLUMNS = ("suite", "query_id", "target_id", "query", "target", "gold", "score", "rank")
_KEY = ["suite", "query_id", "target_id"]


class ScoredPairs(Protocol):
    """What a ranking table needs of a set of pairs."""

    @property
    def sentence1(self) -> list[str]: ...
    @property
    def sentence2(self) -> list[str]: ...
    @property
    def gold(self) -> np.ndarray: ...
    @property
    def pair_id(self) -> list[str]: ...


def ranking_table(
    pairs: ScoredPairs, scores: ArrayLike, suite: str, *, more_than: int = FEWEST_TARGETS - 1, either_side: bool = True
) -> pd.DataFrame:
    """The rankings that one model's scores make of a set of pairs, a row a query's target.

    Args:
        pairs: A set with sentence1, sentence2, gold and pair_id.
        scores: The score of each pair; larger = closer.
        suite: Name of the set, the first column.
        more_than: A sentence with more partners than this is a query, as in `ranking_groups`.
        either_side: False: only first sentences are queries.

    Returns:
        The columns of `COLUMNS`, empty without queries. Queries in order of first appearance, query_id "q0", "q1", ...:
        the same for every model scored on the same data. Targets in the order of their pairs, target_id the pair's id.

    Raises:
        ValueError: Not one score a pair, or nan among the scores.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(pairs.gold),):
        raise ValueError(f"scores have shape {values.shape} for {len(pairs.gold)} pairs; give one score a pair")
    if np.isnan(values).any():
        raise ValueError(f"scores hold nan in {int(np.isnan(values).sum())} places; a score that is nan has no rank")
    groups = ranking_groups(pairs.sentence1, pairs.sentence2, pairs.gold, more_than=more_than, either_side=either_side)
    identity = np.asarray(pairs.pair_id, dtype=object)
    queries = list(groups.values())
    if not queries:
        return pd.DataFrame(columns=list(COLUMNS))
    rows = np.concatenate([query.pairs for query in queries])
    return pd.DataFrame(
        {
            "suite": suite,
            "query_id": [f"q{number}" for number, query in enumerate(queries) for _ in query],
            "target_id": identity[rows],
            "query": [query.query for query in queries for _ in query],
            "target": [target for query in queries for target in query],
            "gold": np.concatenate([query.gold for query in queries]),
            "score": values[rows],
            "rank": np.concatenate([average_ranks(-values[query.pairs]) for query in queries]),
        }
    )


def require_table(table: pd.DataFrame, name: str) -> None:
    """Raises ValueError where a column of a ranking table is missing."""
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise ValueError(f"{name} has no column {', '.join(missing)}; give a table of ranking_table or Run.rankings()")


def _queries(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for key, group in table.groupby(["suite", "query_id"], sort=False):
        suite, query_id = cast(tuple[str, str], key)
        yield suite, query_id, group


def per_query_metrics(table: pd.DataFrame) -> pd.DataFrame:
    """suite, query_id, query, kcc, ndcg, n: how well each query's ranking keeps the order of gold.

    kcc is tau-b, in [-1, 1]; ndcg has linear gain, in [0, 1]; each is nan for a query where it is undefined (all labels
    or all scores equal). n counts the targets. A query's order in the table is kept.

    Raises:
        ValueError: A column is missing.
    """
    require_table(table, "table")
    rows = [
        {
            "suite": suite,
            "query_id": query_id,
            "query": group["query"].iloc[0],
            "kcc": kendall(group["gold"].to_numpy(), group["score"].to_numpy()),
            "ndcg": ndcg(group["gold"].to_numpy(), group["score"].to_numpy()),
            "n": len(group),
        }
        for suite, query_id, group in _queries(table)
    ]
    return pd.DataFrame(rows, columns=["suite", "query_id", "query", "kcc", "ndcg", "n"])


def one_query(table: pd.DataFrame, query_id: str, suite: str | None = None) -> pd.DataFrame:
    """The rows of one query, best gold first.

    Raises:
        ValueError: No such query, or several suites have one of this id and `suite` does not say which.
    """
    require_table(table, "table")
    rows = table.loc[table["query_id"] == query_id]
    if suite is not None:
        rows = rows.loc[rows["suite"] == suite]
    suites = list(dict.fromkeys(rows["suite"]))
    if not suites:
        known = ", ".join(dict.fromkeys(table["query_id"]))
        raise ValueError(f"no query {query_id!r} in {suite or 'the table'}; it has {known[:200] or 'no queries'}")
    if len(suites) > 1:
        raise ValueError(f"query {query_id!r} is in {', '.join(suites)}; say which suite")
    return rows.sort_values("gold", ascending=False, kind="stable")


def side_by_side(tables: Mapping[str, pd.DataFrame], query_id: str, *, suite: str | None = None) -> pd.DataFrame:
    """One query's targets under several models: target | gold | gold rank | rank: L ... | score: L ..., L each label.

    Args:
        tables: label -> ranking table, all of the same data.
        query_id: Which query.
        suite: Which suite, where the tables hold several.

    Returns:
        A row a target, indexed by target_id, best gold first, ties in the order of the pairs.

    Raises:
        ValueError: No tables, no such query, or tables of different data.
    """
    if not tables:
        raise ValueError("no tables; give at least one, as {label: table}")
    parts = {label: one_query(table, query_id, suite).set_index("target_id") for label, table in tables.items()}
    first_label, first = next(iter(parts.items()))
    wide = first.loc[:, ["target", "gold"]].copy()
    wide["gold rank"] = average_ranks(-first["gold"].to_numpy())
    for label, part in parts.items():
        if set(part.index) != set(first.index) or not part.loc[first.index, "gold"].equals(first["gold"]):
            raise ValueError(
                f"{first_label!r} and {label!r} rank other targets for {query_id!r}; score both on one set"
            )
        wide[f"rank: {label}"] = part.loc[first.index, "rank"]
    for label, part in parts.items():
        wide[f"score: {label}"] = part.loc[first.index, "score"]
    return wide


def _joined(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Both tables' rows, target by target, in the order of `a`."""
    require_table(a, "a")
    require_table(b, "b")
    if len(a) == len(b) and all((a[name].to_numpy() == b[name].to_numpy()).all() for name in _KEY):
        moved = {f"{name}_b": b[name].to_numpy() for name in ("score", "rank")}  # row by row: nothing to look up
        return a.rename(columns={"score": "score_a", "rank": "rank_a"}).assign(**moved)
    both = a.merge(b[[*_KEY, "score", "rank"]], on=_KEY, how="inner", suffixes=("_a", "_b"), validate="one_to_one")
    if not len(both) == len(a) == len(b):
        raise ValueError(f"a and b share {len(both)} of their {len(a)} and {len(b)} rows; score both models on one set")
    return both


def disagreements(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Queries by how differently two models rank their targets, the most different first.

    Args:
        a: One model's ranking table.
        b: Another's, of the same data.

    Returns:
        suite, query_id, query, disagreement = 1 - tau-b of the two models' scores, in [0, 2] (0: one order; nan, at the
        end: one of them ties all targets), largest_move in ranks, n.

    Raises:
        ValueError: A column is missing, or the tables are of different data.
    """
    rows = [
        {
            "suite": suite,
            "query_id": query_id,
            "query": group["query"].iloc[0],
            "disagreement": 1 - kendall(group["score_a"].to_numpy(), group["score_b"].to_numpy()),
            "largest_move": float(np.abs(group["rank_a"].to_numpy() - group["rank_b"].to_numpy()).max()),
            "n": len(group),
        }
        for suite, query_id, group in _queries(_joined(a, b))
    ]
    table = pd.DataFrame(rows, columns=["suite", "query_id", "query", "disagreement", "largest_move", "n"])
    return table.sort_values("disagreement", ascending=False, kind="stable", ignore_index=True)
