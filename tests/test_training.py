"""Training resumes after a kill at any write, refuses early, and gives the same result in several
processes."""

import contextlib
import functools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from forking import python
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from workbench.config import MixedConfig, SimCSEConfig
from workbench.data import Pairs, Sentences, load_dev, load_training
from workbench.encoder import Encoder, weights_checksum
from workbench.errors import DataError, EncoderError, RunError, SettingError, WorkbenchError
from workbench.evaluation import evaluate
from workbench.methods.simcse import SimCSE
from workbench.runs import Run
from workbench.teachers import load_teacher
from workbench.training import _launch, _loop, fit
from workbench.training._launch import fit_in_processes
from workbench.training._plan import Plan
from workbench.training._state import State
from workbench.views.run_tables import kept_checkpoint

pytestmark = pytest.mark.usefixtures("no_type_checks")  # which take a third of the time


@pytest.fixture
def dev(tiny_sentences: list[str]) -> Pairs:
    first, second = tiny_sentences[:20], tiny_sentences[20:40]
    shared = [len(set(a.split()) & set(b.split())) for a, b in zip(first, second, strict=True)]
    ids = [str(number) for number in range(20)]
    return Pairs(
        "tiny-dev",
        first,
        second,
        np.asarray(shared, float),
        None,
        ids,
        (0.0, 7.0),
        "made here",
        "1",
    )


def config(encoder: Path, seed: int = 0, **overrides: object) -> SimCSEConfig:
    small = {
        "encoder": str(encoder),
        "batch_size": 8,
        "max_steps": 6,
        "eval_steps": 2,
        "save_steps": 2,
        "log_steps": 1,
    }
    return SimCSEConfig.from_parameters("demo", seed, small | {"device": "cpu"} | overrides)


def weights(method: SimCSE) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


def state_of(path: Path) -> Path:
    return path / "checkpoint" / "state.safetensors"


