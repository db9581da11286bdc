"""RankCSE: every term from its equation, every ablation by its setting, teachers of any width, clear refusals."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_checkpoints import enlarged
from torch import Tensor

from workbench.config import CONFIGS, RankCSEConfig
from workbench.data import Pairs, Sentences
from workbench.encoder import Encoder
from workbench.errors import EncoderError, RunError, SettingError
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
from workbench.methods import METHODS
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
    method = prepared(spread, sentences, dropout=0.3, beta=0.7, gamma=0.0)
    seen: list[Tensor] = []
    assert method.head is not None
    method.head.register_forward_hook(lambda _module, _given, found: seen.append(found.detach()))
    terms = terms_of(method)
    first, second = seen[0].chunk(2)
    scores = cosine_matrix(first, second)
    assert not torch.allclose(first, second)
    torch.testing.assert_close(terms["consistency"], 0.7 * js_consistency(scores, temperature=0.05))
    torch.testing.assert_close(terms["info_nce"], info_nce(scores, temperature=0.05))
    assert terms["consistency"].item() > 1e-4


@pytest.mark.parametrize(
    ("overrides", "loss"),
    [
        ({"ranking": "listnet"}, lambda s, t: listnet(s, t, student_temperature=0.025, teacher_temperature=0.0125)),
        (
            {"ranking": "listnet", "positive": "kept"},
            lambda s, t: listnet(s, t, student_temperature=0.025, teacher_temperature=0.0125, exclude_positive=False),
        ),
        ({"ranking": "listmle"}, lambda s, t: listmle(s, t, temperature=0.025)),
        (
            {"ranking": "listmle", "positive": "dropped"},
            lambda s, t: listmle(s, t, temperature=0.025, exclude_positive=True),
        ),
        ({"ranking": "cosent"}, lambda s, t: cosent_lists(s, t, scale=20.0)),
        ({"ranking": "cosent", "cosent_scale": 5.0}, lambda s, t: cosent_lists(s, t, scale=5.0)),
        (
            {"ranking": "listnet", "temperatures": "community"},
            lambda s, t: listnet(s, t, student_temperature=0.05, teacher_temperature=0.025),
        ),
        ({"ranking": "listmle", "temperatures": "community"}, lambda s, t: listmle(s, t, temperature=0.05)),
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


def test_the_public_codes_consistency_is_reached_by_name(spread: Path, sentences: Sentences):
    method = prepared(spread, sentences, consistency="entropy", beta=0.5)
    expected = 0.5 * entropy_consistency(student_lists(method, sentences), temperature=0.05)
    torch.testing.assert_close(terms_of(method)["consistency"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("overrides", "terms"),
    [
        ({}, {"info_nce", "consistency", "listnet"}),
        ({"beta": 0}, {"info_nce", "listnet"}),
        ({"info_nce": False}, {"consistency", "listnet"}),
        ({"info_nce": False, "beta": 0}, {"listnet"}),
        ({"ranking": "listmle"}, {"info_nce", "consistency", "listmle"}),
        ({"ranking": "listmle", "beta": 0}, {"info_nce", "listmle"}),
        ({"ranking": "listmle", "info_nce": False}, {"consistency", "listmle"}),
        ({"ranking": "listmle", "info_nce": False, "beta": 0}, {"listmle"}),
        ({"gamma": 0}, {"info_nce", "consistency"}),
        ({"gamma": 0, "info_nce": False}, {"consistency"}),
    ],
)
def test_each_row_of_table_4_is_a_setting_and_trains_every_weight(
    overrides: dict, terms: set[str], spread: Path, sentences: Sentences
):
    method = prepared(spread, sentences, dropout=0.1, **overrides)
    found = terms_of(method)
    assert set(found) == terms
    torch.stack(list(found.values())).sum().backward()
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    assert any(parameter.grad.abs().max() > 0 for parameter in method.parameters() if parameter.grad is not None)


def test_without_the_ranking_term_no_teacher_is_asked_for(spread: Path, sentences: Sentences):
    method = prepared(spread, sentences, gamma=0, teachers=["nobody/nothing"])
    assert method.collate(ROWS)["teachers"] == []


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


def test_distilling_brings_the_students_lists_to_the_teachers(spread: Path, wide_teacher: Path, sentences: Sentences):
    only = {"info_nce": False, "beta": 0.0, "teachers": [str(wide_teacher)], "mlp": False}
    for ranking in ("listnet", "listmle", "cosent"):
        method = prepared(spread, sentences, ranking=ranking, **only)
        optimizer = torch.optim.AdamW(method.parameters(), lr=3e-3)
        losses = []
        for step in range(30):
            loss = method(method.collate([(step * 12 + row) % 60 for row in range(12)]))[ranking]
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert np.mean(losses[-5:]) < 0.95 * np.mean(losses[:5]), ranking


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"teachers": []}, "teachers"),
        ({"teachers": ["a/b", "a/b"]}, "named more than once"),
        ({"teachers": ["a/b"], "teacher_weights": [0.5, 0.5]}, "2 weights for 1 teachers"),
        ({"teachers": ["a/b", "c/d"], "teacher_weights": [0.5, 0.6]}, "sum to 1"),
        ({"teachers": ["a/b", "c/d"], "teacher_weights": [1.5, -0.5]}, ">= 0"),
        ({"teacher_pooling": {"a/b": "cls"}}, "'a/b' is no teacher"),
        ({"teachers": ["a/b"], "teacher_pooling": {"a/b": "last"}}, "teacher_pooling"),
        ({"info_nce": False, "beta": 0, "gamma": 0}, "no loss is left"),
        ({"ranking": "lambdarank"}, "'listmle'"),
        ({"beta": -1}, ">= 0"),
        ({"student_temperature": 0}, "> 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(overrides: dict, words: str):
    with pytest.raises(SettingError, match=words):
        RankCSEConfig.from_parameters("demo", 0, overrides)


def test_a_missing_teacher_stops_training_before_it_starts(spread: Path, sentences: Sentences):
    with pytest.raises(EncoderError, match="nobody/no-simcse"):
        fit(RankCSE(config_of(spread, teachers=["nobody/no-simcse"])), sentences)


@pytest.mark.parametrize("name", ["simcse", "rankcse", "compcse"])
def test_an_encoder_with_a_template_trains_no_method_of_plain_sentences(
    name: str, spread: Path, sentences: Sentences, tmp_path: Path
):
    # Without its template around it no sentence has a [MASK] to read: the vectors would be nan.
    template = 'This sentence of "{sentence}" means [MASK].'
    Encoder.from_pretrained(spread, pooling="mask", template=template, device="cpu").save(tmp_path / "prompted")
    kind, prompted = METHODS[name], {"encoder": str(tmp_path / "prompted"), "pooling": "mask"}
    with pytest.raises(EncoderError, match=rf"{kind.__name__} trains on plain sentences, not on a template"):
        kind(kind.config_class.from_parameters("demo", 0, prompted)).prepare(sentences)


def test_equal_sentences_are_harmless(spread: Path):
    method = prepared(spread, Sentences("equal", ["a cat"] * 30, "made here", "0"), dropout=0.1)
    found = terms_of(method)
    torch.stack(list(found.values())).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in method.parameters() if p.grad is not None)


def test_weights_are_the_papers_unless_given():
    one, two = ({"teachers": names} for names in (["a/b"], ["a/b", "c/d"]))
    assert RankCSEConfig.from_parameters("demo", 0, one).weights == [1.0]
    assert RankCSEConfig.from_parameters("demo", 0, two).weights == pytest.approx([1 / 3, 2 / 3])
    assert RankCSEConfig.from_parameters("demo", 0, {"teachers": "a/b,c/d,e/f"}).weights == pytest.approx([1 / 3] * 3)


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


@pytest.mark.parametrize("profile", TABLE_9)
def test_the_presets_are_the_columns_of_table_9(profile: str):
    config = RankCSEConfig.from_parameters(profile)
    encoder, ranking, learning_rate, tau_2, tau_3 = TABLE_9[profile]
    assert (config.encoder, config.ranking, config.learning_rate) == (encoder, ranking, learning_rate)
    assert config.student_temperature == tau_2
    assert tau_3 is None or config.teacher_temperature == tau_3
    assert (config.batch_size, config.epochs, config.warmup, config.temperature) == (128, 4, 0.05, 0.05)
    assert (config.beta, config.gamma, config.weights) == (1, 1, pytest.approx([1 / 3, 2 / 3]))
    assert (config.eval_steps, config.dev, config.max_tokens) == (125, "stsb-dev", 32)
    assert all(("roberta" in name) == ("roberta" in encoder) for name in config.teachers)


def test_every_profile_resolves_and_keeps_the_papers_loss_unless_it_says_otherwise():
    for profile in RankCSEConfig.profiles:
        config = RankCSEConfig.from_parameters(profile)
        assert (config.consistency == "js") == (profile != "community")
        assert (config.temperatures == "paper") == (profile != "community")
    assert CONFIGS["rankcse"] is RankCSEConfig
    assert METHODS["rankcse"] is RankCSE


def test_a_folder_is_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "runs" / "simcse").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    given = {"teachers": ["runs/simcse"], "teacher_pooling": {"runs/simcse": "cls"}, "cache": "kept"}
    here = RankCSEConfig.from_parameters("demo", 0, given)
    assert here.teachers == [str(tmp_path / "runs" / "simcse")]
    assert here.cache == str(tmp_path / "kept")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert RankCSEConfig.from_parameters("demo", 0, {"teachers": "~/runs/simcse"}).teachers == here.teachers
    # A headless run's notebook is executed in another directory and gets the overrides as they were read here.
    monkeypatch.chdir(tmp_path / "runs")
    there = RankCSEConfig.from_parameters("demo", 0, {name: here.model_dump(mode="json")[name] for name in given})
    assert (there.digest(), there.cache) == (here.digest(), here.cache)


def test_a_finished_run_teaches_the_next(spread: Path, sentences: Sentences, graded: Pairs, tmp_path: Path):
    run = Run.create(config_of(spread, dropout=0.1), tmp_path / "runs")
    method = RankCSE(run.config)
    history = fit(method, sentences, graded, run=run)
    assert {"info_nce", "consistency", "listnet", "dev_spearman"} <= set(history.columns)
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
