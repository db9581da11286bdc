"""The cells of a sweep (methods x grid x seeds, without exclusions), and a sweep on disk.

The state of each cell is read from its run's folder, never stored.
"""

import itertools
import logging
import math
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import filelock
import pandas as pd
import pydantic

from workbench.config import CONFIGS, TrainingConfig, setting_text
from workbench.errors import RunError, SettingError, unknown_name
from workbench.execution import check_settings
from workbench.files import reraise_os_error, text_checksum, write_json
from workbench.runs import is_finished, is_running, read_json, read_row, run_path

_LOG = logging.getLogger("workbench")
_FOLDER, _FILE = "sweeps", "sweep.json"
_MOST_CELLS = 100_000
_NAMES = ("methods", "seeds", "profile", "grid", "without")  # of a sweep's file


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    method: str
    profile: str
    seed: int
    overrides: dict[str, Any]
    path: str  # of its folder, relative to the folder of runs
    needs: tuple[str, ...] = ()  # paths of the cells that must be finished before it
    name: str = ""  # the settings of the grid that vary

    @property
    def config(self) -> TrainingConfig:
        """All settings of the run."""
        return CONFIGS[self.method].from_parameters(self.profile, self.seed, self.overrides)

    @property
    def title(self) -> str:
        """Method, varied settings and seed, as text."""
        return " ".join(part for part in (self.method, self.name, f"seed {self.seed}") if part)


def _as_grids(methods: Any) -> Any:
    names = [methods] if isinstance(methods, str) else methods
    return {name: (methods[name] if isinstance(methods, Mapping) else None) or {} for name in names}


def _read_seeds(value: Any) -> Any:
    """Return the seeds of 3, [0, 1], "3", "0-4" or "0-2,7"."""
    if not isinstance(value, str):
        return [value] if isinstance(value, int) else [*value]
    parts = [part.partition("-") for part in value.split(",")]
    ranges = [range(int(first), int(last or first) + 1) for first, _, last in parts]
    if not all(ranges) or sum(map(len, ranges)) > _MOST_CELLS:
        raise ValueError(f"{value!r}: expected 3, 0-4 or 0-2,7, and at most {_MOST_CELLS} seeds")
    return list(dict.fromkeys(itertools.chain(*ranges)))


_as_list = pydantic.BeforeValidator(lambda value: [*value] if isinstance(value, (list, tuple)) else [value])
Grid = dict[str, Annotated[list[Any], _as_list]]


def read_sweep_file(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML or YAML file that describes a sweep: arguments of `sweep`. Raises SettingError."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        content = dict(tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text))
    except (OSError, TypeError, ValueError, yaml.YAMLError) as problem:
        raise SettingError(f"{path} cannot be read ({problem}); expected {', '.join(_NAMES)} by name") from None
    for name in content.keys() - _NAMES:
        raise SettingError(f"{path}: {unknown_name('entry', name, _NAMES, 'of a sweep')}")
    return content


@pydantic.validate_call
def plan_cells(
    methods: Annotated[dict[str, Grid], pydantic.BeforeValidator(_as_grids)],
    seeds: Annotated[list[int], pydantic.BeforeValidator(_read_seeds)],
    profile: str,
    grid: Grid,
    without: list[dict[str, Any]],
) -> list[Cell]:
    """Return each run once, after the runs that it needs; arguments as for `sweep`."""
    count = len(seeds) * sum(math.prod(map(len, (grid | own).values())) for own in methods.values())
    if count > _MOST_CELLS:
        raise SettingError(f"the sweep has {count} cells; at most {_MOST_CELLS} are possible")
    cells: dict[str, Cell] = {}
    unused = list(without)
    for method, own in methods.items():
        settings = {CONFIGS[method].setting_name(name): values for name, values in (grid | own).items()}
        varied = [name for name in settings if len(settings[name]) > 1]
        for values, seed in itertools.product(itertools.product(*settings.values()), seeds):
            chosen = dict(zip(settings, values, strict=True))
            facts = {"method": method, "profile": profile, "seed": seed, **chosen}
            excluding = [entry for entry in without if facts | entry == facts]
            unused = [entry for entry in unused if entry not in excluding]
            cell = _cell(method, profile, seed, chosen, ", ".join(f"{name}={chosen[name]}" for name in varied))
            if not excluding and cell.path not in cells:
                needs = [_cell(*needed, seed, {}) for needed in cell.config.runs_needed]
                cells |= {needed.path: needed for needed in needs if needed.path not in cells}
                cells[cell.path] = replace(cell, needs=tuple(needed.path for needed in needs))
    if unused:
        raise SettingError(f"without: {unused[0]} leaves nothing out; write names and values as in the grid")
    if not cells:
        raise SettingError("The sweep is empty: specify a method, e.g. `workbench sweep simcse --seeds 0-4`.")
    return list(cells.values())


def _cell(method: str, profile: str, seed: int, settings: dict[str, Any], name: str = "") -> Cell:
    config = CONFIGS[method].from_parameters(profile, seed, settings)
    overrides = config.model_dump(mode="json", include={*settings})
    return Cell(method, profile, seed, overrides, run_path(config, ".").as_posix(), name=name)


class _Content(pydantic.BaseModel):  # the part of sweep.json that is read
    cells: Annotated[list[Cell], pydantic.Field(min_length=1)]
    notebook: bool = True


class Sweep:
    """One sweep: `<runs>/sweeps/<name>/sweep.json` and a log for each cell."""

    def __init__(self, folder: str | Path) -> None:
        """Open the sweep in an existing folder. Raises RunError if it cannot be read."""
        self.folder = Path(folder)
        self.name, self.root = self.folder.name, self.folder.parent.parent
        content: _Content = read_json(self.folder / _FILE, pydantic.TypeAdapter(_Content))
        self.cells, self.notebook = content.cells, content.notebook

    def log(self, cell: Cell) -> Path:
        """Return the file that contains everything a cell printed, over all its starts."""
        return self.folder / f"{cell.path.replace('/', '-')}.log"

    def command(self, cell: Cell) -> list[str]:
        """Return the command line that runs a cell."""
        words = [f"{name}={setting_text(value)}" for name, value in cell.overrides.items()]
        options = ["--profile", cell.profile, "--seed", str(cell.seed), "--runs", str(self.root)]
        options += [] if self.notebook else ["--no-notebook"]
        return [sys.executable, "-m", "workbench", "run", cell.method, *options, "--", *words]

    def start(self, cell: Cell, **environment: str) -> subprocess.Popen[bytes]:
        """Start a cell as a process that writes to its log and ends with this one, also after kill -9."""
        lock = self.folder.with_name(f".{self.log(cell).stem}.lock")  # shared with the same cell of other sweeps
        with self.log(cell).open("ab") as log:
            return subprocess.Popen(
                self.command(cell),
                stdin=subprocess.PIPE,  # which `workbench run` sees closed
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, "WORKBENCH_CELL": str(lock)},
                start_new_session=True,  # Ctrl-C reaches the sweep alone, which then ends its cells
            )

    def read(self, cell: Cell) -> dict[str, Any]:
        """Return a row of `table`; state: finished, running, failed, unfinished, waiting or unreadable."""
        path = self.root / cell.path
        row = read_row(path) if (path / "config.json").exists() else {"status": "waiting"}
        state, _, problem = row["status"].partition(": ")
        if state == "finished" and self.notebook and (row["failure"] or not (path / "notebook.ipynb").is_file()):
            state = "failed" if row["failure"] else "unfinished"
        if state != "finished" and is_running(path):
            state = "running"
        row |= {"cell": cell.title, "method": cell.method, "seed": cell.seed, "path": str(path)}
        return row | {"state": state, "failure": problem or (state == "failed" and row["failure"]) or ""}

    def missing_stages(self) -> list[list[Cell]]:
        """Return the cells that are not finished: those that need no other, then those that do."""
        missing = [cell for cell in self.cells if self.read(cell)["state"] != "finished"]
        return [[cell for cell in missing if not cell.needs], [cell for cell in missing if cell.needs]]

    def table(self) -> pd.DataFrame:
        """Return a row for each cell: cell, method, seed, state, failure (of its last start), seconds, path."""
        columns = ["cell", "method", "seed", "state", "failure", "seconds", "path"]
        return pd.DataFrame(map(self.read, self.cells), columns=columns).astype({"seconds": float})


