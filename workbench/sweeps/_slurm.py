"""Run the cells of a sweep on a Slurm cluster through submitit, as arrays of jobs that requeue themselves."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import RunError, SettingError
from workbench.files import write_json
from workbench.installation import require_modules
from workbench.runs import failure_of, forget_failure, is_finished, is_running, read_json
from workbench.sweeps._plan import Cell
from workbench.sweeps._sweep import Sweep

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

_FILE = "slurm.json"  # job id -> path of its cell
_CHUNK = 1000  # jobs per array: a cluster's MaxArraySize is 1001 by default
_REQUEUES = 1000  # starts after a time limit until submitit gives up
_BETWEEN = 5.0  # seconds between two looks at a run that another process works on
_UNTIL_KILLED = 900  # seconds that a job waits for its end once Slurm has told it to end


@dataclass(frozen=True)
class Slurm:
    """Resources of each cell on the cluster. Raises SettingError for values that no job can have.

    minutes: time limit of one start; a cell that reaches it is requeued and goes on from its last state. memory: in
    GB; memory, cpus, partition: None is the cluster's default. options: any other long option of sbatch, such as
    {"account": "mine"}. notice: seconds before the time limit at which a cell is interrupted.
    """

    partition: str | None = None
    gpus: int = 0
    cpus: int | None = None
    memory: float | None = None
    minutes: int = 60
    options: Mapping[str, str] = field(default_factory=dict)
    notice: int = 90

    def __post_init__(self) -> None:
        if 60 * self.minutes <= self.notice + 60:  # Slurm may send the signal a minute early
            raise SettingError(
                f"minutes={self.minutes} is too short for a notice of {self.notice} s; give more minutes"
            )

    def parameters(self, title: str, at_once: int) -> dict[str, Any]:
        """Return the parameters of submitit's executor."""
        wanted = {
            "slurm_partition": self.partition,
            "gpus_per_node": self.gpus or None,
            "cpus_per_task": self.cpus,
            "mem_gb": self.memory,
            "slurm_additional_parameters": dict(self.options) or None,
        }
        fixed = {"name": title, "timeout_min": self.minutes, "slurm_signal_delay_s": self.notice}
        fixed |= {"slurm_array_parallelism": at_once or _CHUNK}
        fixed |= {"slurm_srun_args": ["--nodes=1", "--ntasks=1"]}  # training over several nodes starts its own steps
        return fixed | {name: value for name, value in wanted.items() if value is not None}


def submit(sweep: Sweep, resources: Slurm, *, at_once: int = 0) -> dict[str, str]:
    """Submit the missing cells, `at_once` at a time (0: no limit), and return job id -> path of the cell.

    Cells that are in the queue already are not submitted again; cells that others need come first. Raises RunError
    with Slurm's own message if it accepts no job, SettingError for a cell that needs more GPUs than it gets.
    """
    require_modules("submitit")
    in_queue = queued(sweep)
    cells = [cell for cell in sweep.cells if sweep.state(cell) != "finished" and cell.path not in in_queue.values()]
    nodes = int(resources.options.get("nodes", 1))
    for cell in cells:
        processes = cell.config.processes
        if processes % nodes or (resources.gpus and processes > resources.gpus * nodes):
            given = f"{resources.gpus or 'no'} GPUs on each of {nodes} nodes"
            raise SettingError(f"{cell.title}: processes={processes} does not fit {given}; change one of them")
    jobs: dict[str, str] = {}
    for part in _parts(cells):
        needs = {path for cell in part for path in cell.needs}
        before = {job for job, path in (in_queue | jobs).items() if path in needs}
        ids = _submit(sweep, part, resources.parameters(f"workbench-{sweep.name}", at_once), before)
        jobs |= dict(zip(ids, (cell.path for cell in part), strict=True))
        write_json(sweep.folder / _FILE, _submitted(sweep) | jobs)
    return jobs


