"""Drawings of a notebook that change: equations that follow their controls, and the curve of a training."""

from collections.abc import Callable
from contextlib import suppress
from html import escape
from typing import Any

import ipywidgets
import pandas as pd
import plotly.graph_objects as go
from IPython.display import display

from workbench.errors import RunError, WorkbenchError
from workbench.runs import Run
from workbench.views._style import framed, grid, inlined, paragraph, problem_html
from workbench.views.figures import training_curve

_GAP = '<div style="height: 380px"></div>'  # of the height of a figure


class Mechanism(ipywidgets.VBox):
    """`controls` by name, and below them a drawing that follows their values."""

    def __init__(self, draw: Callable[..., Any], figure: go.FigureWidget | None = None, **controls: Any) -> None:
        """Show what `draw` returns for the values of the controls.

        Args:
            draw: Takes a value for each control and returns a sentence and a table of numbers; or changes the `figure`
                and returns a sentence. A ValueError or WorkbenchError is shown.
            figure: Shown below the sentence, instead of a table.
            controls: Widgets, or abbreviations as of `ipywidgets.interact`, which begin at the defaults of `draw`.
        """
        made: Any = ipywidgets.interactive(draw, **controls).kwargs_widgets
        self.controls = {control.description: control for control in made}
        self._draw, self._figure, self.drawing = draw, figure, ipywidgets.HTML()
        for name, control in self.controls.items():
            control.description, control.layout.width = name.replace("_", " "), "26em"
            control.style.description_width = "initial"
            if isinstance(control, ipywidgets.FloatSlider):
                control.readout_format = ".3f"
            control.observe(self._update, "value")
        row = ipywidgets.HBox(made, layout={"flex_flow": "row wrap"})
        super().__init__([row, self.drawing, *([figure] if figure else [])])
        self.add_class("workbench-mechanism")
        self._update()

    def _update(self, _: Any = None) -> None:
        try:
            drawn = self._draw(**{name: control.value for name, control in self.controls.items()})
            text, *tables = (drawn,) if isinstance(drawn, str) else drawn
            html = framed(paragraph(escape(text)), *(grid(table, 1.0, "{:.3f}".format) for table in tables))
        except (ValueError, WorkbenchError) as problem:
            html = problem_html(problem)
        self.drawing.value = inlined(html)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        shown: Any = super()._repr_mimebundle_(**kwargs)
        figure: Any = go.Figure(self._figure)._repr_mimebundle_() if self._figure else {}
        static = f"<p>Run the cell to change the numbers.</p>{self.drawing.value}"
        return {**figure, **shown, "text/html": static}


class LiveCurve:
    """A callback of `fit` that draws dev and the loss terms each time dev is measured, in one output of the cell."""

    def __init__(self, run: Run | None = None, label: str = "run") -> None:
        """Show the history of a run, which its training continues; `label` names the curves."""
        self.label, self._rows = label, []
        with suppress(RunError):  # it has no history yet
            self._rows = run.history().to_dict("records") if run is not None else []
        self._output = display(self, display_id=True)

    def __call__(self, row: dict[str, Any]) -> None:
        """Add a row of the history. It replaces rows of the same or later steps, from before an interruption."""
        self._rows = [old for old in self._rows if old["step"] < row["step"]] + [row]
        if self._output is not None and ("dev_spearman" in row or len(self._rows) % 10 == 0):
            # plotly's renderer in JupyterLab draws once and ignores later updates. A new one begins after an output of
            # another kind: a gap of the figure's height, so that nothing below it jumps.
            self._output.update({"text/html": _GAP, "text/plain": ""}, raw=True)
            self._output.update(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        rows = pd.DataFrame(self._rows, columns=None if self._rows else ["step"])
        # A plotly figure that shows itself would be a new output each time, which nothing could replace.
        return training_curve({self.label: rows}, terms=True)._repr_mimebundle_()

    def __repr__(self) -> str:
        return f"LiveCurve of {len(self._rows)} rows; a notebook shows it as a figure"
