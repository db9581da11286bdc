"""Every method reproduces losses.json on every machine, and every setting's digest is unchanged."""

import json
from pathlib import Path
from typing import Any

import pytest

from workbench import CONFIGS, METHODS

from .conftest import METHOD_NAMES, PROJECT
from .make_losses import FILE, SAME, SHORT, losses_of, train_demo

DIGESTS = json.loads((PROJECT / "tests" / "digests.json").read_text())
STORED = json.loads(FILE.read_text(encoding="utf-8"))
# A loss differs by at most 3e-6 of itself between processors (Intel with AVX-512, AMD with AVX2),
# instruction sets (down to SSE4.2, of torch, oneDNN and MKL) and 1, 2 and 4 threads. RankEncoder's
# ranks turn a difference in the last digit of a cosine into a whole rank; its losses differ by at
# most 2e-5.
TOLERANCE = dict.fromkeys(METHOD_NAMES, 3e-5) | {"rankencoder": 3e-4}
# A small change of what the first loss is computed from, for each method.
OTHER: dict[str, dict[str, Any]] = {
    "simcse": {"temperature": 0.0501},
    "rankcse": {"teacher_temperature": 0.013},
    "cosent": {"scale": 20.01},
    "compcse": {"compose": "none"},
    "rankencoder": {"rank_weight": 0.0503},
    "mixed": {"student_temperature": 0.0251},
    "lists": {"gold_temperature": 0.2001},
}


def test_the_methods_are_these():
    assert list(METHODS) == list(CONFIGS) == METHOD_NAMES


def test_the_digest_of_every_profile_is_the_one_that_its_runs_are_called_by():
    digests = {
        method: {profile: config.from_parameters(profile).digest() for profile in config.profiles}
        for method, config in CONFIGS.items()
    }
    assert digests == DIGESTS


@pytest.mark.slow
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_the_first_ten_steps_of_the_demo_have_the_losses_that_they_always_had(
    method: str, tmp_path: Path
):
    assert STORED["settings"] == SAME | SHORT
    losses = losses_of(train_demo(method, tmp_path))
    assert losses == pytest.approx(STORED["losses"][method], rel=TOLERANCE[method])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_the_first_loss_differs_by_more_than_the_tolerance_if_anything_else_does(
    method: str, tmp_path: Path
):
    stored = STORED["losses"][method][0]
    changes = [OTHER[method]]
    if method in ("simcse", "rankencoder"):  # one of each tolerance
        changes += [{"seed": 1}, {"dropout": 0.11}, {"precision": "bf16"}]
    if method == "rankencoder":
        base = {"base": str(train_demo("simcse", tmp_path).path / "encoder")}
        changes = [base | change for change in changes]
    for change in changes:
        (loss,) = losses_of(train_demo(method, tmp_path, max_steps=1, **change))
        assert abs(loss - stored) > 3 * TOLERANCE[method] * stored, change
