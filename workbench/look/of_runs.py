"""What runs hold by label, for views that set labels beside each other: rankings, scored pairs, encoders."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.look._asked import Untrained
from workbench.look.comparison import readable
from workbench.metrics import average_ranks
from workbench.runs import Run

BEFORE = "before"  # the stage of a run in which its encoder is untrained, and its label here
SEEDS = {"first": "the first of each", "mean": "averaged", "each": "one by one"}


def rankings_of_runs(
    runs: pd.DataFrame, suite: str, *, labels: Sequence[str] = (), before: bool = True, seeds: str = "first"
) -> dict[str, pd.DataFrame]:
    """label -> ranking table of `suite`; "before" is the first run's encoder untrained.

    labels: only these, in this order; none: all. seeds: "first": of each label's first; "mean": ranks by the mean of
    the seeds' scores; "each": one by one, as "label, seed 0". Raises ValueError for a label that no run has, and for
    seeds that scored other pairs.
    """
    return _of_runs(runs, suite, Run.rankings, paths_of_runs(runs, labels, seeds), before)


def scores_of_runs(
    runs: pd.DataFrame, suite: str, *, labels: Sequence[str] = (), before: bool = True, seeds: str = "first"
) -> dict[str, pd.DataFrame]:
    """label -> scores.csv of `suite`, for `pair_table`; all else as of `rankings_of_runs`."""
    return _of_runs(runs, suite, Run.scores, paths_of_runs(runs, labels, seeds), before)


def encoders_of_runs(
    runs: pd.DataFrame, *, labels: Sequence[str] = (), before: bool = True, seeds: str = "first"
) -> dict[str, Any]:
    """label -> what `Why` and `Ask` can ask, by the names of `rankings_of_runs`; of a mean, the first seed's.

    Nothing is loaded yet. "before" is the encoder that the first run began with. A run that keeps no encoder, of what
    nothing is trained for, is left out.
    """
    found: dict[str, Any] = {name: Run(paths[0]) for name, paths in paths_of_runs(runs, labels, seeds).items()}
    found = {name: run for name, run in found.items() if (run.path / "encoder").is_dir()}
    return {BEFORE: Untrained(next(iter(found.values()))), **found} if before and found else found


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


def _of_runs(
    runs: pd.DataFrame, suite: str, read: Callable[[Run, str], pd.DataFrame], paths: dict[str, list[str]], before: bool
) -> dict[str, pd.DataFrame]:
    found: dict[str, pd.DataFrame] = {}
    for name, group in paths.items():
        tables = [table for path in group if (table := _table(path, suite, read, "")) is not None]
        if not tables:
            continue
        if before and not found and (Path(group[0]) / BEFORE / "metrics.json").is_file():
            untrained = _table(group[0], suite, read, BEFORE)
            found |= {} if untrained is None else {BEFORE: untrained}
        found[name] = tables[0] if len(tables) == 1 else _mean(name, tables)
    return found


def _table(path: str, suite: str, read: Callable[[Run, str], pd.DataFrame], stage: str) -> pd.DataFrame | None:
    """A run's rows of the suite; None where it cannot be read, or has none."""
    table = readable(path, lambda run: read(run, stage))
    table = None if table is None else table.loc[table["suite"] == suite]
    return table if table is not None and len(table) else None


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
