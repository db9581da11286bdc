"""Figures of tables, by plotly: pure functions without torch or widgets."""

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
from numpy.typing import ArrayLike
from pandas.api.types import is_numeric_dtype
from plotly.subplots import make_subplots

from workbench.files import set_name
from workbench.views._plot import COLOURS, WIDEST, laid_out, plain, tick_names, wrapped
from workbench.views._style import GREY

# Columns of a history besides its loss terms.
_NO_TERM = {"step", "epoch", "learning_rate", "loss", "seconds"}


def training_curve(histories: Mapping[str, pd.DataFrame], *, terms: bool = False) -> go.Figure:
    """Draw dev Spearman x 100 (left) and loss (right) by step; the best checkpoint is ringed.

    histories: label -> history.csv; terms: draw each loss term instead of their sum.
    """
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    for colour, (label, table) in zip(cycle(COLOURS), histories.items(), strict=False):
        name = plain(label)
        history = table.reindex(columns=[*dict.fromkeys([*table, "dev_spearman", "loss"])])
        dev = history.dropna(subset=["dev_spearman"])
        figure.add_scatter(
            x=dev["step"],
            y=100 * dev["dev_spearman"],
            line_color=colour,
            name=f"{name}: dev",
            mode="lines+markers",
        )
        best = dev.loc[dev["step"] > 0].nlargest(1, "dev_spearman")
        if len(best):
            figure.add_scatter(
                x=best["step"],
                y=100 * best["dev_spearman"],
                marker={"symbol": "circle-open", "size": 16, "color": colour, "line_width": 2},
                name=f"{name}: kept",
                mode="markers",
            )
        losses = history.dropna(subset=["loss"])
        named = [
            c for c in history if c not in _NO_TERM and not c.startswith(("dev_", "observed_"))
        ]
        columns = (terms and named) or ["loss"]
        for dash, column in zip(["dot", "dash", "dashdot", "longdash"], columns, strict=False):
            # The only term of a method may have the method's name.
            term = "loss" if column == label else column
            figure.add_scatter(
                x=losses["step"],
                y=losses[column],
                name=f"{name}: {term}",
                mode="lines",
                line={"color": colour, "dash": dash, "width": 1.5},
                secondary_y=True,
            )
    return laid_out(
        figure,
        "Dev Spearman and training loss",
        legend={"orientation": "h", "y": -0.25},
        xaxis_title="training step",
        yaxis_title="Spearman on dev x 100",
        yaxis2_title="training loss",
        yaxis2_tickmode="auto",  # aligned with the left ones its ticks are crooked numbers
    )


