"""The widgets of the live views: a table over plain columns, a panel of HTML, and the frame of a view."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import numpy as np
import pandas as pd
import traitlets

from workbench.views._html import STYLES, inlined, problem_html
from workbench.views._style import FIGURE_RULES

HERE = Path(__file__).parent
_RULES = [(HERE / "table.css").read_text(encoding="utf-8"), FIGURE_RULES]
_RULES += [f":is(.workbench-panel, .workbench-page) .{name} {{ {style} }}" for name, style in STYLES.items()]
_RULES += [f".workbench-table .{name} {{ {style} }}" for name, style in STYLES.items() if name.startswith("shade")]
STYLE_SHEET = "\n".join(_RULES)
MOST_CHARACTERS = 2_000_000  # of texts that are searched but not shown; longer ones are searched by the kernel
WIDE = {"style": {"description_width": "initial"}, "layout": {"width": "98%", "flex_flow": "column"}}  # of a field


class Table(anywidget.AnyWidget):
    """The rows of a data frame, which a browser sorts, searches and limits; every choice is a trait, in both ways.

    `chosen` is a row number, -1 for none; `ticked` are row numbers; `sort` is [column, descending];
    `limits` is column -> [low, high], both inclusive, None for no limit. `listed` has the numbers of the
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
        numbers = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]
        self._frame = frame.reset_index(drop=True).astype(dict.fromkeys(numbers, "<f4"))
        shown = {name: list(map(str, frame[name])) for name in frame if name not in numbers}
        hidden = {"searched": list(texts)} if texts else {}
        self._searched = ["\n".join(row).casefold() for row in zip(*shown.values(), *hidden.values(), strict=True)]
        every = [{"name": name, "limit": name in numbers} for name in frame]
        with self.hold_sync():
            self.asks_kernel = sum(map(len, texts)) > MOST_CHARACTERS
            self.columns, self.extra = every if columns is None else list(columns), {}
            sent = {name: self._frame[name].to_numpy().tobytes() for name in numbers} | shown
            self.data = sent if self.asks_kernel else sent | hidden
            self._list()

    def order_by(self, name: str, values: np.ndarray, sort: list[Any]) -> None:
        """Replace the values of one number column, which may be hidden, and sort."""
        self._frame[name] = np.asarray(values, dtype="<f4")
        with self.hold_sync():
            self.extra = {**self.extra, name: self._frame[name].to_numpy().tobytes()}
            if self.sort == sort:
                self._list()
            self.sort = sort

    def texts_of(self, row: int) -> list[str]:
        """Return the texts that a row shows."""
        return self._frame.select_dtypes(exclude="number").loc[row].tolist()

    @property
    def words(self) -> list[str]:
        """Return the words that are searched for."""
        return self.search.casefold().split()

    @traitlets.observe("search", "sort", "limits")
    def _list(self, _: Any = None) -> None:
        kept: Any = pd.Series(True, self._frame.index)
        for name, (low, high) in self.limits.items():
            if name in self._frame and (low, high) != (None, None):
                least, most = -np.inf if low is None else low, np.inf if high is None else high
                kept &= self._frame[name].between(np.float32(least), np.float32(most))
        if self.words:
            kept &= self._has_words()
        name, descending = self.sort
        if name in self._frame:
            size = next((column.get("error") for column in self.columns if column["name"] == name), None)
            values: Any = self._frame[size].abs() if size else self._frame[name]
            kept = kept[values.sort_values(ascending=not descending, kind="stable").index]
        self.listed = kept.index[kept].to_numpy()
        if self.chosen not in self.listed:
            self.chosen = int(self.listed[0]) if len(self.listed) else -1

    def _has_words(self) -> np.ndarray:
        """Return for each row whether it has every word; send it to the browser if that has not all texts."""
        words = self.words
        has = np.array([all(word in text for word in words) for text in self._searched], dtype=bool)
        if self.asks_kernel:
            self.found = {"search": self.search, "rows": np.flatnonzero(has).astype("<i4").tobytes()}
        return has


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


def dropdown(name: str, options: Mapping[Any, str], changed: Callable[..., None]) -> ipywidgets.Dropdown:
    """Return a list of choices, value -> text, that calls `changed` when the reader chooses another."""
    layout = {"width": "auto", "max_width": "22em", "min_width": "0"}
    control = ipywidgets.Dropdown(description=name, style={"description_width": "initial"}, layout=layout)
    offer(control, options, next(iter(options), None))
    control.observe(changed, "value")
    return control


def offer(control: ipywidgets.Dropdown, options: Mapping[Any, str], default: Any) -> None:
    """Offer other choices, value -> text, and keep the value if it is among them; hide a list of one."""
    value = control.value if control.value in options else default
    control.options, control.value = [(text, value) for value, text in options.items()], value
    control.layout.display = None if len(options) > 1 else "none"


def text_area(name: str, text: str, rows: int = 1) -> ipywidgets.Textarea:
    """Return a field for text with its name above it."""
    return ipywidgets.Textarea(text, description=name, rows=rows, **WIDE)


def value_of(name: str) -> property:
    """Return a property that reads and sets the value of a view's control."""
    return property(lambda view: view.controls[name].value, lambda view, value: view.set_value(name, value))


def or_problem(draw: Callable[[], str]) -> str:
    """Return what `draw` draws, or HTML that says why it cannot; a user's own encoder may raise anything."""
    try:
        return draw()
    except Exception as problem:
        name = "" if isinstance(problem, ValueError | RuntimeError) else f"{type(problem).__name__}: "
        return problem_html(f"{name}{problem}")
