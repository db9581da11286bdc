"""The folder of one run: its settings, its results, and the lock of the process working on it."""

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, NotRequired, Required

import filelock
import pandas as pd
from pandas import DataFrame
from pydantic import TypeAdapter, with_config
from typing_extensions import TypedDict  # pydantic reads typing's from Python 3.12

from workbench.config import RUN_CONFIGS, BaselineConfig, TrainingConfig
from workbench.data import TRANSFER, checksum_here
from workbench.errors import BusyError, RunError, first_problem, unknown_name
from workbench.files import (
    CORPUS,
    PACKAGE,
    AnyPath,
    Facts,
    checkpoint_checksum,
    file_checksum,
    file_lock,
    json_text,
    reraise_os_error,
    text_checksum,
    timestamp,
    undo_write,
    user_path,
    write_json,
    write_text,
)

RunConfig = TrainingConfig | BaselineConfig

NAME = re.compile(r"[0-9a-f]{8}-s\d+")  # of a run's folder
_LIBRARIES = (
    "torch transformers tokenizers safetensors sentence-transformers datasets numpy scipy "
    "scikit-learn ranking-workbench"
)
# Columns that each table must have, and the types of columns.
_COLUMNS = {
    "scores.csv": "suite subset pair_id gold predicted",
    "rankings.csv": "suite query_id target_id query target gold score rank",
    "history.csv": "step",
    "watched.csv": "step query target gold score",
}
_TEXTS = "suite subset pair_id query_id target_id query target"
_NUMBERS = "gold predicted score rank"
_TYPES: Any = {
    **dict.fromkeys(_TEXTS.split(), str),
    **dict.fromkeys(_NUMBERS.split(), float),
    "step": int,
}
FINISHED = "metrics.json"  # written last
BEFORE = "before"  # the stage of a run before its training
_REMEDY = "restore the file, or move the folder of the run away and run it again"


class _StoredFile(TypedDict):
    sha256: str
    source: NotRequired[str]  # of an input


@with_config(extra="allow")
class _Facts(TypedDict, total=False):
    """The content of config.json; further facts may be of any type."""

    method: Required[str]
    digest: str
    settings: Required[Facts]
    contents: dict[str, str]
    inputs: dict[str, _StoredFile]
    files: dict[str, _StoredFile]
    versions: Facts
    started: str
    seconds: float
    failure: str | None


_ANY_OBJECT = TypeAdapter(Facts)
_FACTS = TypeAdapter(_Facts)


def run_path(config: RunConfig, runs_root: AnyPath = "runs") -> Path:
    """Return the folder of the run of `config`: `<root>/<method>/<digest>-s<seed>`."""
    return user_path(runs_root) / config.method / f"{config.digest()}-s{config.seed}"


def root_of_needed(config: RunConfig, runs_root: AnyPath) -> AnyPath:
    """Return the folder of the runs that `config` needs: its `base_root`, or that of the run."""
    return getattr(config, "base_root", None) or runs_root


def finished_run(config: RunConfig, runs_root: AnyPath = "runs") -> "Run | None":
    """Return the run of `config`, or None if it is not finished.

    Deletes a training state that a kill left behind.

    Raises RunError if a dataset, or a run that it learned from, has other content than it had then.
    """
    path = run_path(config, runs_root)
    if not is_finished(path):
        return None
    # A process may have been killed between its last file and the end of its training state.
    shutil.rmtree(path / "checkpoint", ignore_errors=True)
    run = Run(path)
    before = run.facts().get("contents", {})
    for name, now in _contents_here(config, runs_root).items():
        if before.get(name, now) != now:
            raise RunError(
                f"{path} is finished, but {name} is not what it read then; restore it, "
                f'`workbench rm "{path}"`, or give another --runs'
            )
    return run


def _contents_here(config: RunConfig, runs_root: AnyPath) -> dict[str, str]:
    """Return sha256 by name of each file, folder, dataset and run of the settings on this machine.

    The digest has the content of files and folders alone: a catalogue name may be served by
    another data root, and a run by another folder of runs.
    """
    contents = config.contents()
    for names, _ in config.data_sets.values():
        for name in names:
            for part in TRANSFER.get(name, {"": name}).values():
                if checksum := checksum_here(part):
                    contents[part] = checksum
    return contents | _contents_of_needed(config, runs_root)


def _contents_of_needed(config: RunConfig, runs_root: AnyPath) -> dict[str, str]:
    """Return sha256 by name of the finished runs that `config` learns from."""
    contents = {}
    root = root_of_needed(config, runs_root)
    for needed in config.runs_needed:
        path = run_path(needed, root)
        if is_finished(path):
            contents[f"{needed.method}/{path.name}"] = checkpoint_checksum(path)
    return contents


