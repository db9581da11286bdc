"""Sentences cut into parts that a positive is composed of (CompCSE sec. 3): halves, clauses, spans of clauses.

The paper finds clauses with a neural discourse parser whose code and checkpoint no longer run on current libraries.
`clauses` is a substitute of ours made of a few rules of English; spans from any other parser come in as a file.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from workbench.data import Table, read_table
from workbench.errors import DataError

_SUBORDINATORS = re.compile(
    "after|although|because|before|if|once|since|that|though|till|unless|until|when|whenever|where|whereas|wherever|"
    "whether|which|while|who|whom|whose"
)
_COORDINATORS = re.compile("and|but|or|nor|so|yet|as|than")
_CLOSING = re.compile(r"[,;:!?\u2013\u2014][\"'\u201d\u2019)\]]*$|^--?$|[)\]]$")
_OPENING = re.compile(r"^[(\[]")
_WORD = re.compile(r"\w")

# A cut leaves at least this many words on both sides: "the cat, a tabby," is cut, "cats and dogs" is not.
_WORDS_AROUND_CUT = 2
_WORDS_AROUND_COORDINATOR = 3


class Spans(NamedTuple):
    """A text and the parts whose vectors are composed to be its positive."""

    anchor: str
    parts: tuple[str, ...]


def split_words(sentence: str, parts: int = 2) -> tuple[str, ...]:
    """`sentence` in `parts` runs of whitespace words as equal as can be: of two halves the left has floor(n / 2) of n.

    A run that would be empty is the whole sentence, so that a single word is its own left and right half.
    """
    if parts < 2:
        raise ValueError(f"parts is {parts}; a positive is composed of at least 2")
    words = sentence.split()
    n = len(words)
    runs = [words[i * n // parts : (i + 1) * n // parts] for i in range(parts)]
    return tuple(" ".join(run or words) for run in runs)


def clauses(sentence: str) -> list[str]:
    """The clauses of an English sentence, left to right; joined by spaces they are the sentence's words again.

    A cut stands after a comma, semicolon, colon, dash, question or exclamation mark or closing bracket, and before an
    opening bracket, a subordinator (because, which, ...) or a coordinator (and, but, ...). A sentence without any such
    place is one clause; an empty one has none.
    """
    words = sentence.split()
    counted = [bool(_WORD.search(word)) for word in words]
    found: list[str] = []
    start = 0
    for place in range(1, len(words)):
        needed = _words_needed(words[place - 1], words[place])
        if needed and sum(counted[start:place]) >= needed and sum(counted[place:]) >= needed:
            found.append(" ".join(words[start:place]))
            start = place
    return [*found, " ".join(words[start:])] if words else []


def adjacent_spans(found: Sequence[str]) -> list[Spans]:
    """Neighbouring clauses in pairs that share none: (1, 2), (3, 4), ... An odd last clause is left out."""
    return [_joined(found[i : i + 1], found[i + 1 : i + 2]) for i in range(0, len(found) - 1, 2)]


def overlapping_spans(found: Sequence[str]) -> list[Spans]:
    """All pairs of neighbouring clauses, each clause in up to two: (1, 2), (2, 3), ..."""
    return [_joined(found[i : i + 1], found[i + 1 : i + 2]) for i in range(len(found) - 1)]


def subsuming_spans(found: Sequence[str], depth: int = 2) -> list[Spans]:
    """Spans within spans, by halving the clauses (the left half has floor(c / 2) of them) again and again.

    depth 2: the whole, its left and its right half; depth 3: those halves and the four quarters, without the whole, as
    the published code has it. A span of one clause has no halves and gives nothing. A sentence whose first two halves
    differ in length by 50 percent of the longer or more gives nothing at all.
    """
    if depth not in (2, 3):
        raise ValueError(f"depth is {depth}; it is 2 (whole and halves) or 3 (halves and quarters)")
    if len(found) < 2:
        return []
    lengths = [len(" ".join(half)) for half in _halves(found)]
    if abs(lengths[0] - lengths[1]) >= 0.5 * max(lengths):
        return []
    levels = [[found]]
    for _ in range(1, depth):
        levels.append([half for span in levels[-1] if len(span) > 1 for half in _halves(span)])
    kept = levels[:2] if depth == 2 else levels[1:]
    return [_joined(*_halves(span)) for level in kept for span in level if len(span) > 1]


def subsample(sentences: Iterable[str], how: str, depth: int = 2) -> list[Spans]:
    """The spans of every distinct sentence: how is "adjacent", "overlapping" or "subsuming" (with its depth)."""
    ways = {"adjacent": adjacent_spans, "overlapping": overlapping_spans}
    if how not in (*ways, "subsuming"):
        raise ValueError(f"how is {how!r}; it is one of {', '.join([*ways, 'subsuming'])}")
    spans: list[Spans] = []
    for sentence in dict.fromkeys(sentences):
        found = clauses(sentence)
        spans.extend(ways[how](found) if how in ways else subsuming_spans(found, depth))
    return spans


def read_spans(path: str | Path, sentences: Sequence[str]) -> list[Spans]:
    """Spans found elsewhere: a .tsv or .tsv.gz file in the format of the data folder, in one of two shapes.

    Columns anchor, left, right: the three texts. Columns row, left, right: `row` counts the training sentences as they
    were loaded, from 0, that sentence is the anchor, and left and right must occur in it.
    Raises DataError with the line when a column, a text or a row number is not as it must be.
    """
    where = str(path)
    table = read_table(Path(path).expanduser())
    if "anchor" not in table.columns and "row" not in table.columns:
        raise DataError(
            f"{where}: its columns are {', '.join(table.columns)}; give anchor, left, right (texts) or "
            "row, left, right (row: number of the training sentence, from 0)"
        )
    left, right = table.column("left"), table.column("right")
    numbered = "anchor" not in table.columns
    anchors = _numbered(table, sentences) if numbered else table.column("anchor")
    spans = []
    for number, (anchor, *parts) in enumerate(zip(anchors, left, right, strict=True)):
        for name, text in zip(("anchor", "left", "right"), (anchor, *parts), strict=True):
            if not text.strip():
                raise DataError(f"{table.at(number)}: {name} is empty; fill it in or drop the row")
            if numbered and " ".join(text.split()) not in " ".join(anchor.split()):
                raise DataError(
                    f"{table.at(number)}: {name} {text!r} does not occur in sentence {table.columns['row'][number]} "
                    f"{anchor!r}; are the rows counted from 0, in the training set as loaded?"
                )
        spans.append(Spans(anchor, tuple(parts)))
    return spans


def _numbered(table: Table, sentences: Sequence[str]) -> list[str]:
    anchors = []
    for number, text in enumerate(table.column("row")):
        if not text.isdecimal() or int(text) >= len(sentences):
            raise DataError(
                f"{table.at(number)}: row is {text!r}; the training set has the rows 0 to {len(sentences) - 1}"
            )
        anchors.append(sentences[int(text)])
    return anchors


def _words_needed(left: str, right: str) -> int:
    """How many words a cut between two words must leave on both sides; 0: no cut here."""
    word = right.lower().strip("\"'\u201c\u2018")
    if _CLOSING.search(right) and not _WORD.search(right):
        return 0  # a comma that stands alone belongs to the clause that it closes
    if _CLOSING.search(left) or _OPENING.search(right) or _SUBORDINATORS.fullmatch(word):
        return _WORDS_AROUND_CUT
    return _WORDS_AROUND_COORDINATOR if _COORDINATORS.fullmatch(word) else 0


def _halves(found: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    return found[: len(found) // 2], found[len(found) // 2 :]


def _joined(left: Sequence[str], right: Sequence[str]) -> Spans:
    return Spans(" ".join([*left, *right]), (" ".join(left), " ".join(right)))
