"""What an installation has and lacks: extras, a package of the same name, the notebooks that a wheel carries."""

import re
import shutil
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from workbench.errors import RunError
from workbench.files import project_path

DISTRIBUTION = "ranking-workbench"
_EXTRA = re.compile(r"^(?P<name>[\w.-]+).*;\s*extra\s*==\s*['\"](?P<extra>\w+)['\"]")


def missing_extra(module: str | None) -> str | None:
    """The line that says how a module that is not there is installed; None for a module that no extra brings."""
    name = (module or "").partition(".")[0]
    for requirement in metadata.requires(DISTRIBUTION) or []:
        found = _EXTRA.match(requirement)
        if found and found["name"].replace("-", "_").lower() == name.lower():
            return f"this needs {name}, which is not installed: pip install '{DISTRIBUTION}[{found['extra']}]'"
    return None


def naming_its_extra(missing: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same error in one line that says what to install, where an extra brings the module."""
    cure = missing_extra(missing.name)
    return ModuleNotFoundError(cure, name=missing.name) if cure else missing


def require_modules(*names: str) -> None:
    """ModuleNotFoundError for the first that is not installed, before hours are spent on what comes first."""
    for name in names:
        if find_spec(name) is None:
            raise ModuleNotFoundError(missing_extra(name) or f"{name} is not installed", name=name)


def copy_notebooks(folder: Path) -> list[Path]:
    """Copies the notebooks to `folder`; those that are there stay as they are. Returns what was copied. RunError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = [
            path for path in sorted(project_path("notebooks").glob("*.ipynb")) if not (folder / path.name).exists()
        ]
        return [Path(shutil.copyfile(path, folder / path.name)) for path in missing]
    except OSError as problem:
        raise RunError(f"cannot write to {folder} ({problem.strerror}); give another folder") from problem
