"""Runs leave: removed, or as one archive that another machine takes in."""

import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.config import CONFIGS, RECORDED, BaseConfig
from workbench.errors import RunError, WorkbenchError
from workbench.files import explained, file_checksum, replacing
from workbench.runs._listing import list_folders, read_rows
from workbench.runs._run import NAME, Run, folder_of_runs, run_path
from workbench.runs._state import FINISHED, is_finished, require_idle


def runs_needed(row: dict[str, Any], root: Path) -> set[Path]:
    """The folders of the runs that the run in a row of `read_rows` learns from."""
    if not row.get("settings"):  # what cannot be read
        return set()
    config = RECORDED[row["method"]].model_validate_settings(row["settings"])
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


def export_runs(runs: Iterable[Run], file: str | Path, root: str | Path = "runs", beside: Iterable[Path] = ()) -> int:
    """Writes runs, and those that they learned from, into one .tar.gz; returns how many.

    `beside`: further files under `root`, such as a sweep's. Raises RunError where the file is there already.
    """
    target, top = Path(file), folder_of_runs(root).resolve()
    if target.exists():
        raise RunError(f"{target} is there already; give another name")
    if not target.name.endswith((".tar.gz", ".tgz")):
        raise RunError(f"{target}: an archive is a .tar.gz; give a name that ends so, or in .tgz")
    rows = {Path(row["path"]).resolve(): row for row in read_rows(root)}
    wanted = [run.path.resolve() for run in runs]
    for path in wanted:  # grows: what a run learned from comes along
        wanted += [need for need in runs_needed(rows[path], top) if need in rows and need not in wanted]
    for path in wanted:
        require_idle(path, "export it when it has ended")
    with (
        explained(target, "another file (--to FILE)"),
        replacing(target, binary=True) as stream,
        tarfile.open(fileobj=stream, mode="w:gz", compresslevel=3) as archive,
    ):
        for path in [*wanted, *beside]:
            archive.add(path, path.resolve().relative_to(top).as_posix(), filter=_seen)
    return len(wanted)


def _seen(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Locks and what is half written begin with a dot."""
    return None if Path(item.name).name.startswith(".") else item


def import_runs(file: str | Path, root: str | Path = "runs") -> dict[str, str]:
    """Takes in what `export_runs` wrote: name of each run -> "taken in", "there already" or why it was left out.

    Nothing that is there is changed. Raises RunError where the file is no such archive.
    """
    top = folder_of_runs(root)
    if not Path(file).is_file():
        raise RunError(f"there is no file {file}; give an archive that `workbench export` wrote")
    with explained(top):
        top.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=top, prefix=".import.") as scratch:
            try:
                with tarfile.open(file) as archive:
                    archive.extractall(scratch, filter="data")
            except (tarfile.TarError, EOFError, FileNotFoundError) as problem:
                said = str(problem).partition(":")[0]  # behind it tarfile lists every compression that it tried
                raise RunError(f"{file} is no archive that `workbench export` wrote ({said})") from None
            found = {f"{path.parent.name}/{path.name}": _take_in(path, top) for path in list_folders(scratch)}
            for path in Path(scratch).glob("sweeps/*"):
                if not (top / "sweeps" / path.name).exists():
                    (top / "sweeps").mkdir(exist_ok=True)
                    path.rename(top / "sweeps" / path.name)
    if not found:
        raise RunError(f"{file} holds no run; give an archive that `workbench export` wrote")
    return found


def _take_in(path: Path, top: Path) -> str:
    target = top / path.parent.name / path.name
    try:
        for name, known in Run(path).facts().get("files", {}).items():
            if not (path / name).is_file() or file_checksum(path / name) != known["sha256"]:
                return f"left out: {name} is not what the run wrote"
    except RunError as problem:
        return f"left out: {problem}"
    if target.exists():
        same = is_finished(path) and is_finished(target)
        same = same and file_checksum(path / FINISHED) == file_checksum(target / FINISHED)
        return "there already" if same else "left out: another run of these settings is there; move it away first"
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    return "taken in"
