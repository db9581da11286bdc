"""The two widgets of the live views: a table over plain columns, and a panel of HTML that the kernel drew."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import numpy as np
import pandas as pd
import traitlets

from workbench.errors import WorkbenchError
from workbench.views._html import STYLES, inlined, problem_html
from workbench.views._style import FIGURE_RULES

HERE = Path(__file__).parent
STYLE_SHEET = "\n".join(
    [
        (HERE / "table.css").read_text(encoding="utf-8"),
        FIGURE_RULES,
        *(f":is(.workbench-panel, .workbench-page) .{name} {{ {style} }}" for name, style in STYLES.items()),
        *(f".workbench-table .{name} {{ {style} }}" for name, style in STYLES.items() if name.startswith("shade")),
    ]
)
MOST_CHARACTERS = 2_000_000  # of texts that are searched but not shown; longer ones are searched by the kernel

WIDE = {"style": {"description_width": "initial"}, "layout": {"width": "98%", "flex_flow": "column"}}  # of a field


class Table(anywidget.AnyWidget):
    """The rows of a data frame, which a browser sorts, searches and limits; every choice is a trait, in both ways.

    `chosen` is a row number, -1 for none; `ticked` are row numbers; `sort` is [column, descending];
    `limits` is column -> [low, high], both inclusive, None for no limit. `listed` holds the numbers of the
    rows that remain, in their order; the kernel computes it, so it is right without a browser too.
    """

    _esm, _css = HERE / "table.js", STYLE_SHEET
    label = traitlets.Unicode("rows").tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)  # follows the number of listed rows
    columns = traitlets.List().tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    extra = traitlets.Dict().tag(sync=True)  # columns that change, such as the values of an order
    search = traitlets.Unicode().tag(sync=True)
    sort = traitlets.List(default_value=["", False]).tag(sync=True)
    limits = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)
    ticks = traitlets.Bool(False).tag(sync=True)
    ticked = traitlets.List().tag(sync=True)
    height = traitlets.Int(420).tag(sync=True)
    row_height = traitlets.Int(40).tag(sync=True)
    asks_kernel = traitlets.Bool(False).tag(sync=True)
    found = traitlets.Dict().tag(sync=True)
    listed = traitlets.Any(np.array([], dtype=int))

    def set_rows(
        self, frame: pd.DataFrame, columns: Sequence[Mapping[str, Any]] | None = None, *, texts: Sequence[str] = ()
    ) -> None:
        """Replace all rows.

        Args:
            frame: Columns of numbers, sent as float32, and of texts. A text column "name" names rows for
                screen readers.
            columns: For each column its name and, where needed, title, hover, digits, suffix, limit (True: limits in
                its heading), error (the column of shares that shade it), score (the column below it).
                None: every column of the frame.
            texts: A further text of each row, which is searched and not shown.
        """
        every = [{"name": name, "limit": is_number(frame[name])} for name in frame]
        self._values = {name: frame[name].to_numpy("<f4") for name in frame if is_number(frame[name])}
        self._texts = {name: list(map(str, frame[name])) for name in frame if name not in self._values}
        further = {"searched": list(texts)} if texts else {}
        self._searched = {**self._texts, **further}
        self._folded: list[str] = []
        with self.hold_sync():
            self.asks_kernel = sum(map(len, texts)) > MOST_CHARACTERS
            self.columns = every if columns is None else list(columns)
            sent = {} if self.asks_kernel else further
            self.extra = {}
            self.data = {**{name: values.tobytes() for name, values in self._values.items()}, **self._texts, **sent}
            self._list()

    def order_by(self, name: str, values: np.ndarray, sort: list[Any]) -> None:
        """Replace the values of one number column, which may be hidden, and sort."""
        self._values[name] = np.asarray(values, dtype="<f4")
        with self.hold_sync():
            self.extra = {**self.extra, name: self._values[name].tobytes()}
            if self.sort == sort:
                self._list()
            self.sort = sort

    @property
    def words(self) -> list[str]:
        """Return the words that are searched for."""
        return self.search.casefold().split()

    @traitlets.observe("search", "sort", "limits")
    def _list(self, _: Any = None) -> None:
        if not self.data:
            return
        kept = np.ones(max(map(len, [*self._values.values(), *self._texts.values()]), default=0), dtype=bool)
        for name, (low, high) in self.limits.items():
            if name in self._values:
                kept &= True if low is None else self._values[name] >= np.float32(low)
                kept &= True if high is None else self._values[name] <= np.float32(high)
        if self.words:
            kept &= self._matches()
        rows = self._order()
        with self.hold_trait_notifications():  # who observes one sees the other too
            self.listed = rows[kept[rows]]
            if not 0 <= self.chosen < len(kept) or not kept[self.chosen]:
                self.chosen = int(self.listed[0]) if len(self.listed) else -1

    def _matches(self) -> np.ndarray:
        """Return for each row whether it has every word; tell it to the browser if that has not all texts."""
        if not self._folded:
            self._folded = ["\n".join(row).casefold() for row in zip(*self._searched.values(), strict=True)]
        words = self.words
        found = np.array([all(word in text for word in words) for text in self._folded], dtype=bool)
        if self.asks_kernel:
            self.found = {"search": self.search, "rows": np.flatnonzero(found).astype("<i4").tobytes()}
        return found

    def _order(self) -> np.ndarray:
        name, descending = str(self.sort[0]), bool(self.sort[1])
        count = max(map(len, [*self._values.values(), *self._texts.values()]), default=0)
        if name in self._texts:
            texts = self._texts[name]
            return np.array(sorted(range(count), key=lambda row: texts[row], reverse=descending), dtype=int)
        if name not in self._values:
            return np.arange(count)
        sizes = (column.get("error") for column in self.columns if column["name"] == name)
        error = next(sizes, None)
        values = np.abs(self._values[error]) if error else self._values[name]
        return np.argsort(-values if descending else values, kind="stable")


def is_number(column: Any) -> bool:
    return pd.api.types.is_numeric_dtype(column)


class Panel(anywidget.AnyWidget):
    """HTML that the kernel drew; `pressed` is called with the name and value of a button that is pressed in it."""

    _esm, _css = HERE / "panel.js", STYLE_SHEET
    html = traitlets.Unicode().tag(sync=True)
    scrolls = traitlets.Bool(False).tag(sync=True)  # whether new content is scrolled into sight

    def __init__(self, pressed: Callable[[str, str], None] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        if pressed:
            self.on_msg(lambda _, content, __: pressed(content["name"], content["value"]))


class View(ipywidgets.VBox):
    """Controls, tables and panels; without a kernel its static HTML is shown in their place.

    `controls` are ipywidgets by name; their values are set by the reader, or from code by `select`.
    """

    controls: dict[str, Any]

    def static(self) -> str:
        """Return HTML that shows the same without a kernel, by classes of `STYLES`."""
        raise NotImplementedError

    def select(self, **values: Any) -> None:
        """Set controls from code by their names; TypeError for an unknown name, ValueError for a wrong value."""
        names = self.selectable()
        if unknown := values.keys() - set(names):
            raise TypeError(f"select has no {', '.join(sorted(unknown))}; it takes {', '.join(names)}")
        for name in filter(values.__contains__, names):
            self.set_value(name, values[name])

    def selectable(self) -> list[str]:
        """Return the names that `select` takes, in the order in which they are set."""
        return list(self.controls)

    def set_value(self, name: str, value: Any) -> None:
        """Set one control."""
        control = self.controls[name]
        offered = [each for _, each in getattr(control, "_options_full", ())]
        if offered and value not in offered:
            raise ValueError(f"{name} is {value!r}; choose one of {', '.join(offered)}")
        control.value = value

    def control_row(self) -> ipywidgets.HBox:
        """Return the controls next to each other."""
        return ipywidgets.HBox([*self.controls.values()], layout={"flex_flow": "row wrap"})

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/html": inlined(self.static())}, {}


def dropdown(
    name: str, options: Mapping[str, str], value: str | None, changed: Callable[..., None]
) -> ipywidgets.Dropdown:
    """Return a list of choices, value -> text, that calls `changed` when the reader chooses another."""
    made = ipywidgets.Dropdown(
        options=[(text, each) for each, text in options.items()],
        value=value,
        description=name,
        style={"description_width": "initial"},
        layout={"width": "auto", "max_width": "22em", "min_width": "0"},
    )
    made.observe(changed, "value")
    return made


def text_area(name: str, text: str, rows: int = 1) -> ipywidgets.Textarea:
    """Return a field for text with its name above it."""
    return ipywidgets.Textarea(text, description=name, rows=rows, **WIDE)


def value_of(name: str) -> property:
    """Return a property that reads and sets the value of a view's control."""
    return property(lambda view: view.controls[name].value, lambda view, value: view.set_value(name, value))


def or_problem(draw: Callable[[], str]) -> str:
    """Return what `draw` draws, or HTML that says why it cannot."""
    try:
        return draw()
    except (ValueError, WorkbenchError) as problem:
        return problem_html(problem)
