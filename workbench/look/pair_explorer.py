"""Looking through every pair of a suite: a table to order, filter and search, and the chosen pair with its partners."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from html import escape
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from workbench.data import Pairs, load_pairs
from workbench.files import set_name
from workbench.look._asked import Vectors
from workbench.look._charts import GOLD, MAP, RANKS, SIGNS, SIMILAR, fitted, scores_by_gold, sentences_map
from workbench.look._html import (
    arrow,
    beside,
    choice,
    cut,
    field,
    framed,
    head,
    label_heads,
    marked,
    note,
    quoted,
    shade,
    table,
    td,
    th,
    tr,
)
from workbench.look._listing import Listing, button
from workbench.look._sharing import Entry, plain_table
from workbench.look._style import shortened
from workbench.look.page import slope_image, slope_svg, view_parts
from workbench.look.pairs import PAIR_ORDERS, best_threshold, pair_table, worth
from workbench.look.queries import QueryView

_SHORT = 120  # characters of a sentence that a row of the list shows
_STATIC = 20  # rows where no kernel runs
_TARGETS = 20  # of a sentence with many partners
_MAPPED = 300  # listed pairs whose sentences a map has
_FITTED = 1000  # sentences of the suite that its plane is fitted to
# What a limit is of: (in a few words, column, what its value is multiplied with).
_LIMITS = {"": ("gold", "gold", 1), "overlap_": ("% in common", "overlap", 100), "words_": ("words", "words", 1)}
_SIDES = ("sentence1", "sentence2")
_FIELDS = [f"{of}{end}" for of in _LIMITS for end in ("low", "high")]


class PairExplorer(Listing):
    """Every pair of a suite in a table that is ordered, filtered and searched; the chosen one with all its partners.

    Beside it a chart of the list, of which a part that is pressed limits the list or chooses from it. By keyboard: Tab
    to the table, then the arrow keys. Where no kernel runs the first pairs stand as plain HTML.
    """

    choices: ClassVar = (*Listing.choices, *_FIELDS, "subset")
    looks: ClassVar = (*Listing.looks, "same")
    shows: ClassVar = "scores"  # of a `RunPicker`
    every_order, first_orders = PAIR_ORDERS, ("error", "gain")

    def __init__(
        self,
        found: Mapping[str, Any],
        pairs: Pairs | str,
        *,
        suite: str | None = None,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        """Arguments and errors as those of `pair_table`, whose table is `self.table`; encoders as of `RankingExplorer`.

        Limits are inclusive: low and high of gold, overlap_low and overlap_high in per cent, words_low and words_high.
        `same`: from which gold on a pair counts as one that means the same; at first the middle of its range.
        """
        self._data = load_pairs(pairs) if isinstance(pairs, str) else pairs
        self.name, self.subset = set_name(suite or self._data.name), ""
        for name in _FIELDS:
            setattr(self, name, "")
        self.take(found)
        self.same = f"{(self.table['gold'].min() + self.table['gold'].max()) / 2:g}"
        super().__init__("pairs", encoders)

    def take(self, found: Mapping[str, Any]) -> None:
        self.table, self.labels = pair_table(found, self._data, suite=self.name), list(map(str, found))
        self._rows = self.table.to_dict("list")
        self.ids = self._rows["pair_id"]
        self._partners = self._sides()
        self.subset = self.subset if self.subset in self._rows["subset"] else ""

    def _sides(self) -> dict[str, list[int]]:
        """Sentence -> the rows in which it stands on either side."""
        found: dict[str, list[int]] = {}
        for number, both in enumerate(zip(self._rows["sentence1"], self._rows["sentence2"], strict=True)):
            for sentence in dict.fromkeys(both):
                found.setdefault(sentence, []).append(number)
        return found

    @property
    def selected(self) -> pd.DataFrame:
        """The listed pairs, as they are filtered and ordered: rows of `table`."""
        return self.table.iloc[self.listed()]

    def ordered(self) -> np.ndarray:
        return np.argsort(-worth(self.table, self.order, self.a, self.b), kind="stable")

    def texts(self) -> list[str]:
        return (self.table["sentence1"] + "\n" + self.table["sentence2"]).str.casefold().tolist()

    def within(self) -> np.ndarray:
        kept = super().within()
        for of, (_, column, times) in _LIMITS.items():
            low, high = (_number(getattr(self, f"{of}{end}")) for end in ("low", "high"))
            values = times * self.table[column].to_numpy()
            kept &= True if low is None else values >= low
            kept &= True if high is None else values <= high
        return kept & (self.table["subset"] == self.subset).to_numpy() if self.subset else kept

    def further(self) -> Iterable[str]:
        yield from super().further()
        for of, (words, *_) in _LIMITS.items():
            yield f"<label>{words} {self._limit(f'{of}low', f'{words} from')}</label>"
            yield f"<label>to {self._limit(f'{of}high', f'{words} to')}</label>"
        yield f"<label>the same from gold {self._limit('same', 'the same from gold')}</label>"
        subsets = {"": "all", **{name: name for name in self.table["subset"].unique() if name}}
        if len(subsets) > 2:
            yield choice("subset", subsets, self.subset)

    def _limit(self, name: str, words: str) -> str:
        return field(name, getattr(self, name), type="number", step="any", aria_label=words)

    def drawn(self) -> dict[str, str]:
        chosen = self.current()
        status = self.counted(len(self.table), "pairs", f"; largest first: {self.orders[self.order][1]}")
        shown = {"status": status, "list": self._list(self.room, chosen) + self.more(), "view": "", "why": ""}
        if chosen is None:
            return shown
        of_views = {RANKS: slope_svg, SIMILAR: lambda view: self.explained(lambda: self.family_chart(view))}
        alone = self.chart in (GOLD, MAP) or (self.chart == SIMILAR and not self._views(chosen))
        drawn = self.explained(lambda: self._chart(chosen)) if alone else ""
        view = self._pair(chosen, None if alone else of_views[self.chart], drawn, asks=bool(self._readers))
        return shown | {"view": view, "why": self._why(chosen)}

    def _chart(self, chosen: int) -> str:
        rows = np.asarray(self.listed())
        if self.chart == MAP:
            return self._map(rows[:_MAPPED], chosen)
        if self.chart == GOLD:
            gold, every = self.table["gold"].to_numpy()[rows], self.table["gold"].to_numpy()
            scores = {label: self.table[f"score: {label}"].to_numpy()[rows] for label in self.shown_labels}
            return scores_by_gold(gold, scores, rows == chosen, every)
        pair = self.table.iloc[chosen]
        scores = {label: pair[[f"score: {label}"]].to_numpy() for label in self.shown_labels}
        alone = QueryView.made(pair["sentence1"], [pair["sentence2"]], pair[["gold"]].to_numpy(), scores)
        return self.family_chart(alone)

    def _map(self, rows: np.ndarray, chosen: int) -> str:
        """The sentences of these pairs, of the chosen one and of its partners, which lines join."""
        pair = list(dict.fromkeys(self._rows[side][chosen] for side in _SIDES))
        near = list(dict.fromkeys([chosen, *(row for sentence in pair for row in self._nearest(sentence))]))
        wanted = np.array([*near, *rows])
        here = np.isin(wanted, self.listed())
        listed = set(wanted[here].tolist())
        of: dict[str, int] = {}
        for row in [*wanted[here].tolist(), *wanted[~here].tolist()]:  # a sentence stands for a listed pair, if it can
            for side in _SIDES:
                of.setdefault(self._rows[side][row], row)
        texts, places = list(of), {text: place for place, text in enumerate(of)}
        lines = [(places[self._rows["sentence1"][row]], places[self._rows["sentence2"][row]]) for row in near]
        points = {label: self._plane(vectors)(self.read(vectors, texts)) for label, vectors in self.encoders().items()}
        drawn = list(of.values())
        gold, *errors = (self.table[name].to_numpy() for name in ("gold", f"error: {self.a}", f"error: {self.b}"))
        return sentences_map(
            points,
            texts,
            self.signs(gold, *errors)[drawn],
            named={places[sentence]: str(number + 1) for number, sentence in enumerate(pair)},
            lines=lines,
            rows=[row if row in listed else None for row in drawn],
            said=f"{self.plane} of the vectors of the first {len(rows)} listed pairs; 1 and 2: the chosen one, lines: "
            f"pairs of its sentences, of each at most the {_TARGETS} that gold has nearest",
            signs=SIGNS[self.colour],
        )

    def _nearest(self, sentence: str) -> list[int]:
        """The rows of at most `_TARGETS` pairs of a sentence: one of very many would take minutes to encode."""
        gold = self._rows["gold"]
        return sorted(self._partners[sentence], key=lambda row: -gold[row])[:_TARGETS]

    def _plane(self, vectors: Vectors) -> Callable[[np.ndarray], tuple[np.ndarray, str]]:
        """Fitted to sentences of the whole suite, so that it stays while the list changes."""

        def fit() -> Callable[[np.ndarray], tuple[np.ndarray, str]]:
            every = list(self._partners)
            rows = self.read(vectors, every[:: -(-len(every) // _FITTED)])
            self.fitting()
            return fitted(self.plane, rows)

        return self.once((vectors.label, self.plane), fit)

    def told(self, name: str, value: Any) -> None:
        if name in (*_FIELDS, "same"):
            value = "" if value is None else value
            _number(value)  # TypeError for what is none, nor a text
        super().told(name, value)

    def _why(self, number: int) -> str:
        first, second = (self._rows[side][number] for side in _SIDES)
        return self.reasons(first, {"this score": second})

    def title(self) -> str:
        return f"Pairs of {self.name}: {', '.join(self.shown_labels)}"

    def entry(self, number: int) -> Entry:
        pair = {name: values[number] for name, values in self._rows.items()}
        text = " / ".join(pair[side] for side in _SIDES)
        rows = [(label, pair[f"rank: {label}"], pair[f"score: {label}"]) for label in self.shown_labels]
        plain = plain_table(f"{text}: gold {pair['gold']:.4g}", ("", "rank of all pairs", "score"), rows)
        return Entry(pair["pair_id"], text, self._pair(number, slope_svg), plain)

    def static(self) -> str:
        count, chosen = len(self.listed()), self.current()
        said = f"<p>The first of {count:,} pairs of {escape(self.name)}. Run the cell to see the others.</p>"
        return said + self._list(_STATIC, None) + ("" if chosen is None else self._pair(chosen, slope_image))

    def _list(self, room: int, chosen: int | None) -> str:
        heads = f"{th('sentence 1', 'text')}{th('sentence 2', 'text')}{th('gold')}"
        heads += th("in common", "narrow") + label_heads(self.shown_labels)
        rows = [self._row(int(number), chosen) for number in self.listed()[:room]]
        return f'<div class="mathjax_ignore">{table(heads, rows, walk=True)}</div>'

    def _row(self, number: int, chosen: int | None) -> str:
        pair = {name: values[number] for name, values in self._rows.items()}
        first, second = (marked(cut(pair[side], _SHORT), self.words) for side in _SIDES)
        whole = [f"<span title={quoted(pair[side])}>" for side in _SIDES]  # a row has two lines
        texts = td(button(number, f"{whole[0]}{first}</span>", chosen), "text")
        texts += td(f"{whole[1]}{second}</span>", "text")
        numbers = td(f"{pair['gold']:.4g}") + td(f"{pair['overlap']:.0%}")
        few = len(self.shown_labels) < 4
        cells = [texts, numbers, *(_rank(pair, label, scored=few) for label in self.shown_labels)]
        return tr(cells, **({"chosen": ""} if number == chosen else {}))

    def _pair(
        self, number: int, chart: Callable[[QueryView], str] | None, alone: str = "", *, asks: bool = False
    ) -> str:
        """One pair whole, what each label decides of it, and each of its sentences with its other partners.

        chart: of each of these sentences; the first one's stands beside the decisions, or what is drawn `alone`.
        """
        pair = {name: values[number] for name, values in self._rows.items()}
        both = f"{escape(pair['sentence1'])}<br>{escape(pair['sentence2'])}"
        named = ", ".join(escape(str(pair[name])) for name in ("subset", "pair_id") if pair[name])
        views = self._views(number)
        none = "" if views else " Neither sentence stands in another pair."
        why = ' <button name="why" value="this score">why this score?</button>' if asks else ""
        title = head(f"<b data-words>{both}</b> <small>({named}: gold {pair['gold']:.4g}.{none})</small>{why}")
        drawn = f'<div style="flex:1 1 300px;min-width:0">{alone}</div>'
        if chart:
            drawn = f'<div class="drawn">{"".join(map(chart, views[:1]))}</div>'
        first = beside(title + self._decided(pair), drawn, 1)
        tables = [self._table(view, chart if place else None) for place, view in enumerate(views)]
        return framed(first, *tables[:1]) + "".join(map(framed, tables[1:]))

    def _table(self, view: QueryView, chart: Callable[[QueryView], str] | None) -> str:
        """A sentence with its partners; on a page it stands in each of its pairs, and is drawn once."""
        draw = partial(view_parts, view, chart=chart, targets=_TARGETS)
        return self.once((view, chart), draw) if chart in (None, slope_svg) else draw()

    def _decided(self, pair: dict[str, Any]) -> str:
        """Whether each label takes the pair to mean the same, at its threshold (as CoSENT table X)."""
        least, rows = _number(self.same), []
        found = self.once(("thresholds", least, *self.shown_labels), partial(self._thresholds, least))
        if least is None or not found:
            return note('No decision: gold has no pairs on both sides of "the same from".')
        for label, short in shortened(found, 20).items():
            (threshold, share), score = found[label], pair[f"score: {label}"]
            right = (score >= threshold) == (pair["gold"] >= least)
            words = f"{'✓' if right else '✗'} {'the same' if score >= threshold else 'not the same'}"
            decided = td(words, f"number shade{0 if right else 4}")
            name = f'<th class="word" scope="row" title={quoted(label)}>{escape(short)}</th>'
            rows.append(tr([name, decided, td(f"{score:.3f}"), td(f"{threshold:.3f}"), td(f"{share:.0%}")]))
        truth = f"gold {least:g} or more: {'the same' if pair['gold'] >= least else 'not the same'}"
        return table("".join(th(words, "narrow") for words in ("", truth, "score", "threshold", "right of all")), rows)

    def _thresholds(self, least: float | None) -> dict[str, tuple[float, float]]:
        """label -> its `best_threshold`; empty where gold has nothing to decide."""
        same = self.table["gold"].to_numpy() >= (np.inf if least is None else least)
        scores = {label: self.table[f"score: {label}"].to_numpy() for label in self.shown_labels}
        decides = same.any() and not same.all()
        return {label: best_threshold(same, values) for label, values in scores.items()} if decides else {}

    def _views(self, number: int) -> list[QueryView]:
        """Each sentence of a pair that has other partners, with all of them; one that is both stands once."""
        sentences = dict.fromkeys(self._rows[side][number] for side in _SIDES)
        known = [sentence for sentence in sentences if len(self._partners[sentence]) > 1]
        return [self.once(("view", each, *self.shown_labels), partial(self._view, each)) for each in known]

    def _view(self, sentence: str) -> QueryView:
        rows, columns = self._partners[sentence], self._rows
        pairs = [(columns["sentence1"][row], columns["sentence2"][row]) for row in rows]
        targets = [second if first == sentence else first for first, second in pairs]
        gold, *scores = (
            np.array([columns[name][row] for row in rows])
            for name in ("gold", *(f"score: {label}" for label in self.shown_labels))
        )
        scored = dict(zip(self.shown_labels, scores, strict=True))
        return QueryView.made(sentence, targets, gold, scored, suite=self.name)


def _rank(pair: dict[str, Any], label: str, *, scored: bool) -> str:
    """Rank among all pairs, the share of them that it lies off, and score; of many labels it shows on hovering."""
    error = pair[f"error: {label}"]
    off = arrow(round(100 * error, 1 if abs(error) < 0.095 else 0), "%")
    rank, score = f"<b>{pair[f'rank: {label}']:g}</b>", f"{pair[f'score: {label}']:.3f}"
    shown = f"{rank}{off}<br><small>{score}</small>" if scored else f"{rank}<br>{off}"
    return td(shown, f"number {shade(abs(error))}", f' title="score {score}"')


def _number(typed: Any) -> float | None:
    """What stands in a field, None where that is no number: nothing yet, or a sign alone."""
    try:
        return float(typed)
    except ValueError:
        return None
