"""The `workbench` command; `python -m workbench` is the same."""

import os  # any other import would be a moment longer in which Ctrl-C is a traceback
import signal
import sys


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C would leave the kernel running
    print(
        "\nInterrupted. Run the same command again to resume from the last saved state.",
        file=sys.stderr,
    )
    # Libraries report that their kernel or process has ended.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    import threading

    # Some libraries drop an exception that is raised while they load.
    end = threading.Timer(15, os._exit, [130])
    end.daemon = True
    end.start()
    raise SystemExit(130)


def main() -> None:
    """Run the command; from the first import on, Ctrl-C ends it with one line and code 130."""
    signal.signal(signal.SIGINT, _interrupt)
    # A cell of a sweep ends with it, even after kill -9.
    if os.environ.get("WORKBENCH_CELL"):
        os.environ["WORKBENCH_CELL"] = ""  # commands in its notebook are not cells
        import threading

        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        from workbench.commands.app import main as command
        from workbench.files import PACKAGE

        # What this process starts runs this code, whatever lies in the current folder.
        if not PACKAGE.parent.samefile("."):
            os.environ["PYTHONSAFEPATH"] = "1"
        command()
    finally:
        # Some libraries raise another error instead.
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            raise SystemExit(130)


def _end_with_parent() -> None:
    """Interrupt this process once the parent has ended.

    The parent holds the other end of stdin, a pipe to which it never writes.
    """
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
