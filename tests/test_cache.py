"""Cached embeddings equal the teacher's, are identified by content, and are never used if they do
not match."""

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from workbench import teachers
from workbench.encoder import Encoder
from workbench.errors import EncoderError, RunError
from workbench.teachers import cached_embeddings, fingerprint

HALF = {"rtol": 2**-11, "atol": 2**-24}  # half precision keeps 11 bits of a number


@pytest.fixture
def teacher(tiny_encoder: Path) -> Encoder:
    return Encoder.from_pretrained(tiny_encoder, device="cpu")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of sentences of each call of Encoder.encode."""
    calls: list[int] = []
    encode = Encoder.encode

    def counted(
        self: Encoder, sentences: list[str], *args: object, **options: object
    ) -> torch.Tensor:
        calls.append(len(sentences))
        return encode(self, sentences, *args, **options)

    monkeypatch.setattr(Encoder, "encode", counted)
    return calls


def entry_of(folder: Path) -> Path:
    [entry] = [path for path in (folder / "embeddings").iterdir() if path.suffix != ".lock"]
    return entry


def test_rows_are_the_encoders_own_to_half_precision_and_computed_once(  # noqa: PLR0917
    teacher: Encoder,
    tiny_encoder: Path,
    tiny_sentences: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoded: list[int],
):
    monkeypatch.setattr(teachers, "_CHUNK", 7)  # several pieces, the last one smaller
    rows = cached_embeddings(teacher, tiny_sentences, folder=tmp_path)
    copied = shutil.copytree(tiny_encoder, tmp_path / "elsewhere")
    with pytest.raises(EncoderError, match="expected a list of sentences"):
        cached_embeddings(teacher, "ab", folder=tmp_path)
    again = cached_embeddings(
        Encoder.from_pretrained(copied, device="cpu"), tuple(tiny_sentences), folder=tmp_path
    )
    assert encoded == [7] * 8 + [4]
    np.testing.assert_array_equal(rows, again)
    assert rows.dtype == np.float16
    np.testing.assert_allclose(
        rows.astype(np.float32), teacher.encode(tiny_sentences).numpy(), **HALF
    )
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0] = 1.0
    for sentences in (["a cat", "dog"], ["a", "cat dog"], ["dog", "a cat"], ["a cat"]):
        rows = cached_embeddings(teacher, sentences, folder=tmp_path)
        np.testing.assert_allclose(
            rows.astype(np.float32), teacher.encode(sentences).numpy(), **HALF
        )


def test_what_decides_an_embedding_is_in_the_fingerprint(teacher: Encoder, tiny_encoder: Path):
    reference = fingerprint(teacher)
    teacher.tokenizer("a cat", truncation=True, max_length=5)  # leaves cutting set in the tokenizer
    assert fingerprint(teacher) == reference
    others = [Encoder.from_pretrained(tiny_encoder, device="cpu") for _ in range(3)]
    others[0].max_seq_length = 20
    with torch.no_grad():
        next(others[1].backbone.parameters()).view(-1)[0] += 1e-3
    others[2].tokenizer.add_tokens(["newword"])
    others.append(Encoder.from_pretrained(tiny_encoder, device="cpu", pooling="mean"))
    others.append(Encoder.from_pretrained(tiny_encoder, device="cpu", precision="bf16"))
    for template in ('This sentence of "{sentence}" means [MASK].', "[MASK] : {sentence}"):
        others.append(
            Encoder.from_pretrained(tiny_encoder, device="cpu", pooling="mask", template=template)
        )
    assert len({reference, *map(fingerprint, others)}) == 1 + len(others)


def _flip(entry: Path) -> None:
    content = bytearray((entry / "embeddings.npy").read_bytes())
    content[-5] ^= 1
    (entry / "embeddings.npy").write_bytes(content)


@pytest.mark.parametrize("damage", [_flip, lambda entry: (entry / "facts.json").write_text("[")])
def test_content_that_does_not_match_is_computed_again_with_a_warning(
    damage: Callable[[Path], object],
    *,
    teacher: Encoder,
    tiny_sentences: list[str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    encoded: list[int],
):
    good = np.array(cached_embeddings(teacher, tiny_sentences, folder=tmp_path))
    damage(entry_of(tmp_path))
    with caplog.at_level(logging.WARNING, "workbench"):
        np.testing.assert_array_equal(
            cached_embeddings(teacher, tiny_sentences, folder=tmp_path), good
        )
        cached_embeddings(teacher, tiny_sentences, folder=tmp_path)
    assert caplog.text.count("computed again") == 1
    assert len(encoded) == 2


def test_the_files_of_a_killed_process_are_removed(
    teacher: Encoder, tiny_sentences: list[str], tmp_path: Path
):
    cached_embeddings(teacher, tiny_sentences, folder=tmp_path)
    entry = entry_of(tmp_path)
    entry.rename(entry.with_name(f".{entry.name}.new"))
    assert len(cached_embeddings(teacher, tiny_sentences, folder=tmp_path)) == len(tiny_sentences)
    assert sorted(path.suffix for path in (tmp_path / "embeddings").iterdir()) == ["", ".lock"]


def test_several_that_want_the_same_compute_it_once(
    teacher: Encoder, tiny_sentences: list[str], tmp_path: Path, encoded: list[int]
):
    rows: list[np.ndarray] = []
    workers = [
        threading.Thread(
            target=lambda: rows.append(cached_embeddings(teacher, tiny_sentences, folder=tmp_path))
        )
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (len(encoded), len(rows)) == (1, 3)
    np.testing.assert_array_equal(rows[0], rows[2])


def test_the_folder_is_the_argument_else_the_environment_else_the_users_cache(
    teacher: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "platformdirs.user_cache_dir", lambda name, *_, **__: str(tmp_path / "user" / name)
    )
    monkeypatch.delenv("WORKBENCH_CACHE", raising=False)
    cached_embeddings(teacher, ["a cat"])
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "named"))
    cached_embeddings(teacher, ["a cat"])
    cached_embeddings(teacher, ["a cat"], folder=tmp_path / "given")
    for name in ("user/ranking-workbench", "named", "given"):
        assert (tmp_path / name / "embeddings").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="WORKBENCH_CACHE"):
        cached_embeddings(teacher, ["a cat"], folder=tmp_path / "file")