def test_the_history_has_a_row_per_logged_step_which_callbacks_get_and_quiet_does_not_change(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, capfd: pytest.CaptureFixture[str]
):
    rows: list[dict] = []
    history = fit(SimCSE(config(tiny_encoder)), sentences, dev, callbacks=[rows.append])
    assert "step" in capfd.readouterr().out
    pd.testing.assert_frame_equal(pd.DataFrame(rows), history)
    assert history["step"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert history["dev_spearman"].notna().tolist() == [True, False, True, False, True, False, True]
    trained = history[history["step"] > 0]
    np.testing.assert_allclose(trained["loss"], trained["info_nce"], rtol=1e-6)
    quiet = fit(SimCSE(config(tiny_encoder)), sentences, dev, quiet=True)
    assert capfd.readouterr() == ("", "")
    pd.testing.assert_frame_equal(history.drop(columns="seconds"), quiet.drop(columns="seconds"))


def test_weights_changed_since_training_are_refused_wherever_the_run_is_used(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder)
    run, method = Run.open(settings, tmp_path), SimCSE(settings)
    fit(method, sentences, dev, run=run)
    evaluate(method.encode, {"tiny-dev": dev}, run=run)
    own = run.path / "encoder"
    own.joinpath("README.md").write_text("a card of my own")  # no part of the encoder
    saved = (own / "model.safetensors").read_bytes()
    uses: list[Callable[[], object]] = [
        lambda: Encoder.from_pretrained(run.path),
        lambda: SimCSE(config(run.path)),
        lambda: load_teacher(str(run.path)),
        lambda: fit(SimCSE(settings), sentences, dev, run=run),
    ]
    for use in uses:
        use()
    # One bit of a weight.
    (own / "model.safetensors").write_bytes(saved[:-4] + bytes([saved[-4] ^ 1]) + saved[-3:])
    for use in uses:
        with pytest.raises(
            EncoderError, match=re.escape(f"{own} was changed after the run saved it")
        ):
            use()


def test_a_run_takes_no_step_after_its_last_and_refuses_other_inputs(
    tiny_encoder: Path,
    sentences: Sentences,
    dev: Pairs,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
):
    # 60 sentences make 8 steps: the end is within an epoch.
    settings = config(tiny_encoder, max_steps=6)
    first, second, run = SimCSE(settings), SimCSE(settings), Run.open(settings, tmp_path)
    history = fit(first, sentences, dev, run=run)
    assert "going on" not in capsys.readouterr().out
    again = fit(second, sentences, dev, run=run)
    assert "going on from step 6 of 6\n" in capsys.readouterr().out
    tables = [table.drop(columns="seconds").dropna(axis=1, how="all") for table in (again, history)]
    pd.testing.assert_frame_equal(*tables, check_dtype=False)
    assert same(
        weights(first),
        weights(second) | {n: v for n, v in weights(first).items() if n.startswith("head")},
    )
    changed = Sentences("tiny", sentences.sentences[1:], "made here", "2")
    with pytest.raises(RunError, match="train: made here is not what"):
        fit(SimCSE(settings), changed, dev, run=run)
    other = SimCSE(settings)
    other.starting_weights = "another"
    with pytest.raises(RunError, match=r"encoder: .* is not what"):
        fit(other, sentences, dev, run=run)
    with pytest.raises(RunError, match="trained already"):
        fit(first, sentences, dev, run=Run.open(settings, tmp_path / "new"))
    shutil.rmtree(run.path / "encoder")
    with pytest.raises(RunError, match=r"encoder is missing.*checkpoint to train again"):
        fit(SimCSE(settings), sentences, dev, run=run)


def test_a_refused_set_is_not_what_the_run_began_with(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder, max_steps=2)
    run = Run.open(settings, tmp_path)
    equal = replace(dev, gold=np.ones_like(dev.gold), checksum="3")
    with pytest.raises(DataError, match="one and the same gold cannot choose"):
        fit(SimCSE(settings), sentences, equal, run=run)
    one = Sentences("one", sentences.sentences[:1], "made here", "4")
    with pytest.raises(WorkbenchError):
        fit(SimCSE(settings), one, dev, run=run)
    method = SimCSE(settings)
    assert len(fit(method, sentences, dev, run=run)) > 1
    task = replace(dev, pair_id=["0"] * len(dev), checksum="5")
    with pytest.raises(WorkbenchError):
        evaluate(lambda _: np.full((1, 1), np.nan), {"mine": task}, run=run)
    assert evaluate(method, {"mine": dev}, run=run).metrics["mine"]["n"] == len(dev)
    with pytest.raises(EncoderError, match="3 first and 1 second sentences are no pairs"):
        method.score(["a", "b", "c"], ["a"])


# Each start forks a process, since loading torch takes longer than the training.
JOB = """
import json, os, random, signal, sys
import numpy as np
from workbench.config import CoSENTConfig
from workbench.data import Pairs
from workbench.methods.cosent import CoSENT
from workbench.runs import Run
from workbench.training import fit

calls = 0


def train(job, die_at):
    # End this process as by SIGKILL at the n-th call that changes the disk.
    def count(event, arguments):
        global calls
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"):
            if event == "open" and not (arguments[2] & (os.O_WRONLY | os.O_RDWR)):
                return
            if job["root"] in str(arguments[0]):
                calls += 1
                if calls == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)

    settings = CoSENTConfig.from_parameters("demo", 0, job["settings"])
    gold, numbers = np.asarray(job["gold"]), [str(i) for i in range(20)]
    pairs = Pairs("tiny", *job["pairs"], gold, None, numbers, (0.0, 7.0), "", "")
    method, run = CoSENT(settings), Run.open(settings, job["root"])
    sys.addaudithook(count)
    fit(method, pairs, pairs, run=run, quiet=True)


def start(job, die_at):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        train(job, die_at)
        os.write(writer, str(calls).encode())
        os._exit(0)
    os.close(writer)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(os.read(reader, 20) or 0)


whole, killed = json.loads(sys.argv[1])
code, writes = start(whole, 0)
draw = random.Random(1)
# Each start resumes where the previous one was killed; the last one finishes.
ends = [start(killed, draw.randrange(1, writes // 2))[0] for _ in range(int(sys.argv[2]))]
print(json.dumps([code, *ends, start(killed, 0)[0]]))
"""
KILLS = os.environ.get("WORKBENCH_KILLS", "3")


@pytest.mark.slow
def test_a_run_killed_between_any_two_writes_goes_on_to_the_same_weights(
    tiny_encoder: Path, dev: Pairs, tmp_path: Path
):
    # The softmax has a layer that only training knows.
    settings = {
        "encoder": str(tiny_encoder),
        "batch_size": 8,
        "max_steps": 8,
        "eval_steps": 3,
        "save_steps": 2,
    }
    settings |= {
        "log_steps": 5,
        "device": "cpu",
        "precision": "fp32",
        "learning_rate": 1e-2,
        "objective": "softmax",
    }
    job = {
        "settings": settings,
        "gold": dev.gold.tolist(),
        "pairs": [[dev.sentence1[row // 5] for row in range(20)], dev.sentence2],
    }
    jobs = [job | {"root": f"{tmp_path}/{how}"} for how in ("whole", "killed")]
    command = [python(), "-c", JOB, json.dumps(jobs), KILLS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    code, *ends, last = json.loads(done.stdout)
    assert (code, last) == (0, 0)
    assert ends.count(-signal.SIGKILL) > 1
    whole, killed = (next((tmp_path / how).glob("*/*")) for how in ("whole", "killed"))
    for file in ("encoder/model.safetensors", "checkpoint/state.safetensors"):
        assert same(load_file(whole / file), load_file(killed / file)), file
    histories = [
        pd.read_csv(run / "history.csv").drop(columns="seconds") for run in (whole, killed)
    ]
    pd.testing.assert_frame_equal(*histories)
    assert (whole / "watched.csv").read_bytes() == (killed / "watched.csv").read_bytes()


@pytest.fixture
def half_trained(tiny_encoder: Path, sentences: Sentences, tmp_path: Path) -> Run:
    """Return a run that was stopped at step 4 of 6."""
    run = Run.open(config(tiny_encoder), tmp_path / "runs")

    def stop(row: dict) -> None:
        if row["step"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(SimCSE(config(tiny_encoder)), sentences, run=run, callbacks=[stop])
    return run


def rewrite(
    file: Path, drop: str = "-", tensors: dict[str, torch.Tensor] | None = None, **facts: object
) -> None:
    """Write a state again without tensors called `drop`..., with other `tensors` and `facts`."""
    with safe_open(file, "pt") as opened:
        stored = json.loads(opened.metadata()["state"])
    kept = {name: value for name, value in load_file(file).items() if not name.startswith(drop)}
    save_file(kept | (tensors or {}), file, {"state": json.dumps(stored | facts)})


def flip_bit(file: Path) -> None:
    """Change one bit of the last weight."""
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a step beyond the last": functools.partial(rewrite, step=99),
    "other settings": functools.partial(rewrite, settings="simcse/00000000-s0"),
    "no second moments": functools.partial(rewrite, drop="exp_avg_sq"),
    "a flipped bit": flip_bit,
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-100]),
}


def test_a_damaged_state_is_refused_with_its_path_and_a_deleted_one_trains_again(
    half_trained: Run, tiny_encoder: Path, sentences: Sentences, dev: Pairs
):
    file = state_of(half_trained.path)
    whole_state, method = file.read_bytes(), SimCSE(config(tiny_encoder))
    before = weights(method)
    with pytest.raises(RunError, match=r"training of .* has not finished"):
        evaluate(method.encode, {"tiny-dev": dev}, run=half_trained)
    for damage in DAMAGE.values():
        file.write_bytes(whole_state)
        damage(file)
        with pytest.raises(RunError, match="delete it to train again") as refused:
            fit(method, sentences, run=half_trained)
        assert str(file) in str(refused.value)
        assert same(before, weights(method)), "weights were touched"
    file.unlink()
    whole = SimCSE(config(tiny_encoder))
    fit(method, sentences, run=half_trained)
    fit(whole, sentences)
    assert same(weights(method), weights(whole))
    evaluate(method.encode, {"tiny-dev": dev}, run=half_trained)
    assert half_trained.finished


def test_a_full_disk_is_reported_and_the_last_state_stays_whole(
    half_trained: Run, tiny_encoder: Path, sentences
):
    file = state_of(half_trained.path)
    before = file.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    method = SimCSE(config(tiny_encoder))
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))  # no file may grow larger
    try:
        with pytest.raises(RunError, match=r"cannot be written to .*free some space and run again"):
            fit(method, sentences, run=half_trained)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert file.read_bytes() == before


def test_training_ends_when_dev_has_not_risen_for_as_long_as_patience_allows(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path, monkeypatch
):
    measured = iter([0.9, 0.3, 0.5, 0.5, 0.4, 0.6])
    monkeypatch.setattr(
        "workbench.training._record.dev_values",
        lambda method, dev: ({"dev_spearman": next(measured)}, dev.gold),
    )
    settings = config(tiny_encoder, max_steps=20, patience=2)
    run, method, sums = Run.open(settings, tmp_path), SimCSE(settings), {}

    def note(row: dict[str, Any]) -> None:
        sums[row["step"]] = weights_checksum(method.encoder)

    history = fit(method, sentences, dev, run=run, callbacks=[note])
    assert sums[4] != sums[6]
    assert weights_checksum(method.encoder) == sums[4], "of equal steps the first is kept"
    # 0.5 at step 4 is the best: neither step 6 nor step 8 is above it.
    assert history["step"].iloc[-1] == 8
    assert fit(SimCSE(settings), sentences, dev, run=run)["step"].iloc[-1] == 8, (
        "a stopped run took further steps"
    )
    assert run.facts()["stopped"] == "step 8 of 20: dev has not risen in 2 evaluations"
    worse = (
        "It is worse than its start: Spearman x 100 on tiny-dev is 50.00, before training 90.00."
    )
    assert worse in (run.path / "encoder" / "README.md").read_text()


def test_a_training_that_stays_far_below_its_start_stops_and_gives_the_start_back(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, *, tmp_path: Path, monkeypatch, capsys
):
    # One evaluation within 3 points of the start interrupts the row of those that are further
    # below.
    measured = iter([0.6, 0.5, 0.58, 0.5, 0.5, 0.569])
    monkeypatch.setattr(
        "workbench.training._record.dev_values",
        lambda method, dev: ({"dev_spearman": next(measured)}, dev.gold),
    )
    settings = config(tiny_encoder, max_steps=20, keep_start=True, stop_below_start=3)
    run, method = Run.open(settings, tmp_path), SimCSE(settings)
    history = fit(method, sentences, dev, run=run)
    assert history["step"].iloc[-1] == 10
    assert history["dev_spearman"].iloc[0] == 0.6
    end = "step 10 of 20: dev is 3.1 points below its start of 60.0"
    assert run.facts()["stopped"] == end
    assert f"stopped at {end}\n" in capsys.readouterr().out
    assert weights_checksum(method.encoder) == method.starting_weights
    saved, start = (
        load_file(folder / "model.safetensors") for folder in (run.path / "encoder", tiny_encoder)
    )
    assert all(torch.equal(saved[name], value) for name, value in start.items() if name in saved)
    for table in (history, run.history()):
        assert kept_checkpoint(table)["step"] == 0
    assert fit(SimCSE(settings), sentences, dev, run=run)["step"].iloc[-1] == 10, (
        "a stopped run took further steps"
    )


def test_a_training_that_may_keep_its_start_is_interrupted_anywhere_and_ends_the_same(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder, keep_start=True, learning_rate=3e-2)
    whole = fit(
        SimCSE(settings), sentences, dev, run=Run.open(settings, tmp_path / "whole"), quiet=True
    )
    run = Run.open(settings, tmp_path / "stopped")
    # Before the first state, when only the start was evaluated and saved; and after it.
    for last in (0, 3):

        def stop(row: dict[str, Any], last: int = last) -> None:
            if row["step"] == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit(SimCSE(settings), sentences, dev, run=run, callbacks=[stop], quiet=True)
        assert Encoder.from_pretrained(run.path / "encoder", device="cpu")
    again = fit(SimCSE(settings), sentences, dev, run=run, quiet=True)
    pd.testing.assert_frame_equal(
        again.drop(columns="seconds"), whole.drop(columns="seconds"), check_dtype=False
    )
    kept = [
        load_file(next((tmp_path / how).glob("*/*/encoder/model.safetensors")))
        for how in ("whole", "stopped")
    ]
    assert same(*kept)


def test_the_rankings_of_a_few_queries_of_dev_are_kept_at_each_measurement(
    small_files: dict[str, str], tmp_path: Path
):
    settings = SimCSEConfig.from_parameters(
        "demo",
        0,
        small_files
        | {"device": "cpu", "max_steps": 4, "eval_steps": 2, "train_limit": 64, "batch_size": 16},
    )
    method, run = SimCSE(settings), Run.open(settings, tmp_path)
    dev = load_dev(settings)
    start = method.score(dev.sentence1, dev.sentence2)
    history = fit(method, load_training(settings), dev, run=run, quiet=True)
    watched = run.watched()
    assert watched["step"].unique().tolist() == [0, 2, 4]
    first = list(dict.fromkeys(dev.sentence1))[:4]
    assert watched["query"].unique().tolist() == first
    place = {pair: row for row, pair in enumerate(zip(dev.sentence1, dev.sentence2, strict=True))}
    kept = int(history.loc[history["step"] > 0].nlargest(1, "dev_spearman")["step"].iloc[0])
    for step, scores in ((0, start), (kept, method.score(dev.sentence1, dev.sentence2))):
        rows = watched[watched["step"] == step]
        places = [place[pair] for pair in zip(rows["query"], rows["target"], strict=True)]
        np.testing.assert_allclose(rows["score"], scores[places], atol=1e-6)
        assert rows["gold"].tolist() == dev.gold[places].tolist()


def test_long_lists_and_lists_of_one_gold_are_not_watched(
    tiny_encoder: Path, sentences: Sentences, tmp_path: Path
):
    queries = ["the cat"] * 21 + ["a dog"] * 4 + ["the bird"] * 4
    gold = [row % 5 for row in range(21)] + [1] * 4 + [0, 1, 2, 3]
    dev = Pairs.from_lists(queries, sentences.sentences[:29], gold, name="lists", scale=(0, 5))
    settings = config(tiny_encoder, max_steps=2)
    run = Run.open(settings, tmp_path)
    fit(SimCSE(settings), sentences, dev, run=run, quiet=True)
    assert run.watched()["query"].unique().tolist() == ["the bird"]


def test_a_run_begun_without_watched_rankings_has_none_when_it_is_continued(
    small_files: dict[str, str], tmp_path: Path
):
    short = {"max_steps": 4, "eval_steps": 2, "save_steps": 2, "log_steps": 1, "train_limit": 64}
    settings = SimCSEConfig.from_parameters("demo", 0, small_files | {"device": "cpu"} | short)
    run = Run.open(settings, tmp_path)

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 3:
            raise KeyboardInterrupt

    options = {"dev": load_dev(settings), "run": run, "quiet": True}
    with pytest.raises(KeyboardInterrupt):
        fit(SimCSE(settings), load_training(settings), callbacks=[stop], **options)
    (run.path / "watched.csv").unlink()  # as a version without this file leaves the folder
    assert fit(SimCSE(settings), load_training(settings), **options)["step"].iloc[-1] == 4
    assert run.watched().empty


def test_order_rate_and_seed_are_functions_of_seed_and_step():
    settings = SimCSEConfig.from_parameters(
        "demo", 3, {"batch_size": 4, "max_steps": 10, "warmup": 0.3}
    )
    plan = Plan(settings, examples=10)
    epoch = [plan.rows(step) for step in (2, 0, 1)]  # in any order
    assert sorted(row for rows in epoch for row in rows) == list(range(10))
    assert plan.rows(3) != plan.rows(0)
    shares = [Plan(settings, examples=10, world=2, rank=rank) for rank in (0, 1)]
    assert shares[0].epoch_steps == 2
    assert shares[0].rows(0) + shares[1].rows(0) == plan.rows(0)
    assert len({other.seed(step) for other in shares for step in range(10)}) == 20
    another = Plan(settings.model_copy(update={"seed": 4}), examples=10)
    assert [another.rows(step) for step in range(3)] != [plan.rows(step) for step in range(3)]
    assert {another.seed(step) for step in range(10)}.isdisjoint(plan.seed(s) for s in range(10))
    half = SimCSEConfig.from_parameters("demo", 0, {"batch_size": 4, "epochs": 0.5})
    assert Plan(half, examples=10).steps == 2, "half of three steps, rounded up"
    peak = settings.learning_rate
    expected = [0, peak / 3, 2 * peak / 3, *(peak * left / 7 for left in range(7, -1, -1))]
    np.testing.assert_allclose([plan.rate(step) for step in range(11)], expected)


def test_a_row_has_the_mean_loss_of_its_steps_the_share_of_the_epoch_and_the_rate(
    tiny_encoder: Path, sentences: Sentences
):
    def rows(every: int) -> pd.DataFrame:
        seldom = {"eval_steps": 6, "save_steps": 6, "log_steps": every}
        return fit(SimCSE(config(tiny_encoder, **seldom)), sentences, quiet=True)

    each, some = rows(1), rows(3)
    assert some["step"].tolist() == [3, 6]
    means = each["loss"].to_numpy().reshape(2, 3).mean(axis=1)
    np.testing.assert_allclose(some["loss"], means, rtol=1e-5)
    assert np.ptp(each["loss"]) > 1e-3
    assert each["epoch"].tolist() == [step / 8 for step in range(1, 7)], "60 sentences, 8 a step"
    peak = config(tiny_encoder).learning_rate
    np.testing.assert_allclose(each["learning_rate"], [peak * (6 - s) / 6 for s in range(1, 7)])


def test_a_single_step_in_the_warm_up_evaluates_the_encoder_as_it_is(
    tiny_encoder: Path, sentences, dev: Pairs
):
    method = SimCSE(config(tiny_encoder, max_steps=1, warmup=0.5))
    start = Encoder.from_pretrained(tiny_encoder, "cls").backbone.state_dict()
    first, last = fit(method, sentences, dev, quiet=True).filter(like="dev_").to_numpy()
    np.testing.assert_array_equal(first, last)
    assert same(method.encoder.backbone.state_dict(), start)


def test_weight_decay_is_where_transformers_puts_it(tiny_encoder: Path):
    from transformers import Trainer

    method = SimCSE(config(tiny_encoder, weight_decay=0.1))
    names = {id(parameter): name for name, parameter in method.named_parameters()}
    groups = State(Path("unused"), method).optimizer.param_groups
    decayed = {names[id(p)] for group in groups for p in group["params"] if group["weight_decay"]}
    assert decayed == set(Trainer.get_decay_parameter_names(None, method))


TRACKER = """
rows, settings, finished = [], {}, []
class Run:
    def log(self, values, step): rows.append((step, values))
    def finish(self): finished.append(True)
def init(project, config):
    settings.update(config)
    return Run()
"""


def test_rows_go_to_the_tracker(
    tiny_encoder: Path,
    sentences: Sentences,
    dev: Pairs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    (tmp_path / "trackio.py").write_text(TRACKER)
    monkeypatch.syspath_prepend(tmp_path)
    settings = config(tiny_encoder, track="trackio")
    assert settings.digest() == config(tiny_encoder).digest()
    history = fit(SimCSE(settings), sentences, dev, run=Run.open(settings, tmp_path))
    tracker: Any = sys.modules.pop("trackio")
    assert [step for step, _ in tracker.rows] == history["step"].tolist()
    assert tracker.rows[-1][1]["loss"] == history["loss"].iloc[-1]
    assert (tracker.settings["batch_size"], tracker.finished) == (8, [True])


def test_a_tracker_that_does_not_answer_ends_no_training(  # noqa: PLR0917
    tiny_encoder: Path,
    sentences: Sentences,
    dev: Pairs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    broken = TRACKER.replace("rows.append((step, values))", "1 / 0")
    broken = broken.replace("finished.append(True)", "[][0]")
    (tmp_path / "trackio.py").write_text(broken)
    monkeypatch.syspath_prepend(tmp_path)
    settings = config(tiny_encoder, track="trackio")
    history = fit(SimCSE(settings), sentences, dev, run=Run.open(settings, tmp_path))
    del sys.modules["trackio"]
    assert len(history) > 2
    assert "trackio did not take step 0: division by zero" in caplog.text
    assert "trackio did not end: list index out of range" in caplog.text


def test_what_is_no_training_set_or_other_settings_are_refused(tiny_encoder: Path):
    settings = config(tiny_encoder)
    with pytest.raises(DataError, match=r"simcse trains on sentences .* not on list"):
        fit(SimCSE(settings), ["A dog.", "A cat."])
    mixed = MixedConfig(encoder=str(tiny_encoder), pooling="cls")
    with pytest.raises(SettingError, match="SimCSE needs SimCSEConfig, not MixedConfig"):
        SimCSE(mixed)


def test_a_method_that_is_built_anew_is_evaluated_as_it_was_trained(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder, learning_rate=1e-2)
    run = Run.open(settings, tmp_path)
    trained = SimCSE(settings)
    fit(trained, sentences, dev, run=run)
    expected = evaluate(trained, {"dev": dev}).metrics
    anew = SimCSE(settings)
    assert evaluate(anew, {"dev": dev}).metrics != expected
    assert evaluate(anew, {"dev": dev}, run=run).metrics == expected


def test_what_a_training_ran_on_before_stays_on_record(
    tiny_encoder: Path,
    sentences: Sentences,
    dev: Pairs,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    settings = config(tiny_encoder, save_steps=2)
    run = Run.open(settings, tmp_path)

    def interrupt(row: dict[str, Any]) -> None:
        if row["step"] == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(SimCSE(settings), sentences, dev, run=run, callbacks=[interrupt])
    assert "earlier_hardware" not in run.facts()
    run.record(threads=999)  # as on another machine
    fit(SimCSE(settings), sentences, dev, run=run)
    (before,) = run.facts()["earlier_hardware"]
    assert (before["threads"], before["device"]) == (999, "cpu")
    assert before["last_step"] in (2, 4)
    assert "not bit for bit the same training" in caplog.text
    assert run.facts()["threads"] == torch.get_num_threads()


def test_a_training_that_could_only_fail_is_refused_and_a_short_one_is_warned_of(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, capsys: pytest.CaptureFixture, caplog
):
    method = SimCSE(config(tiny_encoder))
    flat = Pairs("flat", ["a"], ["b"], np.ones(1), None, ["0"], (0.0, 5.0), "", "")
    with pytest.raises(DataError, match=r"flat: 1 pair\(s\) with one and the same gold.*dev=None"):
        fit(method, sentences, flat)
    with pytest.raises(DataError, match="at least 2"):
        fit(method, Sentences("one", ["the cat"], "made here", "0"))
    fit(method, sentences, dev)
    assert (
        "6 steps with 3 evaluation(s) on dev are too few to learn from; raise epochs" in caplog.text
    )
    assert capsys.readouterr().out.startswith("learning_rate is 3e-05: for an enc")
    caplog.clear()
    fit(SimCSE(config(tiny_encoder, max_steps=30, eval_steps=30)), sentences, None)
    assert "on dev" not in caplog.text, "there is no dev"
    caplog.clear()
    # Empty, endless, repeated.
    texts = ["", "the cat " * 5000, "a dog", "the bird"] * 4 + ["the cat"] * 16
    long = SimCSE(config(tiny_encoder, max_steps=30, eval_steps=15))
    assert np.isfinite(fit(long, Sentences("odd", texts, "made here", "0"))["loss"]).all()
    assert "too few" not in caplog.text


def test_of_scores_that_are_all_equal_is_warned_once_and_the_last_step_is_kept(  # noqa: PLR0917
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path, monkeypatch, caplog
):
    monkeypatch.setattr(
        SimCSE, "encode_plain", lambda self, texts, batch_size=64: torch.ones(len(texts), 1)
    )
    settings = config(tiny_encoder)
    method, run = SimCSE(settings), Run.open(settings, tmp_path)
    history = fit(method, sentences, dev, run=run)
    assert history["dev_spearman"].isna().all()
    assert len([record for record in caplog.records if "dev cannot choose" in record.message]) == 1
    last = load_file(state_of(run.path))
    kept = method.encoder.backbone.state_dict()
    assert all(
        torch.equal(last[f"weights.encoder.backbone.{name}"], value) for name, value in kept.items()
    )


def test_a_loss_that_is_not_finite_stops_training(
    tiny_encoder: Path, sentences: Sentences, monkeypatch
):
    lost = {"info_nce": torch.tensor(torch.nan, requires_grad=True)}
    monkeypatch.setattr(SimCSE, "forward", lambda self, batch: lost)
    with pytest.raises(RunError, match=r"not finite at step 1 .*lower learning_rate"):
        fit(SimCSE(config(tiny_encoder)), sentences)


def test_a_diverged_training_is_named_and_not_the_encoder_that_it_began_with(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs
):
    settings = config(tiny_encoder, learning_rate=1e30, eval_steps=1)
    with pytest.raises(
        RunError, match=r"diverged: .* at step 1, .*lower learning_rate=1e\+30"
    ) as end:
        fit(SimCSE(settings), sentences, dev)
    assert "weights are broken" not in str(end.value)


@pytest.fixture
def in_two(tmp_path: Path, small_files: dict[str, str]) -> tuple[SimCSE, Sentences, Pairs, Run]:
    """Return a method with data that each process loads, and its run, for two processes."""
    small = {
        "dev": small_files["dev"],
        "keep_start": False,  # which is the default of bundled data only
        "processes": 2,
        "max_steps": 6,
        "eval_steps": 2,
        "device": "cpu",
        "train_limit": 64,
        "batch_size": 8,
    }
    # Moves nothing: dev does not rise.
    small |= {"patience": 1, "learning_rate": 1e-30, "log_steps": 1}
    settings = SimCSEConfig.from_parameters("demo", 0, small)
    return (
        SimCSE(settings),
        load_training(settings),
        load_dev(settings),
        Run.open(settings, tmp_path),
    )


@pytest.mark.slow
def test_a_run_in_two_processes_trains_passes_its_rows_on_and_can_be_loaded(
    in_two, capfd, monkeypatch
):
    monkeypatch.setattr(sys, "executable", python())
    method, data, dev, run = in_two
    rows: list[dict] = []
    history = fit(method, data, dev, run=run, callbacks=[rows.append], quiet=True)
    assert history["step"].tolist() == [0, 1, 2, 3, 4], (
        "both stop when the first has waited long enough"
    )
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[-1]["dev_spearman"] == history["dev_spearman"].iloc[-1]
    assert capfd.readouterr().out == ""
    kept = load_file(run.path / "encoder" / "model.safetensors")
    assert all(
        torch.equal(kept[name], value)
        for name, value in method.encoder.backbone.state_dict().items()
    )


@pytest.mark.slow
def test_two_processes_stop_and_give_the_start_back(in_two, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sys, "executable", python())
    first, data, dev, _ = in_two
    # Dev does not rise: the start is the best.
    settings = first.config.model_copy(update={"keep_start": True})
    method, run = SimCSE(settings), Run.open(settings, tmp_path / "kept")
    history = fit(method, data, dev, run=run, quiet=True)
    assert history["step"].tolist() == [0, 1, 2]
    assert run.facts()["stopped"] == "step 2 of 6: dev has not risen in 1 evaluations"
    assert weights_checksum(method.encoder) == method.starting_weights


def test_rows_are_read_after_output_of_other_processes_and_a_failure_has_its_last_lines(
    in_two, monkeypatch, capfd
):
    start, text = subprocess.Popen, '\r 50% of a bar\x1e{"step": 1}\n\x1e{"step": 2}\nfailed\n'
    for fails in (0, 1):
        command = [sys.executable, "-c", f"print({text!r}, end=''); raise SystemExit({fails})"]
        monkeypatch.setattr(subprocess, "Popen", lambda _, c=command, **how: start(c, **how))
        rows: list[dict] = []
        with (
            pytest.raises(RunError, match="50% of a bar\nfailed")
            if fails
            else contextlib.nullcontext()
        ):
            fit_in_processes(in_two[0].config, *in_two[2:], callbacks=[rows.append], quiet=False)
        assert rows == [{"step": 1}, {"step": 2}]
        assert capfd.readouterr().out.split("\n")[-3:] == [" 50% of a bar", "failed", ""]


def test_a_file_that_was_changed_since_the_run_was_opened_is_not_trained_on(tmp_path: Path):
    file = tmp_path / "mine.txt"
    file.write_text("".join(f"sentence {number}\n" for number in range(20)))
    config = SimCSEConfig.from_parameters(
        "demo", 0, {"train": str(file), "max_steps": 2, "device": "cpu", "suites": ["world-dev"]}
    )
    run = Run.open(config, tmp_path / "runs")
    file.write_text("".join(f"another {number}\n" for number in range(20)))
    with pytest.raises(RunError, match="was changed since the run was opened"):
        fit(SimCSE(config), load_training(config), load_dev(config), run=run, quiet=True)
    run.release()


def test_processes_that_cannot_share_a_training_are_refused(
    in_two, sentences: Sentences, dev: Pairs
):
    with pytest.raises(RunError, match="load their data themselves"):
        fit(in_two[0], sentences, dev)
    with pytest.raises(RunError, match=r"7 examples do not fill one batch of 8"):
        Plan(in_two[0].config, examples=7, world=2)
    with pytest.raises(RunError, match="not a multiple of the 3 processes"):
        Plan(in_two[0].config, examples=12, world=3)


class Queued(SimCSE):
    """A method whose loss reads a buffer that every step assigns anew, as MoCo's queue."""

    def prepare(self, data: Any) -> None:
        super().prepare(data)
        self.register_buffer("queue", torch.zeros(()))

    def loss_terms(self, vectors: torch.Tensor, batch: Any) -> dict[str, torch.Tensor]:
        terms = super().loss_terms(vectors, batch)
        self.queue = self.queue + terms["info_nce"].detach()
        return terms | {"queued": self.queue * vectors.mean()}


def test_a_buffer_that_a_method_assigns_is_resumed(
    tiny_encoder: Path, sentences: Sentences, tmp_path: Path
):
    settings = config(tiny_encoder)
    whole = fit(Queued(settings), sentences, run=Run.open(settings, tmp_path / "whole"))
    run = Run.open(settings, tmp_path / "stopped")

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(Queued(settings), sentences, run=run, callbacks=[stop])
    again = fit(Queued(settings), sentences, run=run)
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), whole.drop(columns="seconds"))


def test_a_run_belongs_to_the_class_that_began_it(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder)
    own = Run.open(settings, tmp_path / "own")
    evaluate(SimCSE(settings).encoder, {"tiny": dev}, run=own, stage="before")
    fit(Queued(settings), sentences, run=own)
    fit(Queued(settings), sentences, run=own)
    usual = Run.open(settings, tmp_path / "usual")
    fit(SimCSE(settings), sentences, run=usual)
    for run, other in ((own, SimCSE), (usual, Queued)):
        with pytest.raises(RunError, match=r"is of <class .*, not of <class .*; give another runs"):
            fit(other(settings), sentences, run=run)
    several = config(tiny_encoder, num_processes=2)
    with pytest.raises(RunError, match=r"would build <class .*SimCSE.*num_processes=1"):
        fit(Queued(several), sentences, dev, run=Run.open(several, tmp_path / "several"))


def test_more_processes_than_gpus_are_refused(
    tiny_encoder: Path,
    sentences: Sentences,
    dev: Pairs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    settings = config(tiny_encoder, num_processes=2, device="auto")
    method = SimCSE(settings)
    with pytest.raises(RunError, match=r"num_processes=2, but this machine has 1 GPU\(s\); set "):
        fit(method, sentences, dev, run=Run.open(settings, tmp_path))


def test_a_process_that_torchrun_started_starts_no_others(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder, num_processes=2)
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, world_size=1, rank=0)
    try:
        run = Run.open(settings, tmp_path / "runs")
        assert fit(SimCSE(settings), sentences, dev, run=run)["step"].iloc[-1] == 6
        assert run.facts()["processes"] == 1
    finally:
        torch.distributed.destroy_process_group()


def test_a_row_is_sent_in_one_write(monkeypatch: pytest.MonkeyPatch):
    written = []
    stream = SimpleNamespace(write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stdout", stream)
    _launch.send_row({"step": 1})
    monkeypatch.undo()
    [line] = filter(None, written)
    assert line.endswith('{"step": 1}\n')


def test_too_little_memory_of_the_device_names_the_setting_that_needs_less(
    tiny_encoder: Path, sentences: Sentences, monkeypatch: pytest.MonkeyPatch
):
    def fill(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(_loop, "TrainingStep", lambda *_: fill)
    settings = config(tiny_encoder)
    with pytest.raises(RunError, match=r"step 1 needs more .* mini_batch_size, or a smaller one"):
        fit(SimCSE(settings), sentences)


class OwnSettings(SimCSEConfig):
    method = "own"


def test_settings_of_a_class_of_ones_own_train_in_a_run(
    tiny_encoder: Path, sentences: Sentences, tmp_path: Path
):
    class Own(SimCSE):
        config_class = OwnSettings

    settings = OwnSettings(**config(tiny_encoder).model_dump())
    run = Run.open(settings, tmp_path)
    assert fit(Own(settings), sentences, run=run)["step"].iloc[-1] == 6


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (lambda loss: loss, "forward returns the weighted loss terms of a batch"),
        (lambda loss: {"mine": loss.repeat(3)}, "forward returns the weighted loss terms"),
        (lambda loss: {"loss": loss}, "rename the loss term 'loss': a history has such a column"),
    ],
)
def test_loss_terms_that_no_history_can_have_are_refused(
    tiny_encoder: Path, sentences: Sentences, terms: Callable[[Any], Any], reason: str
):
    class Own(SimCSE):
        def forward(self, batch: Any) -> Any:
            return terms(super().forward(batch)["info_nce"])

    with pytest.raises(RunError, match=reason):
        fit(Own(config(tiny_encoder)), sentences)
