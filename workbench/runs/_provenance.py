"""What a number depends on besides its settings: libraries, this project's commit, the machine."""

import importlib.metadata
import platform
import subprocess
from typing import Any

from workbench.files import PACKAGE

_LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "numpy", "scipy", "ranking-workbench")


def provenance() -> dict[str, Any]:
    """Library versions, the project's git commit (None outside a checkout) and the machine's kind."""
    return {
        "versions": _versions(),
        "git_commit": _git_commit(),
        "machine": f"{platform.system()} {platform.machine()}",
        "host": platform.node(),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _git_commit() -> str | None:
    """The commit of this checkout, with "+changes" when tracked files differ from it.

    Notebooks do not count: JupyterLab writes into one whenever it is saved, and the settings are on record.
    """
    root = PACKAGE.parent
    if not (root / ".git").exists():
        return None
    git = ["git", "-C", str(root)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        differs = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", ":!*.ipynb"], check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+changes" if differs else commit
