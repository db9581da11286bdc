"""What a process that has loaded everything does to execute a notebook: a cell of `workbench.sweeps._warm.Warm`."""

import json
from pathlib import Path

from workbench.headless import execute

# What a look at runs loads: no torch.
LOADS = [
    *("papermill", "ipykernel.kernelapp", "ipykernel.ipkernel", "plotly.graph_objects", "scipy.stats", "anywidget"),
    *("sklearn.feature_extraction.text", "workbench.look.comparison", "workbench.look.paper_figures"),
    *("workbench.look.explorer", "workbench.look.run_picker", "workbench.look.pair_explorer", "workbench.headless"),
    *("workbench.sweeps._prepared", "executed_notebook"),
]


def main(arguments: str) -> None:
    """Executes the notebook "in" into "out"."""
    given = json.loads(arguments)
    execute(Path(given["in"]), Path(given["out"]), given["parameters"])
