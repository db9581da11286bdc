"""Equations to try: controls, and a table or figure that follows their values."""

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets
import plotly.graph_objects as go

from workbench.errors import WorkbenchError
from workbench.views._html import framed, grid, inlined, paragraph, problem_html


class Mechanism(ipywidgets.VBox):
    """`controls` by name, and below them a drawing that follows their values."""

    def __init__(self, draw: Callable[..., Any], figure: go.FigureWidget | None = None, **controls: Any) -> None:
        """Show what `draw` returns for the values of the controls.

        Args:
            draw: Takes a value for each control and returns a sentence and a table of numbers; or changes the `figure`
                and returns a sentence, for notebooks without a kernel. A ValueError or WorkbenchError is shown.
            figure: Shown instead of a table.
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
        super().__init__([row, figure or self.drawing])
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
