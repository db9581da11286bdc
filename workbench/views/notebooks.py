"""What notebooks show next to figures: tables, equations that follow their controls, a training's
curve; as a page."""

import ast
import base64
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

import ipywidgets
import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio
from IPython.core.getipython import get_ipython
from IPython.display import HTML, display
from pandas.api.types import is_numeric_dtype

from workbench.config import read_parameter
from workbench.errors import RunError, SettingError, unknown_name
from workbench.files import project_path
from workbench.metrics import metrics_table
from workbench.runs import Run
from workbench.views._style import figure_theme, framed, grid, paragraph
from workbench.views._table import TypedView
from workbench.views.figures import training_curve

_ROWS = 200  # of a longer table its two ends: a page with all the pairs of a run would be megabytes
_EQUATION = re.compile(r"(\$\$?)([^$]+)\1")
_FIGURE = "application/vnd.plotly.v1+json"
# Tables and figures before a widget's own view, which a page could only draw with a network.
_ORDER = ["text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain"]
_DRAWINGS = Path(__file__).parent / "drawings"
_GAP = '<div style="height: 380px"></div>'  # of the height of a figure


def show_tables() -> None:
    """Show tables of this notebook with whole texts, aligned left, markup and dollars as they
    are."""
    pio.templates["workbench"] = figure_theme()
    pio.templates.default = "workbench"
    shell: Any = get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, table_html)


def table_html(table: pd.DataFrame) -> str:
    """Return the table as HTML, of more than 200 rows the two ends; an index with a name is a
    column."""
    if named := table.index.name is not None and table.columns.nlevels == 1:
        table = table.set_axis(table.columns.astype(object).rename(None), axis=1).reset_index(
            allow_duplicates=True
        )
    formatters: Any = [None if is_numeric_dtype(kind) else _text_cell for kind in table.dtypes]
    with pd.option_context("display.max_colwidth", None):
        html = table.rename(index=_escaped, columns=_escaped).to_html(
            index=not named,
            formatters=formatters,
            max_rows=_ROWS,
            escape=False,
            classes="mathjax_ignore",
            na_rep="",
            show_dimensions="truncate",
        )
    html = re.sub(r"<td>-(0\.0+)<", r"<td>\1<", html)
    if caption := table.attrs.get("caption"):
        html += f"<p>{escape(caption)}</p>"
    return html


def _escaped(name: Any) -> Any:
    return _text_cell(name) if isinstance(name, str) else name


def _text_cell(value: Any) -> str:
    text = "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)
    room = "min-width:12em;overflow-wrap:anywhere" if len(text) > 30 else "white-space:nowrap"
    return f'<div style="text-align:left;{room}">{escape(text)}</div>'


def score_table(evaluations: Mapping[str, Any]) -> pd.DataFrame:
    """Return suite, Spearman, KCC, NDCG x 100 of evaluations, a row for each label and suite.

    evaluations: label -> a `Report` or a finished `Run`.
    """
    tables = {}
    for label, one in evaluations.items():
        metrics = one.metrics() if isinstance(one, Run) else one.metrics
        tables[label] = metrics_table(metrics)
    return pd.concat(tables).droplevel(1).round(2)


