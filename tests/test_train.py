"""Training: reproducible, resumable after a kill, the same in several processes."""

import contextlib
import functools
import json
import os
import platform
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

import accelerate.tracking
import numpy as np
import pandas as pd
import pytest
import torch
from accelerate.tracking import GeneralTracker
from accelerate.utils import LoggerType
from forking import python
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from workbench.baselines import load_base
from workbench.config import BaseConfig, CoSENTConfig, SimCSEConfig
from workbench.data import Pairs, Sentences
from workbench.encoder import Encoder
from workbench.errors import DataError, EncoderError, RunError, SettingError
from workbench.evaluation import evaluate
from workbench.methods.cosent import CoSENT
from workbench.methods.simcse import SimCSE
from workbench.processes import run_processes
from workbench.runs import Run
from workbench.teachers import load_teacher
from workbench.train import Plan, State, fit
from workbench.train.__main__ import main
from workbench.train._listeners import Progress
from workbench.train._loop import deterministic


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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps freed memory otherwise")
def test_after_training_what_was_freed_is_the_system_s_again(tiny_encoder: Path, sentences: Sentences):
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    small = [torch.ones(16_000) for _ in range(2000)]  # below the size for which glibc asks the system each time
    last, freed = torch.ones(16_000), 2000 * 64_000
    del small
    before = resident()
    fit(SimCSE(config(tiny_encoder)), sentences)
    assert before - resident() > freed / 2
    assert last.all()


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


def test_weights_changed_since_training_are_refused_wherever_the_run_is_used(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = config(tiny_encoder)
    run = train_and_finish(settings, sentences, dev, tmp_path)
    own = run.path / "encoder"
    own.joinpath("README.md").write_text("a card of my own")  # no part of the encoder
    saved = (own / "model.safetensors").read_bytes()
    uses: list[Callable[[], object]] = [
        lambda: Encoder.from_pretrained(run.path),
        lambda: Encoder.from_pretrained(own),
        lambda: SimCSE(config(run.path)),
        lambda: load_teacher(str(run.path)),
        lambda: load_base(BaseConfig(encoder=str(run.path))),
        lambda: fit(SimCSE(settings), sentences, dev, run=run),
    ]
    for use in uses:
        use()
    (own / "model.safetensors").write_bytes(saved[:-4] + bytes([saved[-4] ^ 1]) + saved[-3:])  # one bit of a weight
    for use in uses:
        with pytest.raises(EncoderError, match=re.escape(f"{own} was changed after the run saved it")):
            use()
    facts = run.facts()
    del facts["files"]["encoder"]
    (run.path / "config.json").write_text(json.dumps(facts))
    for use in uses:  # a run without the checksum
        use()


def test_a_run_killed_after_its_last_step_takes_no_further_step(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path, capsys: pytest.CaptureFixture
):
    settings = config(tiny_encoder, max_steps=6, train_limit=None)
    first = SimCSE(settings)
    run = Run.create(settings, tmp_path)
    history = fit(first, sentences, dev, run=run)  # 60 sentences make 8 steps: the end lies within an epoch
    assert (run.path / "checkpoint" / "state.safetensors").is_file()
    second = SimCSE(settings)
    assert "going on" not in capsys.readouterr().out
    again = fit(second, sentences, dev, run=run)
    assert "going on from step 6 of 6\n" in capsys.readouterr().out
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


JOB = """
import json, os, random, signal, sys
import numpy as np
from workbench.config import CONFIGS
from workbench.data import Pairs, Sentences
from workbench.methods import METHODS
from workbench.runs import Run
from workbench.teachers import load_teacher
from workbench.train import fit

calls = 0


def train(job, die_at):
    # Ends this process as a kill would at the so manieth call of whatever changes the disk.
    def count(event, arguments):
        global calls
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"):
            if event == "open" and not (arguments[2] & (os.O_WRONLY | os.O_RDWR)):
                return
            if job["root"] in str(arguments[0]):
                calls += 1
                if calls == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)

    settings = CONFIGS[job["method"]].from_parameters("demo", 0, job["settings"])
    gold, numbers = np.asarray(job["gold"]), [str(i) for i in range(20)]
    dev = Pairs("tiny-dev", *job["pairs"], gold, None, numbers, (0.0, 7.0), "", "")
    data = dev if job["method"] == "cosent" else Sentences("tiny", job["sentences"], "made here", "0")
    method, run = METHODS[job["method"]](settings), Run.create(settings, job["root"])
    sys.addaudithook(count)
    fit(method, data, dev, run=run, quiet=True)


def start(job, die_at):
    reader, writer = os.pipe()
    child = os.fork()  # a process a start, that need not load torch again
    if not child:
        train(job, die_at)
        os.write(writer, str(calls).encode())
        os._exit(0)
    os.close(writer)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(os.read(reader, 20) or 0)


for whole, killed in json.loads(sys.argv[1]):
    code, writes = start(whole, 0)
    draw = random.Random(whole["method"])
    # Each start goes on from where the one before was killed; the last comes to the end.
    ends = [start(killed, draw.randrange(1, writes // 2))[0] for _ in range(int(sys.argv[2]))]
    print(json.dumps([code, *ends, start(killed, 0)[0]]))
"""


def result(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], pd.DataFrame]:
    """The best encoder, the last state and the history of the run under a folder."""
    (path,) = folder.glob("*/*")
    history = pd.read_csv(path / "history.csv").drop(columns="seconds")
    return load_file(path / "encoder" / "model.safetensors"), load_file(state_of(path)), history


