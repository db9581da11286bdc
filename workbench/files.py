"""Atomic writes, checksums, and the paths of bundled files."""

import datetime
import filecmp
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import filelock
import platformdirs
from pydantic_core import to_json

from workbench.errors import RunError, SettingError

# Seconds to wait where Windows refuses to move a file that another program, such as a scanner of
# viruses or a reader, has open for a moment.
_WAITS = (0.1, 0.3, 1, 2) if os.name == "nt" else ()
AnyPath = str | os.PathLike
Names = Iterable[AnyPath] | AnyPath  # one or several, as `as_list` reads them
Facts = dict[str, Any]  # names and values of any type
# The user's folder; "~" if there is none, as in some containers, where Path.home() is an error.
HOME = os.path.expanduser("~")  # noqa: PTH111
PACKAGE = Path(__file__).resolve().parent
CORPUS = "encoder/corpus.json.gz"  # in the folder of a run, whose scores depend on it
# The endings of a user's own data files.
_ENDINGS = (
    ".txt .tsv .csv .jsonl .txt.gz .tsv.gz .csv.gz .jsonl.gz .parquet "
    ".TXT .TSV .CSV .JSONL .PARQUET"
)
OWN_FILES = tuple(_ENDINGS.split())
# What may lie beside an encoder without any influence on its vectors; every other file counts.
_WITHOUT_INFLUENCE = re.compile(
    r"""(?xi) (.*/)?\..*  # hidden, such as .git
    | (onnx|openvino|coreml|checkpoint-.*|runs|logs|eval)/.*  # copies for other libraries, logs
    | (.*/)?(readme|licen[cs]e|notice)[^/]*
    | (.*/)?(desktop\.ini|thumbs\.db)  # of Windows, when a folder is looked at
    | .*\.(md|rst|html|pdf|png|jpe?g|gif|svg|csv|log|onnx|h5|ot|msgpack|tflite|gguf)
    | (optimizer|scheduler|scaler|rng_state|trainer_state|training_args)[^/]*  # of a training
    | ([^/]*_results|data_config)\.json"""
)
# What `Encoder.save` and the tokenizers of transformers write, with the folders of the modules of a
# SentenceTransformer. The folder may contain anything else of the user's.
SAVED_BY_ENCODER = re.compile(
    r"""(?x) README\.md | model\.safetensors
    | (config|encoder|modules|sentence_bert_config|config_sentence_transformers)\.json
    | (tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|entity_vocab)\.json
    | (vocab|merges|dict)\.txt | bpe\.codes | chat_template\.jinja
    | (spiece|spm|spm_char|sentencepiece|sentencepiece\.bpe|tokenizer|tiktoken)\.model
    | \d+_[A-Z]\w+ (/(config\.json|model\.safetensors))?"""
)
# What an Encoder does not read, but SentenceTransformer may.
_READ_BY_OTHERS = re.compile(
    r".*\.(py|bin|pt|pth|jinja)|(.*/)?(chat_template|generation_config)\.json"
)
# In an encoder of this project these repeat its other files, or are read by its method alone.
_REPEATED = re.compile(
    r"(sentence_bert_config|config_sentence_transformers)\.json|corpus\.json\.gz"
)
_OLDER_VOCABULARY = re.compile(r"(?!sentencepiece\.bpe|spiece).*\.model")  # beside tokenizer.json


def user_path(name: AnyPath) -> Path:
    """Return the path that a user names, with ~ as the home folder. Raises as `path_text`."""
    # "~nobody" stays: Path.expanduser raises of it.
    return Path(os.path.expanduser(path_text(name)))  # noqa: PTH111


def path_text(name: AnyPath) -> str:
    """Return a name or path as text. Raises SettingError for an object in the place of a name."""
    if not isinstance(name, AnyPath):
        raise SettingError(
            f"expected one name or path, got {type(name).__name__}; a table becomes a set with "
            "Pairs.from_frame, and `evaluate` takes an encoder as it is and sets as {name: set}"
        )
    return os.fspath(name)


def as_list(values: Any) -> list[Any]:
    """Return several as a list; one, such as a name, an encoder or a table, in a list."""
    # A string can be encoded, too.
    is_one = hasattr(values, "encode") or hasattr(values, "columns") or callable(values)
    return [values] if is_one or not isinstance(values, Iterable) else list(values)


def set_name(name: AnyPath) -> str:
    """Return the name of a set in metrics and tables.

    That of a user's own file is the name of the file without its endings."""
    text = str(name)
    if not text.endswith(OWN_FILES):
        return text
    return Path(text).name.removesuffix(".gz").rpartition(".")[0]


