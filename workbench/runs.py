"""The directory of one run: what was asked, what happened, what came out."""

import importlib.metadata
import json
import logging
import math
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import pandas as pd

from workbench.config import CONFIGS, TrainingConfig
from workbench.errors import RunError, SettingError, unknown_name
from workbench.files import (
    PACKAGE,
    explained,
    file_checksum,
    json_text,
    lock_run,
    project_path,
    read_csv,
    replacing,
    sweep,
    text_checksum,
    write_json,
)

# What a number depends on besides its settings.
_LIBRARIES = ("torch", "transformers", "tokenizers", "accelerate", "datasets", "numpy", "scipy", "ranking-workbench")

_LOG = logging.getLogger("workbench")
_FINISHED = "metrics.json"  # a run's last file
_NAME = re.compile(r"[0-9a-f]{8}-s\d+")  # of a run's folder
_TABLES = {
    "scores.csv": ["suite", "subset", "pair_id"],
    "rankings.csv": ["suite", "query_id", "target_id", "query", "target"],
    "history.csv": [],
}  # and their columns of text
_NUMBERS = ("spearman", "kcc", "ndcg", "n", "queries")
SCORE = "spearman "  # in front of a suite's name in the columns of `list_runs`, which so never meets another column
_ROLES = ("encoder", "train", "dev", "base", "corpus", "spans")  # of inputs that are no suite


def run_path(config: TrainingConfig, runs_root: str | Path = "runs") -> Path:
    """Where the run of `config` lies: `<root>/<method>/<digest>-s<seed>`."""
    return folder_of_runs(runs_root) / config.method / f"{config.digest()}-s{config.seed}"


def folder_of_runs(runs_root: str | Path) -> Path:
    """The folder that somebody named; SettingError for an empty text, which would mean the one where one is."""
    if not str(runs_root).strip():
        raise SettingError("the folder of runs is an empty text; name a folder such as runs, or . for this one")
    return Path(runs_root).expanduser()


def is_finished(path: Path) -> bool:
    """Whether the run in `path` is finished: metrics.json is written last. RunError for a path that cannot be."""
    with explained(path):
        return (path / _FINISHED).is_file()


