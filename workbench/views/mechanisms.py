"""Equations to try: controls, and a table or figure that follows their values."""

from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from workbench.errors import WorkbenchError
from workbench.views._html import framed, grid, inlined, paragraph, problem_html
from workbench.views._style import COLOURS, laid_out

_CORPUS = np.array([[0.36, 0.62], [0.62, 0.66], [0.5, 0.36]])  # a, b, c


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


def explore_rank_plane() -> Mechanism:
    """Show RankEncoder figure 3: a sentence x moves among the sentences a, b, c of a corpus in a plane.

    The colour of a place is the similarity of its rank vector to that of x (eqs. 2 to 4). Places of one area have one
    rank vector; at its borders two sentences of the corpus change their order.
    """
    side = np.linspace(0, 1, 101)
    places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    scale = {"colorscale": [COLOURS[1], "white", COLOURS[0]], "zmid": 0, "zmin": -1, "zmax": 1}
    areas = go.Heatmap(x=side, y=side, **scale, colorbar_title="similarity", hovertemplate="%{z:.2f}<extra></extra>")
    marker = {"size": 12, "color": ["black"] * 3 + [COLOURS[4]], "line": {"color": "black", "width": 1}}
    names = {"text": [*"abc", "x"], "textposition": "top right", "textfont": {"size": 16, "color": "black"}}
    dots = go.Scatter(mode="markers+text", **names, marker=marker, hoverinfo="skip")
    figure = go.FigureWidget(laid_out(go.Figure([areas, dots]), "x", height=560))
    figure.update_xaxes(range=[0, 1], visible=False, constrain="domain")
    figure.update_yaxes(range=[0, 1], visible=False, constrain="domain", scaleanchor="x")

    def draw(across: float = 0.4, up: float = 0.5) -> str:
        import torch

        from workbench.ranks import rank_vectors

        distances = ((np.vstack([[across, up], places])[:, None] - _CORPUS) ** 2).sum(axis=2)
        ranks = rank_vectors(torch.tensor(-distances)).numpy()
        order = ", ".join("abc"[place] for place in distances[0].argsort())
        # Not in a batch: it would give the dots' coordinates to the areas too.
        figure.update_layout(title_text=f"x sees, nearest first: {order}")
        figure.data[0].z = (ranks[1:] @ ranks[0]).reshape(len(side), -1).round(6).tolist()
        figure.data[1].update(x=[*_CORPUS[:, 0], across], y=[*_CORPUS[:, 1], up])
        return f"x at {across:.2f}, {up:.2f} sees, nearest first: {order}."

    return Mechanism(draw, figure, across=(0, 1, 0.02), up=(0, 1, 0.02))
