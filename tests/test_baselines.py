"""The untrained bases: whitening from its definition, static words, tf-idf, poolings, published checkpoints."""

import logging
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from workbench.baselines import Base, StaticWords, TfIdf, Whitened, Whitening, load_base
from workbench.config import BaseConfig
from workbench.data import Pairs, load_sentences
from workbench.encoder import READINGS, Encoder, Reading, published_reading
from workbench.errors import DataError, SettingError
from workbench.evaluation import evaluate

POOLINGS = ["cls", "mean", "first_last", "embedding_last", "max"]


def base_of(encoder: Path, sentences: list[str] | None = None, **overrides: object) -> Base:
    given = {"encoder": str(encoder), "pooling": None, "width": None, "device": "cpu", **overrides}
    return load_base(BaseConfig.from_parameters("demo", 0, given), sentences)


@pytest.fixture
def encoder(tiny_encoder: Path) -> Encoder:
    return Encoder.from_pretrained(tiny_encoder, pooling="mean", device="cpu")


@pytest.fixture
def vectors() -> np.ndarray:
    generator = np.random.default_rng(0)
    return generator.normal(size=(200, 6)) @ generator.normal(size=(6, 6)) + generator.normal(size=6)


@pytest.mark.parametrize("width", [None, 1, 4])
def test_whitened_vectors_have_mean_zero_and_the_identity_as_covariance(vectors: np.ndarray, width: int | None):
    whitened = Whitening.fit(vectors, width)(vectors)
    assert whitened.shape == (200, width or 6)
    np.testing.assert_allclose(whitened.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.cov(whitened, rowvar=False), np.eye(width or 6), atol=1e-10)


def test_whitening_keeps_the_directions_of_largest_variance(vectors: np.ndarray):
    scales = np.array([1.0, 10.0, 0.1, 5.0])
    independent = np.linalg.qr(vectors[:, :4] - vectors[:, :4].mean(axis=0))[0] * scales
    kernel = Whitening.fit(independent, 2).kernel
    assert np.abs(kernel).argmax(axis=0).tolist() == [1, 3]
    # W = U Lambda^-1/2: the inverse of each direction's standard deviation.
    np.testing.assert_allclose(np.abs(kernel).max(axis=0), math.sqrt(199) / scales[[1, 3]], rtol=1e-9)


def test_whitening_all_directions_gives_the_mahalanobis_inner_product(vectors: np.ndarray):
    whitening = Whitening.fit(vectors)
    centred = vectors - vectors.mean(axis=0)
    expected = centred @ np.linalg.inv(np.cov(vectors, rowvar=False)) @ centred.T
    np.testing.assert_allclose(whitening(vectors) @ whitening(vectors).T, expected, atol=1e-8)


def test_a_direction_without_variance_is_never_kept(vectors: np.ndarray):
    flat = np.hstack([vectors, vectors[:, :2] @ np.ones((2, 1)), np.full((200, 1), 3.0)])
    assert Whitening.fit(flat).kernel.shape == (8, 6)
    with pytest.raises(ValueError, match="vary in 6 directions, and width is 7; give a width of at most 6"):
        Whitening.fit(flat, 7)


@pytest.mark.parametrize(
    ("given", "cause"),
    [(np.ones((1, 4)), "n at least 2"), (np.ones(4), "n at least 2"), (np.ones((5, 4)), "vary in 0 directions")],
)
def test_too_few_or_equal_vectors_cannot_be_whitened(given: np.ndarray, cause: str):
    with pytest.raises(ValueError, match=cause):
        Whitening.fit(given)


def test_vectors_are_those_of_the_forward_pass(encoder: Encoder, tiny_sentences: list[str]):
    found = encoder.vectors(tiny_sentences, batch_size=7)
    with torch.no_grad():
        alone = torch.cat([encoder(encoder.tokenize([sentence])) for sentence in tiny_sentences])
    assert_close(found, alone, rtol=0, atol=1e-5)
    assert (found.norm(dim=1) - 1).abs().max() > 0.1


