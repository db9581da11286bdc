"""RankEncoder: losses and similarity from the equations, every variant by name, an unusable
corpus."""

import gzip
import logging
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from tiny_checkpoints import SHORT, tiny_checkpoint

from workbench.config import RankEncoderConfig, SimCSEConfig
from workbench.data import Pairs, Sentences, load_pairs, load_sentences
from workbench.encoder import Encoder
from workbench.errors import DataError, EncoderError, RunError, SettingError
from workbench.evaluation import evaluate
from workbench.files import project_path
from workbench.losses import info_nce
from workbench.methods.rank_distillation import load_e1
from workbench.methods.rank_mixture import RankMixture, rank_premise, rank_similarity
from workbench.methods.rank_targets import RankTargets, draw_corpus, write_corpus
from workbench.methods.rank_vectors import Corpus, rank_vectors
from workbench.methods.rankencoder import RankEncoder
from workbench.methods.simcse import SimCSE
from workbench.metrics import spearman, uniformity
from workbench.runs import Run
from workbench.training import fit
from workbench.views.notebooks import table_html

ROWS = [3, 1, 4, 15, 9, 26]


@pytest.fixture
def spread(spread_encoder: Path) -> Path:
    return spread_encoder


def config_of(spread: Path, **overrides: object) -> RankEncoderConfig:
    small = {
        "encoder": str(spread),
        "base": str(spread),
        "cache": str(spread.parent / "cache"),
        "corpus_size": 40,
    }
    small |= SHORT | {"device": "cpu"}
    return RankEncoderConfig.from_parameters("demo", 0, small | {"dropout": 0.0} | overrides)


def prepared(spread: Path, sentences: Sentences, **overrides: object) -> RankEncoder:
    method = RankEncoder(config_of(spread, **overrides))
    method.prepare(sentences)
    return method.train()


def naive_targets(method: RankEncoder, sentences: Sentences) -> np.ndarray:
    """Return scipy's Spearman of each pair's similarity lists, from half-precision rows."""
    base = load_e1(method.config)
    corpus = base.encode(method.corpus).half().double().numpy()
    rows = base.encode([sentences.sentences[row] for row in ROWS]).half().double().numpy()
    lists = rows @ corpus.T
    return np.array([[scipy.stats.spearmanr(a, b).statistic for b in lists] for a in lists])


def test_the_loss_is_equations_5_and_6_of_scipys_spearman(spread: Path, sentences: Sentences):
    low, high, weight = -0.2, 0.7, 0.3
    everything = prepared(spread, sentences, lower="none", upper="none")
    everything(everything.collate(ROWS))
    assert everything.observations()["kept_pairs"] == 1.0
    method = prepared(
        spread, sentences, combination="sum", rank_weight=weight, lower=low, upper=high
    )
    target = naive_targets(method, sentences)
    assert method.head is not None
    with torch.no_grad():
        hidden = method.encoder(method.encoder.tokenize([sentences.sentences[row] for row in ROWS]))
        z = (
            torch.tanh(hidden @ method.head.linear.weight.T + method.head.linear.bias)
            .double()
            .numpy()
        )
    cosines = (z @ z.T) / np.outer(np.linalg.norm(z, axis=1), np.linalg.norm(z, axis=1))
    kept = (low <= target) & (target <= high)
    assert 0 < kept.sum() < kept.size
    expected = ((target - cosines) ** 2)[kept].sum() / kept.sum()
    terms = method(method.collate(ROWS))
    assert terms["rank_mse"].item() == pytest.approx(weight * expected, rel=1e-5)
    contrastive = info_nce(torch.from_numpy(cosines), temperature=0.05).item()
    assert terms["info_nce"].item() == pytest.approx(contrastive, rel=1e-4)
    seen = method.observations()
    assert seen["kept_pairs"] == pytest.approx(kept.mean())
    assert seen["rank_larger"] == float(weight * expected > contrastive)
    assert [seen["rank_mse"], seen["info_nce"]] == pytest.approx(
        [weight * expected, contrastive], rel=1e-4
    )
    hinge = prepared(
        spread, sentences, combination="max", rank_weight=weight, lower=low, upper=high
    )
    found = hinge(hinge.collate(ROWS))
    assert list(found) == ["hinge"]
    assert found["hinge"].item() == pytest.approx(max(weight * expected, contrastive), rel=1e-4)


