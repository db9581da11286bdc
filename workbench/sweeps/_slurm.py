"""The cells of a sweep on a Slurm cluster: arrays of jobs through submitit, each a cell that goes on after any end."""

import secrets
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from workbench.errors import RunError, SettingError
from workbench.files import explained, write_json
from workbench.installation import require_modules
from workbench.runs import failure_of, forget_failure, is_finished, is_running, note_failure, read_json
from workbench.sweeps import _process
from workbench.sweeps._plan import Cell
from workbench.sweeps._process import begin, end, outcome
from workbench.sweeps._sweep import Sweep

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

_FILE = "slurm.json"  # name of an array in Slurm -> the cells' paths
_OURS = ("array", "dependency", "job-name", "signal", "time")  # options of sbatch that are set here
_EARLY = 60  # seconds by which Slurm may tell a job earlier than asked
_CHUNK = 1000  # jobs of an array: a cluster's MaxArraySize is 1001 unless it says otherwise
_BETWEEN = 0.5  # seconds between two looks at a cell
_ELSEWHERE = 5.0  # seconds between two looks at a run of another process
_UNTIL_KILLED = 900  # seconds that a job which was told to end waits for its end
_PATIENCE = 300  # seconds for another process to put the same sweep into the queue
_FRUITLESS = 3  # starts in a row without a saved state, after which a cell is given up


@dataclass(frozen=True)
class Slurm:
    """What each cell asks of the cluster. Raises SettingError for what no job can have.

    minutes: of one start; when they are over the job is queued again and the cell goes on; the notice and a minute at
    least. memory: in GB, cpus, partition: None is what the cluster gives. options: any other of sbatch's by its long
    name, such as "account". notice: seconds before the end at which a cell is told. chunk: jobs of one array.
    """

    partition: str | None = None
    gpus: int = 0
    cpus: int | None = None
    memory: float | None = None
    minutes: int = 60
    options: Mapping[str, str] = field(default_factory=dict)
    notice: int = 90
    chunk: int = _CHUNK

    def __post_init__(self) -> None:
        for name, least in {"gpus": 0, "cpus": 1, "memory": 0, "minutes": 1, "notice": 1, "chunk": 1}.items():
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise SettingError(f"a cell on Slurm: {name}={value}; give at least {least}")
        if 60 * self.minutes <= self.notice + _EARLY:
            raise SettingError(
                f"minutes={self.minutes}: a cell is told to end {self.notice} to {self.notice + _EARLY} seconds before "
                f"its time is over; give at least {(self.notice + _EARLY) // 60 + 1} minutes"
            )
        nodes = str(self.options.get("nodes", 1))
        if not nodes.isdecimal() or int(nodes) < 1:
            raise SettingError(f"nodes={nodes}: every start of a cell has as many; give one number, at least 1")
        if ours := [name for name in self.options if name.replace("_", "-") in _OURS]:
            raise SettingError(f"sbatch's {ours[0]} is set by the sweep itself (of its time say minutes); leave it out")

    def parameters(self, title: str, at_once: int) -> dict[str, Any]:
        """As submitit calls them."""
        asked = {
            "slurm_partition": self.partition,
            "gpus_per_node": self.gpus or None,
            "cpus_per_task": self.cpus,
            "mem_gb": self.memory,
            "slurm_array_parallelism": at_once or self.chunk,  # or submitit says 256
            "slurm_additional_parameters": dict(self.options) or None,
        }
        fixed = {"slurm_srun_args": ["--nodes=1", "--ntasks=1"]}  # of several nodes, training takes the others itself
        fixed |= {"name": title, "timeout_min": self.minutes, "slurm_signal_delay_s": self.notice}
        return fixed | {name: value for name, value in asked.items() if value is not None}


def submit(sweep: Sweep, asked: Slurm, *, at_once: int = 0) -> dict[str, list[str]]:
    """Puts what is missing into Slurm's queue, `at_once` cells at a time (0: any number); job -> the cells' paths.

    A cell that stands in the queue is not put there again. What others learn from comes first. Raises SettingError
    for what no cell could run with, RunError where Slurm takes nothing, with its own words.
    """
    require_modules("submitit")
    _require_enough(sweep, asked)
    with _alone(sweep):
        return _submit(sweep, asked, at_once)


