"""Figures of tables, by plotly: pure functions without torch or widgets."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go

from workbench.files import set_name
from workbench.views._style import COLOURS, GREY, coloured, laid_out, nothing_yet, plain, tick_names
from workbench.views.pairs import gold_bands

_NO_TERM = {"step", "epoch", "learning_rate", "loss", "seconds"}  # columns of a history besides its loss terms


def training_curve(histories: Mapping[str, pd.DataFrame], *, terms: bool = False) -> go.Figure:
    """Draw dev Spearman x 100 (left) and loss (right) by step; the best checkpoint is ringed.

    Args:
        histories: label -> history.csv; each label has a colour.
        terms: Draw each loss term instead of their sum.
    """
    figure = go.Figure()
    for colour, (label, table) in coloured(histories.items()):
        name, line = plain(label), {"color": colour}
        history = table.reindex(columns=[*dict.fromkeys([*table, "dev_spearman", "loss"])])
        dev, losses = history.dropna(subset=["dev_spearman"]), history.dropna(subset=["loss"])
        curve = {"x": dev["step"], "y": 100 * dev["dev_spearman"], "line": line}
        figure.add_scatter(**curve, name=f"{name}: dev", mode="lines+markers")
        best = dev.loc[dev["step"] > 0].nlargest(1, "dev_spearman")
        ring = {"symbol": "circle-open", "size": 16, "color": colour, "line": {"width": 2}}
        if len(best):
            at = {"x": best["step"], "y": 100 * best["dev_spearman"], "marker": ring}
            figure.add_scatter(**at, name=f"{name}: kept", mode="markers")
        named = [c for c in history.columns if c not in _NO_TERM and not c.startswith(("dev_", "observed_"))]
        for dash, column in zip(["dot", "dash", "dashdot", "longdash"], (terms and named) or ["loss"], strict=False):
            term = "loss" if column == label else column  # the only term of a method may have the method's name
            style = {"mode": "lines", "line": {**line, "dash": dash, "width": 1.5}, "yaxis": "y2"}
            figure.add_scatter(x=losses["step"], y=losses[column], name=f"{name}: {term}", **style)
    # Ticks of the right axis are its own: plotly would align them with the left ones, at crooked numbers.
    right = {"title": "training loss", "overlaying": "y", "side": "right", "tickmode": "auto"}
    axes = {"xaxis_title": "training step", "yaxis_title": "Spearman on dev x 100", "yaxis2": right}
    return laid_out(figure, "Dev Spearman and training loss", legend={"orientation": "h", "y": -0.25}, **axes)


def alignment_uniformity_path(histories: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Draw the path of each training in the plane of uniformity and alignment, both better if smaller.

    histories: label -> history.csv. The steps at the ends are named.
    """
    figure = go.Figure()
    for colour, (label, history) in coloured(histories.items()):
        path = history.reindex(columns=["step", "dev_uniformity", "dev_alignment"]).dropna()
        steps = path["step"].map("step {:.0f}".format)
        figure.add_scatter(
            x=path["dev_uniformity"],
            y=path["dev_alignment"],
            text=steps.where(path["step"].isin([path["step"].min(), path["step"].max()]), ""),
            textposition="top center",
            textfont={"color": GREY},
            mode="lines+markers+text",
            cliponaxis=False,
            name=plain(label),
            line={"color": colour},
            hovertext=steps,
        )
    figure.update_xaxes(title="uniformity (log of a mean; smaller: more spread out)")
    figure.update_yaxes(title="alignment (mean squared distance)")
    title = "Alignment and uniformity on dev (left and down is better)"
    return laid_out(figure, title, showlegend=len(histories) > 1)


def cosine_by_gold(
    scores: Mapping[str, pd.DataFrame], suite: str, *, bands: int = 5, score: str = "cosine"
) -> go.Figure:
    """Draw the distribution of the scores in equal bands of gold (as SimCSE figure G.1); a line is a mean.

    Well-ordered scores climb from band to band without overlap. Bands begin and end at whole numbers of gold.

    Args:
        scores: label -> scores.csv; each label has a colour.
        suite: Whose pairs.
        bands: Number of bands.
        score: What the scores are, in a word.

    Raises:
        ValueError: A label has no scores of the suite.
    """
    table = pd.concat({plain(label): rows for label, rows in scores.items()}, names=["label"]).reset_index()
    rows = table.loc[table["suite"] == set_name(suite)]
    if missing := [label for label in scores if plain(label) not in set(rows["label"])]:
        known = ", ".join(table["suite"].unique())
        raise ValueError(f"no scores of {suite!r} under {', '.join(missing)}; there are: {known}")
    gold = rows["gold"].to_numpy(dtype=float)
    names, places = gold_bands(gold, gold, bands)
    rows = rows.assign(band=[names[place] for place in places])
    style = {"category_orders": {"band": names}, "color_discrete_sequence": COLOURS, "points": False}
    figure = px.violin(rows, x="band", y="predicted", color="label", violinmode="group", **style)
    figure.update_traces(meanline_visible=True, spanmode="hard", line_width=1)
    axes = {"xaxis_title": "gold score", "yaxis_title": f"{score} of the pair", "legend_title": ""}
    return laid_out(figure, f"{score.capitalize()} by band of gold, {suite}", **axes)


