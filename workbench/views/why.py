"""Explain a cosine by the words and tokens that it depends on, under each encoder."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, EncoderError, WorkbenchError
from workbench.views._asked import ENCODER, Vectors, open_encoders
from workbench.views._html import framed, grid, paragraph, small_print, tag
from workbench.views._table import Panel, View, or_problem, text_area

_SIDES = {"query": "query", "target": "target", "other": "second target"}
_PIECES = 40  # of a longer sentence, runs of words are left out together, since each costs an encoding
_SPACELESS = "\u3040-\u30ff\u3400-\u9fff"  # Chinese and Japanese have no spaces between words
_PIECE = re.compile(rf"\s*(?:[{_SPACELESS}]|[^\s{_SPACELESS}]+)\s*")
_TOKENS = 12  # a side of a map
_BLOCK = "display:inline-block;vertical-align:top;margin-right:1em"
_WORDS_NOTE = "Next to a word: how much {what} falls when it is left out. {signs} Words work together: no sum."
_ONE = ("the cosine", "▲ it brings the two together, ▼ it keeps them apart.")
_TWO = ("the lead of the first target over the second", "▲ it speaks for the first, ▼ for the second.")
_MAP_NOTE = (
    "Rows: tokens of the query, columns: of the target. Each cell is what the two tokens bring to the cosine, x 100: "
    "they add up to it exactly, a row or column to what one token brings. All in fp32: scores of a run in bf16 may "
    "differ in the third digit."
)


class Why(View):
    """Show on which words the similarity of a query and a target depends, under each encoder, while they are typed.

    Each word is left out in turn. For an `Encoder` whose vector is the mean over tokens the cosine is also split into
    pairs of tokens, exactly. With a second target everything is about the difference of the two cosines.
    """

    def __init__(
        self, encoders: Mapping[str, Any] | None = None, query: str = "", target: str = "", other: str = ""
    ) -> None:
        """Show three sentences; `encoders` are by label, as of `Ask` or `encoders_of_runs`. `other` may be ""."""
        self._vectors = list(open_encoders({ENCODER: ENCODER} if encoders is None else encoders).values())
        names = {"query": "query", "target": "target", "other": "against (optional)"}
        texts = {"query": query, "target": target, "other": other}
        self.controls = {name: text_area(names[name], text) for name, text in texts.items()}
        self.panel = Panel()
        for control in self.controls.values():
            control.observe(self._draw, "value")
        self._draw()
        super().__init__([*self.controls.values(), self.panel])

    @property
    def selected(self) -> pd.DataFrame:
        """Return the table of words: side, word, and for each label the effect of leaving it out, in cosines.

        An encoder that cannot be asked, which the view names, has no column.
        """
        return word_table(self._vectors, self._sentences())[0]

    def _draw(self, _: Any = None) -> None:
        self.panel.html = or_problem(lambda: reasons_html(self._vectors, self._sentences()))

    def static(self) -> str:
        return f"<p>Run the cell to change the sentences.</p>{self.panel.html}"

    def _sentences(self) -> list[str]:
        query, target, other = (control.value for control in self.controls.values())
        return [query, target, *([other] if other.strip() else [])]


def word_table(asked: Sequence[Vectors], sentences: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return side ("query", "target", "other"), word, and for each label the loss of cosine without the word.

    The first row, of the side "all", has the cosine itself; with a second target its cosine is subtracted. The second
    result has the reason for each encoder that cannot be asked.
    """
    if not all(sentence.strip() for sentence in sentences):
        raise DataError("no query or no target yet; type one")
    sides = zip(_SIDES, sentences, strict=False)
    words = [(side, word.strip()) for side, sentence in sides for word in split_words(sentence)]
    table = pd.DataFrame([("all", ""), *words], columns=["side", "word"])
    problems = []
    for vectors in asked:
        try:
            table[vectors.label] = word_effects(vectors, sentences)
        except WorkbenchError as problem:
            problems.append(f"{vectors.label} cannot be asked: {problem}.")
    if len(problems) == len(asked):
        raise EncoderError(" ".join(problems))
    return table, problems


def split_words(sentence: str) -> list[str]:
    """Return the words of a sentence, or runs of words of a long one; joined they are the sentence."""
    words = _PIECE.findall(sentence)
    cuts = np.linspace(0, len(words), min(len(words), _PIECES) + 1).astype(int).tolist()
    return ["".join(words[start:end]) for start, end in pairwise(cuts)]


def word_effects(vectors: Callable[[Sequence[str]], np.ndarray], sentences: Sequence[str]) -> list[float]:
    """Return the cosine of a query and a target, and how much of it is lost without each word of all sentences.

    sentences: The query, the target, and perhaps a second target, whose cosine is then subtracted.
    """
    words = [split_words(sentence) for sentence in sentences]
    shorter = [["".join([*one[:place], *one[place + 1 :]]).strip() for place in range(len(one))] for one in words]
    rows = vectors([*sentences, *(text for one in shorter for text in one)])
    whole, rest = rows[: len(sentences)], iter(rows[len(sentences) :])

    def value(query: np.ndarray, target: np.ndarray, *other: np.ndarray) -> float:
        return float(query @ target - sum(query @ one for one in other))

    full = value(*whole)
    sides = [side for side, one in enumerate(words) for _ in one]
    return [full, *(full - value(*whole[:side], next(rest), *whole[side + 1 :]) for side in sides)]


