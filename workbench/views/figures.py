"""Tables to plotly figures: pure functions, no torch, no widget."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.files import set_name
from workbench.views._style import GREY, coloured, laid_out, letters, nothing_yet, plain, shortened, tick_names, wrapped
from workbench.views.pairs import gold_bands

_NO_TERM = {"step", "epoch", "learning_rate", "loss", "seconds"}  # columns of a history, beside its loss terms

_NEAR = 0.2  # of what is drawn: the same name twice within this would stand on itself


def training_curve(histories: Mapping[str, pd.DataFrame], *, terms: bool = False) -> go.Figure:
    """Dev Spearman x 100 (left) and loss (right) against the step, a colour a model; the best checkpoint is ringed.

    histories: label -> history.csv. `terms` draws each loss term instead of their sum.
    """
    figure = go.Figure()
    for colour, (label, found) in coloured(histories.items()):
        name, line = plain(label), {"color": colour}
        history = found.reindex(columns=[*dict.fromkeys([*found, "dev_spearman", "loss"])])
        dev = history.dropna(subset=["dev_spearman"])
        curve = {"x": dev["step"], "y": 100 * dev["dev_spearman"], "name": f"{name}: dev", "line": line}
        figure.add_scatter(**curve, mode="lines+markers")
        trained = dev.loc[dev["step"] > 0]
        if len(trained):
            best = trained.loc[trained["dev_spearman"].idxmax()]
            ring = {"symbol": "circle-open", "size": 16, "color": colour, "line": {"width": 2}}
            at = {"x": [best["step"]], "y": [100 * best["dev_spearman"]], "name": f"{name}: kept"}
            figure.add_scatter(**at, mode="markers", marker=ring)
        named = [c for c in history.columns if c not in _NO_TERM and not c.startswith(("dev_", "observed_"))]
        losses = history.dropna(subset=["loss"])
        for dash, column in zip(["dot", "dash", "dashdot", "longdash"], (terms and named) or ["loss"], strict=False):
            term = "loss" if column == label else column  # a method's one term may be called as the method is
            loss = {"x": losses["step"], "y": losses[column], "name": f"{name}: {term}", "yaxis": "y2"}
            figure.add_scatter(**loss, mode="lines", line={**line, "dash": dash, "width": 1.5})
    return laid_out(
        figure,
        "Dev Spearman and training loss",
        xaxis_title="training step",
        yaxis_title="Spearman on dev x 100",
        # Ticks of its own: plotly would put them beside those of the left axis, at crooked numbers.
        yaxis2={"title": "training loss", "overlaying": "y", "side": "right", "tickmode": "auto"},
        legend={"orientation": "h", "y": -0.25},
    )


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
    named: list[tuple[np.ndarray, str]] = []
    for colour, (label, path) in coloured(paths.items()):
        figure.add_scatter(
            x=path["dev_uniformity"],
            y=path["dev_alignment"],
            mode="lines+markers",
            name=plain(label),
            line={"color": colour},
            customdata=path[["step", "dev_spearman"]].mul([1, 100]).round(2),
            hovertemplate="step %{customdata[0]:.0f}<br>dev Spearman %{customdata[1]}<extra></extra>",
        )
        if len(path) > 1:
            _name_ends(figure, path["step"], path[plane].to_numpy(), extent, named)
    if len(every):
        room = 0.18 * extent  # for the names of the ends
        low, high = every.min() - room, every.max() + room
        figure.update_xaxes(range=[low["dev_uniformity"], high["dev_uniformity"]])
        figure.update_yaxes(range=[low["dev_alignment"], high["dev_alignment"]])
    return laid_out(
        figure,
        "Alignment and uniformity on dev (left and down is better)",
        xaxis_title="uniformity (log of a mean; smaller: more spread out)",
        yaxis_title="alignment (mean squared distance)",
        showlegend=len(paths) > 1,
    )


def _name_ends(figure: go.Figure, steps: pd.Series, path: np.ndarray, extent: np.ndarray, named: list[Any]) -> None:
    """Writes the steps at the ends of a path, once for all that lie near each other; `named`: what has one."""
    for end in (0, -1):
        place, text = path[end] / extent, f"step {steps.iloc[end]:.0f}"
        if any(given == text and np.hypot(*(place - other)) < _NEAR for other, given in named):
            continue
        named.append((place, text))
        right, up = (path[end] - path.mean(axis=0)) / extent  # away from where the path goes
        reach = 30 / max(float(np.hypot(right, up)), 1e-9)
        line = {"ax": reach * right, "ay": -reach * up, "arrowhead": 0, "arrowcolor": GREY}
        figure.add_annotation(x=path[end][0], y=path[end][1], text=text, font_color=GREY, **line)


def cosine_by_gold(
    scores: Mapping[str, pd.DataFrame], suite: str, *, bands: int = 5, score: str = "cosine"
) -> go.Figure:
    """The distribution of what is predicted in equal bands of gold, a colour a model (as SimCSE figure G.1).

    scores: label -> scores.csv. `score`: what is predicted, in a word. Well-ordered scores climb from band to band
    without overlap. Bands begin and end at whole numbers of gold. The line inside a shape is its mean.
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
        figure.add_violin(
            x=[names[i] for i in place],
            y=part["predicted"],
            name=plain(label),
            line={"color": colour, "width": 1},
            meanline={"visible": True},
            points=False,
            spanmode="hard",
            scalegroup=label,
        )
    figure.update_xaxes(categoryorder="array", categoryarray=names, title="gold score")
    figure.update_yaxes(title=f"{score} of the pair")
    return laid_out(figure, f"{score.capitalize()} by band of gold, {suite}", violinmode="group")


