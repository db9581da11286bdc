"""What state a run is in, from its folder: finished, in progress, failed."""

import json
import platform
from pathlib import Path
from typing import Any

from workbench.errors import RunError
from workbench.files import explained, holder, is_held, now, write_json

FINISHED = "metrics.json"  # a run's last file
_FAILED = "failed.json"  # why its last start ended; gone with the next
_LOCKS = (".headless.lock", ".lock", ".processes.lock")  # of a run in progress, one at least is held


def is_finished(path: Path) -> bool:
    """Whether the run in `path` is finished: metrics.json is written last. RunError for a path that cannot be."""
    with explained(path):
        return (path / FINISHED).is_file()


def is_running(path: Path) -> bool:
    """Whether a process works on the run in `path`: one of this machine, or of others where the file system tells."""
    return any(is_held(path, name) for name in _LOCKS)


def require_idle(path: Path, what: str) -> None:
    """Raises RunError where a process works on the run in `path`; `what` is to be done about it."""
    for name in _LOCKS:
        if is_held(path, name):
            raise RunError(f"a process is working on {path} ({holder(path, name)}); {what}")


def note_failure(path: Path, message: str) -> None:
    """Keeps why a start of the run in `path` ended, until the next one."""
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / _FAILED, {"message": message, "time": now(), "host": platform.node()})


def forget_failure(path: Path) -> None:
    """Ends what `note_failure` began."""
    (path / _FAILED).unlink(missing_ok=True)


def failure_of(path: Path) -> str | None:
    """Why the last start of the run in `path` ended; None where it did not fail."""
    if not (path / _FAILED).is_file():
        return None
    return str(read_json(path / _FAILED).get("message", ""))


def read_json(path: Path) -> dict[str, Any]:
    """A file of ours that holds a dictionary; RunError where it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise RunError(f"{path} cannot be read ({type(problem).__name__}: {problem}); {restore(path)}") from None
    if not isinstance(found, dict):
        raise RunError(f"{path} holds a {type(found).__name__} and no settings or results by name; {restore(path)}")
    return found


def restore(path: Path) -> str:
    """What to do about a run's file that is not as it was written."""
    folder = path.parent.parent if path.parent.name == "before" else path.parent
    return f"restore the file, or move {folder} away and run it again"


def counted(count: int, what: str) -> str:
    """A number of things to read."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def clock(seconds: float) -> str:
    """A duration to read."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
