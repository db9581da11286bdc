"""Training: reproducible, resumable after a kill, the same in several processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from workbench.config import SimCSEConfig
from workbench.data import Pairs, Sentences
from workbench.errors import DataError, RunError
from workbench.evaluation import evaluate
from workbench.methods.simcse import SimCSE
from workbench.runs import Run
from workbench.train import fit, newest_checkpoint


@pytest.fixture
def sentences(tiny_sentences: list[str]) -> Sentences:
    return Sentences("tiny", tiny_sentences, "made here", "0")


@pytest.fixture
def dev(tiny_sentences: list[str]) -> Pairs:
    first, second = tiny_sentences[:20], tiny_sentences[20:40]
    shared = [len(set(a.split()) & set(b.split())) for a, b in zip(first, second, strict=True)]
    ids = [str(number) for number in range(20)]
    return Pairs("tiny-dev", first, second, np.asarray(shared, float), None, ids, (0.0, 7.0), "made here", "1")


def config(encoder: Path, seed: int = 0, **overrides: object) -> SimCSEConfig:
    small = {"encoder": str(encoder), "batch_size": 8, "max_steps": 6, "eval_steps": 2, "save_steps": 2, "log_steps": 1}
    return SimCSEConfig.from_parameters("demo", seed, small | {"device": "cpu"} | overrides)


def weights(method: SimCSE) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in method.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_training_changes_every_trained_weight(tiny_encoder: Path, sentences: Sentences):
    method = SimCSE(config(tiny_encoder))
    before = weights(method)
    fit(method, sentences)
    after = weights(method)
    still = [name for name, value in after.items() if torch.equal(before[name], value)]
    # A bias of keys has no gradient: softmax does not see it. Nothing else may stay.
    assert all("key.bias" in name for name in still), still


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs
):
    def train(seed: int) -> tuple[dict[str, torch.Tensor], pd.DataFrame]:
        method = SimCSE(config(tiny_encoder, seed))
        return weights(method), fit(method, sentences, dev).drop(columns="seconds")

    first, again, other = train(0), train(0), train(1)
    assert same(first[0], again[0])
    pd.testing.assert_frame_equal(first[1], again[1])
    assert not first[1]["loss"].equals(other[1]["loss"])


def test_the_history_has_a_row_a_logged_step_with_every_term(tiny_encoder: Path, sentences: Sentences, dev: Pairs):
    history = fit(SimCSE(config(tiny_encoder)), sentences, dev)
    assert history["step"].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert history["dev_spearman"].notna().tolist() == [True, False, True, False, True, False, True]
    trained = history[history["step"] > 0]
    np.testing.assert_allclose(trained["loss"], trained["info_nce"], rtol=1e-6)
    assert trained["learning_rate"].is_monotonic_decreasing


def test_quiet_training_prints_nothing_and_gives_the_same_numbers(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, capfd: pytest.CaptureFixture[str]
):
    said = fit(SimCSE(config(tiny_encoder)), sentences, dev).drop(columns="seconds")
    assert "step" in capfd.readouterr().out
    quiet = fit(SimCSE(config(tiny_encoder)), sentences, dev, quiet=True).drop(columns="seconds")
    assert capfd.readouterr() == ("", "")
    pd.testing.assert_frame_equal(said, quiet)


def test_the_checkpoint_kept_is_the_best_on_dev(tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path):
    settings = config(tiny_encoder, learning_rate=0.01)
    run = Run.create(settings, tmp_path)
    method = SimCSE(settings)
    history = fit(method, sentences, dev, run=run)
    from workbench.evaluation import dev_values

    best = history.loc[history["step"] > 0, "dev_spearman"].max()
    assert dev_values(method, dev)["dev_spearman"] == pytest.approx(best, abs=1e-6)


def train_and_finish(settings: SimCSEConfig, sentences: Sentences, dev: Pairs, root: Path) -> Run:
    run = Run.create(settings, root)
    method = SimCSE(settings)
    fit(method, sentences, dev, run=run)
    evaluate(method.encode, {"tiny-dev": dev}, run=run)
    return run


def test_a_finished_run_is_not_trained_again(tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path):
    settings = config(tiny_encoder)
    run = train_and_finish(settings, sentences, dev, tmp_path)
    stamp = (run.path / "history.csv").stat().st_mtime_ns
    method = SimCSE(settings)
    fit(method, sentences, dev, run=run)
    assert (run.path / "history.csv").stat().st_mtime_ns == stamp
    kept = load_file(run.path / "encoder" / "model.safetensors")
    assert all(torch.equal(kept[name], value) for name, value in method.encoder.backbone.state_dict().items())


def test_a_run_killed_after_its_last_step_takes_no_further_step(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder, max_steps=6, train_limit=None)
    first = SimCSE(settings)
    run = Run.create(settings, tmp_path)
    history = fit(first, sentences, dev, run=run)  # 60 sentences make 8 steps: the end lies within an epoch
    assert newest_checkpoint(run.path) is not None
    second = SimCSE(settings)
    again = fit(second, sentences, dev, run=run)
    tables = [table.drop(columns="seconds").dropna(axis=1, how="all") for table in (again, history)]
    pd.testing.assert_frame_equal(*tables, check_dtype=False)
    assert same(weights(first), weights(second) | {n: v for n, v in weights(first).items() if n.startswith("head")})


def test_a_run_does_not_begin_with_a_trained_method(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    method = SimCSE(config(tiny_encoder))
    fit(method, sentences, dev)
    with pytest.raises(RunError, match="trained already"):
        fit(method, sentences, dev, run=Run.create(config(tiny_encoder), tmp_path))


def test_changed_data_and_another_encoder_are_refused_by_a_run(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder)
    run = train_and_finish(settings, sentences, dev, tmp_path)
    changed = Sentences("tiny", sentences.sentences[1:], "made here", "2")
    with pytest.raises(RunError, match="train: made here is not what"):
        fit(SimCSE(settings), changed, dev, run=run)
    other = SimCSE(settings)
    other.starting_weights = "another"
    with pytest.raises(RunError, match=r"encoder: .* is not what"):
        fit(other, sentences, dev, run=run)


def test_pairs_are_refused_by_a_method_of_plain_sentences(tiny_encoder: Path, dev: Pairs):
    with pytest.raises(DataError, match="plain sentences, not on pairs"):
        fit(SimCSE(config(tiny_encoder)), dev)


def test_a_half_written_checkpoint_is_not_resumed_from(tmp_path: Path):
    for step, whole in ((2, True), (4, True), (10, False)):
        folder = tmp_path / "checkpoint" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        if whole:
            (folder / "complete").touch()
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.name == "checkpoint-4"


KILLED = """
import sys, numpy as np
from workbench.config import SimCSEConfig
from workbench.data import Pairs, Sentences
from workbench.methods.simcse import SimCSE
from workbench.runs import Run
from workbench.train import fit
import json
job = json.loads(open(sys.argv[1]).read())
settings = SimCSEConfig.from_parameters("demo", 0, job["settings"])
data = Sentences("tiny", job["sentences"], "made here", "0")
dev = Pairs("tiny-dev", *job["pairs"], np.asarray(job["gold"]), None, [str(i) for i in range(20)], (0.0, 7.0), "", "")
method = SimCSE(settings)
fit(method, data, dev, run=Run.create(settings, job["root"]))
"""


def launch(job: dict, folder: Path) -> "subprocess.Popen[bytes]":
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", KILLED, str(file)], env=environment, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_weights(tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path):
    settings = {"encoder": str(tiny_encoder), "batch_size": 8, "max_steps": 60, "eval_steps": 5, "save_steps": 5}
    settings |= {"log_steps": 5, "device": "cpu"}
    job = {"settings": settings, "sentences": sentences.sentences, "pairs": [dev.sentence1, dev.sentence2]}
    job |= {"gold": dev.gold.tolist()}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert launch(job | {"root": str(whole)}, whole).wait(300) == 0
    path = Run.create(SimCSEConfig.from_parameters("demo", 0, settings), whole).path.relative_to(whole)
    process = launch(job | {"root": str(killed)}, killed)
    deadline = time.monotonic() + 120
    while newest_checkpoint(killed / path) is None:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    at_kill = newest_checkpoint(killed / path)
    assert at_kill is not None
    assert int(at_kill.name.split("-")[1]) < 60
    assert launch(job | {"root": str(killed)}, killed).wait(300) == 0
    for name in ("encoder/model.safetensors", "checkpoint/checkpoint-60/model.safetensors"):
        assert same(load_file(whole / path / name), load_file(killed / path / name)), name
    columns = ["step", "loss", "info_nce", "dev_spearman"]
    one, two = (pd.read_csv(folder / path / "history.csv")[columns] for folder in (whole, killed))
    pd.testing.assert_frame_equal(one, two)


GRADIENT = """
import json, sys, torch, torch.distributed as dist
from workbench.distributed import end_process
from workbench.config import SimCSEConfig
from workbench.data import Sentences
from workbench.methods.simcse import SimCSE
job = json.loads(open(sys.argv[1]).read())
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
method = SimCSE(SimCSEConfig.from_parameters("demo", 0, job["settings"])).double().train()
method.prepare(Sentences("tiny", job["sentences"], "", ""))
model = torch.nn.parallel.DistributedDataParallel(method)
rows = list(range(8))[rank * 8 // world : (rank + 1) * 8 // world]
sum(model(method.collate(rows)).values()).backward()
if rank == 0:
    torch.save({n: p.grad for n, p in method.named_parameters()}, job["out"])
dist.destroy_process_group()
end_process()
"""


def in_two_processes(script: str, job: dict, folder: Path) -> dict[str, torch.Tensor]:
    """What `script`, started by torchrun with `job`, saved."""
    (folder / "job.json").write_text(json.dumps(job | {"out": str(folder / "out.pt")}))
    (folder / "script.py").write_text(script)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launcher, str(folder / "script.py"), str(folder / "job.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return torch.load(folder / "out.pt", weights_only=True)


@pytest.mark.slow
def test_two_processes_give_the_gradient_of_one(tiny_encoder: Path, sentences: Sentences, tmp_path: Path):
    settings = {"encoder": str(tiny_encoder), "device": "cpu", "dropout": 0.0, "batch_size": 8, "temperature": 0.5}
    method = SimCSE(SimCSEConfig.from_parameters("demo", 0, settings)).double().train()
    method.prepare(sentences)
    sum(method(method.collate(list(range(8)))).values()).backward()
    alone = {name: parameter.grad for name, parameter in method.named_parameters()}
    together = in_two_processes(GRADIENT, {"settings": settings, "sentences": sentences.sentences}, tmp_path)
    largest = max(float(value.abs().max()) for value in alone.values() if value is not None)
    assert largest > 0
    for name, value in alone.items():
        # float64: only the order of sums differs.
        torch.testing.assert_close(together[name], value, rtol=1e-9, atol=1e-12 * largest, msg=name)


TRAINED = """
import json, sys, torch, torch.distributed as dist
from workbench.distributed import end_process
from workbench.config import SimCSEConfig
from workbench.data import Sentences
from workbench.methods.simcse import SimCSE
from workbench.train import fit
job = json.loads(open(sys.argv[1]).read())
dist.init_process_group("gloo")
data = Sentences("tiny", job["sentences"], "", "")
few = SimCSE(SimCSEConfig.from_parameters("demo", 0, job["settings"])).double()
fit(few, data)
epoch = SimCSE(SimCSEConfig.from_parameters("demo", 0, job["settings"] | {"max_steps": None}))
history = fit(epoch, data)
if dist.get_rank() == 0:
    torch.save(few.state_dict() | {"steps": torch.tensor(history["step"].iloc[-1])}, job["out"])
dist.destroy_process_group()
end_process()
"""


@pytest.mark.slow
def test_two_processes_train_to_the_weights_of_one(tiny_encoder: Path, sentences: Sentences, tmp_path: Path):
    settings = {"encoder": str(tiny_encoder), "device": "cpu", "dropout": 0.0, "batch_size": 8, "max_steps": 5}
    settings |= {"log_steps": 1, "precision": "fp32"}  # the other processes would choose their own
    alone = SimCSE(SimCSEConfig.from_parameters("demo", 0, settings)).double()
    before = weights(alone)
    fit(alone, sentences)
    together = in_two_processes(TRAINED, {"settings": settings, "sentences": sentences.sentences}, tmp_path)
    # 60 sentences in batches of 8: several processes leave out the last 4 of an epoch, one process takes them.
    assert int(together.pop("steps")) == 7
    assert fit(SimCSE(config(tiny_encoder, max_steps=None)), sentences)["step"].iloc[-1] == 8
    # Only the order of sums differs: of at most 10^4 terms in float64, clipped to norm 1, so gradients differ by less
    # than 10^4 x 2^-53 = 1.2e-12. AdamW moves a weight by lr m / (sqrt(v) + 1e-8): by lr x 1.2e-4 more at most, a step.
    rates = sum(1e-3 * (1 - step / 5) for step in range(5))
    for name, value in weights(alone).items():
        torch.testing.assert_close(together[name], value, rtol=0, atol=1.2e-4 * rates, msg=name)
    assert max(float((value - before[name]).abs().max()) for name, value in weights(alone).items()) > 0.5 * rates


def test_one_sentence_cannot_be_trained_on(tiny_encoder: Path):
    with pytest.raises(ValueError, match="at least 2"):
        fit(SimCSE(config(tiny_encoder)), Sentences("one", ["the cat"], "made here", "0"))


def test_a_batch_of_identical_sentences_is_harmless(tiny_encoder: Path, dev: Pairs):
    history = fit(SimCSE(config(tiny_encoder)), Sentences("same", ["the cat"] * 32, "made here", "0"), dev)
    assert np.isfinite(history["loss"].dropna()).all()


def test_empty_and_endless_sentences_are_trained_on(tiny_encoder: Path):
    texts = ["", "the cat " * 5000, "a dog", "the bird"] * 4
    history = fit(SimCSE(config(tiny_encoder)), Sentences("odd", texts, "made here", "0"))
    assert np.isfinite(history["loss"]).all()


def test_dev_gold_that_is_all_equal_is_nan_and_training_ends(tiny_encoder: Path, sentences: Sentences, dev: Pairs):
    flat = Pairs("flat", dev.sentence1, dev.sentence2, np.full(20, 3.0), None, dev.pair_id, (0.0, 5.0), "", "")
    history = fit(SimCSE(config(tiny_encoder)), sentences, flat)
    assert history["dev_spearman"].isna().all()


def test_a_loss_that_is_not_finite_stops_training(tiny_encoder: Path, sentences: Sentences, monkeypatch):
    method = SimCSE(config(tiny_encoder))
    monkeypatch.setattr(
        SimCSE, "forward", lambda self, batch: {"info_nce": self.head.linear.weight.sum() * float("nan")}
    )
    with pytest.raises(RunError, match=r"not finite at step 1 .*lower the learning rate"):
        fit(method, sentences)


def test_several_processes_need_data_by_name(tiny_encoder: Path, sentences: Sentences, dev: Pairs):
    with pytest.raises(RunError, match="themselves"):
        fit(SimCSE(config(tiny_encoder, processes=2)), sentences, dev)


@pytest.mark.slow
def test_a_run_in_two_processes_trains_and_can_be_loaded(tmp_path: Path):
    small = {"processes": 2, "max_steps": 3, "eval_steps": 3, "device": "cpu", "train_limit": 64, "batch_size": 8}
    settings = SimCSEConfig.from_parameters("demo", 0, small)
    from workbench.data import load_dev, load_training

    run = Run.create(settings, tmp_path)
    method = SimCSE(settings)
    history = fit(method, load_training(settings), load_dev(settings), run=run)
    assert history["step"].iloc[-1] == 3
    kept = load_file(run.path / "encoder" / "model.safetensors")
    assert all(torch.equal(kept[name], value) for name, value in method.encoder.backbone.state_dict().items())


def test_training_where_nothing_can_be_written_says_so(tiny_encoder: Path, sentences: Sentences, tmp_path: Path):
    (tmp_path / "runs").write_text("a file, not a folder")
    with pytest.raises(RunError, match="cannot write"):
        Run.create(config(tiny_encoder), tmp_path / "runs")
