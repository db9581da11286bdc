"""The `workbench` command; `python -m workbench` is the same."""

import logging
import signal
import sys
from typing import Any


def main() -> None:
    """Runs the command. Ctrl-C, from the first import on and however often, ends it with one line and exit code 130."""
    signal.signal(signal.SIGINT, _interrupted)
    from workbench.cli import main as command

    command()


def _interrupted(*_: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # another one would only break off the cleaning up
    logging.disable()
    print("\ninterrupted; the same command goes on from the last state that was saved", file=sys.stderr)
    raise SystemExit(130)


if __name__ == "__main__":
    main()
