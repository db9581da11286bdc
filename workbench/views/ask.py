"""Rank targets, or a corpus, for a query that is typed, by several encoders side by side."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd

from workbench.data import kinds_of, load_pairs, load_sentences
from workbench.errors import DataError
from workbench.views._asked import ENCODER, open_encoders
from workbench.views._table import WIDE, Panel, View, dropdown, or_problem, text_area, value_of
from workbench.views.page import slope_image, slope_svg, view_html
from workbench.views.queries import QueryView

CORPUS = "ladders-all"  # the corpus if no other is given
_TYPED = "the targets below"
_TARGETS = 20  # of a corpus that are shown


class Ask(View):
    """Rank targets, or a corpus, for a query under each encoder, while it is typed: table and slope chart.

    Nothing is trained and no gold is needed: without it ranks are compared with those of the first encoder. Each
    sentence is encoded once, so an edit costs only what it changed.
    """

    settable = ("query", "among", "targets", "gold")
    query, among = map(value_of, ("query", "among"))

    def __init__(
        self,
        encoders: Mapping[str, Any] | None = None,
        query: str = "",
        targets: Sequence[str] = (),
        *,
        gold: Sequence[float] = (),
        corpus: str | Path | Sequence[str] = CORPUS,
        limit: int = 2000,
    ) -> None:
        """Show a query; everything but the encoders can be edited in the view.

        Args:
            encoders: label -> a bundled name, a folder, a hub id, a `Run`, an `Encoder`, a method, or a function from
                sentences to vectors; None: the bundled encoder.
            gold: One number for each target, at least 0, larger is closer.
            corpus: Sentences, the name of a set or a file; it is ranked if there are no targets.
            limit: At most this many rows of the set or file, drawn with a fixed seed.

        Raises:
            DataError: The corpus cannot be read.
        """
        self._vectors = open_encoders(encoders or {ENCODER: ENCODER})
        name, self._corpus = _load_corpus(corpus, limit)
        places = {_TYPED: _TYPED, name: f"{name}, {len(self._corpus):,} sentences"}
        self.controls = {
            "query": text_area("query", query, 2),
            "among": dropdown("rank", places, self._draw),
            "targets": text_area("targets, one a line", "\n".join(targets), 8),
            "gold": ipywidgets.Text(" ".join(map(str, gold)), description="gold of each (optional)", **WIDE),
        }
        self.panel = Panel(layout={"width": "65%"})
        fields = ipywidgets.VBox([*self.controls.values()], layout={"width": "34%"})
        super().__init__([ipywidgets.HBox([fields, self.panel])])
        self.among = name if query and not targets else _TYPED
        for control in ("query", "targets", "gold"):
            self.controls[control].observe(self._draw, "value")
        self._draw()

    @property
    def targets(self) -> list[str]:
        """Return the lines that are ranked; set to a list or a text."""
        return [line for line in self.controls["targets"].value.splitlines() if line.strip()]

    @targets.setter
    def targets(self, lines: str | Sequence[str]) -> None:
        self.controls["targets"].value = lines if isinstance(lines, str) else "\n".join(lines)

    @property
    def gold(self) -> np.ndarray | None:
        """Return the gold of each target, None if there is none; DataError unless it is a number for each target."""
        typed = self.controls["gold"].value.replace(",", " ")
        values = pd.to_numeric(pd.Series(typed.split(), dtype=object), errors="coerce").to_numpy(dtype=float)
        if len(values) not in (0, len(self.targets)) or not (np.isfinite(values) & (values >= 0)).all():
            raise DataError(f"gold is {typed!r} for {len(self.targets)} targets; type one number each, at least 0")
        return values if len(values) else None

    @gold.setter
    def gold(self, values: str | Sequence[float]) -> None:
        self.controls["gold"].value = values if isinstance(values, str) else " ".join(map(str, values))

    @property
    def selected(self) -> pd.DataFrame:
        """Return each target, or the nearest of a corpus, with gold and, by label, rank and score."""
        return (
            self._view().nearest(_TARGETS if self.among != _TYPED else len(self.targets)).table.reset_index(drop=True)
        )

    def _draw(self, _: Any = None) -> None:
        for name in ("targets", "gold"):
            self.controls[name].layout.display = None if self.among == _TYPED else "none"
        self.panel.html = or_problem(lambda: self._html(slope_svg))

    def static(self) -> str:
        return f"<p>Run the cell to ask something else.</p>{or_problem(lambda: self._html(slope_image))}"

    def _html(self, chart: Callable[[QueryView], str]) -> str:
        return view_html(self._view(), chart=chart, targets=_TARGETS if self.among != _TYPED else len(self.targets))

    def _view(self) -> QueryView:
        targets, gold = (self.targets, self.gold) if self.among == _TYPED else (self._corpus, None)
        if not self.query.strip() or not targets:
            raise DataError(f"no {'targets' if self.query.strip() else 'query'} yet; type one")
        scores = {label: vectors(targets) @ vectors([self.query])[0] for label, vectors in self._vectors.items()}
        return QueryView.from_scores(self.query, targets, gold, scores)


def _load_corpus(corpus: str | Path | Sequence[str], limit: int) -> tuple[str, list[str]]:
    """Return name and distinct sentences of a set, file or list."""
    if not isinstance(corpus, str | Path):
        name, sentences = "the corpus", list(corpus)
    elif "pairs" in kinds_of(str(corpus)):
        pairs = load_pairs(corpus, limit=limit)
        name, sentences = pairs.name, [*pairs.sentence1, *pairs.sentence2]
    else:
        loaded = load_sentences(corpus, limit=limit)
        name, sentences = loaded.name, loaded.sentences
    return name, list(dict.fromkeys(sentences))
