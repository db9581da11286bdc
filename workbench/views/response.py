"""The response to one or two settings: scores on dev and test by their values, and the values that dev chooses."""

from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.config import ALIASES
from workbench.errors import SettingError, unknown_name
from workbench.files import set_name
from workbench.runs import Run, read_rows
from workbench.views._style import COLOURS, coloured, laid_out, nothing_yet, plain
from workbench.views.finished import label_runs, read_or_warn


def response(
    runs_root: str | Path,
    setting: str | tuple[str, str],
    suite: str,
    *,
    paths: Iterable[str | Path] | None = None,
) -> pd.DataFrame:
    """Return label, value, seeds, dev, dev_std, test, test_std: means and deviations over seeds, in [-1, 1].

    A label is a method with whatever else varies. dev is the best of a run's training, which chose its checkpoint.

    Args:
        runs_root: Folder of runs; those that have the setting and were scored on the suite are taken.
        setting: One setting; or two, for `response_map`: the table then has `second`, the value of the second.
        suite: Of test.
        paths: Only these runs, such as `[sweep.path(cell) for cell in sweep.cells]`; None: all.

    Raises:
        SettingError: Runs were scored on the suite, and none has a setting of this name.
    """
    suite, settings = set_name(suite), (setting,) if isinstance(setting, str) else setting
    settings = tuple(ALIASES.get(name, name) for name in settings)
    rows = [row for row in read_rows(runs_root) if row["status"] == "finished" and suite in row["scores"]]
    known = {name for row in rows for name in row["settings"]}
    for name in settings:
        if rows and name not in known:
            raise SettingError(unknown_name("setting", name, known, "of these runs"))
    wanted = None if paths is None else {Path(path).resolve() for path in paths}
    rows = [row for row in rows if set(settings) <= set(row["settings"])]
    rows = [row for row in rows if wanted is None or Path(row["path"]).resolve() in wanted]
    found = []
    for row, label in zip(rows, label_runs(rows, settings), strict=True):
        values = [row["settings"][name] for name in settings]
        shown = [str(value) if isinstance(value, list | dict) else value for value in values]
        found.append((label, *shown, read_or_warn(row["path"], best_dev), row["scores"][suite][0]))
    axes = ["value", "second"][: len(settings)]
    table = pd.DataFrame(found, columns=["label", *axes, "dev", "test"]).astype({"dev": float, "test": float})
    kinds = {f"{kind}{end}": (kind, how) for kind in ("dev", "test") for end, how in (("", "mean"), ("_std", "std"))}
    return table.groupby(["label", *axes], dropna=False).agg(seeds=("test", "size"), **kinds).reset_index()


def best_dev(run: Run) -> float | None:
    """Return the Spearman on dev of the checkpoint that was kept, in [-1, 1]; None if dev was not measured."""
    history = run.history()
    return history.loc[history["step"] > 0, "dev_spearman"].max() if "dev_spearman" in history else None


def chosen_on_dev(table: pd.DataFrame) -> pd.DataFrame:
    """Return the row of each label whose dev is best: its test may be reported, once."""
    known = table.dropna(subset=["dev"])
    return known.loc[known.groupby("label")["dev"].idxmax()].reset_index(drop=True)


def response_curves(table: pd.DataFrame, setting: str, suite: str) -> go.Figure:
    """Draw dev (left) and test (right) x 100 by a setting, ± deviation over seeds; the choice of dev is ringed.

    The values of `table`, as `response` returns it, are at equal distances: grids rarely have equal steps.
    """
    if table.empty:
        return nothing_yet()
    figure = make_subplots(1, 2, subplot_titles=("dev", plain(suite)))
    best = chosen_on_dev(table).set_index("label")
    for colour, (label, rows) in coloured(table.groupby("label", sort=False)):
        names = list(map(_axis_name, rows["value"]))
        chosen = [label in best.index and name == _axis_name(best.loc[label, "value"]) for name in names]
        for column, kind in enumerate(("dev", "test"), start=1):
            figure.add_scatter(
                x=names,
                y=100 * rows[kind],
                error_y={"array": 100 * rows[f"{kind}_std"].fillna(0)},
                mode="lines+markers",
                marker={"size": np.where(chosen, 14, 7), "symbol": np.where(chosen, "circle-open", "circle")},
                line={"color": colour},
                name=plain(label),
                legendgroup=str(label),
                showlegend=kind == "dev",
                row=1,
                col=column,
            )
    figure.update_xaxes(title=plain(setting), **_axis(table["value"]))
    return laid_out(figure, f"Spearman x 100 by {setting}; ringed: chosen on dev")


def response_map(table: pd.DataFrame, settings: tuple[str, str], suite: str) -> go.Figure:
    """Draw dev (left) and test (right) x 100 by two settings, a row for each label; the choice of dev is framed.

    Cells show mean and deviation over seeds of `table`, as `response` returns it for two settings.
    """
    if table.empty:
        return nothing_yet()
    labels = list(dict.fromkeys(table["label"]))
    titles = [plain(f"{label}: {kind}") for label in labels for kind in ("dev", suite)]
    figure = make_subplots(len(labels), 2, subplot_titles=titles, horizontal_spacing=0.15)
    for place, label in enumerate(labels, start=1):
        rows: Any = table[table["label"] == label]
        best = chosen_on_dev(rows)
        axes, frame = ([one[name].map(_axis_name) for name in ("value", "second")] for one in (rows, best))
        for column, kind in enumerate(("dev", "test"), start=1):
            means, deviations = 100 * rows[kind], 100 * rows[f"{kind}_std"]
            texts = means.map("{:.1f}".format) + deviations.map("<br>± {:.1f}".format)
            texts = texts.replace({"<br>± nan": "", "^nan$": ""}, regex=True)
            cells = go.Heatmap(x=axes[0], y=axes[1], z=means, text=texts, texttemplate="%{text}")
            figure.add_trace(cells.update(colorscale="Blues", showscale=False), row=place, col=column)
            marker = {"symbol": "square-open", "size": 40, "color": COLOURS[1], "line": {"width": 4}}
            around = go.Scatter(x=frame[0], y=frame[1], mode="markers", marker=marker, showlegend=False)
            figure.add_trace(around, row=place, col=column)
    figure.update_xaxes(title=plain(settings[0]), **_axis(table["value"]))
    figure.update_yaxes(title=plain(settings[1]), **_axis(table["second"]))
    title = f"Spearman x 100 by {settings[0]} and {settings[1]}; framed: chosen on dev"
    return laid_out(figure, title, height=80 + 300 * len(labels))


def _axis(values: Iterable[Any]) -> dict[str, Any]:
    """Return an axis of the values in their order: numbers by size, texts, unset."""

    def place(value: Any) -> tuple[int, Any]:
        return (1, value) if isinstance(value, str) else (2, 0) if pd.isna(value) else (0, value)

    names = list(dict.fromkeys(map(_axis_name, sorted(values, key=place))))
    return {"type": "category", "categoryorder": "array", "categoryarray": names}


def _axis_name(value: Any) -> str:
    if pd.isna(value):
        return "None"  # pandas has nan for a setting that is None
    return f"{value:g}" if isinstance(value, Real) and not isinstance(value, bool | np.bool_) else plain(value)
