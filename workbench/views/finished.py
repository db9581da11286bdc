"""Tables of finished runs: their labels, and their scores over seeds. No torch is loaded."""

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from workbench.config import ALIASES, BaselineConfig
from workbench.data import AVERAGES, Pairs, dataset_names, load_pairs
from workbench.errors import DataError, RunError, SettingError, unknown_name
from workbench.files import set_name
from workbench.metrics import Measure, seed_spread
from workbench.runs import Run, read_row, read_rows, short_value, split_common_settings

_LOG = logging.getLogger("workbench")
_T = TypeVar("_T")
BEFORE = "before"  # the stage of a run before training, and the label of its scores
FEWEST_QUERIES = 50  # for which the tables show means of KCC and NDCG
_VISIBLE = 5e-5  # a smaller difference is none: the two are printed alike, x 100
_FACTS = ["method", "settings", "encoder", "seed", "path"]
# Settings that a label has only where nothing else tells two runs apart.
_MINOR = ["suites", "eval_steps"]
_VALUES = ["before", "spearman", "kcc", "ndcg", "accuracy", "f1", "pairs", "queries"]


def finished_runs(runs_root: str | Path, suite: str) -> pd.DataFrame:
    """Return a row for each finished run under `runs_root` that was scored on `suite`, by label and
    seed.

    Your own file is a suite by its name. A run that cannot be read and a copy of a run are left out
    with a warning.

    Returns:
        label, method, settings (profile and changes), encoder, seed, path; before (Spearman, or
        accuracy of a transfer task, of the encoder before training), spearman, kcc, ndcg in [-1,
        1], accuracy, f1 in [0, 1], nan if a run has none; pairs, queries.

    Raises DataError if no run was scored on `suite`, and it is neither a set nor a file.
    """
    name = set_name(suite)
    rows = []
    first = {}
    suites = set()
    for row in finished_rows(runs_root):
        suites.update(row["scores"])
        original = first.setdefault((row["digest"], row["seed"]), row["path"])
        if original != row["path"]:
            _LOG.warning("left out: %s: a copy of %s, so no further seed", row["path"], original)
        elif name in row["scores"] and (
            values := read_or_warn(row["path"], partial(_values_on, suite=name))
        ):
            rows.append(row | values)
    sets = {*dataset_names(), *AVERAGES}
    if not rows and name not in sets and suite_file(suite) is None:
        raise DataError(
            unknown_name(
                "suite", name, suites or sets, "of a finished run, and no such set or file"
            )
        )
    table = pd.DataFrame(rows, columns=[*_FACTS, *_VALUES]).astype(dict.fromkeys(_VALUES, float))
    table["settings"] = list(map(_settings_text, rows))
    table.insert(0, "label", label_runs(rows))
    return table.sort_values(["label", "seed"], ignore_index=True)


def finished_rows(runs_root: str | Path) -> list[dict[str, Any]]:
    """Return `read_rows` of finished runs; a run that cannot be read is left out with a warning."""
    rows = read_rows(runs_root)
    for row in rows:
        if row["status"] == "unreadable":
            _LOG.warning("left out: %s: %s", row["path"], row["failure"])
    return [row for row in rows if row["status"] == "finished"]


def _values_on(run: Run, suite: str) -> dict[str, Any]:
    metrics = run.metrics()
    start = run.metrics(BEFORE).get(suite, {}) if run.has(BEFORE) else {}
    sets = [metrics[name] for name in AVERAGES.get(suite, [suite]) if name in metrics]
    return metrics[suite] | {
        "encoder": run.config.encoder,
        "before": start.get("spearman", start.get("accuracy")),
        "pairs": sum(one.get("n", 0) for one in sets),
        "queries": sum(one.get("queries", 0) for one in sets),
    }


def describe_runs(runs: pd.DataFrame, runs_root: str | Path, suite: str = "") -> str:
    """Return the number of runs; without runs the commands that make some."""
    if count := len(runs):
        return f"{count} finished run{'s' if count > 1 else ''} under {runs_root}"
    command = "workbench run simcse --seed 0"
    if suite_file(suite):
        command = f"workbench evaluate MODEL --suites {quote(suite)} --runs {quote(str(runs_root))}"
    return f"No finished runs under {runs_root} for this suite. Make some with\n    {command}"


