"""RankCSE: every term from its equation, every ablation by its setting, teachers of any width, clear refusals."""

import shutil
from pathlib import Path

import pytest
import torch
from tiny_checkpoints import enlarged
from torch import Tensor

from workbench.config import RankCSEConfig
from workbench.data import Pairs, Sentences
from workbench.encoder import Encoder
from workbench.errors import RunError, SettingError
from workbench.evaluation import evaluate
from workbench.losses import (
    cosent_lists,
    cosine_matrix,
    entropy_consistency,
    info_nce,
    js_consistency,
    listmle,
    listnet,
)
from workbench.methods.rankcse import RankCSE
from workbench.runs import Run
from workbench.train import fit

ROWS = [3, 1, 4, 15, 9, 26]


@pytest.fixture
def spread(spread_encoder: Path) -> Path:
    return spread_encoder


def config_of(spread: Path, **overrides: object) -> RankCSEConfig:
    small = {"encoder": str(spread), "teachers": [str(spread)], "cache": str(spread.parent / "cache")}
    small |= {"batch_size": 8, "eval_steps": 2, "save_steps": 2, "log_steps": 1, "max_steps": 4, "device": "cpu"}
    return RankCSEConfig.from_parameters("demo", 0, small | {"dropout": 0.0} | overrides)


def prepared(spread: Path, sentences: Sentences, **overrides: object) -> RankCSE:
    method = RankCSE(config_of(spread, **overrides))
    method.prepare(sentences)
    return method.train()


def student_lists(method: RankCSE, sentences: Sentences, *, head: bool = True) -> Tensor:
    """S by another way than the method's own: whole sentences through encode, without dropout."""
    vectors = method.encoder.encode([sentences.sentences[row] for row in ROWS])
    if head:
        # encode normalises; the tanh layer reads vectors that are not, so they come from forward.
        with torch.no_grad():
            raw = method.encoder(method.encoder.tokenize([sentences.sentences[row] for row in ROWS]))
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
    torch.testing.assert_close(terms["info_nce"], info_nce(student, temperature=0.06), rtol=1e-4, atol=1e-5)
    expected = 0.3 * listnet(student, teacher, student_temperature=0.025, teacher_temperature=0.0125)
    # Cached cosines are those of half precision: 2^-11 over the teacher's temperature.
    torch.testing.assert_close(terms["listnet"], expected, rtol=2**-11 / 0.0125, atol=0)
    # Without dropout both views are one, and their lists agree.
    assert terms["consistency"].item() < 1e-6


def test_with_dropout_the_terms_read_the_two_views(spread: Path, sentences: Sentences):
    for consistency, loss in {"js": js_consistency, "entropy": entropy_consistency}.items():
        method = prepared(spread, sentences, dropout=0.3, beta=0.7, gamma=0.0, consistency=consistency)
        seen: list[Tensor] = []
        assert method.head is not None
        method.head.register_forward_hook(lambda _module, _given, out, seen=seen: seen.append(out.detach()))
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
        ({"ranking": "listnet", "positive": "kept"}, lambda s, t: listnet(s, t, **LISTNET, exclude_positive=False)),
        ({"ranking": "listnet", "temperatures": "community"}, lambda s, t: listnet(s, t, **COMMUNITY)),
        ({"ranking": "listmle"}, lambda s, t: listmle(s, t, temperature=0.025)),
        (
            {"ranking": "listmle", "positive": "dropped"},
            lambda s, t: listmle(s, t, temperature=0.025, exclude_positive=True),
        ),
        ({"ranking": "cosent", "cosent_scale": 5.0}, lambda s, t: cosent_lists(s, t, scale=5.0)),
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
    expected = loss(student_lists(method, sentences), method.teacher_lists(batch))
    torch.testing.assert_close(terms[overrides["ranking"]], expected, rtol=1e-4, atol=1e-5)


def test_each_row_of_table_4_is_a_setting(spread: Path, sentences: Sentences):
    for ranking in ("listnet", "listmle"):
        for info_nce_too in (True, False):
            for beta in (1, 0):
                asked = {"ranking": ranking, "info_nce": info_nce_too, "beta": beta}
                on = {"info_nce": info_nce_too, "consistency": bool(beta), ranking: True}
                assert set(terms_of(prepared(spread, sentences, **asked))) == {name for name in on if on[name]}, asked
    method = prepared(spread, sentences, gamma=0, teachers=["nobody/nothing"])  # no teacher is loaded
    assert set(terms_of(method)) == {"info_nce", "consistency"}


