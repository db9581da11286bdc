"""Explorers: an ordered table, the details of its chosen row, and a page to share; here the explorer of queries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import ipywidgets
import numpy as np
import pandas as pd

from workbench.files import atomic_write, reraise_os_error
from workbench.views._asked import open_encoders
from workbench.views._html import framed, tag
from workbench.views._style import shortened
from workbench.views._table import STYLE_SHEET, Panel, Table, View, dropdown, offer, or_problem, value_of
from workbench.views.page import slope_image, slope_svg, view_html
from workbench.views.queries import QueryView, SuiteRankings, read_rankings
from workbench.views.tables import table_html
from workbench.views.why import reasons_html

# How rows can be ordered; a and b are labels.
ORDERS = {
    "data": "as in the data",
    "worst": "a is worst",
    "disagreement": "a and b disagree",
    "gain": "b gains over a",
}
VALUE = "value"  # the column of the chosen order
_PAGE = (Path(__file__).parent / "shared.html").read_text(encoding="utf-8")
_STATIC_ROWS, _STATIC_DETAILS = 20, 3  # without a kernel
MOST_CHARACTERS = 2_000_000  # of the targets, if a browser is to search them
_TARGETS = 50  # at most, in a table, so that the chart is near


class Explorer(View):
    """A table that is ordered and searched, and the details of its chosen row.

    A subclass reads its data in `take` and describes it in the methods that raise NotImplementedError here.
    """

    kind: ClassVar[str]  # the plural of what is listed
    shows: ClassVar[str]  # the property of a `RunPicker` that has the data
    distance: ClassVar[str]  # what `distances` returns, for a tooltip
    settable = ("order", "a", "b", "search", "limits", "chosen")
    title: str  # of the shared page
    labels: list[str]
    ids: list[Any]  # the name of each row in the data
    order, a, b = map(value_of, ("order", "a", "b"))

    def __init__(self, data: Mapping[str, Any], encoders: Mapping[str, Any] | None, **table: Any) -> None:
        self.grid, self.detail, self.reasons = Table(label=self.kind, **table), Panel(self.press), Panel(scrolls=True)
        self.controls = {name: dropdown(name, {}, self._reorder) for name in ("order", "a", "b")}
        self.grid.observe(self._draw, "chosen")
        self.look_at(data, encoders)
        super().__init__()

    def take(self, data: Mapping[str, Any]) -> None:
        """Read data into `labels`, `ids` and whatever else is listed; change nothing if it is wrong."""
        raise NotImplementedError

    def rows(self) -> tuple[pd.DataFrame, Sequence[str] | None]:
        """Return the frame of the table, and a further text of each row to search."""
        raise NotImplementedError

    def columns(self) -> list[dict[str, Any]]:
        """Return the columns of the table."""
        raise NotImplementedError

    def distances(self, a: str, b: str | None = None) -> np.ndarray:
        """Return for each row how far a and b, or a and gold, are apart."""
        raise NotImplementedError

    def details(self, row: int, chart: Callable[[QueryView], str] = slope_svg, *, explains: bool = False) -> str:
        """Return HTML of a row; `explains` adds buttons that explain a rank."""
        raise NotImplementedError

    def targets(self, row: int) -> tuple[str, Mapping[str, str]]:
        """Return a row's query, and its targets by the values of their buttons."""
        raise NotImplementedError

    def look_at(self, data: Mapping[str, Any], encoders: Mapping[str, Any] | None = None) -> None:
        """Show other data of the same kind; choices stay if they still exist. Errors as at first."""
        chosen = self.chosen
        self.take(data)
        self._vectors = open_encoders(encoders or {})
        orders = dict(list(ORDERS.items())[: None if len(self.labels) > 1 else 2])  # the others need two labels
        names = shortened(self.labels, 40)
        with self._drawing_once():
            offer(self.controls["order"], orders, list(orders)[min(2, len(orders) - 1)])
            offer(self.controls["a"], names, self.labels[0])
            offer(self.controls["b"], names, self.labels[-1])
            self.frame, texts = self.rows()
            with self.grid.hold_sync():
                self.grid.set_rows(self.frame, self.columns(), texts=texts)
                self._sort()
                if chosen in self.ids and self.ids.index(chosen) in self.grid.listed:
                    self.grid.chosen = self.ids.index(chosen)

    @contextmanager
    def _drawing_once(self) -> Iterator[None]:
        """Draw the details at the end, and not whenever the chosen row changes."""
        self._is_filling = True
        yield
        self._is_filling = False
        self._draw()

    def _reorder(self, _: Any) -> None:
        if not self._is_filling:
            with self._drawing_once():
                self._sort()

    def _sort(self) -> None:
        """Sort by the values of the order, which are a column, and choose the first row."""
        if self.order == "data":
            values = np.arange(1, len(self.ids) + 1)
        elif self.order == "gain":
            values = self.distances(self.a) - self.distances(self.b)
        else:
            values = self.distances(self.a, None if self.order == "worst" else self.b)
        self.frame[VALUE] = values
        hover = self.distance if self.order == "data" else f"{ORDERS[self.order]}: {self.distance}"
        order = {"name": VALUE, "title": ORDERS[self.order], "hover": hover, "limit": True}
        with self.grid.hold_sync():
            self.grid.columns = [order | {"digits": 0 if self.order == "data" else 2}, *self.columns()]
            self.grid.chosen = -1
            self.grid.order_by(VALUE, values, [VALUE, self.order != "data"])

    @property
    def search(self) -> str:
        """Return the words that are searched for."""
        return self.grid.search

    @search.setter
    def search(self, words: str) -> None:
        self.grid.search = words

    @property
    def limits(self) -> dict[str, Any]:
        """Return column -> [low, high], None for no limit; setting adds limits to those of other columns."""
        return self.grid.limits

    @limits.setter
    def limits(self, limits: Mapping[str, Any]) -> None:
        self.grid.limits = {**self.grid.limits, **limits}

    @property
    def chosen(self) -> Any:
        """Return the id of the chosen row, None if there is none."""
        return None if self.grid.chosen < 0 else self.ids[self.grid.chosen]

    @chosen.setter
    def chosen(self, name: Any) -> None:
        row = self.ids.index(name) if name in self.ids else -1
        if row not in self.grid.listed:
            raise ValueError(f"chosen is {name!r}, which is not listed; clear the search and the limits")
        self.grid.chosen = row

    def _draw(self, _: Any = None) -> None:
        if self._is_filling:
            return
        row, self._why, self.reasons.html = self.grid.chosen, "", ""
        self.detail.html = "" if row < 0 else or_problem(lambda: self.details(row, explains=bool(self._vectors)))

    def press(self, value: str) -> None:
        """Explain the rank of the target with this button, or close its explanation."""
        self._why = "" if value == self._why else value
        query, targets = self.targets(self.grid.chosen)
        asked = list(self._vectors.values())
        explain = lambda: reasons_html(asked, [query, targets[value]], name=value)  # noqa: E731
        self.reasons.html = or_problem(explain) if self._why else ""

    def static(self) -> str:
        listed = self.grid.listed
        titles = {column["name"]: column.get("title", column["name"]) for column in self.grid.columns}
        table = table_html(self.frame.loc[listed[:_STATIC_ROWS], list(titles)].rename(columns=titles).round(2))
        note = f"{len(listed):,} {self.kind}{escape(self.grid.note)}; a: {escape(self.a)}, b: {escape(self.b)}"
        views = [self.details(row, slope_image) for row in listed[:_STATIC_DETAILS]]
        return f"<p>The first of {note}. Run the cell to see the others.</p>{framed(table)}{'<hr>'.join(views)}"

    def to_html(self, path: str | Path, *, limit: int | None = None) -> Path:
        """Write the listed rows, at most `limit`, as one page with a search that needs no kernel and no network.

        Raises:
            RunError: The file cannot be written.
        """
        target, index, sections = Path(path).expanduser(), [], []
        texts = self.frame.select_dtypes(exclude="number")
        for row in self.grid.listed[:limit].tolist():
            name, text = str(self.ids[row]), " / ".join(filter(None, texts.loc[row]))
            index.append(tag("li", tag("a", escape(text), href=f"#{quote(name)}")))
            sections.append(tag("section", self.details(row), id=name))
        title = escape(f"{self.title}: {', '.join(self.labels)}")
        page = _PAGE.format(title=title, style=STYLE_SHEET, index="".join(index), sections="\n".join(sections))
        with reraise_os_error(target.parent, "another file"), atomic_write(target) as file:
            file.write(page)
        return target


