"""The cells of a sweep on a Slurm cluster: arrays of jobs through submitit, each a cell that goes on after any end."""

import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

_FILE = "slurm.json"
_CHUNK = 1000  # jobs of an array: a cluster's MaxArraySize is 1001 unless it says otherwise
_BETWEEN = 0.5  # seconds between two looks at a cell
_ELSEWHERE = 5.0  # seconds between two looks at a run of another process
_UNTIL_KILLED = 900  # seconds that a job which was told to end waits for its end
_FRUITLESS = 3  # starts in a row without a saved state, after which a cell is given up


@dataclass(frozen=True)
class Slurm:
    """What each cell asks of the cluster.

    minutes: of one start; when they are over the job is queued again and the cell goes on. memory: in GB, cpus,
    partition: None is what the cluster gives. options: any other of sbatch's by its long name, such as "account".
    notice: seconds before the end at which a cell is told. chunk: jobs of one array.
    """

    partition: str | None = None
    gpus: int = 0
    cpus: int | None = None
    memory: float | None = None
    minutes: int = 60
    options: Mapping[str, str] = field(default_factory=dict)
    notice: int = 90
    chunk: int = _CHUNK

    def parameters(self, title: str, at_once: int) -> dict[str, Any]:
        """As submitit calls them."""
        asked = {
            "slurm_partition": self.partition,
            "gpus_per_node": self.gpus or None,
            "cpus_per_task": self.cpus,
            "mem_gb": self.memory,
            "slurm_array_parallelism": at_once or None,
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
    there = queued(sweep)
    missing = [cell for cell in sweep.cells if sweep.state(cell) != "finished" and cell.path not in there.values()]
    made: dict[str, list[str]] = {}
    for cells in _in_order(missing):
        needs = {path for cell in cells for path in cell.needs}
        before = {job.partition("_")[0] for job, path in there.items() if path in needs}
        before |= {job for job, paths in made.items() if needs.intersection(paths)}
        for start in range(0, len(cells), asked.chunk):
            part = cells[start : start + asked.chunk]
            job = _submitted(sweep, part, asked.parameters(f"workbench-{sweep.name}", at_once), before)
            made[job] = [cell.path for cell in part]
            write_json(sweep.folder / _FILE, _submissions(sweep) | {job: made[job]})
    return made


def queued(sweep: Sweep) -> dict[str, str]:
    """Job -> path, of the cells that wait or run in Slurm. Nothing is asked where the sweep was never there."""
    known = _submissions(sweep)
    if not known:
        return {}
    waiting = set(_ask("squeue", "--me", "--noheader", "--array", "--format=%i").split())
    jobs = {
        job if len(paths) == 1 else f"{job}_{number}": path
        for job, paths in known.items()
        for number, path in enumerate(paths)
    }
    return {job: path for job, path in jobs.items() if job in waiting}


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

    def __call__(self) -> None:
        """Returns when the run is finished; RunError where it failed, so that Slurm calls the job failed too."""
        self.sweep = Sweep(self.folder)
        self.cell = next(cell for cell in self.sweep.cells if cell.path == self.path)
        self.started, self.told, self.process = time.time(), False, None
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

        if self.process is not None:
            end(self.process)
            forget_failure(self.sweep.path(self.cell))
        state = self.sweep.path(self.cell) / "checkpoint" / "state.safetensors"
        saved = state.is_file() and state.stat().st_mtime > self.started
        fruitless = 0 if saved else self.fruitless + 1
        if fruitless < _FRUITLESS:
            return DelayedSubmission(CellJob(self.folder, self.path, self.command, fruitless))
        note_failure(
            self.sweep.path(self.cell),
            f"its time on Slurm was over {fruitless} times before a state was saved; give it more minutes, or lower "
            f"save_steps (now {self.cell.config.save_steps})",
        )
        return None

    def _wait_for(self, path: str) -> None:
        while is_running(self.sweep.root / path):
            time.sleep(_ELSEWHERE)

    def _run(self) -> str | None:
        """One start of the cell; as `outcome`."""
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

    def _note(self, *_: object) -> None:
        self.told = True


def _require_enough(sweep: Sweep, asked: Slurm) -> None:
    most = max(cell.config.processes for cell in sweep.cells)
    given = asked.gpus * int(asked.options.get("nodes", 1))
    if given and most > given:
        raise SettingError(f"a cell has processes={most} and is given {given} GPUs; give as many, or lower it")


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
