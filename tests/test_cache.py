"""Cached embeddings: the encoder's own, found again by content alone, never believed when they do not match."""

import json
import logging
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import platformdirs
import pytest
import torch
from forking import python

from workbench import teachers
from workbench.encoder import Encoder
from workbench.errors import RunError
from workbench.teachers import cache_folder, cached_embeddings, fingerprint


@pytest.fixture
def encoder(tiny_encoder: Path) -> Encoder:
    return Encoder.from_pretrained(tiny_encoder, device="cpu")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sentences each call of Encoder.encode was given."""
    calls: list[int] = []
    encode = Encoder.encode

    def counted(self: Encoder, sentences: list[str], *args: object, **options: object) -> torch.Tensor:
        calls.append(len(sentences))
        return encode(self, sentences, *args, **options)

    monkeypatch.setattr(Encoder, "encode", counted)
    return calls


def entry_of(folder: Path) -> Path:
    entries = [path for path in (folder / "embeddings").iterdir() if path.suffix != ".lock"]
    assert len(entries) == 1, entries
    return entries[0]


def test_rows_are_the_encoders_own_to_half_precision(
    encoder: Encoder, tiny_sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(teachers, "_CHUNK", 7)  # several pieces, the last one smaller
    found = cached_embeddings(encoder, tiny_sentences, folder=tmp_path)
    direct = encoder.encode(tiny_sentences).numpy()
    assert found.dtype == np.float16
    assert found.shape == direct.shape
    # Half precision keeps 11 bits of a number: half a unit in the last place of a component below 1.
    np.testing.assert_allclose(found.astype(np.float32), direct, rtol=2**-11, atol=2**-24)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1.0


def test_the_same_content_is_computed_once(
    encoder: Encoder, tiny_encoder: Path, tiny_sentences: list[str], tmp_path: Path, encoded: list[int]
):
    first = np.array(cached_embeddings(encoder, tiny_sentences, folder=tmp_path))
    copied = shutil.copytree(tiny_encoder, tmp_path / "elsewhere")
    again = cached_embeddings(Encoder.from_pretrained(copied, device="cpu"), tuple(tiny_sentences), folder=tmp_path)
    assert encoded == [len(tiny_sentences)]
    np.testing.assert_array_equal(first, again)


def test_what_decides_an_embedding_is_in_the_fingerprint(encoder: Encoder, tiny_encoder: Path):
    reference = fingerprint(encoder)
    encoder.tokenize(["a cat"], max_tokens=5)  # leaves cutting and padding set in the tokenizer
    assert fingerprint(encoder) == reference
    others = [Encoder.from_pretrained(tiny_encoder, device="cpu", pooling="mean")]
    others.append(Encoder.from_pretrained(tiny_encoder, device="cpu"))
    others[-1].limit = 20
    others.append(Encoder.from_pretrained(tiny_encoder, device="cpu"))
    with torch.no_grad():
        next(others[-1].backbone.parameters()).view(-1)[0] += 1e-3
    others.append(Encoder.from_pretrained(tiny_encoder, device="cpu"))
    others[-1].tokenizer.add_tokens(["newword"])
    for template in ('This sentence of "{sentence}" means [MASK].', "[MASK] : {sentence}"):
        others.append(Encoder.from_pretrained(tiny_encoder, device="cpu", pooling="mask", template=template))
    assert len({reference, *map(fingerprint, others)}) == 1 + len(others)


def test_other_sentences_or_another_order_are_another_entry(
    encoder: Encoder, tiny_sentences: list[str], tmp_path: Path, encoded: list[int]
):
    lists = [["a cat", "dog"], ["a", "cat dog"], ["dog", "a cat"], ["a cat"]]
    for sentences in lists:
        found = cached_embeddings(encoder, sentences, folder=tmp_path)
        np.testing.assert_allclose(
            found.astype(np.float32), encoder.encode(sentences).numpy(), rtol=2**-11, atol=2**-24
        )
    assert len(encoded) == 2 * len(lists)


def _flip(entry: Path) -> None:
    content = bytearray((entry / "embeddings.npy").read_bytes())
    content[-5] ^= 1
    (entry / "embeddings.npy").write_bytes(content)


def _truncate(entry: Path) -> None:
    content = (entry / "embeddings.npy").read_bytes()
    (entry / "embeddings.npy").write_bytes(content[: len(content) // 2])


def _of_another(entry: Path) -> None:
    facts = json.loads((entry / "facts.json").read_text())
    (entry / "facts.json").write_text(json.dumps(facts | {"encoder": "0" * 64}))


def _reshape(entry: Path) -> None:
    rows = np.load(entry / "embeddings.npy")
    np.save(entry / "embeddings.npy", rows[:-1])


def _pickle(entry: Path) -> None:
    np.save(entry / "embeddings.npy", np.array([{}], dtype=object), allow_pickle=True)


def _no_facts(entry: Path) -> None:
    (entry / "facts.json").unlink()


def _broken_facts(entry: Path) -> None:
    (entry / "facts.json").write_text("[")


def _a_file(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_text("not a folder")


@pytest.mark.parametrize(
    "damage", [_flip, _truncate, _of_another, _reshape, _pickle, _no_facts, _broken_facts, _a_file]
)
def test_content_that_does_not_match_is_computed_again_and_said(
    damage, *, encoder: Encoder, tiny_sentences: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture, encoded
):
    good = np.array(cached_embeddings(encoder, tiny_sentences, folder=tmp_path))
    damage(entry_of(tmp_path))
    with caplog.at_level(logging.WARNING, "workbench"):
        found = cached_embeddings(encoder, tiny_sentences, folder=tmp_path)
    assert "computed again" in caplog.text
    assert len(encoded) == 2
    np.testing.assert_array_equal(found, good)
    caplog.clear()
    np.testing.assert_array_equal(cached_embeddings(encoder, tiny_sentences, folder=tmp_path), good)
    assert not caplog.text
    assert len(encoded) == 2


def test_a_computation_that_fails_leaves_nothing(
    encoder: Encoder, tiny_sentences: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object, **__: object) -> torch.Tensor:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Encoder, "encode", broken)
        with pytest.raises(KeyboardInterrupt):
            cached_embeddings(encoder, tiny_sentences, folder=tmp_path)
    assert [path.suffix for path in (tmp_path / "embeddings").iterdir()] == [".lock"]
    assert len(cached_embeddings(encoder, tiny_sentences, folder=tmp_path)) == len(tiny_sentences)


def test_what_a_killed_process_left_is_taken_away(encoder: Encoder, tiny_sentences: list[str], tmp_path: Path):
    assert encoder.checkpoint is not None
    script = f"""
