"""Run the cells of a sweep: on this machine, or as jobs of a Slurm cluster.

Jobs are submitted by submitit, through which they requeue themselves at a time limit.
"""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import pydantic.dataclasses

from workbench.config import TrainingConfig
from workbench.errors import RunError, SettingError
from workbench.files import Names, as_list, file_lock, write_json
from workbench.printing import steady_stdout
from workbench.runs import AnyPath, Facts, is_finished, read_json
from workbench.sweeps._cells import Cell, Sweep, merge_grids, open_sweep, plan_cells, read_seeds

_JOBS = "slurm.json"  # job id -> path of its cell
_CORES = '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK'
# Of the job that submits, and what sbatch would take before the options given to it.
_OF_JOB = re.compile(r"SLURM_(?!(CONF|CONF_SERVER|CLUSTERS|JWT|DEBUG_FLAGS)$)|SBATCH_TIMELIMIT$")
_REQUEUES = 1000  # starts after a time limit until submitit gives up
_NOTICE = 90  # seconds before the time limit at which a cell is interrupted
# Seconds until an interrupted cell is killed; 15 s after Ctrl-C the command itself ends.
_UNTIL_ENDED = 12
_UNTIL_KILLED = 900  # seconds that a job waits to be killed once Slurm has ended its cell


@pydantic.dataclasses.dataclass(frozen=True)
class Slurm:
    """Resources of each cell on the cluster; None is the cluster's default.

    minutes: time limit of one start; a cell that reaches it is requeued and goes on from its last
        state. memory: in GB. options: any other long option of sbatch, such as {"account": "mine"}.
    """

    partition: str | None = None
    gpus: int = 0
    cpus: int | None = None
    memory: float | None = None
    # Slurm may send the signal a minute before the notice.
    minutes: Annotated[int, pydantic.Field(ge=3)] = 60
    options: Facts = pydantic.Field(default_factory=dict)


@steady_stdout()
def sweep(
    methods: Names | dict[str, Facts] = (),
    *,
    seeds: str | int | Iterable[int] = 0,
    profile: str = "demo",
    grid: Facts | None = None,
    without: Facts | Sequence[Facts] = (),
    runs_root: AnyPath = "runs",
    name: str = "",
    jobs: int = 0,
    dry: bool = False,
    slurm: Slurm | None = None,
    notebook: bool = True,
) -> Sweep:
    """Run the missing cells of a sweep and return it.

    A cell that fails raises nothing: see `Sweep.table`.

    Args:
        methods: Names, or name -> grid of that method only.
        seeds: "0-4", a number, or numbers.
        profile: Of every method.
        grid: Setting -> its values (a single one without a list); every method runs every
            combination.
        without: One or several combinations to leave out: {"method": ..., setting: value, ...}, all
            of which must hold.
        runs_root: The folder of runs.
        name: Of the sweep; by default its methods and a checksum of its contents.
        jobs: Cells at a time, with GPUs at most as many as these take; 0: so many, or one without
            GPUs; on Slurm without a limit.
        dry: Only check the cells, and write them down if the sweep is new.
        slurm: Resources of each cell on a Slurm cluster, to which all are submitted; None: this
            machine.
        notebook: Execute the method's notebook in each cell, as a record; False: only train and
            evaluate.

    Raises:
        SettingError, DataError, EncoderError: Before anything is run.
        RunError: Slurm accepts no jobs, or the sweep of this name has other cells.

    Example:
        made = workbench.sweep("simcse", seeds="0-2", grid={"temperature": [0.05, 0.07]})
        made.table()
    """
    own_grids: Any = methods if isinstance(methods, Mapping) else dict.fromkeys(as_list(methods))
    grids = {
        method: merge_grids(method, grid or {}, own_grid or {})
        for method, own_grid in own_grids.items()
    }
    entries = without if isinstance(without, Sequence) else [without]
    cells = plan_cells(grids, read_seeds(seeds), profile, entries)
    made = open_sweep(cells, runs_root, name, notebook=notebook, dry=dry)
    print(made.summary())
    if slurm and not dry:
        # The same command may be submitting elsewhere.
        with file_lock(made.folder / ".lock"):
            submit(made, slurm, at_once=jobs)
    elif not dry:
        run_here(made, jobs=jobs)
    return made


