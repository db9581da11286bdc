"""What the papers print, as tables and as objects, the settings that mean each value, and what was measured beside it.

In `data/published/` the .csv files have the numbers, the .toml files each table's and figure's shape and the commands
that make its rows.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.config import CONFIGS, RECORDED, BaseConfig, TrainingConfig
from workbench.errors import SettingError, unknown_name
from workbench.files import project_path
from workbench.runs import Run, list_runs, short_value
from workbench.views.finished import format_spread, measure_of, read_or_warn

Config = TrainingConfig | BaseConfig
Runs = Mapping[str, Sequence[Run]]  # as `runs_by_settings` gives them
_SHAPE = {"row": "{model}, {method}", "column": "{task}"}  # of a table whose .toml says nothing else
# What names the papers' data, size and checkpoints; the bundled world has its own.
_OF_THE_PAPER = {"encoder", "teachers", "suites", "base", "batch_size", "subvector"}
_OF_THE_PROFILE = ("ranking", "compose")  # what the papers' profiles change of the method itself
_PUBLISHED = ["table", "model", "method", "task", "value"]
# What the papers call our suites. No paper reports any other suite; its runs stand beside the average of the seven.
TASKS = {
    **{f"sts{year}-test": f"STS{year}" for year in range(12, 17)},
    **{"stsb-test": "STS-B", "sick-test": "SICK-R", "paws-test": "PAWS", "mrpc-test": "MRPC"},
    **{"zh-lcqmc-test": "LCQMC", "zh-bq-test": "BQ", "zh-atec-test": "ATEC", "zh-pawsx-test": "PAWSX"},
    **{"zh-stsb-test": "Chinese STS-B", "allnli-test": "NLI"},
    **{"mr": "MR", "cr": "CR", "subj": "SUBJ", "mpqa": "MPQA", "sst2": "SST", "trec": "TREC", "mrpc": "MRPC"},
    "transfer-average": "transfer average",
}
AVERAGE = "average"


@dataclass(frozen=True)
class Cell:
    """One published value: what it is of, where it stands, and the settings that mean it.

    config None: the paper quotes it, or no command makes it.
    """

    model: str
    method: str
    task: str
    row: str
    column: str
    value: str
    config: Config | None

    def of(self, runs: Runs) -> Sequence[Run]:
        """The finished runs of its settings, a seed each."""
        return runs.get(settings_key(self.config), ()) if runs and self.config is not None else ()


def runs_by_settings(root: str | Path) -> Runs:
    """Settings -> the finished runs under `root` that have them, a seed each, whatever suites they were scored on."""
    found: dict[str, list[Run]] = {}
    listed = list_runs(root)
    for path in listed.loc[listed["status"] == "finished", "path"]:
        key = read_or_warn(path, lambda run: settings_key(run.config))
        if key is not None:
            found.setdefault(key, []).append(Run(path))
    return found


def settings_key(config: Config) -> str:
    """What names a computation, whatever its seed and what it is scored on."""
    return config.model_copy(update={"suites": [], "seed": 0}).digest()


@cache
def layout(paper: str) -> dict[str, Any]:
    """The shape of a paper's tables and figures. SettingError for a paper that is not there."""
    known = {path.stem: path for path in project_path("data").glob("published/*.toml")}
    if paper not in known:
        raise SettingError(unknown_name("paper", paper, sorted(known), "in data/published"))
    return tomllib.loads(known[paper].read_text(encoding="utf-8"))


def shape_of(paper: str, kind: str, number: int | str) -> dict[str, Any]:
    """What the .toml says of a table or figure (kind "tables", "figures"). SettingError where there is none."""
    known = layout(paper)[kind]
    if str(number) not in known:
        raise SettingError(unknown_name(kind.removesuffix("s"), str(number), known, f"of {paper}"))
    return known[str(number)]