def test_targets_stored_ranked_in_the_step_and_in_closed_form_are_the_exact_rank_similarities(
    spread: Path, sentences: Sentences
):
    base = load_e1(config_of(spread))
    rows, everyone = (
        base.encode([sentences.sentences[row] for row in ROWS]),
        list(range(len(sentences))),
    )
    # Half precision: 2^-11 of each of two unit vectors; of the closed form, of E1's vectors before
    # they are ranked.
    for asked, how, atol in (
        ({}, "exact", 5e-3),
        ({"ranks": "stored"}, "exact", 5e-3),
        ({}, "gaussian", 5e-3),
    ):
        method = prepared(spread, sentences, similarity=how, **asked)
        expected = rank_similarity(rows, rows, base.encode(method.corpus), how=how)
        assert (method.ranks.targets.stored is not None) == bool(asked)
        found = method.ranks.targets.similarities(method.collate(ROWS)["base"])
        torch.testing.assert_close(found, expected, rtol=0, atol=atol)
        itself = method.ranks.targets.similarities(method.collate(everyone)["base"])
        assert itself.max() <= 1
        assert itself.diagonal().min() > 0.999
    with pytest.raises(SettingError, match="ranks='stored' would keep"):
        RankTargets(
            np.zeros((10**7, 2), np.float16), Corpus(torch.eye(2).repeat(5000, 1)), stored=True
        )


def test_encode_is_the_mixture_and_encode_plain_the_cosine(spread: Path, sentences: Sentences):
    method = prepared(spread, sentences, inference_weight=0.3)
    some = sentences.sentences[:9]
    plain = method.encoder.encode(some)
    assert torch.equal(method.encode_plain(some), plain)
    found = method.encode(some)
    assert found.shape == (9, method.encoder.dimension + 40)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(9))
    ranks = rank_similarity(plain, plain, method.encoder.encode(method.corpus))
    torch.testing.assert_close(
        found @ found.T, 0.3 * ranks + 0.7 * plain @ plain.T, rtol=0, atol=1e-6
    )
    scores = method.score(some, some[::-1])
    np.testing.assert_allclose(scores, (found * found.flip(0)).sum(dim=1).numpy(), atol=1e-6)


def test_the_corpus_is_embedded_again_only_after_a_step_or_a_load(
    spread: Path, sentences: Sentences, tmp_path: Path
):
    method = prepared(spread, sentences)
    changes = {
        "step": lambda: method(method.collate(ROWS)),
        "load": lambda: method.load_state_dict(method.state_dict()),
        "load of the encoder": lambda: method.encoder.load_state_dict(method.encoder.state_dict()),
        "restore": lambda: method.restore(tmp_path / "saved"),
        "prepare": lambda: method.prepare(sentences),
    }
    method.save(tmp_path / "saved")
    for name, change in changes.items():
        first = method.mixture()
        assert method.mixture() is first
        change()
        assert method.mixture() is not first, name


