"""Frozen encoders by name, each read as it was trained, and what they say of many sentences: computed once, kept."""

import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import platformdirs

from workbench.encoder import POOLINGS, Checkpoint, Encoder, Reading, find_checkpoint, weights_checksum
from workbench.errors import DataError, EncoderError, RunError
from workbench.files import atomic_path, file_checksum, text_checksum

_LOG = logging.getLogger("workbench")
_VERSION = 1  # of what lies on disk; a new one leaves older entries unused
_CHUNK = 50_000  # sentences embedded at a time: bounds the memory that float32 rows take
_EMBEDDINGS, _FACTS = "embeddings.npy", "facts.json"


def find_teacher(
    name: str, *, pooling: str | None = None, template: str | None = None, revision: str | None = None
) -> tuple[Checkpoint, Reading]:
    """Where the checkpoint called `name` lies and how it is read; see load_teacher for the arguments.

    Raises EncoderError when it is missing, broken, an unfinished run, or says nothing of its pooling.
    """
    try:
        checkpoint = find_checkpoint(name, revision)
        reading = checkpoint.read(pooling, template)
    except EncoderError as error:
        raise EncoderError(f"teacher {name!r}: {error}") from error
    if reading is None:
        raise EncoderError(
            f"teacher {name!r} does not say how its tokens become one vector (no modules.json, no name known here); "
            f'set its pooling: teacher_pooling={{"{name}": "cls"}} of RankCSE, base_pooling="cls" of RankEncoder, or '
            f"another of {', '.join(POOLINGS)}"
        )
    return checkpoint, reading


def load_teacher(
    name: str,
    *,
    pooling: str | None = None,
    template: str | None = None,
    max_tokens: int | None = None,
    revision: str | None = None,
    precision: str = "auto",
    device: str = "auto",
) -> Encoder:
    """The frozen encoder called `name`, with any vocabulary and any width; `cached_embeddings` keeps what it says.

    Its pooling is `pooling`; else what its files say (ours, or a SentenceTransformer's modules.json); else what is
    known of its name: [CLS] for SimCSE, DiffCSE and RankCSE, the [MASK] of a template for PromptBERT and SNCSE.

    Args:
        name: The folder of a finished run, another folder, a bundled name, or a hub id, looked up in this order.
        pooling: Overrules what the checkpoint says.
        template: For pooling "mask"; None takes the checkpoint's, else the published one.
        max_tokens: Sentences are cut here, special tokens included (of a template: in front of it); None: read whole.
        revision: Of a hub id. precision, device: as for Encoder.from_pretrained.

    Raises:
        EncoderError: It is missing, broken, an unfinished run, or says nothing of its pooling.
    """
    found = find_teacher(name, pooling=pooling, template=template, revision=revision)
    try:
        encoder = Encoder.load(*found, precision=precision, device=device)
    except EncoderError as error:
        raise EncoderError(f"teacher {name!r}: {error}") from error
    if max_tokens is not None:
        encoder.limit = min(encoder.limit, max_tokens + encoder.template_tokens)
    return encoder.requires_grad_(False)


def cache_folder(folder: str | Path | None = None) -> Path:
    """Where embeddings are kept: `folder`, else WORKBENCH_CACHE, else the user's cache directory of this platform."""
    chosen = folder or os.environ.get("WORKBENCH_CACHE")
    return Path(chosen or platformdirs.user_cache_dir("ranking-workbench", appauthor=False, opinion=False)).expanduser()


