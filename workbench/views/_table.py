"""The widgets of the live views: a table of columns, a panel of HTML, and the frame of a view."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import anywidget
import ipywidgets
import numpy as np
import pandas as pd
from traitlets import Bool, Dict, Int, List, Unicode, observe

from workbench.errors import unknown_name
from workbench.files import Facts
from workbench.views._style import HERE, inlined, problem_html, render

STYLE_SHEET = render("styles.css")


class TableWidget(anywidget.AnyWidget):
    """The rows of a data frame, which a browser sorts, searches and limits.

    Each choice is a trait, set by both sides: `chosen` is a row number, -1 for none; `ticked` are
    row numbers, of boxes or, with `stars`, of stars; `sort` is [column, descending]; `limits` is
    column -> [low, high], both inclusive, None for no limit. `listed` has the numbers of the rows
    that remain, in their order; the kernel computes it, so it is right without a browser too.
    """

    _esm = HERE / "table.js"
    _css = STYLE_SHEET
    label = Unicode("rows")
    note = Unicode()  # follows the number of listed rows
    columns = List()
    data = Dict()
    extra = Dict()  # columns that change, such as the values of an order
    search = Unicode()
    sort = List(default_value=["", False])
    limits = Dict()
    chosen = Int(-1)
    ticks = Bool()
    stars = Bool()
    ticked = List()
    height = Int(420)

    def set_rows(self, frame: pd.DataFrame, columns: list[Facts]) -> None:
        """Replace all rows.

        Args:
            frame: The rows; all its texts are searched.
            columns: For each that is shown its name and, if needed, title, hover, digits, limit
                (True: limits in its heading), error (the column of shares that shade it).
        """
        self.frame = frame.reset_index(drop=True)
        numbers = frame.select_dtypes("number")
        searched = frame.select_dtypes(exclude="number").map(str).to_dict("list")
        rows = ["\n".join(row).lower() for row in zip(*searched.values(), strict=True)]
        self._searched = pd.Series(rows, dtype=object)
        with self.hold_sync():
            self.columns = self._columns = columns
            self.extra = {}
            # Numbers travel as bytes, so that nan and all digits arrive.
            self.data = {name: _bytes(values) for name, values in numbers.items()} | searched
            self._list()

    def order_by(self, column: Facts, values: np.ndarray, *, descending: bool) -> None:
        """Sort by numbers that are shown in front of the columns of `set_rows`; choose the first.

        Other numbers of the same name replace them, and cost one message of one column."""
        name = column["name"]
        sort = [name, descending]
        self.frame[name] = values
        with self.hold_sync():
            self.columns = [column, *self._columns]
            # The same row number is another row now.
            self.chosen = -1
            self.extra = {name: _bytes(values)}
            # An equal value is no change, so it would not be observed.
            if self.sort == sort:
                self._list()
            self.sort = sort

    @observe("search", "sort", "limits")
    def _list(self, _: Any = None) -> None:
        # The same as in table.js, so that both sides list the same rows.
        is_listed = pd.Series(True, self.frame.index)
        for name in self.frame.columns.intersection(list(self.limits)):
            low, high = self.limits[name]
            values = self.frame[name]
            is_listed &= (low is None or values >= low) & (high is None or values <= high)
        for word in self.search.lower().split():
            is_listed &= self._searched.str.contains(word, regex=False)
        rows: Any = self.frame[is_listed]
        name, descending = self.sort
        if name in rows:
            rows = rows.sort_values(name, ascending=not descending, kind="stable")
        self.listed = rows.index.to_numpy()
        # A choice that is not listed any more would be shown next to a list without it.
        if self.chosen not in self.listed:
            self.chosen = int(self.listed[0]) if len(self.listed) else -1


def _bytes(values: Any) -> bytes:
    # The byte order that JavaScript reads on all usual machines.
    return np.asarray(values, dtype="<f8").tobytes()


class Panel(anywidget.AnyWidget):
    """HTML drawn by the kernel; `pressed` is called with the value of a pressed button."""

    _esm = HERE / "panel.js"
    _css = STYLE_SHEET
    html = Unicode()
    scrolls = Bool()  # whether new content is scrolled into sight

    def __init__(self, pressed: Callable[[str], None] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        if pressed:
            self.on_msg(lambda _, content, __: pressed(content))


# The browser and the kernel share the value of each trait.
for _widget in (TableWidget, Panel):
    for _trait in _widget.class_own_traits().values():
        _trait.tag(sync=True)


class View(ipywidgets.VBox):
    """Controls, tables and panels; without a kernel its static HTML is shown in their place."""

    settable: ClassVar[tuple[str, ...]] = ()  # the properties that `select` sets, in this order
    controls: Facts  # ipywidgets by name

    def static(self) -> str:
        """Return HTML that shows the same without a kernel, with classes of `STYLES`."""
        raise NotImplementedError

    def select(self, **values: Any) -> None:
        """Set controls from code by their names; TypeError for an unknown name."""
        if unknown := values.keys() - set(self.settable):
            raise TypeError(unknown_name("control", min(unknown), self.settable, "of this view"))
        # In their own order: a choice may change what a later one offers.
        for name in self.settable:
            if name in values:
                setattr(self, name, values[name])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        # A front end without the widget, such as a page of a notebook, shows this.
        return {**bundle, "text/html": inlined(self.static())}, {}


class TypedView(View):
    """Fields, and next to them, or below a row of them, what is drawn while they change."""

    def __init__(self, controls: Facts, *, is_row: bool = False) -> None:
        self.controls = controls
        self.panel = Panel()
        for control in controls.values():
            control.observe(self._draw, "value")
        # Nothing has changed yet, so no control has caused a drawing.
        self._draw()
        fields = ipywidgets.Box(list(controls.values()))
        super().__init__([fields, self.panel])
        if is_row:
            fields.layout.flex_flow = "row wrap"
        else:
            self.layout.flex_flow = "row"
            fields.layout = {"flex_flow": "column", "width": "34%"}
            self.panel.layout.width = "65%"

    def html(self, *, is_live: bool) -> str:
        """Return what is drawn, live or without a kernel; errors are shown in its place."""
        raise NotImplementedError

    def _draw(self, _: Any = None) -> None:
        self.panel.html = or_problem(self.html, is_live=True)

    def static(self) -> str:
        return f"<p>Run the cell to change it.</p>{or_problem(self.html, is_live=False)}"


def dropdown(
    name: str, options: Mapping[Any, str], changed: Callable[..., None]
) -> ipywidgets.Dropdown:
    """Return a list of choices, value -> text, that calls `changed` when the reader chooses."""
    control = ipywidgets.Dropdown(
        description=name,
        style={"description_width": "initial"},
        layout={"width": "auto", "max_width": "22em", "min_width": "0"},
    )
    offer(control, options, next(iter(options), None))
    # After the first choice, which is not the reader's.
    control.observe(changed, "value")
    return control


def offer(control: ipywidgets.Dropdown, options: Mapping[Any, str], default: Any) -> None:
    """Offer other choices, value -> text, and keep the value if possible; hide a list of one."""
    value = control.value if control.value in options else default
    control.options = [(text, choice) for choice, text in options.items()]
    control.value = value
    control.layout.display = None if len(options) > 1 else "none"


def text_area(name: str, text: str, rows: int = 2) -> ipywidgets.Textarea:
    """Return a field for text with its name above it."""
    return ipywidgets.Textarea(
        text,
        description=name,
        rows=rows,
        style={"description_width": "initial"},
        layout={"width": "98%", "flex_flow": "column"},
    )


def value_of(name: str) -> property:
    """Return a property that reads and sets the value of a view's control.

    Setting it to a value without a choice raises TraitError.
    """
    return property(
        lambda view: view.controls[name].value,
        lambda view, value: setattr(view.controls[name], "value", value),
    )


def or_problem(draw: Callable[..., str], *values: Any, **options: Any) -> str:
    """Return what `draw` draws, or HTML that says why it cannot."""
    try:
        return draw(*values, **options)
    except Exception as problem:  # a user's own encoder may raise anything
        return problem_html(problem)
