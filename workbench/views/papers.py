"""Tables and figures of the papers: published values (data/published/*.csv), and runs of their
commands (*.toml)."""

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from IPython.display import HTML, display

from workbench.config import CONFIGS, RUN_CONFIGS, BaselineConfig, TrainingConfig, setting_text
from workbench.data import AVERAGES, describe
from workbench.errors import RunError, SettingError, WorkbenchError
from workbench.files import project_path, set_name
from workbench.metrics import similar_third, spearman
from workbench.runs import Run
from workbench.views._style import laid_out
from workbench.views.figures import (
    alignment_uniformity_path,
    cosine_by_gold,
    setting_sweep,
    training_curve,
)
from workbench.views.finished import (
    finished_rows,
    format_spread,
    kept_checkpoint,
    read_dev,
    read_or_warn,
)
from workbench.views.notebooks import table_html

Config = TrainingConfig | BaselineConfig
Runs = Mapping[str, Sequence[Run]]  # as `runs_by_settings` returns them
_TRANSFER = AVERAGES["transfer-average"]
_KEY = ["model", "method", "task"]
_TITLES = {"dev": "dev", "kcc": "KCC", "ndcg": "NDCG"}  # of scores; that of a suite is its name
# The first that a table has is shown with "demo".
_LEADS = ("average", "STS-B dev", "STS-B", "transfer average")
# What a table may replace of its paper's .toml.
_NAMES = ("profiles", "encoders", "sets", "suites", "commands")
# Settings that stay the bundled world's own, and settings of a method that a paper's profile may
# change.
_OF_THE_DATA = {"encoder", "teachers", "suites", "base", "batch_size", "subvector"}
_OF_THE_METHOD = ("ranking", "compose")


def runs_by_settings(root: str | Path) -> Runs:
    """Return the finished runs under `root` by `settings_key`; one that cannot be read is left out
    with a warning."""
    runs: dict[str, list[Run]] = {}
    for row in finished_rows(root):
        config = RUN_CONFIGS[row["method"]](**row["settings"])
        runs.setdefault(settings_key(config), []).append(Run(row["path"]))
    return runs


def settings_key(config: Config) -> str:
    """Return the digest of the settings, whatever their seed and suites are."""
    return config.model_copy(update={"suites": [], "seed": 0}).digest()


@cache
def read_papers() -> dict[str, dict[str, Any]]:
    """Return the .toml of each paper."""
    files = sorted(project_path("data").glob("published/*.toml"))
    return {file.stem: tomllib.loads(file.read_text(encoding="utf-8")) for file in files}


def read_shape(paper: str, kind: str, number: int | str) -> dict[str, Any]:
    """Return the .toml entry of a "table" or "figure", with the names and commands that it shares
    with its paper."""
    whole = read_papers()[paper]
    shape = whole[f"{kind}s"][str(number)]
    names = {name: whole.get(name, {}) | shape.get(name, {}) for name in _NAMES}
    return {**shape, **names, "heading": f"{whole['paper']} {kind} {number}"}


@cache
def published_table(paper: str, table: str) -> pd.DataFrame:
    """Return the values of a table in the paper's order; a published deviation follows its mean.

    Columns: table, model, method, task, value as published; row, column: the place in the table;
        suite, metric: what measures the task, or ""; command: what reproduces the value, as in the
        .toml, or "" if nothing does; stated: the number that our catalogue or profile has for it,
        or ""."""
    shape = read_shape(paper, "table", table)
    numbers = _published_numbers()
    numbers = numbers.loc[numbers["table"].str.fullmatch(re.escape(shape["heading"]) + "( .*)?")]
    deviating = numbers["table"].str.contains("deviation")
    values = (
        numbers.loc[~deviating]
        .merge(numbers.loc[deviating], "left", _KEY, suffixes=("", " ±"))
        .fillna("")
    )
    values["value"] = (values["value"] + " ± " + values["value ±"]).str.removesuffix(" ± ")
    described = pd.DataFrame([_describe(shape, row) for row in values.to_dict("records")])
    values = pd.concat([values[["table", *_KEY, "value"]], described], axis=1)
    order = pd.Index(["", *read_papers()[paper]["profiles"]])
    return values.sort_values("model", key=order.get_indexer, kind="stable")