def state_of(path: Path) -> Path:
    return path / "checkpoint" / "state.safetensors"


KILLS = os.environ.get("WORKBENCH_KILLS", "6")
HOW = ("whole", "killed")
KILLED_METHODS: dict[str, dict] = {"simcse": {}, "cosent": {"objective": "softmax"}}


@pytest.mark.slow
def test_a_run_killed_between_any_two_writes_goes_on_to_the_same_weights(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    settings = {"encoder": str(tiny_encoder), "batch_size": 8, "max_steps": 12, "eval_steps": 3, "save_steps": 4}
    settings |= {"log_steps": 5, "device": "cpu", "precision": "fp32", "learning_rate": 1e-2}
    read = {"sentences": sentences.sentences, "gold": dev.gold.tolist(), "pairs": [dev.sentence1, dev.sentence2]}
    jobs = [
        [{"method": method, "settings": settings | more, "root": f"{tmp_path}/{method}-{how}", **read} for how in HOW]
        for method, more in KILLED_METHODS.items()
    ]
    command = [python(), "-c", JOB, json.dumps(jobs), KILLS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    for method, line in zip(KILLED_METHODS, done.stdout.splitlines(), strict=True):
        whole, *ends, last = json.loads(line)
        assert (whole, last) == (0, 0), method
        assert ends.count(-signal.SIGKILL) > 1, method
        expected, found = (result(tmp_path / f"{method}-{how}") for how in HOW)
        assert same(expected[0], found[0]), method
        assert same(expected[1], found[1]), method
        pd.testing.assert_frame_equal(expected[2], found[2])


@pytest.fixture
def half_trained(tiny_encoder: Path, sentences: Sentences, tmp_path: Path) -> Run:
    """A run that was stopped at step 4 of 6."""
    run = Run.create(config(tiny_encoder), tmp_path / "runs")

    def stop(row: dict) -> None:
        if row["step"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(SimCSE(config(tiny_encoder)), sentences, run=run, callbacks=[stop])
    return run


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def foreign(file: Path) -> None:
    save_file({"x": torch.zeros(2)}, file)


def without(pattern: str, file: Path) -> None:
    with safe_open(file, "pt") as opened:
        facts = opened.metadata()
    kept = {name: value for name, value in load_file(file).items() if not name.startswith(pattern)}
    save_file(kept, file, facts)


def reshaped(file: Path) -> None:
    with safe_open(file, "pt") as opened:
        facts = opened.metadata()
    save_file(load_file(file) | {"weights.head.linear.bias": torch.zeros(3)}, file, facts)


def of_other_settings(file: Path) -> None:
    with safe_open(file, "pt") as opened:
        facts = opened.metadata()
    save_file(load_file(file), file, {"state": facts["state"].replace("simcse/", "simcse/0")})


def with_facts(file: Path, **changed: object) -> None:
    with safe_open(file, "pt") as opened:
        facts = json.loads(opened.metadata()["state"])
    save_file(load_file(file), file, {"state": json.dumps(facts | changed)})


DAMAGE = {
    "a step before the first": functools.partial(with_facts, step=-2),
    "a step beyond the last": functools.partial(with_facts, step=99),
    "rows without a step": functools.partial(with_facts, rows=[{}]),
    "rows without a time": functools.partial(with_facts, rows=[{"step": 4}]),
    "no rows": functools.partial(with_facts, rows=[]),
    "truncated": cut,
    "empty": lambda file: file.write_bytes(b""),
    "foreign": foreign,
    "no second moments": functools.partial(without, "exp_avg_sq"),
    "a weight missing": functools.partial(without, "weights.head.linear.bias"),
    "another shape": reshaped,
    "other settings": of_other_settings,
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_state_that_is_not_whole_is_refused_with_its_path_and_the_cure(
    damage: str, half_trained: Run, tiny_encoder: Path, sentences: Sentences
):
    file = state_of(half_trained.path)
    DAMAGE[damage](file)
    method = SimCSE(config(tiny_encoder))
    before = weights(method)
    with pytest.raises(RunError, match="delete this file to train again") as refused:
        fit(method, sentences, run=half_trained)
    assert str(file) in str(refused.value)
    assert same(before, weights(method)), "weights were touched"


def test_a_file_where_the_states_folder_belongs_is_said(half_trained: Run, tiny_encoder: Path, sentences: Sentences):
    shutil.rmtree(half_trained.path / "checkpoint")
    (half_trained.path / "checkpoint").write_text("")
    with pytest.raises(RunError, match=r"cannot be written to .*checkpoint"):
        fit(SimCSE(config(tiny_encoder)), sentences, run=half_trained)


def test_a_deleted_state_trains_again_to_the_same_weights(half_trained: Run, tiny_encoder: Path, sentences: Sentences):
    state_of(half_trained.path).unlink()
    again, whole = SimCSE(config(tiny_encoder)), SimCSE(config(tiny_encoder))
    fit(again, sentences, run=half_trained)
    fit(whole, sentences)
    assert same(weights(again), weights(whole))


def test_an_interrupted_training_is_not_what_a_run_is_measured_by(
    half_trained: Run, tiny_encoder: Path, sentences: Sentences, dev: Pairs
):
    method = SimCSE(config(tiny_encoder))
    with pytest.raises(RunError, match=r"training of .* has not come to its end"):
        evaluate(method.encode, {"tiny-dev": dev}, run=half_trained)
    assert state_of(half_trained.path).is_file()
    fit(method, sentences, run=half_trained)
    evaluate(method.encode, {"tiny-dev": dev}, run=half_trained)
    assert half_trained.finished


def test_a_missing_best_encoder_is_not_passed_over(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path
):
    run = Run.create(config(tiny_encoder), tmp_path)
    fit(SimCSE(config(tiny_encoder)), sentences, dev, run=run)
    shutil.rmtree(run.path / "encoder")
    with pytest.raises(RunError, match=r"encoder is missing.*checkpoint to train again"):
        fit(SimCSE(config(tiny_encoder)), sentences, dev, run=run)


def test_a_full_disk_is_said_and_the_state_before_stays_whole(half_trained: Run, tiny_encoder: Path, sentences):
    file = state_of(half_trained.path)
    before = file.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    method = SimCSE(config(tiny_encoder))
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))  # no file may grow larger
    try:
        with pytest.raises(RunError, match=r"cannot be written to .*the one before is whole: free some space"):
            fit(method, sentences, run=half_trained)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert file.read_bytes() == before


def test_every_layer_is_where_the_encoder_is_before_the_first_step(
    tiny_encoder: Path, sentences: Sentences, monkeypatch
):
    prepare = SimCSE.prepare

    def moved(method: SimCSE, data: Sentences) -> None:
        prepare(method, data)
        method.encoder.to("meta")  # a device that every machine has

    def state(path: Path, method: SimCSE) -> None:
        assert {weight.device.type for weight in method.parameters()} == {"meta"}
        raise KeyboardInterrupt

    monkeypatch.setattr(SimCSE, "prepare", moved)
    monkeypatch.setattr("workbench.train._loop.State", state)
    with pytest.raises(KeyboardInterrupt):
        fit(SimCSE(config(tiny_encoder)), sentences)


def test_what_an_interrupted_training_observed_is_no_part_of_the_next(
    tiny_encoder: Path, dev: Pairs, tmp_path: Path, monkeypatch
):
    small = {"encoder": str(tiny_encoder), "device": "cpu", "batch_size": 4, "max_steps": 4, "save_steps": 2}
    settings = CoSENTConfig.from_parameters("demo", 0, small | {"log_steps": 4})
    flat = replace(dev, gold=np.repeat([0.0, 1.0], 10))  # most batches of 4 hold both labels, some one alone
    whole = fit(CoSENT(settings), flat)
    method, run = CoSENT(settings), Run.create(settings, tmp_path)
    method._unpaired = [torch.tensor(True)] * 7  # of steps after the last row
    assert fit(method, flat, run=run)["observed_unpaired_batches"].sum() == whole["observed_unpaired_batches"].sum()


@pytest.mark.parametrize("mode", ["default", "warn", "error"])
def test_training_on_a_gpu_restores_the_caller_s_choice_of_algorithms(mode: str):
    chosen = torch.get_deterministic_debug_mode()
    try:
        torch.set_deterministic_debug_mode(mode)
        before = torch.get_deterministic_debug_mode()
        with contextlib.suppress(KeyboardInterrupt), deterministic(torch.device("cuda")):
            assert torch.is_deterministic_algorithms_warn_only_enabled()
            raise KeyboardInterrupt
        assert torch.get_deterministic_debug_mode() == before
    finally:
        torch.set_deterministic_debug_mode(chosen)


def test_callbacks_get_every_finished_row(tiny_encoder: Path, sentences: Sentences, dev: Pairs):
    rows: list[dict] = []
    history = fit(SimCSE(config(tiny_encoder)), sentences, dev, callbacks=[rows.append])
    pd.testing.assert_frame_equal(pd.DataFrame(rows), history)


def test_training_ends_when_dev_has_not_risen_for_as_long_as_patience_waits(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path, monkeypatch
):
    measured = iter([0.9, 0.3, 0.5, 0.5, 0.4, 0.6])
    monkeypatch.setattr("workbench.train._record.dev_values", lambda method, dev: {"dev_spearman": next(measured)})
    settings = config(tiny_encoder, max_steps=20, patience=2)
    run = Run.create(settings, tmp_path)
    history = fit(SimCSE(settings), sentences, dev, run=run)
    # 0.5 at step 4 is the best: neither step 6 nor step 8 is above it.
    assert history["step"].iloc[-1] == 8
    assert fit(SimCSE(settings), sentences, dev, run=run)["step"].iloc[-1] == 8, "a stopped run took further steps"


def test_order_rate_and_seed_are_functions_of_seed_and_step():
    settings = SimCSEConfig.from_parameters("demo", 3, {"batch_size": 4, "max_steps": 10, "warmup": 0.3})
    plan = Plan(settings, examples=10)
    epoch = [plan.rows(step) for step in (2, 0, 1)]  # in any order
    assert sorted(row for rows in epoch for row in rows) == list(range(10))
    assert plan.rows(3) != plan.rows(0)
    shares = [Plan(settings, examples=10, world=2, rank=rank) for rank in (0, 1)]
    assert shares[0].epoch_steps == 2
    assert shares[0].rows(0) + shares[1].rows(0) == plan.rows(0)
    assert len({other.seed(step) for other in shares for step in range(10)}) == 20
    peak = settings.learning_rate
    expected = [0, peak / 3, 2 * peak / 3, *(peak * left / 7 for left in range(7, -1, -1))]
    np.testing.assert_allclose([plan.rate(step) for step in range(11)], expected)


def test_other_processes_than_the_settings_say_are_refused(monkeypatch: pytest.MonkeyPatch):
    settings = SimCSEConfig.from_parameters("demo", 0, {"batch_size": 8, "processes": 4})
    with pytest.raises(RunError, match=r"2 processes were started together and processes=4; start 4"):
        Plan(settings, examples=60, world=2).require_batches()
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    with pytest.raises(RunError, match=r"processes=4 cannot be shared equally by the 3 nodes"):
        run_processes("workbench.train", "", 4, on_row=print, quiet=True)


def test_weight_decay_is_where_transformers_puts_it(tiny_encoder: Path):
    from transformers import Trainer

    method = SimCSE(config(tiny_encoder, weight_decay=0.1))
    names = {id(parameter): name for name, parameter in method.named_parameters()}
    groups = State(Path("unused"), method).optimizer.param_groups
    decayed = {names[id(p)] for group in groups for p in group["params"] if group["weight_decay"]}
    assert decayed == set(Trainer.get_decay_parameter_names(None, method))


class FakeTracker(GeneralTracker):
    name = "tensorboard"
    requires_logging_directory = True

    def __init__(self, project: str, folder: str) -> None:
        super().__init__()
        self.rows: list[tuple[int, dict]] = []
        FakeTracker.last = self

    @property
    def tracker(self) -> list:
        return self.rows

    def store_init_configuration(self, values: dict) -> None:
        self.settings = values

    def log(self, values: dict, step: int | None = None, **_: object) -> None:
        assert step is not None
        self.rows.append((step, values))

    def finish(self) -> None:
        self.finished = True


def test_rows_go_to_the_tracker(tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(accelerate.tracking.LOGGER_TYPE_TO_CLASS, "tensorboard", FakeTracker)
    monkeypatch.setattr(accelerate.tracking, "_available_trackers", [LoggerType.TENSORBOARD])
    settings = config(tiny_encoder, track="tensorboard")
    assert settings.digest() == config(tiny_encoder).digest()
    history = fit(SimCSE(settings), sentences, dev, run=Run.create(settings, tmp_path))
    tracker = FakeTracker.last
    assert [step for step, _ in tracker.rows] == history["step"].tolist()
    assert tracker.rows[-1][1]["loss"] == history["loss"].iloc[-1]
    assert tracker.settings["batch_size"] == 8
    assert tracker.finished


def test_a_tracker_that_is_not_installed_is_refused_before_training(tiny_encoder: Path, sentences, monkeypatch):
    monkeypatch.setattr(accelerate.tracking, "_available_trackers", [])
    with pytest.raises(SettingError, match=r"track: 'wandb' is not installed .*pip install wandb"):
        fit(SimCSE(config(tiny_encoder, track="wandb")), sentences)


def test_fp16_is_refused_on_the_cpu(tiny_encoder: Path):
    with pytest.raises(SettingError, match=r"fp16 is for GPUs.*give 'bf16'"):
        config(tiny_encoder, precision="fp16")
    with pytest.raises(EncoderError, match="fp16"):
        Encoder.from_pretrained(tiny_encoder, precision="fp16", device="cpu")


TRAINED = """
import sys, torch, torch.distributed as dist
from workbench.processes import end_process
from workbench.config import SimCSEConfig
from workbench.data import Sentences
from workbench.methods.simcse import SimCSE
from workbench.train import fit
job = torch.load(sys.argv[1])
dist.init_process_group("gloo")
data = Sentences("tiny", job["sentences"], "", "")
few = SimCSE(SimCSEConfig.from_parameters("demo", 0, job["settings"])).double()
fit(few, data)
epoch = SimCSE(SimCSEConfig.from_parameters("demo", 0, job["settings"] | {"max_steps": None}))
history = fit(epoch, data)
if dist.get_rank() == 0:
    torch.save(few.state_dict() | {"steps": torch.tensor(history["step"].iloc[-1])}, sys.argv[2])
dist.destroy_process_group()
end_process()
"""


@pytest.mark.slow
def test_two_processes_train_to_the_weights_of_one(
    tiny_encoder: Path, sentences: Sentences, in_two_processes: Callable[..., dict[str, torch.Tensor]]
):
    settings = {"encoder": str(tiny_encoder), "device": "cpu", "dropout": 0.0, "batch_size": 8, "max_steps": 5}
    settings |= {
        "log_steps": 1,
        "learning_rate": 1e-3,
        "precision": "fp32",
    }  # the other processes would choose their own
    alone = SimCSE(SimCSEConfig.from_parameters("demo", 0, settings)).double()
    before = weights(alone)
    fit(alone, sentences)
    job = {"settings": settings | {"processes": 2}, "sentences": sentences.sentences}
    together = in_two_processes(TRAINED, job)
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


def test_a_dev_set_that_cannot_choose_is_refused_before_the_first_step(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, monkeypatch
):
    monkeypatch.setattr(SimCSE, "forward", lambda self, batch: pytest.fail("a step was taken"))
    flat = Pairs("flat", dev.sentence1, dev.sentence2, np.full(20, 3.0), None, dev.pair_id, (0.0, 5.0), "", "")
    with pytest.raises(DataError, match=r"flat holds 20 pairs of one and the same gold.*dev=None"):
        fit(SimCSE(config(tiny_encoder)), sentences, flat)
    one = Pairs("one", ["a"], ["b"], np.ones(1), None, ["0"], (0.0, 5.0), "", "")
    with pytest.raises(DataError, match=r"one holds 1 pair\(s\)"):
        fit(SimCSE(config(tiny_encoder)), sentences, one)


def test_blank_lines_and_weights_of_0_are_refused(tiny_encoder: Path, sentences: Sentences):
    with pytest.raises(DataError, match="3 blank lines"):
        fit(SimCSE(config(tiny_encoder)), Sentences("blank", ["", " ", "\t"], "made here", "0"))
    method = SimCSE(config(tiny_encoder))
    for parameter in method.encoder.parameters():
        parameter.data.zero_()
    with pytest.raises(EncoderError, match=r"every weight of .* is 0"):
        fit(method, sentences)


def test_a_training_too_short_to_learn_is_warned_of(
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, capsys: pytest.CaptureFixture, caplog
):
    def warned(**changes: object) -> bool:
        caplog.clear()
        fit(SimCSE(config(tiny_encoder, **changes)), sentences, dev)
        return "too few to learn from; raise epochs" in caplog.text

    assert warned()
    assert "6 steps with 3 evaluation(s) on dev" in caplog.text
    assert capsys.readouterr().out.startswith("learning_rate is 3e-05 and not 0.001")
    assert warned(max_steps=30, eval_steps=30), "dev is measured once"
    assert not warned(max_steps=30, eval_steps=15)


def test_scores_that_are_all_equal_are_said_once_and_the_last_step_is_kept(  # noqa: PLR0917
    tiny_encoder: Path, sentences: Sentences, dev: Pairs, tmp_path: Path, monkeypatch, caplog
):
    monkeypatch.setattr(SimCSE, "encode_plain", lambda self, texts, batch_size=64: torch.ones(len(texts), 1))
    settings = config(tiny_encoder)
    method, run = SimCSE(settings), Run.create(settings, tmp_path)
    history = fit(method, sentences, dev, run=run)
    assert history["dev_spearman"].isna().all()
    assert [record.message for record in caplog.records if "dev cannot choose" in record.message] != []
    assert len([record for record in caplog.records if "dev cannot choose" in record.message]) == 1
    last = load_file(run.path / "checkpoint" / "state.safetensors")
    kept = method.encoder.backbone.state_dict()
    assert all(torch.equal(last[f"weights.encoder.backbone.{name}"], value) for name, value in kept.items())


def test_a_loss_that_is_not_finite_stops_training(tiny_encoder: Path, sentences: Sentences, monkeypatch):
    method = SimCSE(config(tiny_encoder))
    monkeypatch.setattr(
        SimCSE, "forward", lambda self, batch: {"info_nce": self.head.linear.weight.sum() * float("nan")}
    )
    with pytest.raises(RunError, match=r"not finite at step 1 .*lower the learning rate"):
        fit(method, sentences)


def test_a_run_of_no_training_is_refused_by_the_processes_of_one(tmp_path: Path):
    run = Run.create(BaseConfig.from_parameters("demo", 0), tmp_path)
    with pytest.raises(SystemExit, match="nothing is trained in it"):
        main(str(run.path))


def test_several_processes_need_data_by_name(tiny_encoder: Path, sentences: Sentences, dev: Pairs):
    with pytest.raises(RunError, match="themselves"):
        fit(SimCSE(config(tiny_encoder, processes=2)), sentences, dev)


def test_a_row_is_told_whatever_another_process_wrote_before_it_on_its_line(monkeypatch, capfd):
    start, text = subprocess.Popen, '\r 50% of a bar\x1e{"step": 1}\n\x1e{"step": 2}\nsaid\n'
    for fails in (0, 1):
        command = [sys.executable, "-c", f"print({text!r}, end=''); raise SystemExit({fails})"]
        monkeypatch.setattr("workbench.processes.subprocess.Popen", lambda _, c=command, **how: start(c, **how))
        rows: list[dict] = []
        with pytest.raises(RunError, match="50% of a bar\nsaid") if fails else contextlib.nullcontext():
            run_processes("workbench.train", "", 2, on_row=rows.append, quiet=False)
        assert rows == [{"step": 1}, {"step": 2}]
        assert capfd.readouterr().out.split("\n")[-3:] == [" 50% of a bar", "said", ""]


@pytest.mark.parametrize("where", ["notebook", "terminal log", "papermill"])
def test_progress_is_a_bar_in_a_notebook_that_somebody_looks_at(where: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    shell = SimpleNamespace(kernel=1, config={}) if where != "terminal log" else None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    if where == "papermill":
        monkeypatch.setenv("TQDM_DISABLE", "1")
    progress = Progress(0, 3)
    assert (progress.bar is None) == (where != "notebook")
    progress.close()


@pytest.mark.slow
def test_a_run_in_two_processes_trains_tells_its_rows_and_can_be_loaded(tmp_path: Path, capfd, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "in a live notebook")
    monkeypatch.setattr(sys, "executable", python())
    small = {"processes": 2, "max_steps": 6, "eval_steps": 2, "device": "cpu", "train_limit": 64, "batch_size": 8}
    small |= {"patience": 1, "learning_rate": 1e-30, "log_steps": 1}  # moves nothing: dev does not rise
    settings = SimCSEConfig.from_parameters("demo", 0, small)
    from workbench.data import load_dev, load_training

    run = Run.create(settings, tmp_path)
    method = SimCSE(settings)
    rows: list[dict] = []
    history = fit(method, load_training(settings), load_dev(settings), run=run, callbacks=[rows.append], quiet=True)
    assert history["step"].tolist() == [0, 1, 2, 3, 4], "both stop when the first has waited long enough"
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[-1]["dev_spearman"] == history["dev_spearman"].iloc[-1]
    assert capfd.readouterr().out == ""
    kept = load_file(run.path / "encoder" / "model.safetensors")
    assert all(torch.equal(kept[name], value) for name, value in method.encoder.backbone.state_dict().items())


def test_training_where_nothing_can_be_written_says_so(tiny_encoder: Path, sentences: Sentences, tmp_path: Path):
    (tmp_path / "runs").write_text("a file, not a folder")
    with pytest.raises(RunError, match="cannot write"):
        Run.create(config(tiny_encoder), tmp_path / "runs")
