"""What notebooks show next to figures: tables, drawings, equations that follow their controls.

Also slides and a handout of a notebook."""

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets
import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio
from IPython.core.getipython import get_ipython
from IPython.display import HTML, display
from pandas import DataFrame
from pandas.api.types import is_numeric_dtype

from workbench.errors import DataError, RunError, first_problem
from workbench.files import Facts
from workbench.metrics import metrics_table
from workbench.notebook import (  # noqa: F401 - `views` shows them with its own
    check_parameters,
    open_run,
    runs_folder,
    without_links,
)
from workbench.runs import Run
from workbench.systems import metrics_of
from workbench.views._plot import HEIGHT, figure_theme
from workbench.views._style import read_part, render, svg_image
from workbench.views._table import Panel, TypedView
from workbench.views.export import FigureRenderer, notebook_html, script_html, write_page
from workbench.views.figures import training_curve

_ROWS = 200  # of a longer table its two ends: a page with all the pairs of a run would be megabytes
_GAP = f'<div style="height: {HEIGHT + 33}px"></div>'  # of the height of a figure


def show_tables() -> None:
    """Show this notebook's tables with whole texts, aligned left, markup and dollars as they are.

    Without a front end, as under papermill, figures are written as HTML too, and the script that
    draws them once, 2 MB, so that `jupyter nbconvert --to html` shows them without a network. The
    environment variable PLOTLY_RENDERER=plotly_mimetype leaves both out.

    Example:
        show_tables()  # once, in the first cell; then each table that ends a cell is shown so
    """
    pio.templates["workbench"] = figure_theme()
    pio.templates.default = "workbench"
    # Figures follow the width of their place, such as in the mode of a projector.
    pio.renderers["plotly_mimetype"].config = {"responsive": True}
    # Of papermill and nbconvert, which no JupyterLab watches: their pages draw no figure of plotly.
    is_batch = {"JPY_SESSION_NAME", "PLOTLY_RENDERER"}.isdisjoint(os.environ)
    if is_batch and pio.renderers.default == "plotly_mimetype":
        pio.renderers["workbench"] = FigureRenderer()
        pio.renderers.default = "plotly_mimetype+workbench"
        display(HTML(script_html()))
    # Outside of IPython, as in a test of a notebook's code, tables are printed as usual.
    shell: Any = get_ipython()
    if shell:
        shell.display_formatter.formatters["text/html"].for_type(DataFrame, table_html)


def projector(theme: str = "auto") -> Panel:
    """Show this notebook as a class can read it from the fifth row; "off" takes it back.

    Outputs, tables, widgets and figures get text of 20 pixels or more, at the full width, in black
    on white or white on black. Called once, it applies to every cell, earlier and later ones, until
    a later call or until its own output is removed. Ctrl+B hides the files on the left.

    Args:
        theme: "light", "dark", "auto", which follows JupyterLab, or "off".

    Example:
        projector()  # in a cell of its own
    """
    return Panel(html=render("projector.html", theme=theme))


def table_html(table: DataFrame) -> str:
    """Return the table as HTML, of more than 200 rows the two ends.

    An index with a name is a column."""
    has_name = table.index.name is not None and table.columns.nlevels == 1
    if has_name:
        # In the corner: pandas gives the name of an index a row of its own.
        table = table.rename_axis(index=None, columns=table.index.name)
    table = table.mask(table.isna())  # None would be a word
    formatters: Any = [None if is_numeric_dtype(kind) else _text_cell for kind in table.dtypes]
    # Cells are escaped by `_text_cell`, which pandas would escape again.
    with pd.option_context("display.max_colwidth", None):
        names = table.rename_axis(index=_escaped, columns=_escaped)
        html = names.rename(index=_escaped, columns=_escaped).to_html(
            bold_rows=not has_name,
            formatters=formatters,
            max_rows=_ROWS,
            escape=False,
            classes="mathjax_ignore",
            na_rep="",
            show_dimensions="truncate",
        )
    # A difference that rounds to nothing has no sign.
    html = re.sub(r"<td>-(0\.0+)<", r"<td>\1<", html)
    caption = table.attrs.get("caption")
    return f"{html}<p>{escape(caption)}</p>" if caption else html


def _escaped(name: Any) -> Any:
    return _text_cell(name) if isinstance(name, str) else name