def _submit(sweep: Sweep, asked: Slurm, at_once: int) -> dict[str, list[str]]:
    there = queued(sweep)
    missing = [cell for cell in sweep.cells if sweep.state(cell) != "finished" and cell.path not in there.values()]
    made: dict[str, list[str]] = {}
    for cells in _in_order(missing):
        needs = {path for cell in cells for path in cell.needs}
        before = {job.partition("_")[0] for job, path in there.items() if path in needs}
        before |= {job for job, paths in made.items() if needs.intersection(paths)}
        for start in range(0, len(cells), asked.chunk):
            part = cells[start : start + asked.chunk]
            name = f"workbench-{sweep.name}-{secrets.token_hex(4)}"
            with _noted(sweep, name, [cell.path for cell in part]) as paths:
                made[_submitted(sweep, part, asked.parameters(name, at_once), before)] = paths
    return made


@contextmanager
def _alone(sweep: Sweep) -> Iterator[None]:
    """While no other process puts the sweep into the queue."""
    lock = filelock.FileLock(sweep.folder / ".submit.lock")
    with explained(sweep.folder):
        try:
            held = lock.acquire(timeout=_PATIENCE)
        except filelock.Timeout:
            raise RunError(f"another process is putting {sweep.folder} into Slurm's queue; wait for it") from None
    with held:
        yield


@contextmanager
def _noted(sweep: Sweep, name: str, paths: list[str]) -> Iterator[list[str]]:
    """Says beforehand what an array holds: whoever is killed while Slurm takes it leaves no job that is not found."""
    known = _submissions(sweep)
    with explained(sweep.folder):
        write_json(sweep.folder / _FILE, known | {name: paths})
    try:
        yield paths
    except RunError:
        write_json(sweep.folder / _FILE, known)
        raise


def queued(sweep: Sweep) -> dict[str, str]:
    """Job -> path, of the cells that wait or run in Slurm. Nothing is asked where the sweep was never there."""
    known = _submissions(sweep)
    if not known:
        return {}
    lines = _ask("squeue", "--me", "--noheader", "--array", "--format=%i %j").splitlines()
    named = [line.strip().partition(" ") for line in lines]
    return {job: known[name][int(job.partition("_")[2] or 0)] for job, _, name in named if name in known}


def cancel(sweep: Sweep) -> int:
    """Takes a sweep out of Slurm; how many cells that were. Started again, each goes on from its last state."""
    there = queued(sweep)
    if there:
        _ask("scancel", *sorted({job.partition("_")[0] for job in there}))
    return len(there)


class CellJob:
    """What a job does: one cell, from its last state, however often it is started."""

    def __init__(self, folder: Path, path: str, command: Sequence[str], fruitless: int = 0) -> None:
        self.folder, self.path, self.command, self.fruitless = folder, path, command, fruitless
        self.told = False
        self.process: _process.Process | None = None  # of this start
        self.before: int | None = None  # when the state was saved that it goes on from

    @cached_property
    def sweep(self) -> Sweep:
        return Sweep(self.folder)

    @cached_property
    def cell(self) -> Cell:
        return next(cell for cell in self.sweep.cells if cell.path == self.path)

    def __call__(self) -> None:
        """Returns when the run is finished; RunError where it failed, so that Slurm calls the job failed too."""
        # Told to end, but not yet killed: a job that returns now would be over for Slurm, and not queued again.
        signal.signal(signal.SIGTERM, self._note)
        for need in self.cell.needs:
            self._wait_for(need)
            if not is_finished(self.sweep.root / need):
                raise RunError(f"{self.cell.title}: {need}, which it needs, is not finished; start the sweep again")
        state = None
        while state is None:
            self._wait_for(self.path)
            state = "finished" if self.sweep.state(self.cell) == "finished" else self._run()
        if state == "failed":
            raise RunError(f"{self.cell.title}: {failure_of(self.sweep.path(self.cell))}")

    def checkpoint(self) -> "DelayedSubmission | None":
        """Called by submitit before the time is over, or at preemption: what is queued again; None: nothing."""
        from submitit.helpers import DelayedSubmission

        if self.process is None:  # it waited; the run may be another's
            return DelayedSubmission(CellJob(self.folder, self.path, self.command, self.fruitless))
        end(self.process)
        forget_failure(self.sweep.path(self.cell))
        fruitless = 0 if self._saved() != self.before else self.fruitless + 1
        if fruitless < _FRUITLESS:
            return DelayedSubmission(CellJob(self.folder, self.path, self.command, fruitless))
        note_failure(
            self.sweep.path(self.cell),
            f"its time on Slurm was over {fruitless} times before a state was saved; give it more minutes, or lower "
            f"save_steps (now {self.cell.config.save_steps})",
        )
        return None

    def _saved(self) -> int | None:
        """When the state was saved, by the clock of whoever keeps the file; None: there is none."""
        state = self.sweep.path(self.cell) / "checkpoint" / "state.safetensors"
        return state.stat().st_mtime_ns if state.is_file() else None

    def _wait_for(self, path: str) -> None:
        while is_running(self.sweep.root / path):
            time.sleep(_ELSEWHERE)

    def _run(self) -> str | None:
        """One start of the cell; as `outcome`."""
        self.before = self._saved()
        self.process = begin(self.sweep, self.cell, {}, self.command)
        try:
            while self.process.poll() is None:  # not wait: it holds a lock that `checkpoint`, a signal's, needs
                time.sleep(_BETWEEN)
            if self.told or self.process.returncode in (-signal.SIGTERM, -signal.SIGUSR2):
                forget_failure(self.sweep.path(self.cell))
                time.sleep(_UNTIL_KILLED)
            return outcome(self.sweep, self.cell, self.process)
        finally:
            end(self.process)
            self.process = None

    def _note(self, *_: object) -> None:
        self.told = True


