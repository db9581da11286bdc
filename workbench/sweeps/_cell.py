"""One cell as a process of its own: `python -m workbench.sweeps._cell '{"method": ...}'`, its log on stdout."""

import json
import logging
import os
import signal
import sys
import threading
import time

from workbench.errors import WorkbenchError
from workbench.headless import run_method
from workbench.interruption import end_when_interrupted

_GRACE = 15.0  # seconds for a kernel to end


def main(arguments: str) -> None:
    """Runs the cell; it ends with its parent, however that ends: a sweep that was killed leaves nothing running."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("workbench").setLevel(logging.INFO)
    end_when_interrupted()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_method(**json.loads(arguments))
    except WorkbenchError as problem:
        sys.exit(f"error: {problem}")


def _end_with_parent() -> None:
    """Stdin is a pipe that the parent holds and never writes to; the system closes it when the parent is gone."""
    os.read(0, 1)  # not sys.stdin, whose lock this thread would hold when Python ends
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE)
    os._exit(130)


if __name__ == "__main__":
    main(sys.argv[1])