class Run:
    """One run on disk: `<root>/<method>/<digest>-s<seed>/`.

    It is a function of the settings and of the files that they name. Every method that reads
    raises RunError with the path of a file that is missing or was changed.
    """

    def __init__(self, path: AnyPath) -> None:
        """Open the run in the existing folder `path` for reading."""
        self.path = user_path(path)
        is_encoder = (self.path / "tokenizer_config.json").exists()  # beside a config.json
        if is_encoder or not (self.path / "config.json").is_file():
            raise RunError(
                f"{self.path} is no run: it has no config.json of one; list the runs with "
                "`workbench runs`"
            )
        self._lock = None

    @classmethod
    def open(cls, config: RunConfig, runs_root: AnyPath = "runs") -> "Run":
        """Open the run of `config` under `runs_root` for writing, and make its folder if it is new.

        Raises RunError if the folder cannot be written to, or if another process works on this run.
        """
        path = run_path(config, runs_root)
        if finished := finished_run(config, runs_root):
            return finished
        with reraise_os_error(path):
            path.mkdir(parents=True, exist_ok=True)
            lock = lock_run(path)
            try:
                if not is_finished(path):  # by another process, while this one waited for the lock
                    # Completes or drops an encoder that a killed process was replacing.
                    undo_write(path / "encoder")
                    _write_facts(path / "config.json", config, _contents_here(config, runs_root))
                run = cls(path)
                if type(config) is not RUN_CONFIGS.get(config.method):  # a class of your own
                    run.config = config
            except BaseException:
                lock.release(force=True)
                raise
        run._lock = lock
        return run

    def release(self) -> None:
        """Let another process continue this run."""
        if self._lock:
            self._lock.release(force=True)

    def acquire(self) -> None:
        """Take the lock again after `release`.

        Raises RunError if another process holds it and the run is not finished.
        """
        self._lock = lock_run(self.path)

    @property
    def finished(self) -> bool:
        """Whether metrics.json exists."""
        return is_finished(self.path)

    @cached_property
    def config(self) -> RunConfig:
        """The settings, which never change."""
        facts = self.facts()
        name = self.path.name
        method = facts["method"]
        file = self.path / "config.json"
        if method not in RUN_CONFIGS:
            raise RunError(unknown_name("method", method, RUN_CONFIGS, f"in {file}"))
        config = RUN_CONFIGS[method](**facts["settings"])
        # A run that was copied keeps its name; a folder with another name says nothing.
        if NAME.fullmatch(name) and not name.endswith(f"-s{config.seed}"):
            raise RunError(f"{file} has seed {config.seed}, unlike its folder; {_REMEDY}")
        return config

    def facts(self) -> Facts:
        """Return config.json: settings, versions, device, commit, checksums of inputs and files."""
        return read_json(self.path / "config.json", _FACTS)

    def record(self, inputs: Mapping[str, tuple[str, str]] | None = None, **facts: Any) -> None:
        """Add facts to config.json; a dictionary is merged into its former.

        Args:
            inputs: role -> source and sha256 of its content; a role is "encoder", "train", "dev",
                the name of a suite or one of the method's.
            facts: Any others, by name.

        Raises:
            RunError: The run began with other content.
        """
        recorded = self.facts()
        used = dict(recorded.get("inputs", {}))
        for role, (source, checksum) in (inputs or {}).items():
            entry = used.setdefault(role, {"source": source, "sha256": checksum})
            if entry["sha256"] != checksum:
                raise RunError(
                    f"{role}: {source} is not what {self.path} began with ({entry['source']}); "
                    f"{_REMEDY}"
                )
        if used:
            facts["inputs"] = used
        merged = recorded | facts
        for name, value in facts.items():
            if isinstance(value, dict):
                merged[name] = recorded.get(name, {}) | value
        if merged != recorded:
            with reraise_os_error(self.path):
                write_json(self.path / "config.json", merged)

    @contextmanager
    def record_end(self) -> Iterator[None]:
        """Record how long the block took, or why it failed, and release the run."""
        started = time.monotonic()
        was_finished = self.finished
        try:
            yield
            # A run that was finished before may be locked by the open kernel that trained it.
            if not was_finished:
                self.acquire()
                self.record(seconds=round(time.monotonic() - started, 1))
            self.record(failure=None)
        except Exception as error:
            # The disk is full, or another process has taken the run from the kernel.
            with suppress(RunError):
                self.acquire()
                self.record(failure=f"{type(error).__name__}: {error}")
            raise
        finally:
            self.release()

    def has(self, stage: str = "") -> bool:
        """Return whether the evaluation of this stage was stored."""
        return is_finished(self.path / stage)

    def metrics(self, stage: str = "") -> Facts:
        """Return suite -> {"spearman", "n", ...}; the stage "before" is that before training.

        A value is None if it is undefined.
        """
        return read_json(self.stored_path(FINISHED, stage))

    def scores(self, stage: str = "") -> DataFrame:
        """Return suite, subset, pair_id, gold, predicted."""
        return self._table("scores.csv", stage)

    def rankings(self, stage: str = "") -> DataFrame:
        """Return suite, query_id, target_id, query, target, gold, score, rank (1 = best)."""
        return self._table("rankings.csv", stage)

    def history(self) -> DataFrame:
        """Return step, epoch, learning_rate, loss, a column for each loss term, dev_*, seconds.

        Its `attrs` say whether step 0 could be kept, "keep_start".
        """
        table = self._table("history.csv", "")
        table.attrs["keep_start"] = self.facts()["settings"].get("keep_start", False)
        return table

    def watched(self) -> DataFrame:
        """Return step, query, target, gold, score of a few queries of dev, from step 0 on.

        Empty if no query of dev was watched: `training` watches the first with four to twenty
        targets.
        """
        name = "watched.csv"
        # If it was written, that it is missing is an error.
        if (self.path / name).is_file() or name in self.facts().get("files", {}):
            return self._table(name, "")
        return DataFrame(columns=_COLUMNS[name].split())

    def record_training(self, stopped: str = "") -> None:
        """Record that training has ended, why before its last step, and checksums of its files."""
        files = {"encoder": {"sha256": checkpoint_checksum(self.path)}}
        for name in ("history.csv", "watched.csv", CORPUS):
            path = self.path / name
            if path.is_file():
                files[name] = {"sha256": file_checksum(path)}
        # A run that it learned from may have been trained after this one was opened.
        contents = _contents_of_needed(self.config, self.path.absolute().parents[1])
        contents |= self.facts().get("contents", {})
        self.record(trained=True, stopped=stopped, files=files, contents=contents)

    def write_evaluation(
        self, metrics: Facts, scores: DataFrame, rankings: DataFrame, stage: str = ""
    ) -> None:
        """Store an evaluation; without `stage` this finishes the run."""
        folder = self.path / stage
        # metrics.json is written last: it marks the stage as finished, and a kill before it makes
        # the run continue.
        texts = {
            "scores.csv": scores.to_csv(index=False, lineterminator="\n"),
            "rankings.csv": rankings.to_csv(index=False, lineterminator="\n"),
            FINISHED: json_text(metrics),
        }
        files = {
            Path(stage, name).as_posix(): {"sha256": text_checksum(text)}
            for name, text in texts.items()
        }
        ended: Facts = {} if stage else {"ended": timestamp()}
        with reraise_os_error(folder):
            folder.mkdir(exist_ok=True)
            # Before the files: once metrics.json is there, their checksums are compared.
            self.record(files=files, **ended)
            for name, text in texts.items():
                write_text(folder / name, text)
        if not stage:  # nothing needs the training state any more
            shutil.rmtree(self.path / "checkpoint", ignore_errors=True)

    def _table(self, name: str, stage: str) -> DataFrame:
        return read_stored_table(self.stored_path(name, stage))

    def stored_path(self, name: str, stage: str = "") -> Path:
        """Return the path of a file of the run, whose content is what the run wrote.

        Raises RunError if it was cut or changed since, or is missing.
        """
        path = self.path / stage / name
        if not path.is_file():
            unfinished = "the run is not finished: run it again and it goes on"
            raise RunError(f"{path} is missing; {_REMEDY if self.finished else unfinished}")
        written = self.facts().get("files", {}).get(Path(stage, name).as_posix())
        # An unfinished stage may have the checksums of one start and the files of another.
        if written and self.has(stage):
            with _refuse_unreadable(path):
                checksum = text_checksum(path.read_bytes())
            if checksum != written["sha256"]:
                raise RunError(
                    f"{path} is not what the run wrote: it was cut or changed since; {_REMEDY}"
                )
        return path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {'finished' if self.finished else 'unfinished'})"


