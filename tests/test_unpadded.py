"""Attention without padding, as on CUDA: held against padded batches, with a loop over sentences
for the kernel.

The kernels themselves run on a GPU only (tests/test_gpu.py); here "meta" checks their arguments,
shapes and gradients."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import tiny_model, tiny_tokenizer
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close
from transformers import BertForMaskedLM, DistilBertConfig, DistilBertModel

from workbench.config import CONFIGS
from workbench.data import Sentences
from workbench.encoder import Encoder
from workbench.encoder._attention import Unpadded, unpadded_attention
from workbench.methods import METHODS

SENTENCES = [
    "a",
    "the blue cat sleeps",
    "dogs run in the old house today",
    "a bird",
    "old",
    "the house is blue",
] * 3


def attend_in_a_loop(  # noqa: PLR0917 - the signature of the kernel
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packing: Unpadded,
    dropout: float,
    scale: float | None,
) -> Tensor:
    """Compute each sentence by itself, as the kernels do."""
    assert dropout == 0.0
    bounds = packing.bounds.tolist()
    assert max(np.diff(bounds)) == packing.longest
    parts = []
    for start, end in pairwise(bounds):
        sides = (side[start:end].transpose(0, 1) for side in (query, key, value))
        parts.append(scaled_dot_product_attention(*sides, scale=scale).transpose(0, 1))
    return torch.cat(parts)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Switch unpadded attention on for a CPU; return the number of tokens of each call."""
    counts: list[int] = []

    def counted(query: Tensor, *others: Any) -> Tensor:
        counts.append(len(query))
        return attend_in_a_loop(query, *others)

    monkeypatch.setattr("workbench.encoder._model.attends_unpadded", lambda device, width: True)
    monkeypatch.setattr("workbench.encoder._attention.unpadded_attention", counted)
    return counts


def write_encoder(kind: str, folder: Path) -> Path:
    tiny_model(kind).save_pretrained(folder)
    tiny_tokenizer(kind).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "avg_first_last"])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_vectors_are_those_of_padded_batches(
    kind: str, pooling: str, tmp_path: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder.from_pretrained(
        write_encoder(kind, tmp_path / kind), pooling, precision="fp32", device="cpu"
    )
    unpadded = encoder.encode(SENTENCES)
    rows = encoder.token_rows(set(SENTENCES))
    assert calls[0] == rows.lengths.sum() < len(rows) * rows.lengths.max()
    monkeypatch.setattr("workbench.encoder._model.PACKABLE", ())
    assert_close(unpadded, encoder.encode(SENTENCES), atol=1e-5, rtol=0)
    assert (unpadded[0] - unpadded[1]).abs().max() > 1e-3


@pytest.mark.parametrize(
    "settings",
    [{}, {"mini_batch_size": 3}, {"mini_batch_tokens": 20}, {"mlm_weight": 0.1}],
    ids=str,
)
def test_loss_and_gradient_are_those_of_padded_batches(
    settings: dict[str, Any], tmp_path: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BertForMaskedLM(tiny_model("bert").config)
    for weights in model.parameters():  # so that sentences differ
        weights.data *= 5
    model.save_pretrained(tmp_path / "start")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "start")
    asked = {
        "encoder": str(tmp_path / "start"),
        "pooling": "mean",
        "device": "cpu",
        "precision": "fp32",
        "dropout": 0.0,
    }
    config = CONFIGS["simcse"].from_parameters("demo", 0, asked | settings)

    def step() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        torch.manual_seed(0)
        method = METHODS["simcse"](config)
        method.prepare(
            Sentences("s", SENTENCES[:6] + [text + " and more" for text in SENTENCES[:6]], "", "0")
        )
        method.double().train()
        torch.manual_seed(1)
        terms = method(method.collate(range(12)))
        sum(terms.values()).backward()
        return terms, {
            name: one.grad for name, one in method.named_parameters() if one.grad is not None
        }

    terms, gradients = step()
    assert calls
    monkeypatch.setattr("workbench.encoder._model.PACKABLE", ())
    count = len(calls)
    padded_terms, padded_gradients = step()
    assert len(calls) == count
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-3
    assert_close(terms, padded_terms, atol=1e-10, rtol=0)
    assert_close(gradients, padded_gradients, atol=1e-10, rtol=1e-10)


def test_batches_without_lengths_or_without_padding_and_other_architectures_are_padded(
    tmp_path: Path, calls: list[int]
) -> None:
    encoder = Encoder.from_pretrained(
        write_encoder("bert", tmp_path / "bert"), "cls", precision="fp32", device="cpu"
    )
    encoder(encoder.tokenize(SENTENCES[:3]))
    encoder.encode(["the cat", "the dog"])
    shape = {
        "vocab_size": encoder.backbone.config.vocab_size,
        "dim": 16,
        "n_heads": 2,
        "n_layers": 1,
        "hidden_dim": 16,
    }
    DistilBertModel(DistilBertConfig(**shape)).save_pretrained(tmp_path / "other")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "other")
    Encoder.from_pretrained(tmp_path / "other", "cls", precision="fp32", device="cpu").encode(
        SENTENCES
    )
    assert calls == []


def test_chunks_of_tokens_have_at_most_so_many_or_one_text(tiny_encoder: Path) -> None:
    asked = {
        "encoder": str(tiny_encoder),
        "pooling": "cls",
        "device": "cpu",
        "mini_batch_tokens": 9,
    }
    method = METHODS["simcse"](CONFIGS["simcse"].from_parameters("demo", 0, asked))
    tokens = {"input_ids": torch.zeros(6, 12), "lengths": [4, 5, 12, 3, 3, 4]}
    assert method._chunks(tokens) == [slice(0, 2), slice(2, 3), slice(3, 5), slice(5, 6)]
    assert method._chunks({"input_ids": torch.zeros(2, 9)}) == [slice(0, 1), slice(1, 2)]
    both = method.config.model_copy(update={"mini_batch_size": 1})
    method.config = both
    assert len(method._chunks(tokens)) == 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_kernels_take_these_arguments_and_have_gradients(dtype: torch.dtype) -> None:
    packing = Unpadded.of([3, 7, 1], 8, torch.device("meta"))
    sides = [
        torch.empty(11, 4, 16, device="meta", dtype=dtype, requires_grad=True) for _ in range(3)
    ]
    result = unpadded_attention(*sides, packing, 0.1, None)
    assert (result.shape, result.dtype) == ((11, 4, 16), dtype)
    result.sum().backward()
    assert all(side.grad is not None and side.grad.shape == side.shape for side in sides)


def test_tokens_return_to_their_places() -> None:
    packing = Unpadded.of([2, 4, 1], 5, torch.device("cpu"))
    assert packing.bounds.tolist() == [0, 2, 6, 7]
    assert packing.position.tolist() == [0, 1, 0, 1, 2, 3, 0]
    grid = torch.arange(15.0).view(3, 5)
    mask = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [1, 0, 0, 0, 0]])
    assert torch.equal(packing.unpack(packing.pack(grid)), grid * mask)
