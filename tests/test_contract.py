"""The contract of all methods: one suite over METHODS, which covers a new method without a
change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
import torch
import transformers
from tiny_checkpoints import tiny_architecture
from torch import Tensor

from workbench.config import CONFIGS
from workbench.data import Pairs, Sentences, Triplets
from workbench.errors import EncoderError, SettingError
from workbench.methods import METHODS, masked_language
from workbench.methods.base import Method
from workbench.training import fit

ROWS = list(range(8))
# Forms of a method with other inputs, loss terms or layers; a method that is not listed has one
# form.
MLM = {"mlm_weight": 0.1}
BELOW = {"lists_after_mlp": False}
SUPERVISED = {"supervised": True, "pooling": "pooler", "mlp": False}
# Whole sentences: which words, each batch and process draws for itself (tests/test_crops.py).
CROPS = {"positives": "crop", "crop_share": 1.0}
EVERY_TERM = {
    "train": "world-train",
    "compose": "none",
    "cosent": 1.0,
    "beta": 1.0,
    "rank_weight": 1.0,
}
EVERY_TERM |= {"rank_lists": 1.0, "inference_weight": 0.1}
MORE_FORMS: dict[str, list[dict[str, Any]]] = {
    "simcse": [MLM, SUPERVISED, CROPS, CROPS | MLM],
    "compcse": [MLM],
    "rankcse": [BELOW, {"consistency_after_mlp": False}, MLM],
    "rankencoder": [{"similarity": "gaussian"}, MLM],
    "mixed": [EVERY_TERM | MLM, CROPS | {"compose": "none"}],
}
# The settings that choose a loss or a model: each of their values is a form.
CHOICES = ("ranking", "objective", "architecture")
# A value that needs another setting.
NEEDS = {"cross_entropy": {"architecture": "cross-encoder"}}


def allowed_values(annotation: Any) -> list[str]:
    """Return the values of a setting's Literal, also inside Annotated."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [value for part in get_args(annotation)[:1] for value in allowed_values(part)]


def forms_of(name: str) -> list[dict[str, Any]]:
    """Return the forms of a method: its default, each other choice, and those listed above."""
    demo = CONFIGS[name].from_parameters("demo")
    forms: list[dict[str, Any]] = [{}]
    for setting in CHOICES:
        field = type(demo).model_fields.get(setting)
        for value in allowed_values(field.annotation) if field else []:
            if value != getattr(demo, setting):
                forms.append({setting: value} | NEEDS.get(value, {}))
    return forms + MORE_FORMS.get(name, [])


CASES = [(name, form) for name in METHODS for form in forms_of(name)]
CROSS = {"architecture": "cross-encoder"}
# Training is tested once per method, for CoSENT's cross-encoder, and with SimCSE's other forms.
TRAINED = [case for case in CASES if case[1] in ({}, CROSS) or case[0] == "simcse"]
KINDS = {kind.kind: kind for kind in (Sentences, Pairs, Triplets)}
# Type checks take a third of the time; the tests of losses and of embeddings have them.
untyped = pytest.mark.usefixtures("no_type_checks")


