"""Finished runs beside a table or a figure of a paper: rows by name, found by their settings, never trained here."""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.config import CONFIGS, TrainingConfig
from workbench.look.comparison import readable
from workbench.look.papers import published_numbers
from workbench.metrics import seed_spread
from workbench.runs import Run, run_path


@dataclass(frozen=True)
class Row:
    """A row of a paper's table: its name there, the settings that mean it, and its finished runs, a seed each."""

    name: str
    config: TrainingConfig
    runs: tuple[Run, ...]

    @property
    def base(self) -> str:
        """The command of its profile, without what the row changes."""
        return f"workbench run {self.config.method} --profile {self.config.profile}"

    @property
    def changes(self) -> str:
        """What the row adds to the command."""
        table = self.config.table()
        changed = table.loc[table["changed"]].set_index("setting")["value"].to_dict()
        return " ".join(f"--set {shlex.quote(f'{name}={_as_typed(value)}')}" for name, value in changed.items())


def paper_rows(method: str, rows: Mapping[str, Mapping[str, Any]], runs_root: str | Path, profile: str) -> list[Row]:
    """The rows `name -> settings to change in the profile`, each with the finished runs under `runs_root`.

    A setting that the profile refuses raises SettingError: a row stands for something that can be run. A run that
    cannot be read is left out, and a line says which and why.
    """
    found = []
    for name, settings in rows.items():
        config = CONFIGS[method].from_parameters(profile, 0, dict(settings))
        folder = run_path(config, runs_root)
        seeds = sorted(folder.parent.glob(f"{config.digest()}-s*/metrics.json"))
        whole = (readable(path.parent, _whole) for path in seeds)
        found.append(Row(name, config, tuple(run for run in whole if run is not None)))
    return found


def beside_paper(rows: Sequence[Row], suite: str, published: Mapping[str, str] | None = None) -> pd.DataFrame:
    """By row: published | dev | `suite` | seeds | what a row without a run adds to the command; x 100, over seeds.

    `published`: name -> value as printed, on the paper's own data; None: the paper prints a figure. dev: the best dev
    Spearman of each run.
    """
    table = pd.DataFrame(
        {
            "published": ["" if published is None else published.get(row.name, "") for row in rows],
            "dev": [_spread([_best_dev(run) for run in row.runs]) for row in rows],
            suite: [_spread([run.metrics().get(suite, {}).get("spearman") for run in row.runs]) for row in rows],
            "seeds": [len(row.runs) for row in rows],
            rows[0].base: ["" if row.runs else row.changes or "as it is" for row in rows],
        },
        index=[row.name for row in rows],
    )
    return table.drop(columns="published") if published is None else table


def printed(table: str, task: str, model: str = "BERT-base") -> dict[str, str]:
    """method -> value of a published table whose name begins with `table`, as printed; the first where it repeats."""
    numbers = published_numbers()
    numbers = numbers.loc[numbers["table"].str.startswith(table)]
    numbers = numbers.loc[(numbers["task"] == task) & (numbers["model"] == model)]
    return numbers.drop_duplicates("method").set_index("method")["value"].to_dict()


def histories(rows: Sequence[Row]) -> dict[str, pd.DataFrame]:
    """name -> history of the first seed, of the rows that have a run."""
    return {row.name: row.runs[0].history() for row in rows if row.runs and _was_trained(row.runs[0])}


def points(lines: Mapping[str, Sequence[Row]], setting: str) -> pd.DataFrame:
    """setting | best dev Spearman in [-1, 1] of the first seed, a column a line: of the rows that have a run."""
    values = {
        name: {getattr(row.config, setting): _best_dev(row.runs[0]) for row in rows if row.runs}
        for name, rows in lines.items()
    }
    return (
        pd.DataFrame({name: found for name, found in values.items() if found})
        .rename_axis(setting)
        .sort_index()
        .reset_index()
    )


def last_ratio(rows: Sequence[Row], first: str, second: str) -> pd.Series:
    """name -> column `first` over column `second` where both were last logged, of the rows that were trained."""
    found = {name: (history[first] / history[second]).dropna().iloc[-1] for name, history in histories(rows).items()}
    return pd.Series(found, dtype=float)


def to_make(rows: Sequence[Row]) -> str:
    """The commands of the rows that have no run, a line each; "" where all have one."""
    lines = [f"    {row.base} {row.changes}".rstrip() for row in rows if not row.runs]
    said = f"{len(lines)} of {len(rows)} rows have no run yet; these commands make them:"
    return "\n".join([said, *lines]) if lines else ""


def _whole(run: Run) -> Run:
    run.check_files()
    return run


def _was_trained(run: Run) -> bool:
    """Whether it has a history; an encoder that was evaluated alone has none."""
    return (run.path / "history.csv").is_file()


def _best_dev(run: Run) -> float:
    return float(np.nanmax(run.history()["dev_spearman"].to_numpy())) if _was_trained(run) else math.nan


def _spread(values: Sequence[float | None]) -> str:
    known = [100 * value for value in values if value is not None and not math.isnan(value)]
    return str(seed_spread(np.array(known))).replace(" ", "\N{NO-BREAK SPACE}") if known else ""


def _as_typed(value: Any) -> str:
    """A value as the command line reads it, to the last digit: another one would be another run."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return json.dumps(value) if isinstance(value, (list, dict)) else str(value)
