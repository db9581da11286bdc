"""Teachers: loaded by any name, used with the pooling they were trained with, refused without a
known pooling."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from workbench.checkpoints import EncodingSpec, find_checkpoint
from workbench.config import RankCSEConfig
from workbench.data import load_sentences
from workbench.encoder import Encoder
from workbench.errors import DataError, EncoderError
from workbench.teachers import cached_embeddings, load_teacher, teacher_pairs


@pytest.fixture
def checkpoints(tiny_encoder: Path, tmp_path: Path):
    """Return copies of the tiny checkpoint under a user's names, with large weights."""

    def named(name: str) -> Path:
        folder = Path(shutil.copytree(tiny_encoder, tmp_path / name))
        weights = load_file(folder / "model.safetensors")
        larger = {
            key: value * 10 if "LayerNorm" not in key else value for key, value in weights.items()
        }
        save_file(larger, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return named


def assert_rows_of(teacher_rows: np.ndarray, encoder: Encoder, sentences: list[str]) -> None:
    expected = encoder.encode(sentences).numpy()
    np.testing.assert_allclose(teacher_rows.astype(np.float32), expected, rtol=2**-11, atol=2**-24)


def test_an_unknown_name_without_a_pooling_is_refused(checkpoints):
    folder = checkpoints("my-own-bert")
    with pytest.raises(EncoderError, match=re.escape('teacher_pooling={"')):
        load_teacher(str(folder), device="cpu")
    assert load_teacher(str(folder), device="cpu", pooling="mean").pooling == "mean"


def test_a_run_teaches_with_its_encoder_once_it_is_finished(tiny_encoder: Path, tmp_path: Path):
    run = tmp_path / "simcse" / "abcd0123-s0"
    encoder = Encoder.from_pretrained(tiny_encoder, device="cpu", pooling="mean")
    encoder.save(run / "encoder")
    (run / "config.json").write_text(json.dumps({"method": "simcse", "settings": {}}))
    with pytest.raises(EncoderError, match="not finished"):
        load_teacher(str(run), device="cpu")
    (run / "metrics.json").write_text("{}")
    sentences = ["a cat sees", "the old dog"]
    teacher = load_teacher(str(run), device="cpu")
    assert_rows_of(
        cached_embeddings(teacher, sentences, folder=tmp_path / "cache"), encoder, sentences
    )


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EncoderError, match=r"no config\.json"):
        load_teacher(".", device="cpu")


def test_published_teachers_whose_weights_are_pickled_are_taken_where_the_hub_converted_them(
    checkpoints, monkeypatch: pytest.MonkeyPatch
):
    asked: dict[str, str | None] = {}
    folder = checkpoints("snapshot")

    def snapshot(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked[name] = revision
        assert not any(pattern.endswith((".bin", ".py", ".pt")) for pattern in allow_patterns)
        if revision is None:  # as on the hub: the main branch has pickles, which are not fetched
            (folder / "model.safetensors").unlink()
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    names = {
        name
        for profile in RankCSEConfig.profiles
        for name in RankCSEConfig.from_parameters(profile).teachers
    }
    for name in sorted(names - {"world-teacher"}):
        assert load_teacher(name, device="cpu").pooling == "cls"
        assert re.fullmatch(r"refs/pr/\d+", asked[name] or ""), name
    assert load_teacher(name, device="cpu", revision="main").source == f"hub:{name}@snapshot"
    assert asked[name] == "main"
    with pytest.raises(EncoderError, match=r"no model.safetensors.*revision.*refs/pr/"):
        load_teacher("owner/simcse", device="cpu")


def test_sentences_are_cut_where_the_student_is_cut(checkpoints, tmp_path: Path):
    folder = checkpoints("simcse")
    long, cut = "a cat sees the old dog in the park", "a cat sees the"
    rows = cached_embeddings(
        load_teacher(str(folder), device="cpu", max_seq_length=6), [long, cut], folder=tmp_path
    )
    np.testing.assert_allclose(rows[0].astype(np.float32), rows[1].astype(np.float32), atol=2**-10)
    whole = cached_embeddings(load_teacher(str(folder), device="cpu"), [long, cut], folder=tmp_path)
    assert np.abs(whole[0].astype(np.float32) - whole[1].astype(np.float32)).max() > 0.01


def test_a_prompted_teacher_reads_the_sentence_ended_cut_and_then_wrapped(
    checkpoints, tmp_path: Path
):
    folder = str(checkpoints("unsup-PromptBERT-tiny"))
    plain = Encoder(find_checkpoint(folder), EncodingSpec("mask", _PROMPT), device="cpu")
    rows = cached_embeddings(
        load_teacher(folder, device="cpu"), ["a cat", "a dog?"], folder=tmp_path
    )
    assert_rows_of(rows, plain, ["a cat.", "a dog?"])
    assert_rows_of(
        cached_embeddings(load_teacher(folder, device="cpu"), ["a cat \n"], folder=tmp_path),
        plain,
        ["a cat."],
    )
    # Three word pieces and the two special tokens, whatever the template takes.
    teacher = load_teacher(folder, device="cpu", max_seq_length=5)
    assert_rows_of(
        cached_embeddings(teacher, ["a cat sees the dog."], folder=tmp_path), plain, ["a cat sees"]
    )


_PROMPT = 'This sentence of "{sentence}" means [MASK].'


def test_pairs_by_a_teacher_have_its_cosines_near_and_distant():
    teacher = load_teacher("world-teacher")
    data = load_sentences("world", limit=300)
    pairs = teacher_pairs(teacher, data, queries=40, targets=5, seed=1)
    first, second = (teacher.encode(side).numpy() for side in (pairs.sentence1, pairs.sentence2))
    cosines = (first * second).sum(axis=1)
    assert np.allclose(pairs.gold, np.maximum(cosines, 0), atol=6e-5)
    assert len(set(pairs.sentence1)) == 40
    rows = {frozenset(row) for row in zip(pairs.sentence1, pairs.sentence2, strict=True)}
    assert 190 <= len(rows) == len(pairs) <= 200
    # Of all pairs of these sentences a share of 0.02 would be among the five nearest.
    vectors = teacher.encode(data.sentences).numpy()
    place = {sentence: row for row, sentence in enumerate(data.sentences)}
    ranks = []
    for query, target in zip(pairs.sentence1, pairs.sentence2, strict=True):
        row = vectors @ vectors[place[query]]
        ranks.append(int((row > row[place[target]]).sum()))
    assert np.mean(np.array(ranks) <= 5) > 0.15
    assert max(ranks) > 100
    again = teacher_pairs(teacher, data, queries=40, targets=5, seed=1)
    assert again.sentence2 == pairs.sentence2
    # An empty line of a file.
    blank = replace(data, sentences=[" ", *data.sentences])
    again = teacher_pairs(teacher, blank, queries=40, targets=5, seed=1)
    assert again.sentence2 == pairs.sentence2
    assert teacher_pairs(teacher, data, queries=40, targets=5, seed=2).sentence2 != pairs.sentence2
    few = replace(data, sentences=data.sentences[:5])
    with pytest.raises(DataError, match="need more than 5 different"):
        teacher_pairs(teacher, few, targets=5)
