"""The command, beside the package: another project's package `workbench` may have been written over ours."""

import sys
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Starts the command; where the package is another project's, one line and exit code 2."""
    found = find_spec("workbench")
    place = Path(found.origin) if found and found.origin else Path("workbench")
    if not place.is_file() or "lazy_loader" not in place.read_text(encoding="utf-8"):
        print(
            f"error: {place} is another project's, which PyPI calls 'workbench': pip uninstall workbench, then "
            "pip install --force-reinstall --no-deps ranking-workbench as you installed it",
            file=sys.stderr,
        )
        sys.exit(2)
    from workbench.__main__ import main as command

    command()
