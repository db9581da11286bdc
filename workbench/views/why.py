"""Explain a cosine by the words and tokens that it depends on, under each encoder."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, EncoderError, WorkbenchError
from workbench.views._asked import ENCODER, Vectors
from workbench.views._html import aside, framed, grid, head, note
from workbench.views._reasons import Split, left_out, pieces, readers, split_of
from workbench.views._table import Panel, View, or_problem, text_area

_FIELDS = {"query": "query", "target": "target", "other": "against (optional)"}
_TOKENS = 12  # a side of a map
_WORDS_SAY = "Beside a word: by how much {what} falls when it is left out. {signs} Words work together: no sum."
_ONE = ("the cosine", "▲ it brings the two together, ▼ it keeps them apart.")
_TWO = ("the lead of the first target over the second", "▲ it speaks for the first, ▼ for the second.")
_MAP_SAYS = (
    "Rows: tokens of the query, columns: of the target. Each cell is what the two tokens bring to the cosine, x 100: "
    "they add up to it exactly, a row or column to what one token brings. All in fp32: scores of a run in bf16 may "
    "differ in the third digit."
)


class Why(View):
    """Which words the similarity of a query and a target depends on, under each encoder; the texts can be edited.

    Each word is left out in turn, for any encoder. For an `Encoder` whose vector is the mean over tokens the cosine
    is also split into pairs of tokens, exactly. With a second target everything is about the difference of the two
    cosines: what puts one before the other.
    """

    def __init__(
        self, encoders: Mapping[str, Any] | None = None, query: str = "", target: str = "", other: str = ""
    ) -> None:
        """Show the words of a query and a target.

        Args:
            encoders: label -> what `Ask` takes, or what `encoders_of_runs` gives; None: the bundled encoder.
            query: A sentence.
            target: Another one.
            other: A second target; "" for none.

        Raises:
            EncoderError: There is no encoder, or one cannot be read.
        """
        self._readers = list(readers({ENCODER: ENCODER} if encoders is None else encoders).values())
        texts = {"query": query, "target": target, "other": other}
        self.controls = {name: text_area(_FIELDS[name], text) for name, text in texts.items()}
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
        return word_table(self._readers, self._sentences())[0]

    def _draw(self, _: Any = None) -> None:
        self.panel.html = or_problem(lambda: reasons_html(self._readers, self._sentences()))

    def static(self) -> str:
        return f"<p>Run the cell to change the sentences.</p>{self.panel.html}"

    def _sentences(self) -> list[str]:
        query, target, other = (control.value for control in self.controls.values())
        return [query, target, *([other] if other.strip() else [])]


def word_table(asked: Sequence[Vectors], sentences: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return side ("query", "target", "other"), word, and for each label the loss of cosine without the word.

    The first row, of the side "all", has the cosine itself; with a second target its cosine is subtracted. The second
    result has the reason for each encoder that cannot be asked. Raises DataError for a blank sentence, EncoderError if
    no encoder can be asked.
    """
    if not all(sentence.strip() for sentence in sentences):
        raise DataError("no query or no target yet; type one")
    sides = zip(_FIELDS, sentences, strict=False)
    words = [(side, word.strip()) for side, sentence in sides for word in pieces(sentence)]
    table = pd.DataFrame([("all", ""), *words], columns=["side", "word"])
    without = []
    for reader in asked:
        try:
            full, effects = left_out(reader, sentences)
        except WorkbenchError as reason:
            without.append(f"{reader.label} cannot be asked: {reason}.")
        else:
            table[reader.label] = [full, *np.concatenate(effects)]
    if len(without) == len(asked):
        raise EncoderError(" ".join(without))
    return table, without


def reasons_html(asked: Sequence[Vectors], sentences: Sequence[str], *, name: str = "") -> str:
    """Return the words of query and targets with their effects, and a map of tokens for each encoder that has one.

    name: Of the target, for a title.
    """
    table, without = word_table(asked, sentences)
    asked = [reader for reader in asked if reader.label in table]
    what, signs = _ONE if len(sentences) == 2 else _TWO
    full = ", ".join(f"{escape(reader.label)} <b>{table[reader.label].iloc[0]:.3f}</b>" for reader in asked)
    titles = {"query": "query", "target": "target", "other": "second target"}
    sides = table.iloc[1:].groupby("side", sort=False)
    largest = float(table.iloc[1:, 2:].abs().to_numpy().max(initial=0))
    words = "".join(aside(_words(part.set_index("word"), titles[str(side)], largest)) for side, part in sides)
    maps, mapless = _maps(asked, sentences[0], sentences[1:])
    said = " ".join([*([_MAP_SAYS] if maps else []), *(escape(reason) for reason in [*mapless, *without])])
    explained = note(_WORDS_SAY.format(what=what, signs=signs))
    title = f'<p class="head" role="status"><b>Why {escape(name)}?</b> {escape(sentences[1])}</p>' if name else ""
    return framed(title, head(f"{what.capitalize()}: {full}"), words, explained, maps, note(said))


def _words(part: pd.DataFrame, title: str, largest: float) -> str:
    values = part.drop(columns="side")
    return grid(title, values.to_numpy(), (part.index.tolist(), list(values)), largest, _signed)


def _maps(asked: Sequence[Vectors], query: str, targets: Sequence[str]) -> tuple[str, list[str]]:
    """Return the maps of each target, and the encoders without a map."""
    drawn, without = "", defaultdict(dict)  # why -> the labels, each once
    for target in targets:
        found: dict[str, Split] = {}
        for reader in asked:
            try:
                found[reader.label] = split_of(reader, query, target).folded(_TOKENS)
            except EncoderError as reason:
                without[str(reason)][reader.label] = None
        drawn += _maps_of(target, found)
    return drawn, [
        f"{', '.join(labels)} {'has' if len(labels) == 1 else 'have'} no map: {reason}."
        for reason, labels in without.items()
    ]


def _maps_of(target: str, found: Mapping[str, Split]) -> str:
    """Return the maps of one target on one scale of colour."""
    largest = max((float(np.abs(split.terms).max()) for split in found.values()), default=0)
    drawn = [
        aside(grid(f"{label}: {split.cosine:.3f}", *split.with_sums(), largest, _hundredth))
        for label, split in found.items()
    ]
    return head(f"Token by token: <b>{escape(target)}</b>") + "".join(drawn) if drawn else ""


def _hundredth(value: float) -> str:
    return f"{round(100 * value, 1) + 0:.1f}"  # + 0: no -0.0


def _signed(value: float) -> str:
    return f"{'▼' if value < 0 else '▲'}{abs(value):.3f}" if abs(value) >= 0.0005 else "0"