def run_here(sweep: Sweep, *, jobs: int) -> None:
    """Run the missing cells except those that need a failed one.

    However this ends, its cells end too.
    """
    stages = sweep.missing_stages()
    missing = [*chain(*stages)]
    numbers = count(1)
    environments = _environments([cell.config for cell in missing], jobs)
    stopped = threading.Event()

    def run(cell: Cell) -> str:
        """Run a cell to its end and return a line about it."""
        if not all(is_finished(sweep.root / need) for need in cell.needs):
            return f"left out {cell.title}: a run that it needs is not finished"
        started = time.monotonic()
        environment = environments.pop()  # there are as many as threads, and this is one
        with sweep.start(cell, **environment) as process:
            while process.poll() is None and not stopped.wait(0.1):
                continue
            if stopped.is_set():
                with suppress(subprocess.TimeoutExpired):
                    # It ends when its stdin is closed; what it has saved stays.
                    process.communicate(timeout=_UNTIL_ENDED)
                process.kill()
        environments.append(environment)
        row = sweep.read(cell)
        if row["state"] == "finished":
            return f"finished {cell.title} ({time.monotonic() - started:.0f} s)"
        why = row["failure"] or f"exit code {process.returncode}"
        return f"failed   {cell.title}: {why}\n  log: {sweep.log(cell)}"

    with ThreadPoolExecutor(len(environments)) as pool:
        try:
            for stage in stages:
                futures = [pool.submit(run, cell) for cell in stage]
                for future in as_completed(futures):
                    print(f"[{next(numbers)}/{len(missing)}] {future.result()}", flush=True)
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)


