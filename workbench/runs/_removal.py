"""Remove runs, except those that other runs need."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.config import CONFIGS, RECORDED, BaseConfig
from workbench.errors import RunError, WorkbenchError
from workbench.files import explained
from workbench.runs._listing import read_rows
from workbench.runs._run import NAME, Run, folder_of_runs, run_path
from workbench.runs._state import require_idle


def runs_needed(row: dict[str, Any], root: Path) -> set[Path]:
    """The folders of the runs that the run in a row of `read_rows` learns from."""
    if not row.get("settings"):  # what cannot be read
        return set()
    config = RECORDED[row["method"]](**row["settings"])
    named = {Path(text) for texts in config.paths().values() for text in texts}
    found = {each.parent if each.name == "encoder" else each for each in named}
    with suppress(WorkbenchError):  # its settings name what is not there: then nothing is needed any more
        bases = [CONFIGS[name].from_parameters(profile, config.seed) for name, profile in config.runs_needed]
        found |= {run_path(base, root).resolve() for base in bases}
    return {path for path in found if NAME.fullmatch(path.name)} - {Path(row["path"]).resolve()}


def needed_by(root: str | Path) -> dict[Path, dict[Path, str]]:
    """Folder of a run -> those of the runs under `root` that "learned from it" or "evaluated it"."""
    found: dict[Path, dict[Path, str]] = {}
    for row in read_rows(root):
        what = "evaluated it" if row["method"] == BaseConfig.method else "learned from it"
        for path in runs_needed(row, folder_of_runs(root)):
            found.setdefault(path, {})[Path(row["path"]).resolve()] = what
    return found


def require_removable(runs: Sequence[Run], root: str | Path = "runs") -> None:
    """Raises RunError where a run is in progress, or one that stays learned from it or evaluated it."""
    leaving = {run.path.resolve() for run in runs}
    needs = needed_by(root)
    for path in leaving:
        require_idle(path, "end it first")
        stay = sorted(f"{other} {what}" for other, what in needs.get(path, {}).items() if other not in leaving)
        if stay:
            raise RunError(f"{path} is needed: {', '.join(stay)}; remove these too, or keep it")


def remove_runs(runs: Sequence[Run], root: str | Path = "runs") -> None:
    """Removes runs for good; see `require_removable` for which it refuses."""
    require_removable(runs, root)
    for run in runs:
        with explained(run.path):
            gone = run.path.with_name(f".{run.path.name}.removed")
            run.path.rename(gone)  # in one moment; a kill leaves no half run
            shutil.rmtree(gone)