@cache
def _published_numbers() -> pd.DataFrame:
    files = sorted(project_path("data").glob("published/*.csv"))
    return pd.concat(
        [pd.read_csv(file, dtype=str, keep_default_na=False) for file in files], ignore_index=True
    )


def _describe(shape: Mapping[str, Any], row: dict[Any, str]) -> dict[str, str]:
    """Return the columns that `published_table` adds to a published value."""
    model = row["model"]
    method = row["method"]
    task = row["task"]
    words = dict(row)
    if parts := re.fullmatch(shape.get("split", ".*"), method):
        words |= parts.groupdict("E1")
    metric = "spearman"
    if task.endswith((" KCC", " NDCG")):
        task, metric = task.split()
    suite = shape["suites"].get(task, "")
    names = {
        "profile": shape["profiles"].get(model),
        "encoder": shape["encoders"].get(model),
        "set": shape["sets"].get(task),
    }
    command = shape["commands"].get(method, "")
    needed = re.findall(r"{(\w+)}", command)
    command = command.format(**names) if all(names[name] for name in needed) else ""
    if suite in ("transfer-average", *_TRANSFER):
        metric = "accuracy"
        command = command and f"{command} --set suites={','.join(_TRANSFER)}"
    stated = ""
    if counted := shape.get("counted", {}).get(method, {}).get(task):
        stated = str(describe(counted)["rows"])
    if setting := shape.get("settings", {}).get(task):
        stated = setting_text(getattr(parse_command(command), setting))
        command = ""
    return {
        "row": shape.get("row", "{model}, {method}").format(**words).removeprefix(", "),
        "column": shape.get("column", "{task}").format(**words),
        "suite": suite,
        "metric": metric.lower() if suite else "",
        "command": command,
        "stated": stated,
    }


@cache
def parse_command(command: str) -> Config:
    """Return the settings of a .toml's command, METHOD --profile NAME [--set NAME=VALUE]...; the
    last value counts."""
    method, _, profile, *settings = shlex.split(command)
    return RUN_CONFIGS[method].from_parameters(
        profile, 0, dict(text.split("=", 1) for text in settings[1::2])
    )


def demo_config(config: Config, *swept: str) -> TrainingConfig | None:
    """Return the same changes of the method in the profile demo, always those of `swept`; None if
    not allowed there."""
    if isinstance(config, BaselineConfig):
        return None
    fields = type(config).model_fields
    names = [*config.changed(), *swept]
    names += [
        name
        for name in _OF_THE_METHOD
        if name in fields and getattr(config, name) != fields[name].default
    ]
    changes = {name: getattr(config, name) for name in names if name not in _OF_THE_DATA}
    try:
        return CONFIGS[config.method].from_parameters("demo", 0, changes)
    except SettingError:
        return None


def commands(configs: Iterable[Config]) -> str:
    """Return the commands that make runs of these settings, each once."""
    lines = {}
    for config in configs:
        changed = config.changed()
        start = f"run {config.method}"
        if isinstance(config, BaselineConfig):
            changed.pop("encoder", None)
            start = f"evaluate {config.encoder}"
        line = f"workbench {start} --profile {config.profile}"
        for name, value in changed.items():
            line += f" --set {shlex.quote(f'{name}={setting_text(value)}')}"
        lines[line] = None
    return "; ".join(lines)


def paper_table(
    paper: str, table: int | str, runs: Runs, *, profile: str = "paper", suite: str = ""
) -> pd.DataFrame:
    """Return a table of a paper: below each row that has a command the values measured here, empty
    without a run.

    A size or a setting has ours below it, with ≠ if it is another.

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
    """
    shape = read_shape(paper, "table", table)
    values = published_table(paper, str(table))
    rows = (
        _demo_rows(values, runs, set_name(suite))
        if profile == "demo"
        else _paper_rows(values, runs)
    )
    rows.attrs["title"] = f"{shape['heading']}: {shape['title']}"
    return rows


