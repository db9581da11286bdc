"""The command line: refusals are one clear text, exit codes can be relied on."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from forking import python
from jupyterlab_server import settings_utils

from workbench.cli import lab, main
from workbench.config import SEVEN_STS


def call(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["workbench", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "simsce"], "did you mean 'simcse'"),
        (["run", "simcse", "--set", "temprature=1"], "did you mean 'temperature'"),
        (["run", "simcse", "--set", "temperature"], "give KEY=VALUE"),
        (["run", "simcse", "--set", "mlp=true", "--set", "mlp=false"], "given twice"),
        (["run", "simcse", "--set", "train=wrld"], "world"),
        (["run", "simcse", "--set", "encoder=no-such-encoder"], "'no-such-encoder' is no local folder"),
        (["run", "simcse", "--profile", "papr"], "did you mean 'paper'"),
        (["run", "simcse", "--set", "temperature=1", "--set", "temperature =2"], "given twice"),
        (["run", "simcse", "--runs", ""], "is an empty text"),
        (["runs", ""], "is an empty text"),
        (["runs", "--runs", " "], "is an empty text"),
        (["run", "simcse", "--set", f"encoder=./{'x' * 300}"], "File name too long"),
        (["run", "simcse", "--set", f"train={'x' * 300}.txt"], "File name too long"),
        (["settings", "simsce"], "did you mean"),
        (["run", "simcse", "temprature=1"], "did you mean 'temperature'"),
        (["run", "simcse", "mlp=true", "--set", "mlp=false"], "given twice"),
        (["run", "simcse", "lr=1e-4", "learning_rate=1e-5"], "learning_rate is given twice"),
        (["run", "simcse", "per-device-train-batch-size=many"], "batch_size: "),
    ],
)
def test_a_refusal_is_one_text_without_a_traceback(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    assert call(*arguments, monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runs", __file__], "is a file; give the folder"),
        (["runs", "x" * 300], "File name too long"),
        (["run", "simcse", "--runs", "x" * 300], "File name too long"),
    ],
)
def test_a_folder_of_runs_that_cannot_be_one_ends_with_exit_code_1(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    assert call(*arguments, monkeypatch=monkeypatch) == 1
    assert words in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["first imports", "before the kernel", "in the kernel"])
def test_ctrl_c_three_times_ends_in_one_line(tmp_path: Path, moment: str):
    command = [sys.executable, "-m", "workbench", "run", "simcse", "--runs", str(tmp_path), "--set", "max_steps=5000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        if moment == "first imports":
            wait_until(lambda: "pandas" in Path(f"/proc/{run.pid}/maps").read_text())
        elif moment == "before the kernel":
            run.stderr.readline()
        else:
            while not run.stdout.readline().startswith("step"):
                assert run.poll() is None
        for _ in range(3):
            run.send_signal(signal.SIGINT)
            time.sleep(0.1)
        _, error = run.communicate()
    assert run.returncode == 130
    lines = [line for line in error.splitlines() if line and not line.startswith("running 10_simcse.ipynb")]
    assert lines == ["interrupted; the same command goes on from the last saved state, if there is one"]


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_no_runs_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path):
    assert call("runs", str(tmp_path), monkeypatch=monkeypatch) == 0
    assert "workbench run simcse" in capsys.readouterr().out


def test_the_settings_of_a_method_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    assert call("settings", "simcse", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "temperature" in shown
    assert "paper-roberta-large" in shown


def test_settings_fit_a_page_and_no_value_is_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    assert call("settings", "rankcse", "--profile", "paper", monkeypatch=monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    start = next(number for number, line in enumerate(lines) if line.startswith("suites"))
    column = lines[0].index("value"), lines[0].index("meaning")
    value = ""
    for line in lines[start : start + 20]:
        value += line[slice(*column)].strip()
    assert all(suite in value for suite in SEVEN_STS)


def test_the_version_says_what_runs_and_where_it_lies(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    assert call("--version", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.startswith(f"ranking-workbench {metadata.version('ranking-workbench')}, Python 3.")


def test_a_listing_whose_reader_goes_ends_quietly():
    listing = subprocess.Popen(
        [python("looks"), "-m", "workbench", "data", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert listing.stdout is not None
    listing.stdout.close()
    assert listing.stderr is not None
    assert listing.stderr.read() == b""
    assert listing.wait() == 1


def test_a_set_that_is_not_there_is_a_row_of_the_check_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    assert call("data", "check", "world-dev", "world-dve", monkeypatch=monkeypatch) == 1
    shown = capsys.readouterr().out
    assert "its splits are world-train, world-dev" in shown
    assert "bundled" in shown


def test_the_bundled_data_is_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    bundled = ["world", "world-train", "world-dev", "world-test", "ladders-all"]
    assert call("data", "check", *bundled, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.count("bundled") == len(bundled)


@pytest.mark.slow
def test_a_tiny_run_ends_with_exit_code_0_and_its_metrics(tmp_path: Path):
    root = tmp_path / "my runs"
    small = ["max_steps=2", "eval_steps=2", "train_limit=200", "device=cpu"]
    command = [python("looks"), "-m", "workbench", "run", "simcse", "--seed", "5", "--runs", str(root), "--html"]
    command += [part for text in small for part in ("--set", text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^step +0/2  dev Spearman [\d.]+ \(step 0\)  \d+ s$", done.stdout, re.MULTILINE)
    assert re.search(r"^step +2/2  loss [\d.]+  dev Spearman [\d.]+ \(step 2\)  \d+ s$", done.stdout, re.MULTILINE)
    assert re.search(r"^\w.* its start on world-test: [+-][\d.]+ spearman x 100, 95% inter", done.stdout, re.MULTILINE)
    assert "2 steps with 1 evaluation(s) on dev are too few" in done.stderr
    (run,) = (root / "simcse").iterdir()
    assert run.name.endswith("-s5")
    names = {path.name for path in run.iterdir() if not path.name.startswith(".")}
    files = {"config.json", "history.csv", "scores.csv", "rankings.csv", "metrics.json", "notebook.ipynb"}
    assert names == files | {"notebook.html", "encoder", "before"}
    stamp = (run / "metrics.json").stat().st_mtime_ns
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert (run / "metrics.json").stat().st_mtime_ns == stamp
    assert "used as it is" in again.stderr


@pytest.mark.slow
def test_a_run_that_fails_ends_with_exit_code_1_and_says_why(tmp_path: Path):
    command = [python("looks"), "-m", "workbench", "run", "cosent", "--runs", str(tmp_path), "--set"]
    done = subprocess.run(
        [*command, "softmax_labels=whole", "--set", "objective=softmax"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "softmax" in done.stderr.split("error:")[-1]
    assert "Traceback" not in done.stderr.split("error:")[-1]


def test_lab_opens_at_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    started: list[list[str]] = []
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    monkeypatch.setattr("os.execv", lambda _, command: started.append(command))
    lab(tmp_path / "notebooks", ["--no-browser"])
    assert started[0][-1] == "--no-browser"
    (opened,) = (option.split("/lab/tree/")[1] for option in started[0] if "default_url" in option)
    assert (tmp_path / opened).is_file()
    assert opened == "notebooks/00_tour.ipynb"
    asked = settings_utils._get_overrides(str(tmp_path))[0]["@jupyterlab/apputils-extension:notification"]
    assert asked == {"fetchNews": "false", "checkForUpdates": False}, "JupyterLab would ask to go online"