@contextmanager
def atomic_path(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """Yield an empty file or folder next to `target`; rename it to `target` if the block succeeds.

    A folder that has the same files already is left as it is: a cell that fails again writes
    nothing anew. The content is synced to the disk first: a power loss leaves the old content or
    the new one.
    """
    # What an interrupted write left is removed before this one begins.
    new, old = undo_write(target)
    new.mkdir() if folder else new.touch()
    if target.is_file():  # who may read it is its owner's choice
        new.chmod(target.stat().st_mode | 0o200)
    mode = new.stat().st_mode & 0o666
    try:
        yield new
        for path in [*new.rglob("*"), new]:
            path.chmod(path.stat().st_mode | mode)  # safetensors lets only the owner read its files
            _sync(path)
        # A folder cannot replace another in one step: the old one is moved aside, and `undo_write`
        # brings it back if the process ends between the two.
        if folder and target.exists():
            if _has_same_files(new, target):
                return
            _move(target, old)
        _move(new, target)
        _sync(target.parent)
    finally:
        undo_write(target)


def _move(path: Path, target: Path) -> None:
    """Rename a file or a folder, on Windows once no other program has it open."""
    for seconds in _WAITS:
        with suppress(PermissionError):
            path.replace(target)
            return
        time.sleep(seconds)
    path.replace(target)


def _has_same_files(folder: Path, other: Path) -> bool:
    """Return whether two folders have the same files with the same bytes."""
    names = set()
    for root in (folder, other):
        names |= {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
    # Those with other bytes, and absent ones.
    _, *differing = filecmp.cmpfiles(folder, other, names, shallow=False)
    return not any(differing)


def write_text(target: Path, text: str) -> None:
    """Write a text (UTF-8) with its line ends as they are, atomically into a file.

    A link stays one, and a device too, such as /dev/stdout.
    """
    if target.is_symlink() or (target.exists() and not target.is_file()):
        target.write_text(text, encoding="utf-8", newline="")
        return
    with atomic_path(target) as new:
        new.write_text(text, "utf-8", newline="")


def undo_write(target: Path) -> tuple[Path, Path]:
    """Remove the two paths of an interrupted `atomic_path`, and return them.

    A folder that it had moved is restored first."""
    new = target.with_name(f".{target.name}.new")
    old = target.with_name(f".{target.name}.old")
    if old.exists() and not target.exists():
        _move(old, target)
    remove_path(new)
    remove_path(old)
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


def json_text(content: Facts) -> str:
    """Return JSON with a line end; NumPy's numbers become plain ones, and nan and infinity null."""
    text = to_json(content, indent=2, inf_nan_mode="null", fallback=lambda number: number.item())
    return text.decode() + "\n"


def write_json(path: Path, content: Facts) -> None:
    """Write `json_text` atomically."""
    write_text(path, json_text(content))


@contextmanager
def reraise_os_error(
    path: Path, other: str = "a runs folder that can be written (--runs FOLDER)"
) -> Iterator[None]:
    """Raise an OSError of the block as a RunError that names `path` and an alternative."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write under {path}: {error.strerror or error}; free some space, close "
            f"what has it open, or give {other}"
        ) from error


def text_checksum(*texts: str | bytes) -> str:
    """Return the sha256 of the concatenated texts, in hexadecimal digits."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return digest.hexdigest()


def file_checksum(path: Path) -> str:
    """Return the sha256 of a file; an unchanged file is read once in each process."""
    # Any change of a file changes one of these.
    facts = path.stat()
    return _read_checksum(
        path.resolve(), facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
    )


@lru_cache(maxsize=4096)
def _read_checksum(path: Path, *_facts: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checkpoint_checksum(folder: Path, *, every_reader: bool = False) -> str:
    """Return the sha256 of the files that may decide a vector; `folder` may be a run's.

    every_reader: also of those that SentenceTransformer reads and an Encoder does not.
    """
    root = folder
    with suppress(OSError, ValueError, TypeError):
        if "settings" in json.loads((folder / "config.json").read_bytes()):
            root = folder / "encoder"  # of a run
    is_own = (root / "encoder.json").is_file() and not every_reader
    skipped = [_WITHOUT_INFLUENCE]
    if not every_reader:
        skipped.append(_READ_BY_OTHERS)
    if is_own:
        skipped.append(_REPEATED)
        if (root / "tokenizer.json").is_file():
            skipped.append(_OLDER_VOCABULARY)
    lines = []
    # A glob enters linked folders, and this depth contains the modules of modules.
    for path in sorted(chain.from_iterable(map(root.glob, ("*", "*/*", "*/*/*")))):
        name = path.relative_to(root).as_posix()
        if is_own and not SAVED_BY_ENCODER.fullmatch(name):
            continue
        if path.is_file() and not any(pattern.fullmatch(name) for pattern in skipped):
            lines.append(f"{name} {file_checksum(path)}\n")
    return text_checksum(*lines)


def checksum_of_name(name: str) -> str:
    """Return the sha256 of the file or the encoder's folder that a setting names.

    "st:" before a folder: of all that SentenceTransformer reads. Raises OSError if there is none.
    """
    plain = name.removeprefix("st:")
    path = Path(plain)
    if path.is_dir():
        return checkpoint_checksum(path, every_reader=plain != name)
    return file_checksum(path)


def cache_folder() -> Path:
    """Return the folder WORKBENCH_CACHE, by default the user's cache folder."""
    return Path(
        os.environ.get("WORKBENCH_CACHE")
        or platformdirs.user_cache_dir("ranking-workbench", appauthor=False, opinion=False)
    ).expanduser()


# Without locks of the file system filelock would take a marker file, which a kill leaves behind.
file_lock = partial(filelock.FileLock, fallback_to_soft=False)


def fill_template(template: str, **values: Any) -> str:
    """Return a text of the package filled by Jinja; in .html, values are escaped."""
    return _compiled(template).render(values)


@lru_cache  # to compile it takes 5 ms, and a table has a sentence for each row
def _compiled(template: str) -> Any:
    import jinja2  # which most commands do without

    source = (PACKAGE / template).read_text("utf-8")
    is_html = template.endswith(".html")
    return jinja2.Template(source, trim_blocks=True, autoescape=is_html)


def project_path(name: str) -> Path:
    """Return the bundled folder `name` ("data" or "notebooks").

    It is in the checkout, or in the installed wheel."""
    checkout = PACKAGE.parent / name
    return checkout if checkout.is_dir() else PACKAGE / "_bundled" / name
