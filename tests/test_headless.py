"""Headless runs refuse early, finish with metrics.json, and are reused."""

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from workbench.config import CONFIGS, SettingError
from workbench.data import DataError
from workbench.files import RunError
from workbench.headless import execute, export_html, notebook_of, run_method


def notebook(folder: Path, *cells: str) -> Path:
    content = new_notebook(
        cells=[
            new_markdown_cell("# A title"),
            new_code_cell("x = 1\nlabel = 'a'", metadata={"tags": ["parameters"]}),
            *(new_code_cell(cell) for cell in cells),
        ],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        },
    )
    path = folder / "small.ipynb"
    nbformat.write(content, path)
    return path


@pytest.mark.parametrize("method", CONFIGS)
def test_every_method_has_a_notebook_with_the_same_parameters(method: str):
    import papermill

    found = papermill.inspect_notebook(str(notebook_of(method)))
    assert {name: item["default"] for name, item in found.items()} == {
        "profile": '"demo"',
        "seed": "0",
        "overrides": "{}",
        "runs_root": '"../runs"',
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "simsce"}, "did you mean 'simcse'"),
        ({"method": "simcse", "profile": "dmo"}, "did you mean 'demo'"),
        ({"method": "simcse", "overrides": {"temprature": 1}}, "did you mean 'temperature'"),
        ({"method": "simcse", "overrides": {"temperature": "hot"}}, "a number > 0"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_made(tmp_path: Path, arguments: dict, words: str):
    with pytest.raises(SettingError, match=words):
        run_method(**arguments, runs_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_unknown_data_set_is_refused_before_anything_is_made(tmp_path: Path):
    with pytest.raises(DataError, match="world-dev"):
        run_method("simcse", overrides={"dev": "world-dve"}, runs_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_undeclared_parameter_is_refused_before_a_kernel_starts(tmp_path: Path):
    with pytest.raises(SettingError, match=r"no parameter 'lable' in small\.ipynb; did you mean 'label'\?"):
        execute(notebook(tmp_path), tmp_path / "out.ipynb", {"lable": "b"})
    assert not (tmp_path / "out.ipynb").exists()


def test_a_parameter_that_is_not_plain_is_refused(tmp_path: Path):
    with pytest.raises(SettingError, match="plain numbers"):
        execute(notebook(tmp_path), tmp_path / "out.ipynb", {"x": Path("/")})


@pytest.mark.slow
def test_a_failing_cell_is_an_error_with_its_own_words_and_the_notebook_is_kept(tmp_path: Path):
    with pytest.raises(RunError, match=r"ValueError: x is 2") as failure:
        execute(notebook(tmp_path, "raise ValueError(f'x is {x}')"), tmp_path / "out.ipynb", {"x": 2})
    assert str(tmp_path / "out.ipynb") in str(failure.value)
    assert (tmp_path / "out.ipynb").is_file()


@pytest.mark.slow
def test_figures_are_small_in_the_notebook_and_whole_in_the_page(tmp_path: Path):
    cells = ["import plotly.graph_objects as go\ngo.Figure(go.Scatter(y=[1, 3, x]))"] * 2
    execute(notebook(tmp_path, *cells), tmp_path / "out.ipynb", {"x": 7})
    assert (tmp_path / "out.ipynb").stat().st_size < 100_000
    page = export_html(tmp_path / "out.ipynb").read_text(encoding="utf-8")
    assert page.count("Plotly.newPlot(") >= 2
    scripts = [line for line in page.splitlines() if "plotly.js v" in line]
    assert len(scripts) == 1, "the drawing script stands in the page once"
    assert json.loads((tmp_path / "out.ipynb").read_text())["cells"]
