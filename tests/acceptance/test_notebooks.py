"""The notebooks as a user runs them: each method by `workbench run`, the others by papermill, on
the same runs."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from forking import python
from nbformat import NotebookNode

from .conftest import METHOD_NAMES
from .lab import NOTEBOOKS

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {
    "max_steps": 2,
    "eval_steps": 2,
    "train_limit": 64,
    "batch_size": 16,
    "device": "cpu",
}
SUITE = "small-test"
MORE: dict[str, dict[str, Any]] = {"rankencoder": {"base": "world-encoder", "corpus_size": 64}}
MORE["mixed"] = MORE["rankencoder"]
FIGURE, TABLE = "application/vnd.plotly.v1+json", "text/html"
VIEW = "application/vnd.jupyter.widget-view+json"


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def outputs(path: Path, kind: str) -> list[Any]:
    """Check that no cell failed and return the outputs of a notebook in this format."""
    found = [output for cell in read(path).cells for output in cell.get("outputs", [])]
    assert [output.evalue for output in found if output.output_type == "error"] == []
    return [output.data[kind] for output in found if kind in output.get("data", {})]


def papermill(
    notebook: str, output: Path, **parameters: object
) -> "subprocess.CompletedProcess[str]":
    """Run `papermill` on a notebook; return how it ended."""
    given = [word for name, value in parameters.items() for word in ("-p", name, str(value))]
    command = [
        python(),
        "-m",
        "papermill",
        NOTEBOOKS / f"{notebook}.ipynb",
        output,
        "--no-progress-bar",
        *given,
    ]
    return subprocess.run(command, cwd=output.parent, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, small_files: dict[str, str]) -> dict[str, Path]:
    """Run the notebook of every method from the command line; return the folder of each run."""
    folder, given = tmp_path_factory.mktemp("notebooks"), QUICK | small_files
    for method in METHOD_NAMES:
        settings = [f"{name}={value}" for name, value in (given | MORE.get(method, {})).items()]
        command = [python(), "-m", "workbench", "run", method, *settings, "--runs", folder / "runs"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{method}: {done.stderr[-2000:]}"
    return {method: next((folder / "runs" / method).glob("*-s0")) for method in METHOD_NAMES}


def test_every_method_runs_by_the_command_line_and_keeps_its_notebook(runs: dict[str, Path]):
    for method, folder in runs.items():
        metrics = json.loads((folder / "metrics.json").read_text())
        assert -1 <= metrics[SUITE]["spearman"] <= 1
        assert (folder / "encoder" / "model.safetensors").is_file()
        notebook = folder / "notebook.ipynb"
        assert outputs(notebook, FIGURE), method
        shown = "\n".join(outputs(notebook, TABLE))
        assert f"{100 * metrics[SUITE]['spearman']:.2f}" in shown, method
        assert "gold rank" in shown, method


def test_the_other_notebooks_run_on_these_runs(
    runs: dict[str, Path], small_files: dict[str, str], tmp_path: Path
):
    root, suite = runs["simcse"].parents[1], small_files["suites"]
    given = {
        "00_tour": {"suite": suite},
        "15_rank_closed_form": {"corpus_size": 200},
        "20_compare": {"runs_root": root, "suite": suite, "samples": 20},
        "21_rankings": {"runs_root": root, "suite": suite},
        "23_pairs": {"runs_root": root, "suite": suite},
        "22_paper_tables": {"runs_root": root, "suite": suite},
    }
    for name, parameters in given.items():
        done = papermill(name, tmp_path / f"{name}.ipynb", **parameters)
        assert done.returncode == 0, f"{name}: {done.stderr[-2000:]}"
    shown = {name: "\n".join(outputs(tmp_path / f"{name}.ipynb", TABLE)) for name in given}
    assert "gold rank" in shown["00_tour"]
    for method, folder in runs.items():
        value = json.loads((folder / "metrics.json").read_text())[SUITE]["spearman"]
        assert method in shown["20_compare"]
        assert f"{100 * value:.2f}" in shown["20_compare"]
        assert method in shown["21_rankings"]
    assert len(outputs(tmp_path / "20_compare.ipynb", FIGURE)) >= 2
    assert [
        len(outputs(tmp_path / f"{name}.ipynb", VIEW))
        for name in ("00_tour", "21_rankings", "23_pairs")
    ] == [
        3,
        2,
        2,
    ]
    assert "80.05" in shown["22_paper_tables"]
    assert (
        "workbench run rankcse --profile paper --set info_nce=false --set beta=0; "
        in shown["22_paper_tables"]
    )


def test_a_parameter_that_no_notebook_has_is_refused(tmp_path: Path, workbench: Callable[..., Any]):
    done = papermill("15_rank_closed_form", tmp_path / "out.ipynb", corpussize=200)
    assert done.returncode != 0
    assert "corpussize" in done.stderr
    assert "corpus_size" in done.stderr
    done = workbench("run", "simcse", "temprature=0.1", cwd=tmp_path)
    assert done.returncode != 0
    assert "temprature" in done.stderr
    assert "temperature" in done.stderr
    assert list(tmp_path.rglob("metrics.json")) == []
