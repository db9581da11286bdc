"""The explorer of queries: a table to order and search, the chosen query as ranking table and slope chart."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd

from workbench.files import set_name
from workbench.rankings import side_by_side
from workbench.views._explorer import VALUE, Explorer, shown
from workbench.views._sharing import Entry
from workbench.views._table import dropdown
from workbench.views.page import slope_image, slope_svg, view_html
from workbench.views.queries import ORDERS, QueryView, aligned, of_suite, ordered_queries, ranking_tables, suites_of

_STATIC_QUERIES = 3
_TARGETS = 50  # at most, in a table, so that the chart is near


class RankingExplorer(Explorer):
    """Choose a query; see its targets with gold and the rank under each label, a slope chart, KCC and NDCG.

    Queries are searched by the words of their texts and of their targets', sorted by a column or by `ORDERS`;
    of many labels two can be shown alone. Without a kernel the first queries are shown as plain HTML.
    """

    kind, shows, orders, first_orders = "queries", "rankings", ORDERS, ("worst", "disagreement")

    def __init__(
        self, tables: Mapping[str, Any], suite: str | None = None, *, encoders: Mapping[str, Any] | None = None
    ) -> None:
        """Show rankings.

        Args:
            tables: label -> ranking table, `Run` or `Report`.
            suite: Which suite to show first; None: the first.
            encoders: label -> encoder, as `Why` takes them: to explain a target's rank when its row is pressed.
                None is read before it is needed.

        Raises:
            TypeError, ValueError: No tables, tables of different data, or no such suite.
            EncoderError: Something that is no encoder.
        """
        self._all = ranking_tables(tables)
        self._take(suite)
        suites = dropdown("suite", {}, None, self._change_suite)
        super().__init__(encoders, {"suite": suites}, height=500)
        self.controls = {"suite": suites, **self.controls}  # first, since labels depend on it
        self.grid.layout.width, self.detail.layout.width = "30%", "69%"
        both = ipywidgets.HBox([self.grid, self.detail], layout={"justify_content": "space-between"})
        self.children = [self.control_row(), both, self.against, self.reasons]

    def _change_suite(self, change: Any) -> None:
        if not self._quiet:
            self._take(change["new"])
            self.fill()

    def take(self, found: Mapping[str, Any]) -> None:
        self._all = ranking_tables(found)
        self._take(self.suite if self.suite in suites_of(self._all) else None)

    def _take(self, suite: str | None) -> None:
        self.suite = set_name(suites_of(self._all)[0] if suite is None else suite)
        self._tables = of_suite(self._all, self.suite)
        self.labels, first = list(self._tables), next(iter(self._tables.values()))
        self._gold, self._scores = aligned(self._tables)
        self._queries, self._targets = (first[name].to_numpy(dtype=object) for name in ("query", "target"))
        self._rows = first.groupby("query_id", sort=False).indices
        self.ids = list(self._rows)  # as the tables have them: texts or numbers

    @property
    def query_id(self) -> Any:
        """Return the chosen query's id; None if no query is listed."""
        return self.chosen_id

    @property
    def selected(self) -> pd.DataFrame:
        """Return the chosen query's targets with gold, ranks and scores, as `side_by_side`; empty if there is none."""
        tables = {label: self._tables[label] for label in self.shown_labels}
        return pd.DataFrame() if self.query_id is None else side_by_side(tables, self.query_id)

    @property
    def note(self) -> str:
        absent = [label for label in self._all if label not in self._tables]
        return super().note + (f"; not ranked here: {', '.join(absent)}" if absent else "")

    def rows(self) -> tuple[pd.DataFrame, Sequence[str]]:
        names, suites = suites_of(self._all), self.controls["suite"]
        suites.options, suites.value = [(name, name) for name in names], self.suite
        shown(suites, len(names) > 1)
        queries = [str(self._queries[rows[0]]) for rows in self._rows.values()]
        return pd.DataFrame({"query": queries}), ["\n".join(self._targets[rows]) for rows in self._rows.values()]

    def columns(self) -> list[dict[str, Any]]:
        return [{"name": VALUE, "digits": 2, "limit": True}, {"name": "query"}]

    def values(self) -> np.ndarray:
        found = ordered_queries(self._tables, self.order, self.a, self.b).set_index("query_id")["value"]
        return found.reindex(self.ids).to_numpy(dtype=float)

    def view(self, row: int) -> QueryView:
        """Return one query under the labels that are shown."""
        rows = self._rows[self.ids[row]]
        scores = {label: self._scores[label][rows] for label in self.shown_labels}
        names = {"suite": self.suite, "query_id": self.ids[row]}
        query, targets = str(self._queries[rows[0]]), self._targets[rows].tolist()
        return QueryView.made(query, targets, self._gold[rows], scores, **names)

    def details(self, row: int) -> str:
        asks, words = bool(self._readers), self.grid.words
        return view_html(self.view(row), chart=slope_svg, asks=asks, targets=_TARGETS, words=words)

    def targets(self, row: int) -> tuple[str, Mapping[str, str]]:
        view = self.view(row)
        return view.query, dict(zip(view.letters, view.targets, strict=True))

    def static(self) -> str:
        named = f"; a: {escape(self.a)}, b: {escape(self.b)}" if len(self.labels) > 1 else ""
        listed = f"{len(self.grid.listed)} queries{escape(self.note)}{named}"
        head = f"<p>The first of {listed}. Run the cell to see the others.</p>"
        first = self.grid.listed[:_STATIC_QUERIES]
        views = [view_html(self.view(row), chart=slope_image, targets=_TARGETS) for row in first]
        return head + "\n<hr>\n".join(views)

    def title_and_entries(self, rows: Sequence[int]) -> tuple[str, list[Entry]]:
        views = [self.view(row) for row in rows]
        entries = [Entry(one.query_id, one.query, view_html(one, chart=slope_svg, targets=_TARGETS)) for one in views]
        return f"Rankings of {self.suite}: {', '.join(self.shown_labels)}", entries
