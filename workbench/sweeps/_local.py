"""Run the cells of a sweep on this machine, several processes at a time."""

import contextlib
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from rich.progress import track

from workbench.errors import BusyRunError, RunError, SettingError
from workbench.runs import Run, is_finished
from workbench.sweeps._plan import Cell
from workbench.sweeps._sweep import Sweep, interrupt

_BETWEEN = 1.0  # seconds between two looks at a run that another process works on


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
        self.threads = max(1, len(os.sched_getaffinity(0)) // jobs) if hasattr(os, "sched_getaffinity") else 1
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.stopped = False
        self._turn, self._free = threading.Lock(), queue.SimpleQueue[str]()
        for gpu in gpus:
            self._free.put(gpu)

    def run(self, cell: Cell) -> str:
        """Run one cell to its end and return a line about it."""
        started = time.monotonic()
        if not all(is_finished(self.sweep.root / need) for need in cell.needs):
            return f"left out {cell.title}: a run that it needs failed"
        code = BusyRunError.exit_code  # of a cell whose run another process took first, which is waited for
        while code == BusyRunError.exit_code and not self.stopped:
            state = self.sweep.read(cell)["state"]
            if state == "finished":
                break
            if state == "running":
                time.sleep(_BETWEEN)
                continue
            with self._gpus(cell) as gpus:
                code = self._run_process(cell, gpus)
        row = self.sweep.read(cell)
        if row["state"] == "finished":
            return f"finished {cell.title} ({time.monotonic() - started:.0f} s)"
        return f"failed   {cell.title}: {row['failure'] or 'interrupted'}\n  log: {self.sweep.log(cell)}"

    def _run_process(self, cell: Cell, gpus: list[str]) -> int:
        """Run a cell's process to its end and return its exit code; record a failure that it could not record."""
        if self.stopped:
            return 0
        environment = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(self.threads)}
        environment |= {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        process = self.sweep.start(cell, **environment)
        self.processes.add(process)
        code = process.wait()
        self.processes.discard(process)
        failed = code not in (0, BusyRunError.exit_code) and not self.stopped
        if failed and self.sweep.read(cell)["state"] in ("unfinished", "waiting"):
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            with contextlib.suppress(RunError):  # another process works on the run
                run = Run.create(cell.config, self.sweep.root)
                run.record(failure=f"the process {how}; its last lines are in {self.sweep.log(cell)}")
                run.release()
        return code

    @contextlib.contextmanager
    def _gpus(self, cell: Cell) -> Iterator[list[str]]:
        """Hold as many GPUs as a cell has processes; wait until they are free."""
        config, gpus = cell.config, []
        if self.gpu_count and config.device != "cpu":
            with self._turn:  # one cell at a time: two that hold half of theirs would wait for each other
                gpus = [self._free.get() for _ in range(config.num_processes)]
        try:
            yield gpus
        finally:
            for gpu in gpus:
                self._free.put(gpu)


def _visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]
