"""RankCSE: every term from its equation, every ablation by its setting, teachers of any dimension,
refusals."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_checkpoints import SHORT
from torch import Tensor

from workbench.config import RankCSEConfig
from workbench.data import Sentences
from workbench.encoder import Encoder
from workbench.losses import (
    cosent_lists,
    cosine_matrix,
    entropy_consistency,
    info_nce,
    js_consistency,
    list_correlation,
    list_mse,
    listmle,
    listnet,
)
from workbench.methods.rankcse import RankCSE

ROWS = [3, 1, 4, 15, 9, 26]
EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments"


@pytest.fixture
def spread(spread_encoder: Path) -> Path:
    return spread_encoder


def config_of(spread: Path, **overrides: object) -> RankCSEConfig:
    small = {
        "encoder": str(spread),
        "teachers": [str(spread)],
        "cache": str(spread.parent / "cache"),
    }
    small |= SHORT | {"device": "cpu"}
    return RankCSEConfig.from_parameters("demo", 0, small | {"dropout": 0.0} | overrides)


def prepared(spread: Path, sentences: Sentences, **overrides: object) -> RankCSE:
    method = RankCSE(config_of(spread, **overrides))
    method.prepare(sentences)
    return method.train()


def student_lists(method: RankCSE, sentences: Sentences, *, head: bool = True) -> Tensor:
    """Compute S without the method's code, from encode on whole sentences, no dropout."""
    vectors = method.encoder.encode([sentences.sentences[row] for row in ROWS])
    if head:
        # encode normalises; the tanh layer reads vectors that are not, so they come from forward.
        with torch.no_grad():
            raw = method.encoder(
                method.encoder.tokenize([sentences.sentences[row] for row in ROWS])
            )
            assert method.head is not None
            vectors = torch.tanh(raw @ method.head.linear.weight.T + method.head.linear.bias)
    return cosine_matrix(vectors, vectors)


def teacher_lists(folder: Path, sentences: Sentences) -> Tensor:
    vectors = Encoder.from_pretrained(folder, pooling="cls", device="cpu").encode(
        [sentences.sentences[r] for r in ROWS]
    )
    return vectors @ vectors.T


def terms_of(method: RankCSE) -> dict[str, Tensor]:
    return method(method.collate(ROWS))


def test_the_terms_are_the_papers_equations_of_both_views(spread: Path, sentences: Sentences):
    method = prepared(spread, sentences, beta=0.7, gamma=0.3, temperature=0.06)
    student, teacher = student_lists(method, sentences), teacher_lists(spread, sentences)
    terms = terms_of(method)
    assert list(terms) == ["info_nce", "consistency", "listnet"]
    torch.testing.assert_close(
        terms["info_nce"], info_nce(student, temperature=0.06), rtol=1e-4, atol=1e-5
    )
    expected = 0.3 * listnet(
        student, teacher, student_temperature=0.025, teacher_temperature=0.0125
    )
    # Cached cosines are those of half precision: 2^-11 over the teacher's temperature.
    torch.testing.assert_close(terms["listnet"], expected, rtol=2**-11 / 0.0125, atol=0)
    # Without dropout both views are one, and their lists agree.
    assert terms["consistency"].item() < 1e-6


def test_with_dropout_the_terms_read_the_two_views(spread: Path, sentences: Sentences):
    for consistency, loss in {"js": js_consistency, "entropy": entropy_consistency}.items():
        method = prepared(
            spread, sentences, dropout=0.3, beta=0.7, gamma=0.0, consistency=consistency
        )
        seen: list[Tensor] = []
        assert method.head is not None
        method.head.register_forward_hook(
            lambda _module, _given, out, seen=seen: seen.append(out.detach())
        )
        terms = terms_of(method)
        first, second = seen[0].chunk(2)
        scores = cosine_matrix(first, second)
        assert not torch.allclose(first, second)
        torch.testing.assert_close(terms["consistency"], 0.7 * loss(scores, temperature=0.05))
        torch.testing.assert_close(terms["info_nce"], info_nce(scores, temperature=0.05))
        assert abs(terms["consistency"].item()) > 1e-4


LISTNET = {"student_temperature": 0.025, "teacher_temperature": 0.0125}
COMMUNITY = {"student_temperature": 0.05, "teacher_temperature": 0.025}