def _require_enough(sweep: Sweep, asked: Slurm) -> None:
    nodes = int(asked.options.get("nodes", 1))
    for cell in (cell for cell in sweep.cells if sweep.state(cell) != "finished"):
        processes, given = cell.config.processes, asked.gpus * nodes
        if given and processes > given:
            what = f"has processes={processes} and is given {given} GPUs; give as many, or lower it"
        elif processes % nodes:
            what = f"has processes={processes}, which {nodes} nodes cannot share equally; give a multiple of nodes, or "
            what += "put it first into a sweep of its own, on one node"
        else:
            continue
        raise SettingError(f"{cell.title} {what}")


def _in_order(cells: list[Cell]) -> Iterator[list[Cell]]:
    """Cells that need nothing of these, then those that need these, and so on."""
    depth: dict[str, int] = {}
    stages: dict[int, list[Cell]] = defaultdict(list)
    for cell in cells:  # what is needed stands in front
        depth[cell.path] = 1 + max((depth.get(path, 0) for path in cell.needs), default=0)
        stages[depth[cell.path]].append(cell)
    for number in sorted(stages):
        yield stages[number]


def _submitted(sweep: Sweep, cells: list[Cell], parameters: dict[str, Any], before: set[str]) -> str:
    """The number of the job, or array of jobs, that runs these cells, once the jobs `before` are over."""
    import submitit
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    if before:
        parameters["slurm_dependency"] = f"afterany:{':'.join(sorted(before))}"
    folder = sweep.folder / "slurm"
    try:
        with explained(sweep.folder):
            folder.mkdir(exist_ok=True)
            # Time limits do not count: `checkpoint` gives up what gets nowhere.
            executor = submitit.AutoExecutor(folder=folder, cluster="slurm", slurm_max_num_timeout=10**6)
            executor.update_parameters(**parameters)
            with executor.batch():
                jobs = [executor.submit(CellJob(sweep.folder, cell.path, _process.CELL)) for cell in cells]
    except (FailedJobError, FailedSubmissionError, RuntimeError) as problem:
        raise RunError(f"Slurm took no jobs: {problem}") from None
    return jobs[0].job_id.partition("_")[0]


def _submissions(sweep: Sweep) -> dict[str, list[str]]:
    return read_json(sweep.folder / _FILE) if (sweep.folder / _FILE).exists() else {}


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    except FileNotFoundError:
        raise RunError(f"there is no {command[0]} here: give this command on a machine of the Slurm cluster") from None
    except (OSError, subprocess.SubprocessError) as problem:
        told = getattr(problem, "stderr", None) or problem
        raise RunError(f"{command[0]}: {str(told).strip()}") from None