def seed_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean and (standard deviation) over seeds, x 100, for each label.

    Columns: settings (without those that all runs share), seeds, Spearman before, Spearman, KCC,
        NDCG (of 50 queries or more), or of a transfer task accuracy before, accuracy, F1; pairs,
        queries. Columns without a value are left out."""
    runs = runs.assign(**runs[["kcc", "ndcg"]].where(runs["queries"] >= FEWEST_QUERIES))
    runs["settings"] = split_common_settings(runs["settings"].tolist())[1]
    measure = measure_of(runs)
    titles = {"before": "Spearman before", "spearman": "Spearman", "kcc": "KCC", "ndcg": "NDCG"}
    if measure == "accuracy":
        titles = {"before": "accuracy before", "accuracy": "accuracy", "f1": "F1"}
    groups = runs.groupby("label", sort=False)
    columns: dict[str, Any] = {"settings": groups["settings"].first(), "seeds": groups.size()}
    for name, title in titles.items():
        columns[title] = groups[name].agg(format_spread, form="{:.2f} ({:.2f})")
    for name in ("pairs", "queries"):
        columns[name] = groups[name].first().fillna(0).astype("Int64")
    table: Any = pd.DataFrame(columns)
    table.attrs["caption"] = "mean (standard deviation) over seeds, x 100"
    if (runs["queries"].between(1, FEWEST_QUERIES - 1)).any():
        table.attrs["caption"] += f"; KCC and NDCG only of {FEWEST_QUERIES} queries or more"
    return table.loc[:, (table != "").any() | (table.columns == titles[measure])]


def suite_scores(runs: pd.DataFrame) -> pd.DataFrame:
    """Return label, part, mean, std, n: the score on every suite and subset over seeds, in [-1, 1].

    The score is Spearman, or accuracy on transfer tasks if the runs were compared on one. If all
    runs have one label, the first run's encoder before training is added as "before"."""
    values = defaultdict(list)
    measure = measure_of(runs)
    for label, _, path, stage in with_start(runs):
        for suite, metrics in (read_or_warn(path, partial(Run.metrics, stage=stage)) or {}).items():
            subsets = {
                f"{suite}: {name}": part for name, part in metrics.get("subsets", {}).items()
            }
            for name, part in {suite: metrics, **subsets}.items():
                if measure in part:
                    values[label, name].append(part[measure])
    rows = [(*names, *seed_spread(of_seeds)) for names, of_seeds in values.items()]
    return pd.DataFrame(rows, columns=["label", "part", "mean", "std", "n"])


def measure_of(runs: pd.DataFrame) -> Measure:
    """Return how the runs of `finished_runs` were scored on their suite."""
    return "accuracy" if runs["accuracy"].notna().to_numpy().any() else "spearman"


def with_start(runs: pd.DataFrame) -> list[tuple[str, int, str, str]]:
    """Return label, seed, path, stage of each run; if there is one label only, the start of the
    first run too."""
    rows = [(run["label"], run["seed"], run["path"], "") for run in runs.to_dict("records")]
    if runs["label"].nunique() == 1:
        starts = [
            (BEFORE, seed, path, BEFORE) for _, seed, path, _ in rows if Run(path).has(BEFORE)
        ]
        return starts[:1] + rows
    return rows


