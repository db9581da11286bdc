"""Explain a cosine by the words and tokens that it depends on, under each encoder."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, EncoderError
from workbench.views._asked import ENCODER, Vectors, open_encoders
from workbench.views._html import framed, grid, paragraph, small_print, tag
from workbench.views._table import TypedView, text_area, value_of

_SIDES = ("query", "target", "second target")
_SPACELESS = "\u3040-\u30ff\u3400-\u9fff"  # Chinese and Japanese have no spaces between words
_WORD = re.compile(rf"\s*(?:[{_SPACELESS}]|[^\s{_SPACELESS}]+)\s*")
_TOKENS = 60  # of a sentence in a map
_BLOCK = "display:inline-block;vertical-align:top;margin-right:1em"
_WORDS_NOTE = "Next to a word: how much {what} falls when it is left out. {signs} Words work together: no sum."
_ONE = ("the cosine", "▲ it brings the two together, ▼ it keeps them apart.")
_TWO = ("the lead of the first target over the second", "▲ it speaks for the first, ▼ for the second.")
_MAP_NOTE = (
    "Rows: tokens of the query, columns: of the target. Each cell is what the two tokens bring to the cosine, x 100: "
    "they add up to it exactly, a row or column to what one token brings. All in fp32: scores of a run in bf16 may "
    "differ in the third digit."
)


class Why(TypedView):
    """Show on which words the similarity of a query and a target depends, under each encoder, while they are typed.

    Each word is left out in turn. For an `Encoder` whose vector is the mean over tokens the cosine is also split into
    pairs of tokens, exactly. With a second target everything is about the difference of the two cosines.
    """

    settable = ("query", "target", "other")
    query, target, other = map(value_of, settable)

    def __init__(
        self, encoders: Mapping[str, Any] | None = None, query: str = "", target: str = "", other: str = ""
    ) -> None:
        """Show three sentences; `encoders` are by label, as of `Ask` or `encoders_of_runs`. `other` may be ""."""
        self._vectors = list(open_encoders(encoders or {ENCODER: ENCODER}).values())
        texts = {"query": ("query", query), "target": ("target", target), "other": ("against (optional)", other)}
        super().__init__({name: text_area(*text) for name, text in texts.items()})

    @property
    def selected(self) -> pd.DataFrame:
        """Return `word_effects` of the sentences."""
        return word_effects(self._vectors, self._sentences())

    def html(self, *, is_static: bool) -> str:
        return reasons_html(self._vectors, self._sentences())

    def _sentences(self) -> list[str]:
        return [self.query, self.target, *([self.other] if self.other.strip() else [])]


def word_effects(encoders: Sequence[Vectors], sentences: Sequence[str]) -> pd.DataFrame:
    """Return the cosine of a query and a target, and how much of it is lost without each word of all sentences.

    Args:
        encoders: Their labels name the columns.
        sentences: The query, the target, and perhaps a second target, whose cosine is then subtracted.

    Returns:
        Rows by side ("query", "target", "second target") and word; the first, of the side "all", has the cosine.
    """
    if not all(sentence.strip() for sentence in sentences):
        raise DataError("no query or no target yet; type one")
    words = [_WORD.findall(sentence) for sentence in sentences]
    sides = [side for side, one in enumerate(words) for _ in one]
    shorter = ["".join([*one[:place], *one[place + 1 :]]).strip() for one in words for place in range(len(one))]
    names = [("all", ""), *((_SIDES[side], word.strip()) for side, one in enumerate(words) for word in one)]
    table = pd.DataFrame(index=pd.MultiIndex.from_tuples(names, names=["side", "word"]))
    for vectors in encoders:
        whole, rest = np.split(vectors([*sentences, *shorter]), [len(sentences)])
        full = _lead(whole)
        without = [_lead([*whole[:side], row, *whole[side + 1 :]]) for side, row in zip(sides, rest, strict=True)]
        table[vectors.label] = [full, *(full - value for value in without)]
    return table


def _lead(rows: Sequence[np.ndarray] | np.ndarray) -> float:
    """Return the cosine of a query and a target, less that of a second target if there is one."""
    query, target, *other = rows
    return float(query @ target - sum(query @ one for one in other))


def token_terms(vectors: Vectors, first: str, second: str) -> pd.DataFrame:
    """Split the cosine of an `Encoder` with mean pooling exactly into terms of token i and token j, [n, m].

    With u = (u_1 + ... + u_n) / n and v = (v_1 + ... + v_m) / m, cos(u, v) is the sum over all i and j of
    u_i . v_j / (n m |u| |v|). A token's vector also has what attention moved into it from others.

    Raises:
        EncoderError: Another pooling, no `Encoder`, or a long sentence.
    """
    from workbench.encoder import Encoder

    encoder = getattr(vectors.encode, "__self__", None)
    if not isinstance(encoder, Encoder):
        raise EncoderError("only an Encoder has vectors of tokens")
    (names, u), (others, v) = (encoder.token_vectors(sentence) for sentence in (first, second))
    if max(len(names), len(others)) > _TOKENS:
        raise EncoderError(f"a sentence has more than {_TOKENS} tokens")
    u, v = u.double().numpy(), v.double().numpy()
    lengths = np.linalg.norm(u.sum(axis=0)) * np.linalg.norm(v.sum(axis=0))
    return pd.DataFrame(u @ v.T / lengths, names, others)


def reasons_html(encoders: Sequence[Vectors], sentences: Sequence[str], *, name: str = "") -> str:
    """Return the words of query and targets with their effects, and a map of tokens for each encoder that has one."""
    effects = word_effects(encoders, sentences)
    what, signs = _ONE if len(sentences) == 2 else _TWO
    full = ", ".join(f"{escape(str(label))} <b>{value:.3f}</b>" for label, value in effects.iloc[0].items())
    largest = float(effects.iloc[1:].abs().to_numpy().max(initial=0))
    words = [
        grid(part.droplevel("side"), largest, _format_effect, str(side))
        for side, part in effects.iloc[1:].groupby(level="side", sort=False)
    ]
    maps, notes = [], {}
    for target in sentences[1:]:
        for vectors in encoders:
            try:
                terms = token_terms(vectors, sentences[0], target)
            except EncoderError as problem:
                notes[vectors.label] = escape(f"{vectors.label} has no map: {problem}.")
                continue
            terms = pd.concat([terms, terms.sum().to_frame("all").T])  # sums of columns, then of rows
            terms = pd.concat([terms, terms.sum(axis=1).rename("all")], axis=1)
            caption = f"{vectors.label}: {target}: {terms.iloc[-1, -1]:.3f}"
            maps.append(grid(terms, float(terms.iloc[:-1, :-1].abs().to_numpy().max()), _format_hundredth, caption))
    blocks = ["".join(tag("div", table, style=_BLOCK) for table in tables) for tables in (words, maps)]
    title = paragraph(f"<b>Why {escape(name)}?</b> {escape(sentences[1])}", role="status") if name else ""
    explained = small_print(_WORDS_NOTE.format(what=what, signs=signs))
    note = small_print(" ".join([*([_MAP_NOTE] if maps else []), *notes.values()]))
    return framed(title, paragraph(f"{what.capitalize()}: {full}"), blocks[0], explained, blocks[1], note)


def _format_hundredth(value: float) -> str:
    return f"{round(100 * value, 1) + 0:.1f}"  # + 0: no -0.0


def _format_effect(value: float) -> str:
    return f"{'▼' if value < 0 else '▲'}{abs(value):.3f}" if abs(value) >= 0.0005 else "0"
