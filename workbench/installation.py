"""The extras and the notebooks of this installation."""

import re
import shutil
from importlib import metadata
from pathlib import Path

from workbench.files import project_path

DISTRIBUTION = "ranking-workbench"


def missing_extra(module: str | None) -> str | None:
    """Return how to install a missing module; None for one that no extra contains."""
    name = (module or "").partition(".")[0]
    for requirement in metadata.requires(DISTRIBUTION) or []:
        match = re.match(r"([\w.-]+).*;\s*extra\s*==\s*['\"](\w+)['\"]", requirement)
        if match and match[1].replace("-", "_").lower() == name.lower():
            return f"this needs {name}, which is not installed: pip install '{DISTRIBUTION}[{match[2]}]'"
    return None


def copy_notebooks(folder: Path) -> list[Path]:
    """Copy the notebooks that `folder` lacks and return the copies."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [path for path in sorted(project_path("notebooks").glob("*.ipynb")) if not (folder / path.name).exists()]
    return [Path(shutil.copyfile(path, folder / path.name)) for path in missing]
