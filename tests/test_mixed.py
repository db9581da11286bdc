"""The methods' terms in one loss: bitwise equal to each method with its terms only, and sums
otherwise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from workbench.config import CONFIGS, MixedConfig
from workbench.data import Pairs, Sentences
from workbench.errors import DataError
from workbench.losses import cosent, cosine_matrix, listnet
from workbench.methods import METHODS
from workbench.training import fit

# Method -> its settings, and the settings of `mixed` with only its terms.
ALONE: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "simcse": ("simcse", {}, {}),
    "simcse, a new layer over [CLS]": ("simcse", {"pooling": "pooler"}, {}),
    "compcse": ("compcse", {}, {"compose": "positive"}),
    "compcse, anchor, projected": (
        "compcse",
        {"compose": "anchor", "aggregation": "concat_project", "subvector": 6, "mlp": "before"},
        {},
    ),
    "rankcse": ("rankcse", {}, {"beta": 1.0, "gamma": 1.0}),
    "rankcse, lists under the layer": (
        "rankcse",
        {"ranking": "listmle", "lists_after_mlp": False, "info_nce": False},
        {"beta": 1.0, "gamma": 1.0},
    ),
    "rankencoder": (
        "rankencoder",
        {},
        {"rank_weight": 100.0, "inference_weight": 0.1, "lists_after_mlp": False},
    ),
    "rankencoder, max": (
        "rankencoder",
        {"combination": "max", "similarity": "gaussian"},
        {"rank_weight": 100.0},
    ),
    "cosent": ("cosent", {"train": "world-train"}, {"cosent": 1.0, "info_nce": False}),
}


@pytest.fixture
def settings(spread_encoder: Path, wide_teacher: Path, tmp_path: Path) -> dict[str, Any]:
    ranks = {"base": str(wide_teacher), "corpus_size": 40, "lower": "none", "upper": "none"}
    small = {
        "max_steps": 3,
        "eval_steps": 3,
        "log_steps": 1,
        "batch_size": 8,
        "dropout": 0.1,
        "learning_rate": 1e-3,
    }
    lists = {"teachers": [str(spread_encoder), str(wide_teacher)], "cache": str(tmp_path)}
    shared = {
        "encoder": str(spread_encoder),
        "device": "cpu",
        "pooling": "mean",
        "inference_weight": 0.0,
    }
    return (
        small
        | shared
        | ranks
        | lists
        | {"subvector": "none", "epochs": 1.0, "warmup": 0.0, "weight_decay": 0.0}
    )


def method_of(name: str, settings: dict[str, Any]) -> Any:
    """Return the method with those of the settings that it has."""
    known = {key: value for key, value in settings.items() if key in CONFIGS[name].model_fields}
    return METHODS[name](CONFIGS[name].from_parameters("demo", 0, known))


@pytest.mark.parametrize("case", ALONE)
def test_with_the_terms_of_one_method_alone_it_is_that_method(
    case: str, settings: dict[str, Any], sentences: Sentences, graded: Pairs
):
    name, asked, mixing = ALONE[case]
    asked = (
        settings
        | asked
        | {key: value for key, value in mixing.items() if key == "inference_weight"}
    )
    off = {"compose": "none", "gamma": 0.0} | {
        key: asked[key] for key in asked.keys() - {"rank_weight"}
    }
    own, mixed = method_of(name, asked), method_of("mixed", off | mixing)
    data = graded if name == "cosent" else sentences
    losses = [fit(method, data)["loss"].tolist() for method in (own, mixed)]
    assert losses[0] == losses[1]
    ours, theirs = mixed.state_dict(), own.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[weight], theirs[weight]) for weight in ours)
    some = sentences.sentences[:6]
    assert (mixed.score(some, some[::-1]) == own.score(some, some[::-1])).all()


@pytest.mark.parametrize("after", [True, False])
def test_terms_add_up_over_the_same_scores(settings: dict[str, Any], graded: Pairs, after: bool):
    weights = {
        "compose": "positive",
        "beta": 1.0,
        "gamma": 1.0,
        "rank_lists": 2.0,
        "rank_weight": 3.0,
        "cosent": 0.5,
        "cosent_scale": 5.0,
        "lists_after_mlp": after,
    }
    method = method_of("mixed", settings | weights | {"train": "world-train", "dropout": 0.0})
    method.prepare(graded)
    batch = method.collate(range(5))
    terms = method(batch)
    assert set(terms) == {
        "info_nce",
        "consistency",
        "listnet",
        "rank_lists",
        "rank_mse",
        "cosent_gold",
    }
    head = method.head if after else None
    scores = cosine_matrix(*method.composition.views(method.embed(batch["tokens"]), head))
    seen = method.ranks.targets.similarities(batch["base"])
    assert scores.shape == seen.shape == (10, 10)  # both sentences of each pair
    assert_close(
        terms["rank_lists"],
        2 * listnet(scores, seen, student_temperature=0.025, teacher_temperature=0.0125),
    )
    first, second = (method.encoder.encode(side[:5]) for side in graded.texts)
    gold = torch.tensor(graded.gold[:5])
    expected = 0.5 * cosent((first * second).sum(dim=1), gold, scale=5.0)
    alone = method_of(
        "mixed",
        settings
        | weights
        | dict.fromkeys(["beta", "gamma", "rank_lists", "rank_weight"], 0.0)
        | {"train": "world-train", "dropout": 0.0, "compose": "none", "info_nce": False},
    )
    alone.prepare(graded)
    for found in (terms, alone(alone.collate(range(5)))):
        assert_close(found["cosent_gold"], expected, rtol=1e-4, atol=1e-6)


def test_batches_of_one_label_are_counted_as_cosent_counts_them(
    settings: dict[str, Any], graded: Pairs
):
    mostly_equal = replace(graded, gold=np.r_[np.ones(len(graded) - 1), 0])
    asked = settings | {"train": "world-train", "gamma": 0.0, "cosent": 1.0, "dropout": 0.0}
    for info_nce in (False, True):
        history = fit(method_of("mixed", asked | {"info_nce": info_nce}), mostly_equal)
        own = fit(method_of("cosent", asked), mostly_equal)
        assert (
            history["observed_unpaired_batches"].tolist()
            == own["observed_unpaired_batches"].tolist()
        )
        assert any(own["observed_unpaired_batches"].tolist())
    method = method_of("mixed", asked)
    with pytest.raises(DataError, match="two different labels"):
        method.prepare(replace(graded, gold=np.ones(len(graded))))


def test_a_layer_that_no_term_reads_is_not_there(settings: dict[str, Any]):
    """One without a gradient ends a training of several processes."""
    parts = {"compose": "positive", "aggregation": "concat_project"}
    alone = method_of("mixed", settings | parts | {"cosent": 1.0, "info_nce": False, "gamma": 0.0})
    assert {name.split(".")[0] for name, _ in alone.named_parameters()} == {"encoder"}
    assert method_of("mixed", settings | parts).projection is not None
    ranks = {"compose": "none", "info_nce": False, "gamma": 0.0, "rank_lists": 1.0}
    for after in (True, False):
        method = method_of("mixed", settings | ranks | {"lists_after_mlp": after})
        assert (method.head is not None) == after


def test_only_what_terms_read_is_needed():
    simcse = CONFIGS["simcse"].from_parameters("demo", 0)
    config = MixedConfig.from_parameters(
        "paper", 0, {"base": "simcse", "teachers": ["english-encoder"]}
    )
    assert (config.checkpoints, config.runs_needed) == ([config.encoder], [])
    config = MixedConfig.from_parameters(
        "paper", 0, {"base": "simcse", "rank_lists": 1.0, "gamma": 1.0}
    )
    assert (len(config.checkpoints), config.runs_needed) == (3, [simcse])
    config = MixedConfig.from_parameters("paper", 0, {"base": "simcse", "start": "base"})
    assert (config.checkpoints, config.runs_needed) == ([], [simcse]), "E1 is the start"
