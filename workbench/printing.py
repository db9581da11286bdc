"""Output that may end: a closed pipe, terminal or full disk stops the printing and not the work."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

_LOG = logging.getLogger("workbench")
# Control characters except tab and line feed, and codes that reorder or break lines of a terminal -> what is printed.
_CODES = (*range(9), *range(11, 32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROL = {code: f"\\u{code:04x}" for code in _CODES}


class SteadyStream:
    """A stream of text that drops what can no longer be written; everything else is the stream's own."""

    def __init__(self, stream: Any) -> None:
        """Write to `stream`."""
        self._stream, self._is_lost = stream, False

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        self._try(self._stream.flush)

    def _try(self, work: Any, *arguments: str) -> None:
        if self._is_lost:
            return
        try:
            work(*arguments)
        except OSError as problem:
            self._is_lost = True
            with suppress(OSError):  # a stream without a file
                # What is buffered, and what child processes print, goes nowhere too, or the exit code would be 120.
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._stream.fileno())
                os.close(null)
            _LOG.warning("nothing more is printed (%s); the work goes on", problem.strerror)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def steady_stdout() -> Iterator[None]:
    """Let everything that the block prints, also by other libraries, end without ending the block."""
    with redirect_stdout(sys.stdout and SteadyStream(sys.stdout)):
        yield


def printable(text: object) -> str:
    """Return a text without control characters, such as escape sequences of a terminal in the name of a suite."""
    shown = str(text).translate(_CONTROL)
    return shown.encode("utf-8", "backslashreplace").decode()  # the name of a file need not be UTF-8


class LineFormatter(logging.Formatter):
    """Log messages without control characters; further lines are indented, so that none poses as a message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message of a record."""
        return printable(super().format(record)).replace("\n", "\n  ")
