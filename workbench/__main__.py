"""The `workbench` command; `python -m workbench` is the same."""

from workbench.interruption import end_when_interrupted


def main() -> None:
    """Runs the command. Ctrl-C, from the first import on and however often, ends it with one line and exit code 130."""
    end_when_interrupted("interrupted; the same command goes on from the last saved state, if there is one")
    from workbench.cli import main as command

    command()


if __name__ == "__main__":
    main()
