"""Small tables for notebooks, and how notebooks show tables."""

import sys
from collections.abc import Mapping
from html import escape
from typing import Any

import pandas as pd
import plotly.io as pio

from workbench.runs import Run, metrics_table
from workbench.views._style import FIGURE_RULES, figure_theme

_ROWS = 200  # of a longer table its two ends: a page with all the pairs of a run would be megabytes


def show_tables() -> None:
    """Show tables of this notebook with whole texts, aligned left, markup and dollars as they are."""
    pio.templates["workbench"] = figure_theme()
    pio.templates.default = "workbench"
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if ipython and shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, table_html)
        ipython.display.display_html(f"<style>{FIGURE_RULES}</style>", raw=True)


def table_html(table: pd.DataFrame) -> str:
    """Return the table as HTML, of more than 200 rows the two ends; an index with a name is a column."""
    if named := table.index.name is not None and table.columns.nlevels == 1:
        table = table.set_axis(table.columns.astype(object).rename(None), axis=1).reset_index(allow_duplicates=True)
    shown = table.rename(index=_escaped, columns=_escaped)
    texts = [not (pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind)) for kind in table.dtypes]
    options: Any = {"formatters": [_text_cell if text else None for text in texts], "max_rows": _ROWS}
    with pd.option_context("display.max_colwidth", None):
        return shown.to_html(
            index=not named, **options, escape=False, classes="mathjax_ignore", na_rep="", show_dimensions="truncate"
        )


def _escaped(name: Any) -> Any:
    return _text_cell(name) if isinstance(name, str) else name


def _text_cell(value: Any) -> str:
    text = "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)
    room = "min-width:12em;overflow-wrap:anywhere" if len(text) > 30 else "white-space:nowrap"
    return f'<div style="text-align:left;{room}">{escape(text)}</div>'


def score_table(evaluations: Mapping[str, Any]) -> pd.DataFrame:
    """Return suite, Spearman, KCC, NDCG x 100 of evaluations, a row for each label and suite.

    Args:
        evaluations: label -> a `Report` or a finished `Run`.
    """
    metrics = {label: one.metrics() if isinstance(one, Run) else one.metrics for label, one in evaluations.items()}
    return pd.concat({label: metrics_table(one) for label, one in metrics.items()}).droplevel(1).round(2)


def dev_table(history: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return step, loss, `columns` of the history, Spearman on dev x 100 and seconds of each measurement of dev."""
    shown = history.reindex(columns=["step", "loss", *columns, "dev_spearman", "seconds"])
    shown = shown.dropna(subset=["dev_spearman"]).set_index("step").round(4)
    shown["dev_spearman"] = (100 * shown["dev_spearman"]).round(2)
    return shown.rename(columns={"dev_spearman": "Spearman on dev x 100"})