@pytest.mark.parametrize(
    ("overrides", "loss"),
    [
        ({"ranking": "listnet"}, lambda s, t: listnet(s, t, **LISTNET)),
        (
            {"ranking": "listnet", "positive": "kept"},
            lambda s, t: listnet(s, t, **LISTNET, exclude_positive=False),
        ),
        (
            {"ranking": "listnet", "temperatures": "community"},
            lambda s, t: listnet(s, t, **COMMUNITY),
        ),
        ({"ranking": "listmle"}, lambda s, t: listmle(s, t, temperature=0.025)),
        (
            {"ranking": "listmle", "positive": "dropped"},
            lambda s, t: listmle(s, t, temperature=0.025, exclude_positive=True),
        ),
        ({"ranking": "cosent", "cosent_scale": 5.0}, lambda s, t: cosent_lists(s, t, scale=5.0)),
        ({"ranking": "mse"}, list_mse),
        ({"ranking": "mse", "positive": "kept"}, lambda s, t: (s - t).square().mean()),
        ({"ranking": "correlation"}, list_correlation),
    ],
)
def test_every_ranking_loss_and_its_options_are_reached_by_name(
    overrides: dict, loss, spread: Path, sentences: Sentences
):
    method = prepared(spread, sentences, info_nce=False, beta=0.0, **overrides)
    batch = method.collate(ROWS)
    terms = method(batch)
    assert list(terms) == [overrides["ranking"]]
    # The teacher as cached, so that ties and orders are those of the same numbers.
    expected = loss(
        student_lists(method, sentences), method.teacher_lists.teacher_scores(batch["teachers"])
    )
    torch.testing.assert_close(terms[overrides["ranking"]], expected, rtol=1e-4, atol=1e-5)


def test_the_history_says_how_many_targets_a_teachers_list_has_in_effect(
    spread: Path, sentences: Sentences
):
    method = prepared(spread, sentences, teacher_temperature=0.2)
    batch = method.collate(ROWS)
    method(batch)
    observed = method.observations()
    teacher = method.teacher_lists.teacher_scores(batch["teachers"])
    shares, counts = [], []
    for row in range(len(ROWS)):
        others = [teacher[row, column] for column in range(len(ROWS)) if column != row]
        targets = torch.softmax(torch.stack(others).double() / 0.2, dim=0)
        shares.append(float(targets.max()))
        counts.append(math.exp(-float((targets * targets.log()).sum())))
    assert observed["first_target_share"] == pytest.approx(sum(shares) / 6, rel=1e-5)
    assert observed["effective_targets"] == pytest.approx(sum(counts) / 6, rel=1e-5)
    for ranking in ("listmle", "mse"):
        other = prepared(spread, sentences, ranking=ranking)
        other(other.collate(ROWS))
        assert "effective_targets" not in other.observations(), "no softmax of the teacher's"


@pytest.mark.parametrize(
    ("temperature", "warning"),
    [(1e-4, "the order of the others is hardly taught"), (0.03, ""), (50.0, "lists are flat")],
)
def test_a_teacher_whose_softmax_is_one_hot_or_flat_is_warned_of_before_the_first_step(
    temperature: float,
    warning: str,
    spread: Path,
    sentences: Sentences,
    caplog: pytest.LogCaptureFixture,
):
    given = {"teacher_temperature": temperature, "dropout": 0.1}
    prepared(spread, sentences, **given)
    assert warning in caplog.text
    assert bool(caplog.text) == bool(warning)
    caplog.clear()
    prepared(spread, sentences, **given, ranking="mse")
    prepared(spread, sentences, **given, gamma=0.0)
    assert not caplog.text, "its softmax is not read"


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("compared", [None, False, True])
def test_lists_and_consistency_have_their_places_above_or_below_the_layer_and_the_history_both(
    lists: bool, compared: bool | None, spread: Path, sentences: Sentences
):
    method = prepared(
        spread, sentences, lists_after_mlp=lists, consistency_after_mlp=compared, beta=1.0
    )
    batch = method.collate(ROWS)
    places = {head: student_lists(method, sentences, head=head) for head in (False, True)}
    contrastive = {head: info_nce(scores, temperature=0.05) for head, scores in places.items()}
    ranking = {
        head: listnet(scores, method.teacher_lists.teacher_scores(batch["teachers"]), **LISTNET)
        for head, scores in places.items()
    }
    expected = {"info_nce": contrastive[True], "listnet": ranking[lists]}
    expected["consistency"] = js_consistency(
        places[lists if compared is None else compared], temperature=0.05
    )
    for name, value in method(batch).items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-5)
    seen = method.observations()
    other = "below" if lists else "above"
    assert seen["info_nce_below"] == pytest.approx(float(contrastive[False]), rel=1e-3)
    assert seen[f"listnet_{other}"] == pytest.approx(float(ranking[not lists]), rel=1e-3)


def test_a_layer_that_no_term_reads_is_not_there(spread: Path):
    """Several processes refuse weights without gradient."""
    below = {"lists_after_mlp": False, "info_nce": False}
    assert RankCSE(config_of(spread, **below)).head is None
    assert RankCSE(config_of(spread, **below, consistency_after_mlp=True)).head is not None
    unread = {
        "lists_after_mlp": True,
        "gamma": 0.0,
        "info_nce": False,
        "consistency_after_mlp": False,
    }
    assert RankCSE(config_of(spread, **unread)).head is None