def is_finished(path: Path) -> bool:
    """Return whether the run, or the stage of a run, in `path` is finished."""
    return (path / FINISHED).is_file()


def lock_run(path: Path, result: str = FINISHED, name: str = ".lock") -> filelock.BaseFileLock:
    """Take a lock of the run in `path`, or return it free if another process wrote the `result`.

    A cell of a sweep, and its kernel, wait until that process ends or has written it. Otherwise,
    raises BusyError if another process holds the lock.
    """
    file = path / name
    lock = file_lock(file, is_singleton=True)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=0.5)  # `held_lock` may hold it for a moment
        except filelock.Timeout:
            if (path / result).is_file():
                return lock
            if "WORKBENCH_CELL" not in os.environ:
                raise BusyError(
                    f"another process is working on {path} ({owner_of(file)}); wait for its end"
                ) from None
    owner = f"process {os.getpid()} on {platform.node()} since {timestamp()}"
    if session := os.environ.get("JPY_SESSION_NAME"):
        owner += f", the kernel of {session}"
    with suppress(OSError):  # the disk is full
        _owner_file(file).write_text(owner, "utf-8")
    return lock


def owner_of(lock: Path) -> str:
    """Return the process that holds a lock, as it noted."""
    owner = ""
    with suppress(OSError):
        owner = _owner_file(lock).read_text("utf-8")
    return owner or "it did not note its name"


