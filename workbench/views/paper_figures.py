"""Figures of the papers, drawn from finished runs; where none has been made, the commands that make them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.config import SEVEN_STS
from workbench.errors import WorkbenchError
from workbench.files import set_name
from workbench.metrics import seed_spread
from workbench.runs import Run
from workbench.views._style import GREY, WIDEST, coloured, laid_out, log_axis, plain, wrapped
from workbench.views.figures import (
    alignment_uniformity_path,
    cosine_by_gold,
    setting_sweep,
    training_curve,
)
from workbench.views.paper_tables import best_dev, kept, measured, on_suite
from workbench.views.papers import (
    Config,
    Runs,
    commands,
    missing,
    on_the_world,
    paper_cells,
    settings_key,
    settings_of,
    shape_of,
    titled,
)

Firsts = dict[str, Run]  # row -> its run of the first seed


def paper_figure(
    paper: str, figure: int | str, runs: Runs, *, profile: str = "paper", suite: str = ""
) -> go.Figure | pd.DataFrame:
    """A figure of a paper from finished runs, the first seed of each; a table of commands where there is none.

    Arguments as of `paper_table`; `suite`: with "demo", whose pairs are drawn. Rows without a run are left out and
    named in the title; `layout.meta["no run yet"]` has their commands. A run that cannot be read gives a table of the
    cause. Bars have the published values too, and of runs all seeds. SettingError for a figure that is not there.
    """
    of, suite = shape_of(paper, "figures", figure), set_name(suite)
    if of["kind"] == "bars":
        said = f"Figure {figure}: {of['title']}"
        return laid_out(_bars(of, runs, profile=profile, suite=suite), said, width=800)
    rows = {name: settings_of(words) for name, words in _rows(of).items()}
    if profile == "demo":
        rows = _on_the_world(rows, [of["setting"]] if "setting" in of else [])
    found = {name: runs[settings_key(config)][0] for name, config in rows.items() if settings_key(config) in runs}
    suite = suite if profile == "demo" else of.get("suite", "")
    try:
        drawn = _KINDS[of["kind"]](found, of, rows, suite) if found else None
    except WorkbenchError as problem:  # the other figures stand
        cause = pd.DataFrame({"not drawn": [str(problem)]}, index=[", ".join(found)])
        return titled(cause, paper, "figure", figure)
    if drawn is None:
        return titled(missing(rows, {}), paper, "figure", figure)
    lacking = {name: config for name, config in rows.items() if name not in found}
    said = f"Figure {figure}: {of['title']}" + ("; here: the bundled world" if profile == "demo" else "")
    said += f"; no run yet: {', '.join(lacking)}" if lacking and of["kind"] != "sweep" else ""
    drawn.layout.meta = {"no run yet": commands(list(lacking.values()))} if lacking else None
    width = drawn.layout.width or (WIDEST + 1 if drawn.layout.autosize else 720)
    return laid_out(drawn, said, width=width, height=drawn.layout.height or 380)


def _on_the_world(rows: Mapping[str, Config], swept: Sequence[str]) -> dict[str, Config]:
    """Each row's changes in the profile demo, once: backbones and sets of the papers are one there, and named so."""
    known = {name: on_the_world(config, *swept) for name, config in rows.items()}
    same: dict[str, list[str]] = {}
    for name, config in known.items():
        if config is not None:
            same.setdefault(settings_key(config), []).append(name)
    found = {}
    for names in same.values():
        _, bar, value = names[0].partition(" | ")
        found[f"bundled world{bar}{value}" if len(names) > 1 else names[0]] = known[names[0]]
    return found


def _rows(of: Mapping[str, Any]) -> dict[str, str]:
    """row -> words of its command; of a sweep one for each value."""
    if of["kind"] != "sweep":
        return of["rows"]
    return {
        f"{name} | {value}": f"{words} --set {of['setting']}={value}"
        for name, words in of["rows"].items()
        for value in of["values"]
    }


def _bars(of: Mapping[str, Any], runs: Runs, *, profile: str, suite: str) -> go.Figure:
    """Published values, and beside them the means over seeds with their deviation."""
    paper, _, table = of["of"].partition(" table ")
    cells = [cell for cell in paper_cells(paper.lower(), table) if cell.task in of["tasks"]]
    if profile != "paper":
        cells = [replace(cell, config=on_the_world(cell.config)) for cell in cells]
    room = 84 // max(len(cells), 1)  # characters that stand below a bar without a turn; turned names stay whole
    room = room if room >= 12 else 99
    names = [wrapped(f"{cell.method} {cell.task if len(of['tasks']) > 1 else ''}", room) for cell in cells]
    printed = [cell.value.split(" ± ") for cell in cells]
    figure = go.Figure()
    deviations = [float(value[1]) if len(value) > 1 else 0.0 for value in printed]
    figure.add_bar(x=names, y=[float(value[0]) for value in printed], error_y={"array": deviations}, name="published")
    here = [measured(cell, cells, runs) if profile == "paper" else on_suite(cell.of(runs), suite) for cell in cells]
    spreads = [seed_spread(values) if values else None for values in here]
    means = [spread.mean if spread else None for spread in spreads]
    errors = [spread.std if spread and spread.n > 1 else 0.0 for spread in spreads]
    figure.add_bar(x=names, y=means, error_y={"array": errors}, name="measured here" if profile == "paper" else suite)
    lacking = [cell.config for cell, values in zip(cells, here, strict=True) if cell.config is not None and not values]
    if lacking:
        figure.layout.meta = {"no run yet": commands(lacking)}
    return figure.update_layout(yaxis_title="x 100", barmode="group", xaxis_automargin=True)


