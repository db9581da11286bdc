"""Headless runs refuse early, finish with metrics.json, and are reused."""

import gzip
import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import nbformat
import pytest
from forking import python
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from workbench.config import CONFIGS, RankCSEConfig, SimCSEConfig
from workbench.encoder import Encoder
from workbench.errors import DataError, RunError, SettingError
from workbench.execution import check_parameters, execute, notebook_of, run_method
from workbench.files import write_json
from workbench.notebook_page import export_html
from workbench.runs import Run, list_runs

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


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
        ({"method": "simcse", "overrides": {"temperature": "hot"}}, "valid number"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_is_made(tmp_path: Path, arguments: dict, words: str):
    with pytest.raises(SettingError, match=words):
        run_method(**arguments, runs_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("method", "overrides", "words"),
    [
        ("simcse", {"dev": "world-dve"}, "world-dev"),
        ("simcse", {"train": "world-train"}, "simcse needs sentences there"),
        ("cosent", {"train": "world"}, "train: world holds sentences; cosent needs pairs"),
        ("cosent", {"train": "nli.tsv"}, "train: .*nli.tsv holds triples; cosent needs pairs"),
        ("rankcse", {"dev": "world"}, "dev: world holds sentences; rankcse needs pairs"),
        ("compcse", {"suites": ["world-test", "world"]}, "world holds sentences; .* pairs or transfer tasks there"),
        ("simcse", {"train": "cut.txt.gz"}, "cut short"),
    ],
)
def test_data_of_no_use_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, overrides: dict, words: str
):
    monkeypatch.chdir(tmp_path)
    Path("nli.tsv").write_text("sent0\tsent1\thard_neg\na\tb\tc\n")
    Path("cut.txt.gz").write_bytes(gzip.compress(b"one sentence\n" * 9)[:-9])
    with pytest.raises(DataError, match=words):
        run_method(method, overrides=overrides, runs_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_triples_are_for_the_triplet_loss(tmp_path: Path):
    file = tmp_path / "nli.tsv"
    file.write_text("sent0\tsent1\thard_neg\na\tb\tc\n")
    settings = {"train": str(file), "objective": "triplet", "encoder": str(tmp_path / "none" / "such")}
    with pytest.raises(SettingError, match=r"there is no folder .*none/such"):
        run_method("cosent", overrides=settings, runs_root=tmp_path / "runs")


@pytest.mark.parametrize(
    ("method", "overrides"),
    [
        ("simcse", {"encoder": "no-such-encoder"}),
        ("rankcse", {"teachers": ["world-teacher", "no-such-encoder"]}),
        ("rankencoder", {"base": "no-such-encoder"}),
    ],
)
def test_an_encoder_that_is_nowhere_is_refused_without_a_kernel_and_without_torch(
    tmp_path: Path, method: str, overrides: dict
):
    code = (
        "import sys\nfrom workbench.errors import SettingError\nfrom workbench.execution import run_method\n"
        f"try:\n    run_method({method!r}, overrides={overrides!r}, runs_root={str(tmp_path / 'runs')!r})\n"
        "except SettingError as refusal:\n    print(refusal, 'torch' in sys.modules, sep='\\n')"
    )
    done = subprocess.run([python("looks"), "-c", code], capture_output=True, text=True, check=False)
    refusal, torch_loaded = done.stdout.splitlines()
    setting, _, problem = refusal.partition(": ")
    assert setting in overrides
    assert problem.startswith("'no-such-encoder' is no local folder")
    assert torch_loaded == "False"
    assert done.stderr == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("method", "overrides", "words"),
    [
        ("simcse", {"max_tokens": 5000}, "max_tokens is 5000, but world-encoder takes 64 tokens"),
        ("simcse", {"encoder": "english-encoder"}, "was saved with 'mean'.* set pooling=mean .* or pooling=cls"),
        ("simcse", {"pooling": "mask"}, "template, and world-encoder has none"),
        ("rankencoder", {"corpus": "world-train"}, "corpus: world-train holds pairs; rankencoder needs sentences"),
        ("rankencoder", {"corpus": "wrld"}, "wrld.*world"),
        ("simcse", {"revisions": {"someone/something": "main"}}, "someone/something"),
    ],
)
def test_what_would_fail_in_the_kernel_is_refused_before_it_starts(
    tmp_path: Path, method: str, overrides: dict, words: str
):
    with pytest.raises((SettingError, DataError), match=words):
        run_method(method, overrides=overrides, runs_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_training_cut_above_the_limit_of_a_sentence_transformer_is_refused(tiny_encoder: Path, tmp_path: Path):
    folder = tmp_path / "encoder"
    Encoder.from_pretrained(tiny_encoder, "cls", device="cpu").save(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_max_length": 8}))
    with pytest.raises(SettingError, match=r"max_tokens is 32, but .* takes 8 tokens; lower it"):
        run_method("simcse", overrides={"encoder": str(folder)}, runs_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_device_that_is_not_there_is_refused_before_a_kernel_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SettingError, match="device: torch has no cuda here"):
        run_method("simcse", overrides={"device": "cuda"}, runs_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_teachers_that_no_loss_reads_are_not_asked_for():
    names = RankCSEConfig.from_parameters("demo", overrides={"teachers": ["no-such"], "gamma": 0}).checkpoints
    assert names == ["world-encoder"]


def test_a_run_is_on_record_and_taken_before_its_kernel_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen = []

    def kernel(notebook: Path, output: Path, parameters: dict) -> None:
        seen.append(list_runs(tmp_path)[["seed", "status"]].to_numpy().tolist())
        code = "import sys\nfrom workbench.execution import run_method\nrun_method('simcse', runs_root=sys.argv[1])"
        command = [python("looks"), "-c", code, str(tmp_path)]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        seen.append("another process is working on" in second.stderr)
        Run.create(SimCSEConfig.from_parameters("demo"), tmp_path).release()  # as the notebook does
        write_json(output.parent / "metrics.json", {})

    monkeypatch.setattr("workbench.execution.execute", kernel)
    run = run_method("simcse", runs_root=tmp_path)
    assert seen == [[[0, "unfinished"]], True]
    assert "earlier_starts" not in run.facts()


def test_an_undeclared_parameter_is_refused_before_a_kernel_starts(tmp_path: Path):
    with pytest.raises(SettingError, match=r"no parameter 'lable' in small\.ipynb; did you mean 'label'\?"):
        execute(notebook(tmp_path), tmp_path / "out.ipynb", {"lable": "b"})
    assert not (tmp_path / "out.ipynb").exists()


def test_a_name_that_papermill_injects_and_the_notebook_does_not_declare_is_refused():
    declared = 'profile = "demo"\nseed = 0  # every random generator derives from it'
    check_parameters({"In": ["", declared]})
    check_parameters({"In": ["", declared, '# Parameters\nseed = 3\nprofile = "paper"\n', "x = 1"]})
    check_parameters({})  # no notebook
    check_parameters({"In": ["", declared, "# Parameters\nsead = 3\n", "", "# Parameters\nseed = 3\n"]})  # mended
    with pytest.raises(SettingError, match=r"no parameter 'sead' in this notebook; did you mean 'seed'\?"):
        check_parameters({"In": ["", declared, "# Parameters\nseed = 1\nsead = 3\n"]})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x", "xx"])
def test_papermill_called_directly_stops_at_a_name_that_is_not_declared(tmp_path: Path, name: str):
    from papermill import PapermillExecutionError, execute_notebook

    file = notebook(tmp_path, "from workbench import check_parameters\n\ncheck_parameters(globals())")
    words = "no parameter 'xx' in this notebook; did you mean 'x'?"
    with pytest.raises(PapermillExecutionError, match=re.escape(words)) if name == "xx" else nullcontext():
        execute_notebook(file, tmp_path / "out.ipynb", parameters={name: 2}, kernel_name="python3", progress_bar=False)


@pytest.mark.slow
def test_a_failing_cell_is_an_error_with_its_own_words_and_the_notebook_is_kept(tmp_path: Path):
    with pytest.raises(RunError, match=r"ValueError: x is 2") as failure:
        execute(notebook(tmp_path, "raise ValueError(f'x is {x}')"), tmp_path / "out.ipynb", {"x": 2})
    assert str(tmp_path / "out.ipynb") in str(failure.value)
    assert (tmp_path / "out.ipynb").is_file()


@pytest.mark.slow
def test_threads_of_a_kernel_wait_a_moment_then_sleep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JUPYTER_PATH", "")  # a fresh kernel: in a fork the package is there before its environment
    for name in WAITING:
        monkeypatch.delenv(name, raising=False)
    execute(
        notebook(tmp_path, "import os, workbench\nassert os.environ['GOMP_SPINCOUNT'] == '5000'"),
        tmp_path / "out.ipynb",
        {},
    )


@pytest.mark.parametrize(
    ("code", "own", "found"),
    [
        ("import workbench", {}, "5000"),
        ("import torch, workbench", {}, "None"),
        ("import workbench", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("import workbench", {"OMP_WAIT_POLICY": "ACTIVE"}, "None"),
    ],
)
def test_threads_wait_a_moment_then_sleep_unless_torch_or_a_choice_was_there_first(
    code: str, own: dict[str, str], found: str
):
    environment = {name: value for name, value in os.environ.items() if name not in WAITING} | own
    code += "\nimport os\nprint(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == found


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


@pytest.mark.slow
def test_a_finished_run_whose_notebook_failed_is_shown_again_and_then_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    metrics, mended = tmp_path / "metrics", tmp_path / "mended"
    body = [
        "import pathlib, shutil\nfrom workbench.config import SimCSEConfig",
        "config = SimCSEConfig.from_parameters(profile, seed, overrides)",
        "path = pathlib.Path(runs_root) / 'simcse' / f'{config.digest()}-s{config.seed}'",
        f"shutil.copy({str(metrics)!r}, path / 'metrics.json')",
        f"assert pathlib.Path({str(mended)!r}).exists(), 'a cell behind the evaluation'",
    ]
    metrics.write_text("{}")
    cells = [
        new_code_cell("profile = 'demo'\nseed = 0\noverrides = {}\nruns_root = '.'", metadata={"tags": ["parameters"]}),
        new_code_cell("\n".join(body)),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}
    nbformat.write(new_notebook(cells=cells, metadata=kernel), tmp_path / "small.ipynb")
    monkeypatch.setattr("workbench.execution.notebook_of", lambda method: tmp_path / "small.ipynb")
    with pytest.raises(RunError, match="a cell behind the evaluation"):
        run_method("simcse", runs_root=tmp_path / "runs")
    mended.touch()
    caplog.set_level("INFO", "workbench")
    assert run_method("simcse", runs_root=tmp_path / "runs").finished
    assert "used as it is" not in caplog.text
    run_method("simcse", runs_root=tmp_path / "runs")
    assert "used as it is" in caplog.text
