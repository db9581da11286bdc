"""Figures of tables, by plotly: pure functions without torch or widgets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.files import set_name
from workbench.views._style import GREY, coloured, laid_out, letters, nothing_yet, plain, shortened, tick_names, wrapped
from workbench.views.pairs import gold_bands

_NO_TERM = {"step", "epoch", "learning_rate", "loss", "seconds"}  # columns of a history besides its loss terms
_BELOW = {"orientation": "h", "y": -0.25}  # a legend below the axis


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
    return laid_out(figure, "Dev Spearman and training loss", legend=_BELOW, **axes)


def alignment_uniformity_path(histories: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Draw the path of each training in the plane of uniformity and alignment, both better if smaller.

    The steps at the ends are named, a start for all paths once, because as a rule they have it in common.
    """
    figure = go.Figure()
    for colour, (label, history) in coloured(histories.items()):
        path = history.reindex(columns=["step", "dev_uniformity", "dev_alignment", "dev_spearman"])
        path = path.dropna(subset=["dev_uniformity", "dev_alignment"])
        steps = [f"step {step:.0f}" for step in path["step"]]
        named = {len(steps) - 1} if figure.data else {0, len(steps) - 1}
        figure.add_scatter(
            x=path["dev_uniformity"],
            y=path["dev_alignment"],
            text=[step if place in named else "" for place, step in enumerate(steps)],
            textposition="top center",
            textfont={"color": GREY},
            mode="lines+markers+text",
            cliponaxis=False,
            name=plain(label),
            line={"color": colour},
            customdata=path[["step", "dev_spearman"]].mul([1, 100]).round(2),
            hovertemplate="step %{customdata[0]:.0f}<br>dev Spearman %{customdata[1]}<extra></extra>",
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
    figure = go.Figure()
    rows = {label: table[table["suite"] == set_name(suite)] for label, table in scores.items()}
    for label, part in rows.items():
        if part.empty:
            known = ", ".join(scores[label]["suite"].unique())
            raise ValueError(f"no scores of {suite!r} under {label!r}; there are: {known}")
    gold = np.asarray(pd.concat(rows.values())["gold"], dtype=float)
    names, _ = gold_bands(gold, gold, bands)
    for colour, (label, part) in coloured(rows.items()):
        _, place = gold_bands(part["gold"].to_numpy(dtype=float), gold, bands)
        shape = {"line": {"color": colour, "width": 1}, "meanline_visible": True, "points": False, "spanmode": "hard"}
        at = {"x": [names[i] for i in place], "y": part["predicted"]}
        figure.add_violin(**at, **shape, name=plain(label), scalegroup=label)
    figure.update_xaxes(categoryorder="array", categoryarray=names, title="gold score")
    figure.update_yaxes(title=f"{score} of the pair")
    return laid_out(figure, f"{score.capitalize()} by band of gold, {suite}", violinmode="group")


def cosine_maps(maps: Mapping[str, np.ndarray], names: Sequence[str]) -> go.Figure:
    """Draw the cosines [n, n] of n texts by label, on one scale; lighter is closer (CompCSE figure 4).

    Columns have the letters that precede the `names` of the texts.
    """
    columns = letters(len(names))
    rows = [f"{letter}: {name}" for letter, name in zip(columns, tick_names(names, 30), strict=True)]
    titles = {"subplot_titles": tick_names(list(maps), 28), "shared_yaxes": True, "horizontal_spacing": 0.03}
    figure = make_subplots(cols=len(maps), **titles)
    written = {"texttemplate": "%{z:.2f}"} if len(names) <= 10 else {}  # more have no room in their cells
    for column, values in enumerate(maps.values(), start=1):
        cells = {"z": np.asarray(values), "x": columns, "y": rows, "coloraxis": "coloraxis", **written}
        figure.add_heatmap(**cells, hovertemplate="%{y} - %{x}: %{z:.3f}<extra></extra>", row=1, col=column)
    figure.update_yaxes(autorange="reversed")
    lowest = min(0.0, *(float(np.min(values)) for values in maps.values()))
    scale = {"colorscale": "Viridis", "cmin": lowest, "cmax": 1, "colorbar": {"title": "cosine"}}
    size = {"width": 330 + 230 * len(maps), "height": max(380, 140 + 24 * len(names))}
    return laid_out(figure, "Cosine of each text with each other", coloraxis=scale, **size)


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

    Raises:
        ValueError: The table has no such column.
    """
    if setting not in table.columns:
        raise ValueError(f"the table has no column {setting!r}; its columns are {', '.join(map(str, table.columns))}")
    figure = go.Figure()
    values = [f"{value:g}" if isinstance(value, int | float) else plain(value) for value in table[setting]]
    for colour, name in coloured(c for c in table.columns if c != setting):
        curve = {"x": values, "y": 100 * table[name], "name": plain(name), "line": {"color": colour}}
        figure.add_scatter(**curve, mode="lines+markers")
    if paper is not None and f"{paper:g}" in values:
        line = {"dash": "dot", "color": GREY, "width": 1.5}
        figure.add_vline(values.index(f"{paper:g}"), line=line, annotation_text="the paper's")
    figure.update_xaxes(title=plain(label or setting), type="category")
    return laid_out(figure, f"Spearman on dev by {label or setting}", yaxis_title="Spearman on dev x 100")


def score_intervals(intervals: pd.DataFrame, suite: str) -> go.Figure:
    """Draw a dot for each run with its interval over pairs, x 100, in a row for each label.

    The table is as `intervals` of this package returns it: label, seed, value, low, high.
    """
    labels = list(dict.fromkeys(intervals["label"]))
    figure, counts = go.Figure(), Counter(intervals["label"])
    table = intervals.assign(text=[f"seed {seed}" for seed in intervals["seed"]])
    heights = {label: row + _offsets(counts[label]) for row, label in enumerate(labels)}
    _add_dots(figure, table, heights)
    ends = {"x": 100 * table["high"].fillna(table["value"]), "y": np.concatenate([[], *heights.values()])}
    names = {"text": [f" {text}" for text in table["text"]], "textfont": {"size": 10, "color": GREY}, "mode": "text"}
    figure.add_scatter(**ends, **names, textposition="middle right", cliponaxis=False, hoverinfo="skip")
    title = f"Spearman on {suite}: a dot for each seed, its 95% interval over pairs"
    return _in_rows(figure, labels, title, width=760, height=150 + 60 * len(labels), showlegend=False)


def part_scores(parts: pd.DataFrame) -> go.Figure:
    """Draw Spearman x 100 on every suite and subset: means over seeds ± one standard deviation; a label has a colour.

    The table is as `suite_scores` returns it: label, part, mean, std (nan for one seed).
    """
    names, labels = (list(dict.fromkeys(parts[column])) for column in ("part", "label"))
    deviation, text = parts["std"].fillna(0), parts["part"]
    table = parts.assign(value=parts["mean"], low=parts["mean"] - deviation, high=parts["mean"] + deviation, text=text)
    figure, offsets = go.Figure(), dict(zip(labels, _offsets(len(labels)), strict=True))
    places = {label: parts.loc[parts["label"] == label, "part"].map(names.index) for label in labels}
    _add_dots(figure, table, {label: place.to_numpy() + offsets[label] for label, place in places.items()})
    height = max(170 + 50 * len(names), 140 + 40 * len(labels))  # room for the rows, and for the legend
    title = "Spearman by suite and subset, mean over seeds ± one standard deviation"
    return _in_rows(figure, names, title, width=800, height=height, showlegend=True)


def _add_dots(figure: go.Figure, table: pd.DataFrame, heights: Mapping[str, np.ndarray]) -> None:
    """Add the dots of each label with bars from low to high, at these heights."""
    short = shortened(heights, 40)
    for colour, label in coloured(heights):
        rows = table[table["label"] == label]
        bars = {"array": 100 * (rows["high"] - rows["value"]), "arrayminus": 100 * (rows["value"] - rows["low"])}
        figure.add_scatter(
            x=100 * rows["value"],
            y=heights[label],
            mode="markers",
            name=wrapped(short[label], 24),
            marker={"size": 8, "color": colour},
            error_x={"type": "data", "width": 3, **bars},
            text=list(map(plain, rows["text"])),
            hovertemplate=f"{plain(label)}, %{{text}}: %{{x:.2f}}<extra></extra>",
        )


def _in_rows(figure: go.Figure, names: Sequence[str], title: str, **layout: Any) -> go.Figure:
    """Return the layout of dots in named rows, the first at the top."""
    if not names:
        return nothing_yet()
    axis = {"tickvals": list(range(len(names))), "ticktext": tick_names(names, 24), "automargin": True}
    figure.update_yaxes(**axis, range=[len(names) - 0.5, -0.5])
    return laid_out(figure, title, margin={"l": 40, "r": 40}, xaxis={"title": "Spearman x 100"}, **layout)


def _offsets(count: int) -> np.ndarray:
    """Return small distances around 0, so that several dots of one row do not hide each other."""
    return np.linspace(-0.25, 0.25, count) if count > 1 else np.zeros(count)
