"""Rankings of several labels as tables: one query with all its ranks, and all of a suite."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from workbench.errors import DataError, WorkbenchError
from workbench.evaluation import extract_table
from workbench.files import Facts, set_name
from workbench.metrics import (
    FEWEST_TARGETS,
    RETRIEVAL,
    average_ranks,
    kendall,
    retrieval_metrics,
)
from workbench.views._style import letters

# label -> a table of rankings or of scores, a `Run` or a `Report`
Sources = Mapping[str, Any]
Arrays = dict[str, ndarray]  # by label
_MANY = 20  # targets, above which measures of retrieval are shown
_TARGET = ["query_id", "target_id", "query", "target", "gold"]


@dataclass(frozen=True, eq=False)
class QueryView:
    """One query with its targets and their ranks under each label.

    `table` has a row for each target, in the order of gold, or of the first label if there is no
    gold, best first: target, gold and gold rank if known, and for each label L "rank: L" and
    "score: L", which is -inf for targets that L did not retrieve: they are tied last; and a remark
    if there are some. Its index are letters.
    """

    query: str
    table: DataFrame
    place: str = ""  # suite and id of the query
    measures: Mapping[str, Sequence[float]] = field(default_factory=dict)  # of each label

    @classmethod
    def from_scores(
        cls,
        query: str,
        targets: list[str],
        gold: ndarray | None,
        scores: Mapping[str, ndarray],
        place: str = "",
        *,
        remarks: Sequence[str] = (),
    ) -> "QueryView":
        """Return the view of some targets.

        Args:
            query: Its sentence.
            targets: n sentences.
            gold: [n], if known.
            scores: label -> [n], larger is closer.
            place: Suite and id of the query.
            remarks: [n] texts shown below the targets, which they mark; "" does not.

        Raises:
            ValueError: A label is "gold".
        """
        if "gold" in scores:
            raise DataError("'gold' is the name of the gold scores; choose another label")
        columns: Facts = {"target": targets}
        reference: Any = gold
        if gold is None:
            reference = next(iter(scores.values()))
        else:
            columns["gold"] = gold
            columns["gold rank"] = average_ranks(-gold)
        for label, values in scores.items():
            columns[f"rank: {label}"] = average_ranks(-values)
        for label, values in scores.items():
            columns[f"score: {label}"] = values
        if remarks:
            columns["remark"] = remarks
        # Stable, so that ties stay in the order of the file in every front end.
        order = np.argsort(-reference, kind="stable")
        table = DataFrame(columns).iloc[order].set_axis(letters(len(order)), axis=0)
        return cls(query, table, place)

    @property
    def gold(self) -> ndarray | None:
        """Return gold of each target, None if there is none."""
        return self.table["gold"].to_numpy() if "gold" in self.table else None

    @property
    def scores(self) -> Arrays:
        return self._columns("score: ")

    @property
    def ranks(self) -> Arrays:
        """Return the ranks under gold and each label; the charts compare all with the first."""
        ranks = self._columns("rank: ")
        return ranks if self.gold is None else {"gold": self.table["gold rank"].to_numpy(), **ranks}

    @property
    def remarks(self) -> Any:
        """Return what is shown below each target, "" for nothing."""
        return self.table.get("remark", pd.Series("", self.table.index))

    def _columns(self, kind: str) -> Arrays:
        return {
            name.removeprefix(kind): self.table[name].to_numpy()
            for name in self.table
            if name.startswith(kind)
        }

    def nearest(self, count: int) -> "QueryView":
        """Return the view of `count` targets: marked ones, then the best under gold or a label."""
        # By any label: a target that one of them finds is worth seeing. A remark is rank 0.
        places = np.where(self.remarks == "", np.inf, 0)
        best = np.minimum.reduce([places, *self.ranks.values()])
        nearest = np.argsort(best, kind="stable")[:count]
        return replace(self, table=self.table.iloc[np.sort(nearest)])


class SuiteRankings:
    """The queries of the suite `name` under each label that has it.

    Attributes:
        table: query_id, target_id, query, target and gold, in the order of the first label's table.
        scores: The scores of each label in this order.
        rows: The positions of the targets of each query.
    """

    def __init__(self, sources: Sources, suite: str | None = None) -> None:
        """Read ranking tables, runs or reports by label for a suite, by default the first.

        Raises:
            DataError: No table has a query of the suite.
            ValueError: The tables rank different targets.
        """
        tables = {
            str(label): extract_table(source, "rankings") for label, source in sources.items()
        }
        suites = [name for table in tables.values() for name in table["suite"].unique()]
        self.name = set_name(suite or next(iter(suites), ""))
        parts = {}
        for label, table in tables.items():
            part = table.loc[table["suite"] == self.name]
            if len(part):
                parts[label] = part[[*_TARGET, "score"]].reset_index(drop=True)
        if not parts:
            ranked = ", ".join(dict.fromkeys(suites)) or "none"
            raise DataError(
                f"no query of {self.name or 'any suite'} ({ranked} ranked); "
                f"a query is a sentence in at least {FEWEST_TARGETS} pairs"
            )
        self.labels = list(parts)
        self.table = parts[self.labels[0]][_TARGET]
        self.scores = {label: self._aligned_scores(label, part) for label, part in parts.items()}
        self.gold = self.table["gold"].to_numpy()
        # Not `groupby`, which lists categories that no row has, and in their own order.
        codes, queries = pd.factorize(self.table["query_id"])
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        self.rows = dict(zip(queries, rows, strict=True))

    def _aligned_scores(self, label: str, part: DataFrame) -> ndarray:
        """Return the scores of one label in the order of `table`."""
        # As a rule they are in this order, and a merge takes seconds.
        if part[_TARGET].equals(self.table):
            return part["score"].to_numpy()
        # One to one: a repeated target would be scored several times.
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
        scores = {label: values[rows] for label, values in self.scores.items()}
        view = QueryView.from_scores(
            part["query"].iloc[0],
            part["target"].tolist(),
            self.gold[rows],
            scores,
            f"{self.name}, {query_id}",
        )
        if len(rows) > _MANY:
            # Without ir-measures, or with grades that are not whole, there are KCC and NDCG.
            with suppress(WorkbenchError):
                tables = [part.assign(suite=label, score=own) for label, own in scores.items()]
                found = retrieval_metrics(pd.concat(tables))
                view = replace(view, measures={name: found[name].tolist() for name in RETRIEVAL})
        return view

    def distances(self, a: str, b: str | None = None) -> ndarray:
        """Return 1 - tau-b of each query between the scores of a and b, by default gold.

        It is nan if one of them ties all targets.
        """
        one = self.scores[a]
        two = self.gold if b is None else self.scores[b]
        taus = [kendall(one[rows], two[rows]) for rows in self.rows.values()]
        return 1 - np.array(taus)


def rank_displacement(ranks: ndarray, reference: ndarray) -> ndarray:
    """Return by how many places [n] `ranks` differ from a reference: above 0 is nearer.

    Any place within a tie of the reference counts as equal.
    """
    _, tie, size = np.unique(reference, return_inverse=True, return_counts=True)
    half = (size[tie] - 1) / 2  # of the places of a tie
    return np.clip(ranks, reference - half, reference + half) - ranks
