"""Explorers: an ordered table, the details of its chosen row, and a page to share.

Here are what they have in common, and the explorer of queries."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
from pandas import DataFrame

from workbench.files import AnyPath, Facts
from workbench.views._style import render, shortened
from workbench.views._table import (
    Panel,
    TableWidget,
    View,
    dropdown,
    offer,
    or_problem,
    value_of,
)
from workbench.views.encoders import Encoders, wrap_encoders
from workbench.views.export import write_page
from workbench.views.limits import MOST_SECTIONS
from workbench.views.notebooks import table_html
from workbench.views.page import view_html
from workbench.views.queries import QueryView, Sources, SuiteRankings
from workbench.views.why import reasons_html

# How rows can be ordered; a and b are labels.
ORDERS = {
    "data": "as in the data",
    "worst": "a is worst",
    "disagreement": "a and b disagree",
    "gain": "b gains over a",
    "loss": "b loses against a",
}
Sections = Iterator[tuple[str, list[QueryView]]]  # id -> what a page shows below it
VALUE = "value"  # the column of the chosen order
MOST_CHARACTERS = 2_000_000  # of the targets, if a browser is to search them
_STATIC_ROWS = 20  # without a kernel
TARGETS = 50  # at most, in a table, so that the chart is near


class Explorer(View):
    """A table that is ordered and searched, and the details of its chosen row.

    `ids`, `frame` and `columns` are those of its rows; all texts of `frame` are searched. `note`
    follows the number of listed rows."""

    kind: str  # the listed things, in the plural
    shows: str  # the property of a `RunPicker` that has the data
    distance: str  # for a tooltip
    distances: Callable[..., np.ndarray]  # of labels a and b, or of a and gold, for each row
    settable = ("order", "a", "b", "chosen")
    order, a, b = map(value_of, ("order", "a", "b"))
    title: str
    labels: list[str]
    ids: list[Any]
    frame: DataFrame
    columns: list[Facts]
    note = ""
    first_order = "disagreement"

    def __init__(self, data: Sources, encoders: Encoders, **table: Any) -> None:
        self.grid = TableWidget(label=self.kind, **table)
        self.detail = Panel(self.press)
        self.reasons = Panel(scrolls=True)
        self.controls = {name: dropdown(name, {}, self._reorder) for name in ("order", "a", "b")}
        self.grid.observe(self._draw, "chosen")
        self.set_data(data, encoders)
        choices = ipywidgets.HBox(list(self.controls.values()))
        table_and_details = ipywidgets.Box([self.grid, self.detail])
        super().__init__([choices, table_and_details, self.reasons])

    def _load(self, data: Sources) -> None:
        """Set what is listed; change nothing if the data is wrong."""

    def views(self, row: int) -> list[QueryView]:
        """Return the details of a row."""
        raise NotImplementedError

    def set_data(self, data: Sources, encoders: Encoders = None) -> None:
        """Show other data of the same kind; choices stay if they still exist, a and b if both do.

        Errors as in `__init__`."""
        # Before the new rows, among which their numbers are others.
        chosen = self.chosen
        marked = {self.ids[row] for row in self.grid.ticked}
        self._load(data)
        self._vectors = wrap_encoders(encoders) if encoders else []
        names = shortened(self.labels, 40)
        # Drawn once, at the end, and not whenever a choice or the chosen row changes.
        self._is_filling = True
        offer(self.controls["a"], names, self.labels[0])
        offer(self.controls["b"], names, self.labels[-1])
        orders = ORDERS
        default = self.first_order
        if len(self.labels) == 1:  # the others need two labels
            default = "worst"
            orders = {name: ORDERS[name] for name in ("data", default)}
        elif self.a == self.b:  # one of the two is gone, or there was one label
            self.a, *_, self.b = self.labels
        offer(self.controls["order"], orders, default)
        # One message to the browser: the table, its order and the chosen row.
        with self.grid.hold_sync():
            self.grid.ticked = [row for row, name in enumerate(self.ids) if name in marked]
            self.grid.note = self.note
            self.grid.set_rows(self.frame, self.columns)
            self._sort()
            with suppress(ValueError):  # it is no longer listed
                self.chosen = chosen
        self._is_filling = False
        self._draw()

    def _reorder(self, _: Any) -> None:
        if not self._is_filling:
            self._sort()

    def _sort(self) -> None:
        """Sort by the values of the order, which are a column, and choose the first row."""
        is_data = self.order == "data"
        if is_data:
            values = np.arange(1.0, len(self.ids) + 1)
        elif self.order == "worst":
            values = self.distances(self.a)
        elif self.order == "disagreement":
            values = self.distances(self.a, self.b)
        else:
            values = self.distances(self.a) - self.distances(self.b)
            if self.order == "loss":
                values = -values
        column = {
            "name": VALUE,
            "title": ORDERS[self.order],
            "hover": self.distance,
            "digits": 0 if is_data else 2,
            "limit": True,
        }
        self.grid.order_by(column, values, descending=not is_data)

    @property
    def chosen(self) -> Any:
        """Return the id of the chosen row, None if there is none; set to choose a row."""
        return None if self.grid.chosen < 0 else self.ids[self.grid.chosen]

    @chosen.setter
    def chosen(self, name: Any) -> None:
        rows = [row for row in self.grid.listed if self.ids[row] == name]
        if not rows:
            raise ValueError(
                f"chosen is {name!r}, which is not listed; clear the search and the limits"
            )
        self.grid.chosen = int(rows[0])

    def _draw(self, _: Any = None) -> None:
        if self._is_filling:
            return
        self._why = ""
        self.reasons.html = ""
        row = self.grid.chosen
        self.detail.html = or_problem(self.details, row, is_live=True) if row >= 0 else ""

    def details(self, row: int, *, is_live: bool) -> str:
        """Return HTML of a row; buttons in it have the number of a view and a letter."""
        html = ""
        for place, view in enumerate(self.views(row)):
            number = str(place) if is_live and self._vectors else ""
            html += view_html(view, is_live=is_live, targets=TARGETS, explains=number)
        return html

    def press(self, value: str) -> None:
        """Explain the rank of the target with this button, or close its explanation."""
        self.reasons.html = ""
        self._why = "" if value == self._why else value
        if self._why:
            self.reasons.html = "<p>Encoding.</p>"  # an encoder takes seconds to load
            letter = value[1:]
            # A pair has two views at most, so the number is one digit.
            view = self.views(self.grid.chosen)[int(value[0])]
            sentences = [view.query, view.table.loc[letter, "target"]]
            self.reasons.html = or_problem(reasons_html, self._vectors, sentences, name=letter)

    def static(self) -> str:
        listed = self.grid.listed
        columns = self.grid.columns
        rows = self.grid.frame.loc[listed[:_STATIC_ROWS], [column["name"] for column in columns]]
        rows.columns = [column.get("title", column["name"]) for column in columns]
        return render("first_rows.html", view=self, table=table_html(rows.round(2)))

    def sections(self, rows: list[int]) -> Sections:
        """Yield for a page of these rows an id and views, of which it folds all but the first."""
        for row in rows:
            yield str(self.ids[row]), self.views(row)

    def to_html(self, path: AnyPath, *, head: str = "") -> Path:
        """Write the first listed rows as one page with a search, without kernel and network.

        Of more than `MOST_SECTIONS` rows the page says so; the numbers in its heading are those of
        all rows.

        Args:
            path: Of the page.
            head: HTML that is shown above the search as it is, with classes of `STYLES`; escape the
                text in it.
        """
        page = render(
            "shared.html",
            view=self,
            head=head,
            most=MOST_SECTIONS,
            sections=list(self.sections(self.grid.listed[:MOST_SECTIONS].tolist())),
            draw=view_html,
            targets=TARGETS,
        )
        return write_page(path, page)


class RankingExplorer(Explorer):
    """Choose a query; see its targets with their ranks, a slope chart, KCC and NDCG."""

    kind = "queries"
    shows = "rankings"
    distance = "1 - Kendall's tau-b between a and b, or between a and gold"

    def __init__(
        self, tables: Sources, suite: str | None = None, *, encoders: Encoders = None
    ) -> None:
        """Show rankings of a suite, by default the first.

        Arguments and errors are those of `ranking_html`. `encoders`, as of `Why`, are read when a
        row is pressed to explain a target's rank.

        Example:
            RankingExplorer({"before": before, "SimCSE": run}, "world-test")
        """
        self._suite = suite
        super().__init__(tables, encoders, height=500)
        self.grid.layout.width = "30%"
        self.detail.layout = {"width": "69%", "margin": "0 0 0 1%"}

    def _load(self, data: Sources) -> None:
        suite = SuiteRankings(data, self._suite)
        self.suite = suite
        self.title = f"Rankings of {suite.name}"
        self.labels = suite.labels
        self.ids = list(suite.rows)
        self.distances = suite.distances
        queries = suite.table.groupby("query_id", sort=False, observed=True)
        self.frame = queries[["query"]].first().reset_index(drop=True)
        self.columns = [{"name": "query"}]
        self.note = ""
        if absent := [label for label in map(str, data) if label not in suite.labels]:
            self.note = f"; without rankings of this set: {', '.join(absent)}"
        targets = suite.table["target"]
        # Of as much text as a browser takes: joining more takes seconds.
        if targets.str.len().sum() + len(targets) < MOST_CHARACTERS:
            self.frame["targets"] = queries["target"].agg("\n".join).tolist()
        else:
            self.note += "; too much text to search in the targets"
            # So much also takes a second to order.
            self.first_order = "data"

    def views(self, row: int) -> list[QueryView]:
        return [self.suite.view(self.ids[row])]

    @property
    def selected(self) -> DataFrame:
        """Return the chosen query's targets by letter, with gold, ranks and scores.

        Empty if there is no query."""
        if self.chosen is None:
            return DataFrame()
        return self.suite.view(self.chosen).table
