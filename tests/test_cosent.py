"""CoSENT: every objective from its equation, both architectures, every kind of label, and refused
inputs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import SHORT
from torch.nn import functional

from workbench.config import CoSENTConfig
from workbench.data import Pairs, Triplets
from workbench.encoder import Encoder
from workbench.errors import DataError, EncoderError
from workbench.losses import contrastive, cosent, mse, rank_kl, triplet
from workbench.methods.cosent import (
    CoSENT,
    make_triplets,
    number_classes,
    rank_labels,
    scale_labels,
    split_labels,
)
from workbench.teachers import load_teacher
from workbench.training import fit

SCALES = {"sts": (0.0, 5.0), "sick": (1.0, 5.0), "binary": (0.0, 1.0), "nli": (0.0, 2.0)}
GOLD = {
    "sts": [0.0, 1.2, 2.5, 2.6, 5.0, 4.8, 3.0, 0.4],
    "sick": [1.0, 2.9, 3.0, 3.1, 5.0, 4.4, 2.0, 1.6],
    "binary": [0, 1, 1, 0, 1, 0, 0, 1],
    "nli": [0, 1, 2, 2, 1, 0, 0, 2],
}


def pairs(
    sentences: list[str], gold: list[float], scale: tuple[float, float], anchors: int = 4
) -> Pairs:
    """Return as many pairs as gold scores, with `anchors` different first sentences."""
    first = [sentences[row % anchors] for row in range(len(gold))]
    second = sentences[anchors : anchors + len(gold)]
    ids = [str(row) for row in range(len(gold))]
    return Pairs("tiny", first, second, np.asarray(gold, float), None, ids, scale, "made here", "0")


def method_of(encoder: Path | str, **overrides: object) -> CoSENT:
    small = SHORT | {"encoder": str(encoder), "device": "cpu", "dropout": 0.0}
    return CoSENT(CoSENTConfig.from_parameters("demo", 0, small | overrides))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"scale": 7.0}, lambda logits, gold: cosent(logits, gold, scale=7.0)),
        (
            {"scale": 7.0, "interaction_scale": "code"},
            lambda logits, gold: cosent(logits, gold, scale=1.0),
        ),
        (
            {"objective": "cross_entropy"},
            lambda logits, gold: functional.binary_cross_entropy_with_logits(logits, gold / 5),
        ),
    ],
    ids=["lambda of the paper", "lambda of the code", "cross-entropy"],
)
def test_the_loss_of_a_cross_encoder_is_that_of_its_logits(
    spread_encoder: Path, graded: Pairs, settings: dict[str, Any], expected: Any
):
    method = method_of(spread_encoder, architecture="cross-encoder", **settings)
    method.prepare(graded)
    (term,) = method(method.collate(range(8))).values()
    first, second = graded.sentence1[:8], graded.sentence2[:8]
    logits = method.encoder(method.encoder.tokenize_pairs(first, second))
    gold = torch.tensor(graded.gold[:8], dtype=torch.float32)
    torch.testing.assert_close(term, expected(logits, gold), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["paper", "hinge"])
def test_each_objective_is_its_pure_function_of_the_pairs(
    spread_encoder: Path, graded: Pairs, form: str
):
    settings = {"scale": 7.0, "epsilon": 0.85, "threshold": 2.0, "rank_temperature": 0.2}
    settings |= {"contrastive_form": form, "pooling": "cls"}
    for objective in ("cosent", "mse", "contrastive", "pearson", "rank_kl"):
        method = method_of(spread_encoder, objective=objective, **settings)
        method.prepare(graded)
        terms = method(method.collate(range(8)))
        first, second = (method.encode(texts[:8]) for texts in (graded.sentence1, graded.sentence2))
        cosines, gold = (
            (first * second).sum(dim=1),
            torch.tensor(graded.gold[:8], dtype=torch.float32),
        )
        expected = {
            "cosent": cosent(cosines, gold, scale=7.0),
            "mse": mse(cosines, gold / 5),
            "contrastive": contrastive(cosines, (gold > 2.0).float(), epsilon=0.85, form=form),
            "pearson": 1 - torch.corrcoef(torch.stack([cosines, gold]))[0, 1],
            "rank_kl": rank_kl(cosines, gold, temperature=0.2),
        }[objective]
        torch.testing.assert_close(terms, {objective: expected}, rtol=1e-5, atol=1e-6)
    far = cosines[gold <= 2.0]
    assert far.min() < 0.85 < far.max(), "epsilon would not be seen"


def test_softmax_reads_both_vectors_and_their_distance(tiny_encoder: Path, graded: Pairs):
    method = method_of(tiny_encoder, objective="softmax", softmax_labels="floor")
    method.prepare(graded)
    terms = method(method.collate(range(8)))
    sides = (graded.sentence1[:8], graded.sentence2[:8])
    first, second = (method.encoder(method.encoder.tokenize(texts)) for texts in sides)
    assert method.classifier is not None
    weight = method.classifier.linear.weight
    assert weight.shape == (6, 3 * method.encoder.dimension)
    assert method.classifier.linear.bias is None
    features = torch.cat([first, second, (first - second).abs()], dim=1)
    classes = torch.tensor([0, 1, 2, 2, 5, 4, 3, 0])
    torch.testing.assert_close(
        terms["softmax"], functional.cross_entropy(features @ weight.T, classes)
    )
    with_bias = method_of(tiny_encoder, objective="softmax", softmax_bias=True)
    with_bias.prepare(graded)
    assert with_bias.classifier is not None
    assert with_bias.classifier.linear.bias.shape == (4,)  # rounded: 0, 1, 3, 5


def test_the_weights_of_the_classes_follow_from_the_seed_alone(tiny_encoder: Path, graded: Pairs):
    losses = []
    for drawn in (0, 7):
        method = method_of(tiny_encoder, objective="softmax", max_steps=1)
        torch.rand(drawn)  # as a cell of a notebook between the two
        losses.append(fit(method, graded, quiet=True)["loss"].tolist())
        assert not method.training
    assert losses[0] == losses[1]


def test_triplet_reads_triplets_and_those_that_pairs_make(tiny_encoder: Path, triplets: Triplets):
    method = method_of(tiny_encoder, objective="triplet", margin=2.0)
    method.prepare(triplets)
    assert method.examples(triplets) == 12
    texts = (triplets.anchor, triplets.positive, triplets.hard_negative)
    vectors = [method.encoder(method.encoder.tokenize(side)) for side in texts]
    terms = method(method.collate(range(12)))
    torch.testing.assert_close(
        terms["triplet"], triplet(*vectors, margin=2.0), rtol=1e-5, atol=1e-5
    )
    first, second, gold = (
        ["a", "a", "a", "b", "b"],
        ["p", "q", "n", "x", "y"],
        np.array([5.0, 4, 1, 3, 4]),
    )
    data = Pairs("t", first, second, gold, None, list("01234"), (0.0, 5.0), "made here", "0")
    assert list(zip(*make_triplets(data, None), strict=True)) == [("a", "p", "n"), ("a", "q", "n")]
    with pytest.raises(DataError, match=r"no gold is above the threshold 5.5"):
        make_triplets(data, 5.5)
    with pytest.raises(DataError, match="no first sentence has a similar and a dissimilar partner"):
        make_triplets(
            Pairs(
                "t", ["a", "b"], ["c", "d"], np.array([5.0, 0]), None, ["0", "1"], (0, 5), "", ""
            ),
            None,
        )


def test_labels_become_what_published_code_makes_of_them(tiny_sentences: list[str]):
    of = {kind: pairs(tiny_sentences, GOLD[kind], SCALES[kind]) for kind in GOLD}
    assert scale_labels(of["sick"]).min() == pytest.approx(0.2)
    assert [scale_labels(of[kind]).max() for kind in GOLD] == [1.0] * 4
    assert split_labels(of["sts"], None).tolist() == [gold > 2.5 for gold in GOLD["sts"]]
    assert split_labels(of["sick"], None).tolist() == [gold > 3.0 for gold in GOLD["sick"]]
    assert split_labels(of["binary"], None).tolist() == GOLD["binary"]
    assert split_labels(of["nli"], None).tolist() == [gold == 2 for gold in GOLD["nli"]]
    assert number_classes(of["nli"], "whole")[0].tolist() == GOLD["nli"]
    numbers, classes = number_classes(of["sick"], "floor")
    assert numbers.tolist() == [math.floor(gold) - 1 for gold in GOLD["sick"]]
    assert classes == 5
    # Of 0, 1, 3, 5.
    assert number_classes(of["sts"], "nearest")[0].tolist() == [0, 1, 2, 2, 3, 3, 2, 0]
    close = pairs(tiny_sentences, [1.0, 1.0 + 1e-12] * 4, (0.0, 5.0))  # one number in float32
    assert rank_labels(close).tolist() == [0, 1] * 4


def test_data_that_an_objective_cannot_train_on_are_refused(
    tiny_encoder: Path, tiny_sentences: list[str], graded: Pairs, triplets: Triplets
):
    equal, below_zero = (
        pairs(tiny_sentences, gold * 4, (-1.0, 1.0)) for gold in ([1.0, 1.0], [-1.0, 1.0])
    )
    for objective in ("cosent", "mse", "softmax", "contrastive"):
        with pytest.raises(
            DataError, match="all 8 labels are 1; training needs at least two different labels"
        ):
            method_of(tiny_encoder, objective=objective).prepare(equal)
    with pytest.raises(DataError, match=r"grades such as 1\.2.*softmax_labels"):
        method_of(tiny_encoder, objective="softmax", softmax_labels="whole").prepare(graded)
    with pytest.raises(
        DataError, match="triplets: cosent trains on pairs with these settings, not on triplets"
    ):
        fit(method_of(tiny_encoder, objective="mse"), triplets)
    with pytest.raises(DataError, match="its scale is -1 to 1"):
        method_of(tiny_encoder, objective="mse").prepare(below_zero)


def test_a_batch_of_one_label_has_loss_and_gradient_zero_and_is_counted(
    tiny_encoder: Path, tiny_sentences: list[str]
):
    method = method_of(tiny_encoder)
    method.prepare(pairs(tiny_sentences, [1.0, 1, 1, 1, 0, 2, 0, 2], (0.0, 2.0)))
    method.train()
    terms = method(method.collate([0, 1, 2, 3]))
    assert terms["cosent"].item() == 0.0
    terms["cosent"].backward()
    assert all(weight.grad is None or not weight.grad.any() for weight in method.parameters())
    method(method.collate([4, 5, 6, 7]))
    assert method.observations() == {"unpaired_batches": 1}
    assert method.observations() == {}
    # 8 batches of 4 are one epoch: the one other label is in one of them.
    mostly_equal = pairs(tiny_sentences, [1.0] * 31 + [0.0], (0.0, 1.0))
    history = fit(method_of(tiny_encoder, max_steps=8, batch_size=4, log_steps=4), mostly_equal)
    assert sum(history["observed_unpaired_batches"].dropna().tolist()) == 7


def test_the_saved_interaction_model_is_a_cross_encoder_for_others(
    tiny_encoder: Path, graded: Pairs, tmp_path: Path
):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    method = method_of(tiny_encoder, model="interaction", max_steps=20, learning_rate=5e-3)
    fit(method, graded)
    method.save(tmp_path / "saved", card={"base_model": "tiny"})
    scores = method.score(graded.sentence1, graded.sentence2)
    loaded = sentence_transformers.CrossEncoder(
        str(tmp_path / "saved"), device="cpu", local_files_only=True
    )
    theirs = loaded.predict(
        list(zip(graded.sentence1, graded.sentence2, strict=True)), show_progress_bar=False
    )
    np.testing.assert_allclose(theirs, scores, rtol=1e-5, atol=1e-6)
    assert np.ptp(scores) > 0.01
    with pytest.raises(
        EncoderError, match=r"BertForSequenceClassification, which an Encoder does not support"
    ):
        Encoder.from_pretrained(tmp_path / "saved")
    named = (tmp_path / "saved").rename(tmp_path / "simcse")  # a name does not make it an embedding
    with pytest.raises(EncoderError, match="which an Encoder does not support"):
        load_teacher(str(named))
    assert "text-ranking" in (named / "README.md").read_text(encoding="utf-8")
