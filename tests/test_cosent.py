"""CoSENT: every objective from its equation, both models, every kind of label, and what cannot be trained."""

import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoints
import torch
from torch.nn import functional
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer

from workbench.config import CoSENTConfig
from workbench.data import Pairs, Sentences, Triples, dataset_names, load_pairs, load_training
from workbench.encoder import CrossEncoder, Encoder
from workbench.errors import DataError, EncoderError, SettingError
from workbench.evaluation import dev_values, evaluate
from workbench.losses import contrastive, cosent, mse, triplet
from workbench.methods import METHODS
from workbench.methods.cosent import CoSENT
from workbench.methods.cosent._labels import class_numbers, shares, sides, triple_rows
from workbench.runs import Run
from workbench.teachers import load_teacher
from workbench.train import fit

SCALES = {"sts": (0.0, 5.0), "sick": (1.0, 5.0), "binary": (0.0, 1.0), "nli": (0.0, 2.0)}
GOLD = {
    "sts": [0.0, 1.2, 2.5, 2.6, 5.0, 4.8, 3.0, 0.4],
    "sick": [1.0, 2.9, 3.0, 3.1, 5.0, 4.4, 2.0, 1.6],
    "binary": [0, 1, 1, 0, 1, 0, 0, 1],
    "nli": [0, 1, 2, 2, 1, 0, 0, 2],
}
REPRESENTATION = ["cosent", "mse", "softmax", "contrastive", "triplet"]
INTERACTION = ["cosent", "cross_entropy"]


def pairs(sentences: list[str], gold: list[float], scale: tuple[float, float], anchors: int = 4) -> Pairs:
    """As many pairs as gold, `anchors` different first sentences among them."""
    first = [sentences[row % anchors] for row in range(len(gold))]
    second = sentences[anchors : anchors + len(gold)]
    ids = [str(row) for row in range(len(gold))]
    return Pairs("tiny", first, second, np.asarray(gold, float), None, ids, scale, "made here", "0")


def method_of(encoder: Path | str, seed: int = 0, **overrides: object) -> CoSENT:
    small = {"encoder": str(encoder), "batch_size": 8, "eval_steps": 2, "save_steps": 2, "log_steps": 1, "max_steps": 4}
    return CoSENT(CoSENTConfig.from_parameters("demo", seed, small | {"device": "cpu", "dropout": 0.0} | overrides))


def test_each_objective_is_its_pure_function_of_the_pairs(tiny_encoder: Path, graded: Pairs):
    rows = list(range(8))
    for objective in ("cosent", "mse", "contrastive"):
        method = method_of(tiny_encoder, objective=objective, scale=7.0, epsilon=0.3, threshold=2.0)
        method.prepare(graded)
        terms = method(method.collate(rows))
        first, second = (method.encode(texts[:8]) for texts in (graded.sentence1, graded.sentence2))
        cosines, gold = (first * second).sum(dim=1), torch.tensor(graded.gold[:8], dtype=torch.float32)
        expected = {
            "cosent": cosent(cosines, gold, scale=7.0),
            "mse": mse(cosines, gold / 5),
            "contrastive": contrastive(cosines, (gold > 2.0).float(), epsilon=0.3, form="paper"),
        }[objective]
        torch.testing.assert_close(terms, {objective: expected}, rtol=1e-5, atol=1e-6)


def test_softmax_reads_both_vectors_and_their_distance(tiny_encoder: Path, graded: Pairs):
    method = method_of(tiny_encoder, objective="softmax", softmax_labels="floor")
    method.prepare(graded)
    terms = method(method.collate(list(range(8))))
    first, second = (
        method.encoder(method.encoder.tokenize(texts[:8])) for texts in (graded.sentence1, graded.sentence2)
    )
    assert method.classifier is not None
    weight = method.classifier.linear.weight
    assert weight.shape == (6, 3 * method.encoder.width)
    assert method.classifier.linear.bias is None
    features = torch.cat([first, second, (first - second).abs()], dim=1)
    classes = torch.tensor([0, 1, 2, 2, 5, 4, 3, 0])
    torch.testing.assert_close(terms["softmax"], functional.cross_entropy(features @ weight.T, classes))
    with_bias = method_of(tiny_encoder, objective="softmax", softmax_bias=True)
    with_bias.prepare(graded)
    assert with_bias.classifier is not None
    assert with_bias.classifier.linear.bias.shape == (4,)  # rounded: 0, 1, 3, 5


