"""The `workbench` command; `python -m workbench` is the same."""

import os
import signal
import sys
import threading
import time
from typing import NoReturn


def main() -> None:
    """Run the command. Ctrl-C ends it with one line and exit code 130, from the first import on."""
    signal.signal(signal.SIGINT, _interrupt)
    in_sweep = bool(os.environ.pop("WORKBENCH_CELL", ""))
    if in_sweep:
        threading.Thread(target=_end_with_sweep, daemon=True).start()
    from workbench.cli import main as command

    command(in_sweep=in_sweep)


def _interrupt(*_: object) -> NoReturn:
    print("\ninterrupted; the same command goes on from the last saved state, if there is one", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries report that their kernel or process has ended
    raise SystemExit(130)


def _end_with_sweep() -> None:
    """Interrupt this cell once stdin is closed: a pipe that its sweep holds, also until a kill -9 of it."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(15)  # some libraries drop an exception that is raised while they load
    os._exit(130)


if __name__ == "__main__":
    main()
