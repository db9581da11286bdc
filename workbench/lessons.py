"""Make the notebooks of a lesson: for students or for teachers, and with cells for nbgrader."""

import json
import re
import tomllib
from pathlib import Path

from workbench.errors import SettingError, unknown_name
from workbench.files import PACKAGE, project_path

_CELL = re.compile(r"^%% (\w+) (\S+) (.*)\n((?:(?!%% ).*\n)*)", re.MULTILINE)
_SYNTAX = re.MULTILINE | re.DOTALL | re.VERBOSE


def make_lesson(path: Path, changes: set[str]) -> str:
    """Write the bundled notebook of the same name as a notebook of a lesson to `path`.

    An existing file is kept. Returns what was done.

    Args:
        changes: Those of `lab/lesson.toml`: all, students, teachers, nbgrader, nbgrader-teachers.

    Raises:
        SettingError: No notebook has this name.

    Example:
        make_lesson(Path("class/10_simcse.ipynb"), {"all", "students"})
    """
    import nbformat

    names = {source.stem: source for source in project_path("notebooks").glob("*.ipynb")}
    if path.stem not in names:
        raise SettingError(unknown_name("lesson", path.stem, names, "among the notebooks"))
    if path.exists():
        return f"kept: {path}"
    page = nbformat.read(names[path.stem], 4)
    text = ""
    for cell in page.cells:
        text += f"%% {cell.cell_type} {cell.id} {json.dumps(cell.metadata)}\n{cell.source}\n"
    rules = tomllib.loads((PACKAGE / "lab" / "lesson.toml").read_text(encoding="utf-8"))
    for rule in rules["rule"]:
        if changes & {*rule["for"]}:
            text = re.sub(rule["find"], rule["put"], text, flags=_SYNTAX)
    page.cells = []
    for kind, name, metadata, source in _CELL.findall(text):
        make = getattr(nbformat.v4, f"new_{kind}_cell")
        page.cells.append(make(source.strip("\n"), id=name, metadata=json.loads(metadata)))
    nbformat.write(page, path)
    return f"written: {path}"