def test_triplet_takes_triples_and_pairs_that_make_them(tiny_encoder: Path, tiny_sentences: list[str], graded: Pairs):
    triples = Triples("tiny", tiny_sentences[:6], tiny_sentences[6:12], tiny_sentences[12:18], "made here", "0")
    method = method_of(tiny_encoder, objective="triplet", margin=2.0)
    method.prepare(triples)
    assert method.examples(triples) == 6
    vectors = [
        method.encoder(method.encoder.tokenize(texts))
        for texts in (triples.anchor, triples.positive, triples.hard_negative)
    ]
    terms = method(method.collate(range(6)))
    torch.testing.assert_close(terms["triplet"], triplet(*vectors, margin=2.0), rtol=1e-5, atol=1e-5)
    history = fit(method_of(tiny_encoder, objective="triplet"), graded)
    assert len(history["triplet"].dropna()) == 4


def test_triples_of_pairs_are_every_similar_with_every_dissimilar_partner():
    data = Pairs(
        "t", ["a", "a", "a", "b", "b"], ["p", "q", "n", "x", "y"], np.array([5.0, 4, 1, 3, 4]), None, list("01234"),
        (0.0, 5.0), "made here", "0",
    )  # fmt: skip
    assert list(zip(*triple_rows(data, None), strict=True)) == [("a", "p", "n"), ("a", "q", "n")]
    with pytest.raises(ValueError, match=r"no gold lies above the threshold 5.5"):
        triple_rows(data, 5.5)
    with pytest.raises(ValueError, match="no first sentence stands in a similar and in a dissimilar pair"):
        triple_rows(Pairs("t", ["a", "b"], ["c", "d"], np.array([5.0, 0]), None, ["0", "1"], (0, 5), "", ""), None)


@pytest.mark.parametrize(("objective", "model"), [(o, "representation") for o in REPRESENTATION] + [
    (o, "interaction") for o in INTERACTION
])  # fmt: skip
@pytest.mark.parametrize("kind", GOLD)
def test_every_objective_trains_on_every_kind_of_label(
    tiny_encoder: Path, tiny_sentences: list[str], kind: str, objective: str, model: str
):
    method = method_of(tiny_encoder, objective=objective, model=model, margin=5.0)
    method.prepare(pairs(tiny_sentences, GOLD[kind], SCALES[kind], anchors=2))
    terms = method(method.collate(list(range(4))))
    assert list(terms) == [objective]
    terms[objective].backward()
    gradients = {name: weight.grad for name, weight in method.named_parameters()}
    # max pooling and first-last aside, every weight takes part; a softmax over keys does not see their bias.
    assert [name for name, gradient in gradients.items() if gradient is None] == []
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients.values())
    assert any(gradient is not None and gradient.abs().max() > 0 for gradient in gradients.values())


def test_labels_become_what_published_code_makes_of_them(tiny_sentences: list[str]):
    of = {kind: pairs(tiny_sentences, GOLD[kind], SCALES[kind]) for kind in GOLD}
    assert shares(of["sick"]).min() == pytest.approx(0.2)
    assert [shares(of[kind]).max() for kind in GOLD] == [1.0] * 4
    assert sides(of["sts"], None).tolist() == [gold > 2.5 for gold in GOLD["sts"]]
    assert sides(of["sick"], None).tolist() == [gold > 3.0 for gold in GOLD["sick"]]
    assert sides(of["binary"], None).tolist() == GOLD["binary"]
    assert sides(of["nli"], None).tolist() == [gold == 2 for gold in GOLD["nli"]]
    assert class_numbers(of["nli"], "whole")[0].tolist() == GOLD["nli"]
    numbers, classes = class_numbers(of["sick"], "floor")
    assert numbers.tolist() == [math.floor(gold) - 1 for gold in GOLD["sick"]]
    assert classes == 5
    assert class_numbers(of["sts"], "nearest")[0].tolist() == [0, 1, 2, 2, 3, 3, 2, 0]  # of 0, 1, 3, 5


def test_softmax_refuses_grades_unless_told_what_becomes_of_them(tiny_encoder: Path, graded: Pairs):
    with pytest.raises(ValueError, match=r"grades such as 1\.2.*softmax_labels"):
        method_of(tiny_encoder, objective="softmax", softmax_labels="whole").prepare(graded)


