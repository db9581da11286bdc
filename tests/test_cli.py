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

from workbench.cli import compare_stages, main
from workbench.config import SEVEN_STS


def call(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["workbench", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "simsce"], 2, "did you mean 'simcse'"),
        (["run", "simcse", "temprature=1"], 2, "did you mean 'temperature'"),
        (["run", "simcse", "--set", "temperature"], 2, "give KEY=VALUE"),
        (["run", "simcse", "mlp=true", "--set", "mlp =false"], 2, "given twice"),
        (["run", "simcse", "--profile", "papr"], 2, "did you mean 'paper'"),
        (["run", "simcse", "lr=1e-4", "learning_rate=1e-5"], 2, "learning_rate is given twice"),
        (["run", "simcse", "per-device-train-batch-size=many"], 2, "batch_size: "),
        (["run", "simcse", "--set", f"train={'x' * 300}.txt"], 2, "File name too long"),
        (["runs", "x" * 300], 2, "File name too long"),
        (["runs", __file__], 1, "is a file; name the folder"),
    ],
)
def test_a_refusal_is_one_text_without_a_traceback(  # noqa: PLR0917
    arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    assert call(*arguments, monkeypatch=monkeypatch) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


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


def test_settings_fit_a_page_and_no_value_is_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    assert call("settings", "rankcse", "--profile", "paper", monkeypatch=monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    start = next(number for number, line in enumerate(lines) if line.startswith("suites"))
    column = lines[0].index("value"), lines[0].index("meaning")
    value = "".join(line[slice(*column)].strip() for line in lines[start : start + 20])
    assert all(suite in value for suite in SEVEN_STS)


def test_the_version_says_what_runs_and_where_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    assert call("--version", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.startswith(f"ranking-workbench {metadata.version('ranking-workbench')}, Python 3.")


def test_a_listing_whose_reader_goes_ends_quietly():
    command = [python("looks"), "-m", "workbench", "data", "list"]
    listing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert listing.stdout is not None
    listing.stdout.close()
    assert listing.stderr is not None
    assert listing.stderr.read() == b""
    assert listing.wait() == 1


def test_the_demo_compares_before_and_after_over_seeds():
    class Finished:
        def __init__(self, before: float, after: float) -> None:
            self.scores = {"before": before, "": after}

        def metrics(self, stage: str = "") -> dict:
            score = {"spearman": self.scores[stage], "kcc": 0.5, "ndcg": 0.5, "n": 9}
            return {"s": score, "sts-average": {"spearman": self.scores[stage]}}

    table = compare_stages([Finished(0.4, 0.5), Finished(0.4, 0.7)])  # type: ignore[list-item]
    first, *_, last = table.to_dict("records")
    assert first == {
        "suite": "s",
        "metric": "Spearman",
        "before": "40.00 ± 0.00",
        "after": "60.00 ± 14.14",
        "gain": "20.00 ± 14.14",
    }
    assert (last["suite"], last["metric"], len(table)) == ("sts-average", "Spearman", 4)


@pytest.mark.slow
def test_a_run_prints_its_progress_and_once_what_it_gained(tmp_path: Path):
    root = tmp_path / "my runs"
    small = ["max_steps=2", "eval_steps=2", "train_limit=200", "device=cpu"]
    command = [python("looks"), "-m", "workbench", "run", "simcse", *small, "--runs", str(root), "--html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^step +0/2 +dev Spearman [\d.]+ \(step 0\)  [\d:]+$", done.stdout, re.MULTILINE)
    assert re.search(r"^step +2/2  loss [\d.]+  dev Spearman [\d.]+ \(step 2\)  [\d:]+$", done.stdout, re.MULTILINE)
    gains = r"^\w.* its start on world-test: [+-][\d.]+ spearman x 100, 95% inter"
    assert len(re.findall(gains, done.stdout, re.MULTILINE)) == 1
    assert "2 steps with 1 evaluation(s) on dev are too few" in done.stderr
    (path,) = (root / "simcse").iterdir()
    names = {file.name for file in path.iterdir() if not file.name.startswith(".")}
    files = {"config.json", "history.csv", "scores.csv", "rankings.csv", "metrics.json", "notebook.ipynb"}
    assert names >= files | {"notebook.html", "encoder", "before"}
    again = subprocess.run([*command, "--no-notebook"], capture_output=True, text=True, check=False)
    assert len(re.findall(gains, again.stdout, re.MULTILINE)) == 1