def cosine_maps(maps: Mapping[str, np.ndarray], names: Sequence[str]) -> go.Figure:
    """Cosines of n texts with each other, a map a model, all on one colour scale; lighter: closer (CompCSE figure 4).

    maps: label -> [n, n] cosines. names: of the texts; the columns have the letters that stand before them.
    """
    columns = letters(len(names))
    rows = [f"{letter}: {name}" for letter, name in zip(columns, tick_names(names, 30), strict=True)]
    figure = make_subplots(
        cols=len(maps), subplot_titles=tick_names(list(maps), 28), shared_yaxes=True, horizontal_spacing=0.03
    )
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
    """Spearman on dev x 100 against a setting, a line a column of `table` (as CoSENT figure 4).

    table: a row a value of `setting`; every other column holds a Spearman in [-1, 1]. `label`: of the axis. `paper`:
    the paper's value, marked where the table has it. Numbers are drawn in their order at equal distances, because
    sweeps are rarely of equal steps.
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
    """A dot a run with its interval over pairs, x 100, a row a label; seeds stand under each other.

    intervals: label, seed, value, low, high, as `look.intervals` gives them.
    """
    if intervals.empty:
        return nothing_yet()
    figure = go.Figure()
    labels = list(dict.fromkeys(intervals["label"]))
    for colour, (number, label) in coloured(enumerate(labels)):
        rows = intervals[intervals["label"] == label]
        bars = {"array": 100 * (rows["high"] - rows["value"]), "arrayminus": 100 * (rows["value"] - rows["low"])}
        heights, seeds = number + _spread_out(len(rows)), [f"seed {seed}" for seed in rows["seed"]]
        figure.add_scatter(
            x=100 * rows["value"],
            y=heights,
            mode="markers",
            name=plain(label),
            marker={"size": 8, "color": colour},
            error_x={"type": "data", "width": 3, **bars},
            text=seeds,
            hovertemplate=f"{plain(label)}, %{{text}}: %{{x:.2f}}<extra></extra>",
        )
        ends = 100 * pd.Series(rows["high"]).fillna(pd.Series(rows["value"]))  # few pairs have no interval
        behind = {"x": ends, "y": heights, "text": [f" {seed}" for seed in seeds], "mode": "text"}
        at = {"textposition": "middle right", "textfont": {"size": 10, "color": GREY}, "cliponaxis": False}
        figure.add_scatter(**behind, **at, hoverinfo="skip")
    title = f"Spearman on {suite}: a dot a seed, its 95% interval over pairs"
    return _in_rows(figure, labels, title, width=760, height=150 + 60 * len(labels), showlegend=False)


def part_scores(parts: pd.DataFrame) -> go.Figure:
    """Spearman x 100 on every suite and on every subset of a suite: mean over seeds, bars of one standard deviation.

    parts: label, part, mean, std (nan for one seed), as `look.parts` gives them, in [-1, 1].
    """
    if parts.empty:
        return nothing_yet()
    figure = go.Figure()
    names = list(dict.fromkeys(parts["part"]))
    labels = list(dict.fromkeys(parts["label"]))
    offsets = dict(zip(labels, _spread_out(len(labels)), strict=True))
    short = shortened(labels, 40)
    for colour, label in coloured(labels):
        rows = parts[parts["label"] == label]
        figure.add_scatter(
            x=100 * rows["mean"],
            y=[names.index(part) + offsets[label] for part in rows["part"]],
            mode="markers",
            name=wrapped(short[label], 24),
            marker={"size": 9, "color": colour},
            error_x={"type": "data", "array": 100 * np.nan_to_num(rows["std"]), "width": 3},
            text=[f"{plain(label)}, {plain(part)}" for part in rows["part"]],
            hovertemplate="%{text}: %{x:.2f}<extra></extra>",
        )
    height = max(170 + 50 * len(names), 140 + 40 * len(labels))  # room for the rows, and for the legend beside them
    title = "Spearman by suite and subset, mean over seeds ± one standard deviation"
    return _in_rows(figure, names, title, width=800, height=height, showlegend=True)


def _in_rows(figure: go.Figure, names: list[str], title: str, **layout: Any) -> go.Figure:
    """The layout of dots in rows with a name each, the first at the top."""
    axis = {"tickvals": list(range(len(names))), "ticktext": tick_names(names, 24), "automargin": True}
    figure.update_yaxes(**axis, range=[len(names) - 0.5, -0.5])
    return laid_out(figure, title, margin={"l": 40, "r": 40}, xaxis={"title": "Spearman x 100"}, **layout)


def _spread_out(count: int) -> np.ndarray:
    """Small offsets around 0, so that several dots of one row do not hide each other."""
    return np.linspace(-0.25, 0.25, count) if count > 1 else np.zeros(count)
