"""The cells of a sweep on this machine: a few processes at a time, each run by one of them only."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.errors import SettingError
from workbench.runs import is_running
from workbench.sweeps._plan import Cell
from workbench.sweeps._process import GRACE, Process, arguments_of, begin, end, outcome
from workbench.sweeps._sweep import Sweep
from workbench.sweeps._view import View
from workbench.sweeps._warm import Warm

_BETWEEN = 0.2  # seconds between two looks at what runs
WARM = sys.platform == "linux"  # cells are forked by a process that has loaded what they load
_ELSEWHERE = 2.0  # seconds between two looks at a run of another process


@dataclass
class Worker:
    """A cell that runs: its process and what it was given."""

    cell: Cell
    process: Process
    gpus: list[str]
    started: float


def run_here(sweep: Sweep, view: View, *, jobs: int = 0) -> None:
    """Runs what is missing, `jobs` cells at a time; 0: one a GPU, without GPUs one.

    A cell that fails keeps its message and its notebook and stops nobody but those that need it. A run that another
    process works on is waited for. However this ends, its cells end with it, and the same call goes on.
    """
    queue = Queue(sweep, jobs)
    try:
        with view:
            while queue.waiting or queue.workers:
                for cell, state in queue.advance():
                    view.ended(cell, state)
                view.show([(worker.cell, worker.started) for worker in queue.workers], len(queue.waiting))
                time.sleep(_BETWEEN)
    finally:
        queue.stop()


class Queue:
    """What waits and what runs."""

    def __init__(self, sweep: Sweep, jobs: int) -> None:
        self.gpus = gpus = visible_gpus()
        self.jobs = jobs or max(1, len(gpus))
        self.sweep = sweep
        # More cells than GPUs share them evenly.
        self.free = [gpus[place % len(gpus)] for place in range(max(self.jobs, len(gpus)))] if gpus else []
        most = max(map(_gpus_of, sweep.cells))
        if gpus and most > len(gpus):  # it would wait for ever
            raise SettingError(f"a cell has processes={most}, and {len(gpus)} GPUs are visible; lower it")
        self.waiting = [cell for cell in sweep.cells if sweep.state(cell) != "finished"]
        self.workers: list[Worker] = []
        self.lost: set[str] = set()  # paths of what failed
        self.looked: dict[str, float] = {}
        self.warm: Warm | None = None

    def advance(self) -> Iterator[tuple[Cell, str]]:
        """Takes in what ended, starts what can be started; yields the cells that are over, and how they ended."""
        for worker in [worker for worker in self.workers if worker.process.poll() is not None]:
            self.workers.remove(worker)
            self.free += worker.gpus
            state = outcome(self.sweep, worker.cell, worker.process)
            if state is None:  # another process was quicker to take it
                self.waiting.insert(0, worker.cell)
            else:
                self.lost |= {worker.cell.path} if state == "failed" else set()
                yield worker.cell, state
        pending = {cell.path for cell in [*self.waiting, *(worker.cell for worker in self.workers)]}
        for cell in list(self.waiting):
            if self.lost.intersection(cell.needs):
                self.waiting.remove(cell)
                self.lost.add(cell.path)
                yield cell, "left out"
            elif len(self.workers) < self.jobs and self._ready(cell, pending):
                self.waiting.remove(cell)
                if self.sweep.state(cell) == "finished":  # by another process
                    yield cell, "finished"
                else:
                    self._start(cell)

    def _ready(self, cell: Cell, pending: set[str]) -> bool:
        """Whether what it needs is there and nobody else runs it."""
        if pending.intersection(cell.needs) or (self.gpus and len(set(self.free)) < _gpus_of(cell)):
            return False
        now = time.monotonic()
        if now - self.looked.get(cell.path, -_ELSEWHERE) < _ELSEWHERE:
            return False
        if is_running(self.sweep.path(cell)):
            self.looked[cell.path] = now
            return False
        return True

    def _start(self, cell: Cell) -> None:
        taken = list(dict.fromkeys(self.free))[: _gpus_of(cell)]  # each once, though cells may share it
        for gpu in taken:
            self.free.remove(gpu)
        process = self._begin(cell, _share(self.jobs, taken))
        self.workers.append(Worker(cell, process, taken, time.monotonic()))

    def stop(self) -> None:
        """Ends what runs: each cell goes on from its last state when it is started again."""
        for worker in self.workers:
            worker.process.close()
        deadline = time.monotonic() + GRACE
        for worker in self.workers:
            end(worker.process, max(0.1, deadline - time.monotonic()))
        if self.warm is not None:
            self.warm.stop()

    def _begin(self, cell: Cell, environment: dict[str, str]) -> Process:
        if not WARM:
            return begin(self.sweep, cell, environment)
        if self.warm is None or self.warm.process.poll() is not None:
            self.warm = Warm(self.sweep.folder / "warm.log", environment)
        return self.warm.begin(arguments_of(self.sweep, cell), self.sweep.log(cell), environment)


def _gpus_of(cell: Cell) -> int:
    config = cell.config
    return 0 if config.device == "cpu" else config.processes


def _share(jobs: int, gpus: list[str]) -> dict[str, str]:
    """What of the machine a cell may use: its GPUs, or its share of the cores."""
    threads = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(max(1, _cores() // jobs))}
    return threads | ({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {})


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """The GPUs that a process may use, as CUDA_VISIBLE_DEVICES names them; found without torch, which is slow."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(number) for number, line in enumerate(listed.splitlines()) if line.startswith("GPU ")]
