"""A list in a live view, ordered, searched and walked through by arrow keys, with a chart beside it; and as a page."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from workbench.files import explained, replacing
from workbench.look._asked import Vectors
from workbench.look._charts import (
    CHARTS,
    GOLD,
    MAP,
    MEANINGS,
    RANKS,
    SIGNS,
    SIMILAR,
    centred,
    family_map,
    planes_known,
    similarities,
)
from workbench.look._html import choice, field
from workbench.look._live import Live
from workbench.look._reasons import readers
from workbench.look._sharing import Entry, shared_page
from workbench.look._style import shortened
from workbench.look.page import DRAWN
from workbench.look.queries import QueryView, places_off
from workbench.look.why import reasons_html

_ROOM = 50  # rows at first; "more" shows as many again
_ALL, _TWO = "all", "a and b"
_OF_TWO = {"disagreement", "gain", "loss"}  # orders, between a and b


class Listing(Live):
    """A list with a chart of a chosen kind beside it; what needs vectors is offered where encoders are known.

    What is chosen stands in attributes of the names of `choices`; `chosen` is the number of a row of the data.
    """

    choices: ClassVar[tuple[str, ...]] = ("order", "a", "b", "show", "search")
    looks: ClassVar[tuple[str, ...]] = ("chart", "colour", "plane")  # which leave the list as it is
    every_order: ClassVar[Mapping[str, tuple[str, str]]]  # name -> (in a few words, what it orders by)
    first_orders: ClassVar[tuple[str, str]]  # of one label, of several
    labels: list[str]
    ids: Sequence[Any]  # what the data calls each of its rows

    def __init__(self, kind: str, encoders: Mapping[str, Any] | None) -> None:
        self.chart, self.colour, self.plane = RANKS, "gold", "PCA"
        self.search, self.show, self.room = "", _ALL, _ROOM
        self.chosen: int | None = None
        self.why = self.against = ""  # the target that was clicked, and one to hold it against
        self._readers = readers(encoders) if encoders else {}
        self._offer()
        super().__init__(kind)

    def take(self, found: Mapping[str, Any]) -> None:
        """Takes the data of `look_at`: `labels`, `ids` and whatever is listed of it; where it is refused, nothing."""
        raise NotImplementedError

    def _offer(self) -> None:
        """What can be chosen from here on; what was chosen stays where it still can be."""
        several = len(self.labels) > 1
        self.orders = {name: words for name, words in self.every_order.items() if several or name not in _OF_TWO}
        self._numbers = {name: number for number, name in enumerate(self.ids)}
        self._made: dict[Hashable, Any] = {}
        self._found: tuple[Any, np.ndarray] = None, np.array([])
        self.order = self.order if getattr(self, "order", None) in self.orders else self.first_orders[several]
        self.a = self.a if getattr(self, "a", None) in self.labels else self.labels[0]
        self.b = self.b if getattr(self, "b", None) in self.labels else self.labels[-1]
        for name, offered in self.known().items():
            if name in self.looks and getattr(self, name) not in offered:
                setattr(self, name, offered[0])

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` makes, once for what is listed from."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def look_at(self, found: Mapping[str, Any], encoders: Mapping[str, Any] | None = None) -> None:
        """Looks at something else of the same kind from here on; what was chosen stays where it still can be.

        Errors as at first; then all stays as it was.
        """
        asked, name = readers(encoders, self._readers) if encoders else {}, self.chosen_id
        self.take(found)
        self._readers = asked
        self._offer()
        self.chosen, self.why, self.against = self._numbers.get(name), "", ""
        self.renew()
        self.redraw()

    @property
    def chosen_id(self) -> Any:
        """What the data calls the chosen row; None where none is listed."""
        number = self.current()
        return None if number is None else self.ids[number]

    @property
    def shown_labels(self) -> list[str]:
        """Every label, or only a and b."""
        return [label for label in self.labels if self.show == _ALL or label in (self.a, self.b)]

    @property
    def words(self) -> list[str]:
        """What is searched for: each of these, in any order."""
        return self.search.casefold().split()

    def listed(self) -> np.ndarray:
        """The rows of the data that answer to what is chosen, in its order."""
        asked = [getattr(self, name) for name in self.choices]
        if asked != self._found[0]:
            rows, kept = self.once(("ordered", self.order, self.a, self.b), self.ordered), self.within()
            if self.words:
                kept &= np.array([with_words(text, self.words) for text in self.once("texts", self.texts)], dtype=bool)
            self._found = asked, rows[kept[rows]]
        return self._found[1]

    def ordered(self) -> np.ndarray:
        """The numbers of all rows in the chosen order."""
        raise NotImplementedError

    def texts(self) -> Sequence[str]:
        """What a search looks at, of each row of the data, folded to one case."""
        raise NotImplementedError

    def within(self) -> np.ndarray:
        """[n] whether each row of the data is within the limits that are set."""
        return np.ones(len(self.ids), dtype=bool)

    def known(self) -> dict[str, Sequence[str]]:
        charts = [name for name in CHARTS if self._readers or name in (RANKS, GOLD)]
        colours = [name for name in MEANINGS if len(self.labels) > 1 or name != "movement"]
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
        super().given(name, self._numbered(value) if name == "chosen" else value)
        if name == "chosen" and self.chosen not in self.listed():
            raise ValueError(f"{value!r} is not listed now; take words or limits away first")

    def told(self, name: str, value: Any) -> None:
        if name in self.looks:
            setattr(self, name, value)
            if name == "chart":  # which has controls of its own; another, such as a field, may be typed in just now
                self.renew()
            return
        if name == "against":
            self.against = value
        elif name == "more":
            self.room += _ROOM
        else:  # a second click on a target closes its reasons, and so does any change of what is listed
            self.why, self.against = value if name == "why" and value != self.why else "", ""
        if name == "chosen":
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

    def _numbered(self, value: Any) -> int:
        """The number of the row that `value` names, in `select`. Raises ValueError where it names none."""
        try:
            return self._numbers[value] if value in self._numbers else int(value)
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
            yield choice("colour", {name: MEANINGS[name] for name in known["colour"]}, self.colour, title="signs")
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
        found = {label: self._readers[label] for label in dict.fromkeys((self.a, self.b)) if label in self._readers}
        return found or dict(list(self._readers.items())[:1])

    def reasons(self, query: str, targets: Mapping[str, str]) -> str:
        """Why the target that was clicked stands where it does, under the labels that are shown; "" of none.

        targets: name, as clicked -> text.
        """
        if self.why not in targets or not self._readers:
            return ""
        asked = [reader for label, reader in self._readers.items() if label in self.shown_labels]
        others = {name: f"{name}: {text:.50}" for name, text in targets.items() if name != self.why}
        against = choice("against", {"": "no other", **others}, self.against) if others else ""
        sentences = [query, targets[self.why], *([targets[self.against]] if self.against in others else [])]
        title = f'<p class="head" role="status"><b>Why {escape(self.why)}?</b> {escape(sentences[1])}</p>'
        drawn = self.explained(lambda: reasons_html(asked or list(self._readers.values()), sentences))
        return f"{title}{against}{drawn}"

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

    def entry(self, number: int) -> Entry:
        """A row of the data on a page."""
        raise NotImplementedError

    def title(self) -> str:
        """Of a page."""
        raise NotImplementedError

    def to_html(self, path: str | Path, *, limit: int | None = None) -> Path:
        """Writes what is listed, in its order, as one page with an index, a link to each, a search, and charts.

        limit: At most so many of the list; None: all. The page needs no kernel and no network. Returns its path.

        Raises:
            ValueError: `limit` below 1, or nothing is listed.
            RunError: The file cannot be written.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit is {limit}; give 1 or more, or None for the whole list")
        if not len(self.listed()):
            raise ValueError("nothing to write, since nothing is listed; clear the search and the limits")
        target = Path(path).expanduser()
        page = shared_page(self.title(), [self.entry(int(number)) for number in self.listed()[:limit]])
        with explained(target.parent, "another file"), replacing(target) as file:
            file.write(page)
        return target


def button(number: int, text: str, chosen: int | None) -> str:
    """The button that chooses a row; `text` is HTML. Of a list only the chosen one is reached by Tab."""
    here = ' aria-current="true"' if number == chosen else ' tabindex="-1"'
    return f'<button name="chosen" value="{number}"{here}>{text}</button>'


def search_field(words: str, what: str) -> str:
    return field("search", words, "search", wide=True, type="search", placeholder=what)


def with_words(text: str, words: Sequence[str]) -> bool:
    """Whether the text, folded to one case, has every word."""
    return all(word in text for word in words)
