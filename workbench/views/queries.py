"""Rankings of several labels as tables: checks, one query with all its ranks, and orders of queries."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, RunError
from workbench.files import set_name
from workbench.metrics import FEWEST_TARGETS, average_ranks, kendall
from workbench.rankings import require_table
from workbench.views._style import letters

_LOG = logging.getLogger("workbench")
_TARGET = ["query_id", "target_id", "query", "target", "gold"]

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

    `table` has a row for each target, in the order of gold, or of the first label if there is no gold, best first:
    target, gold and gold rank if known, and for each label L "rank: L" and "score: L". Its index has the letters that
    name the targets in table and chart. `total` counts all targets, even if the view has some only.
    """

    query: str
    table: pd.DataFrame
    total: int
    suite: str = ""
    query_id: str = ""

    @classmethod
    def from_scores(
        cls, query: str, targets: list[str], gold: np.ndarray | None, scores: Mapping[str, np.ndarray], **names: str
    ) -> "QueryView":
        """Return the view of `targets` [n] with scores by label, [n] each, larger is closer, and gold, [n] or None."""
        order = np.argsort(-(next(iter(scores.values())) if gold is None else gold), kind="stable")
        columns: dict[str, Any] = {"target": [targets[place] for place in order]}
        if gold is not None:
            columns |= {"gold": gold[order], "gold rank": average_ranks(-gold[order])}
        columns |= {f"rank: {label}": average_ranks(-values[order]) for label, values in scores.items()}
        columns |= {f"score: {label}": values[order] for label, values in scores.items()}
        return cls(query, pd.DataFrame(columns, index=letters(len(order))), len(order), **names)

    @property
    def letters(self) -> list[str]:
        """Return the letters of the targets."""
        return self.table.index.tolist()

    @property
    def gold(self) -> np.ndarray | None:
        """Return gold of each target, None if there is none."""
        return self.table["gold"].to_numpy() if "gold" in self.table else None

    @property
    def ranks(self) -> dict[str, np.ndarray]:
        """Return the ranks under each label."""
        return self._starting("rank: ")

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """Return the scores under each label."""
        return self._starting("score: ")

    def _starting(self, kind: str) -> dict[str, np.ndarray]:
        named = [name for name in self.table if name.startswith(kind)]
        return {name.removeprefix(kind): self.table[name].to_numpy() for name in named}

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Return the ranks of gold and of each label, in the order of the charts; all are compared with the first."""
        gold = {} if self.gold is None else {"gold": self.table["gold rank"].to_numpy()}
        return gold | self.ranks

    @property
    def part(self) -> str:
        """Describe which targets the view has; "" if it has all."""
        count, by = len(self.table), "" if self.gold is None else "gold or "
        return "" if count == self.total else f": {count} of {self.total:,} targets, the nearest under {by}a model"

    def nearest(self, count: int) -> "QueryView":
        """Return the view of the `count` targets with the best rank under gold or any label."""
        return replace(self, table=self.table.iloc[self.nearest_places(count)])

    def nearest_places(self, count: int) -> np.ndarray:
        """Return the positions of the targets of `nearest` in this view."""
        best = np.minimum.reduce(list(self.columns.values()))
        return np.sort(np.argsort(best, kind="stable")[:count])

    def letters_by_rank(self, ranks: np.ndarray) -> dict[float, list[str]]:
        """Return rank -> letters of the targets with this rank, nearest first."""
        groups, letter_of = {}, self.letters
        for place in np.argsort(ranks, kind="stable"):
            groups.setdefault(float(ranks[place]), []).append(letter_of[place])
        return groups


def ranking_tables(tables: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return label -> ranking table of tables, runs or reports. A run that cannot be read is left out and logged.

    Raises:
        TypeError: Not a ranking table, run or report.
        ValueError: No tables, an empty one, or a target that occurs twice.
        RunError: None of the runs can be read.
    """
    if not isinstance(tables, Mapping) or not tables:
        raise ValueError("no rankings to look at; give at least one, as {label: table or run}")
    if "gold" in tables:
        raise ValueError("a label is 'gold', which is the name of the data's own ranks; give it another")
    read, problem = {}, None
    for label, given in tables.items():
        try:
            read[str(label)] = ranking_table_of(str(label), given)
        except RunError as error:
            problem = error
            _LOG.warning("left out: %s: %s", label, error)
    if problem and not read:
        raise problem
    for label, table in read.items():
        if table.empty:
            needed = f"none of its data's sentences is in {FEWEST_TARGETS} pairs, the fewest that make a query"
            raise DataError(f"{label!r} ranks nothing: {needed}")
        if (twice := table.duplicated(["suite", "query_id", "target_id"])).any():
            row = table.loc[twice].iloc[0]
            raise ValueError(f"{label!r} has target {row['target_id']!r} of query {row['query_id']!r} twice; keep one")
    return read


