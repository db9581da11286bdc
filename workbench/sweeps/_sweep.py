"""A sweep on disk, and how its cells are run on this machine, several processes at a time.

The state of each cell is read from its run's folder, never stored.
"""

import contextlib
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import filelock
import pandas as pd
import pydantic

from workbench.config import TrainingConfig, setting_text
from workbench.errors import BusyRunError, RunError, SettingError
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
        content: _Content = read_json(self.folder / _FILE, pydantic.TypeAdapter(_Content))
        self.cells, self.notebook = content.cells, content.notebook

    def path(self, cell: Cell) -> Path:
        """Return the folder of a cell's run."""
        return self.root / cell.path

    def log(self, cell: Cell) -> Path:
        """Return the file that contains everything a cell printed, over all its starts."""
        return self.folder / f"{cell.path.replace('/', '-')}.log"

    def command(self, cell: Cell) -> list[str]:
        """Return the command line that runs a cell."""
        words = [f"{name}={setting_text(value)}" for name, value in cell.overrides.items()]
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
        """Return a row of `table`; state: finished, running, failed, unfinished, waiting or unreadable."""
        path = self.path(cell)
        row = read_row(path) if (path / "config.json").exists() else {"status": "waiting"}
        state, _, problem = row["status"].partition(": ")
        if state == "finished" and self.notebook and (row["failure"] or not (path / "notebook.ipynb").is_file()):
            state = "failed" if row["failure"] else "unfinished"
        if state != "finished" and is_running(path):
            state = "running"
        row |= {"cell": cell.title, "method": cell.method, "seed": cell.seed, "path": str(path)}
        return row | {"state": state, "failure": problem or (state == "failed" and row["failure"]) or ""}

    def missing_stages(self) -> list[list[Cell]]:
        """Return the cells that are not finished: those that need no other, then those that do."""
        missing = [cell for cell in self.cells if self.read(cell)["state"] != "finished"]
        return [[cell for cell in missing if not cell.needs], [cell for cell in missing if cell.needs]]

    def table(self) -> pd.DataFrame:
        """Return a row for each cell: cell, method, seed, state, failure (of its last start), seconds, path."""
        columns = ["cell", "method", "seed", "state", "failure", "seconds", "path"]
        return pd.DataFrame(map(self.read, self.cells), columns=columns).astype({"seconds": float})


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
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
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
        raise RunError(f"{len(near)} sweeps under {runs_root} begin with {name!r} (known: {', '.join(sweeps)})")
    return sweeps[near[0]]


def summarize(table: pd.DataFrame) -> str:
    """Return the number of cells in each state of `Sweep.table`, as text."""
    states = table["state"].value_counts().items()
    return f"{len(table)} cells: {', '.join(f'{count} {state}' for state, count in states)}"


def run_here(sweep: Sweep, *, jobs: int = 0) -> None:
    """Run the missing cells, `jobs` at a time; 0: one per GPU, or one if there is no GPU.

    A cell that fails keeps its message and log; only the cells that need it are left out. However this ends, its cells
    end too, and the same call goes on where they stopped.
    """
    stages, done = sweep.missing_stages(), 0
    missing = [cell for stage in stages for cell in stage]
    environments = _environments([cell.config for cell in missing], jobs)
    free, stopped, processes = queue.SimpleQueue[dict[str, str]](), threading.Event(), set[subprocess.Popen[bytes]]()
    for environment in environments:
        free.put(environment)

    def run(cell: Cell) -> str:
        """Run a cell to its end, after another process that has its run, and return a line about it."""
        if not all(is_finished(sweep.root / need) for need in cell.needs):
            return f"left out {cell.title}: a run that it needs failed"
        started, environment, code = time.monotonic(), free.get(), BusyRunError.exit_code
        while (row := sweep.read(cell))["state"] != "finished" and code == BusyRunError.exit_code:
            if row["state"] == "running" and not stopped.wait(1):
                continue
            if stopped.is_set():
                break
            process = sweep.start(cell, **environment)
            processes.add(process)
            code = process.wait()
            processes.discard(process)
        free.put(environment)
        if row["state"] == "finished":
            return f"finished {cell.title} ({time.monotonic() - started:.0f} s)"
        return f"failed   {cell.title}: {row['failure'] or f'exit code {code}'}\n  log: {sweep.log(cell)}"

    pool = ThreadPoolExecutor(len(environments))
    try:
        for stage in stages:
            for future in as_completed([pool.submit(run, cell) for cell in stage]):
                done += 1
                print(f"[{done}/{len(missing)}] {future.result()}", flush=True)
    finally:
        stopped.set()
        interrupt(*processes)
        pool.shutdown(cancel_futures=True)


def _environments(configs: list[TrainingConfig], jobs: int) -> list[dict[str, str]]:
    """Return the environment of each worker: its own GPUs, or its share of the cores."""
    gpus = _visible_gpus() if any(config.device != "cpu" for config in configs) else []
    size = max((config.num_processes for config in configs), default=1)
    if gpus and size > len(gpus):
        raise SettingError(f"a cell has num_processes={size}, but only {len(gpus)} GPUs are visible")
    groups = [",".join(gpus[first : first + size]) for first in range(0, len(gpus) - size + 1, size)]
    own = [{"CUDA_VISIBLE_DEVICES": group} for group in groups][: jobs or None] or [{}] * max(1, jobs)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, cores // len(own))))
    return [{"OMP_NUM_THREADS": threads, **each} for each in own]


def _visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]