def _paper_rows(values: pd.DataFrame, runs: Runs) -> pd.DataFrame:
    """Return two rows for each row of the paper: published, and here."""
    lines: dict[Any, dict[str, str]] = {}
    measured = []
    for row, of_row in values.groupby("row", sort=False):
        published = {}
        here = {}
        averages = []
        empty = []
        numbers = []
        value: Any
        for value in of_row.itertuples():
            name = value.column
            published[name] = value.value
            if value.task == "row average":
                averages.append(name)
            elif value.command:
                if own := _measure_runs(value, runs):
                    numbers.append(np.mean(own))
                else:
                    empty.append(parse_command(value.command))
                here[name] = format_spread(own, 1)
            elif value.stated:
                is_same = float(value.stated) == float(value.value)
                here[name] = value.stated if is_same else f"{value.stated} ≠"
        lines[row, "published"] = published
        if here:
            lines[row, "here"] = here
            here["command"] = commands(empty)
        if numbers:
            measured.append(row)
            if not empty:
                here |= dict.fromkeys(averages, format_spread([np.mean(numbers)], 1))
    columns = list(dict.fromkeys(values["column"]))
    columns = sorted(columns, key=int) if all(name.isdigit() for name in columns) else columns
    table = pd.DataFrame(
        lines.values(), index=pd.MultiIndex.from_tuples(list(lines)), columns=[*columns, "command"]
    )
    table.attrs["measured"] = measured
    return table.astype(object).fillna("")


def _demo_rows(values: pd.DataFrame, runs: Runs, suite: str) -> pd.DataFrame:
    """Return a row for each method: its published lead value | dev | the suite | KCC | NDCG | seeds
    | command."""
    lead = next((task for task in _LEADS if task in set(values["task"])), values["task"].iloc[-1])
    rows = {}
    keys = set()
    leads: Any = values[(values["task"] == lead) & (values["command"] != "")]
    for value in leads.itertuples():
        config = demo_config(parse_command(value.command))
        if config is None or (key := settings_key(config)) in keys:
            continue
        keys.add(key)
        of_seeds = runs.get(key, ())
        metrics = [(read_or_warn(run.path, Run.metrics) or {}).get(suite, {}) for run in of_seeds]
        scores = pd.DataFrame(metrics, columns=["spearman", "kcc", "ndcg"], dtype=float)
        scores.insert(0, "dev", [read_or_warn(run.path, read_dev) for run in of_seeds])
        rows[value.method] = {
            f"published, {lead}": value.value,
            **{
                _TITLES.get(name, suite): format_spread(numbers.dropna())
                for name, numbers in scores.items()
            },
            "seeds": len(of_seeds),
            "command": "" if of_seeds else commands([config]),
        }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.attrs["measured"] = [name for name, row in rows.items() if row["seeds"]]
    return table


def show_measured(*results: Any) -> None:
    """Display figures, and of tables the rows that have a run; fold what has none, with its
    commands.

    results: Of `paper_figure` and `paper_table`.
    """
    rest = []
    for one in results:
        if isinstance(one, go.Figure):
            display(one)
            layout: Any = one.layout
            if layout.meta:
                missing = escape(layout.meta["no run yet"])
                rest.append(f"<p>{layout.title.text}, missing: <code>{missing}</code></p>")
        else:
            title = f"<p><b>{escape(one.attrs['title'])}</b></p>"
            measured = one.attrs.get("measured", [])
            if measured:
                display(HTML(title + table_html(one.loc[measured])))
            if len(measured) < len(one.index.unique(0)):
                rest.append(title + table_html(one))
    if rest:
        summary = (
            f"{len(rest)} tables and figures have rows without a run: published values and commands"
        )
        display(HTML(f"<details><summary>{summary}</summary>{''.join(rest)}</details>"))


def _measure_runs(value: Any, runs: Runs) -> list[float]:
    of_seeds = runs.get(settings_key(parse_command(value.command)), ()) if runs else ()
    numbers: Any = (
        read_or_warn(run.path, lambda run: _measure_run(run, value)) for run in of_seeds
    )
    return [number for number in numbers if pd.notna(number)]


def _measure_run(run: Run, value: Any) -> float | None:
    number: Any = None
    if value.suite:
        number = run.metrics().get(value.suite, {}).get(value.metric)
    elif value.task == "STS-B similar":
        scores = run.scores()
        similar = scores.loc[
            (scores["suite"] == "stsb-test") & similar_third(scores["gold"], (0.0, 5.0))
        ]
        number = spearman(similar["gold"], similar["predicted"])
    elif (run.path / "history.csv").is_file():
        best = kept_checkpoint(run.history())
        if value.task in ("uniformity", "alignment"):
            return best.get(f"dev_{value.task}")
        if value.task == "STS-B dev" and run.config.model_dump()["dev"] == "stsb-dev":
            number = best["dev_spearman"]
    return None if number is None else 100 * number