def setting_sweep(
    table: pd.DataFrame, setting: str, *, label: str | None = None, paper: float | None = None
) -> go.Figure:
    """Draw Spearman on dev x 100 by a setting, a line for each column of `table` (as CoSENT figure 4).

    Args:
        table: A row for each value of `setting`; every other column has a Spearman in [-1, 1]. Values are at equal
            distances: sweeps rarely have equal steps.
        setting: A column.
        label: Of the axis.
        paper: The paper's value, which is marked if the table has it.
    """
    values = [f"{value:g}" if isinstance(value, int | float) else plain(value) for value in table[setting]]
    curves = 100 * table.drop(columns=setting).rename(columns=plain).set_axis(values)
    figure = px.line(curves, markers=True, color_discrete_sequence=COLOURS)
    if paper is not None and f"{paper:g}" in values:
        line = {"dash": "dot", "color": GREY, "width": 1.5}
        figure.add_vline(values.index(f"{paper:g}"), line=line, annotation_text="the paper's")
    figure.update_xaxes(title=plain(label or setting), type="category")
    title = f"Spearman on dev by {label or setting}"
    return laid_out(figure, title, yaxis_title="Spearman on dev x 100", legend_title="")


def score_intervals(intervals: pd.DataFrame, suite: str) -> go.Figure:
    """Draw the score of each run with its interval over pairs, x 100; a label has a colour.

    The table is as `intervals` of this package returns it: label, seed, value, low, high.
    """
    rows = [f"{label}, seed {seed}" for label, seed in zip(intervals["label"], intervals["seed"], strict=True)]
    return _draw_dots(
        intervals.assign(row=rows), f"Spearman on {suite}: a dot for each seed, its 95% interval over pairs"
    )


def part_scores(parts: pd.DataFrame) -> go.Figure:
    """Draw Spearman x 100 on every suite and subset: means over seeds ± one standard deviation; a label has a colour.

    The table is as `suite_scores` returns it: label, part, mean, std (nan for one seed).
    """
    ends = {"low": parts["mean"] - parts["std"], "high": parts["mean"] + parts["std"]}
    table = parts.rename(columns={"mean": "value", "part": "row"}).assign(**ends)
    return _draw_dots(table, "Spearman by suite and subset, mean over seeds ± one standard deviation")


def _draw_dots(table: pd.DataFrame, title: str) -> go.Figure:
    """Draw value x 100 from low to high by row, the first at the top, the dots of several labels next to each other."""
    if table.empty:
        return nothing_yet()
    rows = list(dict.fromkeys(table["row"]))
    names = dict(zip(rows, tick_names(rows, 24), strict=True))
    numbers = 100 * table[["value", "low", "high"]]
    shown = pd.DataFrame(
        {"row": table["row"].map(names), "label": tick_names(table["label"], 24), "x": numbers["value"]}
    )
    shown["above"], shown["below"] = numbers["high"] - shown["x"], shown["x"] - numbers["low"]
    style: Any = {"category_orders": {"row": [*names.values()]}, "color_discrete_sequence": COLOURS}
    figure = px.scatter(shown, x="x", y="row", color="label", error_x="above", error_x_minus="below", **style)
    figure.update_traces(orientation="h", marker_size=8, hovertemplate="%{y}: %{x:.2f}<extra></extra>")
    height = 140 + len(rows) * (15 + 20 * shown["label"].nunique() if shown["row"].duplicated().any() else 35)
    layout = {"scattermode": "group", "legend_title": "", "showlegend": bool(shown["row"].duplicated().any())}
    layout |= {"xaxis_title": "Spearman x 100", "yaxis_title": "", "yaxis_automargin": True}
    return laid_out(figure, title, width=800, height=height, **layout)
