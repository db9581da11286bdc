"""What runs hold by label, for views that set labels beside each other: rankings, scored pairs, encoders."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.config import BaseConfig
from workbench.data import Pairs, load_pairs
from workbench.files import set_name
from workbench.metrics import average_ranks
from workbench.runs import Run
from workbench.views._asked import Untrained
from workbench.views.comparison import file_of, readable

BEFORE = "before"  # the stage of a run in which its encoder is untrained, and its label here
SEEDS = {"first": "the first of each", "mean": "averaged", "each": "one by one"}


def rankings_of_runs(
    runs: pd.DataFrame, suite: str, *, labels: Sequence[str] = (), before: bool = True, seeds: str = "first"
) -> dict[str, pd.DataFrame]:
    """label -> ranking table of `suite`; "before" is the encoder that the runs started from.

    Runs that started from different encoders or poolings each have their own, as "before LABEL".

    labels: only these, in this order; none: all. seeds: "first": of each label's first; "mean": ranks by the mean of
    the seeds' scores; "each": one by one, as "label, seed 0". Raises ValueError for a label that no run has, and for
    seeds that scored other pairs.
    """
    return _of_runs(suite, "rankings", paths_of_runs(runs, labels, seeds), before)


def scores_of_runs(
    runs: pd.DataFrame, suite: str, *, labels: Sequence[str] = (), before: bool = True, seeds: str = "first"
) -> dict[str, pd.DataFrame]:
    """label -> scores.csv of `suite`, for `pair_table`; all else as of `rankings_of_runs`."""
    return _of_runs(suite, "scores", paths_of_runs(runs, labels, seeds), before)


def encoders_of_runs(
    runs: pd.DataFrame, *, labels: Sequence[str] = (), before: bool = True, seeds: str = "first"
) -> dict[str, Any]:
    """label -> what `Why` and `Ask` can ask, by the names of `rankings_of_runs`; of a mean, the first seed's.

    Nothing is loaded yet. A run that has no encoder of single sentences, because its vectors are whitened, static or
    tf-idf, or because it reads two together, is left out; so is the start of such a run.
    """
    paths = paths_of_runs(runs, labels, seeds)
    found = {name: asked for name, group in paths.items() if (asked := _asked(group[0]))}
    starts = _starts(paths) if before else {}
    return {name: Untrained(Path(path)) for name, path in starts.items() if _asked(path)} | found


def pairs_of_runs(runs: pd.DataFrame, suite: str) -> Pairs:
    """The scored pairs of `suite`; DataError where they are not here.

    A file of one's own is read where `suite` says, where nothing is there, where the first run that has it read it.
    """
    if file_of(suite):
        return load_pairs(suite)
    named = (file for path in runs["path"] for file in readable(path, lambda run: run.config.suites) or ())
    return load_pairs(next((file for file in named if set_name(file) == set_name(suite)), suite))


def paths_of_runs(runs: pd.DataFrame, labels: Sequence[str], seeds: str) -> dict[str, list[str]]:
    """Name -> the runs that stand under it."""
    if seeds not in SEEDS:
        raise ValueError(f"seeds is {seeds!r}; choose one of {', '.join(SEEDS)}")
    known = {str(label): group for label, group in runs.groupby("label", sort=False)}
    unknown = [label for label in labels if label not in known]
    if unknown:
        there = ", ".join(known) or "no finished runs"
        raise ValueError(f"no runs {', '.join(map(repr, unknown))}; there are {there}")
    groups = {label: known[label] for label in labels or known}
    if seeds == "each":
        rows = [(label, row) for label, group in groups.items() for row in group.to_dict("records")]
        return {f"{label}, seed {row['seed']}": [row["path"]] for label, row in rows}
    return {label: group["path"].tolist()[: None if seeds == "mean" else 1] for label, group in groups.items()}


def _of_runs(suite: str, kind: str, paths: dict[str, list[str]], before: bool) -> dict[str, pd.DataFrame]:
    found: dict[str, pd.DataFrame] = {}
    for name, path in _starts(paths).items() if before else ():
        if (untrained := _table(path, suite, kind, BEFORE)) is not None:
            found[name] = untrained
    for name, group in paths.items():
        tables = [table for path in group if (table := _table(path, suite, kind)) is not None]
        if tables:
            found[name] = tables[0] if len(tables) == 1 else _mean(name, tables)
    return found


def _starts(paths: dict[str, list[str]]) -> dict[str, str]:
    """Return a run for each different start, by label; that of the last run first, as explorers compare these two."""
    found: dict[Any, tuple[str, str]] = {}
    for name, (path, *_) in paths.items():
        if (Path(path) / BEFORE / "metrics.json").is_file() and (facts := readable(path, Run.facts)):
            start = facts.get("inputs", {}).get("encoder", {}).get("sha256"), facts["settings"].get("pooling")
            found[start] = found.pop(start, (name, path))
    return {BEFORE if len(found) == 1 else f"{BEFORE} {name}": path for name, path in reversed(found.values())}


def _asked(path: str) -> Path | Untrained | None:
    """The encoder that a run keeps or, where nothing was trained, read; None where it has no vector of a sentence."""
    folder, config = Path(path) / "encoder", readable(path, lambda run: run.config)
    if isinstance(config, BaseConfig):
        return Untrained(Path(path)) if config.kind == "pooling" else None
    return folder if config is not None and folder.is_dir() and getattr(config, "model", "") != "interaction" else None


def _table(path: str, suite: str, kind: str, stage: str = "") -> pd.DataFrame | None:
    """A run's rows of the suite, a copy; None where it cannot be read, or has none."""
    file, suite = Path(path) / stage / f"{kind}.csv", set_name(suite)
    written = file.stat().st_mtime_ns if file.is_file() else 0
    table = readable(path, lambda run: _rows(str(run.path), suite, kind, stage, written))
    return table.copy() if table is not None and len(table) else None


@lru_cache(maxsize=64)
def _rows(path: str, suite: str, kind: str, stage: str, written: int) -> pd.DataFrame:
    """As `_table`, read once as long as the file, written at this moment, stays."""
    table: pd.DataFrame = getattr(Run(path), kind)(stage)
    return table.loc[table["suite"] == suite].reset_index(drop=True)


def _mean(name: str, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """One table with the mean score of each row, ranked anew where it is a ranking."""
    value = "score" if "score" in tables[0] else "predicted"
    same = tables[0].columns.drop([value, "rank"], errors="ignore")
    if not all(table[same].equals(tables[0][same]) for table in tables[1:]):
        raise ValueError(f"the seeds of {name} were scored on other pairs, and have no mean; look at them one by one")
    mean = tables[0].assign(**{value: np.mean([table[value].to_numpy() for table in tables], axis=0)})
    if "rank" in mean:
        mean["rank"] = mean.groupby("query_id", sort=False)[value].transform(lambda part: average_ranks(-part))
    return mean
