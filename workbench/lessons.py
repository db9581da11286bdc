"""Lessons: notebooks for students and for teachers, also with cells for nbgrader; shared pages."""

import ast
import re
import shutil
import socket
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

from workbench.errors import SettingError, require_known
from workbench.files import atomic_path, project_path

_SOLUTION = re.compile(r"(?s)<details>(<summary>(?:<b>)?(?:Solution|Answer).+?</details>\n*)")
_PLAN = re.compile(r"(?s)<details><summary>For teachers.+?</details>\n*")
_SOLVED = re.compile(r"(?s)```python\n(.+?)\n```|`(answer = .+?)`")
_CHECK = "teaching.check_answer("
_SIGN_TEXT = """Write your name. From then on your answers and guesses are noted in `answers.csv`,
next to this notebook; nothing is sent anywhere. If there is a `seed` above, set it to a number
that nobody else in the room has, such as that of your seat: the class's runs are then as many
samples."""
_SIGN_CODE = """from workbench import teaching

teaching.sign("")  # your name"""
# Networks of the machine itself, of containers and of virtual machines: no phone reaches them.
_INNER = ("lo", "Loopback", "br-", "docker", "veth", "virbr", "vboxnet", "vmnet", "vEthernet")


def find_lesson(name: str) -> Path:
    """Return the bundled notebook of this name; SettingError, with the nearest, for any other."""
    known = {path.stem: path for path in project_path("notebooks").glob("*.ipynb")}
    require_known("lesson", name, known, "among the notebooks")
    return known[name]


def make_lesson(path: Path, *, for_teachers: bool = False, nbgrader: bool = False) -> str:
    """Write the bundled notebook of the same name as one of a lesson; return what was done.

    An existing file is kept. Students get no solutions and a cell for their name, teachers open
    solutions. The links to other files become plain text.

    Args:
        path: Ends in the name of a notebook, such as 10_simcse.ipynb.
        nbgrader: Make of each exercise a cell for the answer, for teachers with the solution that
            `nbgrader generate_assignment` takes out, and a locked one that is marked with a point.
            Solutions in texts are left out, since nbgrader would release them.

    Raises:
        SettingError: No notebook has this name.

    Example:
        make_lesson(Path("class/10_simcse.ipynb"))
    """
    import nbformat
    from nbformat.v4 import new_code_cell, new_markdown_cell

    from workbench.notebook import without_links

    source = find_lesson(path.stem)
    if path.exists():
        return f"kept: {path}"
    page = nbformat.read(source, 4)
    cells = []
    for cell, after in zip_longest(page.cells, page.cells[1:]):
        if nbgrader and cell.cell_type == "code" and _CHECK in cell.source:
            solution = _SOLVED.search(after.source) if for_teachers else None
            cells += _graded_cells(cell, solution[1] or solution[2] if solution else "")
            continue
        is_open = for_teachers and not nbgrader
        if cell.cell_type == "markdown":
            text = _SOLUTION.sub(r"<details open>\1" if is_open else "", cell.source)
            text = text if is_open else _PLAN.sub("", text)
            cell.source = without_links(text).strip("\n")
        if cell.source:  # a cell may have held a solution only
            cells.append(cell)
        if "parameters" in cell.metadata.get("tags", []):
            # A student hands in one folder.
            cell.source = cell.source.replace('"../runs"', '"runs"')
            if not for_teachers:
                cells += [
                    new_markdown_cell(_SIGN_TEXT, id="signature"),
                    new_code_cell(_SIGN_CODE, id="sign"),
                ]
    page.cells = cells
    with atomic_path(path) as new:
        nbformat.write(page, new)
    return f"written: {path}"


def _graded_cells(cell: Any, solution: str) -> list[Any]:
    """Return the cell that a student completes, and the one that nbgrader marks."""
    from nbformat.v4 import new_code_cell

    lines = cell.source.splitlines(keepends=True)
    # An exercise begins with the function or the value that is to be completed.
    end = ast.parse(cell.source).body[0].end_lineno
    answer = "".join(lines[:end]).strip()
    if solution:
        head, body = f"{answer}\n", solution
        if solution.startswith("def "):
            first_line, _, body = solution.partition("\n")
            head = f"{first_line}\n"
        indent = " " * (len(body) - len(body.lstrip()))
        answer = f"{head}{indent}### BEGIN SOLUTION\n{body}\n{indent}### END SOLUTION"
    check = "".join(lines[end:]).strip().replace(_CHECK, f"verdict = {_CHECK}")
    test = f'{check}\nassert verdict.startswith("Right"), verdict'
    shared = {"schema_version": 3, "task": False}
    of_answer = {"grade_id": cell.id, "grade": False, "locked": False, "solution": True}
    name = f"{cell.id}-test"
    of_test = {"grade_id": name, "grade": True, "locked": True, "solution": False, "points": 1}
    return [
        new_code_cell(answer, id=cell.id, metadata={"nbgrader": shared | of_answer}),
        new_code_cell(test, id=name, metadata={"nbgrader": shared | of_test}),
    ]


def collect_pages(pages: Iterable[Path], folder: Path) -> None:
    """Copy pages, and those and the notebooks in folders; add `ask.html`, unless it is there.

    `ask.html` ranks what is typed, by english-encoder and word overlap.

    Raises:
        SettingError: There is no such page, or two have one name.
    """
    from workbench.views import Ask
    from workbench.views._style import read_part

    for page in pages:
        files = [page]
        if page.is_dir():
            files = [*page.glob("[!.]*.html"), *page.glob("[!.]*.ipynb")]
        # A link may lead to anything of the teacher's.
        if not files or not all(file.is_file() and not file.is_symlink() for file in files):
            raise SettingError(
                f"{page}: no page, or a link; give a file, or a folder of .html and .ipynb"
            )
        for file in files:
            copy = folder / file.name
            if copy.exists():
                raise SettingError(f"{file}: two pages have this name; rename one of them")
            shutil.copyfile(file, copy)
    ask = folder / "ask.html"
    if not ask.exists():
        query, *targets = read_part("question.txt").splitlines()
        Ask(["english-encoder", "word-overlap"], query, targets).to_html(ask, encoder=True)


def room_addresses(port: int) -> list[str]:
    """Return the web addresses of this machine in its networks, which phones may reach."""
    import psutil

    found = []
    # Windows lists adapters that nothing is connected to.
    idle = {name for name, facts in psutil.net_if_stats().items() if not facts.isup}
    for name, addresses in psutil.net_if_addrs().items():
        if not name.startswith(_INNER) and name not in idle:
            found += [
                f"http://{one.address}:{port}/" for one in addresses if one.family == socket.AF_INET
            ]
    return found
