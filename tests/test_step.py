"""Steps that are recorded and replayed. On a CPU the replay is the plain computation, so that
buffers, signatures and observations are tested without a GPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_device import CASES, prepared

from workbench import SimCSE, fit, load_dev, load_training
from workbench.config import CONFIGS, SimCSEConfig
from workbench.data import Pairs, Sentences, Triplets
from workbench.methods import METHODS, base, rank_distillation, teacher_lists
from workbench.methods.base import Method
from workbench.runs import Run
from workbench.training import _step
from workbench.training._plan import Plan
from workbench.training._state import State
from workbench.training._step import Recorder, TrainingStep, choose_recorder, signature_of

pytestmark = pytest.mark.usefixtures("no_type_checks")  # which take a third of the time

STEPS = 12
AnyCase = pytest.mark.parametrize(
    ("name", "form"), CASES, ids=lambda value: value if isinstance(value, str) else None
)


@pytest.fixture
def build(  # noqa: PLR0917 - fixtures
    spread_encoder: Path,
    wide_teacher: Path,
    sentences: Sentences,
    graded: Pairs,
    triplets: Triplets,
    listed: Pairs,
) -> Any:
    """Return a function (name, form) -> a prepared method on the CPU, in training."""

    def build_method(name: str, form: dict[str, Any]) -> Method:
        sets: list[Any] = [listed] if name == "lists" else [sentences, graded, triplets]
        method = prepared(name, form, spread_encoder, wide_teacher, *sets, max_steps=STEPS).train()
        method.has_static_shapes = True
        return method

    return build_method


class Recorded(Recorder):
    """Counts recordings and replays."""

    def __init__(self) -> None:
        self.recordings = 0
        self.replays = 0

    def __call__(self, compute: Any) -> Any:
        self.recordings += 1

        def replay() -> Any:
            self.replays += 1
            return compute()

        return replay


def train(method: Method, recorder: Recorder | None, steps: int = STEPS) -> dict[str, Any]:
    """Return the weights, the losses and the observations after some steps."""
    state = State(Path("unused"), method, recorded=recorder is not None)
    take_step = TrainingStep(method, method, Plan(method.config, 12), state, recorder)
    losses = [take_step(step) for step in range(steps)]
    return {
        "weights": {name: value.clone() for name, value in method.state_dict().items()},
        "losses": [{name: value.detach() for name, value in terms.items()} for terms in losses],
        "observed": {name: torch.stack(values) for name, values in method._observed.items()},
    }


def signatures(method: Method, plan: Plan, epochs: int = 1) -> set[Any]:
    """Return the signatures of all batches of the first epochs."""
    found = set()
    for step in range(epochs * plan.epoch_steps):
        torch.manual_seed(plan.seed(step))
        found.add(signature_of(method.collate(plan.rows(step))))
    return found


@AnyCase
def test_replayed_steps_are_bitwise_those_that_are_not_and_batches_have_few_signatures(
    build: Any, name: str, form: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(base.MULTIPLES, "cpu", 8)  # as on CUDA: more batches have one signature
    recorder = Recorded()
    method = build(name, form)
    replayed = train(method, recorder)
    torch.testing.assert_close(replayed, train(build(name, form), None), rtol=0, atol=0)
    # Otherwise no batch would have been copied into the buffers of another one.
    assert 0 < recorder.recordings < recorder.replays
    found = signatures(method, Plan(method.config, 12), epochs=10)
    assert len(found) <= 8, "docs/gpu.md promises so"


def test_a_replay_that_reads_its_first_batch_again_would_be_noticed(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(build("simcse", {}), None)
    monkeypatch.setattr(_step, "_copy_into", lambda buffers, batch: None)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(train(build("simcse", {}), Recorded()), expected, rtol=0, atol=0)


def test_gradients_are_clipped_at_the_norm_of_the_settings(build: Any) -> None:
    method, norms = build("simcse", {"max_grad_norm": 0.01}), []
    state = State(Path("unused"), method)

    def note(*_: Any) -> None:
        gradients = [weight.grad for weight in method.parameters() if weight.grad is not None]
        norms.append(float(torch.stack([gradient.norm() for gradient in gradients]).norm()))

    state.optimizer.register_step_pre_hook(note)
    TrainingStep(method, method, Plan(method.config, 12), state)(0)
    assert norms == pytest.approx([0.01], rel=1e-3)


WORLD = [
    ("simcse", {}),
    ("simcse", {"mlm_weight": 0.1}),
    ("simcse", {"positives": "crop"}),
    ("rankcse", {"teachers": ["world-teacher"]}),
    ("compcse", {}),
    ("cosent", {}),
    ("cosent", {"objective": "triplet"}),
    ("rankencoder", {"base": "world-encoder"}),
    ("mixed", {"teachers": ["world-teacher"]}),
    ("lists", {}),
]


def drawn_embeddings(teacher: Any, sentences: list[str], **settings: Any) -> np.ndarray:
    drawn = np.random.default_rng(0).normal(size=(len(sentences), 8))
    return drawn.astype(np.float16)


@pytest.mark.parametrize(("name", "form"), WORLD, ids=str)
def test_an_epoch_of_the_world_has_few_signatures(
    name: str, form: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(base.MULTIPLES, "cpu", 8)  # as on CUDA
    # Of a teacher's vectors a signature has the shapes only, and computing them takes a minute.
    for module in (teacher_lists, rank_distillation):
        monkeypatch.setattr(module, "cached_embeddings", drawn_embeddings)
    asked = form | {"device": "cpu", "train_limit": 7500}  # of 30,000 sentences
    if "cache" in CONFIGS[name].model_fields:
        asked |= {"cache": str(tmp_path)}
    method = METHODS[name](CONFIGS[name].from_parameters("demo", 0, asked))
    data = load_training(method.config)
    method.prepare(data)
    method.has_static_shapes = True
    plan = Plan(method.config, method.examples(data))
    assert len(signatures(method, plan)) <= 8, "docs/gpu.md promises so"


def test_a_signature_beyond_the_last_is_computed_and_logged_once(
    build: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_step, "MOST_SIGNATURES", 0)
    recorder = Recorded()
    beyond = train(build("simcse", {}), recorder)
    torch.testing.assert_close(beyond, train(build("simcse", {}), None), rtol=0, atol=0)
    assert recorder.recordings == 0
    assert len([record for record in caplog.records if "shapes" in record.message]) == 1


def world_method(**settings: Any) -> SimCSE:
    options = {
        "device": "cpu",
        "max_steps": 10,
        "eval_steps": 5,
        "save_steps": 5,
        "logging_steps": 1,
        "train_limit": 64,
        "batch_size": 16,
        "suites": ["world-dev"],
    }
    return SimCSE(SimCSEConfig.from_parameters("demo", 0, options | settings))


def history(folder: Path, stop_at: int = 0, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """Return the history and the facts of a training, interrupted after a step and continued."""

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == stop_at:
            raise KeyboardInterrupt

    for callbacks in ([stop], []) if stop_at else ([],):
        method = world_method(**settings)
        run = Run.open(method.config, folder)
        data = load_training(method.config)
        dev = load_dev(method.config)
        try:
            rows = fit(method, data, dev, run=run, callbacks=callbacks, quiet=True)
        except KeyboardInterrupt:
            continue
    return rows.drop(columns="seconds"), run.facts()


def test_a_training_with_replays_has_the_history_of_one_without(
    tmp_path: Path, small_files: dict[str, str]
) -> None:
    small = {"dev": small_files["dev"]}
    plain, facts = history(tmp_path / "plain", **small)
    replayed, facts_of_replayed = history(tmp_path / "replayed", cuda_graphs=True, **small)
    resumed, _ = history(tmp_path / "resumed", stop_at=7, cuda_graphs=True, **small)
    assert plain.equals(replayed)
    assert plain.equals(resumed)
    assert facts["steps_run"] == "launched one by one"
    assert facts_of_replayed["steps_run"] == "computed from buffers, as cpu has no graphs"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"mini_batch_size": 4}, "in chunks"),
        ({"mini_batch_tokens": 64}, "in chunks"),
        ({}, "several processes"),
    ],
)
def test_what_cannot_be_replayed_is_launched_and_recorded(
    settings: dict[str, Any],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not settings:  # those of torchrun, whatever the setting says
        monkeypatch.setattr(_step, "process_count", lambda: 2)
    recorder, text = choose_recorder(world_method(cuda_graphs=True, **settings))
    assert recorder is None
    assert reason in text
    assert reason in caplog.text


def test_an_encoder_that_copies_from_the_cpu_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_step, "PACKABLE", ("roberta",))
    recorder, text = choose_recorder(world_method(cuda_graphs=True))
    assert recorder is None
    assert "only BERT and RoBERTa" in text