class Run:
    """One run on disk: `<root>/<method>/<digest>-s<seed>/`.

    The path is a function of the settings and of the content of the files that they name, so the same computation meets
    the same directory again: an unfinished run is resumed there and a finished one is reused. What reads it raises
    RunError with the file's path where a file is missing, cut or changed since it was written.
    """

    def __init__(self, path: str | Path) -> None:
        """The run in the existing directory `path`, for reading. Raises RunError where there is none."""
        self.path = Path(path)
        if not (self.path / "config.json").is_file():
            raise RunError(f"{self.path} is no run: it has no config.json; list the runs with `workbench runs`")
        self._lock: filelock.BaseFileLock | None = None

    @classmethod
    def create(cls, config: TrainingConfig, runs_root: str | Path = "runs") -> "Run":
        """The run of `config` under `runs_root`, made when it is new, ready to be written to.

        Raises RunError when the directory cannot be written, or when another process is working on this run.
        """
        path = run_path(config, runs_root)
        if is_finished(path):
            return cls(path)  # only read from now on, so it may lie where nothing can be written
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
            lock = lock_run(path)
            try:
                lock_run(path, ".processes.lock").release()  # training processes may outlive the one that started them
                sweep(path)
                sweep(path / "before")
                facts = {"method": config.method, "digest": config.digest(), "settings": config.model_dump(mode="json")}
                _begin(path / "config.json", facts | {"contents": config.contents()} | provenance())
            except BaseException:
                lock.release()  # a notebook keeps its last error, and with it the lock
                raise
        run = cls(path)
        run._lock = lock
        return run

    def release(self) -> None:
        """Lets another process go on with this run."""
        if self._lock is not None:
            self._lock.release()

    @property
    def finished(self) -> bool:
        """Whether metrics.json exists."""
        return is_finished(self.path)

    @property
    def config(self) -> TrainingConfig:
        """The settings of this run."""
        facts = self.facts()
        if facts.get("method") not in CONFIGS or not isinstance(facts.get("settings"), dict):
            raise RunError(
                f"{self.path / 'config.json'} is not that of a run: "
                f"{unknown_name('method', facts.get('method'), CONFIGS, 'in this workbench')}"
            )
        return CONFIGS[facts["method"]].model_validate_settings(facts["settings"])

    def facts(self) -> dict[str, Any]:
        """config.json: settings, versions, device, git commit, checksums of data, encoder and the files written."""
        path = self.path / "config.json"
        found = _read_json(path)
        for name in ("inputs", "files"):
            known = found.get(name, {})
            if not isinstance(known, dict) or not all(isinstance(facts, dict) for facts in known.values()):
                raise RunError(f"{path}: {name!r} does not hold facts by name; {_restore(path)}")
        return found

    def record(self, **facts: Any) -> None:
        """Adds facts to config.json; a dictionary is merged into the one that stands there."""
        merged = self.facts()
        for name, value in facts.items():
            merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
        with explained(self.path):
            write_json(self.path / "config.json", merged)

    def record_input(self, role: str, source: str, checksum: str) -> None:
        """Notes what the run used as `role`: "encoder", "train", "dev", a suite's name, or what a method names.

        Raises RunError when the run began with other content there: its numbers would mix two inputs.
        """
        known = self.facts().get("inputs", {}).get(role)
        if known is None:
            self.record(inputs={role: {"source": source, "sha256": checksum}})
        elif known["sha256"] != checksum:
            raise RunError(
                f"{role}: {source} is not what {self.path} began with ({known['source']}, sha256 "
                f"{known['sha256'][:12]}, now {checksum[:12]}); restore it, or move the run's folder away and run again"
            )

    def record_suite(self, suite: str, source: str, checksum: str) -> None:
        """The same of an evaluated set, which as a file of the user's own may be called "dev" without being dev."""
        self.record_input(f"suite {suite}" if suite in _ROLES else suite, source, checksum)

    def metrics(self, stage: str = "") -> dict[str, Any]:
        """metrics.json: suite -> {"spearman", "n", ...}; `stage` "before" is the encoder as it came."""
        path = self._existing(_FINISHED, stage)
        found = _read_json(path)
        for suite, values in found.items():
            numbers = [values.get(name) for name in _NUMBERS] if isinstance(values, dict) else [values]
            if not isinstance(values, dict) or not all(isinstance(v, (int, float, type(None))) for v in numbers):
                raise RunError(f"{path}: {suite!r} has {values!r:.80} and no numbers by name; {_restore(path)}")
        return found

    def has(self, stage: str = "") -> bool:
        """Whether the evaluation of this stage was stored."""
        return is_finished(self.path / stage)

    def scores(self, stage: str = "") -> pd.DataFrame:
        """scores.csv: suite, subset, pair_id, gold, predicted."""
        return self._table("scores.csv", stage)

    def rankings(self, stage: str = "") -> pd.DataFrame:
        """rankings.csv: suite, query_id, target_id, query, target, gold, score, rank (1 = best)."""
        return self._table("rankings.csv", stage)

    def history(self) -> pd.DataFrame:
        """history.csv: step, epoch, learning_rate, loss, one column a loss term, dev_*, seconds."""
        return self._table("history.csv", "")

    def write_evaluation(
        self, metrics: dict[str, Any], scores: pd.DataFrame, rankings: pd.DataFrame, stage: str = ""
    ) -> None:
        """Stores one evaluation, metrics.json last; without `stage` the run is finished by it."""
        folder = self.path / stage
        text = json_text(metrics)
        written = {_FINISHED: {"bytes": len(text.encode()), "sha256": text_checksum(text)}}
        with explained(folder):
            folder.mkdir(exist_ok=True)
            for name, table in (("scores.csv", scores), ("rankings.csv", rankings)):
                with replacing(folder / name) as file:
                    table.to_csv(file, index=False, lineterminator="\n")
                found = folder / name
                written[name] = {"bytes": found.stat().st_size, "sha256": file_checksum(found)}
            self.record(files={(Path(stage) / name).as_posix(): facts for name, facts in written.items()})
            with replacing(folder / _FINISHED) as file:
                file.write(text)
        if not stage:
            shutil.rmtree(self.path / "checkpoint", ignore_errors=True)

    def check_files(self) -> None:
        """Raises RunError where a file of an evaluation is missing or of another size than it was written with.

        Quick enough for a list of all runs; what keeps its size and changes its content is found when it is read.
        """
        stages = [stage for stage in ("before", "") if self.has(stage)]
        for name, known in self.facts().get("files", {}).items():
            path = self.path / name
            if path.parent not in [self.path / stage for stage in stages]:
                continue
            size = path.stat().st_size if path.is_file() else None
            if size != known["bytes"]:
                state = "is missing" if size is None else f"has {size} bytes and was written with {known['bytes']}"
                raise RunError(f"{path} {state}; {_restore(path)}")
        for stage in stages:
            self.metrics(stage)

    def _table(self, name: str, stage: str) -> pd.DataFrame:
        path = self._existing(name, stage)
        try:
            return read_csv(path, text=_TABLES[name])
        except (ValueError, KeyError, OSError) as problem:
            raise RunError(f"{path} is no table of a run ({problem}); {_restore(path)}") from None

    def _existing(self, name: str, stage: str) -> Path:
        """The path of a file that is there and has the content that was written."""
        path = self.path / stage / name
        if not path.is_file():
            raise RunError(f"{path} is not there: the run has not come that far; run it again and it goes on")
        known = self.facts().get("files", {}).get((Path(stage) / name).as_posix())
        if known is not None and file_checksum(path) != known["sha256"]:
            raise RunError(f"{path} is not what the run wrote: it was cut or changed since; {_restore(path)}")
        return path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {'finished' if self.finished else 'unfinished'})"


