"""The libraries, the code and the machine that a number depends on."""

import platform
import subprocess
from contextlib import suppress
from importlib import metadata
from typing import Any

from workbench.files import PACKAGE

_LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "numpy", "scipy", "ranking-workbench")


def provenance() -> dict[str, Any]:
    """Return library versions, the commit of this checkout, and the machine."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    machine = f"{platform.system()} {platform.machine()}"
    return {"versions": versions, "git_commit": _git_commit(), "machine": machine, "host": platform.node()}


def _git_commit() -> str | None:
    """Return the commit of this checkout, with "+changes" if tracked files except notebooks differ; None elsewhere."""
    if not (PACKAGE.parent / ".git").exists():
        return None
    git = ["git", "-C", str(PACKAGE.parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        differs = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", ":!*.ipynb"], check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+changes" if differs else commit
