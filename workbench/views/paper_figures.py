"""Figures of the papers, drawn from finished runs; without runs, the commands that make them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go

from workbench.errors import RunError, WorkbenchError
from workbench.files import set_name
from workbench.runs import Run
from workbench.views._style import COLOURS, laid_out
from workbench.views.figures import alignment_uniformity_path, cosine_by_gold, setting_sweep, training_curve
from workbench.views.finished import read_dev
from workbench.views.papers import Runs, commands, paper_table, read_shape, row_settings, settings_key

FirstRuns = Mapping[str, Run]  # row -> its run of the first seed


def paper_figure(
    paper: str, figure: int | str, runs: Runs, *, profile: str = "paper", suite: str = ""
) -> go.Figure | pd.DataFrame:
    """Return a figure of a paper from finished runs, the first seed of each; without any, a table of their commands.

    Arguments as of `paper_table`; `suite`: with "demo", whose pairs are drawn. Rows without a run are named in the
    title; `layout.meta["no run yet"]` has their commands. If the runs do not have what is drawn, the table has the
    cause. Bars have the published values too, and all seeds of the runs.
    KeyError if the figure does not exist.
    """
    shape, demo = read_shape(paper, "figure", figure), profile == "demo"
    title = f"Figure {figure}: {shape['title']}"
    if shape["kind"] == "bars":
        table = paper_table(paper, shape["table"], runs, profile=profile, suite=suite)
        return laid_out(_draw_bars(table, [] if demo else shape["columns"]), title, width=800)
    configs = row_settings(shape, demo=demo)
    of_seeds = {name: runs.get(settings_key(config), ()) for name, config in configs.items()}
    first = {name: each[0] for name, each in of_seeds.items() if each}
    missing = {name: commands([config]) for name, config in configs.items() if name not in first}
    try:
        drawn = _KINDS[shape["kind"]](first, shape, set_name(suite) if demo else shape.get("suite", ""))
    except (ValueError, WorkbenchError) as problem:  # the other figures are still drawn
        table = pd.DataFrame({"not drawn": {", ".join(first): str(problem)}})
        table = table if first else pd.DataFrame({"command": missing}).rename_axis("no run yet")
        table.attrs["title"] = f"{shape['heading']}: {shape['title']}"
        return table
    title += "; here: the bundled world" if demo else ""
    if missing:
        title += f"; no run yet: {f'{len(missing)} points' if 'setting' in shape else ', '.join(missing)}"
        drawn.layout.meta = {"no run yet": "; ".join(missing.values())}
    return laid_out(drawn, title)


def _read_histories(first: FirstRuns, column: str = "loss") -> dict[str, Any]:
    histories = {name: run.history() for name, run in first.items() if (run.path / "history.csv").is_file()}
    histories = {name: history for name, history in histories.items() if column in history}
    if not histories:
        raise RunError(f"no run has a history with {column}")
    return histories


def _draw_sweep(first: FirstRuns, shape: Mapping[str, Any], _: str) -> go.Figure:
    if not first:
        raise RunError("no run")
    points = pd.Series({tuple(name.split(" | ")): read_dev(run) for name, run in first.items()})
    table = points.unstack(0, sort=False).rename(float).sort_index().rename_axis(shape["setting"]).reset_index()
    return setting_sweep(table, shape["setting"], paper=shape.get("published"))


def _draw_bars(table: pd.DataFrame, columns: Sequence[str]) -> go.Figure:
    """Draw published values and means over seeds from these columns of a paper's table; none: those of a demo's."""
    if columns:
        bars = table[columns].rename_axis(["name", "series"]).reset_index().melt(["name", "series"], var_name="column")
        bars["name"] = bars["name"].str.removeprefix("BERT-base, ") + (" " + bars["column"] if columns[1:] else "")
    else:
        bars = table.drop(columns=["dev", "seeds", "command"]).rename_axis("name").reset_index()
        bars = bars.melt("name", var_name="series")
    bars[["x 100", "deviation"]] = bars["value"].str.partition(" ± ")[[0, 2]].apply(pd.to_numeric)
    options: Any = {"color": "series", "barmode": "group", "color_discrete_sequence": COLOURS}
    figure = px.bar(bars, x="name", y="x 100", error_y="deviation", **options)
    if missing := "; ".join(filter(None, table["command"])):
        figure.layout.meta = {"no run yet": missing}
    return figure.update_layout(xaxis={"title": "", "automargin": True}, legend_title="")


_KINDS: dict[str, Callable[[FirstRuns, Mapping[str, Any], str], go.Figure]] = {
    "sweep": _draw_sweep,
    "curve": lambda first, *_: training_curve(_read_histories(first)),
    "path": lambda first, *_: alignment_uniformity_path(_read_histories(first, "dev_alignment")),
    "cosines": lambda first, _, suite: cosine_by_gold({name: run.scores() for name, run in first.items()}, suite),
}
