"""Rankings of several labels as tables: checks, one query with all its ranks, and orders of queries."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from workbench.errors import DataError, RunError
from workbench.files import set_name
from workbench.metrics import FEWEST_TARGETS, average_ranks
from workbench.rankings import disagreements, per_query_metrics, require_table, side_by_side
from workbench.views._style import letters

_LOG = logging.getLogger("workbench")
_KEY = ["query_id", "target_id"]

# How queries can be ordered: name -> (in a few words, what it orders by). a and b are labels.
ORDERS = {
    "data": ("as in the data", "the order in which the data has them"),
    "disagreement": ("a and b disagree", "1 - tau-b between the scores of a and b, largest first"),
    "worst": ("a is worst", "KCC of a, smallest first"),
    "gain": ("b gains over a", "KCC of b less KCC of a, largest first"),
}


@dataclass(frozen=True, eq=False)
class QueryView:
    """One query with its targets and their ranks under each label.

    Targets are in the order of gold, or of the first label if there is no gold, best first; ranks and scores have the
    same order. A letter names a target in table and chart. `total` counts all targets, even if the view has some only.
    """

    suite: str
    query_id: str
    query: str
    letters: list[str]
    targets: list[str]
    gold: np.ndarray | None
    gold_rank: np.ndarray | None
    ranks: dict[str, np.ndarray]
    scores: dict[str, np.ndarray]
    total: int

    @classmethod
    def made(
        cls,
        query: str,
        targets: list[str],
        gold: np.ndarray | None,
        scores: Mapping[str, np.ndarray],
        *,
        suite: str = "",
        query_id: str = "",
    ) -> "QueryView":
        """Return the view of `targets` [n] with scores by label, [n] each, larger is closer, and gold, [n] or None."""
        known = next(iter(scores.values())) if gold is None else gold
        order = np.argsort(-known, kind="stable")
        return cls(
            suite=suite,
            query_id=query_id,
            query=query,
            letters=letters(len(order)),
            targets=[targets[place] for place in order],
            gold=None if gold is None else gold[order],
            gold_rank=None if gold is None else average_ranks(-gold[order]),
            ranks={label: average_ranks(-values[order]) for label, values in scores.items()},
            scores={label: values[order] for label, values in scores.items()},
            total=len(order),
        )

    @property
    def reference(self) -> np.ndarray:
        """Return the ranks with which others are compared: gold or the first label."""
        return next(iter(self.columns.values()))

    @property
    def part(self) -> str:
        """Describe which targets the view has; "" if it has all."""
        count = len(self.targets)
        by = "" if self.gold is None else "gold or "
        return "" if count == self.total else f": {count} of {self.total:,} targets, the nearest under {by}a model"

    def nearest(self, count: int) -> "QueryView":
        """Return the view of the `count` targets with the best rank under gold or any label."""
        kept = self.nearest_places(count)
        return replace(
            self,
            letters=[self.letters[place] for place in kept],
            targets=[self.targets[place] for place in kept],
            gold=None if self.gold is None else self.gold[kept],
            gold_rank=None if self.gold_rank is None else self.gold_rank[kept],
            ranks={label: ranks[kept] for label, ranks in self.ranks.items()},
            scores={label: scores[kept] for label, scores in self.scores.items()},
        )

    def nearest_places(self, count: int) -> np.ndarray:
        """Return the positions of the targets of `nearest` in this view."""
        best = np.minimum.reduce(list(self.columns.values()))
        return np.sort(np.argsort(best, kind="stable")[:count])

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Return the ranks of gold and of each label, in the order of the charts."""
        return self.ranks if self.gold_rank is None else {"gold": self.gold_rank, **self.ranks}

    def measured(self, measure: Callable[[ArrayLike, ArrayLike], float]) -> dict[str, float]:
        """Return label -> `measure` of gold and its scores, such as `kendall`, over the targets of this view."""
        return {} if self.gold is None else {name: measure(self.gold, values) for name, values in self.scores.items()}

    def letters_by_rank(self, ranks: np.ndarray) -> dict[float, list[str]]:
        """Return rank -> letters of the targets with this rank, nearest first."""
        found: dict[float, list[str]] = {}
        for place in np.argsort(ranks, kind="stable"):
            found.setdefault(float(ranks[place]), []).append(self.letters[place])
        return found


