"""Run the cells of a sweep on a Slurm cluster through submitit, as arrays of jobs that requeue themselves."""

import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import BusyRunError, RunError, SettingError
from workbench.files import write_json
from workbench.runs import read_json
from workbench.sweeps._plan import Cell
from workbench.sweeps._sweep import Sweep, interrupt

_FILE = "slurm.json"  # job id -> path of its cell
_REQUEUES = 1000  # starts after a time limit until submitit gives up
_NOTICE = 90  # seconds before the time limit at which a cell is interrupted
_UNTIL_KILLED = 900  # seconds that a job waits for its end once Slurm has ended its job


@dataclass(frozen=True)
class Slurm:
    """Resources of each cell on the cluster; None is the cluster's default.

    minutes: time limit of one start; a cell that reaches it is requeued and goes on from its last state. memory: in
    GB. options: any other long option of sbatch, such as {"account": "mine"}.
    """

    partition: str | None = None
    gpus: int = 0
    cpus: int | None = None
    memory: float | None = None
    minutes: int = 60
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if 60 * self.minutes <= _NOTICE + 60:  # Slurm may send the signal a minute early
            raise SettingError(f"minutes={self.minutes} is too short: a cell is interrupted {_NOTICE} s before; set 3")


def submit(sweep: Sweep, resources: Slurm, *, at_once: int = 0) -> int:
    """Submit the cells that are neither finished nor in the queue, and return their number; those needed come first.

    Each stage is an array of jobs, which Slurm limits to MaxArraySize (often 1,001); `at_once` of them run at a time
    (0: no limit). Raises RunError if Slurm accepts no job.
    """
    import submitit

    jobs, count = queued(sweep), 0
    for stage in sweep.missing_stages():
        if not (cells := [cell for cell in stage if cell.path not in jobs.values()]):
            continue
        needs = {need for cell in cells for need in cell.needs}
        needed = sorted(job for job, path in jobs.items() if path in needs)
        try:
            executor = submitit.SlurmExecutor(sweep.folder / "slurm", max_num_timeout=_REQUEUES)
            executor.update_parameters(
                job_name=f"workbench-{sweep.name}",
                time=resources.minutes,
                signal_delay_s=_NOTICE,
                array_parallelism=at_once or len(cells),
                srun_args=["--nodes=1", "--ntasks=1"],
                partition=resources.partition,
                gpus_per_node=resources.gpus or None,
                cpus_per_task=resources.cpus,
                mem=f"{round(1024 * resources.memory)}M" if resources.memory else None,
                additional_parameters=dict(resources.options),
                dependency=f"afterany:{':'.join(needed)}" if needed else None,
            )
            with executor.batch():
                started = [executor.submit(CellJob(sweep.folder, cell)) for cell in cells]
        except RuntimeError as problem:
            raise RunError(f"Slurm accepted no jobs: {problem}") from None
        jobs |= {job.job_id: cell.path for job, cell in zip(started, cells, strict=True)}
        write_json(sweep.folder / _FILE, jobs)
        count += len(cells)
    return count


class CellJob:
    """The work of one job: its cell as a process; submitit requeues it at a time limit or a preemption."""

    def __init__(self, folder: Path, cell: Cell) -> None:
        self.folder, self.cell = folder, cell
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        """Return when the run is finished. Raises RunError if it failed, so that Slurm shows the job as failed."""
        sweep, code = Sweep(self.folder), BusyRunError.exit_code
        while code == BusyRunError.exit_code:  # another process has the run
            self.process = sweep.start(self.cell)
            while (code := self.process.poll()) is None:  # not wait(), whose lock the signal handler would need
                time.sleep(0.5)
        if code in (-signal.SIGTERM, -signal.SIGUSR2):
            time.sleep(_UNTIL_KILLED)  # a job that returns now would not be requeued
        if code:
            raise RunError(f"{self.cell.title} failed; see {sweep.log(self.cell)}")

    def checkpoint(self) -> Any:
        """Interrupt the cell, which keeps its state, and return the job to requeue; called by submitit."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            interrupt(self.process)
        return DelayedSubmission(CellJob(self.folder, self.cell))


def queued(sweep: Sweep) -> dict[str, str]:
    """Return job id -> path of the cells that wait or run in Slurm; without submissions Slurm is not asked."""
    submitted = read_json(sweep.folder / _FILE) if (sweep.folder / _FILE).exists() else {}
    listed = _call("squeue", "--me", "--noheader", "--array", "--format=%i").split() if submitted else []
    return {job: submitted[job] for job in listed if job in submitted}


def cancel(sweep: Sweep) -> int:
    """Remove a sweep's jobs from Slurm and return their number; started again, each cell goes on."""
    jobs = queued(sweep)
    if jobs:
        _call("scancel", *sorted({job.partition("_")[0] for job in jobs}))
    return len(jobs)


def _call(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    except (OSError, subprocess.SubprocessError) as problem:
        why = getattr(problem, "stderr", None) or problem
        raise RunError(f"{command[0]} failed ({str(why).strip()}); use a machine of the Slurm cluster") from None
