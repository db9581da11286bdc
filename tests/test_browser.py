"""Notebooks in a real JupyterLab and browser: live curves of trainings, and views of how a method
works."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from live_lab import (
    PATIENCE,
    Watched,
    change_cell,
    command,
    errors,
    open_notebook,
    run_all,
    wait_for_kernel,
)
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=PATIENCE)

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"


@pytest.fixture
def watched(jupyter: SimpleNamespace, tmp_path: Path) -> Iterator[Watched]:
    shared = jupyter.watched
    shared.problems.clear()
    shared.elsewhere.clear()
    yield shared
    shared.page.screenshot(path=tmp_path / "end.png")  # to see where it stopped
    assert shared.problems == []
    assert shared.elsewhere == []


CURVE = """
import time
from pathlib import Path
from types import SimpleNamespace
from workbench.views import LiveCurve
curve = LiveCurve(None, "live")
for step in (0, 1, 2):
    while step == 2 and not Path("go on").exists():
        time.sleep(0.05)
    curve({"step": step, "loss": 1.0, "dev_spearman": step / 10})
"""


def test_the_curve_of_a_training_grows_in_its_one_output_while_the_kernel_is_busy(
    watched: Watched, jupyter: SimpleNamespace
):
    notebook = new_notebook(cells=[new_code_cell(CURVE)])
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(notebook, jupyter.folder / "curve.ipynb")
    page = watched.page
    open_notebook(page, jupyter.address, "curve.ipynb")
    wait_for_kernel(page)
    command(page, "notebook:run-all-cells")
    points = page.locator(".js-plotly-plot .scatterlayer path.point")
    # Two measurements, and the ring of the kept checkpoint.
    expect(points).to_have_count(3, timeout=4 * PATIENCE)
    (jupyter.folder / "go on").touch()
    expect(points).to_have_count(4)
    expect(page.locator(".js-plotly-plot")).to_have_count(1)


# What a person would type into the cell of parameters to see a notebook through in seconds.
# Notebook 21 is run live in acceptance/test_views.py; acceptance/test_notebooks.py executes all of
# them.
TINY: dict[str, Any] = {"max_steps": 2, "eval_steps": 2, "train_limit": 64, "batch_size": 16}
WHOLE = ["00_tour", "12_compcse"]
# One shows a table, one a figure; for all see test_mechanisms.py.
MECHANISMS = ["12_compcse", "14_rankencoder"]
E1 = {"14_rankencoder": {"base": "world-encoder"}}  # not a run that would be trained first
# Said of so short a training and so small a file.
SMALL = ("too few to learn from", "is a guess from")


def typed(source: str, values: dict[str, Any]) -> str:
    """Return the cell of parameters with these values."""
    for name, value in values.items():
        source, count = re.subn(rf"(?m)^{name} = .*?(?=  #|$)", f"{name} = {value!r}", source)
        assert count == 1, name
    return source


def test_a_notebook_runs_live_without_an_error(
    watched: Watched, jupyter: SimpleNamespace, small_files: dict[str, str]
):
    page, curve = (
        watched.page,
        watched.page.locator(".js-plotly-plot", has_text="Dev Spearman and training loss"),
    )
    (jupyter.folder / "tried").mkdir()
    for name in sorted({*WHOLE, *MECHANISMS}):
        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        # The code up to the view of how the method works, which comes before the training.
        if name not in WHOLE:
            last = next(
                place
                for place, cell in enumerate(notebook.cells)
                if "views.Mechanism(" in cell.source
            )
            notebook.cells = [
                cell for cell in notebook.cells[: last + 1] if cell.cell_type == "code"
            ]
        nbformat.write(notebook, jupyter.folder / "tried" / f"{name}.ipynb")
        open_notebook(page, jupyter.address, f"tried/{name}.ipynb")
        settings = TINY | small_files | E1.get(name, {})
        given = {"overrides": settings} if name in MECHANISMS else {"suite": small_files["suites"]}
        (number,) = (
            place
            for place, cell in enumerate(notebook.cells)
            if "parameters" in cell.metadata.get("tags", [])
        )
        change_cell(page, number, typed(notebook.cells[number].source, given))
        run_all(page, seconds=240)
        assert [text for text in errors(page) if not any(map(text.__contains__, SMALL))] == [], name
        if name == "12_compcse":
            expect(
                page.locator(".jp-OutputArea", has_text=re.compile(r"step +(\d+)/\1 "))
            ).not_to_have_count(0)
            expect(curve).to_have_count(3)  # of SimCSE, the one that grew, and both side by side
        if name in MECHANISMS:
            try_mechanism(page)
    metrics = list((jupyter.folder / "runs").glob("*/*/metrics.json"))
    assert len(metrics) == 2  # the baseline of CompCSE is the run of SimCSE


def try_mechanism(page: Any) -> None:
    """Move each control by keyboard; the result must change."""
    view = page.locator(".workbench-mechanism")
    drawing = view.locator(".workbench-panel, .gtitle").first
    expect(view.locator(".noUi-handle, select")).not_to_have_count(0)
    for handle in [*view.locator(".noUi-handle").all(), *view.locator("select").all()]:
        before = drawing.text_content()
        handle.focus()
        page.keyboard.press("End")
        expect(drawing).not_to_have_text(before or "")
