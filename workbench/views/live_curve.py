"""The curve of a training while it runs: one figure, which is drawn again at each measurement."""

from contextlib import suppress
from typing import Any

import pandas as pd
from IPython.display import display

from workbench.errors import RunError
from workbench.runs import Run
from workbench.views.figures import training_curve

_GAP = '<div style="height: 380px"></div>'


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
