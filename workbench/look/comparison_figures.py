"""Rankings and runs beside each other, as plotly figures: pure functions of tables."""

import textwrap
from html import escape

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.look.figures import COLOURS
from workbench.look.queries import QueryView, line_colours

_MARGIN = {"l": 60, "r": 40, "t": 80, "b": 50}


def rank_slopes(view: QueryView) -> go.Figure:
    """Gold's rank of each target, then each label's, 1 at the top: a line a target, a crossing is a disagreement."""
    columns = view.columns
    count = len(view.targets)
    traces = [
        {
            "x": list(columns),
            "y": [float(ranks[place]) for ranks in columns.values()],
            "mode": "lines+markers",
            "line": {"color": colour, "width": 2.5},
            "marker": {"size": 12},
            "customdata": ["", *(f"<br>score {scores[place]:.3f}" for scores in view.scores.values())],
            "text": "<br>".join(map(escape, textwrap.wrap(f"{view.letters[place]}: {view.targets[place]}", 60))),
            "hovertemplate": f"%{{text}}<br>gold {view.gold[place]:.4g}<br>%{{x}}: rank %{{y}}%{{customdata}}"
            "<extra></extra>",
        }
        for place, colour in enumerate(line_colours(count))
    ]
    letters = [
        {"x": name, "y": rank, "text": " ".join(found), "showarrow": False, "bgcolor": "white", "borderpad": 2}
        for name, ranks in columns.items()
        for rank, found in view.letters_by_rank(ranks).items()
    ]
    layout = {
        "template": "simple_white",
        "title": "Rank by gold and by each model",
        "showlegend": False,
        "width": max(480, min(170 * len(columns), 960)),  # as wide as a notebook is
        "height": 140 + 34 * count,
        "margin": _MARGIN,
        "annotations": letters,
        "xaxis": {
            "side": "top",
            "type": "category",
            "range": [-0.3, len(columns) - 0.7],
            "tickvals": list(columns),
            "ticktext": ["<br>".join(map(escape, textwrap.wrap(name, 16))) for name in columns],
        },
        "yaxis": {"title": "rank", "range": [count + 0.5, 0.5], "dtick": 1 if count < 25 else 5},
    }
    return go.Figure(traces, layout)


def score_intervals(intervals: pd.DataFrame, suite: str) -> go.Figure:
    """A dot a run with its interval over pairs, x 100, a row a label; seeds stand under each other.

    intervals: label, seed, value, low, high, as `comparison.intervals` gives them.
    """
    if intervals.empty:
        return go.Figure(layout={"title": "No finished runs yet", "height": 120, "template": "simple_white"})
    figure = go.Figure()
    labels = list(dict.fromkeys(intervals["label"]))
    for colour, (number, label) in zip(COLOURS * len(labels), enumerate(labels), strict=False):
        rows = intervals[intervals["label"] == label]
        figure.add_scatter(
            x=100 * rows["value"],
            y=number + _spread_out(len(rows)),
            mode="markers",
            name=label,
            marker={"size": 8, "color": colour},
            error_x={
                "type": "data",
                "array": 100 * (rows["high"] - rows["value"]),
                "arrayminus": 100 * (rows["value"] - rows["low"]),
                "width": 3,
            },
            text=[f"seed {seed}" for seed in rows["seed"]],
            hovertemplate=f"{escape(label)}, %{{text}}: %{{x:.2f}}<extra></extra>",
        )
    figure.update_layout(
        template="simple_white",
        title=f"Spearman on {suite}: a dot a seed, its 95% interval over pairs",
        showlegend=False,
        width=760,
        height=150 + 60 * len(labels),
        margin={**_MARGIN, "l": 40},
        xaxis={"title": "Spearman x 100"},
        yaxis={
            "tickvals": list(range(len(labels))),
            "ticktext": labels,
            "range": [len(labels) - 0.5, -0.5],
            "automargin": True,
        },
    )
    return figure


def part_scores(parts: pd.DataFrame) -> go.Figure:
    """Spearman x 100 on every suite and on every subset of a suite: mean over seeds, bars of one standard deviation.

    parts: label, part, mean, std (nan for one seed), as `comparison.parts` gives them, in [-1, 1].
    """
    if parts.empty:
        return go.Figure(layout={"title": "No finished runs yet", "height": 120, "template": "simple_white"})
    figure = go.Figure()
    names = list(dict.fromkeys(parts["part"]))
    labels = list(dict.fromkeys(parts["label"]))
    offsets = dict(zip(labels, _spread_out(len(labels)), strict=True))
    for colour, label in zip(COLOURS * len(labels), labels, strict=False):
        rows = parts[parts["label"] == label]
        figure.add_scatter(
            x=100 * rows["mean"],
            y=[names.index(part) + offsets[label] for part in rows["part"]],
            mode="markers",
            name=label,
            marker={"size": 9, "color": colour},
            error_x={"type": "data", "array": 100 * np.nan_to_num(rows["std"]), "width": 3},
            text=rows["part"],
            hovertemplate=f"{escape(label)}, %{{text}}: %{{x:.2f}}<extra></extra>",
        )
    figure.update_layout(
        template="simple_white",
        title="Spearman by suite and subset, mean over seeds ± one standard deviation",
        width=860,
        height=max(170 + 50 * len(names), 140 + 22 * len(labels)),  # room for the rows, and for the legend beside them
        margin={**_MARGIN, "l": 40},
        xaxis={"title": "Spearman x 100"},
        yaxis={
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "range": [len(names) - 0.5, -0.5],
            "automargin": True,
        },
    )
    return figure


def _spread_out(count: int) -> np.ndarray:
    """Small offsets around 0, so that several dots of one row do not hide each other."""
    return np.linspace(-0.25, 0.25, count) if count > 1 else np.zeros(count)
