"""Files that are never half written: beside, then renamed into place."""

import csv
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import pandas as pd

from workbench.errors import RunError

# What is being written stands beside its target as .<target>.<eight characters>; a folder that it replaces, as that
# with .old behind it (tempfile's names, here and in encoder/saving.py).
_BESIDE = re.compile(r"\.(?P<target>.+)\.[a-z0-9_]{8}(?P<old>\.old)?")


class History:
    """Appends to a run's history.csv; a row is what is known of one step."""

    def __init__(self, path: Path, from_step: int) -> None:
        """Continues the file at `path` after `from_step`: rows of later steps are of lost work and are dropped."""
        self.path = path
        rows = read_csv(path).to_dict("records") if path.is_file() and from_step > 0 else []
        self.rows: list[dict[str, Any]] = [
            {str(key): value for key, value in row.items() if value == value}  # noqa: PLR0124 - an empty cell is nan
            for row in rows
            if row["step"] <= from_step
        ]
        self._columns: list[str] = []

    def add(self, step: int, **values: Any) -> None:
        """Adds values to the row of `step`, which is the last row or a new one."""
        if not self.rows or self.rows[-1]["step"] != step:
            self.rows.append({"step": step})
        self.rows[-1].update(values)
        if set(values) - set(self._columns) or len(self.rows) == 1:
            self._columns = list(dict.fromkeys([*self._columns, *(key for row in self.rows for key in row)]))
        with explained(self.path), replacing(self.path) as file:
            # Rewritten whole and renamed: a kill never leaves half a line, and the file is small.
            writer = csv.DictWriter(file, self._columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)

    def table(self) -> pd.DataFrame:
        """The rows as a table."""
        return pd.DataFrame(self.rows)


@contextmanager
def replacing(path: Path) -> Iterator[Any]:
    """A text file written beside `path` and renamed into place when the block ends well."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if hasattr(os, "fchmod"):
                # A temporary file is its owner's alone; a run is read by whoever may read the folder.
                os.fchmod(file.fileno(), 0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Removes what a killed process left half written in `folder`; a folder that it was replacing is put back."""
    for left in sorted(folder.glob(".*")):
        found = _BESIDE.fullmatch(left.name)
        if found is None:
            continue
        target = folder / found["target"]
        if found["old"] and not target.exists():
            left.rename(target)
        elif left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def lock_run(path: Path, name: str = ".lock") -> filelock.BaseFileLock:
    """The lock called `name` of the run in `path`, held; RunError when another process holds it."""
    lock = filelock.FileLock(path / name, is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise RunError(f"another process is working on {path}; wait for it, or choose another seed") from None
    return lock


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON beside `path` and renames it into place; nan, which JSON has not, becomes null."""
    with replacing(path) as file:
        file.write(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and value != value else value  # noqa: PLR0124 - nan is not itself


def read_csv(path: Path, text: list[str] | None = None) -> pd.DataFrame:
    """A table of ours; `text` columns stay text: an id "007" or a sentence "nan" is what it is."""
    table = pd.read_csv(path, dtype=dict.fromkeys(text or [], str), keep_default_na=False, na_values=["", "nan"])
    for name in text or []:
        table[name] = pd.read_csv(path, usecols=[name], dtype=str, keep_default_na=False)[name]
    return table


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns the system's refusal to write into a RunError that says what to do."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write under {path}: {error.strerror or error}; free some space, or give a runs folder "
            "that can be written (--runs FOLDER, or runs_root in the notebook)"
        ) from error
