"""A list in a live view, ordered, searched and walked through by arrow keys, with a chart beside it."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, ClassVar

import numpy as np

from workbench.look._asked import Vectors
from workbench.look._html import choice, field
from workbench.look._linked import (
    CHARTS,
    COLOURS,
    GOLD,
    MAP,
    RANKS,
    SIGNS,
    SIMILAR,
    centred,
    family_map,
    planes_known,
    similarities,
)
from workbench.look._live import Live
from workbench.look._style import shortened
from workbench.look.page import DRAWN
from workbench.look.queries import QueryView, places_off
from workbench.look.why import Reasons

_ROOM = 50  # rows at first; "more" shows as many again
_ALL, _TWO = "all", "a and b"


class Listing(Live):
    """A list with a chart of a chosen kind beside it; what needs vectors is offered where encoders are known.

    What is chosen stands in attributes of the names of `choices`; `chosen` is the number of a row of the data.
    """

    choices: ClassVar[tuple[str, ...]] = ("order", "a", "b", "show", "search")
    looks: ClassVar[tuple[str, ...]] = ("chart", "colour", "plane")  # which leave the list as it is
    orders: Mapping[str, tuple[str, str]]  # name -> (in a few words, what it orders by)

    def __init__(self, kind: str, labels: Sequence[str], orders: Any, order: str, reasons: Reasons) -> None:
        self._reasons = reasons
        self.chart, self.colour, self.plane = RANKS, "gold", "PCA"
        self.search, self.show, self.room = "", _ALL, _ROOM
        self.chosen: int | None = None
        self._found: tuple[Any, Sequence[int]] = None, []
        self._offer(labels, orders, order)
        super().__init__(kind)

    def _offer(self, labels: Sequence[str], orders: Mapping[str, tuple[str, str]], order: str) -> None:
        """What can be chosen from here on; what was chosen stays where it still can be."""
        self.labels, self.orders = list(labels), orders
        self.order = self.order if getattr(self, "order", None) in orders else order
        self.a = self.a if getattr(self, "a", None) in self.labels else self.labels[0]
        self.b = self.b if getattr(self, "b", None) in self.labels else self.labels[-1]
        for name, offered in self.known().items():
            if name in self.looks and getattr(self, name) not in offered:
                setattr(self, name, offered[0])

    def look_at(self, found: Mapping[str, Any], encoders: Mapping[str, Any] | None = None) -> None:
        """Looks at something else of the same kind from here on; what was chosen stays where it still can be.

        Errors as at first; then all stays as it was.
        """
        reasons = Reasons(encoders, self._reasons.readers)
        offered = self.replace(found)
        self._reasons, self._found = reasons, (None, [])
        self._offer(*offered)
        self.renew()
        self.redraw()

    def replace(self, found: Mapping[str, Any]) -> tuple[Sequence[str], Mapping[str, tuple[str, str]], str]:
        """Takes the data of `look_at`, and moves `chosen` to its place there; what `_offer` takes of it."""
        raise NotImplementedError

    @property
    def _vectors(self) -> dict[str, Vectors]:
        return {reader.label: reader for reader in self._reasons.readers}

    @property
    def shown_labels(self) -> list[str]:
        """Every label, or only a and b."""
        return [label for label in self.labels if self.show == _ALL or label in (self.a, self.b)]

    @property
    def words(self) -> list[str]:
        """What is searched for: each of these, in any order."""
        return self.search.casefold().split()

    def listed(self) -> Sequence[int]:
        """The rows of the data that are listed now, as they are ordered."""
        asked = [getattr(self, name) for name in self.choices]
        if asked != self._found[0]:
            self._found = asked, self.find()
        return self._found[1]

    def find(self) -> Sequence[int]:
        """The rows of the data that answer to what is chosen, in its order."""
        raise NotImplementedError

    def known(self) -> dict[str, Sequence[str]]:
        charts = [name for name in CHARTS if self._vectors or name in (RANKS, GOLD)]
        colours = [name for name in COLOURS if len(self.labels) > 1 or name != "movement"]
        listed = {"order": list(self.orders), "a": self.labels, "b": self.labels, "show": [_ALL, _TWO]}
        return {**listed, "chart": charts, "colour": colours, "plane": planes_known()}

    def select(self, **chosen: Any) -> None:
        """Sets from code what the controls set, by their names, and `chosen`: a row's number, or its id.

        Raises:
            TypeError, ValueError: No such control, order or label; all stays as it was.
        """
        if chosen.get("plane") == "UMAP" and "UMAP" not in planes_known():
            raise ValueError("UMAP needs umap-learn, which is not installed: pip install 'ranking-workbench[maps]'")
        # First what others are chosen of, last the row, for a new list begins at its top.
        self.put((*self.choices, *self.looks, "chosen"), chosen)

    def given(self, name: str, value: Any) -> None:
        super().given(name, self.numbered(value) if name == "chosen" else value)
        if name == "chosen" and self.chosen not in self.listed():
            raise ValueError(f"{value!r} is not listed now; take words or limits away first")

    def told(self, name: str, value: Any) -> None:
        if name in self.looks:
            setattr(self, name, value)
            if name == "chart":  # which has controls of its own; another, such as a field, may be typed in just now
                self.renew()
            return
        self._reasons.told(name, value)
        if name == "more":
            self.room += _ROOM
        elif name == "chosen":
            self.chosen = int(value)
        elif name == "band":
            low, high = value.split()
            same = (str(getattr(self, "low", "")), str(getattr(self, "high", ""))) == (low, high)
            self.told("low", "" if same else low)
            self.told("high", "" if same else high)
            self.renew()
        elif name in self.choices:
            setattr(self, name, value)
            self.chosen, self.room = None, _ROOM

    def numbered(self, value: Any) -> int:
        """The number of the row that `value` names, in `select`. Raises ValueError where it names none."""
        try:
            return int(value)
        except (TypeError, ValueError):
            raise ValueError(f"chosen is {value!r}; give the number of a row, or its id") from None

    def current(self) -> int | None:
        """The chosen row, or the first that is listed; None where none is."""
        listed = self.listed()
        if self.chosen is None or self.chosen not in listed:
            self.chosen = int(listed[0]) if len(listed) else None
        return self.chosen

    def controls(self) -> str:
        several = len(self.labels) > 1
        named = shortened(self.labels, 40)
        ordered = {name: words for name, (words, _) in self.orders.items()}
        parts = [choice("order", ordered, self.order, title="order"), choice("a", named, self.a)]
        parts += [choice("b", named, self.b)] if several else []
        parts += [choice("show", {_ALL: _ALL, _TWO: _TWO}, self.show)] if len(self.labels) > 2 else []
        return "".join([*parts, *self.further(), search_field(self.search, "words")])

    def further(self) -> Iterable[str]:
        """Controls besides; the search is the last, so that Tab leads from it to the list."""
        known = self.known()
        yield choice("chart", {name: CHARTS[name] for name in known["chart"]}, self.chart)
        if self.chart == MAP:
            yield choice("colour", {name: COLOURS[name] for name in known["colour"]}, self.colour, title="signs")
        if self.chart == MAP and len(known["plane"]) > 1:
            yield choice("plane", {name: name for name in known["plane"]}, self.plane)

    def more(self) -> str:
        """A button for the rows that are listed and not shown, where there are such."""
        rest = len(self.listed()) - self.room
        return (
            f'<button name="more" value="{self.room}">{min(rest, _ROOM)} more of {rest:,}</button>' if rest > 0 else ""
        )

    def counted(self, total: int, what: str, further: str = "") -> str:
        """How many are listed, for the eye and for a screen reader."""
        count = len(self.listed())
        none = "" if count else "; take a word or a limit away"
        return f'<span role="status" aria-live="polite">{count:,} of {total:,} {what}{escape(further)}{none}</span>'

    def encoders(self) -> dict[str, Vectors]:
        """Those of a and b, or the first where these have none."""
        found = {label: self._vectors[label] for label in dict.fromkeys((self.a, self.b)) if label in self._vectors}
        return found or dict(list(self._vectors.items())[:1])

    def read(self, vectors: Vectors, texts: Sequence[str]) -> np.ndarray:
        """[n, d] rows of `texts`; the status says how far it is."""
        for words in vectors.reading(texts):
            self.say(words)
        return vectors(texts)

    def family_chart(self, view: QueryView) -> str:
        """Similarities or map of one query and its targets, of which those are drawn that are nearest."""
        shown = view.nearest(DRAWN)
        if self.chart == SIMILAR:
            return similarities(shown, self.encoders())
        self.fitting()
        errors = (places_off(shown.ranks[of], shown.reference) / max(shown.total - 1, 1) for of in (self.a, self.b))
        signs = self.signs(shown.gold, *errors)
        return family_map(shown, self.encoders(), self.plane, signs, SIGNS[self.colour])

    def fitting(self) -> None:
        """Says what takes long: UMAP is compiled before its first map."""
        if self.plane == "UMAP":
            self.say("UMAP is fitted; the first time in a kernel it is compiled too, which takes longest")

    def signs(self, gold: np.ndarray | None, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """What the signs of a map say, in [-1, 1]; first and second: errors of a and b, [n] each, as gold is."""
        if self.colour == "gold":
            return centred(gold)
        return first if self.colour == "error" else np.abs(first) - np.abs(second)


def button(number: int, text: str, chosen: int | None) -> str:
    """The button that chooses a row; `text` is HTML. Of a list only the chosen one is reached by Tab."""
    here = ' aria-current="true"' if number == chosen else ' tabindex="-1"'
    return f'<button name="chosen" value="{number}"{here}>{text}</button>'


def search_field(words: str, what: str) -> str:
    return field("search", words, "search", wide=True, type="search", placeholder=what)


def with_words(text: str, words: Sequence[str]) -> bool:
    """Whether the text, folded to one case, has every word."""
    return all(word in text for word in words)
