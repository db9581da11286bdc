"""Looking through the queries of rankings: a list to order and search, the chosen query as table and slope chart."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from workbench.files import explained, replacing, set_name
from workbench.look._charts import scores_by_gold
from workbench.look._html import choice, marked
from workbench.look._linked import GOLD, RANKS
from workbench.look._listing import Listing, button, with_words
from workbench.look._sharing import shared_page
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
from workbench.look.why import Reasons
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
        self.suites = suites_of(self._all)
        self._ordered: dict[tuple[str, ...], pd.DataFrame] = {}
        self._words: dict[Any, str] | None
        self._take(self.suites[0] if suite is None else suite)
        super().__init__("queries", *self._offered(), Reasons(encoders))

    def replace(self, found: Mapping[str, Any]) -> tuple[list[str], dict[str, tuple[str, str]], str]:
        query_id, self._all = self.query_id, ranking_tables(found)
        self.suites = suites_of(self._all)
        self._ordered.clear()
        self._take(self.suite if self.suite in self.suites else self.suites[0])
        self.chosen = self._numbers.get(query_id)
        return self._offered()

    def _take(self, suite: str) -> None:
        self._tables = of_suite(self._all, suite)
        self.suite, self._words = set_name(suite), None
        first = next(iter(self._tables.values()))
        self._gold, self._scores = aligned(self._tables)
        self._queries_of, self._targets = first["query"].to_numpy(dtype=object), first["target"].to_numpy(dtype=object)
        self._rows = first.groupby("query_id", sort=False).indices
        self._ids = list(self._rows)  # as the tables have them: texts or numbers
        self._numbers = {query_id: place for place, query_id in enumerate(self._ids)}

    def _offered(self) -> tuple[list[str], dict[str, tuple[str, str]], str]:
        """Labels, what the queries can be ordered by, and by which of them at first."""
        several = len(self._tables) > 1
        known = {name: words for name, words in ORDERS.items() if several or name in ("data", "worst")}
        return list(self._tables), known, "disagreement" if several else "worst"

    @property
    def query_id(self) -> Any:
        """The chosen query, as the tables name it; None where none is listed."""
        number = self.current()
        return None if number is None else self._ids[number]

    @property
    def selected(self) -> pd.DataFrame:
        """The chosen query's targets with gold, ranks and scores, as `side_by_side` gives them; empty where none is."""
        query_id = self.query_id
        tables = {label: self._tables[label] for label in self.shown_labels}
        return pd.DataFrame() if query_id is None else side_by_side(tables, query_id)

    def known(self) -> dict[str, Sequence[str]]:
        return super().known() | {"suite": self.suites}

    def numbered(self, value: Any) -> int:
        return self._numbers[value] if value in self._numbers else super().numbered(value)

    def told(self, name: str, value: Any) -> None:
        if name == "suite":
            self._take(value)
            self._offer(*self._offered())
            self.renew()
        super().told(name, value)

    def find(self) -> list[int]:
        ids = self._queries()["query_id"]
        if self.words:
            if self._words is None:
                self._words = searched(self._tables)  # only for who searches: of long lists it is much text
            ids = [name for name in ids if with_words(self._words[name], self.words)]
        return [self._numbers[query_id] for query_id in ids]

    def _queries(self) -> pd.DataFrame:
        """query_id, query, value of every query in the chosen order; not again for each letter of a search."""
        chosen = self.suite, self.order, self.a, self.b
        if chosen not in self._ordered:
            self._ordered[chosen] = ordered_queries(self._tables, self.order, self.a, self.b)
        return self._ordered[chosen]

    def controls(self) -> str:
        suites = choice("suite", {name: name for name in self.suites}, self.suite) if len(self.suites) > 1 else ""
        return suites + super().controls()

    def drawn(self) -> dict[str, str]:
        absent = [label for label in self._all if label not in self._tables]
        without = f"; not ranked here: {', '.join(absent)}" if absent else ""
        before = "" if self.order == "data" else f"; before each: {self.orders[self.order][1].split(',')[0]}"
        query_id = self.query_id
        chart, asks = self._chart, bool(self._reasons.readers)
        view = "" if query_id is None else self._view(query_id, chart, self.words, asks=asks)
        status = self.counted(len(self._ids), "queries", f"{before}{without}")
        return {"status": status, "list": self._list() + self.more(), "view": view, "why": self._why(query_id)}

    def _why(self, query_id: Any) -> str:
        if query_id is None or not self._reasons.readers:
            return ""
        view = self._of_query(query_id)
        return self._reasons.drawn(view.query, dict(zip(view.letters, view.targets, strict=True)), self.shown_labels)

    def _list(self) -> str:
        queries, chosen = self._queries(), self.current()
        shown = queries.set_index("query_id").loc[self._listed_ids()[: self.room]]
        rows = []
        for query_id, query, value in shown.itertuples(name=None):
            before = "" if pd.isna(value) else f"<b>{value:+.2f}</b> "
            rows.append(f"<li>{button(self._numbers[query_id], before + marked(query, self.words), chosen)}</li>")
        return f'<ul class="mathjax_ignore" data-walk>{"".join(rows)}</ul>'

    def _view(
        self, query_id: Any, chart: Callable[[QueryView], str], words: Sequence[str] = (), *, asks: bool = False
    ) -> str:
        return view_html(self._of_query(query_id), chart=chart, targets=_TARGETS, words=words, asks=asks)

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
        return [self._ids[number] for number in self.listed()]

    def static(self) -> str:
        order, a, b = self.orders[self.order][1], escape(self.a), escape(self.b)
        named = f"; a: {a}, b: {b}" if len(self.labels) > 1 else f"; a: {a}"
        head = f"<p>The first of {len(self.listed())} queries ({order}{named}). Run the cell to see the others.</p>"
        views = [self._view(query_id, slope_image) for query_id in self._listed_ids()[:_STATIC_QUERIES]]
        return head + "\n<hr>\n".join(views)

    def to_html(self, path: str | Path, *, limit: int | None = None) -> Path:
        """Writes the queries of the list, as it is ordered and searched now, with their charts as one page.

        limit: At most so many queries; None: all. The page has an index, a link to each query and a search, and needs
        no network. Returns its path.

        Raises:
            ValueError: `limit` below 1, or no query is listed.
            RunError: The file cannot be written.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit is {limit}; give 1 or more, or None for every query of the list")
        if not self.listed():
            raise ValueError(f"no query to write: none has the words {self.search!r}; clear the search")
        target, ids = Path(path).expanduser(), self._listed_ids()[:limit]
        queries = self._queries().set_index("query_id")["query"].to_dict()
        title = f"Rankings of {self.suite}: {', '.join(self.shown_labels)}"
        page = shared_page(title, {name: queries[name] for name in ids}, self._of_query, _TARGETS)
        with explained(target.parent, "another file"), replacing(target) as file:
            file.write(page)
        return target
