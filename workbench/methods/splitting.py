"""Sentences cut into parts that a positive is composed of (CompCSE sec. 3), or into random runs.

Parts are halves, clauses, or spans of clauses; a random run is a positive itself.

The paper finds clauses with a neural discourse parser whose code and checkpoint no longer run on
current libraries. `clauses` replaces it by a few rules of English; spans of any other parser can be
read from a file.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch

from workbench.data import read_table
from workbench.errors import DataError
from workbench.words import words_with_space

_SUBORDINATORS = re.compile(
    "after|although|because|before|if|once|since|that|though|till|unless|until|when|whenever|"
    "where|whereas|wherever|"
    "whether|which|while|who|whom|whose"
)
_COORDINATORS = re.compile("and|but|or|nor|so|yet|as|than")
_CLOSING = re.compile(r"[,;:!?\u2013\u2014][\"'\u201d\u2019)\]]*$|^--?$|[)\]]$")
_LETTER = re.compile(r"\w")

# A cut leaves at least this many words on both sides: "the cat, a tabby," is cut, "cats and dogs"
# is not.
_WORDS_AROUND_CUT = 2
_WORDS_AROUND_COORDINATOR = 3


class Spans(NamedTuple):
    """A text and the parts whose vectors are composed to be its positive."""

    anchor: str
    parts: tuple[str, ...]


def split_words(sentence: str, parts: int = 2) -> tuple[str, ...]:
    """Split `sentence` into `parts` runs of words as equal as possible.

    The left of two halves has floor(n / 2) of n words.

    A run that would be empty is the whole sentence, so that a single word is its own left and right
    half.
    """
    runs = split_evenly(words_with_space(sentence), parts)
    return tuple("".join(run).strip() for run in runs)


def split_evenly(items: list[Any], parts: int) -> list[list[Any]]:
    """Return runs of items as equal as possible; one that would be empty is all of them."""
    n = len(items)
    return [items[i * n // parts : (i + 1) * n // parts] or items for i in range(parts)]


def crop_words(sentence: str, share: float, place: float) -> str:
    """Return a run of `share` of the words of `sentence`, at least one of them.

    place in [0, 1) chooses where the run starts: 0 at the first word, just below 1 as late as its
    length allows.
    """
    words = words_with_space(sentence)
    length = max(1, round(share * len(words)))
    places = len(words) - length + 1
    start = int(place * places)
    return "".join(words[start : start + length]).strip()


def random_crops(sentences: Sequence[str], least_share: float) -> list[str]:
    """Return a random run of words of each sentence, drawn from torch's generator.

    Its share of the words is uniform between `least_share` and 1, and so is its place.
    """
    drawn, places = torch.rand(len(sentences), 2, dtype=torch.float64).T
    shares = least_share + (1 - least_share) * drawn
    return list(map(crop_words, sentences, shares.tolist(), places.tolist()))


def clauses(sentence: str) -> list[str]:
    """Return the clauses of an English sentence, left to right.

    Joined by spaces they are its words again.

    A cut is made after a comma, semicolon, colon, dash, question or exclamation mark or closing
    bracket, and before an opening bracket, a subordinator (because, which, ...) or a coordinator
    (and, but, ...). A sentence without any such place is one clause; an empty one has none.
    """
    words = sentence.split()
    has_letter = [bool(_LETTER.search(word)) for word in words]
    bounds = [0]
    for index in range(1, len(words)):
        needed = _words_around_cut(words[index - 1], words[index])
        # Punctuation that stands alone is no word.
        words_before = sum(has_letter[bounds[-1] : index])
        words_after = sum(has_letter[index:])
        if needed and min(words_before, words_after) >= needed:
            bounds.append(index)
    bounds.append(len(words))
    return [" ".join(words[start:end]) for start, end in pairwise(bounds) if end > start]


def adjacent_spans(of: Sequence[str]) -> list[Spans]:
    """Return neighbouring clauses in pairs that share none: (1, 2), (3, 4), ...

    An odd last clause is left out.
    """
    return overlapping_spans(of)[::2]


def overlapping_spans(of: Sequence[str]) -> list[Spans]:
    """Return all pairs of neighbouring clauses, each clause in up to two: (1, 2), (2, 3), ..."""
    return [_join_halves([left], [right]) for left, right in pairwise(of)]


def subsuming_spans(of: list[str], depth: int = 2) -> list[Spans]:
    """Return spans within spans, by halving the clauses repeatedly.

    The left half has floor(c / 2) of c clauses.

    depth 2: the whole, its left and its right half; depth 3: those halves and the four quarters,
    without the whole, as in the published code. A span of one clause has no halves and is left out.
    A sentence whose first two halves differ in length by 50 percent of the longer or more has no
    spans at all.
    """
    if len(of) < 2:
        return []
    shorter, longer = sorted(len(" ".join(half)) for half in split_evenly(of, 2))
    # As in the published code: very unequal halves give no spans.
    if shorter <= 0.5 * longer:
        return []
    levels = [[of]]
    for _ in range(1, depth):
        halved = [split_evenly(span, 2) for span in levels[-1] if len(span) > 1]
        levels.append([*chain.from_iterable(halved)])
    # With depth 3 the published code leaves out the whole sentence.
    kept = chain.from_iterable(levels if depth == 2 else levels[1:])
    return [_join_halves(*split_evenly(span, 2)) for span in kept if len(span) > 1]


def subsample(sentences: Iterable[str], how: str, depth: int = 2) -> list[Spans]:
    """Return the spans of every distinct sentence.

    how: "adjacent", "overlapping" or "subsuming" (with its depth).
    """
    spans_of = {
        "adjacent": adjacent_spans,
        "overlapping": overlapping_spans,
        "subsuming": partial(subsuming_spans, depth=depth),
    }[how]
    return [span for sentence in dict.fromkeys(sentences) for span in spans_of(clauses(sentence))]


def read_spans(path: str | Path, sentences: Sequence[str]) -> list[Spans]:
    """Read spans of another parser from a .tsv file in the format of data/README.md.

    Columns anchor, left, right: the three texts. Columns row, left, right: `row` is the number of
    the training sentence from 0, which is the anchor, and left and right must occur in it. Raises
    DataError with the line."""
    table = read_table(Path(path))
    is_numbered = "anchor" not in table.columns
    names = ("row" if is_numbered else "anchor", "left", "right")
    table.require({name: name for name in names})
    texts = [table.columns[name] for name in names]
    spans = []
    for number, (first, left, right) in enumerate(zip(*texts, strict=True)):
        at = table.at(number)
        anchor = first
        # `row` counts from 0, as the published files of spans do.
        if is_numbered:
            if not (first.isdecimal() and int(first) < len(sentences)):
                raise DataError(
                    f"{at}: row is {first!r}; the training set has the rows 0 to "
                    f"{len(sentences) - 1}"
                )
            anchor = sentences[int(first)]
        for name, text in (("anchor", anchor), ("left", left), ("right", right)):
            if not text.strip():
                raise DataError(f"{at}: {name} is empty")
            if is_numbered and " ".join(text.split()) not in " ".join(anchor.split()):
                raise DataError(
                    f"{at}: {name} {text!r} does not occur in sentence {first} {anchor!r}; "
                    "rows are counted from 0, in the training set as loaded"
                )
        spans.append(Spans(anchor, (left, right)))
    return spans


def _words_around_cut(left: str, right: str) -> int:
    """Return how many words a cut between two words must leave on both sides; 0: no cut here."""
    word = right.lower().strip("\"'\u201c\u2018")
    if _CLOSING.search(right) and not _LETTER.search(right):
        return 0  # a separate comma belongs to the clause that it closes
    if _CLOSING.search(left) or right[:1] in ("(", "[") or _SUBORDINATORS.fullmatch(word):
        return _WORDS_AROUND_CUT
    return _WORDS_AROUND_COORDINATOR if _COORDINATORS.fullmatch(word) else 0


def _join_halves(left: Sequence[str], right: Sequence[str]) -> Spans:
    return Spans(" ".join([*left, *right]), (" ".join(left), " ".join(right)))
