"""The explorer of pairs: every pair of a suite in a table, and the chosen pair with the partners of its sentences."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd

from workbench.data import Pairs, load_pairs
from workbench.files import set_name
from workbench.views._html import paragraph, tag
from workbench.views._style import shortened
from workbench.views.explorer import Explorer
from workbench.views.page import slope_svg, view_html
from workbench.views.pairs import pair_table
from workbench.views.queries import QueryView

_TARGETS = 20  # of a sentence with many partners
_SIDES = ("sentence1", "sentence2")


class PairExplorer(Explorer):
    """See every pair of a suite, its rank among all pairs under each label, and one of them with its partners.

    The table is sorted by a column or an order, searched, and limited in the headings of its numbers.
    """

    kind, shows = "pairs", "scores"
    distance = "share of the list between the ranks of the two; of one label, to gold's"

    def __init__(
        self,
        scores: Mapping[str, Any],
        pairs: Pairs | str,
        *,
        suite: str | None = None,
        encoders: Mapping[str, Any] | None = None,
    ) -> None:
        """Show scores. Arguments and errors are those of `pair_table`, whose table is `self.table`.

        encoders: As of `RankingExplorer`.
        """
        self._data = load_pairs(pairs) if isinstance(pairs, str) else pairs
        self.suite = set_name(suite or self._data.name)
        self.title = f"Pairs of {self.suite}"
        super().__init__(scores, encoders, height=440)
        self.children = [ipywidgets.HBox([*self.controls.values()]), self.grid, self.detail, self.reasons]

    def take(self, data: Mapping[str, Any]) -> None:
        self.table, self.labels = pair_table(data, self._data, suite=self.suite), list(map(str, data))
        self.ids = self.table["pair_id"].tolist()
        self._partners: dict[str, list[int]] = {}  # sentence -> the rows that have it on either side
        for row, both in enumerate(zip(self.table["sentence1"], self.table["sentence2"], strict=True)):
            for sentence in dict.fromkeys(both):
                self._partners.setdefault(sentence, []).append(row)

    @property
    def selected(self) -> pd.DataFrame:
        """Return the listed pairs, in their order: rows of `table`."""
        return self.table.iloc[self.grid.listed]

    def rows(self) -> tuple[pd.DataFrame, Sequence[str] | None]:
        kinds = ("rank", "error", "score") if len(self.labels) < 4 else ("rank", "error")  # fewer bytes
        subset = ["subset"] if self.table["subset"].any() else []
        names = [*_SIDES, *subset, "gold", "words", *(f"{kind}: {label}" for label in self.labels for kind in kinds)]
        return self.table[names].assign(overlap=100 * self.table["overlap"]), None

    def columns(self) -> list[dict[str, Any]]:
        columns: list[dict[str, Any]] = [
            *({"name": side, "title": f"{side[:-1]} {side[-1]}"} for side in _SIDES),
            *([{"name": "subset"}] if self.table["subset"].any() else []),
            {"name": "gold", "limit": True},
            {"name": "overlap", "title": "in common", "suffix": "%", "digits": 0, "limit": True}
            | {"hover": "words that both sentences have, of all their words"},
            {"name": "words", "limit": True},
        ]
        for label, short in shortened(self.labels, 48 if len(self.labels) < 4 else 22).items():
            column = {"name": f"rank: {label}", "title": short, "hover": label, "error": f"error: {label}"}
            columns += [column | ({"score": f"score: {label}"} if len(self.labels) < 4 else {})]
        return columns

    def distances(self, a: str, b: str | None = None) -> np.ndarray:
        if b is None:
            return self.table[f"error: {a}"].abs().to_numpy()
        places = (self.table[f"rank: {a}"] - self.table[f"rank: {b}"]).abs()
        return (places / max(len(self.table) - 1, 1)).to_numpy()

    def targets(self, row: int) -> tuple[str, Mapping[str, str]]:
        return self.table["sentence1"].iloc[row], {"this score": self.table["sentence2"].iloc[row]}

    def details(self, row: int, chart: Callable[[QueryView], str] = slope_svg, *, explains: bool = False) -> str:
        """Return one pair, and each of its sentences with its other partners."""
        pair = self.table.iloc[row]
        sentences = list(dict.fromkeys(pair[side] for side in _SIDES))
        views = [self._view(sentence) for sentence in sentences if len(self._partners[sentence]) > 1]
        both = "<br>".join(map(escape, sentences))
        named = ", ".join(escape(str(pair[name])) for name in ("subset", "pair_id") if pair[name])
        none = "" if views else " Neither sentence is in another pair."
        button = f" {tag('button', 'why this score?', value='this score')}" if explains else ""
        title = f"<b data-words>{both}</b> <small>({named}: gold {pair['gold']:.4g}.{none})</small>{button}"
        return tag("div", paragraph(title), class_="mathjax_ignore") + "".join(
            view_html(view, chart=chart, targets=_TARGETS) for view in views
        )

    def _view(self, sentence: str) -> QueryView:
        rows = self.table.iloc[self._partners[sentence]]
        targets = rows["sentence2"].where(rows["sentence1"] == sentence, rows["sentence1"]).tolist()
        scores = {label: rows[f"score: {label}"].to_numpy() for label in self.labels}
        return QueryView.from_scores(sentence, targets, rows["gold"].to_numpy(), scores, self.suite)
