"""Many runs: methods, settings and seeds, run where they are missing, on this machine or on a Slurm cluster."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from workbench.errors import SettingError
from workbench.sweeps._cells import (
    Cell as Cell,
    Sweep as Sweep,
    find_sweep as find_sweep,
    list_sweeps as list_sweeps,
    open_sweep,
    plan_cells as plan_cells,
    read_sweep_file as read_sweep_file,
    summarize as summarize,
)
from workbench.sweeps._processes import Slurm as Slurm, cancel as cancel, queued as queued, run_here, submit


def sweep(
    methods: str | Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
    *,
    seeds: str | int | Iterable[int] = 0,
    profile: str = "demo",
    grid: Mapping[str, Any] | None = None,
    without: Iterable[Mapping[str, Any]] = (),
    runs_root: str | Path = "runs",
    name: str = "",
    jobs: int = 0,
    dry: bool = False,
    slurm: Slurm | None = None,
    notebook: bool = True,
) -> Sweep:
    """Run the missing cells of a sweep and return it; a cell that fails raises nothing: see `Sweep.table`.

    Args:
        methods: Names, or name -> grid of that method only.
        seeds: "0-4", a number, or numbers.
        profile: Of every method.
        grid: Setting -> its values (a single one without a list); every method runs every combination.
        without: Combinations to leave out: {"method": ..., setting: value, ...}, all of which must hold.
        runs_root: The folder of runs.
        name: Of the sweep; by default its methods and a checksum of its contents.
        jobs: Cells at a time; 0: one per GPU, or one without GPUs; on Slurm without a limit.
        dry: Only check the cells and write them down.
        slurm: Resources of each cell on a Slurm cluster, to which all are submitted; None: this machine.
        notebook: Execute the method's notebook in each cell, as a record; False: only train and evaluate.

    Raises:
        SettingError, DataError: Before anything is run.
        RunError: Slurm accepts no jobs.
    """
    asked: Any = {"methods": methods, "seeds": seeds, "profile": profile, "grid": grid or {}, "without": [*without]}
    try:
        cells = plan_cells(**asked)
    except pydantic.ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise SettingError("; ".join(problems)) from None
    made = open_sweep(cells, runs_root, name, notebook=notebook)
    print(f"{made.name}: {summarize(made.table())}")
    if slurm is not None and not dry:
        print(f"{submit(made, slurm, at_once=jobs)} cells submitted to Slurm")
    elif not dry:
        run_here(made, jobs=jobs)
    return made
