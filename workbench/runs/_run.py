"""The folder of one run: its settings, its results, and the lock of the process that is working on it."""

import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import filelock
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from workbench.config import RECORDED, BaselineConfig, TrainingConfig
from workbench.errors import RunError, unknown_name
from workbench.files import PACKAGE, atomic_write, file_checksum, reraise_os_error, timestamp, undo_write, write_json

NAME = re.compile(r"[0-9a-f]{8}-s\d+")  # of a run's folder
_LIBRARIES = ("torch", "transformers", "tokenizers", "datasets", "numpy", "scipy", "ranking-workbench")
_TEXT_COLUMNS: Any = dict.fromkeys(("suite", "subset", "pair_id", "query_id", "target_id", "query", "target"), str)
FINISHED = "metrics.json"  # written last
BEFORE = "before"  # the stage of a run before its training
_REMEDY = "restore the file, or move the folder of the run away and run it again"
_ANY_OBJECT, _METRICS = TypeAdapter(dict[str, Any]), TypeAdapter(dict[str, dict[str, Any]])


def run_path(config: TrainingConfig | BaselineConfig, runs_root: str | Path = "runs") -> Path:
    """Return the folder of the run of `config`: `<root>/<method>/<digest>-s<seed>`."""
    return Path(runs_root).expanduser() / config.method / f"{config.digest()}-s{config.seed}"


def finished_run(config: TrainingConfig | BaselineConfig, runs_root: str | Path = "runs") -> "Run | None":
    """Return the run of `config`, or None if it is not finished."""
    path = run_path(config, runs_root)
    if not is_finished(path):
        return None
    shutil.rmtree(path / "checkpoint", ignore_errors=True)  # of a process that was killed at the very end
    return Run(path)


