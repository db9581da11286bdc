"""Looking through every pair of a suite: a table to order, filter and search, and the chosen pair with its partners."""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from workbench.data import Pairs, load_pairs
from workbench.look._listing import Listing, button, with_words
from workbench.look._live import choice
from workbench.look._style import shortened
from workbench.look.page import arrow, marked, shade, slope_image, slope_svg, view_html
from workbench.look.pairs import pair_table
from workbench.look.queries import QueryView
from workbench.look.why import Reasons

_SHORT = 120  # characters of a sentence that a row of the list shows
_STATIC = 20  # rows where no kernel runs
_TARGETS = 20  # of a sentence with many partners

# How pairs can be ordered: name -> (in a few words, what it orders by). a and b are labels.
PAIR_ORDERS = {
    "error": ("a is most wrong", "places between the ranks of gold and a"),
    "near": ("a has it too near", "places that a has it nearer than gold"),
    "far": ("a has it too far", "places that a has it further than gold"),
    "gain": ("b gains over a", "by how many places b is nearer to gold than a"),
    "loss": ("b loses against a", "by how many places b is further from gold than a"),
    "disagreement": ("a and b disagree", "places between the ranks of a and b"),
    "overlap": ("words in common", "words that both sentences have, of all their words"),
    "gold": ("gold", "gold, largest first"),
    "data": ("as in the data", "the order in which the data has them"),
}


