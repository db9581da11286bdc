"""A sweep on disk: one file with its cells. The state of each cell is read from its run's folder, never stored."""

import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pydantic

from workbench.errors import RunError, SettingError
from workbench.execution import check_settings, is_executed
from workbench.files import explained, write_json
from workbench.runs import Run, counted, failure_of, folder_of_runs, is_finished, is_running
from workbench.sweeps._plan import Cell, Spec, cells_of

_LOG = logging.getLogger("workbench")
_FOLDER, _FILE = "sweeps", "sweep.json"


class _Content(pydantic.BaseModel):
    """The part of sweep.json that is read."""

    cells: Annotated[list[Cell], pydantic.Field(min_length=1)]
    notebook: bool = True


class Sweep:
    """One sweep: `<runs>/sweeps/<name>/sweep.json` and a log per cell."""

    def __init__(self, folder: str | Path) -> None:
        """Open the sweep in an existing folder. Raises RunError if there is none."""
        self.folder = Path(folder)
        try:
            content = _Content.model_validate_json((self.folder / _FILE).read_bytes())
        except (OSError, pydantic.ValidationError) as problem:
            why = problem.errors()[0]["msg"] if isinstance(problem, pydantic.ValidationError) else problem.strerror
            raise RunError(
                f"{self.folder / _FILE} cannot be read as a sweep: {why}; remove it and start again"
            ) from None
        self.cells, self.notebook = content.cells, content.notebook
        self.root = self.folder.parent.parent

    @classmethod
    def create(cls, spec: Spec, runs_root: str | Path = "runs", name: str = "", *, notebook: bool = True) -> "Sweep":
        """Write the sweep of `spec` under `runs_root`, or open the one that is there with the same cells.

        Settings and data of the cells that are not finished are checked first. Raises SettingError, DataError, and
        RunError if a sweep of this `name` has other cells.
        """
        cells = cells_of(spec)
        root = folder_of_runs(runs_root).resolve()
        for cell in _distinct([cell for cell in cells if not is_finished(root / cell.path)]):
            check_settings(cell.config)
        if Path(name).name != name or name == "..":
            raise SettingError(f"{name!r} is not a name for a sweep: it becomes a folder under {root / _FOLDER}")
        folder = root / _FOLDER / (name or spec.title)
        if (folder / _FILE).exists() and [cell.path for cell in cls(folder).cells] != [cell.path for cell in cells]:
            raise RunError(f"the sweep {folder} has other cells; choose another name, finished runs are shared")
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            facts = {"spec": spec.model_dump(mode="json"), "notebook": notebook}
            write_json(folder / _FILE, facts | {"cells": [asdict(cell) for cell in cells]})
        return cls(folder)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    def path(self, cell: Cell) -> Path:
        """Return the folder of a cell's run."""
        return self.root / cell.path

    def log(self, cell: Cell) -> Path:
        """Return the file that holds everything a cell printed, over all its starts."""
        return self.folder / f"{cell.path.replace('/', '-')}.log"

    def command(self, cell: Cell) -> list[str]:
        """Return the command line that runs a cell."""
        values = {
            k: "none" if v is None else v if isinstance(v, str) else json.dumps(v) for k, v in cell.overrides.items()
        }
        settings = [f"{key}={value}" for key, value in values.items()]
        options = ["--profile", cell.profile, "--seed", str(cell.seed), "--runs", str(self.root)]
        options += [] if self.notebook else ["--no-notebook"]
        return [sys.executable, "-m", "workbench", "run", cell.method, *options, "--", *settings]

    def state(self, cell: Cell) -> str:
        """Return "finished", "running", "failed", "unfinished" or "waiting", read from the run's folder."""
        path = self.path(cell)
        if is_executed(path) or (is_finished(path) and not self.notebook):
            return "finished"
        if is_running(path):
            return "running"
        if failure_of(path) is not None:
            return "failed"
        return "unfinished" if (path / "config.json").exists() else "waiting"

    def table(self) -> pd.DataFrame:
        """Return a row per cell: cell, method, seed, state, failure (message of the last start), seconds, path."""
        rows = []
        for cell in self.cells:
            path, state = self.path(cell), self.state(cell)
            seconds = Run(path).facts().get("seconds") if state == "finished" else None
            why = (failure_of(path) or "") if state == "failed" else ""
            facts = {"cell": cell.title, "method": cell.method, "seed": cell.seed, "state": state}
            rows.append(facts | {"failure": why, "seconds": seconds, "path": str(path)})
        return pd.DataFrame(rows).astype({"seconds": float})

    def summary(self) -> str:
        """Return the number of cells in each state, as text."""
        states = self.table()["state"].value_counts().items()
        return f"{counted(len(self.cells), 'cell')}: {', '.join(f'{count} {state}' for state, count in states)}"

    def __repr__(self) -> str:
        return f"Sweep({str(self.folder)!r}, {self.summary()})"

    def _repr_html_(self) -> str:
        return self.table().drop(columns=["path"]).to_html(na_rep="", escape=True)


def list_sweeps(runs_root: str | Path = "runs") -> list[Sweep]:
    """Return every readable sweep under `runs_root`; log a warning for each other one."""
    sweeps = []
    for file in sorted((folder_of_runs(runs_root) / _FOLDER).glob(f"*/{_FILE}")):
        try:
            sweeps.append(Sweep(file.parent))
        except RunError as problem:
            _LOG.warning("left out: %s", problem)
    return sweeps


def find_sweep(name: str, runs_root: str | Path = "runs") -> Sweep:
    """Return the sweep of this name, or the only one whose name begins so. Raises RunError."""
    folder = folder_of_runs(runs_root) / _FOLDER
    names = [path.parent.name for path in sorted(folder.glob(f"*/{_FILE}"))]
    near = [name] if name in names else [each for each in names if each.startswith(name)]
    if len(near) != 1:
        problem = "several sweeps begin with" if near else "there is no sweep"
        raise RunError(f"{problem} {name!r} under {runs_root} (known: {', '.join(near or names) or 'none'})")
    return Sweep(folder / near[0])


def _distinct(cells: list[Cell]) -> list[Cell]:
    """Return one of all cells that read the same data sets and encoders: checking a set takes seconds."""
    kinds: dict[str, Cell] = {}
    for cell in cells:
        config: Any = cell.config
        settings = [getattr(config, name, None) for name in ("max_tokens", "pooling", "template", "device")]
        kinds[repr((cell.method, config.data_sets, config.checkpoints, config.revisions, settings))] = cell
    return list(kinds.values())
