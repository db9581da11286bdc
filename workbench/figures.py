"""Tables to plotly figures: pure functions, no torch, no widget."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

# Okabe and Ito's colours: told apart by readers of every colour vision.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
_LAYOUT: dict[str, Any] = {
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
        trained = dev[dev["step"] > 0]
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
            line = {"color": colour, "dash": dash, "width": 1}
            figure.add_scatter(
                x=losses["step"], y=losses[column], name=f"{label}: {column}", mode="lines", line=line, yaxis="y2"
            )
    figure.update_layout(
        **_LAYOUT,
        title="Dev Spearman and training loss",
        xaxis_title="step",
        yaxis_title="Spearman on dev x 100",
        yaxis2={"title": "loss", "overlaying": "y", "side": "right", "showgrid": False},
        legend={"orientation": "h", "y": -0.2},
    )
    return figure


def alignment_uniformity_path(histories: Mapping[str, pd.DataFrame]) -> go.Figure:
    """The path of training in the plane of uniformity and alignment, both better when smaller; labels are steps."""
    figure = go.Figure()
    for colour, (label, history) in zip(_colours(), histories.items(), strict=False):
        needed = ["dev_alignment", "dev_uniformity", "dev_spearman"]
        path = history.reindex(columns=[*history.columns.union(needed)]).dropna(subset=needed[:2])
        steps = path["step"].astype(int).astype(str)
        first_and_last = steps.where((path["step"] == path["step"].min()) | (path["step"] == path["step"].max()), "")
        figure.add_scatter(
            x=path["dev_uniformity"],
            y=path["dev_alignment"],
            mode="lines+markers+text",
            text=("step " + first_and_last).where(first_and_last != "", ""),
            textposition="top center",
            name=label,
            line={"color": colour},
            customdata=np.stack([steps, (100 * path["dev_spearman"]).round(2)], axis=-1) if len(path) else None,
            hovertemplate="step %{customdata[0]}<br>dev Spearman %{customdata[1]}<extra></extra>",
        )
    figure.update_layout(
        **_LAYOUT,
        title="Alignment and uniformity on dev (left and down is better)",
        xaxis_title="uniformity",
        yaxis_title="alignment",
    )
    return figure


def cosine_by_gold(scores: Mapping[str, pd.DataFrame], suite: str, *, bands: int = 5) -> go.Figure:
    """The distribution of predicted cosine in equal bands of gold, a colour a model (as SimCSE figure G.1).

    scores: label -> scores.csv. Well-ordered scores climb from band to band without overlap.
    """
    figure = go.Figure()
    for colour, (label, table) in zip(_colours(), scores.items(), strict=False):
        rows = table[table["suite"] == suite]
        if rows.empty:
            raise ValueError(f"no scores of {suite!r} under {label!r}; there are: {', '.join(table['suite'].unique())}")
        edges = np.linspace(rows["gold"].min(), rows["gold"].max(), bands + 1)
        place = np.clip(np.digitize(rows["gold"], edges[1:-1]), 0, bands - 1)
        names = [f"{edges[i]:.3g} to {edges[i + 1]:.3g}" for i in range(bands)]
        figure.add_violin(
            x=[names[i] for i in place],
            y=rows["predicted"],
            name=label,
            line={"color": colour, "width": 1},
            meanline={"visible": True},
            points=False,
            spanmode="hard",
            scalegroup=label,
        )
        figure.update_xaxes(categoryorder="array", categoryarray=names)
    figure.update_layout(
        **_LAYOUT, title=f"Cosine by gold band, {suite}", xaxis_title="gold", yaxis_title="cosine", violinmode="group"
    )
    return figure


def setting_sweep(table: pd.DataFrame, setting: str, *, label: str | None = None) -> go.Figure:
    """Spearman x 100 against a setting, a line a column of `table` (as CoSENT figure 4).

    table: a row a value of `setting`; every other column holds a Spearman in [-1, 1]. `label`: of the axis.
    Numbers are drawn in their order at equal distances, because sweeps are rarely of equal steps.
    """
    if setting not in table.columns:
        raise ValueError(f"the table has no column {setting!r}; its columns are {', '.join(map(str, table.columns))}")
    figure = go.Figure()
    for colour, name in zip(_colours(), (c for c in table.columns if c != setting), strict=False):
        figure.add_scatter(
            x=table[setting].astype(str),
            y=100 * table[name],
            name=str(name),
            mode="lines+markers",
            line={"color": colour},
        )
    figure.update_layout(
        **_LAYOUT, title=f"Spearman by {label or setting}", xaxis_title=label or setting, yaxis_title="Spearman x 100"
    )
    figure.update_xaxes(type="category")
    return figure


def _colours() -> list[str]:
    return COLOURS * 4
