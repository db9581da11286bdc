"""The state of a run in its folder: finished, or locked by the process that is working on it."""

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import filelock
from pydantic import TypeAdapter, ValidationError

from workbench.errors import BusyRunError, RunError
from workbench.files import timestamp

FINISHED = "metrics.json"  # written last
_LOCK = ".lock"
_ANY_OBJECT = TypeAdapter(dict[str, Any])


def is_finished(path: Path) -> bool:
    """Return whether the run, or the stage of a run, in `path` is finished."""
    return (path / FINISHED).is_file()


def lock_run(path: Path) -> filelock.BaseFileLock:
    """Take the lock of the run in `path`. Raises BusyRunError if another process holds it."""
    file = path / _LOCK
    lock = filelock.FileLock(file, is_singleton=True)
    try:
        lock.acquire(timeout=0.5, poll_interval=0.02)  # `is_running` holds it for a moment
    except filelock.Timeout:
        holder = ""
        with suppress(OSError):
            holder = f" ({file.read_text()})"
        raise BusyRunError(f"another process is working on {path}{holder}; wait until it ends") from None
    if lock.lock_counter == 1:
        notebook = f", the kernel of {session}" if (session := os.environ.get("JPY_SESSION_NAME")) else ""
        with suppress(OSError):  # the disk is full
            file.write_text(f"process {os.getpid()} on {platform.node()} since {timestamp()}{notebook}")
    return lock


def is_running(path: Path) -> bool:
    """Return whether a process, this one included, holds the lock of the run in `path`."""
    try:
        if (path / _LOCK).exists():
            with filelock.FileLock(path / _LOCK, timeout=0):
                pass
    except filelock.Timeout:
        return True
    except OSError:  # nobody can write there
        pass
    return False


def read_json(path: Path, kind: TypeAdapter = _ANY_OBJECT) -> Any:
    """Return the content of a JSON file. Raises RunError if it cannot be read or has another form."""
    try:
        return kind.validate_json(path.read_bytes())
    except OSError as problem:
        why = problem.strerror
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        why = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
    raise RunError(f"{path} cannot be read ({why}); {remedy(path)}")


def remedy(path: Path) -> str:
    """Return what to do about a damaged file of a run."""
    folder = path.parent.parent if path.parent.name == "before" else path.parent
    return f"restore the file, or move {folder} away and run it again"