def test_equal_labels_cannot_be_trained_on(tiny_encoder: Path, tiny_sentences: list[str]):
    equal = pairs(tiny_sentences, [1.0] * 8, (0.0, 1.0))
    for objective in ("cosent", "mse", "softmax", "contrastive"):
        with pytest.raises(DataError, match=r"all 8 labels are 1; they do not say .*at least two different labels"):
            method_of(tiny_encoder, objective=objective).prepare(equal)


def test_other_data_than_the_objective_takes_is_refused(tiny_encoder: Path, tiny_sentences: list[str]):
    triples = Triples("some", tiny_sentences[:6], tiny_sentences[6:12], tiny_sentences[12:18], "made here", "0")
    with pytest.raises(ValueError, match="some is triples; objective 'mse' is trained on scored pairs"):
        method_of(tiny_encoder, objective="mse").prepare(triples)
    sentences = Sentences("plain", tiny_sentences, "made here", "0")
    with pytest.raises(ValueError, match=r"plain is of type Sentences; .* trained on scored pairs or triples"):
        method_of(tiny_encoder, objective="triplet").prepare(sentences)
    below_zero = pairs(tiny_sentences, [-1.0, 1.0] * 4, (-1.0, 1.0))
    with pytest.raises(ValueError, match="its scale is -1 to 1"):
        method_of(tiny_encoder, objective="mse").prepare(below_zero)


@pytest.mark.parametrize("model", ["representation", "interaction"])
def test_a_batch_of_one_label_has_loss_and_gradient_zero_and_is_counted(
    tiny_encoder: Path, tiny_sentences: list[str], model: str, caplog: pytest.LogCaptureFixture
):
    method = method_of(tiny_encoder, model=model)
    method.prepare(pairs(tiny_sentences, [1.0, 1, 1, 1, 0, 2, 0, 2], (0.0, 2.0)))
    method.train()
    terms = method(method.collate([0, 1, 2, 3]))
    assert terms["cosent"].item() == 0.0
    terms["cosent"].backward()
    assert all(weight.grad is None or not weight.grad.any() for weight in method.parameters())
    method(method.collate([4, 5, 6, 7]))
    with caplog.at_level(logging.WARNING, logger="workbench"):
        assert method.observations() == {"unpaired_batches": 1}
    assert "1 of 2 batches held pairs of one label alone" in caplog.text
    assert method.observations() == {}


def test_the_history_counts_batches_that_cannot_pair(tiny_encoder: Path, tiny_sentences: list[str]):
    mostly_equal = pairs(tiny_sentences, [1.0] * 31 + [0.0], (0.0, 1.0))
    history = fit(method_of(tiny_encoder, max_steps=8, batch_size=4, log_steps=4), mostly_equal)
    # 8 batches of 4 are one epoch: the one other label stands in one of them.
    assert sum(history["observed_unpaired_batches"].dropna().tolist()) == 7


def test_labels_that_float32_cannot_tell_apart_still_pair(tiny_encoder: Path, tiny_sentences: list[str]):
    method = method_of(tiny_encoder)
    method.prepare(pairs(tiny_sentences, [1.0, 1.0 + 1e-12] * 4, (0.0, 5.0)))
    assert method(method.collate(range(8)))["cosent"].item() > 0


