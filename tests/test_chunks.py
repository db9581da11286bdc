"""Chunks give the loss and gradient of the whole batch for every method, in the memory of one
chunk."""

from pathlib import Path

import numpy as np
import pytest
import torch

from workbench.config import CONFIGS
from workbench.data import Pairs, Sentences
from workbench.methods import METHODS
from workbench.methods.base import Method

pytestmark = pytest.mark.usefixtures("no_type_checks")  # which take a third of the time

CASES = {
    "simcse": ("simcse", {}),
    "rankcse": ("rankcse", {"beta": 0.1}),
    "compcse": ("compcse", {}),
    "compcse, projected": ("compcse", {"aggregation": "concat_difference_project"}),
    "cosent": ("cosent", {}),
    "cosent, softmax": ("cosent", {"objective": "softmax"}),
    "cosent, interaction": ("cosent", {"model": "interaction"}),
    "rankencoder": ("rankencoder", {"corpus_size": 40}),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tiny_encoder: Path, tmp_path: Path) -> tuple[str, dict]:
    name, overrides = CASES[request.param]
    settings = {
        "encoder": str(tiny_encoder),
        "batch_size": 16,
        "device": "cpu",
        "precision": "fp32",
    }
    own = {
        "rankcse": {
            "teachers": [str(tiny_encoder)],
            "teacher_pooling": {str(tiny_encoder): "mean"},
            "cache": str(tmp_path),
        },
        "rankencoder": {"base": str(tiny_encoder), "base_pooling": "mean", "cache": str(tmp_path)},
    }
    return name, settings | own.get(name, {}) | overrides


def prepared(
    case: tuple[str, dict], sentences: list[str], dropout: float, chunk_size: int | None
) -> Method:
    """Return the method in float64, where rounding is far below the tolerance."""
    name, settings = case
    config = CONFIGS[name].from_parameters(
        "demo", 0, settings | {"dropout": dropout, "chunk_size": chunk_size}
    )
    method = METHODS[name](config).double()
    pairs = Pairs(
        "p",
        sentences[:20],
        sentences[20:40],
        np.arange(20.0) % 6,
        None,
        list(map(str, range(20))),
        (0, 5),
        "",
        "",
    )
    torch.manual_seed(0)
    method.prepare(pairs if name == "cosent" else Sentences("s", sentences, "", "0"))
    return method.double().train()


def step(method: Method) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Return the loss terms and gradients of one batch, with dropout masks from a fixed seed."""
    torch.manual_seed(1)
    terms = method(method.collate(list(range(16))))
    torch.stack(list(terms.values())).sum().backward()
    gradients = {name: p.grad for name, p in method.named_parameters() if p.grad is not None}
    return {name: float(value.detach()) for name, value in terms.items()}, gradients


def assert_same(first: tuple[dict, dict], second: tuple[dict, dict]) -> None:
    assert first[0] == pytest.approx(second[0], rel=1e-12)
    assert first[1].keys() == second[1].keys()
    assert max(float(gradient.abs().max()) for gradient in first[1].values()) > 1e-4
    for name, gradient in first[1].items():
        # float64: only the order of sums differs, of terms of at most lambda = 20 (a bias that
        # every score shares gets a sum that is 0): a hundred of them are off by 100 x 20 x 2^-53 =
        # 2e-13.
        torch.testing.assert_close(gradient, second[1][name], rtol=1e-9, atol=1e-12, msg=name)


def test_chunks_are_computed_again_with_the_same_dropout_masks(
    case: tuple[str, dict], tiny_sentences: list[str], monkeypatch: pytest.MonkeyPatch
):
    recomputed = step(prepared(case, tiny_sentences, 0.3, 3))
    monkeypatch.setattr(
        "workbench.methods.base.checkpoint", lambda module, chunk, use_reentrant: module(chunk)
    )
    kept = step(prepared(case, tiny_sentences, 0.3, 3))
    assert_same(recomputed, kept)
    plain = step(prepared(case, tiny_sentences, 0.0, 3))
    assert kept[0] != pytest.approx(plain[0], rel=1e-6), "there was no dropout"


def test_bf16_chunks_are_computed_again_alike(
    tiny_encoder: Path, tiny_sentences: list[str], monkeypatch
):
    """Check that autocast uses the same casts of the weights in the second forward pass."""
    case = ("simcse", {"encoder": str(tiny_encoder), "batch_size": 16, "device": "cpu"})

    def step_in_bf16() -> tuple[dict, dict]:
        method = prepared(case, tiny_sentences, 0.3, 3).float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.manual_seed(1)
            loss = method(method.collate(list(range(16))))["info_nce"]
        loss.backward()
        return {"loss": float(loss.detach())}, {
            n: p.grad for n, p in method.named_parameters() if p.grad is not None
        }

    recomputed = step_in_bf16()
    monkeypatch.setattr(
        "workbench.methods.base.checkpoint", lambda module, chunk, use_reentrant: module(chunk)
    )
    kept = step_in_bf16()
    assert recomputed[0] == kept[0]
    assert all(torch.equal(recomputed[1][name], gradient) for name, gradient in kept[1].items())


def test_only_one_chunk_is_held(case: tuple[str, dict], tiny_sentences: list[str]):
    """Compare the bytes that autograd saves for the backward pass, without the weights."""

    def kept(chunk_size: int | None) -> int:
        method = prepared(case, tiny_sentences, 0.1, chunk_size)
        own = {parameter.data_ptr() for parameter in method.parameters()}
        held: dict[int, int] = {}

        def hold(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.data_ptr() not in own:
                held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
            method(method.collate(list(range(16))))
        return sum(held.values())

    assert kept(2) < kept(None) / 2