def test_teachers_of_any_width_are_averaged_as_similarities(
    spread: Path, wide_teacher: Path, sentences: Sentences
):
    method = prepared(spread, sentences, teachers=[str(spread), str(wide_teacher)])
    batch = method.collate(ROWS)
    assert [rows.shape[1] for rows in batch["teachers"]] == [16, 32]
    found = method.teacher_lists.teacher_scores(batch["teachers"])
    assert found.dtype == torch.float32
    expected = teacher_lists(spread, sentences) / 3 + teacher_lists(wide_teacher, sentences) * 2 / 3
    # A cosine of two unit rows, each rounded to 11 bits, is off by at most 2^-10.
    torch.testing.assert_close(found, expected, rtol=0, atol=2**-10)
    torch.testing.assert_close(found.diagonal(), torch.ones(len(ROWS)), rtol=0, atol=1e-6)
    other = prepared(
        spread, sentences, teachers=[str(spread), str(wide_teacher)], teacher_weights=[0.9, 0.1]
    )
    shifted = teacher_lists(spread, sentences) * 0.9 + teacher_lists(wide_teacher, sentences) * 0.1
    torch.testing.assert_close(
        other.teacher_lists.teacher_scores(batch["teachers"]), shifted, rtol=0, atol=2**-10
    )
    three = RankCSEConfig.from_parameters("demo", 0, {"teachers": "a/b,c/d,e/f"})
    assert three.weights == pytest.approx([1 / 3] * 3)


def test_a_teacher_is_read_as_the_settings_say(spread: Path, monkeypatch: pytest.MonkeyPatch):
    name, template = str(spread), "{sentence} sees [MASK]"
    given = {"teacher_pooling": {name: "mask"}, "teacher_template": {name: template}}
    teacher = RankCSE(config_of(spread, **given)).teacher_lists.load_teacher(name)
    assert (teacher.pooling, teacher.template) == ("mask", template)
    short = RankCSE(config_of(spread, teacher_max_seq_length=9)).teacher_lists
    assert short.load_teacher(name).max_seq_length == 9
    asked = {}
    monkeypatch.setattr(
        "workbench.methods.teacher_lists.load_teacher", lambda _, **o: asked.update(o) or teacher
    )
    method = RankCSE(config_of(spread, revisions={"a/b": "main"}))
    method.teacher_lists.load_teacher("a/b")
    assert asked["revision"] == "main"


def test_a_teacher_is_read_once_and_gets_no_gradient(
    spread: Path, wide_teacher: Path, sentences: Sentences, monkeypatch
):
    prepared(spread, sentences, teachers=[str(wide_teacher)])
    monkeypatch.setattr(Encoder, "encode", None)  # a second reading would fail
    method = prepared(spread, sentences, teachers=[str(wide_teacher)])
    assert not method.teacher_lists.teacher_scores(method.collate(ROWS)["teachers"]).requires_grad
    assert not any("teacher" in name for name in method.state_dict())
    assert [source for source, _ in method.inputs().values()] == [f"folder:{wide_teacher}"]
    # No teacher is loaded.
    without = prepared(spread, sentences, gamma=0, teachers=["nobody/nothing"])
    assert set(terms_of(without)) == {"info_nce", "consistency"}


def test_without_dropout_a_sentence_is_read_once_with_the_same_losses_and_gradients(
    spread: Path, sentences: Sentences
):
    found = []
    for view_starts in ((0,), (0, 0)):
        method = prepared(spread, sentences, ranking="mse")
        assert method.view_starts == (0,)
        method.view_starts = view_starts
        batch = method.collate(ROWS)
        assert len(batch["tokens"]["input_ids"]) == len(ROWS) * len(view_starts)
        terms = method(batch)
        sum(terms.values()).backward()
        gradients = [
            weight.grad.flatten() for weight in method.parameters() if weight.grad is not None
        ]
        found.append((terms, torch.cat(gradients)))
    (once, gradient), (twice, expected) = found
    for name, value in twice.items():
        torch.testing.assert_close(once[name], value)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-6)
    assert prepared(spread, sentences, dropout=0.1).view_starts == (0, 0)
    assert prepared(spread, sentences, mlm_weight=0.1).view_starts == (0, 0)


def test_a_start_without_dropout_stays_so_if_no_term_compares_two_views(
    caplog: pytest.LogCaptureFixture,
):
    still = {"encoder": "english-encoder", "pooling": "mean", "device": "cpu"}

    def rate_of(**settings: object) -> float:
        config = RankCSEConfig.from_parameters("demo", 0, still | settings)
        return RankCSE(config).encoder.backbone.config.hidden_dropout_prob

    alone = {"info_nce": False, "beta": 0.0}
    assert [rate_of(**alone), rate_of(**alone, dropout=0.0), rate_of(**alone, dropout=0.2)] == [
        0,
        0,
        0.2,
    ]
    assert "views" not in caplog.text
    assert rate_of() == 0.1
    assert "views would be equal" in caplog.text


def test_the_permuted_teacher_of_the_controls_is_permuted(
    spread: Path, sentences: Sentences, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    controls = importlib.import_module("controls")
    shuffled = controls.ShuffledTeacher(config_of(spread))
    shuffled.prepare(sentences)
    (own,) = prepared(spread, sentences).teacher_lists.embeddings
    (permuted,) = shuffled.teacher_lists.embeddings
    assert not np.array_equal(permuted, own)
    assert sorted(permuted.tolist()) == sorted(own.tolist())
