"""Live views of sentences that are typed: their ranking by several encoders, and the words that a
cosine depends on."""

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import chain, combinations, count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.config import BaselineConfig
from workbench.data import Pairs
from workbench.errors import DataError, RunError
from workbench.files import atomic_write, cache_folder, remove_path
from workbench.runs import Run, is_running, run_path
from workbench.views._style import framed, grid, inlined, paragraph, problem_html, tag
from workbench.views._table import TypedView, or_problem, text_area, value_of
from workbench.views.limits import MOST_CHANGED, MOST_WORDS, require_at_most
from workbench.views.offline import Precision, write_offline
from workbench.views.page import view_html
from workbench.views.queries import QueryView

Encoders = Mapping[str, Any] | Sequence[Any] | None  # as `Ask` takes them
WORDS = "word-overlap"  # the name of `WordOverlap`, where an encoder can be named
_BUNDLED = ["english-encoder"]  # the encoder if no other is given
# Parts of a path that do not tell encoders apart: common names of folders, and digests.
_DULL = re.compile(
    r"(encoder|model|checkpoint|best|final|last|output|snapshot)s?([-_]?\d+)?|[0-9a-f]{8,}(-s\d+)?"
)
_SHOWN = 50  # targets, those nearest under gold or an encoder
_SIDES = ("query", "target", "second target")
_SPACELESS = "\u3040-\u30ff\u3400-\u9fff"  # Chinese and Japanese have no spaces between words
_WORD = re.compile(rf"\s*(?:[{_SPACELESS}]|[^\s{_SPACELESS}]+)\s*")
_BLOCK = "display:inline-block;vertical-align:top;margin-right:1em"
_WORDS_NOTE = (
    "Each number is the fall of {what} without that word. {signs} The contributions do not add up."
)
_MOST_SETS = 5000  # of words that are left out together, of one size
_EQUAL = 1e-6  # cosines of float32 that are as near as this are equal
_SWAPS = ["encoder", "change", "words", "sides", "sentences", "before", "after"]
_ONE = ("the cosine", "▲: the word makes the two more similar, ▼: less similar.")
_TWO = ("the first cosine minus the second", "▲: the word favours the first target, ▼: the second.")


def named(encoders: Encoders) -> dict[str, Any]:
    """Return label -> encoder; those in a list are labelled by the last part of their path that
    tells them apart."""
    if isinstance(encoders, Mapping):
        return {str(label): source for label, source in encoders.items()}
    found = dict[str, Any]()
    sources = (
        [encoders]
        if isinstance(encoders, str | Path)
        else _BUNDLED
        if encoders is None
        else encoders
    )
    for source in sources:
        path = getattr(source, "path", source)
        if isinstance(path, str | Path):
            folder = Path(path)
            parts = (folder.resolve() if folder.is_dir() else folder).parts
            name = next(
                (part for part in reversed(parts) if not _DULL.fullmatch(part)), str(source)
            )
        else:
            name = getattr(source, "__name__", type(source).__name__)
        labels = chain([name], (f"{name} {number}" for number in count(2)))
        found[next(label for label in labels if label not in found)] = source
    return found


