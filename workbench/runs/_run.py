"""The directory of one run: what was asked, what happened, what came out."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import filelock
import pandas as pd

from workbench.config import RECORDED, BaseConfig, TrainingConfig
from workbench.errors import RunError, SettingError, unknown_name
from workbench.files import (
    explained,
    file_checksum,
    json_text,
    lock_run,
    now,
    read_csv,
    replacing,
    sweep,
    text_checksum,
    write_json,
)
from workbench.runs._provenance import provenance
from workbench.runs._state import FINISHED, forget_failure, is_finished, read_json, restore

NAME = re.compile(r"[0-9a-f]{8}-s\d+")  # of a run's folder
_TABLES = {
    "scores.csv": ["suite", "subset", "pair_id"],
    "rankings.csv": ["suite", "query_id", "target_id", "query", "target"],
    "history.csv": [],
}  # and their columns of text
_NUMBERS = ("spearman", "kcc", "ndcg", "n", "queries", "accuracy", "f1")
_ROLES = ("encoder", "train", "dev", "base", "corpus", "spans")  # of inputs that are no suite


def run_path(config: TrainingConfig | BaseConfig, runs_root: str | Path = "runs") -> Path:
    """Where the run of `config` lies: `<root>/<method>/<digest>-s<seed>`."""
    return folder_of_runs(runs_root) / config.method / f"{config.digest()}-s{config.seed}"


def folder_of_runs(runs_root: str | Path) -> Path:
    """The folder that somebody named; SettingError for an empty text, which would mean the one where one is."""
    if not str(runs_root).strip():
        raise SettingError("the folder of runs is an empty text; name a folder such as runs, or . for this one")
    return Path(runs_root).expanduser()


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
    def create(cls, config: TrainingConfig | BaseConfig, runs_root: str | Path = "runs") -> "Run":
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
                for folder in (path, path / "before", path / "checkpoint"):
                    sweep(folder)
                forget_failure(path)
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
    def config(self) -> TrainingConfig | BaseConfig:
        """The settings of this run."""
        return config_of(self.facts(), self.path)

    def facts(self) -> dict[str, Any]:
        """config.json: settings, versions, device, git commit, checksums of data, encoder and the files written."""
        path = self.path / "config.json"
        found = read_json(path)
        if not isinstance(found.get("digest", ""), str):
            raise RunError(f"{path}: 'digest' holds {found['digest']!r:.80} and no text; {restore(path)}")
        for name in ("inputs", "files"):
            known = found.get(name, {})
            if not isinstance(known, dict) or not all(isinstance(facts, dict) for facts in known.values()):
                raise RunError(f"{path}: {name!r} does not hold facts by name; {restore(path)}")
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
        return self._metrics(stage, self.facts())

    def _metrics(self, stage: str, facts: dict[str, Any]) -> dict[str, Any]:
        path = self._existing(FINISHED, stage, facts)
        found = read_json(path)
        for suite, values in found.items():
            numbers = [values.get(name) for name in _NUMBERS] if isinstance(values, dict) else [values]
            if not isinstance(values, dict) or not all(isinstance(v, (int, float, type(None))) for v in numbers):
                raise RunError(f"{path}: {suite!r} has {values!r:.80} and no numbers by name; {restore(path)}")
        return found

    def push_to_hub(self, repo_id: str, *, private: bool = False, dry_run: bool = False, **facts: Any) -> list[str]:
        """Uploads the encoder with a card of this run's scores; the files sent. RunError until the run is finished.

        private, dry_run (nothing is sent): as in publishing.push_folder. facts: fields of the card.
        """
        from workbench.publishing import push_folder, with_results

        metrics, folder = self.metrics(), self.path / "encoder"
        if not (folder / "README.md").is_file():
            raise RunError(f"{folder} holds no saved encoder; of one that was only evaluated use Encoder.push_to_hub")
        readme = (folder / "README.md").read_text(encoding="utf-8")
        card = with_results(readme, f"{self.config.method}-{self.path.name}", metrics, **facts)
        return push_folder(folder, repo_id, card=card, private=private, dry_run=dry_run)

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
        written = {FINISHED: {"bytes": len(text.encode()), "sha256": text_checksum(text)}}
        with explained(folder):
            folder.mkdir(exist_ok=True)
            for name, table in (("scores.csv", scores), ("rankings.csv", rankings)):
                with replacing(folder / name) as file:
                    table.to_csv(file, index=False, lineterminator="\n")
                found = folder / name
                written[name] = {"bytes": found.stat().st_size, "sha256": file_checksum(found)}
            files = {(Path(stage) / name).as_posix(): facts for name, facts in written.items()}
            self.record(files=files, **({} if stage else {"ended": now()}))
            with replacing(folder / FINISHED) as file:
                file.write(text)
        if not stage:
            shutil.rmtree(self.path / "checkpoint", ignore_errors=True)

    def check_files(self, facts: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
        """Stage -> metrics of the evaluations that were stored; `facts`: what `facts()` gave, to read them once.

        Raises RunError where a file of an evaluation is missing or of another size than it was written with. Quick
        enough for a list of all runs; what keeps its size and changes its content is found when it is read.
        """
        facts = self.facts() if facts is None else facts
        stages = [stage for stage in ("before", "") if self.has(stage)]
        folders = {self.path / stage for stage in stages}
        for name, known in facts.get("files", {}).items():
            path = self.path / name
            if path.parent not in folders:
                continue
            size = path.stat().st_size if path.is_file() else None
            if size != known.get("bytes"):  # none of the folder "encoder"
                state = "is missing" if size is None else f"has {size} bytes and was written with {known['bytes']}"
                raise RunError(f"{path} {state}; {restore(path)}")
        return {stage: self._metrics(stage, facts) for stage in stages}

    def _table(self, name: str, stage: str) -> pd.DataFrame:
        path = self._existing(name, stage, self.facts())
        try:
            return read_csv(path, text=_TABLES[name])
        except (ValueError, KeyError, OSError) as problem:
            raise RunError(f"{path} is no table of a run ({problem}); {restore(path)}") from None

    def _existing(self, name: str, stage: str, facts: dict[str, Any]) -> Path:
        """The path of a file that is there and has the content that was written."""
        path = self.path / stage / name
        if not path.is_file():
            if self.finished:
                raise RunError(f"{path} is missing, though the run is finished; {restore(path)}")
            raise RunError(f"{path} is not there: the run has not come that far; run it again and it goes on")
        known = facts.get("files", {}).get((Path(stage) / name).as_posix())
        if known is not None and file_checksum(path) != known["sha256"]:
            raise RunError(f"{path} is not what the run wrote: it was cut or changed since; {restore(path)}")
        return path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {'finished' if self.finished else 'unfinished'})"


def config_of(facts: dict[str, Any], path: Path) -> TrainingConfig | BaseConfig:
    """The settings in the config.json of the run in `path`. Raises RunError, SettingError."""
    if facts.get("method") not in RECORDED or not isinstance(facts.get("settings"), dict):
        raise RunError(
            f"{path / 'config.json'} is not that of a run: "
            f"{unknown_name('method', facts.get('method'), RECORDED, 'in this workbench')}"
        )
    return RECORDED[facts["method"]](**facts["settings"])


def _begin(file: Path, facts: dict[str, Any]) -> None:
    """Writes config.json, or brings that of an interrupted run up to date.

    Device, processes, versions and places may differ from the first start; what they were stays on record.
    """
    known = read_json(file) if file.is_file() else {}
    facts["started"] = known.get("started", now())
    if "inputs" not in known:  # new, or an earlier start that computed nothing
        write_json(file, facts)
        return
    before = {name: known.get(name) for name in facts}
    if before != json.loads(json.dumps(facts)):
        write_json(file, known | facts | {"earlier_starts": [*known.get("earlier_starts", []), before]})
