"""Run the cells of a sweep on this machine, several processes at a time."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from rich.progress import Progress

from workbench.errors import SettingError
from workbench.runs import failure_of, forget_failure, is_running, note_failure
from workbench.sweeps._plan import Cell
from workbench.sweeps._sweep import Sweep

_GRACE = 20.0  # seconds for a cell to end once it is told to
_BETWEEN = 1.0  # seconds between two looks at a run that another process works on


def run_here(sweep: Sweep, *, jobs: int = 0) -> None:
    """Run the missing cells, `jobs` at a time; 0: one per GPU, or one if there is no GPU.

    A cell that fails keeps its message and log; only the cells that need it are left out. However this ends, its cells
    end too, and the same call goes on where they stopped.
    """
    missing = [cell for cell in sweep.cells if sweep.state(cell) != "finished"]
    gpus = GPUs(visible_gpus())
    most = max((gpus.wanted(cell) for cell in missing), default=0)
    if gpus.free and most > len(gpus.free):
        raise SettingError(f"a cell has processes={most}, but only {len(gpus.free)} GPUs are visible")
    jobs = jobs or max(1, len(gpus.free))
    workers = _Workers(sweep, gpus, max(1, _cores() // jobs))
    pool = ThreadPoolExecutor(jobs)
    try:
        for cell in missing:  # cells that others need come first, so that no worker waits for one behind it
            workers.futures[cell.path] = pool.submit(workers.run, cell)
        with Progress() as progress:
            task = progress.add_task(sweep.name, total=len(missing))
            for done, future in enumerate(as_completed(workers.futures.values()), 1):
                line = f"[{done}/{len(missing)}] {future.result()}"
                progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
                progress.advance(task)
    finally:
        workers.stop()
        pool.shutdown(cancel_futures=True)


class _Workers:
    """The processes of the cells that are running."""

    def __init__(self, sweep: Sweep, gpus: "GPUs", threads: int) -> None:
        self.sweep, self.gpus, self.threads = sweep, gpus, threads
        self.futures: dict[str, Future[str]] = {}
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.stopped = False

    def run(self, cell: Cell) -> str:
        """Run one cell to its end and return a line about it."""
        started = time.monotonic()
        for need in cell.needs:
            if need in self.futures and not self.futures[need].result().startswith("finished"):
                return f"left out {cell.title}: a run that it needs failed"
        path, state = self.sweep.path(cell), "running"
        while state == "running" and not self.stopped:
            while is_running(path) and not self.stopped:
                time.sleep(_BETWEEN)
            if self.sweep.state(cell) != "finished" and not self.stopped:
                with self.gpus.taken(cell) as taken:
                    self._start(cell, taken)
            state = self.sweep.state(cell)  # "running": another process was quicker to take it
        if state == "finished":
            return f"finished {cell.title} ({time.monotonic() - started:.0f} s)"
        return f"failed   {cell.title}: {failure_of(path) or 'interrupted'}\n  log: {self.sweep.log(cell)}"

    def _start(self, cell: Cell, taken: list[str]) -> None:
        threads = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(self.threads)}
        devices = {"CUDA_VISIBLE_DEVICES": ",".join(taken)} if taken else {}
        environment = {**os.environ, **threads, **devices, "WORKBENCH_CELL": "1"}
        forget_failure(self.sweep.path(cell))
        # A session of its own: Ctrl-C reaches the sweep alone, which then ends its cells.
        with self.sweep.log(cell).open("ab") as log:
            process = subprocess.Popen(
                self.sweep.command(cell),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self.processes.add(process)
        code = process.wait()
        self.processes.discard(process)
        if code and not self.stopped and self.sweep.state(cell) == "unfinished":
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            note_failure(self.sweep.path(cell), f"the process {how}; its last lines are in {self.sweep.log(cell)}")

    def stop(self) -> None:
        """End the running cells; each goes on from its last state when it is started again."""
        self.stopped = True
        for process in list(self.processes):
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _GRACE
        for process in list(self.processes):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
                continue
            process.kill()


class GPUs:
    """The GPUs that no cell is using."""

    def __init__(self, names: list[str]) -> None:
        self.free = names
        self._some = bool(names)
        self._changed = threading.Condition()

    def wanted(self, cell: Cell) -> int:
        """Return how many GPUs a cell needs: one per training process."""
        config = cell.config
        return config.processes if self._some and config.device != "cpu" else 0

    @contextlib.contextmanager
    def taken(self, cell: Cell) -> Iterator[list[str]]:
        """Hold as many GPUs as a cell needs; wait until they are free."""
        wanted = self.wanted(cell)
        with self._changed:
            self._changed.wait_for(lambda: len(self.free) >= wanted)
            taken, self.free = self.free[:wanted], self.free[wanted:]
        try:
            yield taken
        finally:
            with self._changed:
                self.free = [*self.free, *taken]
                self._changed.notify_all()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """Return the GPUs that a process may use, as CUDA_VISIBLE_DEVICES names them, without loading torch."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(number) for number, line in enumerate(listed.splitlines()) if line.startswith("GPU ")]
