"""A sweep on disk: one file with its cells. What state each is in stands in the runs' own folders, never here."""

import logging
import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pydantic
from rich.filesize import decimal

from workbench.errors import RunError, SettingError, printable
from workbench.files import explained, write_json
from workbench.headless import check_settings, is_shown
from workbench.runs import Run, clock, counted, failure_of, folder_of_runs, is_finished, is_running, list_folders
from workbench.sweeps._plan import Cell, Spec, cells_of

_LOG = logging.getLogger("workbench")
_FOLDER, _FILE = "sweeps", "sweep.json"
# What decides how long a run takes, roughly: a finished one that shares these says it of the others.
_LIKE = ("profile", "encoder", "train", "train_limit", "max_steps", "epochs", "batch_size", "suites")
STATES = ("finished", "running", "failed", "unfinished", "waiting")


@dataclass(frozen=True)
class Outlook:
    """What is to come: cells, of which so many are finished; seconds one after the other and bytes, None if unknown."""

    cells: int
    finished: int
    failed: int
    running: int
    first: int
    seconds: float | None
    known_from: int
    bytes: int | None
    bytes_free: int

    def text(self, jobs: int) -> str:
        """In two lines, for `jobs` cells at a time."""
        to_run = self.cells - self.finished
        counts = [f"{self.finished} finished", f"{to_run} to run"]
        counts += [f"{self.failed} of them failed before"] if self.failed else []
        counts += [f"{self.running} of them being run by another process"] if self.running else []
        counts += [f"{self.first} of them first: others learn from them"] if self.first else []
        if not to_run:
            return f"{counted(self.cells, 'cell')}: all finished, nothing to run"
        time = "time unknown until a cell has finished"
        if self.seconds is not None:
            known = counted(self.known_from, "finished run")
            time = f"about {clock(self.seconds / jobs)} with {jobs} at a time once all is loaded, from {known}"
        room = "disk unknown"
        if self.bytes is not None:
            room = f"{decimal(self.bytes)} of disk ({decimal(self.bytes_free)} free)"
        return f"{counted(self.cells, 'cell')}: {', '.join(counts)}\nexpected: {time}; {room}"


class _Content(pydantic.BaseModel):
    """The part of sweep.json that is read."""

    cells: Annotated[list[Cell], pydantic.Field(min_length=1)]


class Sweep:
    """One sweep: `<runs>/sweeps/<name>/sweep.json`, beside it a log of each cell."""

    def __init__(self, folder: str | Path) -> None:
        """The sweep in an existing folder, for reading. Raises RunError where there is none."""
        self.folder = Path(folder)
        try:
            self.cells = _Content.model_validate_json((self.folder / _FILE).read_bytes()).cells
        except (OSError, pydantic.ValidationError) as problem:
            why = problem.errors()[0]["msg"] if isinstance(problem, pydantic.ValidationError) else problem.strerror
            raise RunError(
                f"{self.folder / _FILE} is no file of a sweep ({why}); remove it and start the sweep again, its "
                "finished runs stay"
            ) from None
        self.root = self.folder.parent.parent

    @classmethod
    def create(cls, spec: Spec, runs_root: str | Path = "runs", name: str = "") -> "Sweep":
        """The sweep of `spec` under `runs_root`; the one that is there where it has the same cells.

        What is still to run is checked before anything is made. Raises SettingError, DataError, and RunError where a
        sweep of this `name` has other cells.
        """
        cells = cells_of(spec)
        root = folder_of_runs(runs_root).resolve()
        for cell in _one_of_a_kind([cell for cell in cells if not is_finished(root / cell.path)]):
            check_settings(cell.config)
        folder = root / _FOLDER / (name or spec.title)
        if Path(name).name != name or name == "..":
            raise SettingError(f"{name!r} is no name for a sweep: it is that of a folder under {root / _FOLDER}")
        facts = {"spec": spec.model_dump(mode="json"), "cells": [asdict(cell) for cell in cells]}
        if (folder / _FILE).exists():
            if [cell.path for cell in cls(folder).cells] != [cell.path for cell in cells]:
                raise RunError(f"the sweep {folder} has other cells; give another name, its finished runs are shared")
        else:
            with explained(folder):
                folder.mkdir(parents=True, exist_ok=True)
                write_json(folder / _FILE, facts)
        return cls(folder)

    @property
    def name(self) -> str:
        """Its folder's."""
        return self.folder.name

    @property
    def begun(self) -> bool:
        """Whether it was ever started: beside its file there are logs."""
        return any(path.name != _FILE for path in self.folder.iterdir())

    def path(self, cell: Cell) -> Path:
        """The folder of a cell's run."""
        return self.root / cell.path

    def log(self, cell: Cell) -> Path:
        """What a cell printed, start after start."""
        return self.folder / f"{cell.path.replace('/', '-')}.log"

    def state(self, cell: Cell) -> str:
        """One of STATES, read from the run's folder."""
        path = self.path(cell)
        if is_finished(path) and (is_shown(path) or not (path / "notebook.ipynb").exists()):
            return "finished"
        if is_running(path):
            return "running"
        if failure_of(path) is not None:
            return "failed"
        return "unfinished" if (path / "config.json").exists() else "waiting"

    def table(self) -> pd.DataFrame:
        """A row a cell: cell, method, seed, state, failure (why the last start ended), seconds, path."""
        rows = []
        for cell in self.cells:
            path, state = self.path(cell), self.state(cell)
            seconds = Run(path).facts().get("seconds") if state == "finished" else None
            why = (failure_of(path) or "") if state == "failed" else ""
            facts = {"cell": cell.title, "method": cell.method, "seed": cell.seed, "state": state}
            rows.append(facts | {"failure": why, "seconds": seconds, "path": str(path)})
        return pd.DataFrame(rows).astype({"seconds": float})

    def counts(self, table: pd.DataFrame) -> str:
        """How many cells there are, and in which states, by its `table`."""
        states = table["state"].value_counts().items()
        return f"{counted(len(self.cells), 'cell')}: {', '.join(f'{count} {state}' for state, count in states)}"

    def outlook(self) -> Outlook:
        """What is finished, what is to come, how long it should take, how much disk it should need."""
        states = {cell.path: self.state(cell) for cell in self.cells}
        missing = [cell for cell in self.cells if states[cell.path] != "finished"]
        seconds, sizes = _known(self.root)
        kinds = [_kind(cell.method, cell.config.model_dump(mode="json")) for cell in missing]
        known = all(kind in seconds for kind in kinds)
        return Outlook(
            cells=len(self.cells),
            finished=len(self.cells) - len(missing),
            failed=sum(state == "failed" for state in states.values()),
            running=sum(state == "running" for state in states.values()),
            first=len({path for cell in missing for path in cell.needs if states[path] != "finished"}),
            seconds=sum(float(np.median(seconds[kind])) for kind in kinds) if known else None,
            known_from=sum(len(found) for found in seconds.values()),
            bytes=sum(int(np.median(sizes[kind])) for kind in kinds) if known else None,
            bytes_free=shutil.disk_usage(self.root).free,
        )

    def __repr__(self) -> str:
        return f"Sweep({str(self.folder)!r}, {counted(len(self.cells), 'cell')})"

    def _repr_html_(self) -> str:
        table = self.table()
        return f"<p>{escape(self.name)}: {self.counts(table)}</p>{table.drop(columns=['path']).to_html(na_rep='')}"


