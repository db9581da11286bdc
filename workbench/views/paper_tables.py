"""Tables of the papers in their own shape: what is published, and under it what finished runs measured here."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.config import SEVEN_STS
from workbench.files import set_name
from workbench.metrics import seed_spread, similar_third, spearman
from workbench.runs import Run
from workbench.views.finished import read_or_warn
from workbench.views.papers import (
    AVERAGE,
    TASKS,
    Cell,
    Config,
    Runs,
    commands,
    on_the_world,
    paper_cells,
    settings_key,
    titled,
)

TRANSFER = {"MR": "mr", "CR": "cr", "SUBJ": "subj", "MPQA": "mpqa", "SST": "sst2", "TREC": "trec", "MRPC": "mrpc"}
_ALL_TRANSFER = "transfer average"
_SUITES = {task: suite for suite, task in TASKS.items()} | {AVERAGE: "sts-average"}
_LEADS = (AVERAGE, "STS-B dev", "STS-B", _ALL_TRANSFER)
_OF_ITS_ROW = "row average"
# What a run says of its own training, from its settings and its history.
_OF_TRAINING = {
    "epochs": lambda run, history: run.config.epochs,
    "batch size": lambda run, history: run.config.batch_size,
    "minutes": lambda run, history: history["seconds"].iloc[-1] / 60,
    "minutes an epoch": lambda run, history: history["seconds"].iloc[-1] / history["epoch"].iloc[-1] / 60,
    "hours of training": lambda run, history: history["seconds"].iloc[-1] / 3600,
    "uniformity": lambda run, history: kept(history).get("dev_uniformity"),
    "alignment": lambda run, history: kept(history).get("dev_alignment"),
    "STS-B dev": lambda run, history: 100 * kept(history)["dev_spearman"] if run.config.dev == "stsb-dev" else None,
}


def paper_table(paper: str, table: int | str, runs: Runs, *, profile: str = "paper", suite: str = "") -> pd.DataFrame:
    """A table of a paper: under each row that can be made here what was measured, empty where nobody ran it.

    Args:
        paper: "rankcse", "compcse", "cosent" or "rankencoder".
        table: Its number there: 2, "III".
        runs: As `runs_by_settings` gives them.
        profile: "paper": the table itself; "demo": the same changes on the bundled world, a row each.
        suite: With "demo", what the runs were scored on.

    Returns:
        Texts, in the paper's unit (x 100, but for costs and geometry), mean ± deviation where there are several seeds;
        "command" makes what is empty, `attrs["title"]` says what it is.
        SettingError for a paper or a table that is not there.
    """
    cells = paper_cells(paper, str(table))
    found = _on_the_world(cells, runs, set_name(suite)) if profile == "demo" else _as_printed(cells, runs)
    return titled(found, paper, "table", table)


def _as_printed(cells: Sequence[Cell], runs: Runs) -> pd.DataFrame:
    """Two rows a row of the paper: published, and here."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for row in dict.fromkeys(cell.row for cell in cells):
        own = [cell for cell in cells if cell.row == row]
        lines[row, "published"] = {cell.column: cell.value for cell in own}
        made = [cell for cell in own if cell.config is not None]
        if made:
            values = {cell.column: measured(cell, cells, runs) for cell in made}
            here = {column: as_text(found) for column, found in values.items()}
            average = next((cell.column for cell in own if cell.task == _OF_ITS_ROW), None)
            if average is not None and all(values.values()):
                here[average] = f"{np.mean([np.mean(found) for found in values.values()]):.2f}"
            lacking = [_with_suites(cell, cells) for cell in made if not here[cell.column]]
            lines[row, "here"] = here | {"command": commands(lacking)}
    columns = list(dict.fromkeys(cell.column for cell in cells))
    columns = sorted(columns, key=int) if all(name.isdigit() for name in columns) else columns
    columns.append("command")
    rows = [[line.get(name, "") for name in columns] for line in lines.values()]
    return pd.DataFrame(rows, index=pd.MultiIndex.from_tuples(list(lines)), columns=columns)


def _on_the_world(cells: Sequence[Cell], runs: Runs, suite: str) -> pd.DataFrame:
    """A row a method: the published lead value | dev | the suite | KCC | NDCG | seeds | command."""
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    lead = next((task for task in _LEADS if task in tasks), tasks[-1])
    rows: dict[str, dict[str, Any]] = {}
    known = set()
    for cell in cells:
        config = on_the_world(cell.config) if cell.task == lead else None
        if config is None or (key := settings_key(config)) in known:
            continue
        known.add(key)
        own = runs.get(key, ())
        rows[cell.method] = {f"published, {lead}": cell.value, "dev": as_text([best_dev(run) for run in own])}
        titles = {"spearman": suite, "kcc": "KCC", "ndcg": "NDCG"}
        rows[cell.method] |= {title: as_text(on_suite(own, suite, name)) for name, title in titles.items()}
        rows[cell.method] |= {"seeds": len(own), "command": "" if own else commands([config])}
    return pd.DataFrame.from_dict(rows, orient="index")