def ranking_table_of(label: str, given: Any) -> pd.DataFrame:
    """Return the ranking table of a table, run or report; TypeError or ValueError for anything else."""
    table = getattr(given, "rankings", given)  # a run has a method of this name, a report a table
    table = table() if callable(table) else table
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"{label!r} is a {type(given).__name__}; give a ranking table, a Run or a Report")
    require_table(table, repr(label))
    return table


def suites_of(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return every suite of the tables, in order of first appearance."""
    return list(dict.fromkeys(suite for table in tables.values() for suite in table["suite"].unique()))


class SuiteRankings:
    """The queries of one suite under each label that has it.

    `table` has query_id, target_id, query, target, gold and the score of each label by its name, in the order of the
    first label's table; `rows` has the positions of the targets of each query.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame], suite: str) -> None:
        """Read tables of `ranking_tables`; ValueError if none has the suite, or they rank different targets."""
        self.suite = set_name(suite)
        parts = {label: table.loc[table["suite"] == self.suite] for label, table in tables.items()}
        parts = {label: part for label, part in parts.items() if len(part)}
        if not parts:
            raise ValueError(f"no suite {suite!r} in these rankings; they have {', '.join(suites_of(tables))}")
        self.labels = list(parts)
        self.table = parts[self.labels[0]][_TARGET].reset_index(drop=True)
        self.scores = {label: self._aligned_scores(label, part) for label, part in parts.items()}
        self.gold = self.table["gold"].to_numpy()
        self.rows: Mapping[Any, np.ndarray] = self.table.groupby("query_id", sort=False).indices

    def _aligned_scores(self, label: str, part: pd.DataFrame) -> np.ndarray:
        """Return the scores of one label in the order of `table`."""
        if not part[_TARGET].reset_index(drop=True).equals(self.table):  # row by row the same, as a rule
            both = self.table.merge(part, how="outer", on=_TARGET, indicator="in")
            different = both.loc[both["in"] != "both"]
            if len(different):
                row = different.iloc[0]
                raise ValueError(
                    f"{self.labels[0]!r} and {label!r} do not rank the same targets of {self.suite!r} with the same "
                    f"gold: the first of {len(different)} rows in one alone is target {row['target_id']!r} of query "
                    f"{row['query_id']!r}; score both on one version of the set"
                )
            part = self.table.merge(part, on=_TARGET)
        return part["score"].to_numpy()

    def query(self, query_id: Any) -> str:
        """Return the text of a query."""
        return str(self.table["query"].iloc[self.rows[query_id][0]])

    def view(self, query_id: Any, labels: Sequence[str] = ()) -> QueryView:
        """Return one query under some labels, by default all; ValueError for an unknown query."""
        if query_id not in self.rows:
            raise ValueError(f"no query {query_id!r} in {self.suite}; it has {', '.join(map(str, self.rows)):.200}")
        rows = self.rows[query_id]
        scores = {label: self.scores[label][rows] for label in labels or self.labels}
        targets, names = self.table["target"].iloc[rows].tolist(), {"suite": self.suite, "query_id": query_id}
        return QueryView.from_scores(self.query(query_id), targets, self.gold[rows], scores, **names)

    def values(self, order: str, a: str, b: str) -> np.ndarray:
        """Return the value of each query by which an order of `ORDERS` sorts; a and b are labels, nan is last."""
        one, two, gold = self.scores[a], self.scores[b], self.gold
        value = {
            "data": lambda rows: np.nan,
            "disagreement": lambda rows: 1 - kendall(one[rows], two[rows]),
            "worst": lambda rows: kendall(gold[rows], one[rows]),
            "gain": lambda rows: kendall(gold[rows], two[rows]) - kendall(gold[rows], one[rows]),
        }[order]
        return np.array([value(rows) for rows in self.rows.values()], dtype=float)


def rank_displacement(ranks: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return [n] places by which `ranks` have each item nearer (above 0) or further (below 0) than `reference`.

    Any place within a tie of the reference counts as equal.
    """
    _, place, size = np.unique(reference, return_inverse=True, return_counts=True)
    reach = (size[place] - 1) / 2
    return np.clip(ranks, reference - reach, reference + reach) - ranks
