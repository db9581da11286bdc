"""Tables of the papers in their own shape: the published values, and below them those of finished runs."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from workbench.files import set_name
from workbench.metrics import seed_spread, similar_third, spearman
from workbench.runs import Run
from workbench.views.finished import read_or_warn
from workbench.views.papers import Runs, commands, demo_config, parse_command, published_table, read_shape, settings_key
from workbench.views.response import best_dev

_LEADS = ("average", "STS-B dev", "STS-B", "transfer average")  # the first that a table has is shown with "demo"


def paper_table(paper: str, table: int | str, runs: Runs, *, profile: str = "paper", suite: str = "") -> pd.DataFrame:
    """Return a table of a paper: below each row that has a command the values measured here, empty without a run.

    Args:
        paper: "rankcse", "compcse", "cosent" or "rankencoder".
        table: Its number there: 2, "III".
        runs: As `runs_by_settings` returns them.
        profile: "paper": the table itself; "demo": the same changes on the bundled world, one row each.
        suite: With "demo", what the runs were scored on.

    Returns:
        Texts, in the paper's unit (x 100, except geometry), mean ± deviation over seeds; "command" fills what is empty;
        `attrs["title"]`. SettingError if the paper or the table does not exist.
    """
    shape, values = read_shape(paper, "table", table), published_table(paper, str(table))
    rows = _demo_rows(values, runs, set_name(suite)) if profile == "demo" else _paper_rows(values, runs)
    rows.attrs["title"] = f"{shape['heading']}: {shape['title']}"
    return rows


def _paper_rows(values: pd.DataFrame, runs: Runs) -> pd.DataFrame:
    """Return two rows for each row of the paper: published, and here."""
    lines: dict[Any, dict[str, str]] = {}
    for row, of_row in values.groupby("row", sort=False):
        lines[row, "published"] = dict(zip(of_row["column"], of_row["value"], strict=True))
        is_average = of_row["task"] == "row average"
        reproduced: list[Any] = list(of_row[(of_row["command"] != "") & ~is_average].itertuples())
        if reproduced:
            here = {value.column: _measure(value, runs) for value in reproduced}
            empty = [parse_command(value.command) for value in reproduced if not here[value.column]]
            if not empty:
                here |= {name: [np.mean([*map(np.mean, here.values())])] for name in of_row.loc[is_average, "column"]}
            lines[row, "here"] = {name: _as_text(numbers) for name, numbers in here.items()}
            lines[row, "here"]["command"] = commands(empty)
    columns = list(dict.fromkeys(values["column"]))
    columns = sorted(columns, key=int) if all(name.isdigit() for name in columns) else columns
    table = pd.DataFrame(lines.values(), index=pd.MultiIndex.from_tuples(list(lines)), columns=[*columns, "command"])
    return table.astype(object).fillna("")


def _demo_rows(values: pd.DataFrame, runs: Runs, suite: str) -> pd.DataFrame:
    """Return a row for each method: its published lead value | dev | the suite | KCC | NDCG | seeds | command."""
    lead = next((task for task in _LEADS if task in set(values["task"])), values["task"].iloc[-1])
    rows, keys = {}, set()
    leads: Any = values[(values["task"] == lead) & (values["command"] != "")]
    for value in leads.itertuples():
        config = demo_config(parse_command(value.command))
        if config is None or settings_key(config) in keys:
            continue
        keys.add(settings_key(config))
        of_seeds = runs.get(settings_key(config), ())
        metrics = [(read_or_warn(run.path, Run.metrics) or {}).get(suite, {}) for run in of_seeds]
        scores = {"dev": [read_or_warn(run.path, best_dev) for run in of_seeds]}
        for title, name in {suite: "spearman", "KCC": "kcc", "NDCG": "ndcg"}.items():
            scores[title] = [one.get(name) for one in metrics]
        texts = {title: _as_text(100 * pd.Series(numbers, dtype=float)) for title, numbers in scores.items()}
        command = "" if of_seeds else commands([config])
        rows[value.method] = {f"published, {lead}": value.value, **texts, "seeds": len(of_seeds), "command": command}
    return pd.DataFrame.from_dict(rows, orient="index")


def _measure(value: Any, runs: Runs) -> list[float]:
    """Return what each finished run has for a published value, in the paper's unit."""
    of_seeds = runs.get(settings_key(parse_command(value.command)), ()) if runs else ()
    numbers = (read_or_warn(run.path, lambda run: _measure_run(run, value)) for run in of_seeds)
    return [number for number in numbers if number is not None]


def _measure_run(run: Run, value: Any) -> float | None:
    number = None
    if value.suite:
        number = run.metrics().get(value.suite, {}).get(value.metric)
    elif value.task == "STS-B similar":
        scores = run.scores()
        similar = scores.loc[(scores["suite"] == "stsb-test") & similar_third(scores["gold"], (0.0, 5.0))]
        number = spearman(similar["gold"], similar["predicted"]) if len(similar) else None
    elif (run.path / "history.csv").is_file():
        best = kept_checkpoint(run.history())
        if value.task in ("uniformity", "alignment"):
            return best.get(f"dev_{value.task}")
        if value.task == "STS-B dev" and run.config.model_dump()["dev"] == "stsb-dev":
            number = best["dev_spearman"]
    return None if number is None else 100 * number


def kept_checkpoint(history: pd.DataFrame) -> Any:
    """Return the row of the checkpoint that was kept: the best on dev after step 0, otherwise the last."""
    trained = history.loc[history["step"] > 0]
    if trained.get("dev_spearman", pd.Series(dtype=float)).isna().all():
        return trained.iloc[-1]
    return trained.loc[trained["dev_spearman"].idxmax()]


def _as_text(values: Iterable[float]) -> str:
    """Return the numbers as mean ± deviation; "" if there are none."""
    numbers = pd.Series(values, dtype=float).dropna()
    return str(seed_spread(numbers)) if len(numbers) else ""
