"""Notebooks in a real JupyterLab and browser: live curves of trainings, and views of how a method works."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from live_lab import (
    PATIENCE,
    Watched,
    change_cell,
    command,
    errors,
    jupyterlab,
    open_notebook,
    run_all,
    wait_for_kernel,
)
from nbformat.v4 import new_code_cell, new_notebook

from workbench.config import SimCSEConfig

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=PATIENCE)

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that JupyterLab serves."""
    folder = tmp_path_factory.mktemp("lab") / "notebooks"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with jupyterlab(folder) as found:
        yield found


@pytest.fixture(scope="module")
def shared(browser: Any) -> Iterator[Watched]:
    """Return a page in which JupyterLab, which takes seconds, is loaded once."""
    watched = Watched(browser)
    yield watched
    watched.page.close()


@pytest.fixture
def watched(shared: Watched, tmp_path: Path) -> Iterator[Watched]:
    shared.problems.clear()
    shared.elsewhere.clear()
    yield shared
    shared.page.screenshot(path=tmp_path / "end.png")  # to see where it stopped
    assert shared.problems == []
    assert shared.elsewhere == []


CURVE = """
import time
from pathlib import Path
from workbench.views import LiveCurve
curve = LiveCurve(None, "live")
for step in (0, 1, 2):
    while step == 2 and not Path("go on").exists():
        time.sleep(0.05)
    curve({"step": step, "loss": 1.0, "dev_spearman": step / 10})
"""


def test_the_curve_of_a_training_grows_in_its_one_output_while_the_kernel_is_busy(
    watched: Watched, address: str, folder: Path
):
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE)
    notebook = new_notebook(cells=[new_code_cell(CURVE)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "curve.ipynb")
    page = watched.page
    open_notebook(page, address, "curve.ipynb")
    wait_for_kernel(page)
    command(page, "notebook:run-all-cells")
    points = page.locator(".js-plotly-plot .scatterlayer path.point")
    expect(points).to_have_count(3, timeout=4 * PATIENCE)  # two measurements, and the ring of the kept checkpoint
    (folder / "go on").touch()
    expect(points).to_have_count(4)
    expect(page.locator(".js-plotly-plot")).to_have_count(1)


# What a person would type into the cell of parameters to see a notebook through in seconds. The others need no live
# training: 21 is run live in acceptance/test_views.py, and all of them in acceptance/test_notebooks.py.
def parameters(small_files: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the parameters of each notebook."""
    tiny: dict[str, Any] = {"max_steps": 2, "eval_steps": 2, "train_limit": 64, "batch_size": 16} | small_files
    base = f"../runs/simcse/{SimCSEConfig.from_parameters('demo', 0, tiny).digest()}-s0"
    return {
        "00_tour": {"suite": "ladders-all"},
        **{name: {"overrides": tiny} for name in ("11_rankcse", "12_compcse", "13_cosent")},
        "14_rankencoder": {"overrides": tiny | {"base": base, "corpus_size": 64}},
    }


SMALL = ("too few to learn from", "is a guess from")  # said of so short a training and so small a file
MECHANISMS = ["11_rankcse", "12_compcse", "13_cosent", "14_rankencoder"]  # each has a view of how it works
CURVES = {"12_compcse": 3, "14_rankencoder": 2}  # that grew, and one of several trainings side by side


def typed(source: str, values: dict[str, Any]) -> str:
    """Return the cell of parameters with these values."""
    for name, value in values.items():
        source, count = re.subn(rf"(?m)^{name} = .*?(?=  #|$)", f"{name} = {value!r}", source)
        assert count == 1, name
    return source


def test_a_notebook_runs_live_without_an_error(
    watched: Watched, address: str, folder: Path, small_files: dict[str, str]
):
    page, failed, given = watched.page, {}, parameters(small_files)
    curve = page.locator(".js-plotly-plot", has_text="Dev Spearman and training loss")
    (folder / "tried").mkdir()
    for path in [FOLDER / f"{name}.ipynb" for name in given]:
        shutil.copy(path, folder / "tried" / path.name)
        open_notebook(page, address, f"tried/{path.name}")
        cells = nbformat.read(path, as_version=4).cells
        (number,) = (place for place, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", []))
        change_cell(page, number, typed(cells[number].source, given[path.stem]))
        run_all(page, seconds=240)
        if found := [text for text in errors(page) if not any(map(text.__contains__, SMALL))]:
            failed[path.stem] = found
        elif "overrides" in given[path.stem]:
            expect(page.locator(".jp-OutputArea", has_text=re.compile(r"step +(\d+)/\1 "))).not_to_have_count(0)
            expect(curve).to_have_count(CURVES.get(path.stem, 1))
        if path.stem in MECHANISMS and not failed:
            try_mechanism(page)
    assert failed == {}
    assert len(list((folder / "runs").glob("*/*/metrics.json"))) == 5  # the baseline of CompCSE is the run of SimCSE


def try_mechanism(page: Any) -> None:
    """Move each control by keyboard; the result must change."""
    view = page.locator(".workbench-mechanism")
    drawing = view.locator(".workbench-panel, .gtitle").first
    for handle in [*view.locator(".noUi-handle").all(), *view.locator("select").all()]:
        before = drawing.text_content()
        handle.focus()
        page.keyboard.press("End")
        expect(drawing).not_to_have_text(before or "")
