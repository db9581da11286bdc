"""Where the bundled material lies: beside the package in a checkout, inside it in an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def project_path(name: str) -> Path:
    """The folder of bundled material called `name` ("data" or "notebooks").

    Raises FileNotFoundError when neither the checkout's folder nor the wheel's copy exists.
    """
    candidates = [_PACKAGE.parent / name, _PACKAGE / "_bundled" / name]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(
        f"the bundled folder {name!r} is neither at {candidates[0]} nor at {candidates[1]}; "
        "install the project from its checkout (pip install -e .) or from its wheel"
    )
