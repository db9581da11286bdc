"""Asking: a query and targets of one's own, ranked at once by several encoders side by side."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import kind_of, load_pairs, load_sentences
from workbench.errors import DataError, EncoderError, WorkbenchError
from workbench.look._asked import ENCODER, Vectors
from workbench.look._charts import CHARTS, MAP, RANKS, SIGNS, SIMILAR, centred, family_map, similarities
from workbench.look._html import choice, field, framed, head, lines, note, table, td, th, tr
from workbench.look._live import Live
from workbench.look.page import DRAWN, slope_image, slope_svg, view_html
from workbench.look.queries import QueryView

CORPUS = "ladders-all"  # among what is asked where nothing else is given
_LINES = "the lines below"
_LINES_SAID = "the targets below"
_CORPUS_SAID = "corpus of the nearest and of rank vectors: the name of a set, or a file; then Enter"
_NO_RANKS = "No chart of ranks: one encoder and no gold are nothing to compare. Type gold, or ask two encoders."
_CHARTS = (RANKS, MAP, SIMILAR)
# What `select` takes: name -> (in words, whether a value is such).
_TAKES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "query": ("a text", lambda value: isinstance(value, str)),
    "targets": ("a list of texts", lambda value: _is_list(value) and all(isinstance(one, str) for one in value)),
    "gold": ("a list of numbers, or None", lambda value: value is None or _is_list(value)),
    "ranks": ("True or False", lambda value: isinstance(value, bool)),
    "nearest": ("a whole number, 1 or more", lambda value: isinstance(value, Integral) and int(value) >= 1),
}


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
        self._rows = {str(label): Vectors(str(label), one) for label, one in given.items()}
        for vectors in self._rows.values():
            vectors.encode  # noqa: B018  # read now: what cannot be is refused at once
        self._limit, (self._corpus_name, self._corpus) = limit, _sentences(corpus, limit)
        self._task: asyncio.Task[None] | None = None
        self._unread, self.chart = "", RANKS
        self.query, self.targets, self.gold = query, list(targets), None if gold is None else list(gold)
        self.among, self.ranks, self.nearest = self._corpus_name if query and not self.targets else _LINES, False, 10
        super().__init__("ask")

    @property
    def selected(self) -> pd.DataFrame:
        """What is shown: a row a target with gold and, by label, rank and score; of a corpus, those that are near."""
        view = self._view()
        if self.among != _LINES:
            view = view.nearest(self.nearest)
        gold = {} if view.gold is None else {"gold": view.gold}
        ranks = {f"rank: {label}": values for label, values in view.ranks.items()}
        scores = {f"score: {label}": values for label, values in view.scores.items()}
        return pd.DataFrame({"target": view.targets, **gold, **ranks, **scores})

    def select(self, **chosen: Any) -> None:
        """Sets what is asked from code: query, targets, gold, among, ranks, nearest, corpus, chart.

        corpus: as at first; it is then what is asked among. chart: "ranks", "map" or "similarities".

        Raises:
            TypeError, ValueError: No such thing to set, or not to this; all stays as it was.
            DataError: A corpus that cannot be read.
        """
        self.put(("corpus", "among", *_TAKES, "chart"), chosen)

    def known(self) -> dict[str, Sequence[str]]:
        return {"among": (_LINES, self._corpus_name), "chart": _CHARTS}

    def given(self, name: str, value: Any) -> None:
        if name == "corpus":
            self._take(*_sentences(value, self._limit))
            return
        words, right = _TAKES.get(name, ("", lambda _: True))
        if not right(value):
            raise ValueError(f"{name} is {value!r}; give {words}")
        setattr(self, name, list(value) if _is_list(value) else value)

    def _take(self, name: str, sentences: list[str]) -> None:
        self._corpus_name, self._corpus = name, sentences
        self.among = name

    def controls(self) -> str:
        among = {_LINES: _LINES_SAID, self._corpus_name: f"{self._corpus_name}, {len(self._corpus):,} sentences"}
        return (
            f"{lines('query', self.query, 'query')}"
            f"{choice('among', among, self.among, title='rank')}"
            f"{self._of_lines() if self.among == _LINES else self._of_corpus()}"
            f'<label title="the correlation of how two sentences rank the corpus">'
            f"{field('ranks', None, type='checkbox', checked=self.ranks)}also by rank vectors: how each ranks "
            f"the corpus</label>{field('corpus', self._corpus_name, _CORPUS_SAID, wide=True, data_late=True)}"
        )

    def _of_lines(self) -> str:
        gold = " ".join(map(str, self.gold or ()))
        return (
            f"{lines('targets', chr(10).join(self.targets), 'targets, one a line', 8)}"
            f"{field('gold', gold, 'gold of each, in order (need not be)', wide=True)}"
            f"{choice('chart', {name: CHARTS[name] for name in _CHARTS}, self.chart)}"
        )

    def _of_corpus(self) -> str:
        return field("nearest", self.nearest, "how many of the nearest", type="number", min=1)

    def told(self, name: str, value: Any) -> None:
        self._unread = ""
        if name == "targets":
            self.targets = [line for line in value.splitlines() if line.strip()]
        elif name == "gold":
            self.gold = value.replace(",", " ").split() or None
        elif name == "nearest":
            self.nearest = max(int(value), 1) if value.isdecimal() else self.nearest
        elif name == "corpus":
            self._look_for(value)
        elif name in ("query", "among", "ranks", "chart"):
            setattr(self, name, value)
            if name == "among":  # a corpus has other controls than lines
                self.renew()

    def _look_for(self, corpus: str) -> None:
        try:
            self._take(*_sentences(corpus, self._limit))
            self.renew()
        except WorkbenchError as problem:
            self._unread = str(problem)

    def answer(self) -> None:
        """Draws, after reading what is new a few sentences at a time; what is typed meanwhile begins it anew."""
        if self._task is not None:
            self._task.cancel()
        try:
            self._task = asyncio.get_running_loop().create_task(self._read_on())
        except RuntimeError:  # no loop, as in a script: nobody types meanwhile
            self.redraw()

    async def _read_on(self) -> None:
        try:
            for words in self._reading():
                self.say(words)
                await asyncio.sleep(0.01)  # what was typed comes in here, and ends this task
            self.redraw()
        except WorkbenchError as problem:
            self.refuse(str(problem))
        except Exception as problem:  # a function of the reader's can raise any, and nobody else would hear of it here
            self.refuse(f"{type(problem).__name__}: {problem}")

    def _reading(self) -> Iterator[str]:
        """Encodes what has not been, a batch at each step."""
        targets = self.targets if self.among == _LINES else self._corpus
        corpus = self._corpus if self.ranks else []
        if self.query.strip():
            for vectors in self._rows.values():
                yield from vectors.reading([self.query, *targets, *corpus])

    def drawn(self) -> dict[str, str]:
        said = self._unread or (self._gold()[1] if self.among == _LINES else "")
        return {"answer": self._answer(self._drawing), "status": f'<span role="status">{escape(said)}</span>'}

    def _drawing(self, view: QueryView) -> str:
        shown = view.nearest(DRAWN)
        if self.chart == RANKS:
            return slope_svg(shown)
        if self.chart == SIMILAR:
            return similarities(shown, self._rows)
        return family_map(shown, self._rows, "PCA", centred(shown.gold), SIGNS["gold"] if view.gold is not None else ())

    def static(self) -> str:
        return f"<p>Run the cell to ask something else.</p>{self.explained(lambda: self._answer(slope_image))}"

    def _gold(self) -> tuple[np.ndarray | None, str]:
        """Gold of each target, None where there is none, and what is wrong with what was typed."""
        if self.gold is None:
            return None, ""
        try:
            values = np.array([float(value) for value in self.gold])
        except (TypeError, ValueError):
            return None, f"gold is left out: {' '.join(map(str, self.gold))} are not all numbers"
        if len(values) != len(self.targets) or not np.isfinite(values).all() or (values < 0).any():
            count = f"{len(values)} for {len(self.targets)} targets"
            return None, f"gold is left out: it has {count}; give one number each, at least 0"
        return values, ""

    def _answer(self, chart: Callable[[QueryView], str]) -> str:
        view = self._view()
        if self.among != _LINES:
            return _neighbours(view, self.nearest)
        return view_html(view, chart=chart) + note(_NO_RANKS if len(view.columns) < 2 and self.chart == RANKS else "")

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
            first, others = rows([self.query]), rows(targets)
            found[label] = others @ first[0]
            if self.ranks:
                found[f"{label}, rank vectors"] = _by_ranks(first, others, rows(self._corpus))
        return found


def _sentences(corpus: str | Path | Sequence[str], limit: int) -> tuple[str, list[str]]:
    """Name and distinct sentences of a set, file or list; of more than `limit` so many, drawn the same each time."""
    if not isinstance(corpus, str | Path):
        name, found = "the corpus", list(corpus)
    elif kind_of(str(corpus)) == "pairs":
        pairs = load_pairs(corpus, limit=limit)
        name, found = pairs.name, [*pairs.sentence1, *pairs.sentence2]
    else:
        loaded = load_sentences(corpus, limit=limit)
        name, found = loaded.name, loaded.sentences
    distinct = list(dict.fromkeys(found))
    if len(distinct) <= limit:
        return name, distinct
    drawn = np.random.default_rng(0).choice(len(distinct), limit, replace=False)
    return name, [distinct[place] for place in np.sort(drawn)]


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def _by_ranks(query: np.ndarray, targets: np.ndarray, corpus: np.ndarray) -> np.ndarray:
    import torch

    from workbench.ranks import rank_similarity

    rows = (torch.from_numpy(rows).float() for rows in (query, targets, corpus))
    return rank_similarity(*rows)[0].numpy().astype(np.float64)


def _neighbours(view: QueryView, count: int) -> str:
    """The nearest under each label beside each other; ● before those that all of them have (RankEncoder figure 1)."""
    nearest = {label: np.argsort(ranks, kind="stable")[:count] for label, ranks in view.ranks.items()}
    shared = set.intersection(*(set(places.tolist()) for places in nearest.values())) if len(nearest) > 1 else set()
    said = f" ● {len(shared)} of {count} stand under every encoder." if len(nearest) > 1 else ""
    rows = [
        tr([td(place + 1), *(_neighbour(view, label, found[place], shared) for label, found in nearest.items())])
        for place in range(min(count, view.total))
    ]
    title = head(f"<b>{escape(view.query)}</b> <small>(the nearest of {view.total:,})</small>")
    heads = th("") + "".join(th(label, "text") for label in nearest)
    return framed(title, table(heads, rows), note(f"Behind each sentence: its score.{said}"))


def _neighbour(view: QueryView, label: str, place: int, shared: set[int]) -> str:
    mark, shade = ("● ", " shade0") if place in shared else ("", "")
    text = f"{mark}{escape(view.targets[place][:400])} <small>{view.scores[label][place]:.3f}</small>"
    return td(text, f"text{shade}", f' data-row="{view.letters[place]}"')