def label_runs(
    rows: Sequence[Mapping[str, Any]], without: Sequence[str] = (), minor: list[str] = _MINOR
) -> list[str]:
    """Return a label for each row of `read_rows`: its method, and the settings that differ within
    the method.

    An evaluated encoder is labelled by its name. Runs of different seeds have the same label if
    their settings read the same: each learned from the run of its own seed. Labels leave out the
    settings `without`."""
    groups = defaultdict(list)
    for place, row in enumerate(rows):
        groups[_short_label(row)].append(place)
    labels = [""] * len(rows)
    for name, places in groups.items():
        named = ["encoder"] if rows[places[0]]["method"] == BaselineConfig.method else []
        texts = [_settings_text(rows[place]) for place in places]
        _, own = split_common_settings(texts, [*without, *named, *minor])
        for place, text in zip(places, own, strict=True):
            labels[place] = f"{name} ({text})" if text else name
    # Two runs of one label and seed differ in something that their settings do not show: the
    # content of a file.
    left_out = [str([row["settings"][name] for name in without]) for row in rows]
    counts = Counter(zip(labels, (row["seed"] for row in rows), left_out, strict=True))
    same = {label for (label, *_), count in counts.items() if count > 1}
    longer = [f"{label} {row['digest']}" for label, row in zip(labels, rows, strict=True)]
    if same and minor:
        longer = label_runs(rows, without, [])
    return [whole if label in same else label for label, whole in zip(labels, longer, strict=True)]


def _short_label(row: Mapping[str, Any]) -> str:
    if row["method"] != BaselineConfig.method:
        return row["method"]
    kind = row["settings"]["kind"]
    encoder = short_value(row["settings"]["encoder"])
    return {"pooling": encoder, "tfidf": kind}.get(kind, f"{encoder}, {kind}")


def _settings_text(row: Mapping[str, Any]) -> str:
    return ", ".join(text for text in (row["profile"], row["changed"]) if text)


def default_baseline(labels: Sequence[str]) -> str:
    """Return the first SimCSE, from which every method starts, otherwise the first label."""
    return next((label for label in labels if label.startswith("simcse")), labels[0])


def suite_file(suite: str) -> Path | None:
    """Return the path of your own file that `suite` names; None if it names a set or the file does
    not exist."""
    path = Path(suite).expanduser()
    return path.absolute() if suite != set_name(suite) and path.is_file() else None


def pairs_of(runs: pd.DataFrame, suite: str) -> Pairs:
    """Return the scored pairs of a suite, from your own file or the folder from which the first run
    read it.

    Raises DataError if they are not on this machine.
    """
    if suite_file(suite):
        return load_pairs(suite)
    for path in runs["path"]:
        for file in read_or_warn(path, lambda run: run.config.suites) or ():
            if set_name(file) == set_name(suite):
                return load_pairs(file)
    return load_pairs(suite)


def suite_version(facts: Mapping[str, Any], suite: str) -> list[str | None]:
    """Return the checksums of the sets of `suite` that the run with these facts was scored on."""
    inputs = facts.get("inputs", {})
    names = AVERAGES.get(suite, [set_name(suite)])
    return [inputs.get(f"suite {name}", inputs.get(name, {})).get("sha256") for name in names]


def read_or_warn(path: str | Path, read: Callable[[Run], _T]) -> _T | None:
    """Return what `read` returns for the run; None, with a warning, if the run cannot be read."""
    try:
        return read(Run(path))
    except RunError as problem:
        _LOG.warning("left out: %s: %s", path, problem)
        return None


def rows_by_suite(run: Run, kind: str, stage: str = "") -> dict[str, pd.DataFrame]:
    """Return suite -> rows of scores.csv or rankings.csv (`kind`), kept in memory until the file
    changes."""
    return _cached_rows(str(run.path), kind, stage, time_changed(run.path / stage / f"{kind}.csv"))


def time_changed(file: Path) -> int:
    """Return when a file was changed, in nanoseconds; 0 if it does not exist."""
    return file.stat().st_mtime_ns if file.is_file() else 0


@lru_cache(maxsize=64)
def _cached_rows(path: str, kind: str, stage: str, _changed: int) -> dict[str, pd.DataFrame]:
    table: pd.DataFrame = getattr(Run(path), kind)(stage)
    return {
        str(suite): rows.reset_index(drop=True)
        for suite, rows in table.groupby("suite", sort=False)
    }


def format_spread(values: Any, unit: float = 100, form: str = "{:.2f} ± {:.2f}") -> str:
    """Return mean and deviation of the seeds' values, times `unit`; "" if undefined."""
    mean, std, n = seed_spread(unit * np.asarray(values))
    return "" if pd.isna(mean) else (form if n > 1 else "{:.2f}").format(mean, std)


