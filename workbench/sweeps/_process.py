"""A cell as a process of its own: how it is started, told to end, and how it ended."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from workbench.errors import RunError
from workbench.files import explained
from workbench.runs import Run, failure_of, note_failure
from workbench.sweeps._plan import Cell
from workbench.sweeps._sweep import Sweep

GRACE = 20.0  # seconds for a cell to end
NO_FORK = 71  # EX_OSERR: exit code of a cell that the system had no room for
CELL = [sys.executable, "-m", "workbench.sweeps._cell"]


class Process(Protocol):
    """What a sweep needs of a process."""

    returncode: Any
    began: float  # time.monotonic()

    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...
    def kill(self) -> None: ...
    def close(self) -> None:
        """Tells it to end."""

    def said(self) -> str:
        """What the process that should have made it said, where that is why it ended; else ""."""
        ...


class _Alone(subprocess.Popen):
    def __init__(self, *given: Any, **how: Any) -> None:
        self.began = time.monotonic()
        super().__init__(*given, **how)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.stdin.close()  # type: ignore[union-attr]

    def said(self) -> str:
        return ""


def arguments_of(sweep: Sweep, cell: Cell) -> str:
    """What the process of a cell is told."""
    parameters = {"method": cell.method, "profile": cell.profile, "seed": cell.seed, "overrides": cell.overrides}
    return json.dumps({**parameters, "runs_root": str(sweep.root)})


def begin(sweep: Sweep, cell: Cell, environment: Mapping[str, str], command: Sequence[str] | None = None) -> Process:
    """Starts a cell; it ends with the process that started it. Raises RunError where its log cannot be written."""
    with explained(sweep.folder), sweep.log(cell).open("a", encoding="utf-8") as log:
        return _Alone(
            [*(command or CELL), arguments_of(sweep, cell)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C reaches the sweep, which ends its cells
        )


def end(process: Process, seconds: float = GRACE) -> None:
    """Returns when a cell has ended; it may take so long for it."""
    process.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(seconds)


def outcome(sweep: Sweep, cell: Cell, process: Process) -> str | None:
    """How a process of a cell ended, "finished" or "failed"; None: another process was quicker to take the cell."""
    path = sweep.path(cell)
    process.close()
    state = sweep.state(cell)
    if state == "finished":
        _note_whole(path, time.monotonic() - process.began)
    if state in ("finished", "running"):
        return "finished" if state == "finished" else None
    if process.returncode < 0 or failure_of(path) is None:
        code = process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        with contextlib.suppress(RunError):  # a full disk is said already
            note_failure(path, f"the cell {how}; its last lines:\n{tail(sweep.log(cell), 5)}{process.said()}")
    return "failed"


def _note_whole(path: Path, seconds: float) -> None:
    """The time of a run is that of its process, start and end included: what the next one of its kind will take."""
    with contextlib.suppress(RunError):
        run = Run(path)
        if run.facts().get("seconds", seconds) < seconds:
            run.record(seconds=round(seconds, 1))


def tail(path: Path, lines: int = 1, start: int = 0) -> str:
    """The last lines from byte `start` on that are not empty; "" where there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(max(start, file.seek(0, os.SEEK_END) - 4000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])
