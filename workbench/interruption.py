"""Ctrl-C, and whatever else ends a process as it does."""

import logging
import os
import signal
import sys
import traceback
from functools import partial
from types import FrameType


def end_when_interrupted(told: str = "") -> None:
    """From now on an interruption ends this process with exit code 130 and, on stderr, a line of what is `told`.

    Once: further ones would only break off the cleaning up.
    """
    signal.signal(signal.SIGINT, partial(_end, told))


def _end(told: str, _: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable()
    if told:
        print(f"\n{told}", file=sys.stderr)
    # Extension modules may drop an exception that rises in the middle of their import, and the run would go on.
    if any(where.f_code.co_filename.startswith("<frozen importlib") for where, _ in traceback.walk_stack(frame)):
        sys.stderr.flush()
        os._exit(130)
    raise SystemExit(130)
