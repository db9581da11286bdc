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
from rich.progress import track

from workbench.config import setting_text
from workbench.errors import BusyRunError, RunError, SettingError
from workbench.execution import check_settings
from workbench.files import reraise_os_error, text_checksum, write_json
from workbench.runs import Run, is_finished, is_running, read_json, read_row
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


def run_here(sweep: Sweep, *, jobs: int = 0) -> None:
    """Run the missing cells, `jobs` at a time; 0: one per GPU, or one if there is no GPU.

    A cell that fails keeps its message and log; only the cells that need it are left out. However this ends, its cells
    end too, and the same call goes on where they stopped.
    """
    stages, gpus = sweep.missing_stages(), _visible_gpus()
    jobs, count = jobs or max(1, len(gpus)), sum(map(len, stages))
    if gpus and (most := max((cell.config.num_processes for stage in stages for cell in stage), default=0)) > len(gpus):
        raise SettingError(f"a cell has num_processes={most}, but only {len(gpus)} GPUs are visible")
    workers, pool = _Workers(sweep, gpus, jobs), ThreadPoolExecutor(jobs)
    futures = (as_completed([pool.submit(workers.run, cell) for cell in stage]) for stage in stages)
    try:
        lines = (future.result() for stage in futures for future in stage)  # the next stage once one has ended
        for done, line in enumerate(track(lines, sweep.name, total=count), 1):
            print(f"[{done}/{count}] {line}")
    finally:
        workers.stopped = True
        interrupt(*workers.processes)
        pool.shutdown(cancel_futures=True)


class _Workers:
    """The processes of the cells that are running, and the GPUs that no cell is using."""

    def __init__(self, sweep: Sweep, gpus: list[str], jobs: int) -> None:
        self.sweep, self.gpu_count = sweep, len(gpus)
        threads = max(1, len(os.sched_getaffinity(0)) // jobs) if hasattr(os, "sched_getaffinity") else 1
        self.environment = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.stopped = False
        self._turn, self._free = threading.Lock(), queue.SimpleQueue[str]()
        for gpu in gpus:
            self._free.put(gpu)

    def run(self, cell: Cell) -> str:
        """Run one cell to its end, on as many GPUs as it has processes, and return a line about it."""
        started, gpus = time.monotonic(), []
        if not all(is_finished(self.sweep.root / need) for need in cell.needs):
            return f"left out {cell.title}: a run that it needs failed"
        if self.gpu_count and cell.config.device != "cpu":
            with self._turn:  # one cell at a time: two that hold half of theirs would wait for each other
                gpus = [self._free.get() for _ in range(cell.config.num_processes)]
        try:
            self._run_once(cell, {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {})
        finally:
            for gpu in gpus:
                self._free.put(gpu)
        row = self.sweep.read(cell)
        if row["state"] == "finished":
            return f"finished {cell.title} ({time.monotonic() - started:.0f} s)"
        return f"failed   {cell.title}: {row['failure'] or 'interrupted'}\n  log: {self.sweep.log(cell)}"

    def _run_once(self, cell: Cell, devices: dict[str, str]) -> None:
        """Run a cell's process to its end, after another one that has its run; record a failure that it could not."""
        code = BusyRunError.exit_code
        while code == BusyRunError.exit_code and not self.stopped:
            state = self.sweep.read(cell)["state"]
            if state == "finished":
                return
            if state == "running":
                time.sleep(1)
                continue
            process = self.sweep.start(cell, **self.environment, **devices)
            self.processes.add(process)
            code = process.wait()
            self.processes.discard(process)
        if code and not self.stopped and self.sweep.read(cell)["state"] in ("unfinished", "waiting"):
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            with contextlib.suppress(RunError):  # another process works on the run
                run = Run.open(cell.config, self.sweep.root)
                run.record(failure=f"the process {how}; its last lines are in {self.sweep.log(cell)}")
                run.release()


def _visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]