def _visible_gpus() -> list[str]:
    """Return the names of the GPUs that this process may use."""
    if (names := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name for name in re.findall(r"[^\s,]+", names) if name != "-1"]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def _environments(configs: list[TrainingConfig], jobs: int) -> list[dict[str, str]]:
    """Return the environment of each worker: its own GPUs, or its share of the cores."""
    import joblib

    uses_gpus = any(config.device != "cpu" for config in configs)
    gpus = _visible_gpus() if uses_gpus else []
    size = max((config.num_processes for config in configs), default=1)
    if gpus and size > len(gpus):
        raise SettingError(
            f"a cell has num_processes={size}, but only {len(gpus)} GPUs are visible"
        )
    firsts = range(0, len(gpus) - size + 1, size)
    own_gpus = [{"CUDA_VISIBLE_DEVICES": ",".join(gpus[first : first + size])} for first in firsts]
    workers = own_gpus[: jobs or None] or [{}] * (jobs or 1)
    # More threads than cores would slow all cells down.
    share = max(1, joblib.cpu_count() // (len(workers) * size))
    # Of torch and of tokenizers.
    names = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")
    shared = {name: os.environ.get(name, str(share)) for name in names}
    return [worker | shared for worker in workers]


def submit(sweep: Sweep, resources: Slurm, *, at_once: int) -> None:
    """Submit the cells that are neither finished nor in the queue, those that others need first.

    Each stage is an array of jobs, which Slurm limits to MaxArraySize (often 1,001); `at_once` of
    them run at a time (0: no limit). Raises RunError if Slurm accepts no job.
    """
    import submitit

    if {*"%\\"} & {*str(sweep.folder)}:
        raise SettingError(f"{sweep.folder}: Slurm reads % and \\ as patterns; choose other --runs")
    # A job that submits others hands them its own memory, cores and GPUs.
    own = {name: value for name, value in os.environ.items() if not _OF_JOB.match(name)}
    jobs = queued(sweep)
    for stage in sweep.missing_stages():
        cells = [cell for cell in stage if cell.path not in jobs.values()]
        if not cells:
            continue
        needs = set(chain.from_iterable(cell.needs for cell in cells))
        needed = sorted(job for job, path in jobs.items() if path in needs)
        started = {}
        options = dict(resources.options)
        waits = [options.pop("dependency", ""), needed and f"afterok:{':'.join(needed)}"]
        try:
            executor = submitit.SlurmExecutor(sweep.folder / "slurm", max_num_timeout=_REQUEUES)
            executor.update_parameters(
                job_name=f"workbench-{sweep.name}",
                time=resources.minutes,
                signal_delay_s=_NOTICE,
                array_parallelism=at_once or len(cells),
                srun_args=["--nodes=1", "--ntasks=1"],
                # From Slurm 22.05 on a step does not inherit the cores of its job.
                setup=[_CORES],
                partition=resources.partition,
                gpus_per_node=resources.gpus or None,
                cpus_per_task=resources.cpus,
                mem=f"{round(1024 * resources.memory)}M" if resources.memory else None,
                # A cell whose need fails leaves the queue; otherwise it would wait forever.
                additional_parameters={"kill-on-invalid-dep": "yes", "requeue": True} | options,
                dependency=",".join(filter(None, waits)) or None,
            )
            with mock.patch.dict(os.environ, own, clear=True), executor.batch():
                for cell in cells:
                    # Requeued at a time limit or a preemption.
                    work: Any = submitit.helpers.FunctionSequence()
                    work.add(run_cell, sweep.folder, cell)
                    started[cell.path] = executor.submit(work)
        except RuntimeError as problem:
            raise RunError(
                f"Slurm refused the {len(cells)} jobs of a stage: {problem}; if they are too many "
                "for an array (MaxArraySize), split the sweep; what was submitted before goes on"
            ) from None
        jobs |= {job.job_id: path for path, job in started.items()}
        # After each stage: what Slurm has accepted is known even if the next stage is refused.
        write_json(sweep.folder / _JOBS, jobs)
        print(f"{len(cells)} cells submitted to Slurm, which writes to {sweep.folder / 'slurm'}")


def run_cell(folder: Path, cell: Cell) -> None:
    """Run a cell as the work of one job.

    Raises RunError if it failed, so that Slurm shows the job as failed.
    """
    sweep = Sweep(folder)
    code = sweep.start(cell).wait()
    if code in (-signal.SIGTERM, -signal.SIGUSR2):
        time.sleep(_UNTIL_KILLED)  # a job that returns now would not be requeued
    if code:
        raise RunError(f"{cell.title} failed; see {sweep.log(cell)}")


def queued(sweep: Sweep) -> dict[str, str]:
    """Return job id -> path of the cells that wait or run in Slurm."""
    file = sweep.folder / _JOBS
    if not file.exists():  # nothing was submitted, and there may be no Slurm to ask
        return {}
    submitted = read_json(file)
    if not submitted:  # all were cancelled
        return {}
    # With its script: a number may be another job's by now, or on another cluster.
    lines = _call("squeue", "--noheader", "--array", "--format=%i %o").splitlines()
    listed = [line.split()[0] for line in lines if f"/{sweep.name}/slurm/" in line]
    return {job: submitted[job] for job in listed if job in submitted}


def cancel(sweep: Sweep) -> int:
    """Remove a sweep's jobs from Slurm and return their number."""
    if jobs := queued(sweep):
        _call("scancel", *jobs)
        # For half a minute they are listed as ending, and the same command must submit their cells.
        write_json(sweep.folder / _JOBS, {})
    return len(jobs)


def _call(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as problem:
        why = getattr(problem, "stderr", None) or problem
        raise RunError(
            f"{command[0]} failed ({str(why).strip()}); use a machine of the Slurm cluster"
        ) from None
    return done.stdout