import os
from workbench.teachers import cached_embeddings
from workbench.encoder import Encoder
encoder = Encoder.from_pretrained({str(encoder.checkpoint.folder)!r}, device="cpu", precision={encoder.precision!r})
Encoder.encode = lambda *_, **__: os.kill(os.getpid(), 9)
cached_embeddings(encoder, {tiny_sentences!r}, folder={str(tmp_path)!r})
"""
    killed = subprocess.run([python(), "-c", script])
    assert killed.returncode == -9
    assert len(list((tmp_path / "embeddings").iterdir())) == 2  # the lock and what was begun
    found = cached_embeddings(encoder, tiny_sentences, folder=tmp_path)
    assert len(found) == len(tiny_sentences)
    assert {path.suffix for path in (tmp_path / "embeddings").iterdir()} == {"", ".lock"}
    assert len(list((tmp_path / "embeddings").iterdir())) == 2


def test_several_that_want_the_same_compute_it_once(
    encoder: Encoder, tiny_sentences: list[str], tmp_path: Path, encoded: list[int]
):
    found: list[np.ndarray] = []
    workers = [
        threading.Thread(target=lambda: found.append(cached_embeddings(encoder, tiny_sentences, folder=tmp_path)))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(encoded) == 1
    assert len(found) == 3
    np.testing.assert_array_equal(found[0], found[2])


def test_the_place_is_the_argument_else_the_environment_else_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "named"))
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
    assert cache_folder() == tmp_path / "named"
    monkeypatch.delenv("WORKBENCH_CACHE")
    assert cache_folder() == platformdirs.user_cache_path("ranking-workbench", appauthor=False, opinion=False)
    assert cache_folder().is_absolute()


def test_a_place_that_cannot_be_written_is_refused_with_what_to_do(encoder: Encoder, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="WORKBENCH_CACHE"):
        cached_embeddings(encoder, ["a cat"], folder=tmp_path / "file")


def test_no_sentences_are_refused(encoder: Encoder, tmp_path: Path):
    with pytest.raises(ValueError, match="at least one"):
        cached_embeddings(encoder, [], folder=tmp_path)