def _restore(path: Path) -> str:
    folder = path.parent.parent if path.parent.name == "before" else path.parent
    return f"restore the file, or move {folder} away and run it again"


def _read_json(path: Path) -> dict[str, Any]:
    """A file of ours that holds a dictionary; RunError where it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise RunError(f"{path} cannot be read ({type(problem).__name__}: {problem}); {_restore(path)}") from None
    if not isinstance(found, dict):
        raise RunError(f"{path} holds a {type(found).__name__} and no settings or results by name; {_restore(path)}")
    return found


def _begin(file: Path, facts: dict[str, Any]) -> None:
    """Writes config.json, or brings that of an interrupted run up to date.

    Device, processes, versions and places may differ from the first start; what they were stays on record.
    """
    known = _read_json(file) if file.is_file() else {}
    if "inputs" not in known:  # new, or an earlier start that computed nothing
        write_json(file, facts)
        return
    before = {name: known.get(name) for name in facts}
    if before != json.loads(json.dumps(facts)):
        write_json(file, known | facts | {"earlier_starts": [*known.get("earlier_starts", []), before]})


def runs_folder(runs_root: str | Path = "../runs") -> str:
    """The whole path of the runs that a notebook's parameter means, wherever its kernel was started.

    "../runs" is seen from the notebook: papermill starts kernels where it was called itself, so of a checkout's own
    notebooks a path that begins with ".." is seen from its folder notebooks/. Any other is seen from where one is.
    """
    path = Path(runs_root).expanduser()
    here = path.resolve()
    notebooks = project_path("notebooks")
    live = "JPY_SESSION_NAME" in os.environ  # a kernel of JupyterLab works in its notebook's own folder
    if live or path.parts[:1] != ("..",) or not (notebooks.parent / "pyproject.toml").is_file():
        return str(here)
    there = (notebooks / path).resolve()
    if here != there and here.is_dir():
        _LOG.warning("runs are those of %s; %s is there too: give a whole path to mean that one", there, here)
    return str(there)


def list_runs(root: str | Path = "runs") -> pd.DataFrame:
    """Every run under `root`, a row each: method, profile, seed, digest, status, changed settings, scores, path.

    status: "finished", "unfinished", or "unreadable: " and why; a broken run never hides the others.
    A column "spearman <suite>" holds that in [-1, 1]; nan where a run has not (yet) been scored on the suite.
    Raises RunError when `root` is no folder.
    """
    root = folder_of_runs(root)
    try:
        if root.exists() and not root.is_dir():
            raise RunError(f"{root} is a file; give the folder that holds the runs")
        found = sorted(root.glob("*/*"))
    except OSError as problem:
        raise RunError(f"the runs under {root} cannot be listed: {problem.strerror}") from None
    folders = [path for path in found if _NAME.fullmatch(path.name) or (path / "config.json").exists()]
    table = pd.DataFrame([_row(path) for path in folders])
    first = ["method", "profile", "seed", "digest", "status", "changed"]
    table = table.reindex(columns=[*first, *(name for name in table if name.startswith(SCORE)), "path"])
    return table.astype({"seed": "Int64"})


def _row(path: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"method": path.parent.name, "path": str(path)}
    try:
        run = Run(path)
        config, digest = run.config, run.facts().get("digest", "")
        table = config.table()
        # What is outside the digest says where or how, not what was computed.
        changed = table[table["changed"] & ~table["setting"].isin(list(config.outside_digest))]
        row |= {"method": config.method, "profile": config.profile, "seed": config.seed, "digest": digest}
        values = [_shown(value, config.seed) for value in changed["value"]]
        row["changed"] = ", ".join(f"{n}={v}" for n, v in zip(changed["setting"], values, strict=True))
        run.check_files()
        row["status"] = "finished" if run.finished else "unfinished"
        scored = run.metrics() if run.finished else {}
        found = {SCORE + suite: values.get("spearman") for suite, values in scored.items()}
        row |= {name: math.nan if value is None else value for name, value in found.items()}
    except Exception as problem:  # whatever is odd about one run, the others are listed
        row["status"] = f"unreadable: {problem}"
    return row


def _shown(value: Any, seed: int) -> str:
    """A changed setting in short: of a path what names it; of a run its method and digest, and its seed if another's.

    So a run that learns from the run of its own seed reads as its siblings of other seeds do.
    """
    if isinstance(value, list):
        return ", ".join(_shown(item, seed) for item in value)
    path = Path(str(value))
    if not path.is_absolute():
        return str(value)
    if not _NAME.fullmatch(path.name):
        return path.name
    return f"{path.parent.name} {path.name.removesuffix(f'-s{seed}')}"


def metrics_table(metrics: Mapping[str, Any]) -> pd.DataFrame:
    """metrics.json as a table, correlations x 100."""
    names = {"spearman": "Spearman", "kcc": "KCC", "ndcg": "NDCG"}
    rows = []
    for suite, values in metrics.items():
        shown = {label: math.nan if (v := values.get(key)) is None else 100 * v for key, label in names.items()}
        rows.append({"suite": suite, "pairs": values.get("n"), **shown, "queries": values.get("queries")})
    table = pd.DataFrame(rows)
    # An undefined Spearman is shown, as nan; what no suite has is left out.
    table = table.drop(columns=table.columns[table.isna().all()].difference(["Spearman"]))
    whole = [name for name in ("pairs", "queries") if name in table]
    return table.astype(dict.fromkeys(whole, "Int64"))


def provenance() -> dict[str, Any]:
    """Library versions, the project's git commit (None outside a checkout) and the machine's kind."""
    return {
        "versions": _versions(),
        "git_commit": _git_commit(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _git_commit() -> str | None:
    """The commit of this checkout, with "+changes" when tracked files differ from it."""
    root = PACKAGE.parent
    if not (root / ".git").exists():
        return None
    try:
        ask = ["git", "-C", str(root)]
        commit = subprocess.run([*ask, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        status = [*ask, "status", "--porcelain", "--untracked-files=no"]
        changed = subprocess.run(status, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+changes" if changed else commit
