"""Print without ending the work if a pipe or terminal is closed, or a disk is full."""

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

LOG = logging.getLogger("workbench")  # of every module
# Control characters except tab and line feed; codes that reorder or break lines of a terminal;
# those that stand for the bytes of a file's name that is not UTF-8; and what XML must not have.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class SteadyStream:
    """A stream of text that drops what can no longer be written.

    Everything else is the attributes of the stream itself."""

    def __init__(self, stream: Any) -> None:
        """Write to `stream`."""
        self._stream = stream
        self._is_lost = False

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
                # What is buffered, and what child processes print, goes nowhere too, or the exit
                # code would be 120.
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._stream.fileno())
                os.close(null)
            LOG.warning("nothing more is printed (%s); the work goes on", problem.strerror)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def steady_stdout() -> Iterator[None]:
    """Let the output of a block, also that of other libraries, end without ending the block."""
    with redirect_stdout(sys.stdout and SteadyStream(sys.stdout)):
        yield


def printable(text: object) -> str:
    """Return a text whose control characters are written as codes.

    The name of a suite, for example, may contain escape sequences of a terminal."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


class LineFormatter(logging.Formatter):
    """Format log messages without control characters.

    Further lines are indented, so that none can be mistaken for another message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message of a record."""
        return printable(super().format(record)).replace("\n", "\n  ")
