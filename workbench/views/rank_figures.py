"""Figures of RankEncoder: its losses, neighbours, and the closed form of its ranks."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.metrics import spearman
from workbench.views._style import COLOURS, GREY, laid_out, log_axis, tick_names

_BELOW = {"orientation": "h", "y": -0.25}


def two_losses(history: pd.DataFrame, weight: float) -> go.Figure:
    """Draw l_cl and lambda l_r by step on a log scale: under the maximum only the upper one is minimised.

    Args:
        history: history.csv of a RankEncoder run, otherwise ValueError.
        weight: Its lambda. If it is not the paper's 0.05, the curve for 0.05 is added.
    """
    if missing := [name for name in ("observed_info_nce", "observed_rank_mse") if name not in history]:
        raise ValueError(f"the history has no column {missing[0]}; give that of a RankEncoder run")
    weighted = history["observed_rank_mse"]
    curves = {"contrastive loss": history["observed_info_nce"], f"{weight:g} x rank loss": weighted}
    if weight not in (0, 0.05):
        curves["0.05 x rank loss, the paper's weight"] = weighted * 0.05 / weight
    figure = go.Figure()
    for dash, (name, values) in zip(("solid", "solid", "dash"), curves.items(), strict=False):
        drawn = values > 0  # a log scale has no 0: no pair was kept
        figure.add_scatter(x=history["step"][drawn], y=values[drawn], name=name, mode="lines", line={"dash": dash})
    axes = {"xaxis_title": "training step", "yaxis": log_axis("loss (log scale)")}
    return laid_out(figure, "The two losses apart", height=400, legend=_BELOW, **axes)


def neighbour_bins(pairs: pd.DataFrame, *, bins: int = 6) -> pd.DataFrame:
    """Return bin, shared, gain, pairs, by bins of cosine that hold equally many pairs.

    shared is the mean number of neighbours shared, gain the Spearman of ranks less that of the cosine, x 100; it is nan
    if gold or a score is constant in the bin.

    Args:
        pairs: cosine, ranked (the rank similarity), shared and gold of each pair.
        bins: Number of bins.
    """
    edges = np.unique(np.quantile(pairs["cosine"], np.linspace(0, 1, bins + 1)))
    place = np.clip(np.searchsorted(edges, pairs["cosine"], side="left") - 1, 0, len(edges) - 2)
    rows = []
    for number in np.unique(place):
        part = pairs[place == number]
        gain = 100 * (spearman(part["gold"], part["ranked"]) - spearman(part["gold"], part["cosine"]))
        rows.append((f"{edges[number]:.2f} to {edges[number + 1]:.2f}", part["shared"].mean(), gain, len(part)))
    return pd.DataFrame(rows, columns=["bin", "shared", "gain", "pairs"])


def neighbours_and_gain(table: pd.DataFrame) -> go.Figure:
    """Draw a table of `neighbour_bins`: bars for neighbours shared, a line for the gain of ranks over the cosine."""
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    bars = {"x": table["bin"], "y": table["shared"], "customdata": table["pairs"], "opacity": 0.5}
    figure.add_bar(**bars, name="neighbours shared (left)", hovertemplate="%{y:.1f}, of %{customdata} pairs")
    line = {"x": table["bin"], "y": table["gain"], "mode": "lines+markers", "name": "rank vectors less cosine (right)"}
    figure.add_scatter(**line, secondary_y=True)
    figure.update_yaxes(title_text="neighbours shared", secondary_y=False)
    # Ticks of its own: plotly would align them with those of the left axis, at crooked numbers.
    right = {"zeroline": True, "zerolinecolor": COLOURS[1], "zerolinewidth": 1, "tickmode": "auto"}
    figure.update_yaxes(title_text="gain in Spearman x 100", secondary_y=True, **right)
    axis = {"xaxis_title": "cosine of the pair", "legend": _BELOW}
    return laid_out(figure, "Neighbours shared, and what rank vectors add", height=400, **axis)


def closed_against_exact(similarities: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> go.Figure:
    """Draw a panel for each corpus: rank similarities, exact (across) and in closed form (up); the line: equal."""
    figure = make_subplots(cols=len(similarities), subplot_titles=tick_names([*similarities], 30), shared_yaxes=True)
    for column, (exact, closed) in enumerate(similarities.values(), start=1):
        dots = {"mode": "markers", "marker": {"size": 4, "opacity": 0.4, "color": COLOURS[0]}}
        figure.add_scatter(x=np.ravel(exact), y=np.ravel(closed), **dots, row=1, col=column)
        line = {"mode": "lines", "line": {"color": GREY, "width": 1}, "hoverinfo": "skip"}
        figure.add_scatter(x=[-1, 1], y=[-1, 1], **line, row=1, col=column)
    figure.update_traces(showlegend=False)
    figure.update_xaxes(title="exact", range=[-1.05, 1.05])
    figure.update_yaxes(range=[-1.05, 1.05])
    figure.update_yaxes(title="closed form", col=1)
    return laid_out(figure, "The closed form against ranks", width=340 * len(similarities), height=400)