@cache
def paper_cells(paper: str, table: str) -> tuple[Cell, ...]:
    """Every value of a table in the paper's order; a published deviation stands behind its mean."""
    shape, of = layout(paper), shape_of(paper, "tables", table)
    numbers = _numbers()
    numbers = numbers.loc[numbers["table"].str.fullmatch(re.escape(f"{shape['paper']} table {table}") + "( .*)?")]
    deviating = numbers["table"].str.contains("deviation")
    deviations = numbers.loc[deviating].set_index(["model", "method", "task"])["value"].to_dict()
    cells = []
    for row in numbers.loc[~deviating].to_dict("records"):
        key = row["model"], row["method"], row["task"]
        split = re.fullmatch(of.get("split", ".*"), row["method"])
        words = row | {name: found or "E1" for name, found in (split.groupdict() if split else {}).items()}
        place = [of.get(side, default).format(**words).removeprefix(", ") for side, default in _SHAPE.items()]
        value = row["value"] + (f" ± {deviations[key]}" if key in deviations else "")
        cells.append(Cell(key[0], key[1], key[2], place[0], place[1], value, _config(shape, of, row)))
    models = ["", *shape["profiles"]]
    return tuple(sorted(cells, key=lambda cell: models.index(cell.model) if cell.model in models else -1))


@cache
def _numbers() -> pd.DataFrame:
    return published_numbers()  # six files, which a notebook of thirty tables reads once


def _config(shape: dict[str, Any], of: dict[str, Any], row: Mapping[Any, str]) -> Config | None:
    """The settings that make a published row here; None where no command does."""
    words = (shape["made"] | of.get("made", {})).get(row["method"])
    named = {"profile": "profiles", "encoder": "encoders"}
    found = {one: (shape.get(many, {}) | of.get(many, {})).get(row["model"]) for one, many in named.items()}
    found["set"] = shape.get("sets", {}).get(row["task"])
    if not words or any(f"{{{name}}}" in words and value is None for name, value in found.items()):
        return None
    return settings_of(words.format(**found))


@cache
def settings_of(words: str) -> Config:
    """The settings of a command's words behind `workbench run`; of a setting that is named twice the last.

    "base" for the method is what `workbench evaluate` keeps of an encoder as it is.
    """
    method, _, profile, *rest = shlex.split(words)
    return RECORDED[method].from_parameters(profile, 0, dict(text.split("=", 1) for text in rest[1::2]))


def on_the_world(config: Config | None, *swept: str) -> TrainingConfig | None:
    """The same changes of the method in the profile demo, `swept` ones always; None where they are not allowed."""
    if config is None or isinstance(config, BaseConfig):
        return None
    fields = type(config).model_fields
    named = [*config.changed(), *swept]
    named += [n for n in _OF_THE_PROFILE if n in fields and getattr(config, n) != fields[n].default]
    changed = {name: getattr(config, name) for name in named if name not in _OF_THE_PAPER}
    try:
        return CONFIGS[config.method].from_parameters("demo", 0, changed)
    except SettingError:
        return None


def commands(configs: Sequence[Config]) -> str:
    """The commands of these settings, each once; those that differ in the profile alone as a loop of the shell."""
    profiles: dict[tuple[str, str], dict[str, None]] = {}
    for config in configs:
        changed = config.changed()
        if isinstance(config, BaseConfig):
            changed.pop("encoder", None)
        changes = " ".join(f"--set {shlex.quote(f'{name}={_typed(value)}')}" for name, value in changed.items())
        what = f"evaluate {config.encoder}" if isinstance(config, BaseConfig) else f"run {config.method}"
        profiles.setdefault((what, changes), {})[config.profile] = None
    lines = []
    for (what, changes), names in profiles.items():
        one = f"workbench {what} --profile {next(iter(names)) if len(names) == 1 else '$p'} {changes}".rstrip()
        lines.append(one if len(names) == 1 else f"for p in {' '.join(names)}; do {one}; done")
    return "; ".join(lines)