def named(cases: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    return {
        "argvalues": cases,
        "ids": ["-".join([name, *map(str, form.values())]) for name, form in cases],
    }


class Bench:
    """Build methods on a tiny encoder, with the tiny dataset that each trains on."""

    def __init__(
        self, encoder: Path, sets: list[Any], listed: Pairs, other_teacher: Path, folder: Path
    ) -> None:
        self.encoder, self.sets, self.folder = encoder, {type(data): data for data in sets}, folder
        self.listed = listed
        cache = str(folder / "cache")
        self.needs = {
            "rankcse": {"teachers": [str(encoder), str(other_teacher)], "cache": cache},
            "rankencoder": {
                "base": str(encoder),
                "corpus_size": 40,
                "lower": "none",
                "upper": "none",
                "cache": cache,
            },
        }
        self.needs["cosent"] = self.needs["lists"] = {"pooling": "cls"}  # their default is another
        self.needs["mixed"] = self.needs["rankcse"] | self.needs["rankencoder"]

    def settings(self, name: str, form: dict[str, Any], **overrides: Any) -> dict[str, Any]:
        small = {
            "encoder": str(self.encoder),
            "device": "cpu",
            "precision": "fp32",
            "dropout": 0.0,
            "batch_size": 8,
        }
        small |= {"max_steps": 6, "eval_steps": 2, "save_steps": 2, "log_steps": 1}
        return small | self.needs.get(name, {}) | form | overrides

    def method(self, name: str, form: dict[str, Any], **overrides: Any) -> Method:
        return METHODS[name](
            CONFIGS[name].from_parameters("demo", 0, self.settings(name, form, **overrides))
        )

    def data(self, name: str, form: dict[str, Any]) -> Any:
        """Return the tiny dataset of the first kind that the method trains on."""
        if name == "lists":  # which needs more queries
            return self.listed
        return self.sets[KINDS[CONFIGS[name].from_parameters("demo", 0, form).train_kinds[0]]]

    def prepared(self, name: str, form: dict[str, Any], **overrides: Any) -> Method:
        method = self.method(name, form, **overrides)
        method.prepare(self.data(name, form))
        return method.train()


@pytest.fixture(scope="module")
def sets(sentences: Sentences, graded: Pairs, triplets: Triplets) -> list[Any]:
    return [sentences, graded, triplets]


@pytest.fixture(scope="module")
def bench(
    spread_encoder: Path,
    wide_teacher: Path,
    sets: list[Any],
    listed: Pairs,
    tmp_path_factory: pytest.TempPathFactory,
) -> Bench:
    return Bench(spread_encoder, sets, listed, wide_teacher, tmp_path_factory.mktemp("bench"))


def gradients(method: Method, rows: list[int]) -> dict[str, Tensor | None]:
    torch.stack(list(method(method.collate(rows)).values())).sum().backward()
    return {name: weight.grad for name, weight in method.named_parameters() if weight.requires_grad}


def similarities(method: Method, data: Sentences) -> Tensor:
    """Return the method's output at test: embeddings, otherwise scores of pairs."""
    if method.pairwise:
        return torch.from_numpy(method.score(data.sentences, data.sentences[::-1]))
    return method.encode(data.sentences)


def moved(method: Method) -> Method:
    """Return the method with every weight changed, as by training."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in method.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=draw))
    return method


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


def test_each_choice_of_a_loss_is_a_form():
    assert ("rankcse", {"ranking": "listmle"}) in CASES
    assert ("lists", {"ranking": "approx_ndcg"}) in CASES
    assert ("cosent", {"objective": "mse"}) in CASES
    assert ("cosent", CROSS) in CASES


@pytest.mark.parametrize(("name", "form"), **named(CASES))
def test_loss_terms_are_finite_scalars_and_every_weight_gets_a_gradient(
    bench: Bench, name: str, form: dict[str, Any]
):
    method = bench.prepared(name, form, dropout=0.1).double()
    terms = method(method.collate(ROWS))
    assert all(
        term.isidentifier() and value.shape == () and value.isfinite()
        for term, value in terms.items()
    )
    found = gradients(method, ROWS)
    missing = {
        weight
        for weight, gradient in found.items()
        if gradient is None or not gradient.isfinite().all()
    }
    assert not missing
    sizes = {
        weight: float(gradient.abs().max())
        for weight, gradient in found.items()
        if gradient is not None
    }
    # float64 leaves 1e-16 of the largest where the gradient is 0 by mathematics.
    unused = {weight for weight, size in sizes.items() if size < 1e-12 * max(sizes.values())}
    assert unused == {weight for weight in found if is_bias_without_effect(weight, name, form)}


def is_bias_without_effect(weight: str, name: str, form: dict[str, Any]) -> bool:
    """Return whether a bias cannot change the loss, so that its gradient is 0.

    A bias of the keys moves all scores of a query alike, which a softmax does not see. The bias of
    a cross-encoder's single output moves the scores of all pairs alike, and CoSENT's loss contains
    only their differences. The last bias moves all vectors alike, and the triplet loss contains
    only their distances."""
    is_of_score = form == CROSS and weight.endswith("classifier.bias")
    is_of_vector = form == {"objective": "triplet"} and weight.endswith("output.LayerNorm.bias")
    is_last = is_of_vector and "attention" not in weight
    return "key.bias" in weight or (name == "cosent" and (is_of_score or is_last))


@untyped
@pytest.mark.parametrize(("name", "form"), **named(CASES))
def test_a_batch_in_chunks_gives_the_gradient_of_the_whole(
    bench: Bench, name: str, form: dict[str, Any]
):
    whole, chunked = (
        gradients(bench.prepared(name, form, chunk_size=size).double(), ROWS)
        for size in ("none", 3)
    )
    largest = max(
        float(gradient.abs().max()) for gradient in whole.values() if gradient is not None
    )
    for weight, gradient in whole.items():
        # float64: only the order of sums differs.
        torch.testing.assert_close(
            chunked[weight], gradient, rtol=1e-8, atol=1e-11 * largest, msg=weight
        )


@pytest.mark.parametrize(("name", "form"), **named(CASES))
def test_embeddings_are_unit_rows_in_order_whose_dot_product_is_the_score(
    bench: Bench, sentences: Sentences, name: str, form: dict[str, Any]
):
    method = bench.prepared(name, form, dropout=0.3)
    some = sentences.sentences[:9]
    scores = method.score(some, some[::-1])
    assert (scores.shape, scores.dtype) == ((9,), np.float64)
    if method.pairwise:
        with pytest.raises(EncoderError, match="no embedding"):
            method.encode(some)
        return
    rows = method.encode(some)
    assert (rows.dtype, rows.device.type, len(rows)) == (torch.float32, "cpu", 9)
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(9), rtol=0, atol=1e-6)
    torch.testing.assert_close(method.encode(some[::-1]), rows.flip(0), rtol=0, atol=1e-5)
    # For the closed form `encode` returns an approximation by a dot product.
    if form.get("similarity") != "gaussian":
        np.testing.assert_allclose(
            scores, (rows.double() * rows.flip(0).double()).sum(dim=1).numpy(), atol=1e-6
        )
    assert method.training, "encoding changed the training mode"


@pytest.mark.parametrize(("name", "form"), **named(TRAINED))
def test_what_a_method_is_not_trained_on_is_refused_by_its_name(
    bench: Bench, name: str, form: dict[str, Any]
):
    method, own = bench.method(name, form), bench.data(name, form)
    for data in bench.sets.values():
        if type(data) is not type(own):
            with pytest.raises((ValueError, TypeError), match=data.name):
                fit(method, data)
    for foreign in (["a list", "of sentences"], None):
        with pytest.raises((ValueError, TypeError), match="the training set"):
            fit(method, foreign)


@untyped
@pytest.mark.parametrize(("name", "form"), **named(CASES))
def test_a_saved_method_is_restored_to_the_bit(
    bench: Bench, sentences: Sentences, name: str, form: dict[str, Any], tmp_path: Path
):
    method = moved(bench.prepared(name, form))
    method.save(tmp_path / "encoder")
    again = bench.method(name, form)
    start = {key: weight.clone() for key, weight in again.encoder.state_dict().items()}
    again.restore(tmp_path / "encoder")
    assert torch.equal(similarities(again, sentences), similarities(method, sentences))
    assert not same(again.encoder.state_dict(), start)
    with pytest.raises(EncoderError, match="nothing-here"):
        again.restore(tmp_path / "nothing-here")


@untyped
@pytest.mark.parametrize(("name", "form"), **named(TRAINED))
def test_training_in_bf16_stays_near_fp32(bench: Bench, name: str, form: dict[str, Any]):
    """Compare a step in bf16 with one in fp32, within a tolerance from the precision of bf16.

    bf16 keeps 8 bits: the relative error of a gradient through 14 products is e = 14 x 3 x 2^-9 =
    0.08. AdamW divides each gradient by its size, so a step changes its sign, and is wrong by twice
    its length, only if the gradient is below e times the typical one. Of normally distributed
    gradients this is a share of 0.8 e, so that the difference of the whole step is sqrt(4 x 0.8 x
    0.08) = 0.5 of its length."""
    start, found = flat(bench.prepared(name, form)), {}
    for precision in ("fp32", "bf16"):
        method = bench.method(name, form, precision=precision)
        history = fit(method, bench.data(name, form))
        assert np.isfinite(history["loss"]).all()
        assert {weight.dtype for weight in method.parameters()} == {torch.float32}
        found[precision] = flat(method)
    apart, way = (found["bf16"] - found["fp32"]).norm(), (found["fp32"] - start).norm()
    assert 0 < apart < 0.5 * way


def flat(method: Method) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in method.parameters()])


def test_a_default_pooling_does_not_undo_that_of_a_start_unless_it_is_asked_for():
    given = {"encoder": "english-encoder"}
    with pytest.raises(SettingError, match="pooling=mean"):
        METHODS["rankcse"](CONFIGS["rankcse"].from_parameters("demo", 0, given))
    asked = METHODS["simcse"](
        CONFIGS["simcse"].from_parameters("demo", 0, given | {"pooling": "cls"})
    )
    assert asked.encoder.pooling == "cls"
    from_base = given | {"base": "english-encoder", "start": "base"}
    method = METHODS["rankencoder"](CONFIGS["rankencoder"].from_parameters("demo", 0, from_base))
    assert method.encoder.pooling == "mean", "a pooling that is not used is required"


VIEWS = {
    "simcse": {},
    "rankcse": {"teachers": ["world-teacher"]},
    "compcse": {"compose": "none", "subvector": None},
}
VIEWS |= {
    "rankencoder": {"base": "world-teacher", "corpus_size": 4},
    "mixed": {"compose": "none", "gamma": 0.0},
}


@pytest.mark.parametrize("name", VIEWS)
def test_two_views_differ_though_the_start_has_no_dropout(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    def distance(**changes: Any) -> float:
        caplog.clear()
        given = {
            "encoder": "english-encoder",
            "pooling": "mean",
            "device": "cpu",
            **VIEWS[name],
            **changes,
        }
        if name not in ("simcse", "compcse"):
            given["cache"] = str(tmp_path)
        method = METHODS[name](CONFIGS[name].from_parameters("demo", 0, given))
        method.prepare(
            Sentences(
                "four", ["a dog runs", "a cat eats", "the man reads", "a red book"], "four", "four"
            )
        )
        vectors = method.train().embed(method.collate(range(4))["tokens"])
        views = vectors.chunk(len(method.view_starts))  # RankCSE reads equal views once
        return float((views[0] - views[-1]).detach().abs().max())

    assert distance() > 0.01
    assert "dropout is set to 0.1: it is 0 in english-encoder" in caplog.text
    assert distance(dropout=0) == 0, "dropout was set explicitly"
    assert "dropout is 0: views of the same words are equal" in caplog.text
    distance(encoder="world-encoder")
    assert "dropout" not in caplog.text


RATES = {"ModernBert": ["embedding_dropout", "attention_dropout", "mlp_dropout"]}
RATES |= {"Albert": ["hidden_dropout_prob", "attention_probs_dropout_prob"]}
OF_HEADS = {"ModernBert": {"classifier_dropout": 0.0}, "Albert": {"classifier_dropout_prob": 0.1}}


@pytest.mark.parametrize("kind", RATES)
def test_a_backbone_without_dropout_by_default_gets_some_and_its_classifier_keeps_its_own(
    kind: str, tmp_path: Path
):
    start = tiny_architecture(tmp_path, getattr(transformers, f"{kind}Config"))

    def draw(**changes: Any) -> tuple[dict[str, float], bool]:
        given = {
            "encoder": str(start),
            "pooling": "mean",
            "device": "cpu",
            "max_seq_length": 16,
            **changes,
        }
        method = METHODS["simcse"](CONFIGS["simcse"].from_parameters("demo", 0, given))
        method.prepare(Sentences("two", ["a dog runs", "a cat eats"], "two", "two"))
        first, second = method.train().embed(method.collate(range(2))["tokens"]).chunk(2)
        rates = method.encoder.backbone.config.to_dict()
        return {name: rate for name, rate in rates.items() if "dropout" in name}, torch.equal(
            first, second
        )

    for changes, rate in (({}, 0.1), ({"dropout": 0}, 0.0), ({"dropout": 0.3}, 0.3)):
        assert draw(**changes) == (OF_HEADS[kind] | dict.fromkeys(RATES[kind], rate), rate == 0)


GRADIENTS = """
import os, sys, torch, torch.distributed as dist
from workbench.config import CONFIGS
from workbench.methods import METHODS, masked_language
# Every word: which ones, each process draws for itself.
masked_language.CHOSEN, masked_language.MASKED = 2.0, 2.0
jobs = torch.load(sys.argv[1], weights_only=False)
dist.init_process_group("gloo")
rank, found = dist.get_rank(), []
for name, settings, data in jobs:
    method = METHODS[name](CONFIGS[name].from_parameters("demo", 0, settings))
    method.prepare(data)
    model = torch.nn.parallel.DistributedDataParallel(method.double().train())
    sum(model(method.collate(range(4 * rank, 4 * rank + 4))).values()).backward()
    found.append({name: weight.grad for name, weight in method.named_parameters()})
if rank == 0:
    torch.save(found, sys.argv[2])
dist.barrier()
# Taking the models apart after the other process has ended waits for it, at times forever.
os._exit(0)
"""


@pytest.mark.slow
def test_two_processes_give_the_gradient_of_one(
    bench: Bench, in_two_processes: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    """Compare gradients; all forms of a method but the first also use chunks of 3 texts."""
    for share in ("CHOSEN", "MASKED"):
        monkeypatch.setattr(masked_language, share, 2.0)
    cases = [(name, form, 3 if form else None) for name, form in CASES]
    jobs = [
        (name, bench.settings(name, form, chunk_size=chunk), bench.data(name, form))
        for name, form, chunk in cases
    ]
    for (name, form, _), together in zip(cases, in_two_processes(GRADIENTS, jobs), strict=True):
        alone = gradients(bench.prepared(name, form).double(), ROWS)
        largest = max(
            float(gradient.abs().max()) for gradient in alone.values() if gradient is not None
        )
        assert largest > 0
        for weight, gradient in alone.items():
            # float64: only the order of sums differs.
            torch.testing.assert_close(
                together[weight],
                gradient,
                rtol=1e-8,
                atol=1e-11 * largest,
                msg=f"{name} {form} {weight}",
            )