def _owner_file(lock: Path) -> Path:
    # Beside the lock: Windows lets no other process read a locked file.
    return lock.with_name(f"{lock.name}.owner")


def held_lock(path: Path) -> Path | None:
    """Return a lock of the run in `path` that a process, this one included, holds."""
    for file in path.glob(".*lock"):  # of the run, and of its notebook
        try:
            with file_lock(file, timeout=0):
                continue
        except filelock.Timeout:
            return file
        except OSError:  # nobody can write there
            continue
    return None


def read_json(path: Path, kind: TypeAdapter = _ANY_OBJECT) -> Any:
    """Return the content of a JSON file.

    Raises RunError if it cannot be read or has another form.
    """
    with _refuse_unreadable(path):
        return kind.validate_json(path.read_bytes())


def read_stored_table(path: Path) -> DataFrame:
    """Return a table of a run, such as its scores.csv.

    Text stays text, such as an id "007" or a sentence "nan".

    Raises RunError if it cannot be read or has another form.
    """
    with _refuse_unreadable(path):
        table = pd.read_csv(
            path,
            dtype=_TYPES,
            # Only a history has values that are missing: loss at step 0, dev between evaluations.
            na_filter=path.name == "history.csv",
        )
        if missing := {*_COLUMNS[path.name].split()} - set(table):
            raise ValueError(f"it has no column {min(missing)}")
        return table


@contextmanager
def _refuse_unreadable(path: Path) -> Iterator[None]:
    """Raise what goes wrong in reading a file as a RunError."""
    try:
        yield
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", problem)
        # A training goes on without its watched rankings.
        remedy = "restore or delete it" if path.name == "watched.csv" else _REMEDY
        raise RunError(f"{path} cannot be read ({first_problem(why)}); {remedy}") from None


def _write_facts(file: Path, config: RunConfig, contents: dict[str, str]) -> None:
    """Write config.json, or update that of an interrupted run.

    The facts of its earlier starts stay in `earlier_starts`.
    """
    earlier = read_json(file) if file.is_file() else {}
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES.split():
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    facts = {
        "method": config.method,
        "digest": config.digest(),
        "settings": config.model_dump(mode="json"),
        "contents": contents,
        "versions": versions,
        "git_commit": checkout_commit(),
        "machine": f"{platform.system()} {platform.machine()}",
        "host": platform.node(),
        "started": earlier.get("started", timestamp()),
    }
    if "inputs" in earlier:  # that start computed something
        before = {name: earlier.get(name) for name in facts}
        starts = earlier.get("earlier_starts", [])
        if before != facts:
            starts = [*starts, before]
        facts = earlier | facts | {"earlier_starts": starts, "failure": None}
    write_json(file, facts)


def checkout_commit(folder: Path = PACKAGE.parent) -> str | None:
    """Return the commit of a checkout, with "+changes" if tracked files differ; None elsewhere.

    Notebooks are not compared: executing one changes it.
    """
    git = ["git", "-C", str(folder), "--git-dir=.git"]  # not that of a folder above
    head = [*git, "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):
        # On Windows a child never starts whose stdin is a pipe that this process reads, as a cell.
        silent: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        commit = subprocess.check_output(head, text=True, **silent).strip()
        difference = [*git, "diff", "--quiet", "HEAD", "--", ".", ":!*.ipynb"]
        differs = subprocess.call(difference, **silent)
        return f"{commit}+changes" if differs else commit
