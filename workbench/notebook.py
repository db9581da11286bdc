"""Parameters of notebooks: read as papermill gives them, and the run that they describe."""

import ast
import os
import re
import sys
from typing import Any

from workbench.config import read_parameter
from workbench.errors import require_known
from workbench.files import project_path, user_path
from workbench.runs import AnyPath, Facts, Run

# To documents and notebooks, which only lie next to the bundled notebooks.
_LINK = re.compile(r"\[([^]\n]+)\]\([\w./-]+\.(?:md|ipynb)[^)\n]*\)")


def open_run(
    config_class: type[Any], profile: str, seed: int, overrides: Facts, runs_root: str
) -> tuple[Any, Run, str]:
    """Return the settings that a method's notebook describes, its run, and the folder of runs.

    The run is open, and the folder an absolute path.

    Example:
        config, run, runs_root = open_run(SimCSEConfig, "demo", 0, {"dropout": 0.2}, "../runs")
    """
    root = runs_folder(runs_root)
    # The notebook trains what the method needs in the same folder.
    if "base_root" in config_class.model_fields:
        overrides = {"base_root": root, **overrides}
    config = config_class.from_parameters(profile, seed, overrides)
    return config, Run.open(config, root), root


def check_parameters(namespace: Facts) -> None:
    """Read papermill's parameters as the kinds of their defaults, in place.

    Called as `check_parameters(globals())` in the first cell after the parameters: `papermill -p
    sead 3` would otherwise only warn and train seed 0, and `-p before false` be a text, which is
    true. Without papermill nothing is changed.

    Raises SettingError for a parameter that is not declared, or of another kind.

    Example:
        views.check_parameters(globals())
    """
    declared = injected = {}
    # papermill puts a cell that begins so after the one with the defaults.
    for cell in namespace.get("In", []):
        assigned = dict(re.findall(r"(?m)^(\w+) = (.*)", cell))
        if cell.startswith("# Parameters\n"):
            injected = assigned
        elif not injected:
            declared = declared | assigned
    for name in injected if declared else ():
        if name.startswith("PAPERMILL_"):  # by its option --inject-paths
            continue
        require_known("parameter", name, declared, "in this notebook")
        try:
            kind = type(ast.literal_eval(declared[name]))
        except (ValueError, SyntaxError):
            continue  # the default is not a literal of one line
        value = namespace.get(name)
        # A number stays as it is: 0.5 in place of a default of 0 is right.
        is_number = kind in (int, float) and not isinstance(value, str)
        if value is not None and not is_number:
            namespace[name] = read_parameter(name, value, kind)


def live_notebook() -> str:
    """Return the path of the notebook that this kernel was opened for; "" in batch runs."""
    # VS Code sets a variable in the kernel. To Jupyter's server, which names the notebook, its
    # notebook is a session of another name each time.
    in_vscode = getattr(sys.modules["__main__"], "__vsc_ipynb_file__", "")
    return in_vscode or os.environ.get("JPY_SESSION_NAME", "")


def runs_folder(runs_root: AnyPath = "../runs") -> str:
    """Return the absolute path of a notebook's parameter `runs_root`.

    A path that begins with ".." is relative to the notebook's folder. papermill starts kernels in
    its own working directory, so in a checkout it is resolved from notebooks/ there.

    Example:
        runs_root = runs_folder("../runs")
    """
    path = user_path(runs_root)
    notebooks = project_path("notebooks")
    is_checkout = (notebooks.parent / "pyproject.toml").is_file()
    # A kernel of JupyterLab, or of VS Code, works in its notebook's own folder.
    if path.parts[:1] == ("..",) and is_checkout and not live_notebook():
        path = notebooks / path
    return str(path.resolve())


def without_links(text: str) -> str:
    """Return the text of a cell whose links to other files of the project are plain text."""
    return _LINK.sub(r"\1", text)