def _text_cell(value: Any) -> str:
    text = "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)
    # A short name stays in one line; a sentence wraps, so that eight columns fit on a laptop.
    room = "min-width:9em;overflow-wrap:anywhere" if len(text) > 20 else "white-space:nowrap"
    return f'<div dir="auto" style="text-align:left;{room}">{escape(text)}</div>'


def score_table(evaluations: Mapping[str, Any]) -> DataFrame:
    """Return suite, Spearman, KCC and NDCG x 100 of evaluations, a row for each label and suite.

    Args:
        evaluations: label -> a `Report` or a finished `Run`.

    Example:
        score_table({"before": before, "SimCSE": run})
    """
    tables = {label: metrics_table(metrics_of(one)) for label, one in evaluations.items()}
    return pd.concat(tables).droplevel(1).round(2)


def dev_table(history: DataFrame, *columns: str) -> DataFrame:
    """Return a row for each measurement of dev: step, loss, `columns`, Spearman x 100, seconds.

    Example:
        dev_table(run.history(), "epoch")
    """
    shown = history.reindex(columns=["step", "loss", *columns, "dev_spearman", "seconds"])
    shown = shown.dropna(subset="dev_spearman").set_index("step").round(4)
    shown["dev_spearman"] = (100 * shown["dev_spearman"]).round(2)
    return shown.rename(columns={"dev_spearman": "Spearman on dev x 100"})


class Mechanism(TypedView):
    """`controls` by name, and below them a drawing that follows their values."""

    # The annotation is a text, since the import of `FigureWidget` takes a tenth of all imports.
    def __init__(
        self, draw: Callable[..., Any], figure: "go.FigureWidget | None" = None, **controls: Any
    ) -> None:
        """Show what `draw` returns for the values of the controls.

        Args:
            draw: Takes a value for each control and returns a sentence and a table of numbers; or
                changes the `figure` and returns a sentence. An error is shown.
            figure: Shown below the sentence, instead of a table.
            controls: Widgets, or abbreviations as of `ipywidgets.interact`, which begin at the
                defaults of `draw`.

        Example:
            Mechanism(lambda step=1: f"The step is {step}.", step=(1, 9))
        """
        self._compute = draw
        self._figure = figure
        # Only for its widgets: it would draw into an output, which a page does not keep.
        made = ipywidgets.interactive(draw, **controls).kwargs_widgets
        super().__init__({control._kwarg: control for control in made}, is_row=True)
        for control in made:
            # The name is that of the argument; the reader sees words.
            control.description = control.description.replace("_", " ")
            control.layout.width = "26em"
            control.style.description_width = "initial"
            if isinstance(control, ipywidgets.FloatSlider):
                control.readout_format = ".3f"
        if figure:
            self.children = [*self.children, figure]
        self.add_class("workbench-mechanism")

    def html(self, *, is_live: bool) -> str:
        values = {name: control.value for name, control in self.controls.items()}
        return render("mechanism.html", drawn=self._compute(**values))

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle, metadata = super()._repr_mimebundle_(**kwargs)
        if self._figure:
            # Without a kernel a page draws the figure of today, not the widget.
            bundle = {**go.Figure(self._figure)._repr_mimebundle_(), **bundle}
        return bundle, metadata


