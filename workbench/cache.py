"""Embeddings that never change, computed once: kept on disk by the content of the encoder and of the sentences."""

import hashlib
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import torch

from workbench.encoder import Encoder
from workbench.errors import RunError

_LOG = logging.getLogger("workbench")
_VERSION = 1  # of what lies on disk; a new one leaves older entries unused
_CHUNK = 50_000  # sentences embedded at a time: bounds the memory that float32 rows take
_EMBEDDINGS, _FACTS = "embeddings.npy", "facts.json"


def cache_folder(folder: str | Path | None = None) -> Path:
    """Where embeddings are kept: `folder`, else WORKBENCH_CACHE, else the user's cache directory of this platform."""
    chosen = folder or os.environ.get("WORKBENCH_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        parent = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        parent = Path.home() / "Library" / "Caches"
    else:
        parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return parent / "ranking-workbench"


def cached_embeddings(
    encoder: Encoder,
    sentences: Sequence[str],
    *,
    folder: str | Path | None = None,
    batch_size: int = 64,
    progress: bool = False,
) -> np.ndarray:
    """The embeddings of `sentences` under `encoder`, from the cache or computed now and kept there.

    They are half precision: 3 to 4 decimals of a cosine, a quarter of a gigabyte for 10^6 sentences 128 wide. Widen the
    rows to float32 before similarities are taken: near 0.9 half precision has 2,000 values a unit, and lists would tie.

    Args:
        encoder: Frozen; its weights, configuration, tokenizer, pooling, template, token limit and precision are hashed.
        sentences: At least one; they are hashed in their order.
        folder: None takes WORKBENCH_CACHE, else the user's cache directory. It may be deleted at any time.
        batch_size: Sentences a batch when they must be computed.
        progress: Show a bar then.

    Returns:
        A read-only float16 memory map [n, d], unit rows, in the order given.

    Raises:
        ValueError: There are no sentences.
        RunError: The folder cannot be written.
    """
    if not len(sentences):
        raise ValueError("no sentences to embed; give at least one")
    root = cache_folder(folder)
    wanted = {"version": _VERSION, "encoder": fingerprint(encoder), "sentences": _checksum(sentences)}
    entry = root / "embeddings" / hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:32]
    shape = (len(sentences), encoder.width)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        # One process computes; others that want the same, such as the other processes of one training, wait for it.
        with filelock.FileLock(entry.with_suffix(".lock")):
            found = _read(entry, wanted, shape)
            if found is None:
                _write(entry, wanted, encoder, sentences, batch_size=batch_size, progress=progress)
                found = np.load(entry / _EMBEDDINGS, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise RunError(
            f"embeddings cannot be cached under {root}: {error.strerror or error}; free some space, or name a folder "
            "that can be written (the environment variable WORKBENCH_CACHE, or the setting cache)"
        ) from error
    return found


def fingerprint(encoder: Encoder) -> str:
    """sha256 of what decides an embedding: weights, configuration, tokenizer, pooling, template, limit, precision."""
    digest = hashlib.sha256()
    configuration = encoder.backbone.config.to_dict()
    # Where it came from and which library saved it decide nothing.
    for name in ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures"):
        configuration.pop(name, None)
    reading = [encoder.pooling, encoder.template, encoder.limit, encoder.precision]
    digest.update(
        json.dumps([configuration, _tokenization(encoder.tokenizer), reading], sort_keys=True, default=str).encode()
    )
    for name, tensor in sorted(encoder.backbone.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


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
        elif facts["sha256"] != _sha256(entry / _EMBEDDINGS):
            problem = "their checksum is not the one noted when they were written"
        else:
            return found
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        problem = f"they cannot be read ({error})"
    _LOG.warning("the cached embeddings in %s are not used: %s; they are computed again", entry, problem)
    return None


def _write(entry: Path, wanted: dict[str, Any], encoder: Encoder, sentences: Sequence[str], **options: Any) -> None:
    """Computes an entry in a folder beside it and renames that into place, so that a kill leaves no half entry."""
    started = time.perf_counter()
    shape = (len(sentences), encoder.width)
    _LOG.info("embedding %d sentences with %s; they are kept in %s", len(sentences), encoder.source, entry)
    # Only the holder of the lock comes here: what lies there is of a process that was killed, and may be gigabytes.
    fresh = entry.with_name(f".{entry.name}.unfinished")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        rows = np.lib.format.open_memmap(fresh / _EMBEDDINGS, mode="w+", dtype=np.float16, shape=shape)
        for start in range(0, len(sentences), _CHUNK):
            chunk = list(sentences[start : start + _CHUNK])
            rows[start : start + len(chunk)] = encoder.encode(chunk, **options).half().numpy()
        rows.flush()
        del rows
        facts = wanted | {
            "sha256": _sha256(fresh / _EMBEDDINGS),
            "source": encoder.source,
            "pooling": encoder.pooling,
            "rows": shape[0],
            "width": shape[1],
            "seconds": round(time.perf_counter() - started, 1),
        }
        (fresh / _FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        if entry.is_dir():
            shutil.rmtree(entry)
        entry.unlink(missing_ok=True)
        fresh.rename(entry)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
