"""The untrained baselines: whitening from its definition, static words, tf-idf, poolings, published
checkpoints."""

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch.testing import assert_close

from workbench.checkpoints import EncodingSpec, published_spec
from workbench.config import BaselineConfig
from workbench.data import Pairs, load_sentences
from workbench.encoder import Encoder
from workbench.errors import DataError, SettingError
from workbench.evaluation import StaticWords, TfIdf, Whitened, evaluate, load_baseline


def base_of(encoder: Path, sentences: list[str] | None = None, **overrides: object) -> Any:
    given = {"encoder": str(encoder), "pooling": None, "width": None, "device": "cpu", **overrides}
    return load_baseline(BaselineConfig.from_parameters("demo", 0, given), sentences)


@pytest.fixture
def encoder(tiny_encoder: Path) -> Encoder:
    return Encoder.from_pretrained(tiny_encoder, pooling="mean", device="cpu")


@pytest.fixture
def vectors() -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(200, 6)) @ generator.normal(size=(6, 6)) + generator.normal(
        size=6
    )


class Fixed:
    """Encoder that returns rows of a matrix; a sentence is the row number."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.sentences = torch.from_numpy(rows), [str(row) for row in range(len(rows))]

    def encode(
        self, sentences: list[str], batch_size: int = 64, *, normalize_embeddings: bool = True
    ) -> torch.Tensor:
        assert not normalize_embeddings
        return self.rows[[int(sentence) for sentence in sentences]]


def whitened(rows: np.ndarray, width: int | None = None) -> np.ndarray:
    encoder: Any = Fixed(rows)
    return Whitened(encoder, encoder.sentences, width=width).encode(encoder.sentences).numpy()


@pytest.mark.parametrize("width", [None, 1, 4])
def test_whitening_is_the_projection_on_the_first_directions_over_their_deviations(
    vectors: np.ndarray, width
):
    variances, directions = np.linalg.eigh(np.cov(vectors, rowvar=False))
    # U Lambda^-1/2, by falling variance.
    kernel = (directions / np.sqrt(variances))[:, ::-1][:, :width]
    expected = (vectors - vectors.mean(axis=0)) @ kernel
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = whitened(vectors, width)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-6)


def test_a_direction_without_variance_is_never_kept(
    vectors: np.ndarray, encoder: Encoder, tiny_sentences: list[str]
):
    flat = np.hstack([vectors, vectors[:, :2] @ np.ones((2, 1)), np.full((200, 1), 3.0)])
    assert whitened(flat).shape == (200, 6)
    with pytest.raises(DataError, match="width is 7, but 200 vectors vary in 6 directions"):
        whitened(flat, 7)
    with pytest.raises(DataError, match="tf-idf of 2 sentences: empty vocabulary"):
        TfIdf(["?", "!"])
    # Each state's normalised coordinates add up to 0, so that a sixteenth direction would be
    # rounding alone.
    assert Whitened(encoder, tiny_sentences).encode(["a cat"]).shape == (1, 15)


def test_static_words_are_the_mean_of_the_embedding_table(
    encoder: Encoder, tiny_sentences: list[str]
):
    base = StaticWords(encoder)
    table = encoder.backbone.get_input_embeddings().weight.detach()
    found = base.encode(tiny_sentences)
    for row, sentence in enumerate(tiny_sentences):
        mean = torch.stack(
            [table[encoder.tokenizer.convert_tokens_to_ids(word)] for word in sentence.split()]
        ).mean(0)
        assert_close(found[row], mean / mean.norm(), rtol=0, atol=1e-6)
    # The order of the words is not seen, and an empty sentence has no word.
    assert_close(base.encode(["cat the sees"]), base.encode(["the cat sees"]))
    assert base.encode(["", "cat"]).norm(dim=1).tolist() == pytest.approx([0.0, 1.0])
    assert base.encode([]).shape == (0, 16)


def test_tfidf_weighs_a_rare_word_more_by_its_definition():
    base = TfIdf(["a cat", "a dog", "a bird"])
    weights = {"a": math.log(4 / 4) + 1, "cat": math.log(4 / 2) + 1, "dog": math.log(4 / 2) + 1}
    cosine = weights["a"] ** 2 / (weights["a"] ** 2 + weights["cat"] ** 2)
    vectors = base.encode(["a cat", "A dog!", "unseen"])
    assert float(vectors[0] @ vectors[1]) == pytest.approx(cosine, abs=1e-6)
    assert vectors[2].abs().sum() == 0
    assert base.score(["a cat", "a cat"], ["a dog", "unseen"]).tolist() == pytest.approx(
        [cosine, 0.0]
    )
    assert TfIdf(["a cat", "a dog"], words=1).encode(["a cat"]).tolist() == [[1.0]]


@pytest.mark.parametrize("kind", ["pooling", "whitening", "static", "tfidf"])
def test_every_base_gives_unit_rows_and_can_be_evaluated(
    tiny_encoder: Path, tiny_sentences: list[str], kind: str
):
    base = base_of(tiny_encoder, tiny_sentences, kind=kind, pooling="avg_first_last", words=None)
    rows = base.encode(tiny_sentences)
    assert rows.dtype == torch.float32
    assert rows.device.type == "cpu"
    assert_close(rows.norm(dim=1), torch.ones(60))
    assert_close(base.encode(tiny_sentences[::-1]), rows.flip(0), rtol=0, atol=1e-5)
    gold = np.linspace(0, 5, 30)
    ids = [str(i) for i in range(30)]
    suite = Pairs(
        "tiny",
        tiny_sentences[:30],
        tiny_sentences[30:],
        gold,
        None,
        ids,
        (0.0, 5.0),
        "made here",
        "0",
    )
    report = evaluate(base.encode, {"tiny": suite})
    cosines = (rows[:30] * rows[30:]).sum(dim=1)
    np.testing.assert_allclose(report.scores["predicted"], cosines.numpy(), atol=1e-5)
    # Of the same scores: rounding would order near ones in another way.
    expected = spearmanr(gold, report.scores["predicted"]).statistic
    assert report.metrics["tiny"]["spearman"] == pytest.approx(expected, abs=1e-12)


def test_profiles_of_the_world_load_and_a_setting_of_another_kind_is_refused():
    sentences = load_sentences("world", limit=200).sentences
    for profile in (name for name in BaselineConfig.profiles if name.startswith("demo")):
        base = load_baseline(BaselineConfig.from_parameters(profile), sentences)
        assert torch.isfinite(base.encode(sentences[:2])).all()
    for profile, setting, owner in (
        ("static", "width", "kind"),
        ("cls", "words", "kind"),
        ("cls", "template", "pooling"),
    ):
        with pytest.raises(SettingError, match=f"{setting} belongs to {owner}"):
            BaselineConfig.from_parameters(
                profile, 0, {setting: 8 if owner == "kind" else "{sentence} [MASK]"}
            )
    with pytest.raises(DataError, match="no dataset 'wrold'"):
        load_baseline(BaselineConfig.from_parameters("tfidf", 0, {"fit_on": "wrold"}))


PUBLISHED = {
    "princeton-nlp/unsup-simcse-bert-base-uncased": ("cls", None),
    "princeton-nlp/sup-simcse-bert-base-uncased": ("pooler", None),
    "perceptiveshawty/rankcse-listmle-bert-base-uncased": ("cls", None),
    "perceptiveshawty/compositional-bert-base-uncased": ("cls", None),
    "royokong/unsup-PromptBERT": ("mask", 'This sentence of "{sentence}" means [MASK].'),
    "royokong/unsup-PromptRoBERTa": ("mask", "This sentence : ' {sentence} ' means [MASK]."),
    "models/SNCSE-bert-base-uncased": ("mask", 'This sentence : " {sentence} " means [MASK] .'),
    "/hub/models--royokong--unsup-PromptBERT/snapshots/0": (
        "mask",
        'This sentence of "{sentence}" means [MASK].',
    ),
}


def test_published_checkpoints_are_read_as_their_authors_read_them():
    specs = {name: published_spec(name) for name in PUBLISHED}
    assert {
        name: each and (each.pooling, each.template) for name, each in specs.items()
    } == PUBLISHED
    for name in ("royokong/sup-PromptBERT", "royokong/sup-PromptRoBERTa"):
        spec = published_spec(name)
        assert spec is not None
        assert "here" in spec.caution
    assert published_spec("bert-base-uncased") is published_spec("") is None


def test_a_checkpoint_is_read_by_its_published_name(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path / "unsup-PromptBERT"
    folder.symlink_to(tiny_encoder, target_is_directory=True)
    base = base_of(folder)
    assert isinstance(base, Encoder)
    assert base.pooling == "mask"
    plain = Encoder(base.checkpoint, EncodingSpec("mask", base.template), device="cpu")
    assert_close(base.encode(["the cat sees"]), plain.encode(["the cat sees."]))
    assert base_of(folder, pooling="mean").pooling == "mean"
    template = 'the dog : "{sentence}" likes [MASK].'  # of any encoder
    expected = Encoder.from_pretrained(
        tiny_encoder, pooling="mask", template=template, device="cpu"
    )
    ended = base_of(tiny_encoder, pooling="mask", template=template).encode(
        ["the cat sees", "why?"]
    )
    assert_close(ended, expected.encode(["the cat sees.", "why?"]))
    (tmp_path / "sup-PromptBERT").symlink_to(tiny_encoder, target_is_directory=True)
    with caplog.at_level(logging.WARNING, "workbench"):
        base_of(tmp_path / "sup-PromptBERT")
    assert "a further layer" in caplog.text
