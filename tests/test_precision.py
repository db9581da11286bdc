"""Precision "auto" on a processor that multiplies bf16 fast: what is reported is fp32, training
steps are bf16."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from workbench.config import CONFIGS, BaselineConfig
from workbench.data import Pairs, Sentences
from workbench.encoder import Encoder
from workbench.evaluation import evaluate, evaluate_model
from workbench.files import write_json
from workbench.methods import METHODS
from workbench.runs import Run
from workbench.training import fit
from workbench.views import Ask

TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def _fast_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})


def expected_scores(folder: Path, pairs: Pairs) -> np.ndarray:
    """Return the cosines of SentenceTransformer, which computes in fp32."""
    model = SentenceTransformer(str(folder), device="cpu")
    first, second = (
        model.encode(side, normalize_embeddings=True) for side in (pairs.sentence1, pairs.sentence2)
    )
    return (first * second).sum(axis=1)


def test_encode_evaluate_and_ask_agree_with_sentence_transformers(
    spread_encoder: Path, graded: Pairs
) -> None:
    saved = spread_encoder.parent / "saved"
    Encoder.from_pretrained(spread_encoder, "mean").save(saved)
    encoder = Encoder.from_pretrained(saved)
    wanted = expected_scores(saved, graded)
    theirs = SentenceTransformer(str(saved), device="cpu").encode(
        graded.sentence1, normalize_embeddings=True
    )
    assert np.abs(encoder.encode(graded.sentence1).numpy() - theirs).max() < TOLERANCE
    assert (
        np.abs(evaluate(encoder, {"graded": graded}).scores["predicted"] - wanted).max() < TOLERANCE
    )
    targets = list(dict.fromkeys(graded.sentence2))[:3]
    ranked = Ask({"own": encoder}, graded.sentence1[0], targets).selected.set_index("target")
    cosines = (
        SentenceTransformer(str(saved), device="cpu").encode(targets, normalize_embeddings=True)
        @ theirs[0]
    )
    assert np.abs(ranked.loc[targets, "score: own"].to_numpy() - cosines).max() < TOLERANCE
    named = Encoder.from_pretrained(saved, precision="bf16")
    assert np.abs(named.encode(graded.sentence1).numpy() - theirs).max() > 1e-4


def test_steps_and_dev_are_bf16_and_the_trained_method_is_evaluated_in_fp32(
    spread_encoder: Path, sentences: Sentences, graded: Pairs, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"encoder": str(spread_encoder), "pooling": "mean", "batch_size": 8}
    asked |= {"max_steps": 2, "eval_steps": 2, "device": "cpu", "mlp": False, "learning_rate": 1e-6}
    config = CONFIGS["simcse"].from_parameters("demo", 0, asked)
    method, run, seen = METHODS["simcse"](config), Run.open(config, tmp_path), set()
    backbone = method.encoder.backbone
    backbone.register_forward_pre_hook(
        lambda *_: seen.add((backbone.training, torch.is_autocast_enabled("cpu")))
    )
    fit(method, sentences, graded, run=run, quiet=True)
    assert seen == {(True, True), (False, True)}  # a step, and a measurement of dev
    assert run.facts()["precision"] == "bf16"
    report = evaluate(method, {"graded": graded}, run=run)
    wanted = expected_scores(run.path / "encoder", graded)
    assert np.abs(report.scores["predicted"] - wanted).max() < TOLERANCE
    assert (False, False) in seen


def test_a_baseline_run_that_may_be_of_bf16_does_not_stand_silently_for_fp32(
    spread_encoder: Path,
    small_files: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = BaselineConfig(
        encoder=str(spread_encoder), suites=[small_files["suites"]], device="cpu"
    )
    run = evaluate_model(config, tmp_path)
    assert run.facts()["precision"] == "fp32"
    with caplog.at_level(logging.WARNING, "workbench"):
        evaluate_model(config, tmp_path)
        assert "bf16" not in caplog.text
        earlier = {name: fact for name, fact in run.facts().items() if name != "precision"}
        write_json(run.path / "config.json", earlier)
        evaluate_model(config, tmp_path)
    assert f'perhaps in bf16; for scores in fp32: workbench rm "{run.path}"' in caplog.text