def alignment_uniformity_path(histories: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Draw the path of each training (label -> history.csv) in the plane of uniformity and
    alignment."""
    columns = ["step", "dev_uniformity", "dev_alignment"]
    paths = {
        plain(label): history.reindex(columns=columns).dropna()
        for label, history in histories.items()
    }
    table = pd.concat(paths, names=["label"]).reset_index("label")
    is_between = table.duplicated("label") & table.duplicated("label", keep="last")
    table["text"] = table["step"].map("step {:.0f}".format).mask(is_between, "")
    figure = px.line(
        table,
        x="dev_uniformity",
        y="dev_alignment",
        color="label",
        text="text",
        hover_data=["step"],
        markers=True,
        color_discrete_sequence=COLOURS,
    )
    figure.update_traces(textposition="top center", textfont_color=GREY, cliponaxis=False)
    return laid_out(
        figure,
        "Alignment and uniformity on dev; lower left is better",
        xaxis_title="uniformity (log of a mean; smaller: more spread out)",
        yaxis_title="alignment (mean squared distance)",
        legend_title="",
        showlegend=len(histories) > 1,
    )


def cosine_heatmap(matrices: Mapping[str, ArrayLike], sentences: Sequence[str]) -> go.Figure:
    """Draw square matrices [n, n] of n sentences side by side, a number in each cell; the diagonal
    is framed.

    matrices: title -> numbers, which are coloured on one scale: dark is large.
    """
    values = [np.asarray(matrix, dtype=np.float64) for matrix in matrices.values()]
    columns = [*range(1, len(sentences) + 1)]
    rows = [
        f"{number}: {name}" for number, name in zip(columns, tick_names(sentences, 24), strict=True)
    ]
    figure = make_subplots(
        cols=len(values),
        subplot_titles=[wrapped(title, 32) for title in matrices],
        shared_yaxes=True,
        horizontal_spacing=0.04,
    )
    for column, matrix in enumerate(values, start=1):
        figure.add_heatmap(
            x=columns,
            y=rows,
            z=matrix,
            texttemplate="%{z:.2f}",
            hovertemplate="%{y}, column %{x}: %{z:.3f}<extra></extra>",
            coloraxis="coloraxis",
            xgap=2,
            ygap=2,
            row=1,
            col=column,
        )
        for at in range(len(sentences)):
            figure.add_shape(
                x0=at + 0.5,
                x1=at + 1.5,
                y0=at - 0.5,
                y1=at + 0.5,
                line={"color": COLOURS[1], "width": 3},
                fillcolor="rgba(0,0,0,0)",
                opacity=1,
                row=1,
                col=column,
            )
    figure.update_xaxes(tickvals=columns, showline=False, ticks="")
    figure.update_yaxes(autorange="reversed", showline=False, ticks="", automargin=True)
    return laid_out(
        figure,
        "",
        coloraxis={
            "colorscale": "Blues",
            "cmin": np.min(values),
            "cmax": np.max(values),
            "showscale": False,
        },
        width=min(260 + 250 * len(values), WIDEST),
        height=90 + 50 * len(sentences),
    )


def cosine_by_gold(
    scores: Mapping[str, pd.DataFrame], suite: str | None = None, *, score: str = "cosine"
) -> go.Figure:
    """Draw the distribution of the scores in bands of gold (as SimCSE figure G.1); a line is a
    mean.

    scores: label -> scores.csv; suite: by default the first, if there is one; score: their name.
        Well-ordered scores climb from band to band without overlap. Five equal bands begin and end
        at whole numbers of gold; up to six different grades have a band each. ValueError if a label
        has no scores of the suite."""
    table = pd.concat(
        {plain(label): rows for label, rows in scores.items()}, names=["label"]
    ).reset_index()
    if suite is None:
        if table.empty:  # a transfer task has no pairs
            return _empty_figure("No scored pairs")
        suite = table["suite"].iloc[0]
    rows = table.loc[table["suite"] == set_name(suite)]
    if missing := [label for label in scores if plain(label) not in set(rows["label"])]:
        known = ", ".join(table["suite"].unique())
        raise ValueError(f"no scores of {suite!r} under {', '.join(missing)}; there are: {known}")
    gold = rows["gold"].to_numpy(dtype=float)
    least = np.floor(gold.min())
    # 0.6 and not 0.6 + 1e-16.
    edges = np.linspace(least, max(np.ceil(gold.max()), least + 1), 6).round(12)
    names = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    place = np.digitize(gold, edges[1:-1])
    grades = np.unique(gold)
    if len(grades) <= 6:
        names = [f"grade {grade:.3g}" for grade in grades]
        place = np.searchsorted(grades, gold)
    figure = px.violin(
        rows.assign(band=np.take(names, place)),
        x="band",
        y="predicted",
        color="label",
        violinmode="group",
        category_orders={"band": names},
        color_discrete_sequence=COLOURS,
        points=False,
    )
    figure.update_traces(meanline_visible=True, spanmode="hard", line_width=1)
    # As wide as the space of its label allows.
    figure.for_each_trace(lambda trace: trace.update(scalegroup=trace.name))
    return laid_out(
        figure,
        f"{score.capitalize()} by band of gold, {suite}",
        xaxis_title="gold score",
        yaxis_title=f"{score} of the pair",
        legend_title="",
    )


def sentence_map(
    vectors: Mapping[str, ArrayLike], sentences: Sequence[str], *, values: ArrayLike | None = None
) -> go.Figure:
    """Draw sentences in a plane (PCA of unit vectors) for each label, on one scale; hovering shows
    a sentence.

    `vectors` has [n, d] by label; [n] `values`, such as gold (a Series has their name), colour the
    points, by default the place along the first component of the first label."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    unit = [normalize(np.asarray(rows, dtype=np.float64)) for rows in vectors.values()]
    planes = [PCA(2, random_state=0).fit_transform(rows) for rows in unit]
    figure = make_subplots(
        cols=len(planes), subplot_titles=tick_names([*vectors], 28), horizontal_spacing=0.03
    )
    colours = planes[0][:, 0] if values is None else np.asarray(values)
    size = 8 if len(sentences) < 200 else 4
    for column, points in enumerate(planes, start=1):
        figure.add_scatter(
            x=points[:, 0],
            y=points[:, 1],
            text=[wrapped(text, 60) for text in sentences],
            mode="markers",
            marker={"size": size, "color": colours, "coloraxis": "coloraxis"},
            hovertemplate="%{text}<extra></extra>",
            row=1,
            col=column,
        )
    figure.update_xaxes(visible=False, matches="x")
    figure.update_yaxes(visible=False, matches="y")
    return laid_out(
        figure,
        f"PCA of {len(sentences)} sentences",
        coloraxis={
            "colorscale": "Viridis",
            "showscale": values is not None,
            "colorbar_title": plain(getattr(values, "name", None) or ""),
        },
        showlegend=False,
        width=max(600, 330 * len(vectors)),
    )


def setting_sweep(
    table: pd.DataFrame, setting: str, *, label: str = "", paper: float | None = None
) -> go.Figure:
    """Draw Spearman on dev x 100 by a setting, a line for each column of `table` (as CoSENT figure
    4).

    `table` has a row for each value of the column `setting`; every other column has a Spearman in
    [-1, 1]. `label` is that of the axis, on which numbers have their distances if the largest is at
    most 100 times the smallest above 0; otherwise all values are equally far apart. The value of
    the `paper` is marked if the table has it."""
    values = table[setting].tolist()
    names = [f"{value:g}" if isinstance(value, int | float) else plain(value) for value in values]
    has_distances = bool(is_numeric_dtype(table[setting])) and max(values) <= 100 * min(
        filter(None, values), default=0
    )
    curves = 100 * table.set_index(setting).rename(columns=plain)
    curves = curves.sort_index() if has_distances else curves.set_axis(names)
    figure = px.line(curves, markers=True, color_discrete_sequence=COLOURS)
    if paper is not None and (marked := f"{paper:g}") in names:
        figure.add_vline(
            paper if has_distances else names.index(marked),
            line={"dash": "dot", "color": GREY, "width": 1.5},
            annotation_text="the paper's",
        )
    title = label or setting
    return laid_out(
        figure,
        f"Spearman on dev by {title}",
        xaxis_title=plain(title),
        xaxis_type="linear" if has_distances else "category",
        yaxis_title="Spearman on dev x 100",
        legend_title="",
    )


def power_curve(differences: pd.DataFrame) -> go.Figure:
    """Draw the smallest difference that can be shown, x 100, by seeds and pairs, from
    `smallest_differences`."""
    if differences.empty:
        return _empty_figure("No finished runs yet")
    known: Any = differences.dropna(subset=["smallest"])  # of more than one seed
    table = known.assign(
        smallest=100 * known["smallest"],
        label=known["label"].map(plain),
        pairs=known["pairs"].map("{} pairs".format),
    )
    figure = px.line(
        table,
        x="seeds",
        y="smallest",
        color="label",
        line_dash="pairs",
        color_discrete_sequence=COLOURS,
        markers=True,
    )
    return laid_out(
        figure,
        f"Smallest difference from {differences['against'].iloc[0]} that can be shown",
        yaxis_type="log",
        yaxis_tickvals=[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100],
        yaxis_title="difference of Spearman or accuracy x 100",
        legend_title="",
    )


def score_intervals(intervals: pd.DataFrame, suite: str) -> go.Figure:
    """Draw the score of each run with its interval over pairs, x 100, from the table that
    `intervals` returns."""
    rows = [
        f"{label}, seed {seed}"
        for label, seed in zip(intervals["label"], intervals["seed"], strict=True)
    ]
    return _draw_dots(
        intervals.assign(row=rows), f"Spearman on {set_name(suite)}, 95% interval over pairs"
    )


def part_scores(parts: pd.DataFrame) -> go.Figure:
    """Draw Spearman x 100 on every suite and subset, mean ± deviation, from the table that
    `suite_scores` returns."""
    table = parts.rename(columns={"mean": "value", "part": "row"}).assign(
        low=parts["mean"] - parts["std"],
        high=parts["mean"] + parts["std"],
    )
    return _draw_dots(
        table, "Spearman by suite and subset, mean over seeds ± one standard deviation"
    )


def _empty_figure(title: str) -> go.Figure:
    return laid_out(go.Figure(), title, height=120)


def _draw_dots(table: pd.DataFrame, title: str) -> go.Figure:
    """Draw value x 100 from low to high by row, the first at the top, the dots of several labels
    next to each other."""
    if table.empty:
        return _empty_figure("No finished runs yet")
    names = tick_names(list(table["row"]), 24)
    rows = list(dict.fromkeys(names))
    numbers: Any = 100 * table[["value", "low", "high"]]
    shown = pd.DataFrame(
        {
            "row": names,
            "label": tick_names(list(table["label"]), 24),
            "x": numbers["value"],
            "above": numbers["high"] - numbers["value"],
            "below": numbers["value"] - numbers["low"],
        }
    )
    figure = px.scatter(
        shown,
        x="x",
        y="row",
        color="label",
        error_x="above",
        error_x_minus="below",
        category_orders={"row": rows},
        color_discrete_sequence=COLOURS,
    )
    figure.update_traces(
        orientation="h", marker_size=8, hovertemplate="%{y}: %{x:.2f}<extra></extra>"
    )
    least = numbers.min(axis=None)
    most = numbers.max(axis=None)
    room = 0.05 * (most - least) + 0.5
    dots = 15 + 20 * table["label"].nunique() if len(table) > len(rows) else 35
    return laid_out(
        figure,
        title,
        width=800,
        height=140 + len(rows) * dots,
        xaxis_title="Spearman x 100",
        xaxis_range=[least - room, most + room],  # grouped dots would begin at 0
        scattermode="group",
        legend_title="",
        yaxis_title="",
        yaxis_automargin=True,
    )