class LiveCurve:
    """A callback of `fit` that draws dev and the loss terms, in one output that is replaced.

    It is drawn when dev is measured, and every second.

    Example:
        history = fit(method, train, dev=dev, run=run, callbacks=[LiveCurve(run, "SimCSE")])
    """

    def __init__(self, run: Run | None = None, label: str = "run") -> None:
        """Show the history of a run, which its training continues; `label` names the curves."""
        self.label = label
        self._rows = []
        self._keeps_start = bool(run and run.facts()["settings"].get("keep_start"))
        if run:
            with suppress(RunError):  # it has no history yet
                self._rows = run.history().to_dict("records")
        self._output = display(self, display_id=True)
        self._drawn = time.monotonic()

    def __call__(self, row: Facts) -> None:
        """Add a row of the history.

        It replaces rows of the same or later steps, from before an interruption."""
        earlier = [old for old in self._rows if old["step"] < row["step"]]
        self._rows = [*earlier, row]
        # A drawing takes about 60 ms, as long as several steps of a small encoder, and longer the
        # more there is to draw.
        now = time.monotonic()
        is_due = (
            "dev_spearman" in row
            or len(self._rows) < 3
            or now > self._drawn + max(1, len(self._rows) / 100)
        )
        if self._output and is_due:
            self._drawn = now
            # plotly's renderer in JupyterLab draws once and ignores later updates. A new one begins
            # after an output of another kind: a gap of the figure's height, so that nothing below
            # it jumps.
            self._output.update({"text/html": _GAP, "text/plain": ""}, raw=True)
            self._output.update(self)

    def _repr_mimebundle_(self, **_: Any) -> Facts:
        if not self._rows:
            # A figure without data would be an empty place.
            return {"text/html": "", "text/plain": ""}
        rows = DataFrame(self._rows)
        rows.attrs["keep_start"] = self._keeps_start
        figure = training_curve({self.label: rows}, terms=True)
        losses = rows.filter(["loss"]).count().sum()
        if losses < 2:  # too few for a line
            figure.update_traces(mode="markers", selector={"mode": "lines"})
            figure.update_layout(yaxis2_visible=bool(losses))
        # The bundle and not the figure: a plotly figure that shows itself would be a new output
        # each time, which nothing could replace.
        return figure._repr_mimebundle_()


def drawing(name: str) -> HTML:
    """Show a drawing of a method's idea; its title is the text for readers who do not see it.

    Example:
        drawing("simcse")
    """
    svg = read_part(f"drawings/{name}.svg")
    title = svg.partition("<title>")[2].partition("</title>")[0]
    return HTML(svg_image(svg, title))


def collapsible(title: str, *things: Any) -> HTML:
    """Show things one below the other, below a title that opens and closes them.

    Example:
        collapsible("Settings and folder of this run", config, run)
    """
    return HTML(render("collapsible.html", title=title, things=things))


def write_slides(notebook: Path, path: Path, *, for_teachers: bool = False) -> Path:
    """Write slides of a notebook, executed or not, and return their path.

    Each heading and each exercise begins a slide. Arrow keys, space and swipes change the slide, c
    unfolds the code, t changes between light and dark. Printed, each slide is a page.

    Args:
        notebook: Its figures are shown if it is executed.
        for_teachers: Keep what is folded, such as solutions, until it is clicked; otherwise it is
            left out, since students may get the page.

    Raises:
        DataError: The file is not a notebook.
        OSError: It cannot be read, or `path` cannot be written.

    Example:
        write_slides(Path("notebooks/10_simcse.ipynb"), Path("simcse.html"))
    """
    body = _lesson_html(notebook, for_teachers=for_teachers)
    return write_page(path, render("slides.html", body=body))


def write_handout(notebook: Path, path: Path) -> Path:
    """Write a handout of a method's notebook, at most two A4 pages in print; return its path.

    It shows the claim, the idea and its drawing, the equations, and the exercises with room for the
    answers: no solution, and of the code only what a student completes. Raises as `write_slides`.

    Example:
        write_handout(Path("notebooks/10_simcse.ipynb"), Path("simcse-handout.html"))
    """
    # Its script chooses among the parts.
    return write_page(path, render("handout.html", body=_lesson_html(notebook)))


def _lesson_html(notebook: Path, *, for_teachers: bool = False) -> str:
    """Return the cells of a notebook as HTML, without what is folded, unless it is for teachers."""
    # This takes a second to import, which views of a notebook do without.
    import nbformat

    try:
        content = nbformat.read(notebook, 4)
    except OSError:
        raise
    except Exception as problem:  # nbformat and its checks raise many kinds
        raise DataError(f"{notebook} is no notebook: {first_problem(problem)}") from None
    for cell in content.cells:
        if cell.cell_type == "markdown":
            cell.source = without_links(cell.source)
        elif name := re.search(r'views\.drawing\("(\w+)"\)', cell.source):
            # In the place of code that may not have run, and that is hidden in the notebook.
            cell.cell_type = "markdown"
            cell.metadata.clear()
            cell.source = drawing(name[1]).data
    html = notebook_html(content, "basic")
    # Removed and not hidden: students get the file.
    # nbgrader's solutions are between two lines of code.
    solutions = (
        "(?s)<details(?! data-text)[^>]*>(?:(?!<details).|<details.*?</details>)*?</details>"
        "|### BEGIN SOLUTION.*?### END SOLUTION"
    )
    return html if for_teachers else re.sub(solutions, "", html)
