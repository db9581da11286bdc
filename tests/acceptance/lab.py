"""A notebook in JupyterLab as a user sees it: cells, rows of a view, values of variables."""

import json
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
from live_lab import KERNEL, PATIENCE
from nbformat.v4 import new_code_cell

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
ROLES = ("row", "option", "button")  # an entry of a list may have any of them
RUN = f"""code => new Promise((resolve) => {{
  let printed = "";
  const request = {KERNEL}.requestExecute({{ code, store_history: false }});
  request.onIOPub = ({{ content }}) => {{
    if (content.name === "stdout") printed += content.text;
    if (content.ename) printed += `${{content.ename}}: ${{content.evalue}}`;
  }};
  request.done.then(() => resolve(printed));
}})"""


def with_parameters(notebook: Path, copy: Path, **parameters: object) -> None:
    """Copy a notebook with a cell of parameters after its own, as papermill does."""
    content = nbformat.read(notebook, as_version=4)
    place = next(
        n for n, cell in enumerate(content.cells) if "parameters" in cell.metadata.get("tags", [])
    )
    source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
    content.cells.insert(place + 1, new_code_cell(source))
    nbformat.write(content, copy)


def output_of(page: Any, source: str) -> Any:
    """Locate the output of the code cell that contains this source."""
    return (
        page.locator(".jp-Notebook .jp-CodeCell")
        .filter(has_text=source)
        .first.locator(".jp-Cell-outputArea")
    )


def run_code(page: Any, code: str) -> str:
    """Run code in the notebook's kernel and return what it prints."""
    return page.evaluate(RUN, code)


def value_of(page: Any, expression: str) -> Any:
    """Return the value of an expression in the notebook's kernel, by way of JSON."""
    return json.loads(run_code(page, f"import json\nprint(json.dumps({expression}))"))


def wait_until(page: Any, read: Callable[[], Any], wanted: Any) -> None:
    """Read until the wanted value appears; fail with the last value that was read."""
    end = time.monotonic() + PATIENCE / 1000
    while (found := read()) != wanted and time.monotonic() < end:
        page.wait_for_timeout(200)
    assert found == wanted, f"{found!r} is not {wanted!r}"


def entry(view: Any, text: str) -> Any:
    """Locate the entry of the view's list that contains this text."""
    return _entries(view).filter(has_text=text).first


def _entries(view: Any) -> Any:
    first, *others = (view.get_by_role(role) for role in ROLES)
    for other in others:
        first = first.or_(other)
    return first


def listed(view: Any, entries: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the entries of the view's list in order; an entry is a list of texts."""
    lines = _entries(view).all_inner_texts()
    return list(
        dict.fromkeys(one for line in lines for one in entries if all(text in line for text in one))
    )


def choice(view: Any, name: str) -> Any:
    """Locate the drop-down list of this name."""
    return view.get_by_role("combobox", name=name, exact=True)


def cells(row: Any) -> dict[str, str]:
    """Return the texts of a row of a table by the heading of their column."""
    table = row.locator("xpath=ancestor::*[self::table or @role='grid'][1]")
    heads = table.get_by_role("columnheader").all_inner_texts()
    texts = row.get_by_role("cell").all_inner_texts()
    return {
        head.strip(): text for head, text in zip(reversed(heads), reversed(texts), strict=False)
    }


def numbers(text: str) -> list[float]:
    """Return the numbers at the beginnings of the lines of a cell; a leading = marks a tie."""
    return [float(found) for found in re.findall(r"(?m)^=?(-?[\d.]+)", text)]