def token_terms(vectors: Vectors, first: str, second: str) -> pd.DataFrame:
    """Split the cosine of an `Encoder` with mean pooling exactly into terms of token i and token j, [n, m].

    With u = (u_1 + ... + u_n) / n and v = (v_1 + ... + v_m) / m, cos(u, v) is the sum over all i and j of
    u_i . v_j / (n m |u| |v|). A token's vector also has what attention moved into it from others.

    Raises:
        EncoderError: Another pooling, or no `Encoder`.
    """
    from workbench.encoder import Encoder

    encoder = getattr(vectors.encode, "__self__", None)
    if not isinstance(encoder, Encoder):
        raise EncoderError("only an Encoder says what its tokens are")
    (names, u), (others, v) = (encoder.token_vectors(sentence) for sentence in (first, second))
    u, v = u.double().numpy(), v.double().numpy()
    lengths = np.linalg.norm(u.sum(axis=0)) * np.linalg.norm(v.sum(axis=0))
    return pd.DataFrame(u @ v.T / lengths, names, others)


def merge_tokens(terms: pd.DataFrame, most: int) -> pd.DataFrame:
    """Keep the `most` tokens of each side with the largest sums; merge the others into the last one."""
    for _ in range(2):
        if len(terms) > most:
            values = terms.to_numpy()
            kept = np.sort(np.argsort(-np.abs(values.sum(axis=1)), kind="stable")[: most - 1])
            rest = np.delete(values, kept, axis=0).sum(axis=0)
            names = [*terms.index[kept], f"{len(values) - len(kept)} others"]
            terms = pd.DataFrame(np.vstack([values[kept], rest]), names, terms.columns)
        terms = terms.T
    return terms


def reasons_html(asked: Sequence[Vectors], sentences: Sequence[str], *, name: str = "") -> str:
    """Return the words of query and targets with their effects, and a map of tokens for each encoder that has one."""
    table, problems = word_table(asked, sentences)
    asked = [vectors for vectors in asked if vectors.label in table]
    what, signs = _ONE if len(sentences) == 2 else _TWO
    full = ", ".join(f"{escape(vectors.label)} <b>{table[vectors.label].iloc[0]:.3f}</b>" for vectors in asked)
    largest = float(table.iloc[1:, 2:].abs().to_numpy().max(initial=0))
    words = ""
    for side, part in table.iloc[1:].groupby("side", sort=False):
        values = part.iloc[:, 2:]
        names = part["word"].tolist(), list(values)
        words += tag("div", grid(_SIDES[str(side)], values.to_numpy(), names, largest, _format_effect), style=_BLOCK)
    maps, mapless = "", {}
    for target in sentences[1:]:
        terms = {}
        for vectors in asked:
            try:
                terms[vectors.label] = merge_tokens(token_terms(vectors, sentences[0], target), _TOKENS)
            except EncoderError as problem:
                mapless[vectors.label] = f"{vectors.label} has no map: {problem}."
        maps += _maps_html(target, terms)
    notes = " ".join([*([_MAP_NOTE] if maps else []), *map(escape, [*mapless.values(), *problems])])
    title = paragraph(f"<b>Why {escape(name)}?</b> {escape(sentences[1])}", role="status") if name else ""
    explained = small_print(_WORDS_NOTE.format(what=what, signs=signs))
    return framed(title, paragraph(f"{what.capitalize()}: {full}"), words, explained, maps, small_print(notes))


def _maps_html(target: str, terms: Mapping[str, pd.DataFrame]) -> str:
    """Return the maps of one target, with sums, on one scale of colour."""
    largest = max((float(one.abs().to_numpy().max()) for one in terms.values()), default=0)
    maps = paragraph(f"Token by token: <b>{escape(target)}</b>") if terms else ""
    for label, one in terms.items():
        values = np.column_stack([one, one.sum(axis=1)])
        values = np.vstack([values, values.sum(axis=0)])
        names = [*one.index, "all"], [*one.columns, "all"]
        cells = grid(f"{label}: {values[-1, -1]:.3f}", values, names, largest, _format_hundredth)
        maps += tag("div", cells, style=_BLOCK)
    return maps


def _format_hundredth(value: float) -> str:
    return f"{round(100 * value, 1) + 0:.1f}"  # + 0: no -0.0


def _format_effect(value: float) -> str:
    return f"{'▼' if value < 0 else '▲'}{abs(value):.3f}" if abs(value) >= 0.0005 else "0"