class WordOverlap:
    """A baseline without an encoder: the cosine of the sets of words of two sentences (hashed to
    8,192 numbers)."""

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer

        self._words: Any = HashingVectorizer(
            n_features=2**13,
            binary=True,
            alternate_sign=False,
            token_pattern=rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+",
        ).transform

    def encode(self, sentences: list[str]) -> np.ndarray:
        return self._words(sentences).toarray()

    def score(self, sentence1: list[str], sentence2: list[str]) -> np.ndarray:
        both = self._words(sentence1).multiply(self._words(sentence2))
        return np.asarray(both.sum(axis=1)).ravel()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Log errors only: a warning, such as of long sentences, would be a red line above a view."""
    log = logging.getLogger("workbench")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


class Vectors:
    """Unit vectors of sentences under one encoder, which is loaded on first use; each sentence is
    encoded once."""

    def __init__(self, label: str, source: Any) -> None:
        self.label = label
        self.source = source
        self._rows: dict[str, np.ndarray] = {}

    @cached_property
    def model(self) -> Any:
        """Load the encoder, in fp32: bf16 may not resolve the effect of a word. EncoderError if it
        cannot be read."""
        if isinstance(self.source, str) and self.source == WORDS:
            return WordOverlap()
        from workbench.checkpoints import find_checkpoint
        from workbench.encoder import load_encoder

        encoder = self.source.path / "encoder" if isinstance(self.source, Run) else self.source
        encoder = encoder.load() if isinstance(encoder, Untrained) else encoder
        if not isinstance(encoder, str | Path):
            return encoder
        checkpoint = find_checkpoint(str(encoder))
        return load_encoder(checkpoint, checkpoint.spec(), precision="fp32")

    @_without_warnings()
    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Return [n, d], float64."""
        from workbench.encoder import unit_rows

        if new := [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._rows]:
            encode = getattr(self.model, "encode", self.model)
            rows, _ = unit_rows(encode, new, [])
            self._rows.update(zip(new, rows, strict=True))
        return np.stack([self._rows[sentence] for sentence in sentences])

    def cosines(self, first: Sequence[str], second: Sequence[str]) -> np.ndarray:
        """Return the cosine of each pair of sentences, [n]."""
        # In sparse rows: 8,192 columns of 10,000 targets are 655 MB.
        if isinstance(self.model, WordOverlap):
            return self.model.score(list(first), list(second))
        return np.einsum("nd,nd->n", self(first), self(second))

    def leads(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """Return the cosine of each query and target, less that of its second target if there is
        one, [n]."""
        query, target, *other = zip(*texts, strict=True)
        return self.cosines(query, target) - sum(self.cosines(query, one) for one in other)


@dataclass(frozen=True)
class Untrained:
    """The encoder that the run in a folder began with, or was evaluated for."""

    path: Path

    def load(self) -> Any:
        """Return the `Encoder`, loaded as the run did."""
        from workbench.evaluation import load_baseline
        from workbench.methods import METHODS

        config: Any = Run(self.path).config.model_copy(
            update={"precision": "fp32", "device": "auto"}
        )
        return (
            METHODS[config.method](config).encoder
            if config.method in METHODS
            else load_baseline(config)
        )


@_without_warnings()
def scores_of(source: Any, pairs: Pairs, name: str | None = None) -> Any:
    """Return scores of the pairs under an encoder, cached if these have a `name`; return other
    sources as they are."""
    is_name = isinstance(source, str | Path)
    if not (is_name or callable(source) or hasattr(source, "encode")):
        return source
    from workbench.evaluation import evaluate, evaluate_model

    if is_name and name and source != WORDS:
        # "fp32" is named, because under "auto" the cache may contain scores of an earlier version
        # in bf16.
        config = BaselineConfig(encoder=str(source), suites=[name], precision="fp32")
        root = cache_folder() / "scores"
        path = run_path(config, root)
        for _ in range(2):
            with suppress(OSError, RunError):
                return evaluate_model(config, root).scores()
            with suppress(OSError):
                if not is_running(path):  # a damaged entry is computed again
                    remove_path(path)
        # The cache cannot be written, or another process is writing this entry.
    return evaluate(Vectors("", source).model, {pairs.name: pairs}).scores


def _require_text(sentences: list[str]) -> list[str]:
    if len(sentences) < 2 or not all(map(str.strip, sentences)):
        raise DataError("type a query and at least one target")
    return sentences


def _usable(encoders: Sequence[Vectors], sentences: Sequence[str]) -> tuple[list[Vectors], str]:
    """Return the encoders that can encode the sentences, and the problems of the others as HTML."""
    usable = []
    problems = ""
    for vectors in encoders:
        try:
            vectors.cosines(sentences, sentences)
            usable.append(vectors)
        except Exception as problem:  # a user's own encoder may raise anything
            problems += problem_html(problem, vectors.label)
    return usable, problems


class Ask(TypedView):
    """Rank targets for a query under each encoder, while they are typed: table and slope chart.

    Ranks are compared with those of the first encoder. Each sentence is encoded once, so an edit
    costs only what it changed. Of many targets the nearest are shown."""

    settable = ("query", "targets")
    query, targets = map(value_of, settable)

    def __init__(
        self, encoders: Encoders = None, query: str = "", targets: Sequence[str] = ()
    ) -> None:
        """Show a query; everything but the encoders can be edited in the view.

        Args:
            encoders: label -> a bundled name, a folder, a hub id, "word-overlap", a `Run`, an
                `Encoder`, a method, or a function from sentences to vectors; or a list of them;
                None: the bundled encoder.
            targets: Sentences, such as those of a whole set.
        """
        self._vectors = [Vectors(*one) for one in named(encoders).items()]
        lines = text_area("targets, one per line", "\n".join(targets), 8)
        super().__init__({"query": text_area("query", query), "targets": lines})

    @property
    def selected(self) -> pd.DataFrame:
        """Return each target with rank and score by label, the best first."""
        return self._view(self._vectors).table.reset_index(drop=True)

    def html(self, *, is_static: bool) -> str:
        encoders, problems = _usable(self._vectors, self._sentences())
        if not encoders:
            return problems
        return problems + view_html(self._view(encoders), is_live=not is_static, targets=_SHOWN)

    def to_html(
        self, path: str | Path, *, encoder: bool = False, precision: Precision = "int8"
    ) -> Path:
        """Write a page of the ranking, or with `encoder=True` one that ranks what is typed, in any
        browser, offline.

        precision: Of the weights in the page. Raises EncoderError for an encoder that a page cannot
            contain, see `workbench.views.offline.pack_encoder`, and ValueError for another
            precision."""
        target = Path(path).expanduser()
        if encoder:
            query, *lines = self._sentences()
            models = {
                one.label: None if one.source == WORDS else one.model for one in self._vectors
            }
            return write_offline(target, models, query, lines, precision)
        ranking = inlined(self.html(is_static=True))
        with atomic_write(target) as file:
            file.write(f'<!DOCTYPE html><meta charset="utf-8"><title>Ask</title>{ranking}')
        return target

    def _sentences(self) -> list[str]:
        return _require_text([self.query, *filter(str.strip, self.targets.splitlines())])

    def _view(self, encoders: Sequence[Vectors]) -> QueryView:
        query, *lines = self._sentences()
        scores = {
            vectors.label: vectors.cosines([query] * len(lines), lines) for vectors in encoders
        }
        return QueryView.from_scores(query, lines, None, scores)


class Why(TypedView):
    """Show on which words the similarity of a query and a target depends, under each encoder, while
    they are typed.

    Each word is left out in turn. With a second target everything is about the difference of the
    two cosines, and the smallest change after which the targets change places is shown:
    `smallest_swaps`."""

    settable = ("query", "target", "other")
    query, target, other = map(value_of, settable)

    def __init__(
        self,
        encoders: Encoders = None,
        query: str = "",
        target: str = "",
        other: str = "",
        *,
        vocabulary: Sequence[str] = (),
    ) -> None:
        """Show three sentences; `encoders` as of `Ask`, or of a `RunPicker`. `other` may be "".

        vocabulary: Words that are put in, one at a time, to see which of them makes the targets
            change places."""
        self._vectors = [Vectors(*one) for one in named(encoders).items()]
        self.vocabulary = list(vocabulary)
        fields = {
            "query": text_area("query", query),
            "target": text_area("target", target),
            "other": text_area("against (optional)", other),
        }
        super().__init__(fields)

    @property
    def selected(self) -> pd.DataFrame:
        """Return `word_effects` of the sentences."""
        return word_effects(self._vectors, self._sentences())

    @property
    def swaps(self) -> pd.DataFrame:
        """Return `smallest_swaps` of the sentences; it needs a second target."""
        return smallest_swaps(self._vectors, self._sentences(), self.vocabulary)

    def html(self, *, is_static: bool) -> str:
        sentences = self._sentences()
        html = reasons_html(self._vectors, sentences)
        encoders, _ = _usable(self._vectors, sentences)
        if not encoders or not sentences[2:]:
            return html
        return html + or_problem(lambda: _swaps_html(encoders, sentences, self.vocabulary))

    def _sentences(self) -> list[str]:
        sentences = [self.query, self.target]
        if self.other.strip():
            sentences.append(self.other)
        return _require_text(sentences)


def word_effects(encoders: Sequence[Vectors], sentences: Sequence[str]) -> pd.DataFrame:
    """Return the cosine of a query and a target, and how much of it is lost without each word of
    all sentences.

    The cosine of a second target is subtracted. Columns: labels of the encoders; rows: side
    ("query", "target", "second target") and word; the first, of the side "all", has the cosine."""
    names = [("all", "")]
    texts = [sentences]
    for side, sentence in enumerate(sentences):
        words = _WORD.findall(sentence)
        for place, word in enumerate(words):
            shorter = "".join(words[:place] + words[place + 1 :]).strip()
            names.append((_SIDES[side], word.strip()))
            texts.append([*sentences[:side], shorter, *sentences[side + 1 :]])
    require_at_most(len(names) - 1, MOST_WORDS, "words", "shorten the sentences")
    table = pd.DataFrame(index=pd.MultiIndex.from_tuples(names, names=["side", "word"]))
    for vectors in encoders:
        leads = vectors.leads(texts)
        table[vectors.label] = np.append(leads[0], leads[0] - leads[1:])
    return table


def reasons_html(encoders: Sequence[Vectors], sentences: Sequence[str], *, name: str = "") -> str:
    """Return the words of query and targets with their effects under each encoder that can be
    read."""
    encoders, problems = _usable(encoders, sentences)
    if not encoders:
        return problems
    effects = word_effects(encoders, sentences)
    what, signs = _ONE if len(sentences) == 2 else _TWO
    full = ", ".join(
        f"{escape(str(label))} <b>{value:.3f}</b>" for label, value in effects.iloc[0].items()
    )
    largest = float(effects.iloc[1:].abs().to_numpy().max(initial=0))
    words = [
        f'<div style="{_BLOCK}">'
        f"{grid(part.droplevel('side'), largest, _format_effect, str(side))}</div>"
        for side, part in effects.iloc[1:].groupby(level="side", sort=False)
    ]
    title = (
        paragraph(f"<b>Why {escape(name)}?</b> {escape(sentences[1])}", role="status")
        if name
        else ""
    )
    explained = paragraph(tag("small", _WORDS_NOTE.format(what=what, signs=signs)))
    return problems + framed(title, paragraph(f"{what.capitalize()}: {full}"), *words, explained)


def _format_effect(value: float) -> str:
    return f"{'▼' if value < 0 else '▲'}{abs(value):.3f}" if abs(value) >= 0.0005 else "0"


def smallest_swaps(
    encoders: Sequence[Vectors], sentences: Sequence[str], vocabulary: Sequence[str] = ()
) -> pd.DataFrame:
    """Return by encoder the smallest changes after which the two targets of a query change places.

    A row with change "without": the fewest words, at most three (fewer of more than 32 words), of
    any of the sentences, that are left out together; no sentence becomes empty. "with": the word of
    `vocabulary` that is put in, at any place of any sentence. Of several changes of one size the
    one with the clearest new order is returned. An encoder without a change has no row, nor has one
    whose cosines are equal. Columns: encoder, change, words, sides (of the words: "query", "target"
    or "second target"), sentences (the three, changed), before and after (the first cosine minus
    the second, in [-2, 2]). DataError unless there are three sentences."""
    if len(sentences) != 3:
        raise DataError("type a second target, to see what makes the two targets change places")
    words = [_WORD.findall(sentence) for sentence in sentences]
    places = [(side, place) for side, one in enumerate(words) for place in range(len(one))]
    gaps = len(places) + len(words)
    remedy = f"give at most {MOST_CHANGED // gaps:,} words, or shorter sentences"
    made = "sentences with a word of the vocabulary put in"
    require_at_most(gaps * len(vocabulary), MOST_CHANGED, made, remedy)
    longer = [
        (
            (word,),
            (_SIDES[side],),
            _replaced(sentences, side, [*one[:place], f" {word} ", *one[place:]]),
        )
        for side, one in enumerate(words)
        for place in range(len(one) + 1)
        for word in vocabulary
    ]
    found = []
    for vectors in encoders:
        for size in range(1, _most_left_out(len(places)) + 1):
            shorter = []
            for left in combinations(places, size):
                changed = sentences
                for side in {side for side, _ in left}:
                    kept = [
                        word for place, word in enumerate(words[side]) if (side, place) not in left
                    ]
                    changed = _replaced(changed, side, kept)
                if all(changed):
                    names = tuple(words[side][place].strip() for side, place in left)
                    shorter.append((names, tuple(_SIDES[side] for side, _ in left), changed))
            if best := _clearest_swap(vectors, sentences, shorter):
                found.append((vectors.label, "without", *best))
                break
        if best := _clearest_swap(vectors, sentences, longer):
            found.append((vectors.label, "with", *best))
    return pd.DataFrame(found, columns=_SWAPS)


def _most_left_out(words: int) -> int:
    """Return how many of so many words are left out together: three, or fewer if there would be too
    many sets."""
    return next((size for size in (3, 2) if math.comb(words, size) <= _MOST_SETS), 1)


def _replaced(sentences: Sequence[str], side: int, words: Sequence[str]) -> list[str]:
    text = " ".join("".join(words).split())
    return [text if place == side else sentence for place, sentence in enumerate(sentences)]


def _clearest_swap(
    vectors: Vectors, sentences: Sequence[str], changes: Sequence[Any]
) -> tuple[Any, ...] | None:
    """Return the change that turns the lead round furthest, if any: its words to its lead, as of
    `_SWAPS`."""
    before = float(vectors.leads([sentences])[0])
    if not changes or abs(before) < _EQUAL:
        return None
    after = vectors.leads([changed for *_, changed in changes])
    kept = np.sign(before) * after
    best = int(np.argmin(kept))
    if kept[best] > -_EQUAL:
        return None
    return *changes[best], before, float(after[best])


def _swaps_html(
    encoders: Sequence[Vectors], sentences: Sequence[str], vocabulary: Sequence[str]
) -> str:
    """Return a sentence for each encoder and kind of change."""
    table = smallest_swaps(encoders, sentences, vocabulary).set_index(["encoder", "change"])
    most = _most_left_out(sum(len(_WORD.findall(sentence)) for sentence in sentences))
    kinds = {"without": f"no set of up to {most} words"}
    if vocabulary:
        kinds["with"] = "no word of the vocabulary"
    lines = []
    for vectors in encoders:
        texts = []
        for change, nothing in kinds.items():
            key = vectors.label, change
            is_found = key in table.index
            none = f"{nothing} makes the targets change places"
            texts.append(_swap_text(change, table.loc[key]) if is_found else none)
        if abs(vectors.leads([sentences])[0]) < _EQUAL:
            texts = ["the two targets are equally near"]
        lines += [tag("li", f"{escape(vectors.label)}: {text}") for text in texts]
    title = paragraph("The smallest change after which the two targets change places:")
    return framed(title, tag("ul", *lines))


def _swap_text(change: str, row: Any) -> str:
    words = zip(row.words, row.sides, strict=True)
    which = " and ".join(f"<b>{escape(word)}</b> ({side})" for word, side in words)
    if change == "with":
        changed = row.sentences[_SIDES.index(row.sides[0])]
        which += f", “{escape(changed)}”,"
    first = "second" if row.before > 0 else "first"
    return f"{change} {which} the {first} target comes first ({row.before:+.3f} → {row.after:+.3f})"
