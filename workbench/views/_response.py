"""What one setting does, or two: dev and test against their values, from finished runs, and what dev chooses."""

from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.errors import SettingError, unknown_name
from workbench.files import set_name
from workbench.runs import Run, read_rows, scored
from workbench.views._style import COLOURS, coloured, laid_out, nothing_yet, plain
from workbench.views.comparison import labels_of, readable

_COLUMNS = ["label", "value", "second", "seeds", "dev", "dev_std", "test", "test_std"]


def response(
    runs_root: str | Path,
    setting: str | tuple[str, str],
    suite: str,
    *,
    paths: Iterable[str | Path] | None = None,
) -> pd.DataFrame:
    """label, value, seeds, dev, dev_std, test, test_std: means and deviations over seeds, in [-1, 1].

    Of two settings also `second`, behind value: that of the second.

    A label is a method with whatever else varies; dev is the best of a run's training, which chose its checkpoint.

    Args:
        runs_root: Folder of runs; those are taken that have the setting, or both, and were scored on the suite.
        setting: On which axis; two: for `response_map`.
        suite: Of test.
        paths: Only these runs, such as `[sweep.path(cell) for cell in sweep.cells]`; None: all.

    Raises:
        SettingError: Runs were scored on the suite, and none has a setting of this name.
    """
    suite = set_name(suite)
    settings = (setting,) if isinstance(setting, str) else setting
    wanted = None if paths is None else {Path(path).resolve() for path in paths}
    rows = [row for row in read_rows(runs_root) if row["status"] == "finished" and suite in scored(row)]
    known = {name for row in rows for name in row["settings"]}
    for name in settings:
        if rows and name not in known:
            raise SettingError(unknown_name("setting", name, known, "of these runs"))
    rows = [row for row in rows if set(settings) <= set(row["settings"])]
    rows = [row for row in rows if wanted is None or Path(row["path"]).resolve() in wanted]
    found = []
    for row, label in zip(rows, labels_of(rows, settings), strict=True):
        history = readable(row["path"], Run.history)
        dev = None
        if history is not None and "dev_spearman" in history:
            dev = history.loc[history["step"] > 0, "dev_spearman"].max()
        values = [row["settings"][name] for name in settings]
        shown = [str(value) if isinstance(value, list | dict) else value for value in values]
        found.append((label, *shown, dev, scored(row)[suite][0]))
    axes = ["value", "second"][: len(settings)]
    table = pd.DataFrame(found, columns=["label", *axes, "dev", "test"]).astype({"dev": float, "test": float})
    kinds = {"dev": ("dev", "mean"), "dev_std": ("dev", "std"), "test": ("test", "mean"), "test_std": ("test", "std")}
    spread = table.groupby(["label", *axes], dropna=False).agg(seeds=("test", "size"), **kinds)
    columns = [name for name in _COLUMNS if name != "second" or len(settings) > 1]
    return spread.reset_index().reindex(columns=columns)


def chosen_on_dev(table: pd.DataFrame) -> pd.DataFrame:
    """The row of each label whose dev is best: its test is what may be reported, once."""
    known = table.dropna(subset=["dev"])
    return known.loc[known.groupby("label")["dev"].idxmax()].reset_index(drop=True)


def response_curves(table: pd.DataFrame, setting: str, suite: str) -> go.Figure:
    """Dev (left) and test (right) x 100 against a setting, ± deviation over seeds; what dev chooses is ringed.

    table: as `response` gives it. Values stand at equal distances, because grids are rarely of equal steps.
    """
    if table.empty:
        return nothing_yet()
    figure = make_subplots(1, 2, subplot_titles=("dev", plain(suite)), shared_yaxes=False, horizontal_spacing=0.1)
    best = chosen_on_dev(table).set_index("label")
    for colour, (label, rows) in coloured(table.groupby("label", sort=False)):
        names = list(map(_named, rows["value"]))
        for column, kind in enumerate(("dev", "test"), start=1):
            ringed = [label in best.index and name == _named(best.loc[label, "value"]) for name in names]
            figure.add_scatter(
                x=names,
                y=100 * rows[kind],
                error_y={"array": 100 * rows[f"{kind}_std"].fillna(0)},
                mode="lines+markers",
                marker={
                    "color": colour,
                    "size": [14 if ring else 7 for ring in ringed],
                    "symbol": ["circle-open" if ring else "circle" for ring in ringed],
                },
                line={"color": colour},
                name=plain(label),
                legendgroup=str(label),
                showlegend=kind == "dev",
                row=1,
                col=column,
            )
    figure.update_xaxes(title=plain(setting), **_axis(table["value"]))
    return laid_out(figure, f"Spearman x 100 by {plain(setting)}; ringed: chosen on dev")


def response_map(table: pd.DataFrame, settings: tuple[str, str], suite: str) -> go.Figure:
    """Dev (left) and test (right) x 100 by two settings, a row of maps a label; what dev chooses is framed.

    table: as `response` gives it for the two; a cell shows its mean and, over several seeds, ± their deviation.
    """
    if table.empty:
        return nothing_yet()
    labels = list(dict.fromkeys(table["label"]))
    titles = [plain(f"{label}: {kind}") for label in labels for kind in ("dev", suite)]
    figure = make_subplots(len(labels), 2, subplot_titles=titles, horizontal_spacing=0.15)
    best = chosen_on_dev(table).set_index("label")
    for row, label in enumerate(labels, start=1):
        of_label = table.loc[table["label"] == label]
        for column, kind in enumerate(("dev", "test"), start=1):
            figure.add_trace(_map(of_label, kind), row=row, col=column)
            if label in best.index:
                frame = {"symbol": "square-open", "size": 40, "color": COLOURS[1], "line": {"width": 4}}
                place = {"x": [_named(best.loc[label, "value"])], "y": [_named(best.loc[label, "second"])]}
                figure.add_scatter(**place, mode="markers", marker=frame, showlegend=False, row=row, col=column)
    figure.update_xaxes(title=plain(settings[0]), **_axis(table["value"]))
    figure.update_yaxes(title=plain(settings[1]), **_axis(table["second"]))
    title = f"Spearman x 100 by {plain(settings[0])} and {plain(settings[1])}; framed: chosen on dev"
    return laid_out(figure, title, height=80 + 300 * len(labels))


def _map(rows: pd.DataFrame, kind: str) -> go.Heatmap:
    texts = [
        "" if pd.isna(mean) else f"{100 * mean:.1f}" + ("" if pd.isna(std) else f"<br>± {100 * std:.1f}")
        for mean, std in zip(rows[kind], rows[f"{kind}_std"], strict=True)
    ]
    return go.Heatmap(
        x=list(map(_named, rows["value"])),
        y=list(map(_named, rows["second"])),
        z=100 * rows[kind],
        text=texts,
        texttemplate="%{text}",
        colorscale="Blues",
        showscale=False,
    )


def _axis(values: Iterable[Any]) -> dict[str, Any]:
    """An axis of the values in their order, also where a grid has gaps: numbers by size, texts, unset."""

    def place(value: Any) -> tuple[int, Any]:
        return (1, value) if isinstance(value, str) else (2, 0) if pd.isna(value) else (0, value)

    names = list(dict.fromkeys(map(_named, sorted(values, key=place))))
    return {"type": "category", "categoryorder": "array", "categoryarray": names}


def _named(value: Any) -> str:
    if pd.isna(value):
        return "None"  # pandas has nan where a setting is None
    if isinstance(value, bool | np.bool_):
        return str(value)
    return f"{value:g}" if isinstance(value, Real) else plain(value)