def measured(cell: Cell, cells: Sequence[Cell], runs: Runs) -> list[Any]:
    """What each finished run of a cell's settings has there, in the paper's unit; `cells`: of the whole table."""
    found = (read_or_warn(run.path, lambda run: _value(run, cell, cells)) for run in cell.of(runs))
    return [value for value in found if value is not None]


def on_suite(own: Sequence[Run], suite: str, name: str = "spearman") -> list[float]:
    """A metric x 100 of each of these runs that was scored on the suite."""
    found = [(read_or_warn(run.path, Run.metrics) or {}).get(suite, {}).get(name) for run in own]
    return [100 * value for value in found if value is not None]


def _value(run: Run, cell: Cell, cells: Sequence[Cell]) -> Any:
    if cell.task.startswith("target "):
        return _target(run, cell, cells)
    if cell.task in _OF_TRAINING:
        trained = (run.path / "history.csv").is_file()
        return _OF_TRAINING[cell.task](run, run.history()) if trained else None
    if cell.task == "STS-B similar":
        scores = run.scores()
        similar = scores.loc[(scores["suite"] == "stsb-test") & similar_third(scores["gold"], (0.0, 5.0))]
        return 100 * spearman(similar["gold"].to_numpy(), similar["predicted"].to_numpy()) if len(similar) else None
    suite, name = _metric(cell, cells)
    value = run.metrics().get(suite, {}).get(name)
    return None if value is None else 100 * value


def _metric(cell: Cell, cells: Sequence[Cell]) -> tuple[str, str]:
    """(suite, name in its metrics) of a published task; MRPC is a transfer task where the others are."""
    if cell.task != AVERAGE and any(other.task == _ALL_TRANSFER for other in cells):
        return TRANSFER.get(cell.task, "transfer-average"), "accuracy"
    task, _, kind = cell.task.rpartition(" ") if cell.task.endswith((" KCC", " NDCG")) else (cell.task, "", "spearman")
    return _SUITES.get(task, task), kind.lower()


def _target(run: Run, cell: Cell, cells: Sequence[Cell]) -> float | None:
    """Score or rank of a target, whose query is found by the gold of all its targets, as printed."""
    gold = [each.value for each in cells if each.model == cell.model and each.method == "gold"]
    for _, query in run.rankings().groupby(["suite", "query_id"], sort=False):
        ordered = query.sort_values("gold", ascending=False, kind="stable")
        if [f"{value:.2f}" for value in ordered["gold"]] == gold:
            target = ordered.iloc[int(cell.task.split()[-1]) - 1]
            return float(target["rank" if cell.method.endswith(", rank") else "score"])
    return None


def _with_suites(cell: Cell, cells: Sequence[Cell]) -> Config:
    """The settings of an empty cell, with the suites that it is of where they have others."""
    config = cell.config
    assert config is not None
    suite, name = _metric(cell, cells)
    wanted = {"sts-average": list(SEVEN_STS), "STS-B similar": ["stsb-test"]}.get(suite, [])
    wanted = list(TRANSFER.values()) if name == "accuracy" else wanted
    return config if set(wanted) <= set(config.suites) else config.model_copy(update={"suites": wanted})


def kept(history: pd.DataFrame) -> Any:
    """The row of the checkpoint that was kept: the best on dev after step 0, else the last."""
    trained = history.loc[history["step"] > 0]
    best = trained["dev_spearman"].idxmax() if trained.get("dev_spearman", pd.Series(dtype=float)).notna().any() else -1
    return trained.loc[best] if best != -1 else trained.iloc[-1]


def best_dev(run: Run) -> float:
    """Spearman x 100 on dev of the checkpoint that was kept; nan where nothing was trained or measured."""
    history = read_or_warn(run.path, Run.history) if (run.path / "history.csv").is_file() else None
    return math.nan if history is None else 100 * kept(history).get("dev_spearman", math.nan)


def as_text(values: Sequence[Any]) -> str:
    """Numbers as mean ± deviation; "" of nothing."""
    known = [value for value in values if not math.isnan(value)]
    return str(seed_spread(np.array(known))) if known else ""
