"""What a setting does: dev and test against its values, from finished runs, and the value that dev chooses."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.config import CONFIGS
from workbench.look._style import coloured, laid_out, nothing_yet, plain
from workbench.look.comparison import readable
from workbench.runs import Run, read_rows, scored

_COLUMNS = ["label", "value", "seeds", "dev", "dev_std", "test", "test_std"]


def response(
    runs_root: str | Path, setting: str, suite: str, *, paths: Iterable[str | Path] | None = None
) -> pd.DataFrame:
    """label, value, seeds, dev, dev_std, test, test_std: means and deviations over seeds, in [-1, 1].

    A label is a method with whatever else varies; dev is the best of a run's training, which chose its checkpoint.

    Args:
        runs_root: Folder of runs; those are taken that have the setting and were scored on the suite.
        setting: On which axis.
        suite: Of test.
        paths: Only these runs, such as `[sweep.path(cell) for cell in sweep.cells]`; None: all.
    """
    wanted = None if paths is None else {Path(path).resolve() for path in paths}
    rows = [row for row in read_rows(runs_root) if row["status"] == "finished" and suite in scored(row)]
    rows = [row for row in rows if setting in row["settings"]]
    rows = [row for row in rows if wanted is None or Path(row["path"]).resolve() in wanted]
    found = []
    for row, label in zip(rows, _others(rows, setting), strict=True):
        history = readable(row["path"], Run.history)
        dev = None
        if history is not None and "dev_spearman" in history:
            dev = history.loc[history["step"] > 0, "dev_spearman"].max()
        value = row["settings"][setting]
        found.append((label, str(value) if isinstance(value, list | dict) else value, dev, scored(row)[suite][0]))
    table = pd.DataFrame(found, columns=["label", "value", "dev", "test"]).astype({"dev": float, "test": float})
    kinds = {"dev": ("dev", "mean"), "dev_std": ("dev", "std"), "test": ("test", "mean"), "test_std": ("test", "std")}
    spread = table.groupby(["label", "value"], dropna=False).agg(seeds=("test", "size"), **kinds)
    return spread.reset_index().reindex(columns=_COLUMNS)


def _others(rows: list[dict[str, Any]], setting: str) -> list[str]:
    """Of each run its method, and what varies besides the setting and the seed."""
    alike: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        alike[row["method"]].append(row["settings"])
    varying = {
        method: {name for each in found for name in {**each, **found[0]} if each.get(name) != found[0].get(name)}
        for method, found in alike.items()
    }
    labels = []
    for row in rows:
        outside = {setting, "seed", *CONFIGS[row["method"]].outside_digest} - {"profile"}
        varied = [n for n in row["settings"] if n not in outside and n in varying[row["method"]]]
        text = ", ".join(f"{name}={row['settings'][name]}" for name in varied)
        labels.append(f"{row['method']} ({text})" if text else str(row["method"]))
    return labels


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
        names = [f"{value:g}" if isinstance(value, int | float) else plain(value) for value in rows["value"]]
        for column, kind in enumerate(("dev", "test"), start=1):
            ringed = [label in best.index and value == best.loc[label, "value"] for value in rows["value"]]
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
    figure.update_xaxes(title=plain(setting), type="category")
    return laid_out(figure, f"Spearman x 100 by {plain(setting)}; ringed: chosen on dev")
