"""Figures of RankEncoder: its losses, neighbours, spaces, and the closed form of its ranks."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.metrics import spearman
from workbench.views._style import COLOURS, GREY, laid_out, log_axis, tick_names, wrapped

_BELOW = {"orientation": "h", "y": -0.25}


def two_losses(history: pd.DataFrame, weight: float) -> go.Figure:
    """l_cl and lambda l_r against the step, on a log scale: under the max only the upper one is minimised.

    history: history.csv of a RankEncoder run. weight: its lambda; where it is not the paper's 0.05, the curve that 0.05
    would give stands beside.
    """
    names = {"observed_info_nce": "contrastive loss", "observed_rank_mse": f"{weight:g} x rank loss"}
    missing = [name for name in names if name not in history]
    if missing:
        raise ValueError(f"the history has no column {missing[0]}; give that of a RankEncoder run")
    figure = go.Figure()
    curves = [(name, history[column], "solid") for column, name in names.items()]
    if weight not in (0, 0.05):
        papers = history["observed_rank_mse"] * 0.05 / weight
        curves.append(("0.05 x rank loss, the paper's weight", papers, "dash"))
    for name, values, dash in curves:
        drawn = values > 0  # a log scale has no 0: no pair was kept
        figure.add_scatter(x=history["step"][drawn], y=values[drawn], name=name, mode="lines", line={"dash": dash})
    axes = {"xaxis_title": "training step", "yaxis": log_axis("loss (log scale)")}
    return laid_out(figure, "The two losses apart", height=400, legend=_BELOW, **axes)


def neighbour_bins(pairs: pd.DataFrame, *, bins: int = 6) -> pd.DataFrame:
    """bin, shared, gain, pairs: by bins of cosine that hold equally many pairs, the mean of neighbours shared, and the
    Spearman of ranks less that of the cosine, x 100.

    pairs: a row a pair with cosine, ranked (the rank similarity), shared and gold. A bin in which gold or a score is
    the same throughout has no correlation: its gain is nan.
    """
    edges = np.unique(np.quantile(pairs["cosine"], np.linspace(0, 1, bins + 1)))
    place = np.clip(np.searchsorted(edges, pairs["cosine"], side="left") - 1, 0, len(edges) - 2)
    rows = []
    for number in np.unique(place):
        part = pairs[place == number]
        gain = 100 * (spearman(part["gold"], part["ranked"]) - spearman(part["gold"], part["cosine"]))
        rows.append((f"{edges[number]:.2f} to {edges[number + 1]:.2f}", part["shared"].mean(), gain, len(part)))
    return pd.DataFrame(rows, columns=["bin", "shared", "gain", "pairs"])


def neighbours_and_gain(found: pd.DataFrame) -> go.Figure:
    """Bars: mean neighbours shared; line: what ranks gain over the cosine; of a table of `neighbour_bins`."""
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    bars = {"x": found["bin"], "y": found["shared"], "customdata": found["pairs"], "opacity": 0.5}
    figure.add_bar(**bars, name="neighbours shared (left)", hovertemplate="%{y:.1f}, of %{customdata} pairs")
    line = {"x": found["bin"], "y": found["gain"], "mode": "lines+markers", "name": "rank vectors less cosine (right)"}
    figure.add_scatter(**line, secondary_y=True)
    figure.update_yaxes(title_text="neighbours shared", secondary_y=False)
    # Ticks of its own: plotly would put them beside those of the left axis, at crooked numbers.
    right = {"zeroline": True, "zerolinecolor": COLOURS[1], "zerolinewidth": 1, "tickmode": "auto"}
    figure.update_yaxes(title_text="gain in Spearman x 100", secondary_y=True, **right)
    axis = {"xaxis_title": "cosine of the pair", "legend": _BELOW}
    return laid_out(figure, "Neighbours shared, and what rank vectors add", height=400, **axis)


def vector_spaces(spaces: Mapping[str, np.ndarray], texts: list[str], *, colour: pd.Series | None = None) -> go.Figure:
    """The first two principal components of each space, side by side; a dot has one colour in all of them.

    spaces: name -> [n, d] vectors of the same n sentences. colour: a number a sentence, its name what it counts; None
    runs along the first component of the first space.
    """
    planes = {name: principal_plane(rows) for name, rows in spaces.items()}
    titles = [f"{name}: {100 * share:.0f}% of the variance" for name, (_, share) in planes.items()]
    figure = make_subplots(cols=len(planes), subplot_titles=tick_names(titles, 30), shared_yaxes=True)
    values = next(iter(planes.values()))[0][:, 0] if colour is None else colour
    legend = {} if colour is None else {"showscale": True, "colorbar": {"title": str(colour.name)}}
    reach = 1.05 * max(float(np.abs(points).max()) for points, _ in planes.values())
    shown = [wrapped(text[:400], 60) for text in texts]
    for column, (points, _) in enumerate(planes.values(), start=1):
        marker = {"size": 4, "color": values, "colorscale": "Viridis", "opacity": 0.7} | (legend if column == 1 else {})
        dots = {"x": points[:, 0], "y": points[:, 1], "mode": "markers", "marker": marker, "text": shown}
        figure.add_scatter(**dots, hoverinfo="text", showlegend=False, row=1, col=column)
    figure.update_xaxes(title="first component", range=[-reach, reach])
    figure.update_yaxes(range=[-reach, reach])
    figure.update_yaxes(title="second component", col=1)
    title = "The same sentences in each space, on one scale"
    return laid_out(figure, title, width=380 * len(planes), height=430)


def closed_against_exact(found: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> go.Figure:
    """A dot a pair: its rank similarity exact (across) and in closed form (up), a panel a corpus; the line: equal."""
    figure = make_subplots(cols=len(found), subplot_titles=tick_names(list(found), 30), shared_yaxes=True)
    for column, (exact, closed) in enumerate(found.values(), start=1):
        dots = {"x": np.ravel(exact), "y": np.ravel(closed), "mode": "markers", "showlegend": False}
        figure.add_scatter(**dots, marker={"size": 4, "opacity": 0.4, "color": COLOURS[0]}, row=1, col=column)
        line = {"x": [-1, 1], "y": [-1, 1], "mode": "lines", "line": {"color": GREY, "width": 1}}
        figure.add_scatter(**line, showlegend=False, hoverinfo="skip", row=1, col=column)
    figure.update_xaxes(title="exact", range=[-1.05, 1.05])
    figure.update_yaxes(range=[-1.05, 1.05])
    figure.update_yaxes(title="closed form", col=1)
    return laid_out(figure, "The closed form against ranks", width=340 * len(found), height=400)


def principal_plane(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """[n, 2] coordinates along the two directions of largest variance, and their share of all variance.

    Each direction points to where its largest coordinate is positive, so that the picture is the same everywhere.
    """
    centred = np.asarray(rows, dtype=np.float64) - np.mean(rows, axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)  # n x n: rank vectors are far wider than many
    largest = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]].clip(0))
    largest *= np.sign(largest[np.abs(largest).argmax(axis=0), [0, 1]])
    return largest, float(values[-2:].sum() / values.sum())
