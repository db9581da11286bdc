"""Published values of the papers, the settings that reproduce them, and their commands.

In `data/published/` the .csv files hold the numbers; a paper's .toml describes its tables and figures and gives the
command that reproduces each row.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.config import CONFIGS, RECORDED, BaseConfig, TrainingConfig
from workbench.data import AVERAGES
from workbench.errors import SettingError, unknown_name
from workbench.files import project_path
from workbench.runs import Run, list_runs
from workbench.views.finished import read_or_warn

Config = TrainingConfig | BaseConfig
Runs = Mapping[str, Sequence[Run]]  # as `runs_by_settings` returns them
_TRANSFER = AVERAGES["transfer-average"]
_KEY = ["model", "method", "task"]
_NAMES = ("profiles", "encoders", "sets", "suites", "commands")  # what a table may replace of its paper's .toml
# Settings that stay the bundled world's own, and settings of a method that a paper's profile may change.
_OF_THE_DATA = {"encoder", "teachers", "suites", "base", "batch_size", "subvector"}
_OF_THE_METHOD = ("ranking", "compose")


def runs_by_settings(root: str | Path) -> Runs:
    """Return the finished runs under `root` by `settings_key`; one that cannot be read is left out with a warning."""
    runs: dict[str, list[Run]] = {}
    listed = list_runs(root)
    for path in listed.loc[listed["status"] == "finished", "path"]:
        key = read_or_warn(path, lambda run: settings_key(run.config))
        if key is not None:
            runs.setdefault(key, []).append(Run(path))
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
    """Return the .toml entry of a "table" or "figure", with the names and commands that it shares with its paper.

    SettingError if there is no such paper, table or figure.
    """
    if paper not in read_papers():
        raise SettingError(unknown_name("paper", paper, read_papers(), "in data/published"))
    whole = read_papers()[paper]
    if str(number) not in whole[f"{kind}s"]:
        raise SettingError(unknown_name(kind, str(number), whole[f"{kind}s"], f"of {paper}"))
    shape = whole[f"{kind}s"][str(number)]
    names = {name: whole.get(name, {}) | shape.get(name, {}) for name in _NAMES}
    return {**shape, **names, "heading": f"{whole['paper']} {kind} {number}"}


@cache
def published_table(paper: str, table: str) -> pd.DataFrame:
    """Return the values of a table in the paper's order; a published deviation follows its mean.

    Columns: table, model, method, task, value as published; row, column: the place in the table; suite, metric: what
    measures the task, or ""; command: what reproduces the value, as in the .toml, or "" if nothing does.
    """
    shape, numbers = read_shape(paper, "table", table), _published_numbers()
    numbers = numbers.loc[numbers["table"].str.fullmatch(re.escape(shape["heading"]) + "( .*)?")]
    deviating = numbers["table"].str.contains("deviation")
    values = numbers.loc[~deviating].merge(numbers.loc[deviating], "left", _KEY, suffixes=("", " ±")).fillna("")
    values["value"] = (values["value"] + " ± " + values["value ±"]).str.removesuffix(" ± ")
    described = pd.DataFrame([_describe(shape, row) for row in values.to_dict("records")])
    order = {model: place for place, model in enumerate(["", *read_papers()[paper]["profiles"]])}
    values = pd.concat([values[["table", *_KEY, "value"]], described], axis=1)
    return values.sort_values("model", key=lambda models: models.map(order).fillna(-1), kind="stable")


@cache
def _published_numbers() -> pd.DataFrame:
    files = sorted(project_path("data").glob("published/*.csv"))
    return pd.concat([pd.read_csv(file, dtype=str, keep_default_na=False) for file in files], ignore_index=True)


def _describe(shape: Mapping[str, Any], row: dict[Any, str]) -> dict[str, str]:
    """Return row, column, suite, metric and command of a published value."""
    parts = re.fullmatch(shape.get("split", ".*"), row["method"])
    words = row | {name: text or "E1" for name, text in (parts.groupdict() if parts else {}).items()}
    task, metric = row["task"].split() if row["task"].endswith((" KCC", " NDCG")) else (row["task"], "spearman")
    suite, command = shape["suites"].get(task, ""), shape["commands"].get(row["method"], "")
    keys = {"profile": ("profiles", "model"), "encoder": ("encoders", "model"), "set": ("sets", "task")}
    known = {name: shape[many][row[key]] for name, (many, key) in keys.items() if row[key] in shape[many]}
    command = command.format(**known) if set(re.findall(r"{(\w+)}", command)) <= set(known) else ""
    if suite in ("transfer-average", *_TRANSFER):
        metric, command = "accuracy", command and f"{command} --set suites={','.join(_TRANSFER)}"
    return {
        "row": shape.get("row", "{model}, {method}").format(**words).removeprefix(", "),
        "column": shape.get("column", "{task}").format(**words),
        "suite": suite,
        "metric": metric.lower() if suite else "",
        "command": command,
    }


@cache
def parse_command(command: str) -> Config:
    """Return the settings of a .toml's command, METHOD --profile NAME [--set NAME=VALUE]...; the last value counts."""
    method, _, profile, *settings = shlex.split(command)
    return RECORDED[method].from_parameters(profile, 0, dict(text.split("=", 1) for text in settings[1::2]))