class PairExplorer(Listing):
    """Every pair of a suite in a table that is ordered, filtered and searched; the chosen one with all its partners.

    By keyboard: Tab to the table, then the arrow keys. Where no kernel runs the first pairs stand as plain HTML.
    """

    choices: ClassVar = (*Listing.choices, "low", "high", "subset")

    def __init__(
        self,
        found: Mapping[str, Any],
        pairs: Pairs | str,
        *,
        suite: str | None = None,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        """Arguments and errors as those of `pair_table`, whose table is `self.table`.

        encoders: Who can say what the score of the chosen pair hangs on, as `Why` takes them.
        """
        self._reasons = Reasons(encoders)
        data = load_pairs(pairs) if isinstance(pairs, str) else pairs
        self.table, self.name = pair_table(found, data, suite=suite), suite or data.name
        self.low = self.high = self.subset = ""
        self._text = (self.table["sentence1"] + "\n" + self.table["sentence2"]).str.casefold().tolist()
        sides = self.table[["sentence1", "sentence2"]].melt(ignore_index=False)["value"]
        self._partners = {sentence: list(dict.fromkeys(rows)) for sentence, rows in sides.groupby(sides).groups.items()}
        self._sorted: dict[tuple[str, ...], np.ndarray] = {}
        labels = [str(label) for label in found]
        between = ("gain", "loss", "disagreement")
        orders = {name: words for name, words in PAIR_ORDERS.items() if len(labels) > 1 or name not in between}
        super().__init__("pairs", labels, orders, "error" if len(labels) == 1 else "gain")

    @property
    def selected(self) -> pd.DataFrame:
        """The listed pairs, as they are filtered and ordered: rows of `table`."""
        return self.table.iloc[self.listed()]

    def find(self) -> np.ndarray:
        chosen = self.order, self.a, self.b
        if chosen not in self._sorted:
            self._sorted[chosen] = np.argsort(-self._value(*chosen), kind="stable")
        kept = np.array([with_words(text, self.words) for text in self._text], dtype=bool)
        gold = self.table["gold"].to_numpy()
        kept &= (gold >= float(self.low or -np.inf)) & (gold <= float(self.high or np.inf))
        kept &= (self.table["subset"] == self.subset).to_numpy() | (self.subset == "")
        rows = self._sorted[chosen]
        return rows[kept[rows]]

    def _value(self, order: str, a: str, b: str) -> np.ndarray:
        """What the pairs are ordered by, largest first."""
        first, second = self.table[f"error: {a}"], self.table[f"error: {b}"]
        values = {
            "error": first.abs(),
            "near": first,
            "far": -first,
            "gain": first.abs() - second.abs(),
            "loss": second.abs() - first.abs(),
            "disagreement": (self.table[f"rank: {a}"] - self.table[f"rank: {b}"]).abs(),
            "data": pd.Series(np.zeros(len(self.table))),
        }
        return (values[order] if order in values else self.table[order]).to_numpy()

    def controls(self) -> str:
        limits = "".join(
            f'<label>{words} <input name="{name}" type="number" step="any" value="{escape(str(getattr(self, name)))}">'
            "</label>"
            for name, words in (("low", "gold from"), ("high", "to"))
        )
        subsets = {"": "all", **{name: name for name in self.table["subset"].unique() if name}}
        return super().controls() + limits + (choice("subset", subsets, self.subset) if len(subsets) > 2 else "")

    def drawn(self) -> dict[str, str]:
        chosen = self.current()
        status = self.counted(len(self.table), "pairs", f"; first: most {self.orders[self.order][1]}")
        view = "" if chosen is None else self._pair(chosen, slope_svg)
        why = "" if chosen is None else self._why(chosen)
        return {"status": status, "list": self._list(self.room, chosen) + self.more(), "why": why, "view": view}

    def told(self, name: str, value: Any) -> None:
        self._reasons.told(name, value)
        super().told(name, value)

    def _why(self, number: int) -> str:
        if not self._reasons.readers:
            return ""
        first, second = self.table.iloc[number][["sentence1", "sentence2"]]
        asked = self._reasons.drawn(first, {"this score": second}, self.shown_labels)
        return f'<button name="why" value="this score">why this score?</button>{asked}'

    def static(self) -> str:
        count, chosen = len(self.listed()), self.current()
        head = f"<p>The first of {count:,} pairs of {escape(self.name)}. Run the cell to see the others.</p>"
        return head + self._list(_STATIC, None) + ("" if chosen is None else self._pair(chosen, slope_image))

    def _list(self, room: int, chosen: int | None) -> str:
        short = shortened(self.shown_labels, 24)
        names = "".join(
            f'<th class="name" title="{escape(label)}">{escape(name)}</th>' for label, name in short.items()
        )
        rows = "".join(self._row(int(number), chosen) for number in self.listed()[:room])
        return (
            '<div class="mathjax_ignore"><table class="ranks"><thead><tr><th class="text">sentence 1</th>'
            '<th class="text">sentence 2</th><th class="number">gold</th><th class="narrow">in common</th>'
            f"{names}</tr></thead><tbody data-walk>{rows}</tbody></table></div>"
        )

    def _row(self, number: int, chosen: int | None) -> str:
        pair = self.table.iloc[number].to_dict()
        first, second = (marked(_cut(pair[side]), self.words) for side in ("sentence1", "sentence2"))
        first = button(number, first, chosen)
        ranks = "".join(_rank(pair, label) for label in self.shown_labels)
        here = ' class="chosen"' if number == chosen else ""
        return (
            f'<tr{here}><td class="text">{first}</td><td class="text">{second}</td>'
            f'<td class="number">{pair["gold"]:.4g}</td><td class="number">{pair["overlap"]:.0%}</td>{ranks}</tr>'
        )

    def _pair(self, number: int, chart: Callable[[QueryView], str]) -> str:
        """One pair whole, and each of its sentences as a query where it has other partners."""
        pair = self.table.iloc[number].to_dict()
        both = f"{escape(pair['sentence1'])}<br>{escape(pair['sentence2'])}"
        named = ", ".join(escape(str(pair[name])) for name in ("subset", "pair_id") if pair[name])
        views = [view for side in ("sentence1", "sentence2") if (view := self._view(pair[side])) is not None]
        alone = "" if views else " Neither sentence stands in another pair."
        where = f"<small>({named}: gold {pair['gold']:.4g}.{alone})</small>"
        drawn = "".join(view_html(view, chart=chart, targets=_TARGETS) for view in views)
        return f'<div class="mathjax_ignore"><p class="head"><b>{both}</b> {where}</p></div>{drawn}'

    def _view(self, sentence: str) -> QueryView | None:
        rows = self._partners[sentence]
        if len(rows) < 2:
            return None
        part = self.table.iloc[rows]
        targets = part["sentence2"].where(part["sentence1"] == sentence, part["sentence1"]).tolist()
        scores = {label: part[f"score: {label}"].to_numpy() for label in self.shown_labels}
        return QueryView.made(sentence, targets, part["gold"].to_numpy(), scores, suite=self.name)


def _rank(pair: dict[str, Any], label: str) -> str:
    """Rank among all pairs, the share of them that it lies off, and score."""
    error = pair[f"error: {label}"]
    off = arrow(round(100 * error, 1 if abs(error) < 0.095 else 0), "%")
    rank = f"<b>{pair[f'rank: {label}']:g}</b>{off}"
    return f'<td class="number {shade(abs(error))}">{rank}<br><small>{pair[f"score: {label}"]:.3f}</small></td>'


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
