"""Atomic writes, checksums, and the paths of bundled files."""

import datetime
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import platformdirs

from workbench.errors import RunError

PACKAGE = Path(__file__).resolve().parent
# The endings of a user's own data files.
OWN_FILES = (".txt", ".tsv", ".csv", ".jsonl", ".txt.gz", ".tsv.gz", ".csv.gz", ".jsonl.gz", ".parquet")
# The files of an encoder's folder, or of a folder in it, that are read.
_CHECKPOINT_FILES = {
    *("config.json", "encoder.json", "modules.json", "*.safetensors", "model.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model"),
}


def set_name(name: str | Path) -> str:
    """Return the name of a set in metrics and tables: of a user's own file, its name without the endings."""
    text = str(name)
    return Path(text).name.removesuffix(".gz").rpartition(".")[0] if text.endswith(OWN_FILES) else text


@contextmanager
def atomic_path(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """Yield an empty file or folder next to `target`; rename it to `target` if the block succeeds.

    Its content is synced to the disk first: a power loss leaves the old content or the new one.
    """
    new, old = undo_write(target)
    new.mkdir() if folder else new.touch()
    mode = new.stat().st_mode & 0o666
    try:
        yield new
        for path in [*new.rglob("*"), new]:
            path.chmod(path.stat().st_mode | mode)  # safetensors lets only the owner read its files
            _sync(path)
        if folder and target.exists():
            target.rename(old)
        new.replace(target)
        _sync(target.parent)
    finally:
        undo_write(target)


@contextmanager
def atomic_write(target: Path) -> Iterator[TextIO]:
    """Yield an open file of text (UTF-8) that becomes `target` if the block succeeds."""
    with atomic_path(target) as new, new.open("w", encoding="utf-8", newline="") as file:
        yield file


def undo_write(target: Path) -> tuple[Path, Path]:
    """Remove the two paths of an interrupted `atomic_path`, after restoring a folder that it had moved; return them."""
    new, old = (target.with_name(f".{target.name}.{end}") for end in ("new", "old"))
    if old.exists() and not target.exists():
        old.rename(target)
    for path in (new, old):
        remove_path(path)
    return new, old


def remove_path(path: Path) -> None:
    """Remove a file, a link or a folder, as far as that is allowed."""
    shutil.rmtree(path, ignore_errors=True)  # does nothing with a file or a link
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    is_folder = path.is_dir()
    with suppress(*([OSError] if is_folder else [])):  # some file systems cannot sync a folder
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def timestamp() -> str:
    """Return the time in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON atomically; NumPy's numbers become plain ones, and nan and infinity null."""
    text = json.dumps(content, default=lambda value: value.item())
    with atomic_write(path) as file:
        json.dump(json.loads(text, parse_constant=lambda _: None), file, indent=2, ensure_ascii=False)
        file.write("\n")


@contextmanager
def reraise_os_error(path: Path, other: str = "a runs folder that can be written (--runs FOLDER)") -> Iterator[None]:
    """Raise an OSError of the block as a RunError that names `path` and an alternative."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"cannot write under {path}: {reason}; free some space, or give {other}") from error


def text_checksum(*texts: str | bytes) -> str:
    """Return the sha256 of the concatenated texts, in hexadecimal digits."""
    parts = (text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def file_checksum(path: Path) -> str:
    """Return the sha256 of a file; an unchanged file is read once in each process."""
    facts = path.stat()
    return _read_checksum(str(path.resolve()), facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


@lru_cache(maxsize=4096)
def _read_checksum(path: str, *_facts: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checkpoint_checksum(folder: Path) -> str:
    """Return the sha256 of the names and contents of the files that an encoder reads; `folder` may be a run's."""
    root = folder / "encoder" if (folder / "encoder").is_dir() else folder
    # In an encoder of this project these only repeat its other files.
    repeated = {"sentence_bert_config.json", "config_sentence_transformers.json"}
    names = _CHECKPOINT_FILES | (set() if (root / "encoder.json").is_file() else repeated)
    names = names | (set() if (root / "tokenizer.json").is_file() else {"*.model"})  # which are read in its place
    paths = sorted(path for name in names for path in [*root.glob(name), *root.glob(f"*/{name}")] if path.is_file())
    own = (path for path in paths if path.parent == root or not path.parent.name.startswith("checkpoint-"))
    return text_checksum(*(f"{path.relative_to(root).as_posix()} {file_checksum(path)}\n" for path in own))


def cache_folder() -> Path:
    """Return the folder WORKBENCH_CACHE, by default the user's cache folder."""
    default = platformdirs.user_cache_dir("ranking-workbench", appauthor=False, opinion=False)
    return Path(os.environ.get("WORKBENCH_CACHE") or default).expanduser()


def project_path(name: str) -> Path:
    """Return the bundled folder `name` ("data" or "notebooks"), of the checkout or the installed wheel."""
    checkout = PACKAGE.parent / name
    return checkout if checkout.is_dir() else PACKAGE / "_bundled" / name