def demo_config(config: Config, *swept: str) -> TrainingConfig | None:
    """Return the same changes of the method in the profile demo, always those of `swept`; None if not allowed there."""
    if isinstance(config, BaseConfig):
        return None
    fields = type(config).model_fields
    names = [*config.changed(), *swept]
    names += [name for name in _OF_THE_METHOD if name in fields and getattr(config, name) != fields[name].default]
    changes = {name: getattr(config, name) for name in names if name not in _OF_THE_DATA}
    try:
        return CONFIGS[config.method].from_parameters("demo", 0, changes)
    except SettingError:
        return None


def commands(configs: Iterable[Config]) -> str:
    """Return the commands that make runs of these settings, each once."""
    lines = {}
    for config in configs:
        changed, start = config.changed(), f"run {config.method}"
        if isinstance(config, BaseConfig):
            changed.pop("encoder", None)
            start = f"evaluate {config.encoder}"
        settings = [f"--set {shlex.quote(f'{name}={_typed_value(value)}')}" for name, value in changed.items()]
        lines[" ".join(["workbench", start, "--profile", config.profile, *settings])] = None
    return "; ".join(lines)


def _typed_value(value: Any) -> str:
    """Return a setting's value as the command line reads it, to the last digit: any other would be another run."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value).removesuffix(".0")


def published_scores(suite: str, methods: Collection[str], model: str = "") -> pd.DataFrame:
    """Return what the papers print for a suite, or if they do not have it, for the average of the seven.

    Args:
        suite: Such as "stsb-test", "mr" or "sts-average".
        methods: Only rows of these methods of ours; "SimCSE + RankEncoder" is one of rankencoder.
        model: Only rows of this model, such as "BERT-base"; "": of all.

    Returns:
        By method: name, model, task, published (as printed, x 100), from. A value that several tables repeat is one
        row.
    """
    tables = [published_table(paper, table) for paper, whole in read_papers().items() for table in whole["tables"]]
    values = pd.concat(tables).query("metric in ('spearman', 'accuracy')").rename(columns={"method": "name"})
    values = values.loc[values["suite"] == (suite if suite in set(values["suite"]) else "sts-average")]
    # Behind a comma are the teachers and the like.
    names = values["name"].str.casefold().str.partition(",")[0]
    values["method"] = names.str.findall(rf"(?:^| \+ )({'|'.join(CONFIGS)})").str[-1]
    values["published"] = values["value"].str.partition(" ")[0]
    values = values.loc[values["method"].isin(list(methods)) & values["model"].str.startswith(model)]
    columns = ["method", "name", "model", "task", "published"]
    return values.groupby(columns, sort=False).agg(**{"from": ("table", "; ".join)}).reset_index().set_index("method")