def test_lists_can_be_of_the_vectors_under_the_tanh_layer(spread: Path, sentences: Sentences):
    method = prepared(spread, sentences, lists_after_mlp=False, info_nce=True)
    batch = method.collate(ROWS)
    below, above = student_lists(method, sentences, head=False), student_lists(method, sentences)
    expected = listnet(below, method.teacher_lists(batch), student_temperature=0.025, teacher_temperature=0.0125)
    torch.testing.assert_close(method(batch)["listnet"], expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(method(batch)["info_nce"], info_nce(above, temperature=0.05), rtol=1e-4, atol=1e-5)
    # No term reads the layer then, and several processes refuse weights without gradient.
    assert RankCSE(config_of(spread, lists_after_mlp=False, info_nce=False)).head is None


def test_teachers_of_any_width_are_averaged_as_similarities(spread: Path, wide_teacher: Path, sentences: Sentences):
    method = prepared(spread, sentences, teachers=[str(spread), str(wide_teacher)])
    batch = method.collate(ROWS)
    assert [rows.shape[1] for rows in batch["teachers"]] == [16, 32]
    found = method.teacher_lists(batch)
    assert found.dtype == torch.float32
    expected = teacher_lists(spread, sentences) / 3 + teacher_lists(wide_teacher, sentences) * 2 / 3
    # A cosine of two unit rows, each rounded to 11 bits, is off by at most 2^-10.
    torch.testing.assert_close(found, expected, rtol=0, atol=2**-10)
    torch.testing.assert_close(found.diagonal(), torch.ones(len(ROWS)), rtol=0, atol=1e-6)
    other = prepared(spread, sentences, teachers=[str(spread), str(wide_teacher)], teacher_weights=[0.9, 0.1])
    shifted = teacher_lists(spread, sentences) * 0.9 + teacher_lists(wide_teacher, sentences) * 0.1
    torch.testing.assert_close(other.teacher_lists(batch), shifted, rtol=0, atol=2**-10)
    assert all(torch.isfinite(term) for term in method(batch).values())


def test_a_teacher_is_read_once_and_gets_no_gradient(
    spread: Path, wide_teacher: Path, sentences: Sentences, monkeypatch
):
    prepared(spread, sentences, teachers=[str(wide_teacher)])
    monkeypatch.setattr(Encoder, "encode", None)  # a second reading would fail
    method = prepared(spread, sentences, teachers=[str(wide_teacher)])
    assert not method.teacher_lists(method.collate(ROWS)).requires_grad
    assert not any("teacher" in name for name in method.state_dict())


def test_settings_that_cannot_be_are_refused():
    refused = {
        "teacher_weights .*one share >= 0 per teacher, with sum 1": {"teachers": ["a", "b"], "teacher_weights": [1, 1]},
        "teacher_pooling: 'a/b' is not one of the teachers": {"teacher_pooling": {"a/b": "cls"}},
        "there is no loss": {"info_nce": False, "beta": 0, "gamma": 0},
        "'listmle'": {"ranking": "lambdarank"},
    }
    for words, overrides in refused.items():
        with pytest.raises(SettingError, match=words):
            RankCSEConfig.from_parameters("demo", 0, overrides)


TABLE_9 = {
    "paper": ("bert-base-uncased", "listnet", 3e-5, 0.025, 0.0125),
    "paper-listmle": ("bert-base-uncased", "listmle", 2e-5, 0.05, None),
    "paper-bert-large": ("bert-large-uncased", "listnet", 3e-5, 0.05, 0.025),
    "paper-bert-large-listmle": ("bert-large-uncased", "listmle", 2e-5, 0.05, None),
    "paper-roberta-base": ("roberta-base", "listnet", 2e-5, 0.05, 0.025),
    "paper-roberta-base-listmle": ("roberta-base", "listmle", 3e-5, 0.05, None),
    "paper-roberta-large": ("roberta-large", "listnet", 3e-5, 0.025, 0.0125),
    "paper-roberta-large-listmle": ("roberta-large", "listmle", 3e-5, 0.025, None),
}


def test_the_profiles_are_the_columns_of_table_9():
    for profile, (encoder, ranking, learning_rate, tau_2, tau_3) in TABLE_9.items():
        config = RankCSEConfig.from_parameters(profile)
        assert (config.encoder, config.ranking, config.learning_rate) == (encoder, ranking, learning_rate)
        assert config.student_temperature == tau_2
        assert tau_3 is None or config.teacher_temperature == tau_3
        assert (config.batch_size, config.epochs, config.warmup, config.temperature) == (128, 4, 0.05, 0.05)
        assert (config.beta, config.gamma, config.weights) == (1, 1, pytest.approx([1 / 3, 2 / 3]))
        assert (config.eval_steps, config.dev, config.max_seq_length) == (125, "stsb-dev", 32)
        assert (config.consistency, config.temperatures) == ("js", "paper")
        assert all(("roberta" in name) == ("roberta" in encoder) for name in config.teachers)
    three = RankCSEConfig.from_parameters("demo", 0, {"teachers": "a/b,c/d,e/f"})
    assert three.weights == pytest.approx([1 / 3] * 3)


def test_a_finished_run_teaches_the_next(spread: Path, sentences: Sentences, graded: Pairs, tmp_path: Path):
    run = Run.create(config_of(spread, dropout=0.1), tmp_path / "runs")
    method = RankCSE(run.config)
    fit(method, sentences, graded, run=run)
    evaluate(method.encode, {"dev": graded}, run=run)
    pupil = prepared(spread, sentences, teachers=[str(run.path)])
    rows = pupil.collate(ROWS)["teachers"][0].float()
    expected = method.encode([sentences.sentences[row] for row in ROWS])
    torch.testing.assert_close(rows, expected, rtol=2**-11, atol=2**-24)


def test_a_run_does_not_go_on_with_another_teacher(spread: Path, sentences: Sentences, tmp_path: Path):
    teacher = enlarged(spread, tmp_path / "simcse-teacher", 1.1)
    config = config_of(spread, teachers=[str(teacher)])
    run = Run.create(config, tmp_path / "runs")
    fit(RankCSE(config), sentences, run=run)
    assert run.facts()["inputs"][f"teacher {teacher}"]["source"] == f"folder:{teacher}"
    shutil.rmtree(teacher)
    enlarged(spread, teacher, 1.2)
    with pytest.raises(RunError, match=r"teacher .*simcse-teacher.* is not what .* began with"):
        fit(RankCSE(config), sentences, run=run)
