"""Many runs: a grid of settings, methods and seeds, run where they are missing, on this machine or on Slurm."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench.runs import counted
from workbench.sweeps._local import run_here
from workbench.sweeps._plan import (
    Cell as Cell,
    Spec as Spec,
    read_spec as read_spec,
    read_spec_file as read_spec_file,
    seeds_of as seeds_of,
    typed_grid as typed_grid,
)
from workbench.sweeps._process import tail as tail
from workbench.sweeps._slurm import Slurm as Slurm, cancel as cancel, queued as queued, submit
from workbench.sweeps._sweep import (
    STATES as STATES,
    Outlook as Outlook,
    Sweep as Sweep,
    find_sweep as find_sweep,
    list_sweeps as list_sweeps,
)
from workbench.sweeps._view import View


def sweep(
    methods: str | Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
    *,
    seeds: str | int | Iterable[int] = 0,
    profile: str = "demo",
    grid: Mapping[str, Any] | None = None,
    points: Iterable[Mapping[str, Any]] = (),
    without: Iterable[Mapping[str, Any]] = (),
    runs_root: str | Path = "runs",
    name: str = "",
    jobs: int = 0,
    dry: bool = False,
    slurm: Slurm | None = None,
) -> Sweep:
    """Runs what is missing of a sweep and returns it; a notebook shows its cells and their states.

    Args:
        methods: Names, or name -> grid of this method alone.
        seeds: "0-4", a number, or numbers.
        profile: Of every method.
        grid: Setting -> its values (one alone may stand without a list); every method runs every combination.
        points: Single settings beside the grid: {"name", "method", "settings", "profile"}.
        without: Combinations to leave out: {"method": ..., setting: value, ...}, all of which must hold.
        runs_root: The folder of runs.
        name: Of the sweep; "": made from its methods and a checksum of what was asked.
        jobs: Cells at a time, which share cores or GPUs; 0: one a GPU, else one; on Slurm as many as it has room for.
        dry: Only checks and writes down what there is to run: see `Sweep.outlook` and `Sweep.table`.
        slurm: What each cell asks of a Slurm cluster, which then runs them: this returns at once. None: this machine.

    Raises:
        SettingError, DataError: Before anything is run. A cell that fails raises nothing: its state says so.
        RunError: Slurm takes no jobs.
    """
    asked = {"methods": methods, "seeds": seeds, "profile": profile, "points": [*points], "without": [*without]}
    found = Sweep.create(read_spec(**asked, grid=grid or {}), runs_root, name)
    outlook = found.outlook()
    view = View(found, outlook.cells - outlook.finished)
    view.console.print(f"{found.name}: {outlook.text(max(1, jobs))}", markup=False, highlight=False, soft_wrap=True)
    if dry:
        return found
    if slurm is None:
        run_here(found, view, jobs=jobs)
    else:
        made = submit(found, slurm, at_once=jobs)
        text = f"{counted(sum(map(len, made.values())), 'cell')} put into Slurm's queue"
        text += f" as {'job' if len(made) == 1 else 'jobs'} {', '.join(made)}" if made else ""
        view.console.print(text, markup=False, highlight=False, soft_wrap=True)
    return found
