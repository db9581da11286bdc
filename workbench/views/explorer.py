"""Explorers: an ordered table, the details of its chosen row, and a page to share; here the explorer of queries."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import ipywidgets
import numpy as np
import pandas as pd

from workbench.files import atomic_write, reraise_os_error
from workbench.views._asked import open_encoders
from workbench.views._html import tag
from workbench.views._style import shortened
from workbench.views._table import STYLE_SHEET, Panel, Table, View, dropdown, offer, or_problem, value_of
from workbench.views.page import slope_image, slope_svg, view_html
from workbench.views.queries import ORDERS, QueryView, SuiteRankings, ranking_tables, suites_of
from workbench.views.why import reasons_html

VALUE = "value"  # the column of the chosen order
_PAGE = (Path(__file__).parent / "shared.html").read_text(encoding="utf-8")
_STATIC_QUERIES = 3
_TARGETS = 50  # at most, in a table, so that the chart is near


class Explorer(View):
    """A table that is ordered and searched, and next to it the details of its chosen row.

    A subclass reads its data in `take` and describes it in the methods that raise NotImplementedError here.
    """

    kind: ClassVar[str]  # the plural of what is listed
    shows: ClassVar[str]  # the property of a `RunPicker` that has the data
    orders: ClassVar[Mapping[str, tuple[str, str]]]  # name -> (in a few words, what it orders by)
    first_orders: ClassVar[tuple[str, str]]  # of one label, of several
    title: str  # of the shared page
    labels: list[str]
    ids: Sequence[Any]  # what the data calls each row
    chosen_id: Any = None
    order, a, b, show = map(value_of, ("order", "a", "b", "show"))

    def __init__(self, encoders: Mapping[str, Any] | None, controls: Mapping[str, Any], **table: Any) -> None:
        self._vectors = open_encoders(encoders) if encoders else {}
        self.grid, self.detail, self.reasons = Table(label=self.kind, **table), Panel(self.press), Panel(scrolls=True)
        self.controls = {name: dropdown(name, {}, self._reorder) for name in ("order", "a", "b")}
        self.controls |= {"show": dropdown("show", {"all": "all"}, self._show_labels), **controls}
        self.against = dropdown("against", {}, self._explain)
        self.fill()
        self.grid.observe(self._sorted_by_reader, "sort")
        self.grid.observe(self.draw, ["chosen", "search"])
        super().__init__()

    def take(self, found: Mapping[str, Any]) -> None:
        """Read data into `labels`, `ids` and whatever else is listed; change nothing if it is wrong."""
        raise NotImplementedError

    def rows(self) -> tuple[pd.DataFrame, Sequence[str]]:
        """Return the frame of the table and a further text of each row to search."""
        raise NotImplementedError

    def columns(self) -> list[dict[str, Any]]:
        """Return the columns of the table."""
        raise NotImplementedError

    def values(self) -> np.ndarray:
        """Return the value of each row by which the chosen order sorts."""
        raise NotImplementedError

    def details(self, row: int, chart: Callable[[QueryView], str] = slope_svg, *, live: bool = False) -> str:
        """Return HTML of a row; if live, with the words of the search marked and buttons that explain."""
        raise NotImplementedError

    def targets(self, row: int) -> tuple[str, Mapping[str, str]]:
        """Return a row's query, and its targets by the names of their buttons."""
        raise NotImplementedError

    def look_at(self, found: Mapping[str, Any], encoders: Mapping[str, Any] | None = None) -> None:
        """Show other data of the same kind; choices stay if they still exist. Errors as at first."""
        vectors = open_encoders(encoders, self._vectors) if encoders else {}
        self.take(found)
        self._vectors = vectors
        self.fill()

    def fill(self) -> None:
        """Offer what the data has, put its rows into the table, and keep what was chosen if it still exists."""
        chosen, several, named = self.chosen_id, len(self.labels) > 1, shortened(self.labels, 40)
        orders = {name: words for name, (words, _) in self.orders.items()}
        for name in () if several else ("disagreement", "gain", "loss"):
            orders.pop(name, None)
        self._quiet, self._cache = True, {}
        offer(self.controls["order"], orders, self.first_orders[several])
        offer(self.controls["a"], named, self.labels[0])
        offer(self.controls["b"], named, self.labels[-1])
        shows = ["all", "a and b"] if len(named) > 2 else ["all"]
        offer(self.controls["show"], dict(zip(shows, shows, strict=True)), "all")
        frame, texts = self.rows()
        self._numbers = {name: row for row, name in enumerate(self.ids)}
        with self.grid.hold_sync():
            self.grid.set_rows(frame, self.columns(), texts=texts)
            self._sort()
            if self._numbers.get(chosen, -1) in self.grid.listed:
                self.grid.chosen = self._numbers[chosen]
        self._quiet = False
        self.draw()

    def cached(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return what `compute` returns, computed once for this data."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    @property
    def shown_labels(self) -> list[str]:
        """Return every label, or only a and b."""
        return [label for label in self.labels if self.show == "all" or label in (self.a, self.b)]

    @property
    def note(self) -> str:
        """Return what follows the number of listed rows."""
        return f"; ordered by {self.orders[self.order][1]}" if self.order else ""

    def _sort(self) -> None:
        values = self.cached((self.order, self.a, self.b), self.values)
        is_data = self.order == "data"
        with self.grid.hold_sync():
            self.grid.chosen = -1  # an order begins at its first row
            self.grid.order_by(VALUE, values, ["" if is_data else VALUE, not is_data and self.order != "worst"])
            self.grid.note, self.grid.columns = self.note, self.columns()

    def _reorder(self, _: Any) -> None:
        if self._quiet or not self.order:
            return
        self._quiet = True
        self._sort()
        self._quiet = False
        self.draw()

    def _sorted_by_reader(self, change: Any) -> None:
        if not self._quiet and change["new"][0] != VALUE:
            self.controls["order"].value = None  # so that the order can be chosen again
            self.grid.note = self.note

    def _show_labels(self, _: Any = None) -> None:
        if not self._quiet:
            self.grid.columns = self.columns()
            self.draw()

    def selectable(self) -> list[str]:
        return [*super().selectable(), "search", "limits", "chosen"]

    def set_value(self, name: str, value: Any) -> None:
        if name == "search":
            self.grid.search = value
        elif name == "limits":  # column -> [low, high]
            self.grid.limits = {**self.grid.limits, **value}
        elif name == "chosen":
            row: Any = self._numbers.get(value, value)
            if row not in self.grid.listed:
                raise ValueError(f"chosen is {value!r}, which is not listed now; give the number of a row, or its id")
            self.grid.chosen = int(row)
        else:
            super().set_value(name, value)

    def draw(self, change: Any = None) -> None:
        """Draw the details of the chosen row."""
        depends = self.grid.chosen, self.grid.search
        if self._quiet or (change and depends == self._drawn):
            return
        self._drawn, row, self._why = depends, self.grid.chosen, ""
        self.chosen_id = None if row < 0 else self.ids[row]
        self.detail.html = "" if row < 0 else or_problem(lambda: self.details(row, live=True))
        self._explain()

    def press(self, name: str, value: str) -> None:
        """Explain the rank of a target, or close its explanation."""
        if name == "why":
            self.against.value, self._why = None, "" if value == self._why else value
            self._explain()

    def _explain(self, change: Any = None) -> None:
        query, targets = self.targets(self.grid.chosen) if self._why else ("", {})
        if not change:
            others = {text: f"{name}: {text:.50}" for name, text in targets.items() if name != self._why}
            offer(self.against, {None: "no other", **others}, None)
        if not self._why:
            self.reasons.html = ""
            return
        shown = [vectors for label, vectors in self._vectors.items() if label in self.shown_labels]
        asked = shown or list(self._vectors.values())
        sentences = [query, targets[self._why], *filter(None, [self.against.value])]
        self.reasons.html = or_problem(lambda: reasons_html(asked, sentences, name=self._why))

    def to_html(self, path: str | Path, *, limit: int | None = None) -> Path:
        """Write the listed rows, at most `limit`, as one page with a search that needs no kernel and no network.

        Raises:
            ValueError: `limit` is below 1, or nothing is listed.
            RunError: The file cannot be written.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit is {limit}; give 1 or more, or None for the whole list")
        if not len(self.grid.listed):
            raise ValueError("nothing is listed; clear the search and the limits")
        target, index, sections = Path(path).expanduser(), [], []
        for row in self.grid.listed[:limit].tolist():
            name, text = str(self.ids[row]), " / ".join(self.grid.texts_of(row))
            index.append(tag("li", tag("a", escape(text), href=f"#{quote(name)}")))
            sections.append(tag("section", self.details(row), id=name))
        title = escape(f"{self.title}: {', '.join(self.shown_labels)}")
        page = _PAGE.format(title=title, style=STYLE_SHEET, index="".join(index), sections="\n".join(sections))
        with reraise_os_error(target.parent, "another file"), atomic_write(target) as file:
            file.write(page)
        return target


class RankingExplorer(Explorer):
    """Choose a query; see its targets with gold and the rank under each label, a slope chart, KCC and NDCG.

    Queries are searched by the words of their texts and of their targets', sorted by a column or by `ORDERS`;
    of many labels two can be shown alone. Without a kernel the first queries are shown as plain HTML.
    """

    kind, shows, orders, first_orders = "queries", "rankings", ORDERS, ("worst", "disagreement")

    def __init__(
        self, tables: Mapping[str, Any], suite: str | None = None, *, encoders: Mapping[str, Any] | None = None
    ) -> None:
        """Show rankings of a suite, by default the first.

        `tables` has a ranking table, `Run` or `Report` for each label. `encoders`, as of `Why`, are read when a row is
        pressed to explain a target's rank.

        Raises:
            TypeError, ValueError: No tables, tables of different data, or no such suite.
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
        self.suite, self.labels, self.ids = self.rankings.suite, self.rankings.labels, list(self.rankings.rows)
        self.title = f"Rankings of {self.suite}"

    def _change_suite(self, change: Any) -> None:
        if not self._quiet:
            self._take_suite(change["new"])
            self.fill()

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
        offer(self.controls["suite"], {name: name for name in suites_of(self._all)}, self.suite)
        self.controls["suite"].value = self.suite
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