def _parts(cells: list[Cell]) -> Iterator[list[Cell]]:
    """Split into arrays: cells that need none of these, then those that do."""
    paths = {cell.path for cell in cells}
    first = [cell for cell in cells if not paths.intersection(cell.needs)]
    for stage in (first, [cell for cell in cells if cell not in first]):
        for start in range(0, len(stage), _CHUNK):
            yield stage[start : start + _CHUNK]


def _submit(sweep: Sweep, cells: list[Cell], parameters: dict[str, Any], before: set[str]) -> list[str]:
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    if before:
        parameters["slurm_dependency"] = f"afterany:{':'.join(sorted(before))}"
    try:
        executor = submitit.AutoExecutor(sweep.folder / "slurm", cluster="slurm", slurm_max_num_timeout=_REQUEUES)
        executor.update_parameters(**parameters)
        with executor.batch():
            jobs = [executor.submit(CellJob(sweep.folder, cell.path)) for cell in cells]
    except (FailedJobError, FailedSubmissionError, RuntimeError) as problem:
        raise RunError(f"Slurm accepted no jobs: {problem}") from None
    return [job.job_id for job in jobs]


class CellJob:
    """The work of one job: its cell as a process; submitit requeues it at a time limit or a preemption."""

    def __init__(self, folder: Path, path: str) -> None:
        self.folder, self.path = folder, path
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        """Return when the run is finished. Raises RunError if it failed, so that Slurm shows the job as failed."""
        sweep = Sweep(self.folder)
        cell = next(cell for cell in sweep.cells if cell.path == self.path)
        for path in (*cell.needs, cell.path):
            while is_running(sweep.root / path):
                time.sleep(_BETWEEN)
        if sweep.state(cell) == "finished":
            return
        if missing := [need for need in cell.needs if not is_finished(sweep.root / need)]:
            raise RunError(f"{cell.title}: {missing[0]}, which it needs, is not finished; start the sweep again")
        signalled: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: signalled.append(number))
        with sweep.log(cell).open("ab") as log:
            self.process = subprocess.Popen(
                sweep.command(cell),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "WORKBENCH_CELL": "1"},
                start_new_session=True,
            )
            while self.process.poll() is None:  # not wait(), whose lock the signal handler would need
                time.sleep(0.5)
        if signalled or self.process.returncode in (-signal.SIGTERM, -signal.SIGUSR2):
            forget_failure(sweep.path(cell))
            time.sleep(_UNTIL_KILLED)  # a job that returns now would not be requeued
        if sweep.state(cell) != "finished":
            raise RunError(f"{cell.title}: {failure_of(sweep.path(cell)) or f'see {sweep.log(cell)}'}")

    def checkpoint(self) -> "DelayedSubmission":
        """Interrupt the cell, which keeps its state, and return the job to requeue; called by submitit."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
            forget_failure(Sweep(self.folder).root / self.path)
        return DelayedSubmission(CellJob(self.folder, self.path))


def queued(sweep: Sweep) -> dict[str, str]:
    """Return job id -> path of the cells that wait or run in Slurm; without submissions Slurm is not asked."""
    submitted = _submitted(sweep)
    if not submitted:
        return {}
    listed = _call("squeue", "--me", "--noheader", "--array", "--format=%i").split()
    return {job: submitted[job] for job in listed if job in submitted}


def cancel(sweep: Sweep) -> int:
    """Remove a sweep's jobs from Slurm and return their number; started again, each cell goes on."""
    jobs = queued(sweep)
    if jobs:
        _call("scancel", *sorted({job.partition("_")[0] for job in jobs}))
    return len(jobs)


def _submitted(sweep: Sweep) -> dict[str, str]:
    return read_json(sweep.folder / _FILE) if (sweep.folder / _FILE).exists() else {}


def _call(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    except FileNotFoundError:
        raise RunError(f"{command[0]} is not installed here; use a machine of the Slurm cluster") from None
    except (OSError, subprocess.SubprocessError) as problem:
        raise RunError(f"{command[0]}: {str(getattr(problem, 'stderr', None) or problem).strip()}") from None