def test_whitened_sentences_have_no_common_direction(encoder: Encoder, tiny_sentences: list[str]):
    base = Whitened(encoder, tiny_sentences, width=5)
    whitened = base.whitening(encoder.vectors(tiny_sentences).numpy())
    np.testing.assert_allclose(np.cov(whitened, rowvar=False), np.eye(5), atol=1e-6)
    expected = torch.nn.functional.normalize(torch.from_numpy(whitened), dim=1).float()
    assert_close(base.encode(tiny_sentences), expected, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="more different sentences"):
        Whitened(encoder, tiny_sentences[:3], width=5)


def test_layer_norm_leaves_mean_pooling_one_direction_short(encoder: Encoder, tiny_sentences: list[str]):
    # Each state's normalised coordinates add up to 0, so that a sixteenth direction would be rounding alone.
    assert Whitened(encoder, tiny_sentences).encode(["a cat"]).shape == (1, 15)


def test_static_words_are_the_mean_of_the_embedding_table(encoder: Encoder, tiny_sentences: list[str]):
    base = StaticWords(encoder)
    table = encoder.backbone.get_input_embeddings().weight.detach()
    found = base.encode(tiny_sentences)
    for row, sentence in enumerate(tiny_sentences):
        mean = torch.stack([table[encoder.tokenizer.convert_tokens_to_ids(word)] for word in sentence.split()]).mean(0)
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
    assert base.score(["a cat", "a cat"], ["a dog", "unseen"]).tolist() == pytest.approx([cosine, 0.0])
    assert TfIdf(["a cat", "a dog"], words=1).encode(["a cat"]).tolist() == [[1.0]]
    with pytest.raises(ValueError, match="tf-idf cannot be fitted on 2 sentences"):
        TfIdf(["", " "])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_pooling_is_the_encoder_as_it_is(tiny_encoder: Path, tiny_sentences: list[str], pooling: str):
    expected = Encoder.from_pretrained(tiny_encoder, pooling=pooling, device="cpu").encode(tiny_sentences)
    assert_close(base_of(tiny_encoder, pooling=pooling).encode(tiny_sentences), expected)


@pytest.mark.parametrize("kind", ["pooling", "whitening", "static", "tfidf"])
def test_every_base_gives_unit_rows_and_can_be_evaluated(tiny_encoder: Path, tiny_sentences: list[str], kind: str):
    base = base_of(tiny_encoder, tiny_sentences, kind=kind, pooling="first_last", words=None)
    rows = base.encode(tiny_sentences)
    assert rows.dtype == torch.float32
    assert rows.device.type == "cpu"
    assert_close(rows.norm(dim=1), torch.ones(60))
    assert_close(base.encode(tiny_sentences[::-1]), rows.flip(0), rtol=0, atol=1e-5)
    gold = np.linspace(0, 5, 30)
    ids = [str(i) for i in range(30)]
    suite = Pairs("tiny", tiny_sentences[:30], tiny_sentences[30:], gold, None, ids, (0.0, 5.0), "made here", "0")
    assert -1 <= evaluate(base.encode, {"tiny": suite}).metrics["tiny"]["spearman"] <= 1


def test_every_profile_resolves_and_those_of_the_world_load():
    sentences = load_sentences("world", limit=200).sentences
    for profile in BaseConfig.profiles:
        config = BaseConfig.from_parameters(profile)
        assert config.table()["meaning"].str.len().gt(0).all()
        if profile.startswith("demo"):
            assert torch.isfinite(load_base(config, sentences).encode(sentences[:2])).all()
    assert BaseConfig.from_parameters("whitening").width == 256
    assert BaseConfig.from_parameters("whitening-large").width == 384


def test_a_setting_of_another_kind_is_refused():
    with pytest.raises(SettingError, match="width belongs to kind 'whitening', and kind is 'static'"):
        BaseConfig.from_parameters("static", 0, {"width": 8})
    with pytest.raises(SettingError, match="words belongs to kind 'tfidf'"):
        BaseConfig.from_parameters("cls", 0, {"words": 8})
    with pytest.raises(DataError, match="no dataset 'wrold'"):
        load_base(BaseConfig.from_parameters("tfidf", 0, {"fit_on": "wrold"}))


