"""Training gives the same numbers if repeated, killed and resumed, or distributed over
processes."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from forking import python

from workbench import CONFIGS, METHODS, Encoder, Run, evaluate, fit, load_dev, load_training

from .conftest import METHOD_NAMES
from .make_losses import encoder_checksum

Settings = Callable[..., dict[str, Any]]
Train = Callable[..., Run]


def history(run: Run) -> pd.DataFrame:
    return run.history().drop(columns="seconds")


@pytest.fixture(scope="module")
def uninterrupted(train: Train, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Return a finished run of each method."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    return {method: train(method, folder) for method in METHOD_NAMES}


def test_training_again_gives_the_same_weights(
    uninterrupted: dict[str, Run], train: Train, tmp_path: Path
):
    # One with every loss term, and the simplest; the test of kills repeats all in other processes.
    for method in ("mixed", "simcse"):
        first = uninterrupted[method]
        again = train(method, tmp_path)
        assert encoder_checksum(first) == encoder_checksum(again), method
        pd.testing.assert_frame_equal(history(first), history(again))
    assert encoder_checksum(train("simcse", tmp_path, seed=1)) != encoder_checksum(
        uninterrupted["simcse"]
    )


# Each job runs in a forked process, since loading torch takes longer than the training.
KILLED = """
import json, os, signal, sys
from pathlib import Path
from workbench import CONFIGS, METHODS, Run, evaluate, fit, load_dev, load_suites, load_training


def train(method, settings, runs, die_at):
    def kill(row):
        if row["step"] == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    config = CONFIGS[method].from_parameters("demo", 0, settings)
    run, model = Run.open(config, runs), METHODS[method](config)
    fit(model, load_training(config), dev=load_dev(config), run=run, callbacks=[kill], quiet=True)
    evaluate(model, load_suites(config), run=run)


for job in json.loads(Path(sys.argv[1]).read_text()):
    child = os.fork()
    if not child:
        train(*job)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_weights_scores_and_history_of_an_uninterrupted_one(
    uninterrupted: dict[str, Run], settings: Settings, tmp_path: Path
):
    # A state is kept after steps 4, 8 and 12; dev is measured after steps 3, 6, 9 and 12.
    kills = dict.fromkeys(METHOD_NAMES, (9,)) | {"simcse": (2, 5, 9)}
    runs, jobs, ends = str(tmp_path / "killed"), [], []
    for method, steps in kills.items():
        jobs += [(method, settings(method), runs, step) for step in (*steps, 0)]
        ends += [-signal.SIGKILL] * len(steps) + [0]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    command = [python(), "-c", KILLED, str(tmp_path / "jobs.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert list(map(int, done.stdout.split())) == ends, done.stderr
    for method, whole in uninterrupted.items():
        killed = Run(tmp_path / "killed" / method / whole.path.name)
        assert encoder_checksum(killed) == encoder_checksum(whole), method
        assert killed.metrics() == whole.metrics(), method
        assert history(whole)["step"].tolist() == list(range(13)), method
        for table in (Run.scores, Run.rankings, history):
            pd.testing.assert_frame_equal(table(killed), table(whole))


def test_a_run_in_progress_cannot_be_joined_by_another_process(
    settings: Settings,
    tmp_path: Path,
    workbench: Callable[..., Any],
    words: Callable[..., list[str]],
):
    run = Run.open(CONFIGS["simcse"].from_parameters("demo", 0, settings("simcse")), tmp_path)
    refused = workbench("run", "simcse", *words(settings("simcse")), "--runs", tmp_path)
    assert refused.returncode == 75
    assert run.path.name in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (run.path / "metrics.json").exists()


def test_a_finished_run_is_used_as_it_is(train: Train, tmp_path: Path):
    first = train("simcse", tmp_path)
    written = {file: file.stat().st_mtime_ns for file in first.path.rglob("*") if file.is_file()}
    again = train("simcse", first.path.parents[1])
    assert again.path == first.path
    assert again.finished
    assert {
        file: file.stat().st_mtime_ns for file in again.path.rglob("*") if file.is_file()
    } == written


def test_the_encoder_that_is_kept_is_the_best_on_dev(train: Train, tmp_path: Path):
    # Too high a rate, as which is too high depends on the processor.
    for rate in (3e-2, 1e-1, 3e-1):
        run = train("simcse", tmp_path, learning_rate=rate)
        dev = run.history().loc[lambda table: table["step"] > 0, "dev_spearman"].dropna()
        if dev.iloc[-1] < dev.max():
            break
    assert dev.iloc[-1] < dev.max(), "the last step would be the best, and the choice not be seen"
    encoder = Encoder.from_pretrained(run.path / "encoder", device="cpu")
    report = evaluate(encoder, {"dev": load_dev(run.config)})
    assert report.metrics["dev"]["spearman"] == pytest.approx(dev.max(), abs=1e-6)


@pytest.mark.slow
def test_two_processes_train_as_one_does(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", python())  # forks of a process with torch loaded
    histories, vectors = [], []
    for processes in (1, 2):
        config = CONFIGS["simcse"].from_parameters(
            "demo", 0, settings("simcse", processes=processes, dropout=0.0)
        )
        model, data = METHODS["simcse"](config), load_training(config)
        start = model.encode(data.sentences)
        run = Run.open(config, tmp_path / str(processes))
        histories.append(fit(model, data, dev=load_dev(config), run=run, quiet=True))
        vectors.append(model.encode(data.sentences))
    # Sums in another order move a loss near 1 by some 1e-6 in float32; a wrong share of negatives
    # moves it by 0.1.
    np.testing.assert_allclose(histories[1]["loss"], histories[0]["loss"], rtol=1e-4)
    torch.testing.assert_close(vectors[1], vectors[0], rtol=0, atol=1e-3)
    assert float((vectors[0] - start).abs().max()) > 0.05


GATHERED = """
import sys, torch, torch.distributed as dist
from workbench.methods.distributed import gather_rows

dist.init_process_group("gloo")
own = torch.tensor([[float(dist.get_rank() + 1)]], requires_grad=True)
rows = gather_rows(own)
(rows.prod() * (dist.get_rank() + 1)).backward()
torch.save([rows.detach(), own.grad], f"{sys.argv[1]}/{dist.get_rank()}.pt")
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_gathered_rows_get_the_gradient_of_the_losses_of_all_processes(tmp_path: Path):
    (tmp_path / "gathered.py").write_text(GATHERED)
    options = ["--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]
    launcher = [python(), "-m", "torch.distributed.run", *options]
    command = [*launcher, str(tmp_path / "gathered.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        rows, gradient = torch.load(tmp_path / f"{rank}.pt")
        assert rows.tolist() == [[1.0], [2.0]]
        # The losses are a b and 2 a b with a = 1 and b = 2: their sum has the derivatives 3 b and 3
        # a.
        assert gradient.item() == (6.0, 3.0)[rank]