class Run:
    """One run on disk: `<root>/<method>/<digest>-s<seed>/`, a function of the settings and of the files that they name.

    Every method that reads raises RunError with the path of a file that is missing or was changed.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the run in the existing folder `path` for reading."""
        self.path = Path(path)
        if not (self.path / "config.json").is_file():
            raise RunError(f"{self.path} is no run: it has no config.json; list the runs with `workbench runs`")
        self._lock: filelock.BaseFileLock | None = None

    @classmethod
    def open(cls, config: TrainingConfig | BaselineConfig, runs_root: str | Path = "runs") -> "Run":
        """Open the run of `config` under `runs_root` for writing, and make its folder if it is new.

        Raises RunError if the folder cannot be written to, or if another process is working on this run.
        """
        path = run_path(config, runs_root)
        if finished := finished_run(config, runs_root):
            return finished
        with reraise_os_error(path), ExitStack() as failing:
            path.mkdir(parents=True, exist_ok=True)
            lock = lock_run(path)
            failing.callback(lock.release, force=True)
            if not is_finished(path):  # by another process meanwhile
                undo_write(path / "encoder")
                _write_facts(path / "config.json", config)
            run = cls(path)
            run._lock = lock
            failing.pop_all()
        return run

    def release(self) -> None:
        """Let another process continue this run."""
        if self._lock is not None:
            self._lock.release(force=True)

    def acquire(self) -> None:
        """Take the lock again after `release`. Raises RunError if another process holds it."""
        self._lock = lock_run(self.path)

    @property
    def finished(self) -> bool:
        """Whether metrics.json exists."""
        return is_finished(self.path)

    @property
    def config(self) -> TrainingConfig | BaselineConfig:
        """The settings."""
        return self.config_of(self.facts())

    def config_of(self, facts: dict[str, Any]) -> TrainingConfig | BaselineConfig:
        """Return the settings in `facts`, which are those of this run."""
        if facts.get("method") not in RECORDED:
            raise RunError(unknown_name("method", facts.get("method"), RECORDED, f"in {self.path / 'config.json'}"))
        config = RECORDED[facts["method"]](**facts["settings"])
        if NAME.fullmatch(self.path.name) and not self.path.name.endswith(f"-s{config.seed}"):
            raise RunError(f"{self.path / 'config.json'} has seed {config.seed}, unlike its folder; {_REMEDY}")
        config.model_fields_set.intersection_update(facts.get("given", config.model_fields_set))
        return config

    def facts(self) -> dict[str, Any]:
        """Return config.json: settings, versions, device, git commit, checksums of inputs and written files."""
        return read_json(self.path / "config.json")

    def record(self, inputs: Mapping[str, tuple[str, str]] | None = None, **facts: Any) -> dict[str, Any]:
        """Add facts to config.json and return all facts; a dictionary is merged into the existing one.

        inputs: role -> source and sha256 of its content; a role is "encoder", "train", "dev", the name of a suite or
        one of the method's. Raises RunError if the run began with other content.
        """
        recorded, used = self.facts(), {}
        for role, (source, checksum) in (inputs or {}).items():
            used[role] = first = recorded.get("inputs", {}).get(role, {"source": source, "sha256": checksum})
            if first["sha256"] != checksum:
                began = f"{first['source']}, sha256 {first['sha256'][:12]}, now {checksum[:12]}"
                raise RunError(f"{role}: {source} is not what {self.path} began with ({began}); {_REMEDY}")
        if used:
            facts["inputs"] = used
        merged = recorded | {
            name: recorded.get(name, {}) | value if isinstance(value, dict) else value for name, value in facts.items()
        }
        if merged != recorded:
            with reraise_os_error(self.path):
                write_json(self.path / "config.json", merged)
        return merged

    @contextmanager
    def record_end(self) -> Iterator[None]:
        """Record how long the block took, or why it failed, and let another process continue the run."""
        started, was_finished = time.monotonic(), self.finished
        try:
            yield
            if not was_finished:  # otherwise the kernel that trained it may be open and have the lock
                self.acquire()
                self.record(seconds=round(time.monotonic() - started, 1))
            self.record(failure=None)
        except Exception as error:
            with suppress(RunError):  # the disk is full, or another process has taken the run from the kernel
                self.acquire()
                self.record(failure=f"{type(error).__name__}: {error}")
            raise
        finally:
            self.release()

    def has(self, stage: str = "") -> bool:
        """Return whether the evaluation of this stage was stored."""
        return is_finished(self.path / stage)

    def metrics(self, stage: str = "", facts: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return suite -> {"spearman", "n", ...}; the stage "before" is the encoder before training.

        facts: Those of this run, if they have been read already.
        """
        return read_json(self._existing(FINISHED, stage, facts), _METRICS)

    def scores(self, stage: str = "") -> pd.DataFrame:
        """Return suite, subset, pair_id, gold, predicted."""
        return self._table("scores.csv", stage)

    def rankings(self, stage: str = "") -> pd.DataFrame:
        """Return suite, query_id, target_id, query, target, gold, score, rank (1 = best)."""
        return self._table("rankings.csv", stage)

    def history(self) -> pd.DataFrame:
        """Return step, epoch, learning_rate, loss, a column for each loss term, dev_*, seconds.

        Its `attrs` say whether step 0 could be kept, "keep_start".
        """
        table = self._table("history.csv", "")
        table.attrs["keep_start"] = self.facts().get("settings", {}).get("keep_start", False)
        return table

    def watched(self) -> pd.DataFrame:
        """Return step, query, target, gold, score of a few queries of dev at each of its measurements, from step 0.

        Empty if no query of dev was watched: `training` watches the first with four to twenty targets.
        """
        columns = ["step", "query", "target", "gold", "score"]
        is_there = (self.path / "watched.csv").is_file()
        return self._table("watched.csv", "") if is_there else pd.DataFrame(columns=columns)

    def write_evaluation(
        self, metrics: dict[str, Any], scores: pd.DataFrame, rankings: pd.DataFrame, stage: str = ""
    ) -> None:
        """Store an evaluation, metrics.json last; without `stage` this finishes the run."""
        folder, files = self.path / stage, {}
        with reraise_os_error(folder):
            folder.mkdir(exist_ok=True)
            for name, table in (("scores.csv", scores), ("rankings.csv", rankings)):
                with atomic_write(folder / name) as file:
                    table.to_csv(file, index=False, lineterminator="\n")
                files[(Path(stage) / name).as_posix()] = {"sha256": file_checksum(folder / name)}
            ended: dict[str, Any] = {} if stage else {"ended": timestamp()}
            self.record(files=files, **ended)
            write_json(folder / FINISHED, metrics)
        if not stage:
            shutil.rmtree(self.path / "checkpoint", ignore_errors=True)

    def _table(self, name: str, stage: str) -> pd.DataFrame:
        """Read a table; text columns stay text, such as an id "007" or a sentence "nan"."""
        return pd.read_csv(self._existing(name, stage), dtype=_TEXT_COLUMNS, na_filter=name == "history.csv")

    def _existing(self, name: str, stage: str, facts: dict[str, Any] | None = None) -> Path:
        """Return the path of a file after comparing its content with what was written."""
        path = self.path / stage / name
        if not path.is_file():
            remedy = _REMEDY if self.finished else "the run is not finished: run it again and it goes on"
            raise RunError(f"{path} is missing; {remedy}")
        facts = self.facts() if facts is None else facts
        written = facts.get("files", {}).get((Path(stage) / name).as_posix())
        if written is not None and file_checksum(path) != written["sha256"]:
            raise RunError(f"{path} is not what the run wrote: it was cut or changed since; {_REMEDY}")
        return path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {'finished' if self.finished else 'unfinished'})"


def is_finished(path: Path) -> bool:
    """Return whether the run, or the stage of a run, in `path` is finished."""
    return (path / FINISHED).is_file()


def lock_run(path: Path) -> filelock.BaseFileLock:
    """Take the lock of the run in `path`. Raises RunError if another process holds it and has not finished the run.

    A cell of a sweep, and its kernel, wait until that process ends or has finished the run.
    """
    file = path / ".lock"
    lock = filelock.FileLock(file, is_singleton=True)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=0.5)  # `is_running` may hold it for a moment
        except filelock.Timeout:
            if is_finished(path):
                return lock
            if "WORKBENCH_CELL" not in os.environ:
                raise RunError(f"another process is working on {path} ({file.read_text()}); wait for its end") from None
    notebook = f", the kernel of {session}" if (session := os.environ.get("JPY_SESSION_NAME")) else ""
    with suppress(OSError):  # the disk is full
        file.write_text(f"process {os.getpid()} on {platform.node()} since {timestamp()}{notebook}")
    return lock


def is_running(path: Path) -> bool:
    """Return whether a process, this one included, holds the lock of the run in `path`."""
    if not (path / ".lock").exists():
        return False
    try:
        with filelock.FileLock(path / ".lock", timeout=0):
            return False
    except OSError as problem:  # any other error: nobody can write there
        return isinstance(problem, filelock.Timeout)


def read_json(path: Path, kind: TypeAdapter = _ANY_OBJECT) -> Any:
    """Return the content of a JSON file. Raises RunError if it cannot be read or has another form."""
    try:
        return kind.validate_json(path.read_bytes())
    except (OSError, ValidationError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem.errors()[0]["msg"]
        raise RunError(f"{path} cannot be read ({why}); {_REMEDY}") from None


def _write_facts(file: Path, config: TrainingConfig | BaselineConfig) -> None:
    """Write config.json, or update that of an interrupted run, whose facts stay in `earlier_starts`."""
    earlier = read_json(file) if file.is_file() else {}
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    facts = {
        "method": config.method,
        "digest": config.digest(),
        "settings": config.model_dump(mode="json"),
        "given": sorted(config.model_fields_set),
        "contents": config.contents(),
        "versions": versions,
        "git_commit": checkout_commit(),
        "machine": f"{platform.system()} {platform.machine()}",
        "host": platform.node(),
        "started": earlier.get("started", timestamp()),
    }
    before = {name: earlier.get(name) for name in facts}
    differs = before | {"given": facts["given"]} != facts  # a default that is now given is the same value
    if "inputs" in earlier:  # that start computed something
        starts = [*earlier.get("earlier_starts", []), *([before] if differs else [])]
        facts = earlier | facts | {"earlier_starts": starts, "failure": None}
    write_json(file, facts)


def checkout_commit(folder: Path = PACKAGE.parent) -> str | None:
    """Return the commit of a checkout, with "+changes" if tracked files except notebooks differ; None elsewhere."""
    git = ["git", "-C", str(folder), "--git-dir=.git"]  # not that of a folder above
    with suppress(OSError, subprocess.CalledProcessError):
        commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True, stderr=subprocess.DEVNULL).strip()
        differs = subprocess.call([*git, "diff", "--quiet", "HEAD", "--", ".", ":!*.ipynb"])
        return f"{commit}+changes" if differs else commit
