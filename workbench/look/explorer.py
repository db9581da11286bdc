"""Controls around rankings. The state lives here, the drawing in `page` and `rank_figures`."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets
import pandas as pd

from workbench.files import explained, replacing
from workbench.look._style import shortened
from workbench.look.page import inlined, slope_image, view_html
from workbench.look.queries import ORDERS, of_suite, ordered_queries, query_view, ranking_tables, searched, suites_of
from workbench.look.rank_figures import rank_slopes

_STATIC_QUERIES = 3
_TARGETS = 50  # at most, in a table: the chart below it should be near
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>{title}</title>
<style>body {{ font-family: sans-serif; margin: 2em; }} hr {{ margin: 2em 0; opacity: 0.3; }}</style></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


class RankingExplorer:
    """Chooses a query and shows its targets with gold and the rank under each label: table, slope chart, KCC, NDCG.

    Queries can be searched by words of their text and of their targets' and ordered by `ORDERS`; of many labels, two
    can be shown alone. Of many targets those are shown that gold or a label has nearest. All of it
    works by keyboard: the buttons by the space bar, the number of the query by the arrow keys. (JupyterLab takes the
    arrow keys from lists, for its own cells.)
    Where no kernel runs, or the notebook is not trusted, the first queries of the list stand as plain HTML.
    """

    def __init__(self, tables: Mapping[str, Any], suite: str | None = None) -> None:
        """The rankings of `tables`: label -> ranking table, `Run` or `Report`; `suite`: the one to show first.

        Raises:
            TypeError, ValueError: No tables, tables of different data (says which), or no such suite.
        """
        self._all = ranking_tables(tables)
        suites = suites_of(self._all)
        first = suites[0] if suite is None else suite
        self._tables = of_suite(self._all, first)
        self._queries = pd.DataFrame()
        self._ordered: dict[tuple[str, ...], pd.DataFrame] = {}
        self._words: dict[str, str] = {}
        self._shown: tuple[Any, ...] | None = None
        self._offering = False
        self.suite, self.order, self.first, self.second, self.show = (_buttons() for _ in range(5))
        _offer(self.suite, suites, suites, first)
        self.search = ipywidgets.Text(placeholder="words of query or targets", description="search")
        self.number = ipywidgets.BoundedIntText(description="number", min=1, layout={"width": "11em"})
        self.query = ipywidgets.Select(description="query", rows=6, layout={"width": "98%"})
        self.status, self.table, self.chart = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.Output()
        names = {"suite": self.suite, "order": self.order, "a": self.first, "b": self.second, "show": self.show}
        choice = [ipywidgets.HBox([_name(text), control]) for text, control in names.items()]
        choice[0].layout.display = None if len(suites) > 1 else "none"
        self._second_row, self._show_row = choice[3:]
        walk = ipywidgets.HBox([self.search, self.number, self.status])
        self.widget = ipywidgets.VBox([*choice, walk, self.query, self.table, self.chart])
        self._suite_chosen(None)
        self.suite.observe(self._suite_chosen, "value")
        for control in (self.search, self.order, self.first, self.second, self.show):
            control.observe(lambda _: self._list_queries(), "value")
        self.number.observe(lambda change: setattr(self.query, "index", change["new"] - 1), "value")
        self.query.observe(lambda _: self._show(), "value")

    def _suite_chosen(self, _: Any) -> None:
        self._tables = of_suite(self._all, str(self.suite.value))
        self._words = searched(self._tables)
        self._offering = True  # what is set now is no choice of the reader's
        try:
            self._offer_labels()
        finally:
            self._offering = False
        self._list_queries()

    def _offer_labels(self) -> None:
        labels = list(self._tables)
        several = len(labels) > 1
        names = [name for name in ORDERS if several or name in ("data", "worst")]
        self.order.tooltips = [ORDERS[name][1] for name in names]
        _offer(self.order, [(ORDERS[name][0], name) for name in names], names, "disagreement" if several else "worst")
        named = [(short, label) for label, short in shortened(labels, 40).items()]
        self.first.tooltips = self.second.tooltips = labels
        _offer(self.first, named, labels, labels[0])
        _offer(self.second, named, labels, labels[-1])
        _offer(self.show, ["all", "a and b"], ["all", "a and b"], "all")
        self._second_row.layout.display = None if several else "none"
        self._show_row.layout.display = None if len(labels) > 2 else "none"

    def _list_queries(self) -> None:
        """Fills the list of queries by order and search, and shows its first."""
        if self._offering:
            return
        order, a, b = (str(control.value) for control in (self.order, self.first, self.second))
        chosen = str(self.suite.value), order, a, b
        if chosen not in self._ordered:  # not again for each letter of a search
            self._ordered[chosen] = ordered_queries(self._tables, order, a, b)
        found = self._ordered[chosen]
        words = self.search.value.casefold().split()
        kept = [all(word in self._words[query_id] for word in words) for query_id in found["query_id"]]
        self._queries = found.loc[kept]
        rows = list(self._queries.itertuples(index=False, name=None))
        self.query.options = [(_line(query, value), query_id) for query_id, query, value in rows]
        self.number.max, self.number.disabled = max(len(rows), 1), not rows
        self.query.index = 0 if rows else None
        self._show()
        absent = [label for label in self._all if label not in self._tables]
        without = f"; not ranked here: {', '.join(absent)}" if absent else ""
        none = "" if rows else f"; no query has the words {self.search.value!r}"
        number = "" if order == "data" else f"; before each: {ORDERS[order][1].split(',')[0]}"
        text = escape(f"{len(rows)} of {len(found)} queries{number}{without}{none}")
        self.status.value = f'<span role="status" aria-live="polite">{text}</span>'

    def _show(self) -> None:
        """Draws the chosen query, unless it is the one that is drawn."""
        if self.query.index is not None:
            self.number.value = self.query.index + 1
        shown = self._shown_tables()
        chosen = (self.suite.value, self.query.value, *shown) if self.query.value is not None else None
        if chosen == self._shown:
            return
        self._shown = chosen
        if chosen is None:
            self.table.value, self.chart.outputs = "", ()
            return
        view = query_view(shown, str(self.query.value), suite=str(self.suite.value))
        self.table.value = inlined(view_html(view, targets=_TARGETS))
        # The whole output at once: clearing and displaying are two messages, which flicker and may come in between.
        figure = {"application/vnd.plotly.v1+json": rank_slopes(view).to_plotly_json()}
        data = figure | {"text/html": slope_image(view), "text/plain": "slope chart"}
        self.chart.outputs = ({"output_type": "display_data", "data": data, "metadata": {}},)

    def _shown_tables(self) -> dict[str, pd.DataFrame]:
        """Every label, or only a and b."""
        chosen = {str(self.first.value), str(self.second.value)} if self.show.value == "a and b" else set(self._tables)
        return {label: table for label, table in self._tables.items() if label in chosen}

    def to_html(self, path: str | Path, *, limit: int | None = None) -> Path:
        """Writes the queries of the list, as it is ordered and searched now, with their charts as one page.

        limit: At most so many queries; None: all. The page needs no network and no script. Returns its path.

        Raises:
            ValueError: `limit` below 1, or no query is listed.
            RunError: The file cannot be written.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit is {limit}; give 1 or more, or None for every query of the list")
        if self._queries.empty:
            raise ValueError(f"no query to write: none has the words {self.search.value!r}; clear the search")
        target = Path(path).expanduser()
        title = escape(f"Rankings of {self.suite.value}: {', '.join(self._shown_tables())}")
        page = _PAGE.format(title=title, body=self._static(list(self._queries["query_id"])[:limit]))
        with explained(target.parent), replacing(target) as file:
            file.write(page)
        return target

    def _static(self, query_ids: list[str]) -> str:
        shown = self._shown_tables()
        views = (query_view(shown, query_id, suite=self.suite.value) for query_id in query_ids)
        return inlined("\n<hr>\n".join(view_html(view, chart=slope_image, targets=_TARGETS) for view in views))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The widget for a front end with a kernel; HTML for a page, or a notebook that is not trusted."""
        bundle = self.widget._repr_mimebundle_(**kwargs)
        if bundle is None:
            return {}
        order, a, b = ORDERS[str(self.order.value)][1], escape(str(self.first.value)), escape(str(self.second.value))
        named = f"; a: {a}, b: {b}" if len(self._tables) > 1 else f"; a: {a}"
        head = f"<p>The first of {len(self._queries)} queries ({order}{named}). Run the cell to see the others.</p>"
        shown = list(self._queries["query_id"])[:_STATIC_QUERIES]
        return {**bundle, "text/html": head + self._static(shown)}


def _buttons() -> ipywidgets.ToggleButtons:
    return ipywidgets.ToggleButtons(options=[], style={"button_width": "auto"})


def _name(text: str) -> ipywidgets.HTML:
    """The name of a row of buttons, as wide as the names of the fields below."""
    width = "80px"
    return ipywidgets.HTML(f'<div style="text-align:right">{text}</div>', layout={"width": width, "margin": "2px 8px"})


def _offer(control: Any, options: list[Any], values: list[str], default: str) -> None:
    """Sets what can be chosen; the value stays where it is still one of them."""
    kept = control.value
    control.options = options
    control.value = kept if kept in values else default


def _line(query: str, value: float) -> str:
    return query if pd.isna(value) else f"{value:+.2f}  {query}"
