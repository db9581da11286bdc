"""Cells that are forked by a process which has loaded all that they load: about half of what a short cell costs."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.files import explained
from workbench.sweeps._process import NO_FORK, tail

CELL = "workbench.sweeps._cell"
LOADS = (
    *("papermill", "ipykernel.kernelapp", "ipykernel.ipkernel", "transformers.models.auto.modeling_auto"),
    *("transformers.models.auto.tokenization_auto", "transformers.models.bert.modeling_bert", "plotly.io"),
    *("workbench.methods", "workbench.baselines", "workbench.train", "workbench.evaluation", "workbench.look"),
    *("workbench.headless", "workbench.sweeps._prepared", CELL),
)
_BETWEEN = 0.05  # seconds between two looks at what ended


class Warm:
    """A process that forks cells, started with the first of them. What it says itself stands in its log."""

    def __init__(
        self, log: Path, environment: dict[str, str], *, loads: Sequence[str] = LOADS, cell: str = CELL
    ) -> None:
        self.cell, self.log = cell, log
        with explained(log.parent), log.open("a", encoding="utf-8") as errors:
            self._from = errors.seek(0, os.SEEK_END)
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workbench.sweeps._forks", *loads],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.ended: dict[int, int] = {}
        self._begun, self._rest = 0, b""

    def begin(self, arguments: str, log: Path, environment: dict[str, str]) -> "WarmCell":
        """A cell that was started, or will be as soon as all is loaded."""
        self._begun += 1
        facts = {"module": self.cell, "arguments": arguments, "log": str(log), "environment": environment}
        self.tell({"start": self._begun, **facts})
        return WarmCell(self, self._begun)

    def tell(self, what: dict[str, Any]) -> None:
        """Sends a line; a process that is gone hears nothing, and its cells are over."""
        with contextlib.suppress(OSError):
            os.write(self.process.stdin.fileno(), f"{json.dumps(what)}\n".encode())  # type: ignore[union-attr]

    def look(self) -> None:
        """Takes in which cells ended."""
        with contextlib.suppress(BlockingIOError, ValueError):  # nothing new, or stopped
            while text := os.read(self.process.stdout.fileno(), 65536):  # type: ignore[union-attr]
                *lines, self._rest = (self._rest + text).split(b"\n")
                self.ended |= {facts["number"]: facts["code"] for facts in map(json.loads, lines)}

    def said(self) -> str:
        """The last lines of its log, those of earlier sweeps left out."""
        return tail(self.log, 5, self._from)

    def stop(self) -> None:
        """Ends it; its cells have ended before, or do so by themselves."""
        self.process.terminate()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait()


class WarmCell:
    """One of its cells, with what `subprocess.Popen` has of a process."""

    def __init__(self, warm: Warm, number: int) -> None:
        self.warm, self.number = warm, number
        self.began = time.monotonic()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, None while it runs; as of a process killed where the process that forked it is gone."""
        self.warm.look()
        if 0 not in self.warm.ended:
            self.began = time.monotonic()  # what is loaded once is no cell's own time
        gone = None if self.warm.process.poll() is None else -9
        self.returncode = self.warm.ended.get(self.number, gone)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a cell", timeout)
            time.sleep(_BETWEEN)
        return self.returncode or 0

    def close(self) -> None:
        """Tells it to end; before all is loaded it has not begun."""
        self.warm.look()
        if 0 in self.warm.ended:
            self.warm.tell({"end": self.number})
        else:
            self.warm.process.terminate()

    def kill(self) -> None:
        """Ends it at once."""
        self.warm.tell({"kill": self.number})

    def said(self) -> str:
        """What the process that forks said, where it is gone or could not fork; else ""."""
        lost = self.warm.ended.get(self.number, NO_FORK) == NO_FORK
        return f"\nthe process that forks cells, {self.warm.log}:\n{self.warm.said()}" if lost else ""
