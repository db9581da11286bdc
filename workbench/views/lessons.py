"""Slides and a printed handout of a notebook, each one HTML file that needs no network."""

import re
from pathlib import Path

from workbench.errors import DataError
from workbench.views._style import render
from workbench.views.export import notebook_html, write_page
from workbench.views.notebooks import drawing

_DRAWING = re.compile(r'views\.drawing\("(\w+)"\)')
_SOLUTION = re.compile(r"<details>.*?</details>", re.DOTALL)
# What a student completes: a function with its first line, or an answer.
_STUB = re.compile(r"def my_.*\n.*|answer = .*")


def write_slides(notebook: str | Path, path: str | Path) -> Path:
    """Write slides of a notebook, executed or not, and return their path.

    Each heading and each exercise begins a slide. Arrow keys, space and swipes change the slide, c
    unfolds the code, t changes between light and dark; solutions stay closed until they are
    clicked. Printed, each slide is a page. It raises as `write_handout`.

    Example:
        write_slides("notebooks/10_simcse.ipynb", "simcse.html")
    """
    return _write_lesson(notebook, path, "slides.html")


def write_handout(notebook: str | Path, path: str | Path) -> Path:
    """Write a handout of a method's notebook, at most two A4 pages in print; return its path.

    It contains the claim, the idea and its drawing, the equations, and the exercises with room for
    the answers: no solution, and of the code only what a student completes.

    Raises:
        DataError: The file is not a notebook.
        OSError: It cannot be read, or `path` cannot be written.

    Example:
        write_handout("notebooks/10_simcse.ipynb", "simcse-handout.html")
    """
    return _write_lesson(notebook, path, "handout.html")


def _write_lesson(notebook: str | Path, path: str | Path, template: str) -> Path:
    # This takes a second to import, which views of a notebook do without.
    import nbformat

    source = Path(notebook).expanduser()
    try:
        content = nbformat.read(source, as_version=4)
    except ValueError as error:
        raise DataError(f"{source} is not a notebook; give a file NAME.ipynb") from error
    is_handout = template == "handout.html"
    for cell in content.cells:
        text = cell.source
        name = _DRAWING.search(text)
        if name:
            # Of code that may not have run, and that would only load modules on a slide.
            text = drawing(name[1]).data or ""
        elif is_handout and cell.cell_type == "code":
            stub = _STUB.match(text)
            text = f"```python\n{stub[0]}\n```" if stub else ""
        elif is_handout:
            # Removed and not hidden: the file is handed out, too.
            text = _SOLUTION.sub("", text)
        else:
            continue
        cell.cell_type = "markdown"
        cell.metadata.clear()  # of code that is hidden
        cell.source = text
    body = notebook_html(content, "basic")
    return write_page(path, render(template, title=source.stem, body=body))
