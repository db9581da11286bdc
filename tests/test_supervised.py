"""Supervised SimCSE: eq. 5 over triplets, and the layer over [CLS] that it keeps at test."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_checkpoints import KINDS, tiny_checkpoint, tiny_sentences, tiny_tokenizer
from torch.testing import assert_close
from transformers import AutoModel, DistilBertConfig, DistilBertModel

from workbench.config import CONFIGS, SimCSEConfig
from workbench.data import Pairs, Triplets
from workbench.encoder import Encoder
from workbench.errors import DataError, EncoderError
from workbench.methods.simcse import SimCSE
from workbench.runs import Run
from workbench.teachers import load_teacher
from workbench.training import fit

SENTENCES = tiny_sentences(9)
TRIPLETS = Triplets(
    "tiny", *(tiny_sentences(12, seed=seed) for seed in (1, 2, 3)), source="made", checksum="0"
)


def config(encoder: Path, seed: int = 0, **changes: Any) -> SimCSEConfig:
    small = {
        "encoder": str(encoder),
        "pooling": "pooler",
        "device": "cpu",
        "precision": "fp32",
        "batch_size": 4,
    }
    small |= {
        "max_steps": 4,
        "eval_steps": 2,
        "save_steps": 2,
        "suites": ["world-test"],
        "learning_rate": 1e-2,
    }
    return SimCSEConfig.from_parameters("paper-supervised", seed, small | changes)


def cosine(first: list[float], second: list[float]) -> float:
    length = math.sqrt(sum(x * x for x in first) * sum(y * y for y in second))
    return sum(x * y for x, y in zip(first, second, strict=True)) / length


@pytest.mark.parametrize("changes", [{}, {"pooling": "cls", "mlp": True}])
def test_the_loss_is_equation_5_over_positives_and_hard_negatives(
    tmp_path: Path, changes: dict[str, Any]
):
    method, rows, tau = (
        SimCSE(config(tiny_checkpoint(tmp_path / "bert"), **changes)).eval(),
        [7, 2, 11],
        0.05,
    )
    method.prepare(TRIPLETS)
    sides = []
    for texts in TRIPLETS.texts:
        vectors = method.encoder(method.encoder.tokenize([texts[row] for row in rows]))
        sides.append((vectors if method.head is None else method.head(vectors)).tolist())
    anchors, positives, negatives = sides
    expected = 0.0
    for i, anchor in enumerate(anchors):
        below = sum(
            math.exp(cosine(anchor, other) / tau)
            for side in (positives, negatives)
            for other in side
        )
        expected -= math.log(math.exp(cosine(anchor, positives[i]) / tau) / below) / len(rows)
    (loss,) = method(method.collate(rows)).values()
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-4)


def test_equal_sentences_are_dropped_out_apart_but_are_not_each_others_positive(tmp_path: Path):
    method = SimCSE(config(tiny_checkpoint(tmp_path / "bert"), dropout=0.3)).train()
    method.prepare(
        Triplets("same", ["a dog", "a cat"], ["a dog", "the book"], ["a man", "a dog"], "made", "0")
    )
    vectors = method.embed(method.collate([0, 1])["tokens"])
    assert not torch.equal(vectors[0], vectors[2])
    still = SimCSE(config(tiny_checkpoint(tmp_path / "without"), dropout=0.0))
    assert not still.config.dropout_views, "a start without dropout would be given some"


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_checkpoint_is_read_with_its_layer_and_saved_with_it(
    kind: str, tmp_path: Path
):
    folder = tiny_checkpoint(tmp_path / "sup-simcse-tiny", kind)
    encoder, teacher = Encoder.from_pretrained(folder), load_teacher(str(folder), device="cpu")
    assert encoder.pooling == teacher.pooling == "pooler"
    with torch.no_grad():
        expected = AutoModel.from_pretrained(folder)(**encoder.tokenize(SENTENCES)).pooler_output
    assert_close(teacher.encode(SENTENCES, normalize_embeddings=False), expected, atol=1e-5, rtol=0)
    for dtype, atol in ((torch.float32, 1e-5), (torch.float16, 0.02)):
        encoder.save(tmp_path / "saved", dtype=dtype)
        assert_is_read_by_all(tmp_path / "saved", expected, atol)


def assert_is_read_by_all(folder: Path, expected: torch.Tensor, atol: float = 1e-5) -> None:
    encoder, theirs = (
        Encoder.from_pretrained(folder),
        SentenceTransformer(str(folder), device="cpu"),
    )
    with torch.no_grad():
        plain = AutoModel.from_pretrained(folder, dtype=torch.float32)(
            **encoder.tokenize(SENTENCES)
        ).pooler_output
    assert encoder.pooling == "pooler"
    ours = encoder.encode(SENTENCES, normalize_embeddings=False)
    for vectors in (ours, plain, theirs.encode(SENTENCES, convert_to_tensor=True).float()):
        assert_close(vectors, expected, atol=atol, rtol=0)


def test_the_trained_layer_is_saved_restored_and_goes_on(tmp_path: Path):
    settings = config(tiny_checkpoint(tmp_path / "bert"))
    run, method = Run.open(settings, tmp_path / "runs"), SimCSE(settings)
    begun = method.encoder.backbone.pooler.dense.weight.detach().clone()
    dev = Pairs.from_lists(SENTENCES[:4], SENTENCES[4:8], [0, 1, 2, 3], name="dev")
    fit(method, TRIPLETS, dev, run=run, quiet=True)
    trained = method.encoder.backbone.pooler.dense.weight
    assert not torch.equal(trained, begun)
    expected = method.encoder.encode(SENTENCES, normalize_embeddings=False)
    assert_is_read_by_all(run.path / "encoder", expected)
    again = SimCSE(settings)
    again.restore(run.path / "encoder")
    assert_close(
        again.encoder.encode(SENTENCES, normalize_embeddings=False), expected, atol=1e-5, rtol=0
    )
    assert torch.equal(
        SimCSE(config(run.path / "encoder")).encoder.backbone.pooler.dense.weight, trained
    )


def test_training_begins_with_a_new_layer_unless_the_start_keeps_its_own(tmp_path: Path):
    start = tiny_checkpoint(tmp_path / "bert")
    (tmp_path / "sup-simcse-tiny").symlink_to(start, target_is_directory=True)
    own = AutoModel.from_pretrained(start).pooler.dense.weight
    starts = [
        config(tmp_path / name, seed)
        for name, seed in (("bert", 0), ("bert", 1), ("sup-simcse-tiny", 0))
    ]
    layers = [SimCSE(start).encoder.backbone.pooler.dense.weight for start in starts]
    assert torch.equal(layers[2], own)
    assert not torch.equal(layers[0], layers[1])
    assert 0.01 < float(layers[0].detach().std()) < 0.03


def test_what_has_no_layer_or_no_triplets_is_refused(tiny_encoder: Path, tmp_path: Path):
    with pytest.raises(
        EncoderError, match="was saved without the layer of pooling 'pooler'; set pooling=cls"
    ):
        Encoder.from_pretrained(tiny_encoder, "pooler")
    shape = {"vocab_size": 28, "dim": 8, "hidden_dim": 8, "n_layers": 1, "n_heads": 2}
    DistilBertModel(DistilBertConfig(**shape)).save_pretrained(tmp_path / "distil")
    tiny_tokenizer("bert").save_pretrained(tmp_path / "distil")
    with pytest.raises(EncoderError, match="'distilbert' backbone has no tanh layer"):
        Encoder.from_pretrained(tmp_path / "distil", "pooler")
    with pytest.raises(DataError, match="simcse trains on sentences"):
        fit(SimCSE(config(tiny_encoder, supervised=False)), TRIPLETS)
    for other in CONFIGS.keys() - {"simcse"}:
        assert "paper-supervised" not in CONFIGS[other].profiles
        assert "supervised" not in CONFIGS[other].model_fields