def response(runs_root: str | Path, setting: str, suite: str) -> pd.DataFrame:
    """Return label, value, seeds, dev, dev_std, test, test_std: means and deviations over seeds, in
    [-1, 1].

    A label is a method with whatever else varies. dev is the best of a run's training, which chose
    its checkpoint.

    Raises SettingError if no run that was scored on the suite has a setting of this name.
    """
    suite, setting = set_name(suite), ALIASES.get(setting, setting)
    rows = [row for row in finished_rows(runs_root) if suite in row["scores"]]
    if rows and not any(setting in row["settings"] for row in rows):
        names = {name for row in rows for name in row["settings"]}
        raise SettingError(unknown_name("setting", setting, names, "of these runs"))
    rows = [row for row in rows if setting in row["settings"]]
    values = [row["settings"][setting] for row in rows]
    table = pd.DataFrame(
        {
            "label": label_runs(rows, [setting]),
            "value": [str(value) if isinstance(value, list | dict) else value for value in values],
            "dev": [read_or_warn(row["path"], read_dev) for row in rows],
            "test": [row["scores"][suite][0] for row in rows],
        }
    ).astype({"dev": float, "test": float})
    groups = table.groupby(["label", "value"], dropna=False)
    return groups.agg(
        seeds=("test", "size"),
        dev=("dev", "mean"),
        dev_std=("dev", "std"),
        test=("test", "mean"),
        test_std=("test", "std"),
    ).reset_index()


def kept_checkpoint(history: pd.DataFrame) -> Any:
    """Return the row of the checkpoint that was kept: the best on dev, otherwise the last.

    The start, step 0, is among them if the training could keep it.
    """
    first = 0 if history.attrs.get("keep_start") else 1
    candidates = history.loc[history["step"] >= first]
    if "dev_spearman" in candidates and candidates["dev_spearman"].notna().any():
        return candidates.loc[candidates["dev_spearman"].idxmax()]
    return candidates.iloc[-1]


def score_changes(run: Run, *, only_falls: bool = False) -> str:
    """Return suites and dev with their scores x 100 before and after training, as far as both were
    measured."""
    row = read_row(run.path)
    starts = row["rankings"]
    pairs = {
        suite: (starts.get(f"{suite}:start", math.nan), score)
        for suite, (score, _) in row["scores"].items()
    }
    history = _history(run)
    if "dev_spearman" in history:
        pairs["dev"] = (history["dev_spearman"].iloc[0], kept_checkpoint(history)["dev_spearman"])
    least = _VISIBLE if only_falls else -math.inf
    return ", ".join(
        f"{name} {100 * start:.2f} -> {100 * end:.2f}"
        for name, (start, end) in pairs.items()
        if start - end > least  # not for nan
    )


def result_line(run: Run) -> str:
    """Return one line: the scores of a run before and after training, if the start was kept, and an
    early end."""
    texts = [score_changes(run)]
    if is_its_start(run):
        texts.append("kept the start")
    if stopped := run.facts().get("stopped"):
        texts.append(f"stopped at {stopped}")
    return ", ".join(filter(None, texts))


def warning_of(run: Run) -> str:
    """Return in which scores a run's encoder is worse than its start, otherwise an empty text."""
    lost = score_changes(run, only_falls=True)
    return (
        f"worse than its start, {short_value(run.config.encoder)}: {lost} (x 100)" if lost else ""
    )


def is_its_start(run: Run) -> bool:
    """Return whether the training of a run kept the encoder that it began with."""
    history = _history(run)
    return not history.empty and kept_checkpoint(history)["step"] == 0


def _history(run: Run) -> pd.DataFrame:
    return run.history() if (run.path / "history.csv").is_file() else pd.DataFrame()


def read_dev(run: Run) -> float | None:
    """Return the Spearman on dev of the checkpoint that was kept, in [-1, 1]; None if dev was not
    measured."""
    return kept_checkpoint(run.history()).get("dev_spearman")


def chosen_on_dev(table: pd.DataFrame) -> pd.DataFrame:
    """Return the row of each label whose dev is best: its test may be reported, once."""
    measured = table.dropna(subset=["dev"])
    return measured.loc[measured.groupby("label")["dev"].idxmax()].reset_index(drop=True)