PUBLISHED = {
    "princeton-nlp/unsup-simcse-bert-base-uncased": ("cls", None),
    "voidism/diffcse-bert-base-uncased-sts": ("cls", None),
    "perceptiveshawty/rankcse-listmle-bert-base-uncased": ("cls", None),
    "perceptiveshawty/compositional-bert-base-uncased": ("cls", None),
    "royokong/unsup-PromptBERT": ("mask", 'This sentence of "{sentence}" means [MASK].'),
    "royokong/unsup-PromptRoBERTa": ("mask", "This sentence : ' {sentence} ' means [MASK]."),
    "models/SNCSE-bert-base-uncased": ("mask", 'This sentence : " {sentence} " means [MASK] .'),
    "/hub/models--royokong--unsup-PromptBERT/snapshots/0123abc": (
        "mask",
        'This sentence of "{sentence}" means [MASK].',
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_checkpoints_are_read_as_their_authors_read_them(name: str):
    reading = published_reading(name)
    assert reading is not None
    assert (reading.pooling, reading.template) == PUBLISHED[name]
    assert not reading.caution


def test_what_cannot_be_read_as_published_says_so():
    for name in ("princeton-nlp/sup-simcse-bert-base-uncased", "royokong/sup-PromptBERT", "royokong/sup-PromptRoBERTa"):
        reading = published_reading(name)
        assert reading is not None
        assert "here" in reading.caution
    assert published_reading("bert-base-uncased") is None
    assert published_reading("") is None


def test_sentences_end_as_the_template_wants_them():
    prompt, sncse, plain = (published_reading(name) for name in ("unsup-PromptBERT", "sncse-bert", "unsup-simcse-bert"))
    assert prompt is not None
    assert sncse is not None
    assert plain is not None
    assert [prompt.finished(s) for s in ("a dog", "a dog.", "why?", 'he said "no"', "stop!", "")] == [
        "a dog.",
        "a dog.",
        "why?",
        'he said "no"',
        "stop!.",
        "",
    ]
    assert [sncse.finished(s) for s in ("a dog", "stop!")] == ["a dog .", "stop!"]
    assert plain.finished("a dog") == "a dog"


def test_templates_of_the_table_can_be_filled(encoder: Encoder):
    for _, reading in READINGS:
        if reading.template is not None:
            assert reading.pooling == "mask"
            assert reading.template.count("{sentence}") == reading.template.count("[MASK]") == 1


def test_a_prompted_base_reads_the_mask_of_the_finished_sentence(tiny_encoder: Path, tmp_path: Path):
    folder = tmp_path / "unsup-PromptBERT"
    folder.symlink_to(tiny_encoder, target_is_directory=True)
    base = base_of(folder)
    assert isinstance(base, Encoder)
    assert base.pooling == "mask"
    plain = Encoder.load(base.checkpoint, Reading("mask", base.template), device="cpu")
    assert_close(base.encode(["the cat sees"]), plain.encode(["the cat sees."]))
    assert base_of(folder, pooling="mean").pooling == "mean"  # type: ignore[attr-defined]
    assert Encoder.from_pretrained(folder).reading == base.reading


def test_any_encoder_can_be_read_at_the_mask_of_a_template(tiny_encoder: Path):
    template = 'the dog : "{sentence}" likes [MASK].'
    base = base_of(tiny_encoder, pooling="mask", template=template)
    expected = Encoder.from_pretrained(tiny_encoder, pooling="mask", template=template, device="cpu")
    assert_close(base.encode(["the cat sees", "why?"]), expected.encode(["the cat sees.", "why?"]))
    # Without training, the template of PromptBERT's own script.
    prompt = BaseConfig.from_parameters("prompt")
    assert (prompt.pooling, prompt.template) == ("mask", 'This sentence : "{sentence}" means [MASK].')
    with pytest.raises(SettingError, match="template belongs to pooling 'mask', and pooling is 'cls'"):
        BaseConfig.from_parameters("cls", 0, {"template": template})


def test_a_caution_is_logged(tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = tmp_path / "sup-simcse-bert"
    folder.symlink_to(tiny_encoder, target_is_directory=True)
    with caplog.at_level(logging.WARNING, "workbench"):
        base_of(folder)
    assert "keeps its tanh layer" in caplog.text