def test_of_the_closed_form_score_is_exact_and_encode_its_nearest_dot_product(
    spread: Path, sentences: Sentences, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("workbench.methods.rank_mixture._BLOCK_NUMBERS", 7 * 16)
    encoder = Encoder.from_pretrained(spread, pooling="cls", device="cpu")
    mixture = RankMixture(encoder.encode, sentences.sentences, weight=1.0, similarity="gaussian")
    some = sentences.sentences[:8]
    found = mixture.encode(some)
    assert found.shape == (8, 2 * encoder.dimension)
    vectors = encoder.encode(some)
    closed = rank_similarity(vectors, vectors, encoder.encode(sentences.sentences), how="gaussian")
    first, second = [a for a in some for _ in some], some * 8
    np.testing.assert_allclose(mixture.score(first, second), closed.flatten().numpy(), atol=1e-5)
    correlation = found @ found.T
    torch.testing.assert_close(
        6 / math.pi * torch.asin(correlation.clamp(-1, 1) / 2), closed, rtol=0, atol=1e-5
    )
    assert (correlation - closed).abs().max() <= 0.0181


def test_a_saved_method_is_restored_with_its_corpus_and_read_by_others(
    spread: Path, sentences: Sentences, tmp_path: Path
):
    method = prepared(spread, sentences, inference_weight=0.5)
    some = sentences.sentences[:5]
    method.save(tmp_path / "encoder", card={"title": "tiny"})
    method.eval()
    fresh = RankEncoder(config_of(spread, inference_weight=0.5))
    with pytest.raises(
        RunError, match=r"no corpus before `prepare` or `restore`; use `encode_plain`"
    ):
        fresh.encode(some)
    with torch.no_grad():
        next(fresh.encoder.parameters()).mul_(2)
    fresh.restore(tmp_path / "encoder")
    assert fresh.corpus == method.corpus
    torch.testing.assert_close(fresh.encode(some), method.encode(some))
    with pytest.raises(EncoderError, match="5 first and 1 second sentences are no pairs"):
        method.score(some, some[:1])
    plain = method.encoder.encode(some)
    torch.testing.assert_close(
        Encoder.from_pretrained(tmp_path / "encoder", device="cpu").encode(some), plain
    )
    assert "corpus.json.gz" in (tmp_path / "encoder" / "README.md").read_text()
    method.encoder.save(tmp_path / "another")
    with pytest.raises(EncoderError, match=r"has no corpus\.json\.gz"):
        fresh.restore(tmp_path / "another")


def test_a_prompted_e2_reads_sentences_ended_as_its_base_does(
    spread: Path, sentences: Sentences, tmp_path: Path
):
    folder = shutil.copytree(spread, tmp_path / "unsup-promptbert")
    template = 'the "{sentence}" sees [MASK].'
    method = prepared(
        spread,
        sentences,
        base=str(folder),
        base_template=template,
        pooling="mask",
        template=template,
    )
    sentence = sentences.sentences[0]
    torch.testing.assert_close(
        method.encode_plain([sentence]), method.encode_plain([f"{sentence}."])
    )
    ids = method.collate([0])["tokens"]["input_ids"]
    assert torch.equal(ids[0], method.encoder.tokenize([f"{sentence}."])["input_ids"][0])
    assert torch.equal(ids[0], ids[1]), "one template is that of both views"
    other = {"template": template, "second_template": 'a : "{sentence}" likes [MASK].'}
    method = prepared(spread, sentences, pooling="mask", base_pooling="cls", **other)
    first, second = method.collate(ROWS)["tokens"]["input_ids"].chunk(2)
    decode = method.encoder.tokenizer.decode
    assert decode(first[0], skip_special_tokens=True).startswith("the")
    assert decode(second[0], skip_special_tokens=True).startswith("a")
    for side in (first, second):
        read = [decode(ids, skip_special_tokens=True) for ids in side]
        assert all(sentences.sentences[row] in text for row, text in zip(ROWS, read, strict=True))


def test_e2_starts_from_the_backbone_or_from_e1(spread: Path, tiny_encoder: Path, tmp_path: Path):
    weights = {
        start: next(
            RankEncoder(
                config_of(spread, encoder=str(tiny_encoder), start=start)
            ).encoder.parameters()
        )
        for start in ("backbone", "base")
    }
    expected = {"backbone": tiny_encoder, "base": spread}
    for start, folder in expected.items():
        loaded = Encoder.from_pretrained(folder, pooling="cls", device="cpu")
        assert torch.equal(weights[start], next(loaded.parameters()))
    e1 = tiny_checkpoint(tmp_path / "mine")
    method = RankEncoder(config_of(e1, start="base", base_pooling="pooler"))
    own = Encoder.from_pretrained(e1, "pooler", device="cpu").backbone.pooler.dense.weight
    assert torch.equal(method.encoder.backbone.pooler.dense.weight, own), "a new layer"
    # What E2 does not start from need not be there.
    assert config_of(spread, encoder="nobody/no-such", start="base").checkpoints == [str(spread)]


def test_a_base_named_by_its_method_is_its_run_of_the_same_seed(
    spread: Path,
    sentences: Sentences,
    graded: Pairs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    with pytest.raises(EncoderError, match="set base_root to the folder of runs"):
        load_e1(config_of(spread, base="simcse"))
    config = config_of(spread, base="simcse", base_root=str(tmp_path))
    with pytest.raises(EncoderError, match="workbench run simcse --profile demo --seed 0"):
        RankEncoder(config).prepare(sentences)
    shared = {
        "encoder": str(spread),
        "batch_size": 8,
        "max_steps": 2,
        "eval_steps": 2,
        "device": "cpu",
    }
    monkeypatch.setitem(SimCSEConfig.profiles, "demo", SimCSEConfig.profiles["demo"] | shared)
    run = Run.open(SimCSEConfig.from_parameters("demo", 0), tmp_path)
    simcse = SimCSE(run.config)
    fit(simcse, sentences, dev=graded, run=run)
    evaluate(simcse.encode, {"dev": graded}, run=run)
    some = sentences.sentences[:4]
    torch.testing.assert_close(load_e1(config).encode(some), simcse.encode(some))
    # The folder of the runs does not affect the result.
    assert config.digest() == config_of(spread, base="simcse").digest()


def test_a_run_is_refused_with_another_corpus_than_it_saved(
    spread: Path, sentences: Sentences, graded: Pairs, tmp_path: Path
):
    method = RankEncoder(config_of(spread, inference_weight=0.5, max_steps=2, batch_size=8))
    run = Run.open(method.config, tmp_path)
    fit(method, sentences, run=run, quiet=True)
    evaluate(method, {"dev": graded}, run=run)
    saved = run.path / "encoder"
    RankEncoder(method.config).restore(saved)
    write_corpus(saved, sentences.sentences[:3])
    with pytest.raises(EncoderError, match=r"corpus\.json\.gz was changed after the run saved it"):
        RankEncoder(method.config).restore(saved)
    alone = shutil.copytree(saved, tmp_path / "alone")
    (alone / "corpus.json.gz").write_bytes(gzip.compress(b'["a", '))
    with pytest.raises(DataError, match=r"corpus\.json\.gz is damaged; restore it"):
        RankEncoder(method.config).restore(alone)


def test_the_corpus_is_distinct_seeded_and_as_large_as_asked(
    sentences: Sentences, caplog: pytest.LogCaptureFixture
):
    doubled = Sentences("doubled", sentences.sentences * 3, "here", "0")
    drawn = draw_corpus(doubled, 30, 0)
    assert len(set(drawn)) == 30
    assert drawn == draw_corpus(doubled, 30, 0)
    assert drawn != draw_corpus(doubled, 30, 1)
    with caplog.at_level(logging.WARNING):
        assert draw_corpus(doubled, 100, 0) == sentences.sentences
    assert "60 distinct sentences: all are taken" in caplog.text


def test_e1_and_the_corpus_are_those_of_the_settings(
    spread: Path, sentences: Sentences, tmp_path: Path
):
    other_run = RankEncoder(
        RankEncoderConfig.from_parameters("demo", 1, config_of(spread).changed())
    )
    other_run.prepare(sentences)
    corpus = prepared(spread, sentences).corpus
    assert other_run.corpus == corpus, "its embeddings are shared by all seeds"
    assert prepared(spread, sentences, corpus_seed=1).corpus != corpus
    file, cache = tmp_path / "corpus.txt", tmp_path / "cache"
    file.write_text("\n".join(sentences.sentences[:9]))
    method = prepared(spread, sentences, corpus=str(file), cache=str(cache))
    assert method.inputs().keys() == {"base", "corpus"}
    assert any(cache.iterdir())
    template = "{sentence} sees [MASK]"
    base = load_e1(config_of(spread, base_pooling="mask", base_template=template))
    assert (base.pooling, base.template) == ("mask", template)
    assert load_e1(config_of(spread, base_max_seq_length=9)).max_seq_length == 9


def test_a_corpus_that_cannot_be_ranked_is_refused(
    spread: Path, sentences: Sentences, tmp_path: Path
):
    copies = tmp_path / "copies.txt"
    copies.write_text("the cat sees the dog\n" * 5)
    with pytest.raises(ValueError, match="1 distinct sentence"):
        prepared(spread, sentences, corpus=str(copies))
    # Different letters that this tokenizer knows as one unknown word.
    unseen = tmp_path / "unseen.txt"
    unseen.write_text("\u4e00\n\u4e01\n\u4e02\n", encoding="utf-8")
    with pytest.raises(ValueError, match="E1 gives all 3 corpus sentences one vector"):
        prepared(spread, sentences, corpus=str(unseen))
    unnamed = shutil.copytree(spread, tmp_path / "unnamed")
    with pytest.raises(EncoderError, match="base_pooling=cls of RankEncoder"):
        prepared(spread, sentences, base=str(unnamed))


def of_rows(rows: torch.Tensor) -> Any:
    """Return a function that embeds "7" as row 7, at length 1."""
    unit = torch.nn.functional.normalize(rows, dim=1)
    return lambda sentences, _batch_size=64: unit[[int(sentence) for sentence in sentences]]


def test_the_premise_is_uniformity_and_spearman_of_their_definitions(graded: Pairs):
    embed = of_rows(torch.randn(46, 9, generator=torch.Generator().manual_seed(1)))
    corpus, some = [str(row) for row in range(30, 46)], [str(row) for row in range(30)]
    pairs = replace(graded, sentence1=some[:24], sentence2=some[6:])
    table = rank_premise(embed, corpus, some, pairs)
    vectors = embed(some).double().numpy()
    ranked = rank_vectors(embed(some) @ embed(corpus).T).double().numpy()
    expected = {"uniformity": [uniformity(vectors), uniformity(ranked)]}
    scores = [(part[:24] * part[6:]).sum(axis=1) for part in (vectors, ranked)]
    expected["Spearman x 100, graded"] = [100 * spearman(pairs.gold, each) for each in scores]
    for name, values in expected.items():
        assert table.loc[name].tolist() == pytest.approx(values, abs=1e-5), name
    by_cosine, by_ranks = expected["Spearman x 100, graded"]
    assert f"On graded eq. 2 is {by_ranks - by_cosine:+.1f} points" in table.attrs["caption"]
    assert table.attrs["caption"] in table_html(table.round(2))


def test_neighbours_that_a_pair_shares_are_near_to_both_sentences_in_the_notebook():
    corpus, pairs = load_sentences("world").sentences[:50], load_pairs("world-dev", limit=20)
    encode = Encoder.from_pretrained("world-encoder").encode
    encoded = encode(corpus)
    notebook = nbformat.read(project_path("notebooks") / "14_rankencoder.ipynb", as_version=4)
    (cell,) = [cell for cell in notebook.cells if "is_near = []" in cell.source]
    values: dict[str, Any] = {"torch": torch, "pd": pd, "dev": pairs}
    values["of_base"] = RankMixture(encode, corpus, weight=1.0)
    exec(cell.source, values)
    table = values["compared"]
    for side1, side2, shared in zip(pairs.sentence1, pairs.sentence2, table["shared"], strict=True):
        nearest = [
            set(np.argsort(-(encoded @ encode(text)).numpy())[:5]) for text in (side1, side2)
        ]
        assert shared == len(nearest[0] & nearest[1])


def test_weights_tried_on_dev_are_those_of_whole_mixtures_and_change_nothing(
    spread: Path, sentences: Sentences, graded: Pairs
):
    method = prepared(spread, sentences)
    before = method.score(graded.sentence1, graded.sentence2)
    found = method.mixture().try_weights(graded, [0.0, 0.3, 1.0])
    for weight, value in found.items():
        mixture = RankMixture(method.encode_plain, method.corpus, weight=float(str(weight)))
        assert value == pytest.approx(
            spearman(graded.gold, mixture.score(graded.sentence1, graded.sentence2))
        )
    assert (found.index.name, found.name) == ("lambda_inf", "graded")
    assert found.nunique() == 3, "the weight matters here"
    np.testing.assert_array_equal(method.score(graded.sentence1, graded.sentence2), before)
