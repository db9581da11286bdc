"""What a process that has loaded everything does with a notebook: a cell of `workbench.sweeps._warm.Warm`."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from workbench.headless import execute
from workbench.sweeps._warm import Warm

# What a look at runs loads: no torch.
LOOKS = [
    *("forked", "papermill", "ipykernel.ipkernel", "plotly.graph_objects", "scipy.stats", "anywidget"),
    *("sklearn.feature_extraction.text", "workbench.look.comparison", "workbench.look.paper_figures"),
    *("workbench.look.explorer", "workbench.look.run_picker", "workbench.look.pair_explorer"),
    "workbench.sweeps._prepared",
]


def warm(log: Path, loads: Sequence[str] = LOOKS) -> Warm:
    """The process that forks; its cells are told what `main` takes."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return Warm(log, {"PYTHONPATH": path}, loads=loads, cell="forked")


def main(told: str) -> None:
    """Executes the notebook "in" into "out" with "parameters"."""
    given = json.loads(told)
    execute(Path(given["in"]), Path(given["out"]), given["parameters"])
