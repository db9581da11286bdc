"""Effects of words and tokens on a cosine: each word left out in turn, and mean vectors split over tokens."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.errors import EncoderError
from workbench.views._asked import Vectors

_PIECES = 40  # of a longer sentence, runs of words are left out together: each costs an encoding
_ALONE = "\u3040-\u30ff\u3400-\u9fff"  # characters of Chinese and Japanese, which have no spaces between words
_PIECE = re.compile(rf"\s*(?:[{_ALONE}]|[^\s{_ALONE}]+)\s*")


def pieces(sentence: str) -> list[str]:
    """Return the words of a sentence, or runs of words of a long one; joined they are the sentence."""
    found = _PIECE.findall(sentence)
    cuts = np.linspace(0, len(found), min(len(found), _PIECES) + 1).astype(int).tolist()
    return ["".join(found[start:end]) for start, end in pairwise(cuts)]


def left_out(rows: Callable[[Sequence[str]], np.ndarray], sentences: Sequence[str]) -> tuple[float, list[np.ndarray]]:
    """Return the cosine of a query and a target, and how much of it is lost without each piece of the two.

    rows: Maps sentences to unit rows. sentences: The query, the target, and perhaps a second target, whose cosine is
    then subtracted.
    """
    cut = [pieces(sentence) for sentence in sentences]
    variants = [["".join([*one[:place], *one[place + 1 :]]).strip() for place in range(len(one))] for one in cut]
    vectors = rows([*sentences, *(text for one in variants for text in one)])
    whole, shorter = vectors[: len(sentences)], iter(vectors[len(sentences) :])

    def value(query: np.ndarray, target: np.ndarray, *other: np.ndarray) -> float:
        return float(query @ target - sum(query @ one for one in other))

    full = value(*whole)
    effects = [
        np.array([full - value(*whole[:side], next(shorter), *whole[side + 1 :]) for _ in one])
        for side, one in enumerate(variants)
    ]
    return full, effects


@dataclass(frozen=True, eq=False)
class Split:
    """A cosine as the sum of terms[i, j] of token i of the first sentence and token j of the second."""

    first: list[str]
    second: list[str]
    terms: np.ndarray

    @property
    def cosine(self) -> float:
        return float(self.terms.sum())

    def folded(self, most: int) -> "Split":
        """Keep the `most` tokens of each side with the largest sums; merge the others into the last one."""
        (first, by_rows), (second, by_columns) = _fold(self.first, self.terms, most), (self.second, self.terms.T)
        second, by_columns = _fold(second, by_rows.T, most)
        return Split(first, second, by_columns.T)

    def with_sums(self) -> tuple[np.ndarray, tuple[list[str], list[str]]]:
        """Return the terms with their sums as last row and column, and the names of rows and columns."""
        rows = np.column_stack([self.terms, self.terms.sum(axis=1)])
        return np.vstack([rows, rows.sum(axis=0)]), ([*self.first, "all"], [*self.second, "all"])


def _fold(names: list[str], terms: np.ndarray, most: int) -> tuple[list[str], np.ndarray]:
    if len(names) <= most:
        return names, terms
    kept = np.sort(np.argsort(-np.abs(terms.sum(axis=1)), kind="stable")[: most - 1])
    rest = np.delete(terms, kept, axis=0).sum(axis=0, keepdims=True)
    return [*(names[place] for place in kept), f"{len(names) - len(kept)} others"], np.vstack([terms[kept], rest])


def token_split(encoder: Any, first: str, second: str) -> Split:
    """Split the cosine of an `Encoder` with mean pooling exactly; EncoderError for any other pooling.

    With u = (u_1 + ... + u_n) / n and v = (v_1 + ... + v_m) / m, cos(u, v) is the sum over all i and j of
    u_i . v_j / (n m |u| |v|). A token's vector also has what attention moved into it from others.
    """
    (names, u), (others, v) = (encoder.token_vectors(sentence) for sentence in (first, second))
    u, v = u.double().numpy(), v.double().numpy()
    lengths = np.linalg.norm(u.sum(axis=0)) * np.linalg.norm(v.sum(axis=0))
    return Split(names, others, u @ v.T / lengths)


def split_of(reader: Vectors, first: str, second: str) -> Split:
    """Return `token_split` of a reader's encoder; EncoderError if it has no such split."""
    from workbench.encoder import Encoder

    owner = getattr(reader.encode, "__self__", None)
    if not isinstance(owner, Encoder):
        raise EncoderError("only an Encoder says what its tokens are")
    return token_split(owner, first, second)


def readers(given: Mapping[str, Any], known: Mapping[str, Vectors] | None = None) -> dict[str, Vectors]:
    """Return a reader for each label; a reader of `known` with the same label and encoder is reused.

    Raises EncoderError if there is no encoder, or a label is a column of the table of words.
    """
    if not given:
        raise EncoderError("no encoder to ask; give at least one, as {label: name, folder, run or encoder}")
    if taken := {"side", "word"} & set(given):
        raise EncoderError(f"a label is {taken.pop()!r}, which is a column of the table of words; give it another")
    made = {str(label): Vectors(str(label), one) for label, one in given.items()}
    same = {label: old for label, old in (known or {}).items() if label in made and made[label].given == old.given}
    return made | same
