"""Tables to plotly figures: pure functions, no torch, no widget."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

# Okabe and Ito's colours: told apart by readers of every colour vision.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
LAYOUT: dict[str, Any] = {
    "template": "simple_white",
    "colorway": COLOURS,
    "margin": {"l": 60, "r": 60, "t": 50, "b": 50},
    "height": 380,
    "width": 720,
}


def training_curve(histories: Mapping[str, pd.DataFrame], *, terms: bool = False) -> go.Figure:
    """Dev Spearman x 100 (left) and loss (right) against the step, a colour a model; the best checkpoint is ringed.

    histories: label -> history.csv. `terms` draws each loss term instead of their sum.
    """
    figure = go.Figure()
    for colour, (label, history) in zip(_colours(), histories.items(), strict=False):
        dev = history.reindex(columns=[*history.columns.union(["dev_spearman"])]).dropna(subset=["dev_spearman"])
        figure.add_scatter(
            x=dev["step"],
            y=100 * dev["dev_spearman"],
            name=f"{label}: dev",
            mode="lines+markers",
            line={"color": colour},
        )
        trained = dev.loc[dev["step"] > 0]
        if len(trained):
            best = trained.loc[trained["dev_spearman"].idxmax()]
            ring = {"symbol": "circle-open", "size": 16, "color": colour, "line": {"width": 2}}
            figure.add_scatter(
                x=[best["step"]], y=[100 * best["dev_spearman"]], mode="markers", marker=ring, name=f"{label}: kept"
            )
        known = {"step", "epoch", "learning_rate", "loss", "seconds"}
        named = [c for c in history.columns if c not in known and not c.startswith(("dev_", "observed_"))]
        losses = history.dropna(subset=["loss"])
        for dash, column in zip(["dot", "dash", "dashdot", "longdash"], named if terms else ["loss"], strict=False):
            line = {"color": colour, "dash": dash, "width": 1.5}
            figure.add_scatter(
                x=losses["step"], y=losses[column], name=f"{label}: {column}", mode="lines", line=line, yaxis="y2"
            )
    figure.update_layout(
        **LAYOUT,
        title="Dev Spearman and training loss",
        xaxis_title="training step",
        yaxis_title="Spearman on dev x 100",
        # Ticks of its own: plotly would put them beside those of the left axis, at crooked numbers.
        yaxis2={"title": "training loss", "overlaying": "y", "side": "right", "tickmode": "auto"},
        legend={"orientation": "h", "y": -0.25},
    )
    return figure


def alignment_uniformity_path(histories: Mapping[str, pd.DataFrame]) -> go.Figure:
    """The path of training in the plane of uniformity and alignment, both better when smaller; its ends are named."""
    figure = go.Figure()
    plane = ["dev_uniformity", "dev_alignment"]
    paths = {
        label: history.reindex(columns=[*history.columns.union([*plane, "dev_spearman"])]).dropna(subset=plane)
        for label, history in histories.items()
    }
    every = pd.concat(paths.values())[plane]
    extent = (every.max() - every.min()).replace(0, 1).to_numpy()
    named = set()
    for colour, (label, path) in zip(_colours(), paths.items(), strict=False):
        figure.add_scatter(
            x=path["dev_uniformity"],
            y=path["dev_alignment"],
            mode="lines+markers",
            name=label,
            line={"color": colour},
            customdata=path[["step", "dev_spearman"]].mul([1, 100]).round(2),
            hovertemplate="step %{customdata[0]:.0f}<br>dev Spearman %{customdata[1]}<extra></extra>",
        )
        points = path[plane].to_numpy()
        for end, beside, text_colour in ((0, 1, "black"), (-1, -2, colour)) if len(points) > 1 else ():
            if (tuple(points[end]), text_colour) in named:
                continue  # several models begin at one point
            named.add((tuple(points[end]), text_colour))
            away = (points[end] - points[beside]) / extent  # where the path does not go
            right, up = away / max(np.hypot(*away), 1e-9)
            figure.add_annotation(
                x=points[end, 0],
                y=points[end, 1],
                ax=30 * right,
                ay=-30 * up,
                text=f"step {path['step'].iloc[end]:.0f}",
                font={"color": text_colour},
                arrowhead=0,
                arrowcolor="#888888",
                bgcolor="rgba(255,255,255,0.8)",
            )
    figure.update_layout(
        **LAYOUT,
        title="Alignment and uniformity on dev (left and down is better)",
        xaxis_title="uniformity (log of a mean; smaller: more spread out)",
        yaxis_title="alignment (mean squared distance)",
        showlegend=len(paths) > 1,
    )
    if len(every):
        room = 0.18 * extent  # for the names of the ends
        low, high = every.min() - room, every.max() + room
        figure.update_xaxes(range=[low["dev_uniformity"], high["dev_uniformity"]])
        figure.update_yaxes(range=[low["dev_alignment"], high["dev_alignment"]])
    return figure


def cosine_by_gold(
    scores: Mapping[str, pd.DataFrame], suite: str, *, bands: int = 5, score: str = "cosine"
) -> go.Figure:
    """The distribution of what is predicted in equal bands of gold, a colour a model (as SimCSE figure G.1).

    scores: label -> scores.csv. `score`: what is predicted, in a word. Well-ordered scores climb from band to band
    without overlap. Bands begin and end at whole numbers of gold. The line inside a shape is its mean.
    """
    figure = go.Figure()
    rows = {label: table[table["suite"] == suite] for label, table in scores.items()}
    for label, part in rows.items():
        if part.empty:
            known = ", ".join(scores[label]["suite"].unique())
            raise ValueError(f"no scores of {suite!r} under {label!r}; there are: {known}")
    gold = pd.concat(rows.values())["gold"]
    edges = np.linspace(np.floor(gold.min()), np.ceil(gold.max()), bands + 1)
    names = [f"{edges[i]:.3g} to {edges[i + 1]:.3g}" for i in range(bands)]
    for colour, (label, part) in zip(_colours(), rows.items(), strict=False):
        place = np.clip(np.digitize(part["gold"], edges[1:-1]), 0, bands - 1)
        figure.add_violin(
            x=[names[i] for i in place],
            y=part["predicted"],
            name=label,
            line={"color": colour, "width": 1},
            meanline={"visible": True},
            points=False,
            spanmode="hard",
            scalegroup=label,
        )
    figure.update_xaxes(categoryorder="array", categoryarray=names)
    title = f"{score.capitalize()} by band of gold, {suite}"
    figure.update_layout(
        **LAYOUT, title=title, xaxis_title="gold score", yaxis_title=f"{score} of the pair", violinmode="group"
    )
    return figure


def cosine_maps(maps: Mapping[str, np.ndarray], names: Sequence[str]) -> go.Figure:
    """Cosines of n texts with each other, a map a model, all on one colour scale; lighter: closer (CompCSE figure 4).

    maps: label -> [n, n] cosines. names: of the texts; the columns have the letters that stand before them.
    """
    letters = [chr(ord("A") + place) for place in range(len(names))]
    figure = make_subplots(cols=len(maps), subplot_titles=list(maps), shared_yaxes=True, horizontal_spacing=0.03)
    for column, values in enumerate(maps.values(), start=1):
        rows = [f"{letter}: {name}" for letter, name in zip(letters, names, strict=True)]
        cells = {"z": np.asarray(values), "x": letters, "y": rows, "texttemplate": "%{z:.2f}", "coloraxis": "coloraxis"}
        figure.add_heatmap(**cells, hovertemplate="%{y} - %{x}: %{z:.3f}<extra></extra>", row=1, col=column)
    lowest = min(0.0, *(float(np.min(values)) for values in maps.values()))
    scale = {"colorscale": "Viridis", "cmin": lowest, "cmax": 1, "colorbar": {"title": "cosine"}}
    size = {"width": 150 + 240 * len(maps), "height": 380, "margin": {"l": 60, "r": 60, "t": 80, "b": 50}}
    figure.update_layout(**{**LAYOUT, **size}, coloraxis=scale, title="Cosine of each text with each other")
    figure.update_yaxes(autorange="reversed")
    return figure


def setting_sweep(
    table: pd.DataFrame, setting: str, *, label: str | None = None, paper: float | None = None
) -> go.Figure:
    """Spearman on dev x 100 against a setting, a line a column of `table` (as CoSENT figure 4).

    table: a row a value of `setting`; every other column holds a Spearman in [-1, 1]. `label`: of the axis. `paper`:
    the paper's value, marked where the table has it. Numbers are drawn in their order at equal distances, because
    sweeps are rarely of equal steps.
    """
    if setting not in table.columns:
        raise ValueError(f"the table has no column {setting!r}; its columns are {', '.join(map(str, table.columns))}")
    figure = go.Figure()
    values = [f"{value:g}" if isinstance(value, int | float) else str(value) for value in table[setting]]
    for colour, name in zip(_colours(), (c for c in table.columns if c != setting), strict=False):
        figure.add_scatter(x=values, y=100 * table[name], name=str(name), mode="lines+markers", line={"color": colour})
    if paper is not None and f"{paper:g}" in values:
        line = {"dash": "dot", "color": "#666666", "width": 1.5}
        figure.add_vline(values.index(f"{paper:g}"), line=line, annotation_text="the paper's")
    title = f"Spearman on dev by {label or setting}"
    figure.update_layout(
        **LAYOUT, title=title, xaxis_title=label or setting, yaxis_title="Spearman on dev x 100", xaxis_type="category"
    )
    return figure


def _colours() -> list[str]:
    return COLOURS * 4
