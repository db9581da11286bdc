"""Rank targets, or a corpus, for a query that is typed, by several encoders side by side."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd

from workbench.data import kinds_of, load_pairs, load_sentences
from workbench.errors import DataError
from workbench.views._asked import ENCODER, open_encoders
from workbench.views._html import framed, paragraph, small_print, table_tag, tag, td, th
from workbench.views._table import WIDE, Panel, View, dropdown, or_problem, text_area, value_of
from workbench.views.page import slope_image, slope_svg, view_html
from workbench.views.queries import QueryView

CORPUS = "ladders-all"  # the corpus if no other is given
_LINES = "the lines below"
_NEAREST = 10  # sentences of a corpus that are shown
_NO_CHART = "No chart: one encoder and no gold are nothing to compare. Type gold, or ask two encoders."


class Ask(View):
    """Rank targets, or a corpus, for a query under each encoder, while it is typed: table and slope chart.

    Nothing is trained and no gold is needed: without it ranks are compared with those of the first encoder. Each
    sentence is encoded once, so an edit costs only what it changed.
    """

    among, query = map(value_of, ("among", "query"))

    def __init__(
        self,
        encoders: Mapping[str, Any] | None = None,
        query: str = "",
        targets: Sequence[str] = (),
        *,
        gold: Sequence[float] | None = None,
        corpus: str | Path | Sequence[str] = CORPUS,
        limit: int = 2000,
    ) -> None:
        """Show a query; everything but the encoders can be edited in the view.

        Args:
            encoders: label -> a bundled name, a folder, a hub id, a `Run`, an `Encoder`, a method, or a function from
                sentences to vectors; None: the bundled encoder.
            gold: One number for each target, at least 0, larger is closer.
            corpus: Sentences, the name of a set or a file; its nearest sentences are shown if there are no targets.
            limit: At most this many sentences of the corpus, drawn with a fixed seed.

        Raises:
            EncoderError, DataError: An encoder or corpus cannot be read, or there is none.
        """
        self._vectors = open_encoders({ENCODER: ENCODER} if encoders is None else encoders)
        for vectors in self._vectors.values():
            vectors.encode  # noqa: B018  # raises now if an encoder cannot be read
        self._name, self._corpus = _load_corpus(corpus, limit)
        places = {_LINES: "the targets below", self._name: f"{self._name}, {len(self._corpus):,} sentences"}
        self.controls = {
            "query": text_area("query", query, 2),
            "among": dropdown("rank", places, self._draw),
            "targets": text_area("targets, one a line", "\n".join(targets), 8),
            "gold": ipywidgets.Text(" ".join(map(str, gold or ())), description="gold of each (optional)", **WIDE),
        }
        self.panel, self.status = Panel(), ipywidgets.HTML()
        fields = ipywidgets.VBox([*self.controls.values(), self.status], layout={"width": "34%"})
        self.panel.layout.width = "65%"
        super().__init__([ipywidgets.HBox([fields, self.panel])])
        self.controls["among"].value = self._name if query and not targets else _LINES
        for name in ("query", "targets", "gold"):
            self.controls[name].observe(self._draw, "value")
        self._draw()

    @property
    def targets(self) -> list[str]:
        """Return the lines that are ranked."""
        return [line for line in self.controls["targets"].value.splitlines() if line.strip()]

    @property
    def selected(self) -> pd.DataFrame:
        """Return each target, or the nearest of a corpus, with gold and, by label, rank and score."""
        view = self._view()
        return (view if self.among == _LINES else view.nearest(_NEAREST)).table.reset_index(drop=True)

    def set_value(self, name: str, value: Any) -> None:
        if name in ("targets", "gold") and not isinstance(value, str):
            value = ("\n" if name == "targets" else " ").join(map(str, value))
        super().set_value(name, value)

    def _draw(self, _: Any = None) -> None:
        is_typed = self.among == _LINES
        for name in ("targets", "gold"):
            self.controls[name].layout.display = None if is_typed else "none"
        sentences = [self.query, *(self.targets if is_typed else self._corpus)]
        unknown = sum(len(vectors.unknown(sentences)) for vectors in self._vectors.values())
        self._show_status(f"encoding {unknown:,} sentences" if unknown > 100 else "")  # which takes seconds
        self.panel.html = or_problem(lambda: self._answer(slope_svg))
        self._show_status(self._parse_gold()[1] if is_typed else "")

    def _show_status(self, text: str) -> None:
        self.status.value = f'<span role="status">{escape(text)}</span>'

    def static(self) -> str:
        return f"<p>Run the cell to ask something else.</p>{or_problem(lambda: self._answer(slope_image))}"

    def _parse_gold(self) -> tuple[np.ndarray | None, str]:
        """Return gold of each target, None if there is none, and what is wrong with what was typed."""
        typed = self.controls["gold"].value.replace(",", " ").split()
        if not typed:
            return None, ""
        try:
            values = np.array([float(value) for value in typed])
        except ValueError:
            return None, f"gold is left out: {' '.join(typed)} are not all numbers"
        if len(values) != len(self.targets) or not np.isfinite(values).all() or (values < 0).any():
            count = f"{len(values)} for {len(self.targets)} targets"
            return None, f"gold is left out: it has {count}; give one number each, at least 0"
        return values, ""

    def _answer(self, chart: Callable[[QueryView], str]) -> str:
        view = self._view()
        if self.among != _LINES:
            return _nearest_html(view)
        return view_html(view, chart=chart) + small_print(_NO_CHART if len(view.columns) < 2 else "")

    def _view(self) -> QueryView:
        targets = self.targets if self.among == _LINES else self._corpus
        if not self.query.strip() or not targets:
            raise DataError(f"no {'targets' if self.query.strip() else 'query'} yet; type one")
        gold = self._parse_gold()[0] if self.among == _LINES else None
        scores = {label: rows(targets) @ rows([self.query])[0] for label, rows in self._vectors.items()}
        return QueryView.from_scores(self.query, targets, gold, scores)


def _load_corpus(corpus: str | Path | Sequence[str], limit: int) -> tuple[str, list[str]]:
    """Return name and distinct sentences of a set, file or list; of more than `limit` a sample, always the same."""
    if not isinstance(corpus, str | Path):
        name, sentences = "the corpus", list(corpus)
    elif "pairs" in kinds_of(str(corpus)):
        pairs = load_pairs(corpus, limit=limit)
        name, sentences = pairs.name, [*pairs.sentence1, *pairs.sentence2]
    else:
        loaded = load_sentences(corpus, limit=limit)
        name, sentences = loaded.name, loaded.sentences
    distinct = list(dict.fromkeys(sentences))
    drawn = np.random.default_rng(0).permutation(len(distinct))[:limit]
    return name, [distinct[place] for place in np.sort(drawn)]


def _nearest_html(view: QueryView) -> str:
    """Return the nearest under each label side by side; ● marks those that all have (RankEncoder figure 1)."""
    count, letters = min(_NEAREST, view.total), view.letters
    nearest = {label: np.argsort(ranks, kind="stable")[:count] for label, ranks in view.ranks.items()}
    shared = set.intersection(*(set(places.tolist()) for places in nearest.values())) if len(nearest) > 1 else set()
    words = f" ● {len(shared)} of {count} are among the nearest of every encoder." if len(nearest) > 1 else ""

    def cell(label: str, place: int) -> str:
        mark, shade = ("● ", " shade0") if place in shared else ("", "")
        text = f"{mark}{escape(view.table['target'].iloc[place][:400])} <small>{view.scores[label][place]:.3f}</small>"
        return td(text, f"text{shade}", data_row=letters[place])

    rows = [
        tag("tr", td(place + 1), *(cell(label, places[place]) for label, places in nearest.items()))
        for place in range(count)
    ]
    title = paragraph(f"<b>{escape(view.query)}</b> <small>(the nearest of {view.total:,})</small>")
    heads = th("") + "".join(th(label, "text") for label in nearest)
    return framed(title, table_tag(heads, rows), small_print(f"Behind each sentence: its score.{words}"))