def _typed(value: Any) -> str:
    """A value as the command line reads it, to the last digit: another one would be another run."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def missing(rows: Mapping[str, Config], runs: Runs) -> pd.DataFrame:
    """row | command, of the rows that have no run."""
    lacking = {name: commands([config]) for name, config in rows.items() if settings_key(config) not in runs}
    return pd.DataFrame({"command": lacking.values()}, index=list(lacking)).rename_axis(columns="no run yet")


def titled(table: pd.DataFrame, paper: str, kind: str, number: int | str) -> pd.DataFrame:
    """The table, with what it is of in its `attrs`."""
    table.attrs["title"] = f"{layout(paper)['paper']} {kind} {number}: {shape_of(paper, kind + 's', number)['title']}"
    return table


def published_numbers() -> pd.DataFrame:
    """table, model, method, task, value: the papers' numbers that come with the project, as printed (x 100)."""
    files = sorted(project_path("data").glob("published/*.csv"))
    read = [pd.read_csv(file, dtype=str, keep_default_na=False) for file in files]
    for file, table in zip(files, read, strict=True):
        if not set(_PUBLISHED) <= set(table.columns):
            raise ValueError(f"{file} has columns {', '.join(table.columns)}; it needs {', '.join(_PUBLISHED)}")
    return pd.concat(read, ignore_index=True).loc[:, _PUBLISHED] if read else pd.DataFrame(columns=_PUBLISHED)


def published_beside(runs: pd.DataFrame, suite: str, published: pd.DataFrame, model: str = "") -> pd.DataFrame:
    """What was measured here and what the papers print, method by method: two things, in two columns, not one.

    Args:
        runs: As `finished_runs` gives them.
        suite: Its published task stands beside it; a suite that no paper has stands beside the average of the seven.
        published: As `published_numbers` gives them.
        model: Only published rows of this model, such as "BERT-base"; "": of all.

    Returns:
        By method: name, model, data, "measured here" (Spearman or accuracy x 100, mean ± deviation over seeds),
        "published" (as printed, x 100), from. A row is either measured or published; what several tables repeat is one
        row.
    """
    known = published.loc[published["task"] == TASKS.get(suite, AVERAGE)]
    if suite in ("mrpc", "mrpc-test"):  # classified as a transfer task, or ranked: two numbers of one name
        transfer = set(published.loc[published["task"] == "MR", "table"])
        known = known.loc[known["table"].isin(transfer) == (suite == "mrpc")]
    known = known.loc[~known["table"].str.contains("deviation") & known["model"].str.startswith(model)]
    rows = []
    for method in dict.fromkeys(runs["method"]):
        for label, group in runs.loc[runs["method"] == method].groupby("label", sort=False):
            ours = {
                "name": label,
                "model": short_value(group["encoder"].iloc[0]),
                "data": suite,
                "from": f"seeds: {len(group)}",
            }
            rows.append({"method": method, **ours, "measured here": format_spread(group[measure_of(runs)].to_numpy())})
        theirs = known.loc[known["method"].map(_method_of) == method]
        for _, group in theirs.groupby(["method", "model", "value"], sort=False):
            first = group.iloc[0].to_dict()
            row = {"name": first["method"], "model": first["model"], "data": first["task"], "published": first["value"]}
            rows.append({"method": method, **row, "from": "; ".join(group["table"])})
    columns = ["method", "name", "model", "data", "measured here", "published", "from"]
    return pd.DataFrame(rows, columns=columns, dtype=object).fillna("").set_index("method")


def _method_of(published: str) -> str:
    """The method of ours that a paper's name stands for: the last in it, as in "SimCSE + RankEncoder"; "": none."""
    # Behind a comma stands what it was made with, such as its teachers.
    found = [
        name for part in published.casefold().split(",")[0].split(" + ") for name in CONFIGS if part.startswith(name)
    ]
    return found[-1] if found else ""
