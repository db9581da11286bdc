"""Find runs by name or by filters, and remove them, except those that other runs need."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.config import CONFIGS, RECORDED, BaseConfig
from workbench.errors import RunError, SettingError, WorkbenchError
from workbench.files import reraise_os_error
from workbench.runs._listing import is_filter, list_runs, read_rows, run_folders
from workbench.runs._run import NAME, Run, run_path
from workbench.runs._state import is_running


def find_run(name: str, root: str | Path = "runs") -> Run:
    """Return the run in a folder, or the only one under `root` whose name, with or without its method, begins so."""
    if _is_folder(name):
        return Run(name)
    folders = run_folders(root) if name else []
    near = [path for path in folders if path.name.startswith(name)]
    near = near or [path for path in folders if f"{path.parent.name}/{path.name}".startswith(name)]
    if not near:
        raise RunError(f"no run {name!r} under {root}; list them with: workbench runs")
    if len(near) > 1:
        raise RunError(f"{len(near)} runs begin with {name!r}: {', '.join(map(str, near[:8]))}; write more of the name")
    return Run(near[0])


def _is_folder(word: str) -> bool:
    return (Path(word) / "config.json").is_file()


def choose_runs(words: Sequence[str], root: str | Path = "runs") -> list[Run]:
    """Return the runs with these names (as `find_run`), each once, or those that satisfy all filters.

    Raises RunError if there is none, SettingError if names and filters are mixed.
    """
    where = [word for word in words if is_filter(word) and not _is_folder(word)]
    if not where:
        return list({run.path.resolve(): run for run in (find_run(name, root) for name in words)}.values())
    if len(where) < len(words):
        raise SettingError(f"{' '.join(words)}: either names of runs or filters, not both")
    chosen = list_runs(root, where)
    if chosen.empty:
        raise RunError(f"no runs under {root} with {' '.join(where)}")
    return [Run(path) for path in chosen["path"]]


def needed_by(root: str | Path) -> dict[Path, dict[Path, str]]:
    """Return folder of a run -> folders of the runs under `root` that "learned from it" or "evaluated it"."""
    needs: dict[Path, dict[Path, str]] = {}
    for row in read_rows(root):
        why = "evaluated it" if row["method"] == BaseConfig.method else "learned from it"
        own = Path(row["path"]).resolve()
        for path in _runs_needed(row, Path(root)) - {own}:
            needs.setdefault(path, {})[own] = why
    return needs


def _runs_needed(row: dict[str, Any], root: Path) -> set[Path]:
    """Return the folders of the runs that the settings in a row of `read_rows` name."""
    if not row.get("settings"):  # it cannot be read
        return set()
    config = RECORDED[row["method"]](**row["settings"])
    named = {Path(text) for texts in config.paths().values() for text in texts}
    paths = {path.parent if path.name == "encoder" else path for path in named}
    with suppress(WorkbenchError):  # a setting names a file that is gone
        needed = [CONFIGS[name].from_parameters(profile, config.seed) for name, profile in config.runs_needed]
        paths |= {run_path(each, root).resolve() for each in needed}
    return {path for path in paths if NAME.fullmatch(path.name)}


def remove_runs(runs: Sequence[Run], root: str | Path = "runs") -> None:
    """Remove runs for good. Raises RunError if one is in progress, or needed by a run that stays."""
    needs, leaving = needed_by(root), {run.path.resolve() for run in runs}
    for path in leaving:
        if is_running(path):
            raise RunError(f"a process is working on {path} ({(path / '.lock').read_text()}); end it first")
        stay = sorted(f"{other} {why}" for other, why in needs.get(path, {}).items() if other not in leaving)
        if stay:
            raise RunError(f"{path} is needed: {', '.join(stay)}; remove these too, or keep it")
    for run in runs:
        with reraise_os_error(run.path):
            gone = run.path.with_name(f".{run.path.name}.removed")
            run.path.rename(gone)  # in one step: a kill leaves no half run
            shutil.rmtree(gone)
