"""The live view `Why`: the words on which a cosine depends, and the changes that swap targets."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError
from workbench.views._style import render
from workbench.views._table import TypedView, or_problem, text_area, value_of
from workbench.views.ask import require_text
from workbench.views.encoders import (
    SPACELESS,
    CachedEncoder,
    Encoders,
    Strings,
    usable_encoders,
    wrap_encoders,
)
from workbench.views.limits import MOST_WORDS, require_at_most

_SIDES = ("query", "target", "second target")
_WORD = re.compile(rf"\s*(?:[{SPACELESS}]|[^\s{SPACELESS}]+)\s*")
_MOST_SETS = 5000  # of words that are left out together, of one size
_EQUAL = 1e-6  # cosines of float32 that are as near as this are equal
_SWAPS = ["encoder", "words", "sides", "sentences", "before", "after"]
# Words that are left out, the side of each, and the sentences without them.
_Change = tuple[tuple[str, ...], tuple[str, ...], list[str]]


class Why(TypedView):
    """Show on which words a similarity depends under each encoder, while sentences are typed.

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
    ) -> None:
        """Show three sentences; `encoders` as of `Ask`, or of a `RunPicker`. `other` may be "".

        Example:
            Why("english-encoder", "a cat sleeps", "the cat naps", "a dog sleeps")
        """
        self._encoders = wrap_encoders(encoders)
        fields = {
            "query": text_area("query", query),
            "target": text_area("target", target),
            "other": text_area("against (optional)", other),
        }
        super().__init__(fields)

    @property
    def selected(self) -> pd.DataFrame:
        """Return `word_effects` of the sentences."""
        return word_effects(self._encoders, self._sentences())

    @property
    def swaps(self) -> pd.DataFrame:
        """Return `smallest_swaps` of the sentences; it needs a second target."""
        return smallest_swaps(self._encoders, self._sentences())

    def html(self, *, is_static: bool) -> str:
        return reasons_html(self._encoders, self._sentences())

    def _sentences(self) -> list[str]:
        others = filter(str.strip, [self.other])
        return require_text([self.query, self.target, *others])


def word_effects(encoders: Sequence[CachedEncoder], sentences: Strings) -> pd.DataFrame:
    """Return the cosine of a query and a target, and its loss without each word of all sentences.

    The cosine of a second target is subtracted. Columns: labels of the encoders; rows: side
    ("query", "target", "second target") and word; the first, of the side "all", has the cosine."""
    require_at_most(_count_words(sentences), MOST_WORDS, "words", "shorten the sentences")
    # The first text is whole; each later one lacks one word of one sentence.
    names = [("all", "")]
    texts = [sentences]
    for [word], [side], changed in _leave_out(sentences, 1):
        names.append((side, word))
        texts.append(changed)
    # All texts in one call, so that an encoder sees them as one batch.
    leads = {encoder.label: encoder.leads(texts) for encoder in encoders}
    table = pd.DataFrame(leads, pd.MultiIndex.from_tuples(names, names=["side", "word"]))
    # What the lead loses without a word is what the word adds to it.
    table.iloc[1:] = table.iloc[0] - table.iloc[1:]
    return table


def reasons_html(encoders: Sequence[CachedEncoder], sentences: Strings, *, name: str = "") -> str:
    """Return the words of query and targets with their effects under each encoder that works.

    With a second target also `smallest_swaps`.

    name: Of the target, for a title.
    """
    encoders, html = usable_encoders(encoders, sentences)
    if not encoders:
        return html
    table = word_effects(encoders, sentences)
    effects = table.iloc[1:]
    html += render(
        "reasons.html",
        name=name,
        target=sentences[1],
        has_other=len(sentences) > 2,
        cosines=table.iloc[0].to_dict(),
        effects=effects.groupby(level="side", sort=False),
        # One scale for all sides and encoders, so that shades can be compared.
        largest=effects.abs().max(axis=None),
    )
    if sentences[2:]:
        html += or_problem(_swaps_html, encoders, sentences)
    return html


def smallest_swaps(encoders: Sequence[CachedEncoder], sentences: Strings) -> pd.DataFrame:
    """Return by encoder the fewest words without which a query's two targets change places.

    They are at most three (fewer of more than 32 words), of any of the sentences, and are left out
    together; no sentence becomes empty. Of several sets of one size the one with the clearest new
    order is returned. An encoder without such a set has no row, nor has one whose cosines are
    equal.

    Returns:
        Columns: encoder, words, sides (of the words: "query", "target" or "second target"),
        sentences (the three, changed), before and after (the first cosine minus the second, in
        [-2, 2]).

    Raises DataError unless there are three sentences."""
    if len(sentences) != 3:
        raise DataError("type a second target, to see what makes the two targets change places")
    rows = []
    for encoder in encoders:
        # Fewer words first: a larger set is looked for only if none of a smaller one is enough.
        for size in range(1, _most_left_out(_count_words(sentences)) + 1):
            # Of an empty sentence a cosine means nothing.
            shorter = [change for change in _leave_out(sentences, size) if all(change[-1])]
            if swap := _clearest_swap(encoder, sentences, shorter):
                rows.append((encoder.label, *swap))
                break
    return pd.DataFrame(rows, columns=_SWAPS)


def _count_words(sentences: Strings) -> int:
    return sum(len(_WORD.findall(sentence)) for sentence in sentences)


def _most_left_out(words: int) -> int:
    """Return how many words are left out together: three, or fewer if there are too many sets."""
    for size in (3, 2):
        if math.comb(words, size) <= _MOST_SETS:
            return size
    return 1


def _leave_out(sentences: Strings, size: int) -> Iterator[_Change]:
    """Yield the changes without `size` words, which may empty a sentence."""
    words = [_WORD.findall(sentence) for sentence in sentences]
    places = [(side, place) for side, own in enumerate(words) for place in range(len(own))]
    for left_out in combinations(places, size):
        kept = list(map(list, words))
        for side, place in left_out:
            kept[side][place] = ""
        names = tuple(words[side][place].strip() for side, place in left_out)
        yield names, tuple(_SIDES[side] for side, _ in left_out), list(map(_join, kept))


def _join(words: Iterable[str]) -> str:
    # Words come with the space around them: without one, two spaces would be left.
    return " ".join("".join(words).split())


def _clearest_swap(
    encoder: CachedEncoder, sentences: Strings, changes: Sequence[_Change]
) -> tuple[Any, ...] | None:
    """Return the change that reverses the lead furthest, if any, with the lead before and after."""
    before = float(encoder.leads([sentences])[0])
    # Equal targets have no order that could be reversed.
    if not changes or abs(before) < _EQUAL:
        return None
    after = encoder.leads([changed for *_, changed in changes])
    remaining = np.sign(before) * after  # of the lead; below 0: the targets changed places
    best = int(np.argmin(remaining))
    # A tie is not yet another order.
    if remaining[best] > -_EQUAL:
        return None
    return *changes[best], before, float(after[best])


def _swaps_html(encoders: Sequence[CachedEncoder], sentences: Strings) -> str:
    """Return a sentence for each encoder."""
    table: Any = smallest_swaps(encoders, sentences)
    return render(
        "swaps.html",
        leads={encoder.label: encoder.leads([sentences])[0] for encoder in encoders},
        equal=_EQUAL,
        most=_most_left_out(_count_words(sentences)),
        swaps=list(table.itertuples()),
    )
