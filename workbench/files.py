"""Files that are never half written (beside, then renamed into place), and the checksums that name their content."""

import datetime
import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import filelock

from workbench.errors import RunError

if TYPE_CHECKING:
    import pandas as pd

# What is being written stands beside its target as .<target>.<eight characters> (`_beside`); a folder that it
# replaces, as that with .old behind it.
_BESIDE = re.compile(r"\.(?P<target>.+)\.[a-z0-9_]{8}(?P<old>\.old)?")

# How a data file of the user's own is told from a name.
OWN_FILES = tuple(f"{kind}{packed}" for kind in (".txt", ".tsv", ".csv", ".jsonl") for packed in ("", ".gz"))
OWN_FILES += (".parquet",)


def set_name(name: str | Path) -> str:
    """What a set is called in metrics and tables: a file of the user's own as the file without its endings."""
    text = str(name)
    return Path(text).name.removesuffix(".gz").rpartition(".")[0] if text.endswith(OWN_FILES) else text


PACKAGE = Path(__file__).resolve().parent


@contextmanager
def replacing(path: Path, *, binary: bool = False) -> Iterator[Any]:
    """A file (text in UTF-8, or `binary`) written beside `path` and put in its place as by `replacing_file`."""
    form: dict[str, Any] = {"mode": "wb"} if binary else {"mode": "w", "encoding": "utf-8", "newline": ""}
    with replacing_file(path) as fresh, fresh.open(**form) as file:
        yield file


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """A fresh file beside `path`, for what writes by name; renamed into place when the block ends well.

    Both the file and the rename are on the disk when this returns: a power loss leaves the old file or the new one.
    """
    fresh = _beside(path)
    fresh.touch(exist_ok=False)
    mode = fresh.stat().st_mode
    try:
        yield fresh
        fresh.chmod(mode)  # safetensors' are their owner's alone; a run is read by whoever may read the folder
        settle(fresh)
        fresh.replace(path)
        settle(path.parent)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@contextmanager
def replacing_folder(target: Path, *, beside: str = "") -> Iterator[Path]:
    """A fresh folder beside `target` to write into, put in its place when the block ends well; else all is as before.

    beside: the fresh folder's name, for whoever holds a lock on `target`: what a killed process left there is removed.
    Without it the name is drawn, and `sweep` removes what is left.
    """
    if beside:
        fresh = target.with_name(beside)
        if _old(fresh).exists() and not target.exists():
            _old(fresh).rename(target)
        for left in (fresh, _old(fresh)):
            shutil.rmtree(left, ignore_errors=True)
    else:
        fresh = _beside(target)
    fresh.mkdir()
    mode = fresh.stat().st_mode & 0o666
    try:
        yield fresh
        for path in [*fresh.rglob("*"), fresh]:
            if (has := path.stat().st_mode) & mode != mode:
                path.chmod(has | mode)
            settle(path)
        _swap(fresh, target)
        settle(target.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")


def _swap(fresh: Path, target: Path) -> None:
    """Renames `fresh` to `target`; what stood there stays until that is done."""
    if not target.exists():
        fresh.rename(target)
        return
    old = _old(fresh)
    target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old) if old.is_dir() else old.unlink()


def _old(fresh: Path) -> Path:
    return fresh.with_name(f"{fresh.name}.old")


def settle(path: Path) -> None:
    """Returns when the content of a file, or the names in a folder, are on the disk itself."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # a file system that cannot, for folders
            raise
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Removes what a killed process left half written in `folder`; a folder that it was replacing is put back."""
    for left in sorted(folder.glob(".*")):
        found = _BESIDE.fullmatch(left.name)
        if found is None:
            continue
        target = folder / found["target"]
        if found["old"] and not target.exists():
            left.rename(target)
        elif left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def lock_run(path: Path, name: str = ".lock") -> filelock.BaseFileLock:
    """The lock called `name` of the run in `path`, held; RunError when another process holds it."""
    lock = filelock.FileLock(path / name, is_singleton=True)
    try:
        lock.acquire(timeout=0.2, poll_interval=0.02)  # `is_held` may have it for a moment
    except filelock.Timeout:
        who = f"another process is working on {path} ({holder(path, name)})"
        raise RunError(f"{who}; wait for it, or choose another seed") from None
    if lock.lock_counter == 1:
        notebook = f", the kernel of {session}" if (session := os.environ.get("JPY_SESSION_NAME")) else ""
        with suppress(OSError):  # on a full disk nobody learns who it is
            (path / name).write_text(f"process {os.getpid()} on {platform.node()} since {now()}{notebook}", "utf-8")
    return lock