def test_training_lowers_each_loss(tiny_encoder: Path, graded: Pairs):
    for model, objectives in (("representation", REPRESENTATION), ("interaction", INTERACTION)):
        for objective in objectives:
            method = method_of(tiny_encoder, model=model, objective=objective)
            method.prepare(graded)
            batch = method.collate(range(method.examples(graded) // 2))
            optimizer = torch.optim.AdamW(method.parameters(), lr=1e-2)
            losses = []
            for _ in range(15):
                optimizer.zero_grad()
                loss = method(batch)[objective]
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            assert losses[-1] < 0.95 * losses[0], (objective, losses)


def test_only_the_order_of_labels_counts_for_cosent_and_their_values_for_squared_error(
    tiny_encoder: Path, tiny_sentences: list[str], graded: Pairs
):
    warped = pairs(tiny_sentences, [5 * (gold / 5) ** 4 for gold in graded.gold], SCALES["sts"])
    losses = {}
    for objective in ("cosent", "mse"):
        for name, data in {"graded": graded, "warped": warped}.items():
            method = method_of(tiny_encoder, objective=objective)
            method.prepare(data)
            losses[objective, name] = method(method.collate(range(24)))[objective].item()
    assert losses["cosent", "graded"] == losses["cosent", "warped"]
    assert abs(losses["mse", "graded"] - losses["mse", "warped"]) > 0.01


def test_interaction_scale_as_coded_is_one(tiny_encoder: Path, graded: Pairs):
    terms = {}
    for name, settings in {"paper": {}, "code": {"interaction_scale": "code"}, "one": {"scale": 1.0}}.items():
        method = method_of(tiny_encoder, model="interaction", **settings)
        method.prepare(graded)
        terms[name] = method(method.collate(range(8)))["cosent"].item()
    assert terms["code"] == terms["one"] != terms["paper"]
    assert CoSENTConfig.from_parameters("demo", 0, {"interaction_scale": "code"}).effective_scale == 20.0


def test_an_interaction_run_goes_end_to_end_without_an_embedding(tiny_encoder: Path, graded: Pairs, tmp_path: Path):
    method = method_of(tiny_encoder, model="interaction", dev="tiny", learning_rate=5e-3)
    run = Run.create(method.config, tmp_path)
    history = fit(method, graded, graded, run=run)
    report = evaluate(method, {"tiny": graded}, run=run)
    best = history.loc[history["step"] > 0, "dev_spearman"].max()
    assert report.metrics["tiny"]["spearman"] == pytest.approx(best, abs=1e-6)
    assert list(dev_values(method, graded)) == ["dev_spearman"]
    assert run.finished
    again = CoSENT(method.config)
    again.restore(run.path / "encoder")
    np.testing.assert_array_equal(
        again.score(graded.sentence1, graded.sentence2), method.score(graded.sentence1, graded.sentence2)
    )
    with pytest.raises(EncoderError, match=r"no embedding of one; use score\(sentence1, sentence2\)"):
        method.encode(graded.sentence1)


@pytest.mark.slow
@pytest.mark.parametrize("objective", INTERACTION)
def test_an_interaction_model_can_learn_its_training_pairs_by_heart(objective: str):
    """Where it learns little from many pairs, it is not that loss, segments or head could not."""
    world = load_pairs("world-train")
    texts = {"sentence1": world.sentence1[:32], "sentence2": world.sentence2[:32], "pair_id": world.pair_id[:32]}
    some = replace(world, gold=world.gold[:32], subset=None, **texts)
    settings = {"model": "interaction", "interaction_scale": "code", "learning_rate": 1e-3, "batch_size": 32}
    method = method_of("world-encoder", objective=objective, max_steps=40, **settings)
    before, _ = (dev_values(method, some)["dev_spearman"], fit(method, some, quiet=True))
    assert before < 0.6
    assert dev_values(method, some)["dev_spearman"] > 0.95


def test_the_saved_interaction_model_is_a_cross_encoder_for_others(tiny_encoder: Path, graded: Pairs, tmp_path: Path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    method = method_of(tiny_encoder, model="interaction", max_steps=20, learning_rate=5e-3)
    fit(method, graded)
    method.save(tmp_path / "saved", card={"base_model": "tiny"})
    scores = method.score(graded.sentence1, graded.sentence2)
    loaded = sentence_transformers.CrossEncoder(str(tmp_path / "saved"), device="cpu", local_files_only=True)
    theirs = loaded.predict(list(zip(graded.sentence1, graded.sentence2, strict=True)), show_progress_bar=False)
    np.testing.assert_allclose(theirs, scores, rtol=1e-5, atol=1e-6)
    assert np.ptp(scores) > 0.01
    with pytest.raises(EncoderError, match=r"BertForSequenceClassification, which an Encoder does not support"):
        Encoder.from_pretrained(tmp_path / "saved")
    named = (tmp_path / "saved").rename(tmp_path / "simcse")  # a name does not make it an embedding
    with pytest.raises(EncoderError, match="which an Encoder does not support"):
        load_teacher(str(named))
    assert "text-ranking" in (named / "README.md").read_text(encoding="utf-8")


def test_a_cross_encoder_scores_in_the_order_given_whatever_the_batch(tiny_encoder: Path, graded: Pairs):
    encoder = CrossEncoder.from_pretrained(tiny_encoder, device="cpu")
    whole = encoder.train().score(graded.sentence1, graded.sentence2)
    assert encoder.training
    one_by_one = [encoder.score([a], [b])[0] for a, b in zip(graded.sentence1, graded.sentence2, strict=True)]
    np.testing.assert_allclose(whole, one_by_one, rtol=1e-5, atol=1e-6)
    assert encoder.score([], []).shape == (0,)
    with pytest.raises(EncoderError, match="2 first and 1 second sentences"):
        encoder.score(["a", "b"], ["c"])


def test_a_cross_encoder_stands_on_a_roberta_too(tmp_path: Path):
    folder = tiny_checkpoints.tiny_checkpoint(tmp_path / "start", "roberta", layers=1)
    first, second = (tiny_checkpoints.tiny_sentences(6, seed=seed) for seed in (1, 2))
    method = method_of(folder, model="interaction")
    scores = method.score(first, second)
    method.save(tmp_path / "saved")
    other = method_of(folder, model="interaction", seed=1)
    assert not np.allclose(other.score(first, second), scores, rtol=1e-3)  # another seed draws another head
    other.restore(tmp_path / "saved")
    np.testing.assert_array_equal(other.score(first, second), scores)


def test_a_classifier_of_several_classes_is_no_start_for_one_score(tiny_encoder: Path, tmp_path: Path):
    three = AutoModelForSequenceClassification.from_pretrained(tiny_encoder, num_labels=3)
    three.save_pretrained(tmp_path / "three")
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path / "three")
    with pytest.raises(EncoderError, match="is a classifier with 3 labels; an interaction model has one score"):
        CrossEncoder.from_pretrained(tmp_path / "three")


def test_real_labels_of_every_kind_can_be_used(real_data: Path, tiny_encoder: Path):
    similar = {"stsb-train": 2.5, "sick-train": 3.0, "paws-dev": 0.5, "mrpc-train": 0.5, "snli-dev": 1.0}
    for name, middle in similar.items():
        data = load_pairs(name)
        assert sides(data, None).tolist() == (data.gold > middle).tolist()
        assert 0 <= shares(data).min() < shares(data).max() == 1
    assert class_numbers(load_pairs("snli-dev"), "whole")[1] == 3
    chinese = load_pairs("zh-lcqmc-dev")
    assert class_numbers(chinese, "whole")[1] == 2
    method = method_of(tiny_encoder, objective="triplet", train="nli-triples")
    triples = load_training(method.config)
    method.prepare(triples)
    assert method.examples(triples) == 8603


def test_weight_decay_leaves_biases_and_layer_norms_alone(tiny_encoder: Path):
    method = method_of(tiny_encoder, model="interaction")
    decayed = Trainer.get_decay_parameter_names(None, method)  # pyright: ignore[reportArgumentType]
    assert decayed
    assert not [name for name in decayed if name.endswith("bias") or "LayerNorm" in name]


def test_every_profile_resolves_to_sets_and_objectives_that_exist():
    known = set(dataset_names())
    for profile in CoSENTConfig.profiles:
        config = CoSENTConfig.from_parameters(profile)
        assert {config.train, config.dev, *config.suites} <= known, profile
        for objective in REPRESENTATION:
            assert CoSENTConfig.from_parameters(profile, 0, {"objective": objective}).objective == objective
        for objective in INTERACTION:
            CoSENTConfig.from_parameters(profile, 0, {"objective": objective, "model": "interaction"})
    assert METHODS["cosent"] is CoSENT


def test_the_published_settings_are_those_of_the_paper():
    nli, stsb = (CoSENTConfig.from_parameters(profile) for profile in ("paper", "paper-stsb"))
    assert (nli.batch_size, nli.epochs, nli.pooling, nli.scale) == (64, 1.0, "first_last", 20.0)
    assert CoSENTConfig.from_parameters("paper-roberta-base").pooling == "cls"
    assert (stsb.batch_size, stsb.epochs, stsb.pooling) == (16, 4.0, "mean")
    assert (stsb.learning_rate, stsb.weight_decay, stsb.warmup) == (2e-5, 0.01, 0.1)
    # Trained on inference alone: no similarity score is seen before the report, not even to choose the checkpoint.
    assert not {nli.train, nli.dev} & {"stsb-train", "stsb-dev", "sick-train", "sick-trial"}


def test_an_objective_of_the_other_model_is_refused():
    with pytest.raises(SettingError, match="'mse' does not belong to model 'interaction', which has cosent, cross_ent"):
        CoSENTConfig.from_parameters("demo", 0, {"model": "interaction", "objective": "mse"})
    with pytest.raises(SettingError, match="'cross_entropy' does not belong to model 'representation'"):
        CoSENTConfig.from_parameters("demo", 0, {"objective": "cross_entropy"})
