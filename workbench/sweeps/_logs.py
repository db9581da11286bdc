"""The end of a log."""

import os
from pathlib import Path


def tail(path: Path, lines: int = 1, start: int = 0) -> str:
    """The last lines from byte `start` on that are not empty; "" where there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(max(start, file.seek(0, os.SEEK_END) - 4000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])
