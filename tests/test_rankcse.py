"""RankCSE: every term from its equation, every ablation by its setting, teachers of any width, clear refusals."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from workbench.config import CONFIGS, RankCSEConfig
from workbench.data import Pairs, Sentences
from workbench.encoder import Encoder
from workbench.errors import DataError, EncoderError, RunError, SettingError
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
def sentences(tiny_sentences: list[str]) -> Sentences:
    return Sentences("tiny", tiny_sentences, "made here", "0")


@pytest.fixture
def spread(tiny_encoder: Path, tmp_path: Path) -> Path:
    """The tiny encoder with weights so large that its sentences differ clearly; its name says how it is pooled."""
    return enlarged(tiny_encoder, tmp_path / "simcse-spread", 10.0)


@pytest.fixture
def wide_teacher(tmp_path: Path) -> Path:
    """A teacher of another kind, twice as wide, with a vocabulary of its own."""
    from tiny_checkpoints import tiny_model, tiny_tokenizer

    folder = tmp_path / "diffcse-roberta"
    tiny_model("roberta").save_pretrained(folder)
    tiny_tokenizer("roberta", words=["cat", "dog", "park", "red", "the", "a", "sees", "not"]).save_pretrained(folder)
    return folder


def enlarged(source: Path, target: Path, factor: float) -> Path:
    shutil.copytree(source, target)
    weights = load_file(target / "model.safetensors")
    larger = {name: value * factor if "LayerNorm" not in name else value for name, value in weights.items()}
    save_file(larger, target / "model.safetensors", metadata={"format": "pt"})
    return target


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
def test_what_is_not_plain_sentences_is_refused_in_words(name: str, spread: Path, sentences: Sentences, tmp_path: Path):
    kind = METHODS[name]
    pairs = Pairs("scored", ["a cat"], ["a dog"], np.ones(1), None, ["0"], (0.0, 5.0), "made here", "0")
    with pytest.raises(DataError, match=rf"scored: {kind.__name__} trains on plain sentences, not on pairs"):
        kind(kind.config_class.from_parameters("demo", 0, {"encoder": str(spread)})).prepare(pairs)
    # Without its template around it no sentence has a [MASK] to read: the vectors would be nan.
    template = 'This sentence of "{sentence}" means [MASK].'
    Encoder.from_pretrained(spread, pooling="mask", template=template, device="cpu").save(tmp_path / "prompted")
    prompted = {"encoder": str(tmp_path / "prompted"), "pooling": "mask"}
    with pytest.raises(EncoderError, match=rf"{kind.__name__} trains on plain sentences, not on a template"):
        kind(kind.config_class.from_parameters("demo", 0, prompted)).prepare(sentences)


def test_one_sentence_has_no_list(spread: Path):
    with pytest.raises(ValueError, match="at least 2"):
        RankCSE(config_of(spread)).prepare(Sentences("one", ["a cat"], "made here", "0"))


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


def test_a_run_goes_end_to_end_and_its_encoder_teaches_the_next(
    spread: Path, sentences: Sentences, tiny_sentences: list[str], tmp_path: Path
):
    gold = np.linspace(0, 5, 12)
    dev = Pairs(
        "dev",
        tiny_sentences[:12],
        tiny_sentences[12:24],
        gold,
        None,
        [str(i) for i in range(12)],
        (0.0, 5.0),
        "here",
        "0",
    )
    first = Run.create(config_of(spread, dropout=0.1), tmp_path / "runs")
    method = RankCSE(first.config)
    history = fit(method, sentences, dev, run=first)
    assert {"info_nce", "consistency", "listnet", "dev_spearman"} <= set(history.columns)
    vectors = method.encode(tiny_sentences)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(vectors)))
    evaluate(method.encode, {"dev": dev}, run=first)
    restored = RankCSE(first.config)
    restored.restore(first.path / "encoder")
    torch.testing.assert_close(restored.encode(tiny_sentences), vectors, rtol=0, atol=1e-6)
    pupil = prepared(spread, sentences, teachers=[str(first.path)])
    rows = pupil.collate(ROWS)["teachers"][0].float()
    torch.testing.assert_close(rows, vectors[ROWS], rtol=2**-11, atol=2**-24)


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


SHARED = """
import sys, torch, torch.distributed as dist
from workbench.distributed import end_process
from workbench.config import RankCSEConfig
from workbench.data import Sentences
from workbench.methods.rankcse import RankCSE
import json
job = json.loads(open(sys.argv[1]).read())
dist.init_process_group("gloo")
rank = dist.get_rank()
method = RankCSE(RankCSEConfig.from_parameters("demo", 0, job["overrides"])).double()
method.prepare(Sentences("tiny", job["sentences"], "made here", "0"))
parallel = torch.nn.parallel.DistributedDataParallel(method.train())
terms = parallel(method.collate(job["rows"][rank * 3 : rank * 3 + 3]))
torch.stack(list(terms.values())).sum().backward()
if rank == 0:
    torch.save({name: p.grad for name, p in method.named_parameters()}, sys.argv[2])
dist.destroy_process_group()
end_process()
"""


@pytest.mark.slow
def test_two_processes_give_the_gradient_of_one(spread: Path, wide_teacher: Path, sentences: Sentences, tmp_path: Path):
    import json

    # Other processes choose their own precision, and teachers read in bf16 are others than those read in fp32.
    teachers = {"teachers": [str(spread), str(wide_teacher)], "precision": "fp32"}
    overrides = config_of(spread, **teachers, lists_after_mlp=False).model_dump(mode="json")
    overrides = {name: value for name, value in overrides.items() if name not in ("profile", "seed")}
    method = prepared(spread, sentences, **overrides).double()
    torch.stack(list(terms_of(method).values())).sum().backward()
    job, script, found = tmp_path / "job.json", tmp_path / "shared.py", tmp_path / "gradients.pt"
    job.write_text(json.dumps({"overrides": overrides, "sentences": sentences.sentences, "rows": ROWS}))
    script.write_text(SHARED)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launcher, str(script), str(job), str(found)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    shared = torch.load(found, weights_only=True)
    largest = max(parameter.grad.abs().max().item() for parameter in method.parameters())
    assert largest > 0
    for name, parameter in method.named_parameters():
        # float64: only the order of sums differs.
        torch.testing.assert_close(shared[name], parameter.grad, rtol=1e-9, atol=1e-12 * largest, msg=name)