def list_sweeps(runs_root: str | Path = "runs") -> list[Sweep]:
    """Return every sweep under `runs_root`; one whose file is damaged is left out, with a line that says why."""
    found = []
    for folder in _folders(runs_root):
        try:
            found.append(Sweep(folder))
        except RunError as problem:
            _LOG.warning("left out: %s", printable(problem))
    return found


def _folders(runs_root: str | Path) -> list[Path]:
    return sorted(path.parent for path in (folder_of_runs(runs_root) / _FOLDER).glob(f"*/{_FILE}"))


def find_sweep(name: str, runs_root: str | Path = "runs") -> Sweep:
    """The sweep of this name, or of the only one that begins so. Raises RunError."""
    found = {folder.name: folder for folder in _folders(runs_root)}
    near = [name] if name in found else [each for each in found if each.startswith(name)]
    if len(near) != 1:
        what = "several sweeps begin with" if near else "there is no sweep"
        raise RunError(f"{what} {name!r} under {runs_root}; there are: {', '.join(near or found) or 'none'}")
    return Sweep(found[near[0]])


def _one_of_a_kind(cells: list[Cell]) -> list[Cell]:
    """Of cells that need the same sets, encoders and places, one: reading a set takes seconds."""
    kinds = {}
    for cell in cells:
        config = cell.config
        settings = {name: getattr(config, name, None) for name in ("max_tokens", "pooling", "template", "device")}
        kinds[repr((cell.method, config.data_sets, config.checkpoints, config.revisions, settings))] = cell
    return list(kinds.values())


def _kind(method: str, settings: Mapping[str, Any]) -> str:
    return repr([method, *(settings.get(name) for name in _LIKE)])


def _known(root: Path) -> tuple[dict[str, list[float]], dict[str, list[int]]]:
    """Seconds and bytes of the finished runs under `root`, by kind; of the bytes a few of each kind are enough."""
    seconds: dict[str, list[float]] = defaultdict(list)
    sizes: dict[str, list[int]] = defaultdict(list)
    for path in list_folders(root):
        try:
            facts = Run(path).facts() if is_finished(path) else {}
        except RunError:
            continue
        if "seconds" not in facts:
            continue
        kind = _kind(facts["method"], facts["settings"])
        seconds[kind].append(float(facts["seconds"]))
        if len(sizes[kind]) < 3:
            sizes[kind].append(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
    return seconds, sizes
