"""A sweep on disk: a file with its cells. The state of each cell is read from its run's folder, never stored."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import filelock
import pandas as pd
import pydantic

from workbench.errors import RunError, SettingError
from workbench.execution import check_settings
from workbench.files import reraise_os_error, text_checksum, write_json
from workbench.runs import is_finished, is_running, read_json, read_row
from workbench.sweeps._plan import Cell

_LOG = logging.getLogger("workbench")
_FOLDER, _FILE = "sweeps", "sweep.json"


class _Content(pydantic.BaseModel):  # the part of sweep.json that is read
    cells: Annotated[list[Cell], pydantic.Field(min_length=1)]
    notebook: bool = True


class Sweep:
    """One sweep: `<runs>/sweeps/<name>/sweep.json` and a log for each cell."""

    def __init__(self, folder: str | Path) -> None:
        """Open the sweep in an existing folder. Raises RunError if it cannot be read."""
        self.folder = Path(folder)
        self.name, self.root = self.folder.name, self.folder.parent.parent
        content = read_json(self.folder / _FILE, pydantic.TypeAdapter(_Content))
        self.cells: list[Cell] = content.cells
        self.notebook: bool = content.notebook

    def path(self, cell: Cell) -> Path:
        """Return the folder of a cell's run."""
        return self.root / cell.path

    def log(self, cell: Cell) -> Path:
        """Return the file that contains everything a cell printed, over all its starts."""
        return self.folder / f"{cell.path.replace('/', '-')}.log"

    def command(self, cell: Cell) -> list[str]:
        """Return the command line that runs a cell."""
        values = {name: "none" if value is None else value for name, value in cell.overrides.items()}
        words = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in values.items()]
        options = ["--profile", cell.profile, "--seed", str(cell.seed), "--runs", str(self.root)]
        options += [] if self.notebook else ["--no-notebook"]
        return [sys.executable, "-m", "workbench", "run", cell.method, *options, "--", *words]

    def start(self, cell: Cell, **environment: str) -> subprocess.Popen[bytes]:
        """Start a cell as a process that writes to its log and ends with this one, also after kill -9."""
        with self.log(cell).open("ab") as log:
            return subprocess.Popen(
                self.command(cell),
                stdin=subprocess.PIPE,  # which `workbench run` sees closed
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, "WORKBENCH_CELL": "1"},
                start_new_session=True,  # Ctrl-C reaches the sweep alone, which then ends its cells
            )

    def read(self, cell: Cell) -> dict[str, Any]:
        """Return `runs.read_row` of a cell, with its state: finished, running, failed, unfinished or waiting."""
        path = self.path(cell)
        row = read_row(path) if (path / "config.json").exists() else {"status": "waiting"}
        state, _, problem = row["status"].partition(": ")
        if state == "finished" and self.notebook and (row["failure"] or not (path / "notebook.ipynb").is_file()):
            state = "failed" if row["failure"] else "unfinished"
        if state != "finished" and is_running(path):
            state = "running"
        return row | {"state": state, "failure": problem or (state == "failed" and row["failure"]) or ""}

    def missing_stages(self) -> list[list[Cell]]:
        """Return the cells that are not finished: those that others need, then the others."""
        missing = [cell for cell in self.cells if self.read(cell)["state"] != "finished"]
        needed = {need for cell in missing for need in cell.needs}
        stages = [[cell for cell in missing if (cell.path in needed) == first] for first in (True, False)]
        return [stage for stage in stages if stage]

    def table(self) -> pd.DataFrame:
        """Return a row for each cell: cell, method, seed, state, failure (of its last start), seconds, path."""
        rows = [
            self.read(cell)
            | {"cell": cell.title, "method": cell.method, "seed": cell.seed, "path": str(self.path(cell))}
            for cell in self.cells
        ]
        columns = ["cell", "method", "seed", "state", "failure", "seconds", "path"]
        return pd.DataFrame(rows, columns=columns).astype({"seconds": float})

    def summary(self) -> str:
        """Return the number of cells in each state, as text."""
        states = self.table()["state"].value_counts().items()
        return f"{len(self.cells)} cells: {', '.join(f'{count} {state}' for state, count in states)}"

    def _repr_html_(self) -> str:
        return self.table().drop(columns=["path"]).to_html(na_rep="", escape=True)


def open_sweep(cells: list[Cell], runs_root: str | Path, name: str, *, notebook: bool) -> Sweep:
    """Check the missing cells' settings and data; write the sweep under `runs_root`, or open that of the same cells."""
    root, paths = Path(runs_root).expanduser().resolve(), [cell.path for cell in cells]
    configs = [cell.config for cell in cells if not is_finished(root / cell.path)]
    # One for each choice of data sets and encoders: checking a set takes seconds.
    for config in {repr([c.method, c.data_sets, c.checkpoints, c.pooling]): c for c in configs}.values():
        check_settings(config)
    if Path(name).name != name:
        raise SettingError(f"{name!r} is not a name for a sweep: it becomes a folder under {root / _FOLDER}")
    methods = "-".join(dict.fromkeys(cell.method for cell in cells))
    folder = root / _FOLDER / (name or f"{methods}-{text_checksum(*sorted(paths))[:6]}")
    with reraise_os_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock"):  # the same command may be starting elsewhere
            if (folder / _FILE).exists() and {cell.path for cell in Sweep(folder).cells} != {*paths}:
                raise RunError(f"the sweep {folder} has other cells; choose another name, finished runs are shared")
            write_json(folder / _FILE, {"notebook": notebook, "cells": [asdict(cell) for cell in cells]})
    return Sweep(folder)


def interrupt(*processes: subprocess.Popen[bytes], seconds: float = 20) -> None:
    """Interrupt cells, which keep their last state; kill those that are still running after `seconds`."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + seconds
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, deadline - time.monotonic()))
        process.kill()


def list_sweeps(runs_root: str | Path = "runs") -> list[Sweep]:
    """Return every readable sweep under `runs_root`; log a warning for each other one."""
    sweeps = []
    for file in sorted((Path(runs_root).expanduser() / _FOLDER).glob(f"*/{_FILE}")):
        try:
            sweeps.append(Sweep(file.parent))
        except RunError as problem:
            _LOG.warning("left out: %s", problem)
    return sweeps


def find_sweep(name: str, runs_root: str | Path = "runs") -> Sweep:
    """Return the sweep of this name, or the only one whose name begins so. Raises RunError."""
    sweeps = {sweep.name: sweep for sweep in list_sweeps(runs_root)}
    near = [name] if name in sweeps else [each for each in sweeps if each.startswith(name)]
    if len(near) != 1:
        problem = "several sweeps begin with" if near else "there is no sweep"
        raise RunError(f"{problem} {name!r} under {runs_root} (known: {', '.join(near or sweeps) or 'none'})")
    return sweeps[near[0]]
