"""The cells of a sweep (methods x grid x seeds, without exclusions), and a sweep on disk.

The state of each cell is read from its run's folder, never stored.
"""

import itertools
import json
import math
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import yaml
from pandas import DataFrame
from pydantic import BaseModel, Field, TypeAdapter

from workbench.config import CONFIGS, TrainingConfig, setting_text, unique_keys
from workbench.errors import RunError, SettingError, first_problem
from workbench.execution import check_settings, notebook_of
from workbench.files import (
    as_list,
    file_lock,
    reraise_os_error,
    text_checksum,
    user_path,
    write_json,
)
from workbench.printing import LOG
from workbench.runs import AnyPath, Facts, finished_run, held_lock, read_json, read_row, run_path

_FOLDER = "sweeps"
_FILE = "sweep.json"
_MOST_CELLS = 100_000  # of one method
_NAME = re.compile(r"\w[\w .,+=@:-]{0,99}")  # of a sweep, which is that of its folder


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    method: str
    profile: str
    seed: int
    overrides: Facts
    path: str  # of its folder, relative to the folder of runs
    needs: tuple[str, ...]  # paths of the cells that must be finished before it
    title: str = ""  # method, settings of the grid that vary, and seed; 0.2.0 wrote none

    @property
    def config(self) -> TrainingConfig:
        """All settings of the run."""
        return CONFIGS[self.method].from_parameters(self.profile, self.seed, self.overrides)


def read_seeds(seeds: str | int | Iterable[int]) -> list[int]:
    """Return the seeds of 3, [0, 1], "3", "0-4" or "0-2,7"."""
    if not isinstance(seeds, str):
        return as_list(seeds)
    chosen = []
    for part in seeds.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        span = match and range(int(match[1]), int(match[2] or match[1]) + 1)
        if not span:
            raise SettingError(f"seeds={seeds!r} cannot be read; write 3, 0-4 or 0-2,7")
        chosen += span[: _MOST_CELLS + 1]  # enough to be refused: 0-9999999999 fills no memory
    return chosen


class _SweepFile(BaseModel, extra="forbid"):
    """The contents of a sweep's file: arguments of `sweep`."""

    methods: str | list[str] | dict[str, Facts | None] = []
    seeds: str | int | list[int] = 0
    profile: str = ""
    grid: Facts = {}
    without: Facts | list[Facts] = []