def dev_table(history: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return step, loss, `columns` of the history, Spearman on dev x 100 and seconds of each
    measurement of dev."""
    shown = history.reindex(columns=["step", "loss", *columns, "dev_spearman", "seconds"])
    shown = shown.dropna(subset=["dev_spearman"]).set_index("step").round(4)
    shown["dev_spearman"] = (100 * shown["dev_spearman"]).round(2)
    return shown.rename(columns={"dev_spearman": "Spearman on dev x 100"})


class Mechanism(TypedView):
    """`controls` by name, and below them a drawing that follows their values."""

    settable = ()

    def __init__(
        self, draw: Callable[..., Any], figure: go.FigureWidget | None = None, **controls: Any
    ) -> None:
        """Show what `draw` returns for the values of the controls.

        Args:
            draw: Takes a value for each control and returns a sentence and a table of numbers; or
                changes the `figure` and returns a sentence. An error is shown.
            figure: Shown below the sentence, instead of a table.
            controls: Widgets, or abbreviations as of `ipywidgets.interact`, which begin at the
                defaults of `draw`.
        """
        self._compute = draw
        self._figure = figure
        made: Any = ipywidgets.interactive(draw, **controls).kwargs_widgets
        super().__init__({control.description: control for control in made})
        for control in made:
            control.description = control.description.replace("_", " ")
            control.layout.width = "26em"
            control.style.description_width = "initial"
            if isinstance(control, ipywidgets.FloatSlider):
                control.readout_format = ".3f"
        self.panel.layout.width = "100%"
        row = ipywidgets.HBox(made, layout={"flex_flow": "row wrap"})
        self.children = [row, self.panel, figure] if figure else [row, self.panel]
        self.add_class("workbench-mechanism")

    def html(self, *, is_static: bool) -> str:
        drawn = self._compute(**{name: control.value for name, control in self.controls.items()})
        text, *tables = (drawn,) if isinstance(drawn, str) else drawn
        return framed(
            paragraph(escape(text)), *(grid(table, 1.0, "{:z.3f}".format) for table in tables)
        )

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle, metadata = super()._repr_mimebundle_(**kwargs)
        figure: Any = go.Figure(self._figure)._repr_mimebundle_() if self._figure else {}
        return {**figure, **bundle}, metadata


class LiveCurve:
    """A callback of `fit` that draws dev and the loss terms when dev is measured and every second,
    in one output."""

    def __init__(self, run: Run | None = None, label: str = "run") -> None:
        """Show the history of a run, which its training continues; `label` names the curves."""
        self.label = label
        self._config: Any = run and run.config
        self._rows: list[dict[str, Any]] = []
        if run:
            with suppress(RunError):  # it has no history yet
                self._rows = run.history().to_dict("records")
        self._output = display(self, display_id=True)
        self._drawn = time.monotonic()

    def __call__(self, row: dict[str, Any]) -> None:
        """Add a row of the history. It replaces rows of the same or later steps, from before an
        interruption."""
        self._rows = [old for old in self._rows if old["step"] < row["step"]] + [row]
        # A drawing takes about 60 ms, as long as several steps of a small encoder.
        is_due = "dev_spearman" in row or len(self._rows) < 3 or time.monotonic() > self._drawn + 1
        if self._output is not None and is_due:
            self._drawn = time.monotonic()
            # plotly's renderer in JupyterLab draws once and ignores later updates. A new one begins
            # after an output of another kind: a gap of the figure's height, so that nothing below
            # it jumps.
            self._output.update({"text/html": _GAP, "text/plain": ""}, raw=True)
            self._output.update(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        rows = pd.DataFrame(self._rows or {"step": []})
        figure = training_curve({self.label: rows}, terms=True)
        if self._config:  # all its steps from the start
            known = [
                self._config.epochs * row["step"] / row["epoch"]
                for row in self._rows
                if row.get("epoch", 0) > 0
            ]
            steps = self._config.max_steps or max(known, default=0)
            figure.update_xaxes(range=[-0.02 * steps, 1.02 * steps] if steps else None)
        losses = rows["loss"].count() if "loss" in rows else 0
        if losses < 2:  # too few for a line
            figure.update_traces(mode="markers", selector={"mode": "lines"})
            figure.update_layout(yaxis2_visible=bool(losses))
        # A plotly figure that shows itself would be a new output each time, which nothing could
        # replace.
        return figure._repr_mimebundle_()


def export_html(notebook: Path) -> Path:
    """Write `notebook` as one HTML file in its folder that needs no network, and return its path.

    The script that draws plotly's figures goes into the page once; equations become MathML.
    """
    import nbformat
    from latex2mathml.converter import convert
    from nbconvert import HTMLExporter
    from plotly.io import to_html
    from traitlets.config import Config

    displays = {"$": "inline", "$$": "block"}
    content = nbformat.read(notebook, as_version=4)
    content.metadata.pop("widgets", None)  # widgets have a view in HTML, too
    for cell in content.cells:
        cell.metadata["transient"] = {
            "remove_source": cell.metadata.get("jupyter", {}).get("source_hidden", False)
        }
        if cell.cell_type == "markdown":
            cell.source = _EQUATION.sub(
                lambda found: convert(found[2], display=displays[found[1]]), cell.source
            )
    is_first = True
    for output in chain.from_iterable(cell.get("outputs", []) for cell in content.cells):
        if _FIGURE in (data := output.get("data", {})):
            data["text/html"] = to_html(
                data[_FIGURE], full_html=False, include_plotlyjs=is_first, validate=False
            )
            is_first = False
    config = Config({"NbConvertBase": {"display_data_priority": _ORDER}})
    exporter = HTMLExporter(config=config, exclude_input_prompt=True, exclude_output_prompt=True)
    # nbconvert loads require.js and MathJax from a network; nothing in our notebooks uses them.
    page = re.sub(
        r'<script src="https://[^"]*">\s*</script>', "", exporter.from_notebook_node(content)[0]
    )
    target = notebook.with_suffix(".html")
    target.write_text(page, encoding="utf-8")
    return target


def drawing(name: str) -> HTML:
    """Show one of the drawings of the methods' ideas; its title is the text for readers who do not
    see it."""
    svg = (_DRAWINGS / f"{name}.svg").read_text(encoding="utf-8")
    data = base64.b64encode(svg.encode()).decode()
    title = svg.partition("<title>")[2].partition("</title>")[0]
    # As an image: front ends remove drawings from HTML.
    return HTML(
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(title)}" style="max-width:100%">'
    )


def open_run(config_class: type[Any], namespace: dict[str, Any]) -> tuple[Any, Run]:
    """Return the settings of a method's notebook, from its parameters in `globals()`, and its run,
    opened."""
    check_parameters(namespace)
    namespace["runs_root"] = root = runs_folder(namespace["runs_root"])
    overrides = read_parameter("overrides", namespace["overrides"], dict[str, Any])
    if "base_root" in config_class.model_fields:
        overrides.setdefault("base_root", root)
    config = config_class.from_parameters(namespace["profile"], namespace["seed"], overrides)
    return config, Run.open(config, root)


def folded(title: str, *things: Any) -> HTML:
    """Show things one below the other, folded under a title."""
    html = ""
    for thing in things:
        draw = getattr(thing, "_repr_html_", None)
        html += (draw and draw()) or f"<pre>{escape(str(thing))}</pre>"
    return HTML(f"<details><summary>{escape(title)}</summary>{html}</details>")


def check_parameters(namespace: dict[str, Any]) -> None:
    """Read papermill's parameters as the kinds of their defaults; raise SettingError for one that
    is not declared.

    Called as `check_parameters(globals())` in the first cell after the parameters: `papermill -p
    sead 3` would otherwise only warn and train seed 0, and `-p before false` be a text, which is
    true. Without papermill nothing is changed."""
    declared = injected = dict[str, str]()
    for cell in namespace.get("In", []):
        assigned = dict(re.findall(r"^(\w+) = (.*)", cell, re.MULTILINE))
        if cell.startswith("# Parameters\n"):
            injected = assigned
        elif not injected:
            declared = declared | assigned
    for name in injected if declared else ():
        if name not in declared:
            raise SettingError(unknown_name("parameter", name, declared, "in this notebook"))
        try:
            kind = type(ast.literal_eval(declared[name]))
        except (ValueError, SyntaxError):
            continue  # the default is not a literal of one line
        value = namespace.get(name)
        is_number = kind in (int, float) and not isinstance(value, str)
        if value is not None and not is_number:  # 0.5 in place of a default of 0 is right
            namespace[name] = read_parameter(name, value, kind)


def runs_folder(runs_root: str | Path = "../runs") -> str:
    """Return the absolute path of a notebook's parameter `runs_root`.

    A path that begins with ".." is relative to the notebook's folder. papermill starts kernels in
    its own working directory, so in a checkout it is resolved from notebooks/ there."""
    path, notebooks = Path(runs_root).expanduser(), project_path("notebooks")
    # A kernel of JupyterLab works in its notebook's own folder.
    is_live = os.environ.get("JPY_SESSION_NAME")
    if (
        not is_live
        and path.parts[:1] == ("..",)
        and (notebooks.parent / "pyproject.toml").is_file()
    ):
        path = notebooks / path
    return str(path.resolve())
