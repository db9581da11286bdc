"""RankEncoder's figures: the two losses (fig. 8), neighbours shared (fig. 6), vector spaces side by side (fig. 7)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures import COLOURS
from workbench.metrics import spearman

_LAYOUT: dict[str, Any] = {"template": "simple_white", "colorway": COLOURS, "height": 400, "width": 760}


def two_losses(history: pd.DataFrame) -> go.Figure:
    """l_cl and lambda l_r against the step, on a log scale: under the max only the upper one is minimised.

    history: history.csv of a RankEncoder run.
    """
    names = {"observed_info_nce": "l_cl, contrastive", "observed_rank_mse": "lambda l_r, rank distillation"}
    missing = [name for name in names if name not in history]
    if missing:
        raise ValueError(f"the history has no column {missing[0]}; give that of a RankEncoder run")
    figure = go.Figure()
    for column, name in names.items():
        rows = history.dropna(subset=[column])
        rows = rows[rows[column] > 0]  # a log scale has no 0: no pair was kept
        figure.add_scatter(x=rows["step"], y=rows[column], name=name, mode="lines")
    figure.update_layout(**_LAYOUT, title="The two losses", xaxis_title="step", yaxis_title="loss", yaxis_type="log")
    return figure


def neighbours_and_gain(pairs: pd.DataFrame, *, bins: int = 6) -> go.Figure:
    """Bars: mean neighbours shared; line: Spearman of ranks less that of the cosine, x 100; by bins of cosine.

    pairs: a row a pair with cosine, ranked (the rank similarity), shared and gold. Bins hold equally many pairs. A bin
    in which gold or a score is the same throughout has no correlation and no point.
    """
    edges = np.unique(np.quantile(pairs["cosine"], np.linspace(0, 1, bins + 1)))
    place = np.clip(np.searchsorted(edges, pairs["cosine"], side="left") - 1, 0, len(edges) - 2)
    rows = []
    for number in np.unique(place):
        part = pairs[place == number]
        gain = 100 * (spearman(part["gold"], part["ranked"]) - spearman(part["gold"], part["cosine"]))
        rows.append((f"{edges[number]:.2f} to {edges[number + 1]:.2f}", part["shared"].mean(), gain, len(part)))
    found = pd.DataFrame(rows, columns=["bin", "shared", "gain", "pairs"])
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    figure.add_bar(x=found["bin"], y=found["shared"], name="neighbours shared", customdata=found["pairs"], opacity=0.5)
    line = {"x": found["bin"], "y": found["gain"], "name": "rank vectors - cosine", "mode": "lines+markers"}
    figure.add_scatter(**line, secondary_y=True)
    figure.update_layout(
        **_LAYOUT, title="Neighbours shared, and what rank vectors add", xaxis_title="cosine of the pair"
    )
    figure.update_yaxes(title_text="neighbours shared", secondary_y=False)
    figure.update_yaxes(title_text="gain in Spearman x 100", zeroline=True, secondary_y=True)
    return figure


def vector_spaces(spaces: Mapping[str, np.ndarray], texts: list[str]) -> go.Figure:
    """The first two principal components of each space, side by side; a dot has one colour in all of them.

    spaces: name -> [n, d] vectors of the same n sentences. The colour runs along the first component of the first.
    """
    planes = {name: principal_plane(rows) for name, rows in spaces.items()}
    titles = [f"{name}: {100 * share:.0f}% of the variance" for name, (_, share) in planes.items()]
    figure = make_subplots(cols=len(planes), subplot_titles=titles)
    colour = next(iter(planes.values()))[0][:, 0]
    for column, (points, _) in enumerate(planes.values(), start=1):
        marker = {"size": 4, "color": colour, "colorscale": "Viridis", "opacity": 0.7}
        dots = {"x": points[:, 0], "y": points[:, 1], "mode": "markers", "marker": marker, "text": texts}
        figure.add_scatter(**dots, hoverinfo="text", showlegend=False, row=1, col=column)
    figure.update_layout(**{**_LAYOUT, "width": 420 * len(planes)}, title="The same sentences in each space")
    return figure


def principal_plane(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """[n, 2] coordinates along the two directions of largest variance, and their share of all variance.

    Each direction points to where its largest coordinate is positive, so that the picture is the same everywhere.
    """
    centred = np.asarray(rows, dtype=np.float64) - np.mean(rows, axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)  # n x n: rank vectors are far wider than many
    largest = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]].clip(0))
    largest *= np.sign(largest[np.abs(largest).argmax(axis=0), [0, 1]])
    return largest, float(values[-2:].sum() / values.sum())
