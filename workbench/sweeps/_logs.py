"""The end of a log."""

import os
from pathlib import Path


def tail(path: Path, lines: int = 1) -> str:
    """The last lines that are not empty; "" where there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join([line.rstrip() for line in text.splitlines() if line.strip()][-lines:])