def _sweep(found: Firsts, of: Mapping[str, Any], rows: Mapping[str, Config], _: str) -> go.Figure:
    points: dict[str, dict[float, float]] = {}
    for name, run in found.items():
        line, value = name.split(" | ")
        points.setdefault(line, {})[float(value)] = best_dev(run) / 100
    table = pd.DataFrame(points).rename_axis(of["setting"]).sort_index().reset_index()
    lacking = len(rows) - len(found)
    label = f"{of['setting']}; {lacking} points have no run yet" if lacking else of["setting"]
    return setting_sweep(table, of["setting"], label=label, paper=of.get("paper"))


def _curves(found: Firsts, *_: Any) -> go.Figure | None:
    histories = _histories(found)
    return training_curve(histories) if histories else None


def _paths(found: Firsts, *_: Any) -> go.Figure | None:
    histories = {name: table for name, table in _histories(found).items() if "dev_alignment" in table}
    return alignment_uniformity_path(histories) if histories else None


def _plane(found: Firsts, of: Mapping[str, Any], rows: Any, suite: str) -> go.Figure | None:
    """A dot a kept encoder in the plane of uniformity and alignment, its colour the Spearman of the runs' suite."""
    points = {name: kept(table) for name, table in _histories(found).items() if "dev_alignment" in table}
    values = [found[name].metrics().get(suite or "sts-average", {}).get("spearman") for name in points]
    colours = [
        best_dev(found[name]) if value is None else 100 * value for name, value in zip(points, values, strict=True)
    ]
    across = [row["dev_uniformity"] for row in points.values()]
    figure = go.Figure()
    figure.add_scatter(
        x=across,
        y=[row["dev_alignment"] for row in points.values()],
        text=[plain(name) for name in points],
        mode="markers+text",
        textposition=["top right" if x < sum(across) / len(across) else "top left" for x in across],  # not on the axis
        cliponaxis=False,
        marker={
            "size": 14,
            "color": colours,
            "colorscale": "Viridis",
            "colorbar": {"title": "Spearman<br>x 100"},
            "line": {"color": GREY, "width": 1},
        },
    )
    figure.update_layout(xaxis_title="uniformity (smaller is better)", yaxis_title="alignment (smaller is better)")
    return figure if points else None


def _cosines(found: Firsts, of: Any, rows: Any, suite: str) -> go.Figure | None:
    tables = {name: run.scores() for name, run in found.items()}
    tables = {name: table for name, table in tables.items() if suite in set(table["suite"])}
    return cosine_by_gold(tables, suite) if tables else None


def _losses(found: Firsts, *_: Any) -> go.Figure | None:
    """l_cl of every run, and the weighted rank loss where there is one, on a log scale."""
    figure = go.Figure()
    for colour, (name, history) in coloured(_histories(found).items()):
        curves = {"l_cl": history.get("observed_info_nce", history["loss"])}
        if "observed_rank_mse" in history:
            curves["lambda l_r"] = found[name].config.model_dump()["rank_weight"] * history["observed_rank_mse"]
        for dash, (what, values) in zip(("solid", "dash"), curves.items(), strict=False):
            line = {"dash": dash, "color": colour}
            figure.add_scatter(x=history["step"], y=values.where(values > 0), name=f"{plain(name)}: {what}", line=line)
    return figure.update_layout(xaxis_title="training step", yaxis=log_axis("loss (log scale)"), showlegend=True)


def _gold(found: Firsts, of: Any, rows: Any, suite: str) -> go.Figure | None:
    """The distribution of gold, at 0 to 1, of each set that the first run was scored on."""
    scores = next(iter(found.values())).scores()
    figure = go.Figure()
    for name in [suite] if suite else SEVEN_STS:
        gold = scores.loc[scores["suite"] == name, "gold"]
        if len(gold):
            scaled = (gold - gold.min()) / (gold.max() - gold.min() or 1)
            figure.add_violin(
                x=scaled, name=plain(name), orientation="h", side="positive", width=1.6, points=False, spanmode="hard"
            )
    return figure.update_layout(xaxis_title="gold, at 0 to 1", showlegend=False) if figure.data else None


def _histories(found: Firsts) -> dict[str, pd.DataFrame]:
    return {name: run.history() for name, run in found.items() if (run.path / "history.csv").is_file()}


_KINDS = {
    "sweep": _sweep,
    "curve": _curves,
    "path": _paths,
    "plane": _plane,
    "cosines": _cosines,
    "losses": _losses,
    "gold": _gold,
}
