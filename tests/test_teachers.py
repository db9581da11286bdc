"""Teachers: found by any name a user may give, read as they were trained, refused when they cannot be."""

import json
import re
import shutil
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from workbench.config import RankCSEConfig
from workbench.encoder import Encoder, Reading, find_checkpoint
from workbench.errors import EncoderError
from workbench.teachers import cached_embeddings, load_teacher


@pytest.fixture
def checkpoints(tiny_encoder: Path, tmp_path: Path):
    """Copies of the tiny checkpoint under names of the user's, with weights so large that sentences differ clearly."""

    def named(name: str) -> Path:
        folder = Path(shutil.copytree(tiny_encoder, tmp_path / name))
        weights = load_file(folder / "model.safetensors")
        larger = {key: value * 10 if "LayerNorm" not in key else value for key, value in weights.items()}
        save_file(larger, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return named


def same(teacher_rows: np.ndarray, encoder: Encoder, sentences: list[str]) -> None:
    np.testing.assert_allclose(
        teacher_rows.astype(np.float32), encoder.encode(sentences).numpy(), rtol=2**-11, atol=2**-24
    )


@pytest.mark.parametrize(
    ("name", "pooling"),
    [
        ("unsup-simcse-bert-base-uncased", "cls"),
        ("diffcse-bert-base-uncased-sts", "cls"),
        ("rankcse-listmle-bert-base-uncased", "cls"),
        ("unsup-PromptBERT-bert-base-uncased", "mask"),
        ("sncse-bert-base", "mask"),
    ],
)
def test_published_names_are_read_as_they_were_trained(checkpoints, name: str, pooling: str):
    teacher = load_teacher(str(checkpoints(name)), device="cpu")
    assert teacher.pooling == pooling
    assert not any(parameter.requires_grad for parameter in teacher.parameters())


def test_what_the_files_say_goes_before_the_name_and_the_user_before_both(
    checkpoints, tiny_encoder: Path, tmp_path: Path
):
    folder = tmp_path / "my-simcse"
    Encoder.from_pretrained(tiny_encoder, device="cpu", pooling="mean").save(folder)
    assert load_teacher(str(folder), device="cpu").pooling == "mean"
    assert load_teacher(str(folder), device="cpu", pooling="max").pooling == "max"
    (folder / "encoder.json").unlink()  # now only SentenceTransformer's modules.json speaks
    assert load_teacher(str(folder), device="cpu").pooling == "mean"


def test_an_unknown_name_without_a_pooling_is_refused(checkpoints):
    folder = checkpoints("my-own-bert")
    with pytest.raises(EncoderError, match=re.escape('teacher_pooling={"')):
        load_teacher(str(folder), device="cpu")
    assert load_teacher(str(folder), device="cpu", pooling="mean").pooling == "mean"


def test_a_run_teaches_with_its_encoder_once_it_is_finished(tiny_encoder: Path, tmp_path: Path):
    run = tmp_path / "simcse" / "abcd0123-s0"
    run.mkdir(parents=True)
    (run / "config.json").write_text(json.dumps({"method": "simcse", "settings": {}}))
    with pytest.raises(EncoderError, match="not finished"):
        load_teacher(str(run), device="cpu")
    encoder = Encoder.from_pretrained(tiny_encoder, device="cpu", pooling="mean")
    encoder.save(run / "encoder")
    with pytest.raises(EncoderError, match="not finished"):
        load_teacher(str(run), device="cpu")
    (run / "metrics.json").write_text("{}")
    sentences = ["a cat sees", "the old dog"]
    teacher = load_teacher(str(run), device="cpu")
    same(cached_embeddings(teacher, sentences, folder=tmp_path / "cache"), encoder, sentences)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody/no-such-simcse", "hub cannot be reached"),
        ("no such teacher", "no folder 'no such teacher'"),
        ("/nowhere/simcse", "no folder '/nowhere/simcse'"),
        ("{empty}", "no config.json"),
    ],
)
def test_a_missing_teacher_is_refused_by_its_name(name: str, words: str, tmp_path: Path):
    name = name.replace("{empty}", str(tmp_path))
    with pytest.raises(EncoderError) as refused:
        load_teacher(name, device="cpu")
    assert f"teacher {name!r}" in str(refused.value)
    assert words in str(refused.value)


def test_published_teachers_whose_weights_are_pickled_are_taken_where_the_hub_converted_them(
    checkpoints, monkeypatch: pytest.MonkeyPatch
):
    asked: dict[str, str | None] = {}
    folder = checkpoints("snapshot")

    def snapshot(name: str, *, revision: str | None, **_: object) -> str:
        asked[name] = revision
        if revision == "refs/pr/0":
            raise OSError("no network")
        if revision is None:  # as on the hub: the main branch has pickles, which are not fetched
            (folder / "model.safetensors").unlink()
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    named = {name for profile in RankCSEConfig.profiles for name in RankCSEConfig.from_parameters(profile).teachers}
    for name in sorted(named - {"world-teacher"}):
        assert load_teacher(name, device="cpu").pooling == "cls"
        assert re.fullmatch(r"refs/pr/\d+", asked[name] or ""), name
    with pytest.raises(EncoderError, match=f"hf download {name} --revision refs/pr/0`"):
        load_teacher(name, device="cpu", revision="refs/pr/0")
    load_teacher(name, device="cpu", revision="main")
    assert asked[name] == "main"
    with pytest.raises(
        EncoderError, match=r"hub:owner/simcse@snapshot offers pickles only.*\"owner/simcse\": \"refs/pr/"
    ):
        load_teacher("owner/simcse", device="cpu")


def test_a_teacher_with_broken_weights_is_refused_by_its_name(checkpoints, tmp_path: Path):
    folder = checkpoints("simcse-broken")
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: torch.full_like(value, float("nan")) for name, value in weights.items()}, folder / "model.safetensors"
    )
    teacher = load_teacher(str(folder), device="cpu")
    with pytest.raises(EncoderError, match=r"simcse-broken.*not finite"):
        cached_embeddings(teacher, ["a cat"], folder=tmp_path)


def test_sentences_are_cut_where_the_student_is_cut(checkpoints, tmp_path: Path):
    folder = checkpoints("simcse")
    long, cut = "a cat sees the old dog in the park", "a cat sees the"
    rows = cached_embeddings(load_teacher(str(folder), device="cpu", max_tokens=6), [long, cut], folder=tmp_path)
    np.testing.assert_allclose(rows[0].astype(np.float32), rows[1].astype(np.float32), atol=2**-10)
    whole = cached_embeddings(load_teacher(str(folder), device="cpu"), [long, cut], folder=tmp_path)
    assert np.abs(whole[0].astype(np.float32) - whole[1].astype(np.float32)).max() > 0.01


def test_a_prompted_teacher_reads_the_sentence_ended_cut_and_then_wrapped(checkpoints, tmp_path: Path):
    folder = checkpoints("unsup-PromptBERT-tiny")
    reading = Reading("mask", 'This sentence of "{sentence}" means [MASK].')
    plain = Encoder.load(find_checkpoint(str(folder)), reading, device="cpu")
    found = cached_embeddings(load_teacher(str(folder), device="cpu"), ["a cat", "a dog?"], folder=tmp_path)
    same(found, plain, ["a cat.", "a dog?"])
    # Three word pieces and the two special tokens, whatever the template takes.
    cut = cached_embeddings(
        load_teacher(str(folder), device="cpu", max_tokens=5), ["a cat sees the dog."], folder=tmp_path
    )
    same(cut, plain, ["a cat sees"])
