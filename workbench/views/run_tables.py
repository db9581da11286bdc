"""Tables of finished runs: their labels, and their scores over seeds. No torch is loaded."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from pandas import DataFrame

from workbench.config import BaselineConfig
from workbench.data import AVERAGES, Pairs, dataset_names, load_own_pairs, load_pairs
from workbench.errors import DataError, SettingError, WorkbenchError, unknown_name
from workbench.files import AnyPath, Facts, fill_template, set_name, user_path
from workbench.metrics import FEWEST_QUERIES, MEASURE_TITLES, seed_spread
from workbench.printing import LOG
from workbench.runs import Run, read_row, read_rows, short_value, split_common_settings

_T = TypeVar("_T")
_VISIBLE = 5e-5  # a smaller fall is not reported: both scores are printed alike, x 100
_FACTS = "method settings encoder seed path ended version"
# Settings that a label shows only if the others do not tell two runs apart.
_MINOR = ["suites", "eval_steps"]
_VALUES = "before spearman kcc ndcg accuracy f1 pairs queries"


def finished_runs(runs_root: AnyPath, suite: str) -> DataFrame:
    """Return a row for each finished run that was scored on a suite, sorted by label and seed.

    The suite of your own file is its name. A run that cannot be read and a copy of a run are
    left out with a warning.

    Example:
        runs = views.finished_runs("runs", "stsb-test")
        runs[["label", "seed", "spearman"]]

    Returns:
        label, method, settings (profile and changes), encoder, seed, path, ended (ISO time),
        version (checksums of the suite's sets); before (Spearman, or accuracy of a transfer task,
        of the encoder before training), spearman, kcc, ndcg in [-1, 1], accuracy, f1 in [0, 1],
        nan if a run has none; pairs, queries.

    Raises:
        DataError: No run was scored on `suite`, and it is neither a set nor a file.
    """
    name = set_name(suite)
    rows = []
    scored_suites = set()
    for row in finished_rows(runs_root):
        metrics = row["metrics"]
        scored_suites.update(metrics)
        if name in metrics:
            facts = row["facts"]
            # An average has no pairs of its own: those of its sets are added up.
            sets = [metrics[part] for part in AVERAGES.get(name, [name]) if part in metrics]
            values = {
                "encoder": row["settings"]["encoder"],
                "before": metrics[name].get("start"),
                "ended": facts.get("ended", ""),
                "version": suite_version(facts, name),
                "pairs": sum(of_set.get("n", 0) for of_set in sets),
                "queries": sum(of_set.get("queries", 0) for of_set in sets),
            }
            rows.append(row | metrics[name] | values)
    known_sets = {*dataset_names(), *AVERAGES}
    if not rows and name not in known_sets and suite_file(suite) is None:
        places = "of a finished run, and no such set or file"
        raise DataError(unknown_name("suite", name, scored_suites or known_sets, places))
    table = DataFrame(rows, columns=f"{_FACTS} {_VALUES}".split()).astype(
        dict.fromkeys(_VALUES.split(), float)
    )
    table["settings"] = list(map(_settings_text, rows))
    # Labels depend on all rows: they show what differs among these runs.
    table.insert(0, "label", label_runs(rows))
    return table.sort_values(["label", "seed"], ignore_index=True)


def finished_rows(runs_root: AnyPath) -> list[Facts]:
    """Return `read_rows` of finished runs.

    A run that cannot be read and a copy of a run are left out with a warning.
    """
    finished = []
    first_paths = {}
    for row in read_rows(runs_root):
        path = row["path"]
        if row["status"] == "unreadable":
            LOG.warning("left out: %s: %s", path, row["failure"])
        if row["status"] != "finished":
            continue
        # A copied folder would count as one more seed and make an interval too narrow.
        original = first_paths.setdefault((row["digest"], row["seed"]), path)
        if original == path:
            finished.append(row)
        else:
            LOG.warning("left out: %s: a copy of %s, so no further seed", path, original)
    return finished


def describe_runs(runs: DataFrame, runs_root: AnyPath, suite: str = "") -> str:
    """Return the number of runs, or the command that makes some if there are none.

    Example:
        print(views.describe_runs(runs, "runs", "stsb-test"))
    """
    return fill_template(
        "views/runs.txt", count=len(runs), root=runs_root, suite=suite, quote=quote
    )


def seed_table(runs: DataFrame) -> DataFrame:
    """Return mean and (standard deviation) over seeds, x 100, for each label.

    Columns: settings (without those that all runs share), seeds, Spearman before, Spearman, KCC,
    NDCG (of 50 queries or more), or of a transfer task accuracy before, accuracy, F1; pairs,
    queries. Columns without a value are left out.
    """
    require_labels(runs)
    measure = "accuracy" if runs["accuracy"].notna().to_numpy().any() else "spearman"
    runs = runs.copy()
    is_sparse = runs["queries"] < FEWEST_QUERIES
    runs.loc[is_sparse, ["kcc", "ndcg"]] = np.nan
    _, runs["settings"] = split_common_settings(runs["settings"].tolist())
    title = MEASURE_TITLES[measure]
    titles = {"before": f"{title} before", measure: title, "kcc": "KCC", "ndcg": "NDCG", "f1": "F1"}
    groups = runs.groupby("label", sort=False)
    columns = {"settings": groups["settings"].first(), "seeds": groups.size()}
    for name, shown in titles.items():
        columns[shown] = groups[name].agg(format_spread, form="{:.2f} ({:.2f})")
    # Int64 and not int64: the same table shows a run that has none.
    for name in ("pairs", "queries"):
        columns[name] = groups[name].first().fillna(0).astype("Int64")
    table = DataFrame(columns)
    table.attrs["caption"] = "mean (standard deviation) over seeds, x 100"
    # Without queries the columns are empty, and a reader has nothing to wonder about.
    if runs.loc[is_sparse, "queries"].any():
        table.attrs["caption"] += f"; KCC and NDCG only of {FEWEST_QUERIES} queries or more"
    # The score is shown even if it is undefined for all runs.
    has_values = (table != "").any()
    return table.loc[:, has_values | (table.columns == title)]


def require_labels(runs: DataFrame) -> None:
    """Raise SettingError for a table that is not of `finished_runs`, such as of `list_runs`."""
    if "label" not in runs:
        raise SettingError(
            "these runs have no column label; take views.finished_runs(runs_root, suite) instead "
            "of list_runs"
        )


def label_runs(rows: Sequence[Facts], minor: list[str] = _MINOR) -> list[str]:
    """Return a label for each row of `read_rows`: its method, and how it differs within the method.

    An evaluated encoder is labelled by its name. Runs of different seeds have the same label if
    their settings read the same: each learned from the run of its own seed.
    """
    names = pd.Series(list(map(_short_label, rows)), dtype=object)
    labels = names.copy()
    for name, group in names.groupby(names, sort=False):
        own = [rows[index] for index in group.index]
        hidden = [*minor]
        if own[0]["method"] == BaselineConfig.method:
            hidden.append("encoder")  # which is the name
        _, differences = split_common_settings(list(map(_settings_text, own)), hidden)
        labels[group.index] = [f"{name} ({text})" if text else name for text in differences]
    # Two runs of one label and seed differ in something that their settings do not show, such as
    # the content of a file: the minor settings tell them apart, and if not, their digests.
    facts = DataFrame({"label": labels, "seed": [row["seed"] for row in rows]})
    ambiguous: Any = labels[facts.duplicated(keep=False)]
    if ambiguous.empty:
        return labels.tolist()
    longer = labels + [f" {row['digest']}" for row in rows]
    if minor:
        longer = label_runs(rows, [])
    return np.where(labels.isin(ambiguous), longer, labels).tolist()


def _short_label(row: Facts) -> str:
    if row["method"] != BaselineConfig.method:
        return row["method"]
    kind = row["settings"]["kind"]
    if kind == "tfidf":  # of no encoder
        return kind
    # Of a hub id without its owner.
    encoder = short_value(row["settings"]["encoder"]).rpartition("/")[2]
    return encoder if kind == "pooling" else f"{encoder}, {kind}"


def _settings_text(row: Facts) -> str:
    return ", ".join(filter(None, (row["profile"], row["changed"])))


def default_baseline(labels: Sequence[str]) -> str:
    """Return the first SimCSE, from which every method starts, otherwise the first label."""
    return next((label for label in labels if label.startswith("simcse")), labels[0])


def suite_file(suite: str) -> Path | None:
    """Return the path of your own file that `suite` names, None for a set or a missing file."""
    # A set name such as "stsb-test" is never a file, even if one of this name is here.
    path = user_path(suite)
    return path.absolute() if suite != set_name(suite) and path.is_file() else None


def pairs_of(runs: DataFrame, suite: str) -> Pairs:
    """Return the scored pairs of a suite, from your own file or where the first run read them.

    Raises:
        DataError: They are not on this machine.
    """
    # The file that a run read may be in another folder than the caller thinks, and its columns may
    # have been chosen: its settings know.
    for path in runs["path"]:
        config: Any = read_or_warn(path, lambda run: run.config)
        for file in getattr(config, "suites", ()):
            if set_name(file) == set_name(suite):
                source = suite if suite_file(suite) else file
                return load_own_pairs(source, config.columns)
    return load_pairs(suite)


def suite_version(facts: Facts, suite: str) -> str:
    """Return the checksums of the sets of `suite` that the run with these facts was scored on."""
    inputs = facts.get("inputs", {})
    checksums = []
    for name in AVERAGES.get(suite, [suite]):
        # A suite called like a role, such as "dev", is recorded as "suite dev".
        source = inputs.get(f"suite {name}", inputs.get(name, {}))
        checksums.append(source.get("sha256", ""))
    return " ".join(checksums)


def read_or_warn(path: AnyPath, read: Callable[..., _T], **options: Any) -> _T | None:
    """Return what `read` returns for the run; None, with a warning, if the run cannot be read."""
    try:
        return read(Run(path), **options)
    except WorkbenchError as problem:
        LOG.warning("left out: %s: %s", path, problem)
        return None


def format_spread(values: Any, unit: float = 100, form: str = "{:.2f} ± {:.2f}") -> str:
    """Return mean and deviation of the seeds' values, times `unit`; "" if undefined."""
    mean, std, n = seed_spread(unit * np.asarray(values))
    if math.isnan(mean):
        return ""
    return form.format(mean, std) if n > 1 else f"{mean:.2f}"


