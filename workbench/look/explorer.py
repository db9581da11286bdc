"""Looking through the queries of rankings: a list to order and search, the chosen query as table and slope chart."""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from workbench.files import set_name
from workbench.look._charts import GOLD, RANKS, scores_by_gold
from workbench.look._html import choice, marked
from workbench.look._listing import Listing, button
from workbench.look._sharing import Entry, plain_table
from workbench.look.page import slope_image, slope_svg, view_html
from workbench.look.queries import (
    ORDERS,
    QueryView,
    aligned,
    of_suite,
    ordered_queries,
    ranking_tables,
    searched,
    suites_of,
)
from workbench.rankings import side_by_side

_STATIC_QUERIES = 3
_TARGETS = 50  # at most, in a table: the chart below it should be near


class RankingExplorer(Listing):
    """Chooses a query and shows its targets with gold and the rank under each label: table, slope chart, KCC, NDCG.

    Queries can be searched by words of their text and of their targets' and ordered by `ORDERS`; of many labels, two
    can be shown alone. Of many targets those are shown that gold or a label has nearest. All of it works by keyboard:
    Tab to the list, then the arrow keys.
    Where no kernel runs, or the notebook is not trusted, the first queries of the list stand as plain HTML.
    """

    choices: ClassVar = ("suite", *Listing.choices)
    shows: ClassVar = "rankings"  # of a `RunPicker`
    every_order, first_orders = ORDERS, ("worst", "disagreement")

    def __init__(
        self, tables: Mapping[str, Any], suite: str | None = None, *, encoders: Mapping[str, Any] | None = None
    ) -> None:
        """The rankings of `tables`: label -> ranking table, `Run` or `Report`; `suite`: the one to show first.

        encoders: label -> what encodes, as `Why` takes them: for the map, for the similarities, and to say why a target
            stands where it does, which a click on its row asks. None is read before it is needed.

        Raises:
            TypeError, ValueError: No tables, tables of different data (says which), or no such suite.
            EncoderError: Something that is no encoder.
        """
        self._all = ranking_tables(tables)
        self._take(suite)
        super().__init__("queries", encoders)

    def take(self, found: Mapping[str, Any]) -> None:
        self._all = ranking_tables(found)
        self._take(self.suite if self.suite in suites_of(self._all) else None)

    def _take(self, suite: str | None) -> None:
        """Takes the queries of a suite; None: of the first."""
        self.suites = suites_of(self._all)
        suite = self.suites[0] if suite is None else suite
        self._tables = of_suite(self._all, suite)
        self.suite, self.labels = set_name(suite), list(self._tables)
        first = next(iter(self._tables.values()))
        self._gold, self._scores = aligned(self._tables)
        self._queries_of, self._targets = first["query"].to_numpy(dtype=object), first["target"].to_numpy(dtype=object)
        self._rows = first.groupby("query_id", sort=False).indices
        self.ids = list(self._rows)  # as the tables have them: texts or numbers

    @property
    def query_id(self) -> Any:
        """The chosen query, as the tables name it; None where none is listed."""
        return self.chosen_id

    @property
    def selected(self) -> pd.DataFrame:
        """The chosen query's targets with gold, ranks and scores, as `side_by_side` gives them; empty where none is."""
        query_id = self.query_id
        tables = {label: self._tables[label] for label in self.shown_labels}
        return pd.DataFrame() if query_id is None else side_by_side(tables, query_id)

    def known(self) -> dict[str, Sequence[str]]:
        return super().known() | {"suite": self.suites}

    def told(self, name: str, value: Any) -> None:
        if name == "suite":
            self._take(value)
            self._offer()
            self.renew()
        super().told(name, value)

    def ordered(self) -> np.ndarray:
        return np.array([self._numbers[query_id] for query_id in self._queries().index], dtype=int)

    def texts(self) -> list[str]:
        return list(searched(self._tables).values())

    def _queries(self) -> pd.DataFrame:
        """By query_id: query and value of every query in the chosen order; not again for each letter of a search."""
        chosen = self.order, self.a, self.b
        return self.once(chosen, lambda: ordered_queries(self._tables, *chosen).set_index("query_id"))

    def controls(self) -> str:
        suites = choice("suite", {name: name for name in self.suites}, self.suite) if len(self.suites) > 1 else ""
        return suites + super().controls()

    def drawn(self) -> dict[str, str]:
        absent = [label for label in self._all if label not in self._tables]
        without = f"; not ranked here: {', '.join(absent)}" if absent else ""
        before = "" if self.order == "data" else f"; before each: {self.orders[self.order][1].split(',')[0]}"
        shown = {"status": self.counted(len(self.ids), "queries", f"{before}{without}"), "list": self._list()}
        if self.query_id is None:
            return shown | {"view": "", "why": ""}
        view, whole = self._of_query(self.query_id), {"targets": _TARGETS, "words": self.words}
        why = self.reasons(view.query, dict(zip(view.letters, view.targets, strict=True)))
        return shown | {"view": view_html(view, chart=self._chart, asks=bool(self._readers), **whole), "why": why}

    def _list(self) -> str:
        queries, chosen = self._queries(), self.current()
        shown = queries.loc[self._listed_ids()[: self.room]]
        rows = []
        for query_id, query, value in shown.itertuples(name=None):
            before = "" if pd.isna(value) else f"<b>{value:+.2f}</b> "
            rows.append(f"<li>{button(self._numbers[query_id], before + marked(query, self.words), chosen)}</li>")
        return f'<ul class="mathjax_ignore" data-walk>{"".join(rows)}</ul>{self.more()}'

    def _of_query(self, query_id: Any) -> QueryView:
        """One query under the labels that are shown."""
        rows = self._rows[query_id]
        scores = {label: self._scores[label][rows] for label in self.shown_labels}
        targets, names = self._targets[rows].tolist(), {"suite": self.suite, "query_id": query_id}
        return QueryView.made(str(self._queries_of[rows[0]]), targets, self._gold[rows], scores, **names)

    def _chart(self, view: QueryView) -> str:
        if self.chart == RANKS:
            return slope_svg(view)
        chart = partial(self._by_gold, view.query_id) if self.chart == GOLD else partial(self.family_chart, view)
        return self.explained(chart)

    def _by_gold(self, query_id: Any) -> str:
        """Scores by gold of every listed target; the chosen query's are marked."""
        rows = np.concatenate([self._rows[name] for name in self._listed_ids()])
        shown = {label: self._scores[label][rows] for label in self.shown_labels}
        return scores_by_gold(self._gold[rows], shown, np.isin(rows, self._rows[query_id]), self._gold, pressed=False)

    def _listed_ids(self) -> list[Any]:
        return [self.ids[number] for number in self.listed()]

    def static(self) -> str:
        order, a, b = self.orders[self.order][1], escape(self.a), escape(self.b)
        named = f"; a: {a}, b: {b}" if len(self.labels) > 1 else f"; a: {a}"
        head = f"<p>The first of {len(self.listed())} queries ({order}{named}). Run the cell to see the others.</p>"
        shown = map(self._of_query, self._listed_ids()[:_STATIC_QUERIES])
        views = [view_html(view, chart=slope_image, targets=_TARGETS) for view in shown]
        return head + "\n<hr>\n".join(views)

    def title(self) -> str:
        return f"Rankings of {self.suite}: {', '.join(self.shown_labels)}"

    def entry(self, number: int) -> Entry:
        view = self._of_query(self.ids[number])
        near = view.nearest(_TARGETS)
        columns = [("target", near.targets), ("gold", near.gold), ("gold rank", near.gold_rank), *near.ranks.items()]
        heads, values = zip(*columns, strict=True)  # a label may be called "target" too
        plain = plain_table(view.query, heads, zip(*values, strict=True))
        return Entry(view.query_id, view.query, view_html(view, chart=slope_svg, targets=_TARGETS), plain)
