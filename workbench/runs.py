"""The directory of one run: what was asked, what happened, what came out."""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import filelock
import pandas as pd

from workbench.config import CONFIGS, TrainingConfig
from workbench.errors import RunError
from workbench.files import explained, lock_run, read_csv, replacing, sweep, write_json
from workbench.provenance import provenance

_ROLES = ("encoder", "train", "dev", "base", "corpus", "spans")  # of inputs that are no suite


class Run:
    """One run on disk: `<root>/<method>/<digest>-s<seed>/`.

    The path is a function of the settings, so the same settings meet the same directory again: an unfinished run is
    resumed there and a finished one is reused. A run is finished when its metrics.json exists, which is written last.
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
        path = Path(runs_root).expanduser() / config.method / f"{config.digest()}-s{config.seed}"
        if (path / "metrics.json").is_file():
            return cls(path)  # only read from now on, so it may lie where nothing can be written
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
            lock = lock_run(path)
            try:
                lock_run(path, ".processes.lock").release()  # training processes may outlive the one that started them
                sweep(path)
                sweep(path / "before")
                facts = {"method": config.method, "digest": config.digest(), "settings": config.model_dump(mode="json")}
                _begin(path / "config.json", facts | provenance())
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
        return (self.path / "metrics.json").is_file()

    @property
    def config(self) -> TrainingConfig:
        """The settings of this run."""
        facts = self.facts()
        return CONFIGS[facts["method"]].model_validate_settings(facts["settings"])

    def facts(self) -> dict[str, Any]:
        """config.json: settings, versions, device, git commit, checksums of data and encoder."""
        return json.loads((self.path / "config.json").read_text(encoding="utf-8"))

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
        return json.loads(self._existing("metrics.json", stage).read_text(encoding="utf-8"))

    def scores(self, stage: str = "") -> pd.DataFrame:
        """scores.csv: suite, subset, pair_id, gold, predicted."""
        return read_csv(self._existing("scores.csv", stage), text=["suite", "subset", "pair_id"])

    def rankings(self, stage: str = "") -> pd.DataFrame:
        """rankings.csv: suite, query_id, target_id, query, target, gold, score, rank (1 = best)."""
        return read_csv(
            self._existing("rankings.csv", stage), text=["suite", "query_id", "target_id", "query", "target"]
        )

    def history(self) -> pd.DataFrame:
        """history.csv: step, epoch, learning_rate, loss, one column a loss term, dev_*, seconds."""
        return read_csv(self._existing("history.csv", ""))

    def write_evaluation(
        self, metrics: dict[str, Any], scores: pd.DataFrame, rankings: pd.DataFrame, stage: str = ""
    ) -> None:
        """Stores one evaluation, metrics.json last; without `stage` the run is finished by it."""
        folder = self.path / stage
        with explained(folder):
            folder.mkdir(exist_ok=True)
            for name, table in (("scores.csv", scores), ("rankings.csv", rankings)):
                with replacing(folder / name) as file:
                    table.to_csv(file, index=False, lineterminator="\n")
            write_json(folder / "metrics.json", metrics)
        if not stage:
            shutil.rmtree(self.path / "checkpoint", ignore_errors=True)

    def _existing(self, name: str, stage: str) -> Path:
        path = self.path / stage / name
        if not path.is_file():
            raise RunError(f"{path} is not there: the run has not come that far; run it again and it goes on")
        return path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {'finished' if self.finished else 'unfinished'})"


def _begin(file: Path, facts: dict[str, Any]) -> None:
    """Writes config.json, or brings that of an interrupted run up to date.

    Device, processes and versions may differ from the first start; what they were stays on record.
    """
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if "inputs" not in known:  # new, or an earlier start that computed nothing
        write_json(file, facts)
        return
    before = {name: known.get(name) for name in facts}
    if before != json.loads(json.dumps(facts)):
        write_json(file, known | facts | {"earlier_starts": [*known.get("earlier_starts", []), before]})


def list_runs(root: str | Path = "runs") -> pd.DataFrame:
    """Every run under `root`, a row each: method, profile, seed, digest, status, changed settings, path, scores.

    One column a suite holds its Spearman in [-1, 1]; nan where a run has not (yet) been scored on it.
    """
    rows = []
    for file in sorted(Path(root).expanduser().glob("*/*/config.json")):
        run = Run(file.parent)
        row: dict[str, Any] = {"method": file.parent.parent.name, "path": str(file.parent)}
        try:
            config = run.config
            table = config.table()
            # What is outside the digest says where or how, not what was computed.
            changed = table[table["changed"] & ~table["setting"].isin(list(config.outside_digest))]
            row |= {"profile": config.profile, "seed": config.seed, "digest": config.digest()}
            row["changed"] = ", ".join(f"{n}={v}" for n, v in zip(changed["setting"], changed["value"], strict=True))
            row["status"] = "finished" if run.finished else "unfinished"
            scored = run.metrics() if run.finished else {}
            found = {suite: values.get("spearman") for suite, values in scored.items()}
            row |= {suite: math.nan if value is None else value for suite, value in found.items()}
        except (ValueError, KeyError, TypeError, OSError) as problem:
            # One broken directory must not hide the others.
            row["status"] = f"unreadable: {problem}"
        rows.append(row)
    first = ["method", "profile", "seed", "digest", "status", "changed"]
    table = pd.DataFrame(rows, columns=None if rows else [*first, "path"])
    if rows and "seed" in table:
        table["seed"] = table["seed"].astype("Int64")
    return table.reindex(columns=[*first, *(c for c in table.columns if c not in (*first, "path")), "path"])


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
