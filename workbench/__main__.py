"""The `workbench` command; `python -m workbench` is the same."""

import logging
import os
import signal
import sys
import traceback
from types import FrameType


def main() -> None:
    """Runs the command. Ctrl-C, from the first import on and however often, ends it with one line and exit code 130."""
    signal.signal(signal.SIGINT, _interrupted)
    from workbench.cli import main as command

    command()


def _interrupted(_: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # another one would only break off the cleaning up
    logging.disable()
    print("\ninterrupted; the same command goes on from the last saved state, if there is one", file=sys.stderr)
    # Extension modules may drop an exception that rises in the middle of their import, and the run would go on.
    if any(where.f_code.co_filename.startswith("<frozen importlib") for where, _ in traceback.walk_stack(frame)):
        sys.stderr.flush()
        os._exit(130)
    raise SystemExit(130)


if __name__ == "__main__":
    main()