def paper_figure(
    paper: str, figure: int | str, runs: Runs, *, profile: str = "paper", suite: str = ""
) -> go.Figure | pd.DataFrame:
    """Return a figure of a paper from finished runs, the first seed of each; without any, a table
    of their commands.

    Arguments as of `paper_table`; `suite`: with "demo", the set whose pairs are drawn. Except for
    bars, the commands of rows without a run are in `layout.meta["no run yet"]`. If the runs do not
    have what is drawn, the table contains the reason. Bars have the values of a table: published,
    and means of all seeds. KeyError if there is no such figure."""
    shape, demo = read_shape(paper, "figure", figure), profile == "demo"
    title = f"Figure {figure}: {shape['title']}"
    if shape["kind"] == "bars":
        table = paper_table(paper, shape["table"], runs, profile=profile, suite=suite)
        return laid_out(_draw_bars(table, shape), title)
    rows = shape["rows"]
    if demo:  # the papers' backbones and sets are one there
        rows = shape.get("demo", rows)
    swept = [shape["setting"]] if "setting" in shape else []
    for name in swept:
        rows = {
            f"{row} | {value}": f"{rows[row]} --set {name}={value}"
            for row in rows
            for value in shape["values"]
        }
    first = {}
    missing = {}
    for row, command in rows.items():
        config: Any = parse_command(command)
        if demo:
            config = demo_config(config, *swept)
        if config and (of_seeds := runs.get(settings_key(config))):
            first[row] = of_seeds[0]
        elif config:
            missing[row] = commands([config])
    table = pd.DataFrame({"command": missing}).rename_axis("no run yet")
    try:
        if first:
            drawn = _draw(shape, first, set_name(suite) if demo else shape.get("suite", ""))
            drawn.layout.meta = {"no run yet": "; ".join(missing.values())} if missing else None
            return laid_out(drawn, f"{title}; here: the bundled world" if demo else title)
    except (ValueError, WorkbenchError) as problem:  # the other figures are still drawn
        table = pd.DataFrame({"not drawn": {", ".join(first): str(problem)}})
    table.attrs["title"] = f"{shape['heading']}: {shape['title']}"
    return table


def _draw_bars(table: pd.DataFrame, shape: Mapping[str, Any]) -> go.Figure:
    """Draw each row as bars with deviations; of a paper's table, the figure's columns."""
    shown: Any = table.drop(columns=["dev", "seeds", "command"], errors="ignore")
    if table.index.nlevels == 2:
        shown = table[shape["columns"]].unstack(fill_value="", sort=False)
        shown.columns = shown.columns.map(", ".join)
    figure = go.Figure()
    for name, texts in shown.items():
        numbers = texts.str.partition(" ± ")[[0, 2]].apply(pd.to_numeric)
        figure.add_bar(x=shown.index, y=numbers[0], error_y_array=numbers[2], name=name)
    return figure.update_layout(xaxis_automargin=True, yaxis_title="x 100", showlegend=True)


def _draw(shape: Mapping[str, Any], first: Mapping[str, Run], suite: str) -> go.Figure:
    kind = shape["kind"]
    if kind == "sweep":
        setting = shape["setting"]
        points = pd.Series({tuple(row.split(" | ")): read_dev(run) for row, run in first.items()})
        table = (
            points.unstack(0, sort=False)
            .rename(float)
            .sort_index()
            .rename_axis(setting)
            .reset_index()
        )
        return setting_sweep(table, setting, paper=shape.get("published"))
    if kind == "cosines":
        return cosine_by_gold({row: run.scores() for row, run in first.items()}, suite)
    column = "loss"
    draw = training_curve
    if kind == "path":
        column = "dev_alignment"
        draw = alignment_uniformity_path
    histories = {
        row: history
        for row, run in first.items()
        if (run.path / "history.csv").is_file() and column in (history := run.history())
    }
    if not histories:
        raise RunError(f"no run has a history with {column}")
    return draw(histories)
