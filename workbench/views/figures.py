"""Figures of tables, by plotly: pure functions without torch or widgets."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.express as px
from numpy.typing import ArrayLike
from plotly.graph_objects import Figure
from plotly.subplots import make_subplots

from workbench.files import set_name
from workbench.systems import SystemComparison
from workbench.views._plot import COLOURS, WIDEST, laid_out, plain, tick_names, wrapped
from workbench.views._style import GREY, read_part

Tables = Mapping[str, pd.DataFrame]  # by label
# Columns of a history that are no loss terms.
_NO_TERM = re.compile("step|epoch|learning_rate|loss|seconds|(dev|observed)_.*")
# What stays the same whatever the data are: arguments of plotly.
_PARTS = tomllib.loads(read_part("figures.toml"))
_TERM_DASHES = ["dot", "dash", "dashdot", "longdash"]


def training_curve(histories: Tables, *, terms: bool = False) -> Figure:
    """Draw dev Spearman x 100 (left) and loss (right) by step; the best checkpoint is ringed.

    Args:
        histories: label -> history.csv.
        terms: Draw the loss terms, at most four, instead of their sum.

    Example:
        views.training_curve({"simcse": run.history()})
    """
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    for colour, (label, table) in zip(cycle(COLOURS), histories.items(), strict=False):
        name = plain(label)
        # A run without a dev set has no column of it; an empty one draws nothing.
        columns = table.columns.union(["dev_spearman", "loss"], sort=False)
        history = table.reindex(columns=columns)
        dev = history.dropna(subset="dev_spearman")
        figure.add_scatter(
            x=dev["step"],
            y=100 * dev["dev_spearman"],
            line_color=colour,
            name=f"{name}: dev",
            mode="lines+markers",
        )
        first = 1 - table.attrs.get("keep_start", False)  # the first step that may be kept
        best = dev.loc[dev["step"] >= first].nlargest(1, "dev_spearman")
        if len(best):
            figure.add_scatter(
                x=best["step"],
                y=100 * best["dev_spearman"],
                marker_color=colour,
                name=f"{name}: kept",
                **_PARTS["kept"],
            )
        # Loss and dev are measured at different steps: each curve skips the rows of the other.
        losses = history.dropna(subset="loss")
        curves = ["loss"]
        if terms:
            curves = [column for column in history if not _NO_TERM.fullmatch(column)] or curves
        # The dashes end first if there are more terms: no fifth line could be told apart.
        for dash, column in zip(_TERM_DASHES, curves, strict=False):
            # The only term of a method may have the method's name.
            term = "loss" if column == label else column
            figure.add_scatter(
                x=losses["step"],
                y=losses[column],
                name=f"{name}: {term}",
                line_color=colour,
                line_dash=dash,
                **_PARTS["loss"],
            )
    return laid_out(figure, **_PARTS["curve"])


def alignment_uniformity_path(histories: Tables) -> Figure:
    """Draw the path of each training in the plane of uniformity and alignment on dev.

    Args:
        histories: label -> history.csv; steps at which dev was not measured are left out.

    Example:
        views.alignment_uniformity_path({"simcse": run.history()})
    """
    columns = ["step", "dev_uniformity", "dev_alignment"]
    paths = {
        plain(label): history.reindex(columns=columns).dropna()
        for label, history in histories.items()
    }
    table = pd.concat(paths, names=["label"]).reset_index("label")
    # Only the ends of a path have a text: the steps between them would cover each other.
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
    return laid_out(figure, **_PARTS["path"], showlegend=len(histories) > 1)


def cosine_heatmap(matrices: Mapping[str, ArrayLike], sentences: Sequence[str]) -> Figure:
    """Draw square matrices side by side, a number in each cell; the diagonal is framed.

    Args:
        matrices: title -> numbers [n, n], which are coloured on one scale: dark is large.
        sentences: The n sentences of the rows and of the columns.

    Example:
        views.cosine_heatmap({"cosine": vectors @ vectors.T}, sentences)
    """
    numbers = list(range(1, len(sentences) + 1))
    names = tick_names(sentences, 24)
    figure: Any = px.imshow(
        np.stack([*matrices.values()]),
        x=numbers,
        y=[f"{number}: {name}" for number, name in zip(numbers, names, strict=True)],
        **_PARTS["heatmap"],
    )
    figure.update_traces(**_PARTS["cells"])
    for note, title in zip(figure.layout.annotations, matrices, strict=True):
        note.text = wrapped(title, 32)
    # Columns are numbers from 1, rows are names, whose places count from 0.
    for number in numbers:
        figure.add_shape(
            x0=number - 0.5,
            x1=number + 0.5,
            y0=number - 1.5,
            y1=number - 0.5,
            line_color=COLOURS[1],
            **_PARTS["frame"],
        )
    figure.update_xaxes(tickvals=numbers, showline=False, ticks="")
    figure.update_yaxes(**_PARTS["rows"])
    return laid_out(
        figure,
        "",
        coloraxis_showscale=False,
        width=min(260 + 250 * len(matrices), WIDEST),
        height=90 + 50 * len(sentences),
    )


def cosine_by_gold(scores: Tables, suite: str | None = None, *, score: str = "cosine") -> Figure:
    """Draw the distribution of the scores in bands of gold (as SimCSE figure G.1).

    Well-ordered scores climb from band to band without overlap; a line is a mean. Five equal
    bands begin and end at whole numbers of gold; up to six different grades have a band each.

    Args:
        scores: label -> scores.csv.
        suite: By default the first, if there is one.
        score: The name of the scores.

    Example:
        views.cosine_by_gold({"simcse": run.scores()}, "stsb-test")

    Raises:
        ValueError: A label has no scores of the suite.
    """
    labelled = {plain(label): rows for label, rows in scores.items()}
    table = pd.concat(labelled, names=["label"]).reset_index()
    if suite is None:
        if table.empty:  # a transfer task has no pairs
            return _empty_figure("No scored pairs")
        suite = str(table["suite"].iloc[0])
    rows = table.loc[table["suite"] == set_name(suite)]
    if missing := [label for label in scores if plain(label) not in set(rows["label"])]:
        known = ", ".join(table["suite"].unique())
        raise ValueError(f"no scores of {suite!r} under {', '.join(missing)}; there are: {known}")
    gold = rows["gold"].to_numpy(float)
    # Human grades are few: bands between them would mix two or be empty.
    grades, band = np.unique(gold, return_inverse=True)
    names = [f"grade {grade:.4g}" for grade in grades]
    if len(grades) > 6:
        low = np.floor(grades[0])
        high = np.ceil(grades[-1])
        edges = np.linspace(low, high, 6).round(12)  # 0.6 and not 0.6 + 1e-16
        names = [f"{left:.4g} to {right:.4g}" for left, right in pairwise(edges)]
        band = np.digitize(gold, edges[1:-1])
    figure = px.violin(
        rows.assign(band=np.take(names, band)),
        x="band",
        y="predicted",
        color="label",
        violinmode="group",
        category_orders={"band": names},
        color_discrete_sequence=COLOURS,
        points=False,
    )
    figure.update_traces(**_PARTS["violins"])
    # Each violin is as wide as the space of its label allows, whatever the others' densities.
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
) -> Figure:
    """Draw sentences in a plane (PCA of unit vectors) for each label, on one scale.

    Hovering shows a sentence.

    Args:
        vectors: label -> [n, d].
        sentences: The n sentences, two or more.
        values: [n] numbers that colour the points, such as gold; a Series has their name. By
            default the place along the first component of the first label.
    """
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    # Each label has a plane of its own: components of two spaces have nothing in common.
    planes = [
        PCA(2, random_state=0).fit_transform(normalize(np.asarray(rows, float)))
        for rows in vectors.values()
    ]
    titles = tick_names(vectors, 28)
    figure = make_subplots(cols=len(planes), subplot_titles=titles, horizontal_spacing=0.03)
    # One colour for a sentence on all maps: it can be followed from one to the next.
    colours = planes[0][:, 0] if values is None else np.asarray(values)
    size = 8 if len(sentences) < 200 else 4
    texts = [wrapped(text, 60) for text in sentences]
    for column, points in enumerate(planes, start=1):
        figure.add_scatter(
            x=points[:, 0],
            y=points[:, 1],
            text=texts,
            marker_size=size,
            marker_color=colours,
            col=column,
            **_PARTS["points"],
        )
    figure.update_xaxes(visible=False, matches="x")
    figure.update_yaxes(visible=False, matches="y")
    return laid_out(
        figure,
        f"PCA of {len(sentences)} sentences",
        coloraxis_colorscale="Viridis",
        coloraxis_showscale=values is not None,
        coloraxis_colorbar_title=plain(getattr(values, "name", None) or ""),
        showlegend=False,
        width=max(600, 330 * len(vectors)),
    )


def score_intervals(compared: SystemComparison) -> Figure:
    """Draw the score of each system on each suite with its 95% interval, x 100.

    Example:
        views.score_intervals(views.compare_runs(runs, "stsb-test"))
    """
    table = compared.table
    if table.empty:
        return _empty_figure("No finished runs yet")
    numbers = 100 * table[["value", "low", "high"]]
    shown = numbers.assign(
        row=tick_names(table["suite"] + ": " + table["system"], 24),
        system=tick_names(table["system"], 24),
        above=numbers["high"] - numbers["value"],
        below=numbers["value"] - numbers["low"],
    )
    figure = px.scatter(
        shown,
        x="value",
        y="row",
        color="system",
        error_x="above",
        error_x_minus="below",
        category_orders={"row": shown["row"]},
        color_discrete_sequence=COLOURS,
    )
    figure.update_traces(marker_size=8, hovertemplate="%{y}: %{x:.2f}<extra></extra>")
    return laid_out(figure, **_PARTS["intervals"], height=140 + 35 * len(table))


def narrowing_interval(runs: pd.DataFrame) -> Figure:
    """Draw the runs of `read_board`: scores, and the mean so far with its 95% interval.

    Example:
        views.narrowing_interval(views.read_board("class").runs)
    """
    names = tick_names(runs["student"] + ", seed " + runs["seed"].astype(str))
    figure = Figure()
    figure.add_scatter(x=names, y=runs["score"], **_PARTS["scores"])
    figure.add_scatter(
        x=names,
        y=runs["mean"],
        error_y_array=runs["high"] - runs["mean"],
        mode="markers",
        name="mean so far, 95% interval",
    )
    return laid_out(
        figure,
        "Each seed is a dot; the mean so far has its interval",
        yaxis_title="Spearman x 100",
    )


def _empty_figure(title: str) -> Figure:
    return laid_out(Figure(), title, height=120)
