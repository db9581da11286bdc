"""Live notebooks: whether this is one; and a name asked for before the cell that makes it ran is one line."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from symtable import symtable
from types import TracebackType
from typing import Any


def live_notebook() -> str | None:
    """What the notebook is called that somebody looks at while this kernel runs it; None where nobody does.

    JupyterLab and Jupyter Notebook say it in the environment, VS Code among the names; Colab's kernels have its module.
    """
    names = vars(sys.modules["__main__"])
    return (
        os.environ.get("JPY_SESSION_NAME")
        or names.get("__vsc_ipynb_file__")
        or ("Colab" if "google.colab" in sys.modules else None)
    )


def explain_order() -> None:
    """From here on a NameError of this kernel, for a name that a cell of its notebook makes, names that cell.

    Any other NameError stays as it is. Outside a kernel nothing is done.
    """
    ipython = sys.modules.get("IPython")  # loaded where there is a notebook, and only there
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        shell.set_custom_exc((NameError,), _told)


def _told(shell: Any, kind: type, error: NameError, trace: TracebackType, tb_offset: int | None = None) -> list[str]:
    """Shows the error, in IPython's place; returns what was shown."""
    while trace.tb_next:
        trace = trace.tb_next
    section = _section_of(error.name or "", shell) if trace.tb_frame.f_globals is shell.user_ns else None
    if section is None:
        lines = shell.InteractiveTB.structured_traceback(kind, error, error.__traceback__, tb_offset=tb_offset)
    else:
        lines = [
            f"Run the cells above first: {error.name!r} is made under {section!r}, in a cell that has not run in this "
            "kernel (Run > Run All Above Selected Cell)."
        ]
    shell._showtraceback(kind, error, lines)
    return lines


def _section_of(name: str, shell: Any) -> str | None:
    """The heading over the cell, other than the one that ran last, that makes `name`; None where no cell does."""
    for path in _notebooks():
        heading = path.stem
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                titles = [line.lstrip("#").strip() for line in source.splitlines() if line.startswith("#")]
                heading = titles[-1] if titles else heading
            elif source.strip() != shell.user_ns["In"][-1].strip() and name in _made(source, shell):
                return heading
    return None


def _notebooks() -> Iterator[Path]:
    """The notebook of this kernel as it was saved, where that is known, else the bundled ones."""
    from workbench.files import project_path

    path = Path(live_notebook() or "")
    if path.suffix == ".ipynb" and path.is_file():
        yield path
    else:
        yield from sorted(project_path("notebooks").glob("*.ipynb"))


def _made(source: str, shell: Any) -> set[str]:
    """The names that a cell assigns, imports or defines."""
    try:
        names = symtable(shell.transform_cell(source), "cell", "exec").get_symbols()
    except SyntaxError:
        return set()
    return {symbol.get_name() for symbol in names if symbol.is_assigned() or symbol.is_imported()}
