"""Rankings, scored pairs and encoders of runs by label, for views that compare labels."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.config import BaselineConfig
from workbench.data import Pairs, load_pairs
from workbench.files import set_name
from workbench.metrics import average_ranks
from workbench.runs import Run
from workbench.views._asked import Untrained
from workbench.views.finished import BEFORE, read_or_warn, rows_by_suite, suite_file

SEEDS = {"first": "the first of each", "mean": "averaged", "each": "one by one"}


def _tables_of_runs(
    kind: str, runs: pd.DataFrame, suite: str, *, before: bool = True, seeds: str = "first"
) -> dict[str, pd.DataFrame]:
    """Return label -> rankings or scores (`kind`) of `suite`. ValueError if the seeds of a mean scored different pairs.

    before: also the encoder before training, as "before", or as "before LABEL" if runs started from different ones.
    seeds: "first" of each label; "mean": the mean of the seeds' scores, ranked anew; "each": as "label, seed 0".
    """
    paths = paths_of_runs(runs, seeds=seeds)
    starts = _starts(paths) if before else {}
    tables = {name: _rows_on(suite, kind, [path], BEFORE) for name, path in starts.items()}
    tables |= {name: _rows_on(suite, kind, group) for name, group in paths.items()}
    return {name: rows[0] if len(rows) == 1 else _mean(name, rows) for name, rows in tables.items() if rows}


rankings_of_runs, scores_of_runs = partial(_tables_of_runs, "rankings"), partial(_tables_of_runs, "scores")


def encoders_of_runs(runs: pd.DataFrame, *, before: bool = True, seeds: str = "first") -> dict[str, Any]:
    """Return label -> encoder for `Why` and `Ask`, named as by `rankings_of_runs`; of a mean, that of the first seed.

    A run that cannot encode a sentence alone, such as tf-idf or a cross-encoder, is left out.
    """
    paths = paths_of_runs(runs, seeds=seeds)
    starts = _starts(paths) if before else {}
    encoders: dict[str, Any] = {name: Untrained(Path(path)) for name, path in starts.items() if _encoder(path)}
    return encoders | {name: encoder for name, group in paths.items() if (encoder := _encoder(group[0]))}


def pairs_of_runs(runs: pd.DataFrame, suite: str) -> Pairs:
    """Return the scored pairs of `suite`, from your own file where it is, or where the first run read it. DataError."""
    if suite_file(suite):
        return load_pairs(suite)
    read = (file for path in runs["path"] for file in read_or_warn(path, lambda run: run.config.suites) or ())
    return load_pairs(next((file for file in read if set_name(file) == set_name(suite)), suite))


def paths_of_runs(runs: pd.DataFrame, labels: Sequence[str] = (), seeds: str = "first") -> dict[str, list[str]]:
    """Return name -> folders of the runs under this name. Raises ValueError if no run has one of the `labels`."""
    if unknown := [label for label in labels if label not in set(runs["label"])]:
        known = ", ".join(dict.fromkeys(runs["label"])) or "no finished runs"
        raise ValueError(f"no runs {', '.join(map(repr, unknown))}; there are {known}")
    if seeds == "each":
        return {f"{run['label']}, seed {run['seed']}": [run["path"]] for run in runs.to_dict("records")}
    paths = {str(label): group["path"].tolist() for label, group in runs.groupby("label", sort=False)}
    return paths if seeds == "mean" else {label: group[:1] for label, group in paths.items()}


def _rows_on(suite: str, kind: str, paths: Sequence[str], stage: str = "") -> list[pd.DataFrame]:
    """Return the rows of the suite of each run that has some."""
    read = (read_or_warn(path, partial(rows_by_suite, kind=kind, stage=stage)) or {} for path in paths)
    return [parts[set_name(suite)].copy() for parts in read if set_name(suite) in parts]


def _starts(paths: dict[str, list[str]]) -> dict[str, str]:
    """Return a run for each different start, by label; that of the last run first, as explorers compare these two."""
    starts: dict[Any, tuple[str, str]] = {}
    for name, (path, *_) in paths.items():
        if (Path(path) / BEFORE / "metrics.json").is_file() and (facts := read_or_warn(path, Run.facts)):
            start = facts.get("inputs", {}).get("encoder", {}).get("sha256"), facts["settings"].get("pooling")
            starts[start] = starts.pop(start, (name, path))
    return {BEFORE if len(starts) == 1 else f"{BEFORE} {name}": path for name, path in reversed(starts.values())}


def _encoder(path: str) -> Path | Untrained | None:
    """Return the encoder of a run, or what was evaluated untrained; None if it has no vector of a single sentence."""
    folder, config = Path(path) / "encoder", read_or_warn(path, lambda run: run.config)
    if isinstance(config, BaselineConfig):
        return Untrained(Path(path)) if config.kind == "pooling" else None
    return folder if folder.is_dir() and getattr(config, "architecture", "") != "cross-encoder" else None


def _mean(name: str, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return one table with the mean score of each row; a ranking is ranked anew."""
    value = "score" if "score" in tables[0] else "predicted"
    same = tables[0].columns.drop([value, "rank"], errors="ignore")
    if not all(table[same].equals(tables[0][same]) for table in tables[1:]):
        raise ValueError(
            f"the seeds of {name} were scored on other pairs, so they have no mean; look at them one by one"
        )
    mean = tables[0].assign(**{value: np.mean([table[value].to_numpy() for table in tables], axis=0)})
    if "rank" in mean:
        mean["rank"] = mean.groupby("query_id", sort=False)[value].transform(lambda part: average_ranks(-part))
    return mean