def holder(path: Path, name: str = ".lock") -> str:
    """Who took the lock called `name` of the run in `path` last: process, host, since when, a kernel's notebook."""
    with suppress(OSError):
        return (path / name).read_text("utf-8") or "it left no name"
    return "it left no name"


def now() -> str:
    """The time as runs keep it: UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def is_held(path: Path, name: str = ".lock") -> bool:
    """Whether somebody, this process included, holds the lock called `name` of the run in `path`."""
    if not (path / name).exists():
        return False
    lock = filelock.FileLock(path / name)
    try:
        lock.acquire(timeout=0)
    except (filelock.Timeout, OSError) as problem:
        return isinstance(problem, filelock.Timeout)  # where nothing can be written, nobody works
    lock.release()
    return False


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON beside `path` and renames it into place; nan, which JSON has not, becomes null."""
    with replacing(path) as file:
        file.write(json_text(content))


def json_text(content: dict[str, Any]) -> str:
    """What `write_json` writes."""
    return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and value != value else value  # noqa: PLR0124 - nan is not itself


def deaf(stream: TextIO) -> None:
    """Sends what is still written to a stream whose reader has gone, as behind `| head`, to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def read_csv(path: Path, text: Sequence[str] = ()) -> "pd.DataFrame":
    """A table of ours; `text` columns stay text: an id "007" or a sentence "nan" is what it is."""
    import pandas as pd

    columns = pd.read_csv(path, nrows=0).columns.drop([*text])  # KeyError where one is missing
    missing = {name: ["", "nan"] for name in columns}
    return pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values=missing)


_RUNS = "a runs folder that can be written (--runs FOLDER, or runs_root in the notebook)"


@contextmanager
def explained(path: Path, other: str = _RUNS) -> Iterator[None]:
    """Turns the system's refusal to write into a RunError that says what to do; `other`: what else could be given."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write under {path}: {error.strerror or error}; free some space, or give {other}"
        ) from error


def text_checksum(*texts: str | bytes) -> str:
    """sha256 of texts one after the other, in hexadecimal digits."""
    found = hashlib.sha256()
    for text in texts:
        found.update(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return found.hexdigest()


def file_checksum(path: Path) -> str:
    """sha256 of a file's bytes; a file that did not change since is not read again in this process."""
    facts = path.stat()
    return _checksum(str(path.resolve()), facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


@lru_cache(maxsize=4096)
def _checksum(path: str, *_facts: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# All that may be read of an encoder's folder and, in SentenceTransformer's layout, one below; beside its weights.
_CHECKPOINT_FILES = {
    *("config.json", "encoder.json", "modules.json", "model.safetensors.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "spiece.model"),
}


def checkpoint_checksum(folder: Path) -> str:
    """sha256 over the names and contents of what an encoder reads of `folder`, wherever the folder lies.

    The folder of a run stands for its encoder. A model card, or a file of another library, does not count.
    """
    root = folder / "encoder" if (folder / "encoder").is_dir() else folder
    files = [path for pattern in ("*", "*/*") for path in root.glob(pattern) if path.is_file()]
    # An encoder of this project repeats there what its other files contain.
    names = _CHECKPOINT_FILES | (set() if (root / "encoder.json").is_file() else {"sentence_bert_config.json"})
    read = [path for path in files if path.name in names or path.suffix == ".safetensors"]
    # What a trainer of another library left in between is no part of the model.
    own = sorted(path for path in read if not path.parent.name.startswith("checkpoint-"))
    return text_checksum(*(f"{path.relative_to(root).as_posix()} {file_checksum(path)}\n" for path in own))


def project_path(name: str) -> Path:
    """The folder of bundled material called `name` ("data" or "notebooks").

    Raises FileNotFoundError when neither the checkout's folder nor the wheel's copy exists.
    """
    candidates = [PACKAGE.parent / name, PACKAGE / "_bundled" / name]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(
        f"the bundled folder {name!r} is neither at {candidates[0]} nor at {candidates[1]}; "
        "install the project from its checkout (pip install -e .) or from its wheel"
    )
