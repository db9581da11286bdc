"""The response to one or two settings: scores on dev and test by their values, and the values that dev chooses."""

from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.config import ALIASES
from workbench.errors import SettingError, unknown_name
from workbench.files import set_name
from workbench.runs import Run, read_rows
from workbench.views._style import coloured, laid_out, nothing_yet, plain
from workbench.views.finished import label_runs, read_or_warn


def response(
    runs_root: str | Path,
    setting: str | tuple[str, str],
    suite: str,
    *,
    paths: Sequence[str | Path] | None = None,
) -> pd.DataFrame:
    """Return label, value, seeds, dev, dev_std, test, test_std: means and deviations over seeds, in [-1, 1].

    A label is a method with whatever else varies. dev is the best of a run's training, which chose its checkpoint.

    Args:
        runs_root: Folder of runs; those that have the setting and were scored on the suite are taken.
        setting: One setting, or two: the table then has `second`, the value of the second.
        suite: Of test.
        paths: Only these runs, such as `[sweep.path(cell) for cell in sweep.cells]`.

    Raises:
        SettingError: No run that was scored on the suite has a setting of this name.
    """
    suite, settings = set_name(suite), (setting,) if isinstance(setting, str) else setting
    settings = tuple(ALIASES.get(name, name) for name in settings)
    rows = [row for row in read_rows(runs_root) if row["status"] == "finished" and suite in row["scores"]]
    names = {name for row in rows for name in row["settings"]}
    if rows and (unknown := set(settings) - names):
        raise SettingError(unknown_name("setting", min(unknown), names, "of these runs"))
    chosen = {Path(path).resolve() for path in ([row["path"] for row in rows] if paths is None else paths)}
    rows = [row for row in rows if set(settings) <= {*row["settings"]} and Path(row["path"]).resolve() in chosen]
    axes, values = ["value", "second"][: len(settings)], []
    for row, label in zip(rows, label_runs(rows, settings), strict=True):
        place = [row["settings"][name] for name in settings]
        place = [str(value) if isinstance(value, list | dict) else value for value in place]
        values.append((label, *place, read_or_warn(row["path"], read_dev), row["scores"][suite][0]))
    table = pd.DataFrame(values, columns=["label", *axes, "dev", "test"]).astype({"dev": float, "test": float})
    kinds = {f"{kind}{end}": (kind, how) for kind in ("dev", "test") for end, how in (("", "mean"), ("_std", "std"))}
    return table.groupby(["label", *axes], dropna=False).agg(seeds=("test", "size"), **kinds).reset_index()


def kept_checkpoint(history: pd.DataFrame) -> Any:
    """Return the row of the checkpoint that was kept: the best on dev after step 0, otherwise the last."""
    trained = history.loc[history["step"] > 0]
    if trained.get("dev_spearman", pd.Series(dtype=float)).isna().all():
        return trained.iloc[-1]
    return trained.loc[trained["dev_spearman"].idxmax()]


def read_dev(run: Run) -> float | None:
    """Return the Spearman on dev of the checkpoint that was kept, in [-1, 1]; None if dev was not measured."""
    return kept_checkpoint(run.history()).get("dev_spearman")


def chosen_on_dev(table: pd.DataFrame) -> pd.DataFrame:
    """Return the row of each label whose dev is best: its test may be reported, once."""
    measured = table.dropna(subset=["dev"])
    return measured.loc[measured.groupby("label")["dev"].idxmax()].reset_index(drop=True)


def response_curves(table: pd.DataFrame, setting: str, suite: str) -> go.Figure:
    """Draw dev (left) and test (right) x 100 by a setting, ± deviation over seeds; the choice of dev is ringed.

    The values of `table`, as `response` returns it, are at equal distances: grids rarely have equal steps.
    """
    if table.empty:
        return nothing_yet()
    figure, best = make_subplots(1, 2, subplot_titles=("dev", plain(suite))), chosen_on_dev(table).set_index("label")
    for colour, (label, rows) in coloured(table.groupby("label", sort=False)):
        names = rows["value"].map(_axis_name)
        ringed = [label in best.index and name == _axis_name(best.loc[label, "value"]) for name in names]
        for column, kind in enumerate(("dev", "test"), start=1):
            points = {"x": names, "y": 100 * rows[kind], "error_y": {"array": 100 * rows[f"{kind}_std"].fillna(0)}}
            marker = {"size": [14 if ring else 7 for ring in ringed], "color": colour}
            marker["symbol"] = ["circle-open" if ring else "circle" for ring in ringed]
            points |= {"mode": "lines+markers", "marker": marker, "line": {"color": colour}, "name": plain(label)}
            figure.add_scatter(**points, legendgroup=str(label), showlegend=kind == "dev", row=1, col=column)
    names = pd.Series(sorted(set(table["value"].map(_axis_name))))  # numbers by size, then texts
    order = pd.to_numeric(names, errors="coerce").sort_values(kind="stable").index
    axis = {"type": "category", "categoryorder": "array", "categoryarray": names[order].tolist()}
    figure.update_xaxes(title=plain(setting), **axis)
    return laid_out(figure, f"Spearman x 100 by {setting}; ringed: chosen on dev")


def _axis_name(value: Any) -> str:
    if pd.isna(value):
        return "None"  # pandas has nan for a setting that is None
    return f"{value:g}" if isinstance(value, Real) and not isinstance(value, bool) else plain(value)
