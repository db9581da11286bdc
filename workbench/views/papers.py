"""Tables of the papers: published values, and our runs of the same settings.

The values, and what reproduces them, are in data/published/*.csv, the titles in *.toml there."""

import shlex
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML, display
from pandas import DataFrame

from workbench.config import RUN_CONFIGS, BaselineConfig, TrainingConfig, setting_text
from workbench.data import describe
from workbench.files import AnyPath, Facts, project_path, set_name
from workbench.metrics import similar_third, spearman
from workbench.runs import Run
from workbench.views.notebooks import collapsible, table_html
from workbench.views.run_tables import (
    finished_rows,
    format_spread,
    history_of,
    kept_checkpoint,
    read_dev,
    read_or_warn,
)

Config = TrainingConfig | BaselineConfig
Runs = Mapping[str, Sequence[Run]]  # as `runs_by_settings` returns them


def runs_by_settings(root: AnyPath) -> Runs:
    """Return the finished runs under `root` by `settings_key`.

    A run that cannot be read is left out with a warning.

    Example:
        runs = runs_by_settings("runs")
    """
    runs = defaultdict(list)
    for row in finished_rows(root):
        # A file of its settings may be gone.
        if key := read_or_warn(row["path"], lambda run: settings_key(run.config)):
            runs[key].append(Run(row["path"]))
    return dict(runs)


def settings_key(config: Config) -> str:
    """Return the digest of the settings, whatever their seed and suites are."""
    return config.model_copy(update={"suites": [], "seed": 0}).digest()


@cache
def read_papers() -> dict[str, Facts]:
    """Return the .toml of each paper: its name, and the titles of its tables."""
    return {
        file.stem: tomllib.loads(file.read_text("utf-8"))
        for file in sorted(project_path("data").glob("published/*.toml"))
    }


def _heading(paper: str, table: str) -> str:
    """Return what the values of a table have in their column "table"."""
    return f"{read_papers()[paper]['paper']} table {table}"


@cache
def published_table(paper: str, table: str) -> DataFrame:
    """Return the values of a table in the paper's order; a published deviation follows its mean.

    Returns:
        Columns: table, model, method, task, value as published; row, column: the place in the
        table; suite, metric: what measures the task, or "" (a metric without a suite is a column of
        the history); command: what reproduces the value, or "" if nothing does; ours: the dataset
        whose size, or the setting of the command, that it is compared with, or ""; demo: the
        command with the same changes on the bundled world, or ""; stated: the number that our
        catalogue or profile has for it, with ≠ if it is another, or "".
    """
    values = _published_values(paper)
    values = values.loc[values["table"] == _heading(paper, table)]
    stated = [_state_ours(value) for value in values.itertuples()]
    # The command of a setting is not run: it only has the setting.
    return values.assign(stated=stated, command=values["command"].mask(values["ours"] != "", ""))


@cache
def _published_values(paper: str) -> DataFrame:
    file = project_path("data") / "published" / f"{paper}.csv"
    # As text: 80.10 is published, not 80.1.
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def _state_ours(value: Any) -> str:
    """Return our number for a published value that is a size or a setting, otherwise ""."""
    if not value.ours:
        return ""
    if value.command:
        stated = setting_text(getattr(parse_command(value.command), value.ours))
    else:
        stated = str(describe(value.ours)["rows"])
    return stated if float(stated) == float(value.value) else f"{stated} ≠"


@cache
def parse_command(command: str) -> Config:
    """Return the settings of a command: METHOD --profile NAME [--set NAME=VALUE]..."""
    # The second word is "--profile", and every second one after it "--set".
    method, _, profile, *options = shlex.split(command)
    settings = dict(option.split("=", 1) for option in options[1::2])
    return RUN_CONFIGS[method].from_parameters(profile, 0, settings)


def commands(configs: Iterable[Config]) -> str:
    """Return the commands that make runs of these settings, each once."""
    lines = []
    for config in configs:
        changed = config.changed()
        start = f"run {config.method}"
        if isinstance(config, BaselineConfig):
            # `evaluate` takes it as its argument.
            changed.pop("encoder", None)
            start = f"evaluate {config.encoder}"
        line = f"workbench {start} --profile {config.profile}"
        for name, value in changed.items():
            line += f" --set {shlex.quote(f'{name}={setting_text(value)}')}"
        lines.append(line)
    return "; ".join(dict.fromkeys(lines))


def paper_table(
    paper: str, table: int | str, runs: Runs, *, profile: str = "paper", suite: str = ""
) -> DataFrame:
    """Return a table of a paper: below each row that has a command the values measured here.

    They are empty without a run. A size or a setting has ours below it, with ≠ if it is another.

    Args:
        paper: "rankcse", "compcse", "cosent" or "rankencoder".
        table: Its number there: 2, "III".
        runs: As `runs_by_settings` returns them.
        profile: "paper": the table itself; "demo": the same changes on the bundled world, one row
            each.
        suite: With "demo", what the runs were scored on.

    Returns:
        Texts, in the paper's unit (x 100, except geometry), mean ± deviation over seeds; "command"
        fills what is empty; `attrs["title"]`; `attrs["measured"]`: the rows that have a run.
        KeyError if there is no such paper or table.

    Example:
        paper_table("rankcse", 4, runs_by_settings("runs"))
    """
    number = str(table)
    title = read_papers()[paper]["tables"][number]
    values = published_table(paper, number)
    if profile == "demo":
        rows = _demo_rows(values, runs, set_name(suite))
    else:
        rows = _paper_rows(values, runs)
    rows.attrs["title"] = f"{_heading(paper, number)}: {title}"
    return rows


