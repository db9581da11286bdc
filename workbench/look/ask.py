"""Asking: a query and targets of one's own, ranked at once by several encoders side by side."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import kind_of, load_pairs, load_sentences
from workbench.errors import DataError, EncoderError
from workbench.look._asked import Rows, encode_of
from workbench.look._live import Live, choice
from workbench.look._style import shortened
from workbench.look.page import slope_image, slope_svg, view_html
from workbench.look.queries import QueryView

ENCODER, CORPUS = "english-encoder", "ladders-all"  # what is asked, and among what, where nothing else is given
_LINES = "the lines below"


class Ask(Live):
    """Ranks targets, or a corpus, for a query that is typed, under each encoder: table, slope chart or neighbours.

    Nothing is trained and no gold is needed: without it ranks are held against those of the first encoder. Each
    sentence is encoded once, so that after an edit only what changed is.
    """

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
        """What stands there at first; all but the encoders and the corpus can be edited in the view.

        encoders: label -> a bundled name, a folder, a hub id, a `Run`, an `Encoder`, a method, or a function from
            sentences to vectors; None: the bundled encoder.
        gold: One number a target, at least 0, larger is closer.
        corpus: In which to look for the nearest, and by which rank vectors are made: a set's name, a file or sentences.
            limit: at most so many of them, drawn.

        Raises:
            EncoderError, DataError: An encoder or corpus cannot be read, or there is none.
        """
        given = {ENCODER: ENCODER} if encoders is None else encoders
        if not given:
            raise EncoderError("no encoder to ask; give at least one, as {label: name, folder, run or encoder}")
        self._rows = {str(label): Rows(str(label), encode_of(str(label), one)) for label, one in given.items()}
        self._corpus_name, self._corpus = _sentences(corpus, limit)
        self.query, self.targets, self.gold = query, list(targets), None if gold is None else list(gold)
        self.among, self.ranks, self.nearest = self._corpus_name if query and not self.targets else _LINES, False, 10
        super().__init__("ask")

    @property
    def selected(self) -> pd.DataFrame:
        """What is shown: a row a target with gold and, by label, rank and score; of a corpus, those that are near."""
        view = self._view()
        if self.among != _LINES:
            view = view.nearest(self.nearest)
        table = pd.DataFrame({"target": view.targets})
        if view.gold is not None:
            table["gold"] = view.gold
        ranks, scores = ({f"{name}: {label}": rows for label, rows in given.items()} for name, given in _named(view))
        return table.assign(**ranks, **scores)

    def select(self, **chosen: Any) -> None:
        """Sets what is asked from code: query, targets, gold, among, ranks, nearest."""
        unknown = chosen.keys() - {"query", "targets", "gold", "among", "ranks", "nearest"}
        if unknown:
            raise TypeError(f"select has no {', '.join(sorted(unknown))}; it takes query, targets, gold, among, ranks")
        for name, value in chosen.items():
            setattr(self, name, value)
        self.renew()
        self.redraw()

    def controls(self) -> str:
        lines = escape("\n".join(self.targets))
        gold = "" if self.gold is None else escape(" ".join(map(str, self.gold)))
        among = {_LINES: _LINES, self._corpus_name: f"{self._corpus_name}, {len(self._corpus):,} sentences"}
        return (
            f'<label class="wide">query <input name="query" value="{escape(self.query)}"></label>'
            f"{choice('among', among, self.among, title='rank')}"
            f'<label class="wide">targets, one a line <textarea name="targets" rows="8">\n{lines}</textarea></label>'
            f'<label class="wide">gold of each, in order (need not be) <input name="gold" value="{gold}"></label>'
            f'<label>nearest <input name="nearest" type="number" min="1" value="{self.nearest}"></label>'
            f'<label title="the correlation of how two sentences rank the corpus"><input name="ranks" type="checkbox"'
            f"{' checked' if self.ranks else ''}>rank vectors too</label>"
        )

    def told(self, name: str, value: Any) -> None:
        if name == "targets":
            self.targets = [line for line in value.splitlines() if line.strip()]
        elif name == "gold":
            self.gold = value.replace(",", " ").split() or None
        elif name == "nearest":
            self.nearest = max(int(value), 1) if value.isdigit() else self.nearest
        elif name in ("query", "among", "ranks"):
            setattr(self, name, value)

    def drawn(self) -> dict[str, str]:
        said = self._gold()[1] if self.among == _LINES else ""
        return {"answer": self._answer(slope_svg), "status": f'<span role="status">{escape(said)}</span>'}

    def static(self) -> str:
        try:
            return f"<p>Run the cell to ask something else.</p>{self._answer(slope_image)}"
        except DataError as problem:
            return f"<p>Run the cell to ask: {escape(str(problem))}</p>"

    def _gold(self) -> tuple[np.ndarray | None, str]:
        """Gold of each target, None where there is none, and what is wrong with what was typed."""
        if self.gold is None:
            return None, ""
        try:
            values = np.array([float(value) for value in self.gold])
        except ValueError:
            return None, f"gold is left out: {' '.join(map(str, self.gold))} are not all numbers"
        if len(values) != len(self.targets) or not np.isfinite(values).all() or (values < 0).any():
            count = f"{len(values)} for {len(self.targets)} targets"
            return None, f"gold is left out: it has {count}; give one number each, at least 0"
        return values, ""

    def _answer(self, chart: Callable[[QueryView], str]) -> str:
        view = self._view()
        return view_html(view, chart=chart) if self.among == _LINES else _neighbours(view, self.nearest)

    def _view(self) -> QueryView:
        targets = self.targets if self.among == _LINES else self._corpus
        if not self.query.strip() or not targets:
            raise DataError(f"no {'targets' if self.query.strip() else 'query'} yet; type one")
        gold = self._gold()[0] if self.among == _LINES else None
        return QueryView.made(self.query, targets, gold, self._scores(targets))

    def _scores(self, targets: list[str]) -> dict[str, np.ndarray]:
        """Label -> cosine of the query with each target, and with `ranks` their rank similarity."""
        found = {}
        for label, rows in self._rows.items():
            first, others = rows([self.query], self._say), rows(targets, self._say)
            found[label] = others @ first[0]
            if self.ranks:
                found[f"{label}, rank vectors"] = _by_ranks(first, others, rows(self._corpus, self._say))
        return found

    def _say(self, words: str) -> None:
        self.parts = self.parts | {"status": f'<span role="status">{escape(words)}</span>'}


def _sentences(corpus: str | Path | Sequence[str], limit: int) -> tuple[str, list[str]]:
    """Name and distinct sentences of a set, a file or a list."""
    if not isinstance(corpus, str | Path):
        name, found = "the corpus", list(corpus)[:limit]
    elif kind_of(str(corpus)) == "pairs":
        pairs = load_pairs(corpus, limit=limit)
        name, found = pairs.name, [*pairs.sentence1, *pairs.sentence2]
    else:
        loaded = load_sentences(corpus, limit=limit)
        name, found = loaded.name, loaded.sentences
    return name, list(dict.fromkeys(found))


def _by_ranks(query: np.ndarray, targets: np.ndarray, corpus: np.ndarray) -> np.ndarray:
    import torch

    from workbench.ranks import rank_similarity

    rows = (torch.from_numpy(rows).float() for rows in (query, targets, corpus))
    return rank_similarity(*rows)[0].numpy().astype(np.float64)


def _named(view: QueryView) -> tuple[tuple[str, dict[str, np.ndarray]], tuple[str, dict[str, np.ndarray]]]:
    return ("rank", view.ranks), ("score", view.scores)


def _neighbours(view: QueryView, count: int) -> str:
    """The nearest under each label beside each other; ● before those that all of them have (RankEncoder figure 1)."""
    nearest = {label: np.argsort(ranks, kind="stable")[:count] for label, ranks in view.ranks.items()}
    shared = set.intersection(*(set(places.tolist()) for places in nearest.values())) if len(nearest) > 1 else set()
    short = shortened(nearest, 48)
    names = "".join(f'<th class="name" title="{escape(label)}">{escape(short[label])}</th>' for label in nearest)
    rows = "".join(
        f'<tr><td class="number">{place + 1}</td>'
        + "".join(_neighbour(view, label, found[place], shared) for label, found in nearest.items())
        + "</tr>"
        for place in range(min(count, view.total))
    )
    said = f" ● {len(shared)} of {count} stand under every encoder." if len(nearest) > 1 else ""
    return (
        f'<div class="mathjax_ignore"><div class="view"><p class="head"><b>{escape(view.query)}</b> '
        f"<small>(the nearest of {view.total:,})</small></p>"
        f'<table class="ranks"><thead><tr><th class="number"></th>{names}</tr></thead><tbody>{rows}</tbody></table>'
        f'<p class="head"><small>Behind each sentence: its score.{said}</small></p></div></div>'
    )


def _neighbour(view: QueryView, label: str, place: int, shared: set[int]) -> str:
    mark, shade = ("● ", " shade0") if place in shared else ("", "")
    text = f"{mark}{escape(view.targets[place][:400])} <small>{view.scores[label][place]:.3f}</small>"
    return f'<td class="text{shade}" data-row="{view.letters[place]}">{text}</td>'
