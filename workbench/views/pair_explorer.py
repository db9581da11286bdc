"""The explorer of pairs: every pair of a suite in a table, and the chosen pair with the partners of its sentences."""

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from workbench.data import Pairs, load_pairs
from workbench.files import set_name
from workbench.views._html import paragraph, tag
from workbench.views._style import shortened
from workbench.views.explorer import Explorer, Listing
from workbench.views.pairs import pair_table
from workbench.views.queries import QueryView

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
        self._suite = set_name(suite or self._data.name)
        super().__init__(scores, encoders, height=440)
        self.children[1].layout.flex_flow = "column"

    def read(self, data: Mapping[str, Any]) -> Listing:
        table, labels = pair_table(data, self._data, suite=self._suite), list(map(str, data))
        self.table, self._partners = table, {}  # sentence -> the rows that have it on either side
        for row, both in enumerate(zip(table["sentence1"], table["sentence2"], strict=True)):
            for sentence in dict.fromkeys(both):
                self._partners.setdefault(sentence, []).append(row)
        titles = {"sentence1": "sentence 1", "sentence2": "sentence 2", "subset": "subset", "gold": "gold"}
        titles |= {"overlap": "common words", "words": "words"}
        frame = table[[*titles]].rename(columns=titles)
        frame = frame.loc[:, frame.astype(str).ne("").any()]  # without subset if no pair has one
        columns: list[dict[str, Any]] = [
            {"name": name, "digits": 2 if name == "common words" else None, "limit": is_numeric_dtype(frame[name])}
            for name in frame
        ]
        for label, short in shortened(labels, 24).items():
            columns.append({"name": f"rank: {label}", "title": short, "hover": label, "error": f"error: {label}"})
        return Listing(
            title=f"Pairs of {self._suite}",
            labels=labels,
            ids=table["pair_id"].tolist(),
            frame=frame.join(table.filter(regex="^(rank|error): ")),
            columns=columns,
            distances=self._distances,
            views=self._views,
            heading=self._heading,
        )

    @property
    def selected(self) -> pd.DataFrame:
        """Return the listed pairs, in their order: rows of `table`."""
        return self.table.iloc[self.grid.listed]

    def _distances(self, a: str, b: str | None = None) -> np.ndarray:
        if b is None:
            return self.table[f"error: {a}"].abs().to_numpy()
        places = (self.table[f"rank: {a}"] - self.table[f"rank: {b}"]).abs()
        return (places / max(len(self.table) - 1, 1)).to_numpy()

    def _heading(self, row: int) -> str:
        pair = self.table.iloc[row]
        both, where = (" / ".join(filter(None, map(str, pair[names]))) for names in ([*_SIDES], ["subset", "pair_id"]))
        title = f"<b data-words>{escape(both)}</b> <small>({escape(where)}: gold {pair['gold']:.4g})</small>"
        return tag("div", paragraph(title), class_="mathjax_ignore")

    def _views(self, row: int) -> list[QueryView]:
        """Return the first sentence with all its partners, and the second if it has others."""
        first, second = self.table.loc[row, [*_SIDES]]
        is_shared = second != first and len(self._partners[second]) > 1
        return [self._view(sentence) for sentence in ([first, second] if is_shared else [first])]

    def _view(self, sentence: str) -> QueryView:
        rows = self.table.iloc[self._partners[sentence]]
        targets = rows["sentence2"].where(rows["sentence1"] == sentence, rows["sentence1"]).tolist()
        scores = {name.removeprefix("score: "): rows[name].to_numpy() for name in rows if name.startswith("score: ")}
        return QueryView.from_scores(sentence, targets, rows["gold"].to_numpy(), scores, self._suite)