def _paper_rows(values: DataFrame, runs: Runs) -> DataFrame:
    """Return two rows for each row of the paper: published, and here."""
    lines = {}
    measured = []
    for row, of_row in values.groupby("row", sort=False):
        cells = of_row.set_index("column")
        lines[row, "published"] = cells["value"].to_dict()
        here = cells.loc[cells["stated"] != "", "stated"].to_dict()
        reproduced = of_row[of_row["command"] != ""]
        empty = []
        means = []
        value: Any
        for value in reproduced.itertuples():
            numbers = _measure_runs(value, runs)
            here[value.column] = format_spread(numbers, 1)
            if numbers:
                means.append(np.mean(numbers))
            else:
                empty.append(parse_command(value.command))
        if here:
            lines[row, "here"] = here
            here["command"] = commands(empty)
        if means:
            measured.append(row)
            # An average of some of the sets would be another number than the paper's.
            if not empty:
                averages = of_row.loc[of_row["task"] == "row average", "column"]
                here |= dict.fromkeys(averages, format_spread([np.mean(means)], 1))
    table = DataFrame(lines, index=[*values["column"].unique(), "command"]).T
    table.attrs["measured"] = measured
    return table.astype(object).fillna("")


def _demo_rows(values: DataFrame, runs: Runs, suite: str) -> DataFrame:
    """Return a row for each method: its published lead value, and the scores of its runs.

    Columns: published | dev | the suite | KCC | NDCG | seeds | command."""
    rows = {}
    leads: Any = values[values["demo"] != ""]
    for value in leads.itertuples():
        config = parse_command(value.demo)
        of_seeds = runs.get(settings_key(config), ())
        row = {f"published, {value.task}": value.value}
        metrics = [(read_or_warn(run.path, Run.metrics) or {}).get(suite, {}) for run in of_seeds]
        scores = DataFrame(metrics, columns=["spearman", "kcc", "ndcg"], dtype=float)
        scores.insert(0, "dev", [read_or_warn(run.path, read_dev) for run in of_seeds])
        scores.columns = ["dev", suite, "KCC", "NDCG"]
        row |= {name: format_spread(numbers.dropna()) for name, numbers in scores.items()}
        # A command only for what is missing, so that a full table has none.
        row["seeds"] = len(of_seeds)
        row["command"] = "" if of_seeds else commands([config])
        rows[value.method] = row
    table = DataFrame.from_dict(rows, orient="index")
    table.attrs["measured"] = [name for name, row in rows.items() if row["seeds"]]
    return table


def show_measured(*tables: DataFrame) -> None:
    """Display the rows of tables that have a run; fold the whole tables, with their commands.

    Args:
        tables: As `paper_table` returns them. One with a run for each row is not folded.

    Example:
        show_measured(paper_table("rankcse", 4, runs))
    """
    rest = []
    for table in tables:
        title = f"<p><b>{escape(table.attrs['title'])}</b></p>"
        measured = table.attrs["measured"]
        if measured:
            display(HTML(title + table_html(table.loc[measured])))
        if len(measured) < len(table.index.unique(0)):
            rest.append(HTML(title + table_html(table)))
    if rest:
        summary = "Tables with rows that have no run: published values and commands"
        display(collapsible(summary, *rest))


def _measure_runs(value: Any, runs: Runs) -> list[float]:
    """Return the measured numbers of a row of `published_table`, one for each seed."""
    # The digest of a paper's hundred settings takes longer than a look.
    if not runs:
        return []
    of_seeds = runs.get(settings_key(parse_command(value.command)), ())
    numbers: Any = [
        read_or_warn(run.path, lambda run: _measure_run(run, value)) for run in of_seeds
    ]
    return [number for number in numbers if pd.notna(number)]


def _measure_run(run: Run, value: Any) -> float | None:
    number = None
    if value.metric == "similar":
        scores = run.scores()
        # Only the order of pairs that are similar by gold, which is harder.
        scores = scores.loc[scores["suite"] == value.suite]
        similar = scores.loc[similar_third(scores["gold"], (0.0, 5.0))]
        number = spearman(similar["gold"], similar["predicted"])
    elif value.suite:
        number = run.metrics().get(value.suite, {}).get(value.metric)
    elif len(history := history_of(run)):
        number = kept_checkpoint(history).get(value.metric)
    # Losses in the plane are not multiplied by 100 in any paper.
    unit = 1 if value.task in ("uniformity", "alignment") else 100
    return None if number is None else unit * number