def kept_checkpoint(history: DataFrame) -> Any:
    """Return the row of the checkpoint that was kept: the best on dev, otherwise the last.

    The start, step 0, is among them if the training could keep it, or if there is no other yet.
    """
    # Without `keep_start` the start is never kept, however good it is on dev.
    first = 0 if history.attrs.get("keep_start") else 1
    candidates = history.loc[history["step"] >= first]
    if "dev_spearman" in candidates and candidates["dev_spearman"].notna().any():
        return candidates.loc[candidates["dev_spearman"].idxmax()]
    return history.iloc[-1]


def score_changes(run: Run, *, only_falls: bool = False) -> str:
    """Return suites and dev with their scores x 100 before and after training.

    A score that was not measured before training is left out.
    """
    changes = [
        (suite, values.get("start", math.nan), values["score"])
        for suite, values in read_row(run.path)["metrics"].items()
    ]
    history = history_of(run)
    if "dev_spearman" in history:
        start = history["dev_spearman"].iloc[0]
        changes.append(("dev", start, kept_checkpoint(history)["dev_spearman"]))
    least_fall = _VISIBLE if only_falls else -math.inf
    texts = [
        f"{name} {100 * start:.2f} -> {100 * end:.2f}"
        for name, start, end in changes
        if start - end > least_fall  # false for nan
    ]
    return ", ".join(texts)


def result_line(run: Run) -> str:
    """Return one line: the scores of a run before and after training, and how it ended."""
    texts = [score_changes(run)]
    if is_its_start(run):
        texts.append("kept the start")
    if stopped := run.facts().get("stopped"):
        texts.append(f"stopped at {stopped}")
    return ", ".join(filter(None, texts))


def warning_of(run: Run) -> str:
    """Return that a run's encoder is its start, or in which scores it is worse; otherwise ""."""
    if is_its_start(run):
        return "its start: no step of its training was better on dev"
    falls = score_changes(run, only_falls=True)
    start = short_value(run.config.encoder)
    return f"worse than its start, {start}: {falls} (x 100)" if falls else ""


def is_its_start(run: Run) -> bool:
    """Return whether the training of a run kept the encoder that it began with."""
    history = history_of(run)
    return not history.empty and kept_checkpoint(history)["step"] == 0


def history_of(run: Run) -> DataFrame:
    """Return the history of a run, without rows and columns if it has none."""
    return run.history() if (run.path / "history.csv").is_file() else DataFrame()


def read_dev(run: Run) -> float | None:
    """Return the Spearman on dev of the checkpoint that was kept; None if it was not measured."""
    return kept_checkpoint(run.history()).get("dev_spearman")