class _TextLoader(yaml.SafeLoader):
    """Read the plain words of YAML as text.

    Settings read them as on a command line: 010 is ten, 1:30 no number.
    """

    # Of each of these beginnings the last: null, and the merge key <<.
    yaml_implicit_resolvers: ClassVar[Any] = {
        first: yaml.SafeLoader.yaml_implicit_resolvers[first][-1:] for first in ("", "~", "n", "<")
    }

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Refuse a key that is given twice."""
        node = super().compose_mapping_node(anchor)
        unique_keys([(str(key.value), None) for key, _ in node.value])
        return node


def load_yaml(text: str) -> Any:
    """Return the contents of YAML with its values as text.

    Raises SettingError and yaml.YAMLError.
    """
    return yaml.load(text, _TextLoader)


_READERS = {
    ".toml": tomllib.loads,
    ".yaml": load_yaml,
    ".yml": load_yaml,
    ".json": partial(json.loads, object_pairs_hook=unique_keys),
}
SWEEP_FILES = tuple(_READERS)


def read_sweep_file(path: Path) -> Facts:
    """Return the arguments of `sweep` from a TOML, YAML or JSON file.

    Raises SettingError.
    """
    try:
        content = _READERS[path.suffix](path.read_text(encoding="utf-8-sig"))
        return _SweepFile.model_validate(content).model_dump(exclude_unset=True)
    except Exception as problem:  # whatever is wrong with the file
        names = ", ".join(_SweepFile.model_fields)
        raise SettingError(
            f"{path} cannot be read ({first_problem(problem)}); expected {names} by name"
        ) from None


def merge_grids(method: str, *grids: Facts) -> Facts:
    """Return the values of each setting of a method.

    Raises SettingError for a setting that is given twice, has no values, or several that are one
    run.
    """
    settings = []
    for grid in grids:
        for name, values in grid.items():
            setting = CONFIGS[method].setting_name(name)
            listed = values if isinstance(values, (list, tuple)) else [values]
            if not listed:
                raise SettingError(f"{setting} has no values for {method}")
            if listed[1:] and setting in CONFIGS[method].outside_digest - {"seed", "profile"}:
                raise SettingError(f"{setting} changes no result: its values are one run; give one")
            settings.append((setting, listed))
    return unique_keys(settings)


def plan_cells(
    grids: dict[str, Facts],
    seeds: Sequence[int],
    profile: str,
    without: Sequence[Facts],
) -> list[Cell]:
    """Return each run once, after the runs that it needs.

    grids: Method -> setting -> its values.
    """
    cells = {}  # path -> cell
    unused = list(without)

    def add_cell(config: TrainingConfig, title: str) -> str:
        title = f"{title} seed {config.seed}"
        path = run_path(config, ".").as_posix()
        if path not in cells:
            # With a base_root of its own the run learns from one there.
            needed = [] if getattr(config, "base_root", None) else config.runs_needed
            needs = tuple(add_cell(other, other.method) for other in needed)
            cells[path] = Cell(
                config.method, config.profile, config.seed, config.overrides, path, needs, title
            )
        return path

    for method, settings in grids.items():
        # Counted before they are listed, which of a typing error could fill the memory.
        if len(seeds) * math.prod(map(len, settings.values())) > _MOST_CELLS:
            raise SettingError(
                f"more than {_MOST_CELLS} cells of {method}: at most so many are possible"
            )
        varying = [name for name, values in settings.items() if len(values) > 1]
        for *values, seed in itertools.product(*settings.values(), seeds):
            chosen = dict(zip(settings, values, strict=True))
            facts = {"profile": profile, "seed": seed, **chosen}
            excluding = [entry for entry in without if _excludes(entry, method, facts)]
            unused = [entry for entry in unused if entry not in excluding]
            if excluding:
                continue
            own = ", ".join(f"{name}={chosen[name]}" for name in varying)
            title = f"{method} {own}".rstrip()
            add_cell(CONFIGS[method].from_parameters(profile, seed, chosen), title)
    if unused:
        raise SettingError(
            f"without: {unused[0]} excludes no cell; write names and values as in the grid"
        )
    if not cells:
        raise SettingError(
            "The sweep is empty: give a method and a seed, e.g. `workbench sweep simcse --seeds "
            "0-4`, and exclude fewer cells by `without`."
        )
    return list(cells.values())


def _excludes(entry: Facts, method: str, facts: Facts) -> bool:
    """Return whether every condition of an entry of `without` holds."""
    config = CONFIGS[method]
    others = dict(entry)
    if others.pop("method", method) != method:
        return False
    try:
        names = {name: config.setting_name(name) for name in others}
    except SettingError:  # it is that of another method
        return False
    conditions = unique_keys((names[name], value) for name, value in others.items())
    if not conditions.keys() <= facts.keys():  # the cell has no value for one of them
        return False
    # Its values are read as settings are: 1e-3 is "0.001".
    changed = facts | conditions
    with suppress(ValueError):  # a refused combination, which may be what is left out
        return config(**facts) == config(**changed)
    return facts == changed


class _Content(BaseModel):  # the part of sweep.json that is read
    cells: Annotated[list[Cell], Field(min_length=1)]
    notebook: bool = True


class Sweep:
    """One sweep: `<runs>/sweeps/<name>/sweep.json` and a log for each cell."""

    def __init__(self, folder: AnyPath) -> None:
        """Open the sweep in an existing folder. Raises RunError if it cannot be read."""
        self.folder = user_path(folder)
        self.name = self.folder.name
        self.root = self.folder.parent.parent
        content: _Content = read_json(self.folder / _FILE, TypeAdapter(_Content))
        self.cells = content.cells
        self.notebook = content.notebook

    def log(self, cell: Cell) -> Path:
        """Return the file that contains everything a cell printed, over all its starts."""
        return self.folder / f"{cell.path.replace('/', '-')}.log"

    def command(self, cell: Cell) -> list[str]:
        """Return the command line that runs a cell."""
        command = [sys.executable, "-m", "workbench", "run", cell.method, "--runs", str(self.root)]
        command += ["--profile", cell.profile, "--seed", str(cell.seed)]
        if not self.notebook:
            command.append("--no-notebook")
        settings = [f"{name}={setting_text(value)}" for name, value in cell.overrides.items()]
        return [*command, "--", *settings]  # a value may begin with a dash

    def start(self, cell: Cell, **environment: str) -> subprocess.Popen[bytes]:
        """Start a cell as a process that writes to its log and ends with this one.

        It ends also if this one is killed (kill -9), because its stdin is then closed.
        """
        with self.log(cell).open("ab") as log:
            return subprocess.Popen(
                self.command(cell),
                stdin=subprocess.PIPE,  # which `workbench run` sees closed
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, "WORKBENCH_CELL": "1"},
                start_new_session=True,  # Ctrl-C reaches the sweep alone, which then ends its cells
            )

    def read(self, cell: Cell) -> Facts:
        """Return a row of `table`.

        state: finished, running, failed, unfinished, waiting or unreadable.
        """
        path = self.root / cell.path
        run = read_row(path) if (path / "config.json").exists() else {"status": "waiting"}
        state = run["status"]
        failure = run.get("failure") or ""
        if state == "finished" and self.notebook and not (path / "notebook.ipynb").is_file():
            # A finished run whose notebook failed afterwards, or was never written, is a cell that
            # runs again; it does not train again.
            state = "failed" if failure else "unfinished"
        if state != "finished" and held_lock(path):
            state = "running"
        return {
            "cell": cell.title,
            "method": cell.method,
            "seed": cell.seed,
            "state": state,
            "failure": failure if state in ("failed", "unreadable") else "",
            "seconds": run.get("seconds"),
            "path": str(path),
        }

    def missing_stages(self) -> list[list[Cell]]:
        """Return the cells that are not finished, each stage after those that its cells need."""
        left = [cell for cell in self.cells if self.read(cell)["state"] != "finished"]
        stages = []
        while left:
            paths = {cell.path for cell in left}
            stages.append([cell for cell in left if paths.isdisjoint(cell.needs)])
            left = [cell for cell in left if not paths.isdisjoint(cell.needs)]
        return stages

    def table(self) -> DataFrame:
        """Return cell, method, seed, state, failure (of its last start), seconds, path by cell."""
        return DataFrame(map(self.read, self.cells)).astype({"seconds": float})

    def summary(self) -> str:
        """Return its name and the number of cells in each state."""
        counts = self.table()["state"].value_counts()
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        return f"{self.name}: {len(self.cells)} cells: {states}"


def open_sweep(
    cells: list[Cell], runs_root: AnyPath, name: str, *, notebook: bool, dry: bool
) -> Sweep:
    """Check the missing cells' settings and data; write the sweep, or open that of the same cells.

    Raises SettingError, DataError, EncoderError, and RunError if a sweep of this name has others.
    """
    root = user_path(runs_root).resolve()
    paths = sorted(cell.path for cell in cells)
    if name and not _NAME.fullmatch(name):
        raise SettingError(
            f"name={name!r}: a sweep's name has at most 100 letters, digits, spaces and "
            "_.,+=@:-, and begins with a letter or digit"
        )
    methods = list(dict.fromkeys(cell.method for cell in cells))
    if notebook:
        for method in methods:
            notebook_of(method)  # which refuses a method without one
    choices = {}  # of datasets and encoders, each with one cell: checking a set takes seconds
    for cell in cells:
        config = cell.config
        if not finished_run(config, root):
            sets = (config.data_sets, config.columns)
            encoders = (config.checkpoints, config.revisions, config.pooling)
            choice = repr((config.method, sets, encoders))
            choices[choice] = config
    for config in choices.values():
        check_settings(config)
    folder = root / _FOLDER / (name or f"{'-'.join(methods)}-{text_checksum(*paths)[:6]}")
    file = folder / _FILE
    with reraise_os_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # The same command may be starting elsewhere.
        with file_lock(folder / ".lock"):
            if file.exists() and sorted(cell.path for cell in Sweep(folder).cells) != paths:
                raise RunError(
                    f"the sweep {folder} has other cells; choose another name, finished runs are "
                    "shared"
                )
            # Jobs in the queue read it when they begin.
            if not (dry and file.exists()):
                write_json(file, {"notebook": notebook, "cells": cells})
    return Sweep(folder)


def list_sweeps(runs_root: AnyPath = "runs") -> list[Sweep]:
    """Return every readable sweep under `runs_root`; log a warning for each other one."""
    sweeps = []
    for file in sorted(user_path(runs_root).glob(f"{_FOLDER}/*/{_FILE}")):
        try:
            sweeps.append(Sweep(file.parent))
        except RunError as problem:
            LOG.warning("left out: %s", problem)
    return sweeps


def find_sweep(name: str, runs_root: AnyPath = "runs") -> Sweep:
    """Return the sweep of this name, or the only one whose name begins so. Raises RunError."""
    sweeps = list_sweeps(runs_root)
    near = [each for each in sweeps if each.name == name]
    near = near or [each for each in sweeps if each.name.startswith(name)]
    if len(near) != 1:
        raise RunError(
            f"{len(near)} sweeps begin with {name!r}; see "
            f'workbench sweep status --runs "{runs_root}"'
        )
    return near[0]
