"""The explorer of queries: a table to order and search, the chosen query as ranking table and slope chart."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd

from workbench.views._explorer import VALUE, Explorer, set_visible
from workbench.views._table import dropdown
from workbench.views.page import slope_image, slope_svg, view_html
from workbench.views.queries import ORDERS, QueryView, SuiteRankings, ranking_tables, suites_of

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
        self._take_suite(suites_of(self._all)[0] if suite is None else suite)
        suites = dropdown("suite", {}, self._change_suite)
        super().__init__(encoders, {"suite": suites}, height=500)
        self.controls = {"suite": suites, **self.controls}  # first, since labels depend on it
        self.grid.layout.width, self.detail.layout.width = "30%", "69%"
        both = ipywidgets.HBox([self.grid, self.detail], layout={"justify_content": "space-between"})
        self.children = [self.control_row(), both, self.against, self.reasons]

    def take(self, found: Mapping[str, Any]) -> None:
        self._all = ranking_tables(found)
        suites = suites_of(self._all)
        self._take_suite(self.suite if self.suite in suites else suites[0])

    def _take_suite(self, suite: str) -> None:
        self.rankings = SuiteRankings(self._all, suite)
        self.labels, self.ids = self.rankings.labels, list(self.rankings.rows)
        self.title = f"Rankings of {self.suite}"

    def _change_suite(self, change: Any) -> None:
        if not self._quiet:
            self._take_suite(change["new"])
            self.fill()

    @property
    def suite(self) -> str:
        """Return the suite that is shown."""
        return self.rankings.suite

    @property
    def query_id(self) -> Any:
        """Return the chosen query's id; None if no query is listed."""
        return self.chosen_id

    @property
    def selected(self) -> pd.DataFrame:
        """Return the chosen query's targets by letter, with gold, ranks and scores; empty if there is no query."""
        return pd.DataFrame() if self.query_id is None else self._view(self.grid.chosen).table

    @property
    def note(self) -> str:
        absent = [label for label in self._all if label not in self.labels]
        return super().note + (f"; not ranked here: {', '.join(absent)}" if absent else "")

    def rows(self) -> tuple[pd.DataFrame, Sequence[str]]:
        names, suites = suites_of(self._all), self.controls["suite"]
        suites.options, suites.value = [(name, name) for name in names], self.suite
        set_visible(suites, len(names) > 1)
        targets = self.rankings.table["target"].to_numpy(dtype=object)
        texts = ["\n".join(targets[rows]) for rows in self.rankings.rows.values()]
        return pd.DataFrame({"query": [self.rankings.query(query_id) for query_id in self.ids]}), texts

    def columns(self) -> list[dict[str, Any]]:
        return [{"name": VALUE, "digits": 2, "limit": True}, {"name": "query"}]

    def values(self) -> np.ndarray:
        return self.rankings.values(self.order, self.a, self.b)

    def details(self, row: int, chart: Callable[[QueryView], str] = slope_svg, *, live: bool = False) -> str:
        marks: dict[str, Any] = {"explains": bool(self._vectors), "words": self.grid.words} if live else {}
        return view_html(self._view(row), chart=chart, targets=_TARGETS, **marks)

    def targets(self, row: int) -> tuple[str, Mapping[str, str]]:
        view = self._view(row)
        return view.query, view.table["target"].to_dict()

    def _view(self, row: int) -> QueryView:
        return self.rankings.view(self.ids[row], self.shown_labels)

    def static(self) -> str:
        named = f"; a: {escape(self.a)}, b: {escape(self.b)}" if len(self.labels) > 1 else ""
        listed = f"{len(self.grid.listed)} queries{escape(self.note)}{named}"
        views = [self.details(row, slope_image) for row in self.grid.listed[:_STATIC_QUERIES]]
        return f"<p>The first of {listed}. Run the cell to see the others.</p>" + "\n<hr>\n".join(views)
