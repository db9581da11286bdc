"""The explorer of pairs: every pair of a suite in a table, and the chosen pair with the partners of its sentences."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd

from workbench.data import Pairs, load_pairs
from workbench.files import set_name
from workbench.views._html import framed, paragraph, row_head, side_by_side_html, small_print, table_tag, tag, td, th
from workbench.views._style import shortened
from workbench.views._table import dropdown, offer, value_of
from workbench.views.explorer import Explorer
from workbench.views.page import slope_image, slope_svg, view_parts
from workbench.views.pairs import PAIR_ORDERS, best_threshold, order_values, pair_table
from workbench.views.queries import QueryView
from workbench.views.tables import table_html

_STATIC = _TARGETS = 20  # rows without a kernel; targets of a sentence with many partners
_SIDES = ("sentence1", "sentence2")


class PairExplorer(Explorer):
    """See every pair of a suite, its rank among all pairs under each label, and one of them with its partners.

    The table is sorted by a column or by `PAIR_ORDERS`, searched, and limited in the headings of its numbers.
    Without a kernel the first pairs are shown as plain HTML.
    """

    kind, shows, orders, first_orders = "pairs", "scores", PAIR_ORDERS, ("error", "gain")
    same, subset = map(value_of, ("same", "subset"))

    def __init__(
        self,
        found: Mapping[str, Any],
        pairs: Pairs | str,
        *,
        suite: str | None = None,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        """Show scores. Arguments and errors are those of `pair_table`, whose table is `self.table`.

        encoders: As of `RankingExplorer`.
        """
        self._data = load_pairs(pairs) if isinstance(pairs, str) else pairs
        self.name = set_name(suite or self._data.name)
        self.title = f"Pairs of {self.name}"
        self.take(found)
        same = ipywidgets.FloatText((self.table["gold"].min() + self.table["gold"].max()) / 2, step=0.5)
        same.description, same.style.description_width, same.layout.width = "the same from gold", "initial", "16em"
        same.observe(lambda _: self.draw(), "value")
        self._subset = dropdown("subset", {"": "all"}, self._limit_subset)
        super().__init__(encoders, {"subset": self._subset, "same": same}, height=440)
        self.children = [self.control_row(), self.grid, self.detail, self.against, self.reasons]

    def take(self, found: Mapping[str, Any]) -> None:
        self.table, self.labels = pair_table(found, self._data, suite=self.name), list(map(str, found))
        self._rows = self.table.to_dict("list")
        self.ids = self._rows["pair_id"]
        self._partners: dict[str, list[int]] = {}  # sentence -> the rows that have it on either side
        for row, both in enumerate(zip(self._rows["sentence1"], self._rows["sentence2"], strict=True)):
            for sentence in dict.fromkeys(both):
                self._partners.setdefault(sentence, []).append(row)

    @property
    def selected(self) -> pd.DataFrame:
        """Return the listed pairs, in their order: rows of `table`."""
        return self.table.iloc[self.grid.listed]

    def rows(self) -> tuple[pd.DataFrame, Sequence[str]]:
        codes, subsets = pd.factorize(self.table["subset"])
        self._subset_codes = {name: code for code, name in enumerate(subsets) if name}
        offer(self._subset, {"": "all", **{name: name for name in self._subset_codes}}, "")
        kinds = ("rank", "error", "score") if len(self.labels) <= 4 else ("rank", "error")  # fewer bytes
        names = [*_SIDES, "gold", "words", *(f"{kind}: {label}" for label in self.labels for kind in kinds)]
        return self.table[names].assign(overlap=100 * self.table["overlap"], subset=codes), ()

    def columns(self) -> list[dict[str, Any]]:
        labels = self.shown_labels
        columns: list[dict[str, Any]] = [
            *({"name": side, "title": f"{side[:-1]} {side[-1]}"} for side in _SIDES),
            {"name": "gold", "limit": True},
            {"name": "overlap", "title": "in common", "suffix": "%", "digits": 0, "limit": True}
            | {"hover": "words that both sentences have, of all their words"},
            {"name": "words", "limit": True},
        ]
        for label, short in shortened(labels, 48 if len(labels) < 4 else 22).items():
            column = {"name": f"rank: {label}", "title": short, "hover": label, "error": f"error: {label}"}
            columns += [column | ({"score": f"score: {label}"} if len(labels) < 4 else {})]
        return columns

    def values(self) -> np.ndarray:
        return order_values(self.table, self.order, self.a, self.b)

    def _limit_subset(self, change: Any) -> None:
        code = self._subset_codes.get(change["new"])
        self.grid.limits = {**self.grid.limits, "subset": [code, code]}

    def targets(self, row: int) -> tuple[str, Mapping[str, str]]:
        return self._rows["sentence1"][row], {"this score": self._rows["sentence2"][row]}

    def static(self) -> str:
        listed = self.grid.listed
        names = {column["name"]: column.get("title", column["name"]) for column in self.columns()}
        table = table_html(self.table.loc[listed[:_STATIC], list(names)].rename(columns=names).round(2))
        chosen = self.details(self.grid.chosen, slope_image) if len(listed) else ""
        count = f"{len(listed):,} pairs of {escape(self.name)}"
        return f"<p>The first of {count}. Run the cell to see the others.</p>{framed(table)}{chosen}"

    def details(self, row: int, chart: Callable[[QueryView], str] = slope_svg, *, live: bool = False) -> str:
        """Return one pair, the decision of each label, and each of its sentences with its other partners."""
        pair = {name: values[row] for name, values in self._rows.items()}
        both = f"{escape(pair['sentence1'])}<br>{escape(pair['sentence2'])}"
        named = ", ".join(escape(str(pair[name])) for name in ("subset", "pair_id") if pair[name])
        sentences = [text for text in dict.fromkeys(pair[side] for side in _SIDES) if len(self._partners[text]) > 1]
        views = [self.cached(("view", each, *self.shown_labels), partial(self._view, each)) for each in sentences]
        none = "" if views else " Neither sentence is in another pair."
        button = tag("button", "why this score?", name="why", value="this score")
        title = f"<b data-words>{both}</b> <small>({named}: gold {pair['gold']:.4g}.{none})</small>"
        title = paragraph(f"{title} {button}" if live and self._vectors else title)
        first = side_by_side_html(title + self._decisions(pair), "".join(map(chart, views[:1])), 1)
        tables = [self._partner_table(view, chart if place else None) for place, view in enumerate(views)]
        return framed(first, *tables[:1]) + "".join(map(framed, tables[1:]))

    def _partner_table(self, view: QueryView, chart: Callable[[QueryView], str] | None) -> str:
        """Return a sentence with its partners, drawn once, since a page shows it with each of its pairs."""
        return self.cached((view, chart), partial(view_parts, view, chart=chart, targets=_TARGETS))

    def _view(self, sentence: str) -> QueryView:
        rows = self.table.iloc[self._partners[sentence]]
        targets = rows["sentence2"].where(rows["sentence1"] == sentence, rows["sentence1"]).tolist()
        scores = {label: rows[f"score: {label}"].to_numpy() for label in self.shown_labels}
        return QueryView.from_scores(sentence, targets, rows["gold"].to_numpy(), scores, suite=self.name)

    def _decisions(self, pair: dict[str, Any]) -> str:
        """Return whether each label takes the pair to mean the same, at its threshold (as CoSENT table X)."""
        least, rows = self.same, []
        thresholds = self.cached(("thresholds", least, *self.shown_labels), lambda: self._thresholds(least))
        if not thresholds:
            return small_print('No decision: gold has no pairs on both sides of "the same from gold".')
        for label, short in shortened(thresholds, 20).items():
            (threshold, share), score = thresholds[label], pair[f"score: {label}"]
            is_right = (score >= threshold) == (pair["gold"] >= least)
            words = f"{'✓' if is_right else '✗'} {'the same' if score >= threshold else 'not the same'}"
            numbers = [td(f"{score:.3f}"), td(f"{threshold:.3f}"), td(f"{share:.0%}")]
            rows.append(tag("tr", row_head(short, label), td(words, f"number shade{0 if is_right else 4}"), *numbers))
        truth = f"gold {least:g} or more: {'the same' if pair['gold'] >= least else 'not the same'}"
        names = ("", truth, "score", "threshold", "right of all")
        return table_tag("".join(th(name, "narrow") for name in names), rows)

    def _thresholds(self, least: float) -> dict[str, tuple[float, float]]:
        same = self.table["gold"].to_numpy() >= least
        scores = {label: self.table[f"score: {label}"].to_numpy() for label in self.shown_labels}
        is_divided = same.any() and not same.all()
        return {label: best_threshold(same, values) for label, values in scores.items()} if is_divided else {}
