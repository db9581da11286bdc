"""The curve of a training while it runs: one figure, drawn again at each measurement."""

from contextlib import suppress
from typing import Any

import pandas as pd

from workbench.errors import RunError
from workbench.runs import Run
from workbench.views.figures import training_curve

_GAP = '<div style="height: 380px"></div>'


class LiveCurve:
    """A callback of `fit`: shows dev and the loss terms where it is made, and draws them anew when dev is measured.

    It is one output of the cell, which a front end replaces and a notebook keeps as it was last. What the run has so
    far stands there first, all of a finished one: a kernel that was restarted shows the same curve.
    """

    def __init__(self, run: Run | None = None, label: str = "run") -> None:
        """run: whose history the training goes on with. label: of the curves."""
        from IPython.display import display

        self.label, self._rows = label, []
        with suppress(RunError):  # it has none yet
            self._rows = run.history().to_dict("records") if run is not None else []
        self._shown = display(self, display_id=True)

    def __call__(self, row: dict[str, Any]) -> None:
        """Takes one row of the history. Rows of later steps, from before a kill, give way to it."""
        while self._rows and self._rows[-1]["step"] >= row["step"]:
            self._rows.pop()
        self._rows.append(row)
        if self._shown is not None and ("dev_spearman" in row or len(self._rows) % 10 == 0):
            # plotly's renderer in JupyterLab draws once and ignores what comes later; a new one begins where another
            # kind of output stood, here a gap of the figure's height, so that nothing below it jumps.
            self._shown.update({"text/html": _GAP, "text/plain": ""}, raw=True)
            self._shown.update(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        rows = pd.DataFrame(self._rows, columns=None if self._rows else ["step"])
        # Shown by itself, plotly's figure would make an output of its own each time, which nothing could replace.
        return training_curve({self.label: rows}, terms=True)._repr_mimebundle_()

    def __repr__(self) -> str:
        return f"LiveCurve of {len(self._rows)} rows; a notebook shows it as a figure"