def ranking_tables(tables: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return label -> ranking table, after checking that tables of one suite rank the same targets.

    Args:
        tables: label -> a ranking table, a `Run`, or a `Report`.

    Raises:
        TypeError: Something else than a ranking table, a run or a report.
        ValueError: No tables, an empty one, or tables of different data; the text names the two labels and the first
            difference.
        RunError: Not one of the runs can be read; else one that cannot is left out, and a line says so.
    """
    if not isinstance(tables, Mapping) or not tables:
        raise ValueError("no rankings to look at; give at least one, as {label: table or run}")
    if "gold" in tables:
        raise ValueError("a label is 'gold', which is the name of the data's own ranks; give it another")
    read, problem = {}, None
    for label, given in tables.items():
        try:
            read[str(label)] = _checked(str(label), as_table(str(label), given))
        except RunError as found:
            problem = found
            _LOG.warning("left out: %s: %s", label, problem)
    if problem and not read:
        raise problem
    first: dict[str, str] = {}
    for label, table in read.items():
        for suite in table["suite"].unique():
            _require_same_targets(suite, first.setdefault(suite, label), label, read)
    return read


def suites_of(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return every suite of the tables, in order of first appearance."""
    return list(dict.fromkeys(suite for table in tables.values() for suite in table["suite"].unique()))


def of_suite(tables: Mapping[str, pd.DataFrame], suite: str) -> dict[str, pd.DataFrame]:
    """Return the rows of one suite for each label that has it.

    Raises:
        ValueError: No table has this suite.
    """
    found = {label: table.loc[table["suite"] == set_name(suite)] for label, table in tables.items()}
    found = {label: table for label, table in found.items() if len(table)}
    if not found:
        raise ValueError(f"no suite {suite!r} in these rankings; they have {', '.join(suites_of(tables))}")
    return found


def query_view(tables: Mapping[str, pd.DataFrame], query_id: str, *, suite: str | None = None) -> QueryView:
    """Return one query of `tables` (of `ranking_tables`); `suite` is needed only if several have this query.

    Raises:
        ValueError: No such query or suite, or several suites with a query of this id.
    """
    suite = None if suite is None else set_name(suite)
    of_one = tables if suite is None else of_suite(tables, suite)
    wide = side_by_side(of_one, query_id, suite=suite)
    first = next(iter(of_one.values()))
    row = first.loc[(first["query_id"] == query_id) & first["suite"].eq(suite or first["suite"])].iloc[0]
    scores = {label: wide[f"score: {label}"].to_numpy() for label in of_one}
    names = {"suite": row["suite"], "query_id": query_id}
    return QueryView.made(row["query"], wide["target"].tolist(), wide["gold"].to_numpy(), scores, **names)


def ordered_queries(tables: Mapping[str, pd.DataFrame], by: str, a: str, b: str) -> pd.DataFrame:
    """Return query_id, query and value of the queries of one suite in an order of `ORDERS`; nan is last.

    Args:
        tables: label -> the rows of one suite, as `of_suite` gives them.
        by: A name of `ORDERS`; value is what it orders by, nan for "data".
        a: A label.
        b: A label; only for "disagreement" and "gain".

    Raises:
        ValueError: No such order or label.
    """
    if by not in ORDERS:
        raise ValueError(f"no order {by!r}; the orders are {', '.join(ORDERS)}")
    for label in (a, b):
        if label not in tables:
            raise ValueError(f"no rankings {label!r}; there are {', '.join(tables)}")
    find = {
        "data": lambda: tables[a].drop_duplicates("query_id").assign(value=np.nan),
        "disagreement": lambda: disagreements(tables[a], tables[b]).rename(columns={"disagreement": "value"}),
        "worst": lambda: _kcc(tables[a]).sort_values("value", kind="stable"),
        "gain": lambda: _gain(tables[a], tables[b]).sort_values("value", ascending=False, kind="stable"),
    }
    return find[by]().reindex(columns=["query_id", "query", "value"]).reset_index(drop=True)


def aligned(tables: Mapping[str, pd.DataFrame]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return gold [n] and label -> scores [n] of one suite, in the order of the first table."""
    first = next(iter(tables.values()))
    keys = [first[name].reset_index(drop=True) for name in _KEY]
    found = {}
    for label, table in tables.items():
        same = all(key.equals(table[str(key.name)].reset_index(drop=True)) for key in keys)
        scores = table["score"] if same else table.set_index(_KEY)["score"].loc[[*zip(*keys, strict=True)]]
        found[label] = scores.to_numpy()
    return first["gold"].to_numpy(), found


def places_off(ranks: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return [n] places by which `ranks` have each item nearer (above 0) or further (below 0) than `reference`.

    Any place within a tie of the reference counts as equal.
    """
    _, place, size = np.unique(reference, return_inverse=True, return_counts=True)
    reach = (size[place] - 1) / 2
    return np.clip(ranks, reference - reach, reference + reach) - ranks


def _kcc(table: pd.DataFrame) -> pd.DataFrame:
    return per_query_metrics(table).rename(columns={"kcc": "value"})


def _gain(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    before, after = _kcc(a), _kcc(b).set_index("query_id")["value"]
    return before.assign(value=after.loc[before["query_id"]].to_numpy() - before["value"].to_numpy())


def as_table(label: str, given: Any) -> pd.DataFrame:
    """Return the ranking table of a table, run or report; TypeError or ValueError for anything else."""
    table = getattr(given, "rankings", given)  # a run has a method of this name, a report a table
    table = table() if callable(table) else table
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"{label!r} is a {type(given).__name__}; give a ranking table, a Run or a Report")
    require_table(table, repr(label))
    return table


def _checked(label: str, table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        needed = f"none of its data's sentences is in {FEWEST_TARGETS} pairs, the fewest that make a query"
        raise DataError(f"{label!r} ranks nothing: {needed}")
    twice = table.duplicated(["suite", *_KEY])
    if twice.any():
        row = table.loc[twice].iloc[0]
        raise ValueError(f"{label!r} has target {row['target_id']!r} of query {row['query_id']!r} twice; keep one")
    return table


def _require_same_targets(suite: str, reference: str, label: str, tables: Mapping[str, pd.DataFrame]) -> None:
    if label == reference:
        return
    parts = [of_suite({name: tables[name]}, suite)[name].reset_index(drop=True) for name in (reference, label)]
    if all(parts[0][column].equals(parts[1][column]) for column in (*_KEY, "query", "target", "gold")):
        return  # row by row, as tables of one data are: a look-up of each key would cost many times as much
    known, given = (part.set_index(_KEY) for part in parts)
    only = [(reference, known.index.difference(given.index)), (label, given.index.difference(known.index))]
    for name, keys in only:
        if len(keys):
            query, target = cast(tuple[str, str], keys[0])
            raise ValueError(
                f"{reference!r} and {label!r} do not rank the same targets of {suite!r}: {len(keys)} stand in {name!r} "
                f"alone, the first is target {target!r} of query {query!r}; score both on one set, or leave one out"
            )
    other = given.loc[known.index]
    for column in ("query", "target", "gold"):
        differs = (known[column] != other[column]).to_numpy()
        if differs.any():
            query, target = cast(tuple[str, str], known.index[int(differs.argmax())])
            raise ValueError(
                f"{reference!r} and {label!r} have another {column} for {int(differs.sum())} targets of {suite!r}, "
                f"the first is target {target!r} of query {query!r}; score both on one version of the set"
            )