def open_sweep(cells: list[Cell], runs_root: str | Path, name: str, *, notebook: bool) -> Sweep:
    """Check the missing cells' settings and data; write the sweep under `runs_root`, or open that of the same cells."""
    root, paths = Path(runs_root).expanduser().resolve(), [cell.path for cell in cells]
    configs = [cell.config for cell in cells if not is_finished(root / cell.path)]
    # One for each choice of data sets and encoders: checking a set takes seconds.
    for config in {repr([c.method, c.data_sets, c.checkpoints, c.pooling]): c for c in configs}.values():
        check_settings(config)
    methods = "-".join(dict.fromkeys(cell.method for cell in cells))
    if Path(name).name != name:
        raise SettingError(f"name={name!r} is a path; choose a name without a path, for a folder in {root / _FOLDER}")
    folder = root / _FOLDER / (name or f"{methods}-{text_checksum(*sorted(paths))[:6]}")
    with reraise_os_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock"):  # the same command may be starting elsewhere
            if (folder / _FILE).exists() and {cell.path for cell in Sweep(folder).cells} != {*paths}:
                raise RunError(f"the sweep {folder} has other cells; choose another name, finished runs are shared")
            write_json(folder / _FILE, {"notebook": notebook, "cells": [asdict(cell) for cell in cells]})
    return Sweep(folder)


def list_sweeps(runs_root: str | Path = "runs") -> list[Sweep]:
    """Return every readable sweep under `runs_root`; log a warning for each other one."""
    sweeps = []
    for file in sorted((Path(runs_root).expanduser() / _FOLDER).glob(f"*/{_FILE}")):
        try:
            sweeps.append(Sweep(file.parent))
        except RunError as problem:
            _LOG.warning("left out: %s", problem)
    return sweeps


def find_sweep(name: str, runs_root: str | Path = "runs") -> Sweep:
    """Return the sweep of this name, or the only one whose name begins so. Raises RunError."""
    near = {sweep.name: sweep for sweep in list_sweeps(runs_root) if sweep.name.startswith(name)}
    if name not in near and len(near) != 1:
        raise RunError(f"{len(near)} sweeps under {runs_root} begin with {name!r}; see `workbench sweep status`")
    return near.get(name) or near.popitem()[1]


def summarize(table: pd.DataFrame) -> str:
    """Return the number of cells in each state of `Sweep.table`, as text."""
    states = table["state"].value_counts().items()
    return f"{len(table)} cells: {', '.join(f'{count} {state}' for state, count in states)}"
