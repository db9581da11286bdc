"""The live view `Why`: the words on which a cosine depends."""

from collections.abc import Iterator, Sequence

import pandas as pd
from pandas import DataFrame

from workbench.views._style import render
from workbench.views._table import TypedView, text_area, value_of
from workbench.views.ask import require_text
from workbench.views.encoders import (
    CachedEncoder,
    Encoders,
    Strings,
    usable_encoders,
    wrap_encoders,
)
from workbench.views.limits import MOST_WORDS, require_at_most
from workbench.words import words_with_space

_SIDES = ("query", "target", "second target")


class Why(TypedView):
    """Show on which words a similarity depends under each encoder, while sentences are typed.

    Each word is left out in turn. With a second target everything is about the difference of the
    two cosines."""

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
    def selected(self) -> DataFrame:
        """Return `word_effects` of the sentences."""
        return word_effects(self._encoders, self._sentences())

    def html(self, *, is_live: bool) -> str:
        return reasons_html(self._encoders, self._sentences())

    def _sentences(self) -> list[str]:
        others = filter(str.strip, [self.other])
        return require_text([self.query, self.target, *others])


def word_effects(encoders: Sequence[CachedEncoder], sentences: Strings) -> DataFrame:
    """Return the cosine of a query and a target, and its loss without each word of all sentences.

    The cosine of a second target is subtracted. Columns: labels of the encoders; rows: side
    ("query", "target", "second target") and word; the first, of the side "all", has the cosine."""
    words = sum(len(words_with_space(sentence)) for sentence in sentences)
    require_at_most(words, MOST_WORDS, "words", "shorten the sentences")
    # The first text is whole; each later one lacks one word of one sentence.
    names = [("all", "")]
    texts = [sentences]
    for word, side, changed in _leave_out(sentences):
        names.append((side, word))
        texts.append(changed)
    # All texts in one call, so that an encoder sees them as one batch.
    leads = {encoder.label: encoder.leads(texts) for encoder in encoders}
    table = DataFrame(leads, pd.MultiIndex.from_tuples(names, names=["side", "word"]))
    # What the lead loses without a word is what the word adds to it.
    table.iloc[1:] = table.iloc[0] - table.iloc[1:]
    return table


def reasons_html(encoders: Sequence[CachedEncoder], sentences: Strings, *, name: str = "") -> str:
    """Return the words of query and targets with their effects under each encoder that works.

    name: Of the target, for a title.
    """
    encoders, html = usable_encoders(encoders, sentences)
    if not encoders:
        return html
    table = word_effects(encoders, sentences)
    return html + render("reasons.html", name=name, sentences=sentences, table=table)


def _leave_out(sentences: Strings) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each word, its side, and the sentences without it, of which one may be empty."""
    for side, sentence in enumerate(sentences):
        words = words_with_space(sentence)
        for place, word in enumerate(words):
            changed = list(sentences)
            changed[side] = "".join(words[:place] + words[place + 1 :]).strip()
            yield word.strip(), _SIDES[side], changed
