"""Rankings of several labels as tables: one query with all its ranks, and the queries of a
suite."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError
from workbench.files import set_name
from workbench.metrics import FEWEST_TARGETS, average_ranks, kendall
from workbench.views._style import letters

_TARGET = ["query_id", "target_id", "query", "target", "gold"]


@dataclass(frozen=True, eq=False)
class QueryView:
    """One query with its targets and their ranks under each label.

    `table` has a row for each target, in the order of gold, or of the first label if there is no
    gold, best first: target, gold and gold rank if known, and for each label L "rank: L" and
    "score: L". Its index are letters."""

    query: str
    table: pd.DataFrame
    place: str = ""  # suite and id of the query

    @classmethod
    def from_scores(
        cls,
        query: str,
        targets: list[str],
        gold: np.ndarray | None,
        scores: Mapping[str, np.ndarray],
        place: str = "",
    ) -> "QueryView":
        """Return the view of `targets` [n] with scores by label, [n] each, larger is closer, and
        gold, [n] or None."""
        if "gold" in scores:
            raise ValueError("'gold' is the name of the gold scores; choose another label")
        columns: dict[str, Any] = {"target": targets}
        if gold is not None:
            columns |= {"gold": gold, "gold rank": average_ranks(-gold)}
        columns |= {f"rank: {label}": average_ranks(-values) for label, values in scores.items()}
        columns |= {f"score: {label}": values for label, values in scores.items()}
        reference = next(iter(scores.values())) if gold is None else gold
        table = pd.DataFrame(columns).iloc[np.argsort(-reference, kind="stable")]
        return cls(query, table.set_axis(letters(len(table)), axis=0), place)

    @property
    def gold(self) -> np.ndarray | None:
        """Return gold of each target, None if there is none."""
        return self.table["gold"].to_numpy() if "gold" in self.table else None

    @property
    def scores(self) -> dict[str, np.ndarray]:
        return self._columns("score: ")

    @property
    def ranks(self) -> dict[str, np.ndarray]:
        """Return the ranks under gold and each label, in the order of the charts; all are compared
        with the first."""
        ranks = self._columns("rank: ")
        return ranks if self.gold is None else {"gold": self.table["gold rank"].to_numpy(), **ranks}

    def _columns(self, kind: str) -> dict[str, np.ndarray]:
        names = [name for name in self.table if name.startswith(kind)]
        return {name.removeprefix(kind): self.table[name].to_numpy() for name in names}

    def nearest(self, count: int) -> "QueryView":
        """Return the view of the `count` targets with the best rank under gold or any label."""
        best = np.minimum.reduce(list(self.ranks.values()))
        return replace(
            self, table=self.table.iloc[np.sort(np.argsort(best, kind="stable")[:count])]
        )


def extract_table(source: Any, kind: str) -> pd.DataFrame:
    """Return the "rankings" or "scores" of a run or report, or a table as it is."""
    table: Any = source if isinstance(source, pd.DataFrame) else getattr(source, kind)
    # A run has a method of this name, a report a table.
    return table if isinstance(table, pd.DataFrame) else table()


class SuiteRankings:
    """The queries of the suite `name` under each label that has it.

    `table` has query_id, target_id, query, target and gold, in the order of the first label's
    table; `scores` has the scores of each label in this order, and `rows` the positions of the
    targets of each query."""

    def __init__(self, sources: Mapping[str, Any], suite: str | None = None) -> None:
        """Read ranking tables, runs or reports by label for a suite, by default the first.

        Raises DataError if no table has a query of the suite, ValueError if they rank different
        targets."""
        tables = {
            str(label): extract_table(source, "rankings") for label, source in sources.items()
        }
        suites = list(dict.fromkeys(name for table in tables.values() for name in table["suite"]))
        self.name = set_name(suite or next(iter(suites), ""))
        parts = {
            label: part
            for label, table in tables.items()
            if len(part := table.loc[table["suite"] == self.name])
        }
        if not parts:
            needed = f"a query is a sentence in at least {FEWEST_TARGETS} pairs"
            raise DataError(
                f"no query of {self.name or 'any suite'} ({', '.join(suites) or 'none'} "
                f"ranked); {needed}"
            )
        self.labels = list(parts)
        self.table = parts[self.labels[0]][_TARGET].reset_index(drop=True)
        self.scores = {label: self._aligned_scores(label, part) for label, part in parts.items()}
        self.gold = self.table["gold"].to_numpy()
        self.rows: Mapping[Any, np.ndarray] = self.table.groupby("query_id", sort=False).indices

    def _aligned_scores(self, label: str, part: pd.DataFrame) -> np.ndarray:
        """Return the scores of one label in the order of `table`."""
        # As a rule: a merge takes seconds.
        if part[_TARGET].reset_index(drop=True).equals(self.table):
            return part["score"].to_numpy()
        both = self.table.merge(part, on=_TARGET, validate="one_to_one")
        if different := len(self.table) + len(part) - 2 * len(both):
            raise ValueError(
                f"{self.labels[0]!r} and {label!r} do not rank the same targets of "
                f"{self.name!r} with the same gold: "
                f"{different} rows are in one alone; score both on one version of the set"
            )
        return both["score"].to_numpy()

    def view(self, query_id: Any) -> QueryView:
        """Return one query under all labels; KeyError for an unknown query."""
        rows = self.rows[query_id]
        part = self.table.iloc[rows]
        return QueryView.from_scores(
            part["query"].iloc[0],
            part["target"].tolist(),
            self.gold[rows],
            {label: values[rows] for label, values in self.scores.items()},
            f"{self.name}, {query_id}",
        )

    def distances(self, a: str, b: str | None = None) -> np.ndarray:
        """Return 1 - tau-b of each query between the scores of a and b, or gold; nan if one of them
        ties all."""
        one = self.scores[a]
        two = self.gold if b is None else self.scores[b]
        return np.array(
            [1 - kendall(one[rows], two[rows]) for rows in self.rows.values()], dtype=float
        )


def rank_displacement(ranks: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return [n] places by which `ranks` have each item nearer (above 0) or further (below 0) than
    `reference`.

    Any place within a tie of the reference counts as equal.
    """
    _, place, size = np.unique(reference, return_inverse=True, return_counts=True)
    reach = (size[place] - 1) / 2
    return np.clip(ranks, reference - reach, reference + reach) - ranks