def cached_embeddings(
    encoder: Encoder,
    sentences: Sequence[str],
    *,
    folder: str | Path | None = None,
    batch_size: int = 64,
) -> np.ndarray:
    """The embeddings of `sentences` under `encoder`, from the cache or computed now and kept there.

    They are half precision: 3 to 4 decimals of a cosine, a quarter of a gigabyte for 10^6 sentences 128 wide. Widen the
    rows to float32 before similarities are taken: near 0.9 half precision has 2,000 values a unit, and lists would tie.

    Args:
        encoder: Frozen; its weights, configuration, tokenizer, reading, token limit and precision are hashed.
        sentences: At least one; they are hashed in their order.
        folder: None takes WORKBENCH_CACHE, else the user's cache directory. It may be deleted at any time.
        batch_size: Sentences a batch when they must be computed.

    Returns:
        A read-only float16 memory map [n, d], unit rows, in the order given.

    Raises:
        DataError: There are no sentences. RunError: The folder cannot be written.
    """
    if not len(sentences):
        raise DataError("no sentences to embed; give at least one")
    root = cache_folder(folder)
    wanted = {"version": _VERSION, "encoder": fingerprint(encoder), "sentences": _checksum(sentences)}
    entry = root / "embeddings" / text_checksum(json.dumps(wanted))[:32]
    shape = (len(sentences), encoder.width)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        # One process computes; others that want the same, such as the other processes of one training, wait for it.
        with filelock.FileLock(entry.with_suffix(".lock")):
            found = _read(entry, wanted, shape)
            if found is None:
                _write(entry, wanted, encoder, sentences, batch_size)
                found = np.load(entry / _EMBEDDINGS, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise RunError(
            f"embeddings cannot be cached under {root}: {error.strerror or error}; free some space, or name a folder "
            "that can be written (the environment variable WORKBENCH_CACHE, or the setting cache)"
        ) from error
    return found


def fingerprint(encoder: Encoder) -> str:
    """sha256 of what decides an embedding: weights, configuration, tokenizer, reading, token limit, precision."""
    configuration = encoder.backbone.config.to_dict()
    # Where it came from and which library saved it decide nothing.
    for name in ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures"):
        configuration.pop(name, None)
    reading = [*astuple(replace(encoder.reading, caution="")), encoder.limit, encoder.precision]
    decisive = [weights_checksum(encoder), configuration, _tokenization(encoder.tokenizer), reading]
    return text_checksum(json.dumps(decisive, sort_keys=True, default=str))


def _tokenization(tokenizer: Any) -> Any:
    """What a tokenizer does to a text: its whole pipeline, less the padding and cutting that the last call left set."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return [type(tokenizer).__name__, tokenizer.get_vocab(), tokenizer.special_tokens_map, tokenizer.init_kwargs]
    pipeline = json.loads(backend.to_str())
    return {name: part for name, part in pipeline.items() if name not in ("padding", "truncation")}


def _checksum(sentences: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for sentence in sentences:
        content = sentence.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _read(entry: Path, wanted: dict[str, Any], shape: tuple[int, int]) -> np.ndarray | None:
    """The embeddings of an entry whose content is what it claims; else None, and the reason is said."""
    if not entry.exists():
        return None
    try:
        facts = json.loads((entry / _FACTS).read_text(encoding="utf-8"))
        found = np.load(entry / _EMBEDDINGS, mmap_mode="r", allow_pickle=False)
        if {name: facts[name] for name in wanted} != wanted:
            problem = "they are of another encoder or of other sentences"
        elif found.shape != shape or found.dtype != np.float16:
            problem = f"they are {found.dtype}{list(found.shape)}, not float16{list(shape)}"
        elif facts["sha256"] != file_checksum(entry / _EMBEDDINGS):
            problem = "their checksum is not the one noted when they were written"
        else:
            return found
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        problem = f"they cannot be read ({error})"
    _LOG.warning("the cached embeddings in %s are not used: %s; they are computed again", entry, problem)
    return None


def _write(entry: Path, wanted: dict[str, Any], encoder: Encoder, sentences: Sequence[str], batch_size: int) -> None:
    """Computes an entry in a folder beside it and renames that into place, so that a kill leaves no half entry."""
    started = time.perf_counter()
    shape = (len(sentences), encoder.width)
    _LOG.info("embedding %d sentences with %s; they are kept in %s", len(sentences), encoder.source, entry)
    # Only the holder of the lock comes here: what lies there is of a process that was killed, and may be gigabytes.
    with atomic_path(entry, folder=True) as fresh:
        rows = np.lib.format.open_memmap(fresh / _EMBEDDINGS, mode="w+", dtype=np.float16, shape=shape)
        for start in range(0, len(sentences), _CHUNK):
            chunk = list(sentences[start : start + _CHUNK])
            rows[start : start + len(chunk)] = encoder.encode(chunk, batch_size).half().numpy()
        rows.flush()
        del rows
        facts = wanted | {
            "sha256": file_checksum(fresh / _EMBEDDINGS),
            "source": encoder.source,
            "pooling": encoder.pooling,
            "rows": shape[0],
            "width": shape[1],
            "seconds": round(time.perf_counter() - started, 1),
        }
        (fresh / _FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