class RankingExplorer(Explorer):
    """Choose a query; see its targets with gold and the rank under each label, a slope chart, KCC and NDCG.

    Queries are searched by the words of their texts and of their targets', and sorted by a column or an order.
    """

    kind, shows = "queries", "rankings"
    distance = "1 - tau-b between the scores of the two; of one label, to gold"

    def __init__(
        self, tables: Mapping[str, Any], suite: str | None = None, *, encoders: Mapping[str, Any] | None = None
    ) -> None:
        """Show rankings of a suite, by default the first.

        `tables` has a ranking table, `Run` or `Report` for each label. `encoders`, as of `Why`, are read when a row is
        pressed to explain a target's rank.

        Raises:
            TypeError, ValueError: No tables, tables of different data, or no such suite.
        """
        self._suite = suite
        super().__init__(tables, encoders, height=500)
        self.grid.layout.width, self.detail.layout.width = "30%", "69%"
        both = ipywidgets.HBox([self.grid, self.detail], layout={"justify_content": "space-between"})
        self.children = [ipywidgets.HBox([*self.controls.values()]), both, self.reasons]

    def take(self, data: Mapping[str, Any]) -> None:
        tables = read_rankings(data)
        self.rankings = SuiteRankings(tables, self._suite)
        self.labels, self.ids = self.rankings.labels, list(self.rankings.rows)
        self.title = f"Rankings of {self.rankings.suite}"
        absent = ", ".join(label for label in tables if label not in self.labels)
        self._note = f"; not ranked here: {absent}" if absent else ""

    @property
    def selected(self) -> pd.DataFrame:
        """Return the chosen query's targets by letter, with gold, ranks and scores; empty if there is no query."""
        return pd.DataFrame() if self.chosen is None else self.rankings.view(self.chosen).table

    def rows(self) -> tuple[pd.DataFrame, Sequence[str] | None]:
        targets = self.rankings.table["target"].to_numpy(dtype=object)
        texts = ["\n".join(targets[rows]) for rows in self.rankings.rows.values()]
        queries = pd.DataFrame({"query": [self.rankings.query(query_id) for query_id in self.ids]})
        is_long = sum(map(len, texts)) > MOST_CHARACTERS
        self.grid.note = self._note + ("; the targets are too long to be searched" if is_long else "")
        return queries, None if is_long else texts

    def columns(self) -> list[dict[str, Any]]:
        return [{"name": "query"}]

    def distances(self, a: str, b: str | None = None) -> np.ndarray:
        return self.rankings.distances(a, b)

    def details(self, row: int, chart: Callable[[QueryView], str] = slope_svg, *, explains: bool = False) -> str:
        return view_html(self.rankings.view(self.ids[row]), chart=chart, targets=_TARGETS, explains=explains)

    def targets(self, row: int) -> tuple[str, Mapping[str, str]]:
        view = self.rankings.view(self.ids[row])
        return view.query, view.table["target"].to_dict()
