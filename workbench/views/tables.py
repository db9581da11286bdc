"""Small tables for notebooks, and how tables are shown there."""

import re
import sys
from collections.abc import Mapping
from html import escape
from typing import Any

import pandas as pd

from workbench.runs import Run, metrics_table
from workbench.views._style import FIGURE_RULES

_NUMBERS = re.compile(r"(?<=\d) (±|to) (?=[-+\d])")  # between two of them no line ends
# What scrolls sideways fades out where there is more: a bar stands at a table's end, if one is shown at all.
_RULES = (
    FIGURE_RULES
    + """
@property --end { syntax: "<number>"; inherits: false; initial-value: 1; }
@keyframes more { from, 95% { --end: 0; } }
:has(> table.dataframe.mathjax_ignore) {
  animation: more linear; animation-timeline: scroll(self inline);
  mask-image: linear-gradient(to left, rgb(0 0 0 / var(--end)), black 5em);
}"""
)
_ROWS = 200  # of a longer table its two ends: a page with all the pairs of a run would be megabytes


def show_tables() -> None:
    """From here on tables of this notebook have whole texts, at the left: a dollar as a dollar, markup as text.

    And a cell that is run before the one that makes its names says so.
    """
    pd.set_option("display.max_colwidth", None)
    ipython = sys.modules.get("IPython")  # loaded where there is a notebook, and only there
    shell = ipython.get_ipython() if ipython else None
    if ipython and shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, table_html)
        ipython.display.display_html(f"<style>{_RULES}</style>", raw=True)


def table_html(table: pd.DataFrame) -> str:
    """The table as HTML, of more than 200 rows the two ends; text at the left, which pandas has at the right.

    An index with a name is a column like the others, else its name would be a row.
    """
    named = table.index.nlevels == table.columns.nlevels == 1 and table.index.name is not None
    if named:  # beside columns of any kind: of categories, or of the index's own name
        table = table.set_axis(table.columns.astype(object), axis=1).reset_index(allow_duplicates=True)
    texts = [not (pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind)) for kind in table.dtypes]
    headings = [_at_the_left(name) if text else _escaped(name) for name, text in zip(table, texts, strict=True)]
    shown = table.set_axis(headings, axis=1).rename(index=_row_name)
    for place in [place for place, text in enumerate(texts) if text]:  # pandas 2 writes None, whatever na_rep is
        column = shown.iloc[:, place].astype(object)
        shown.isetitem(place, column.where(column.notna(), ""))
    formats: Any = [_at_the_left if text else None for text in texts]
    short: Any = {"max_rows": _ROWS, "show_dimensions": "truncate"}
    return shown.to_html(
        index=not named, formatters=formats, escape=False, classes="mathjax_ignore", na_rep="", **short
    )


def beside(found: Mapping[str, Any]) -> pd.DataFrame:
    """Evaluations under each other: a row a label and suite; Spearman, KCC and NDCG x 100, two decimals.

    found: label -> a `Report` or a finished `Run`.
    """
    tables: dict[Any, pd.DataFrame] = {
        label: metrics_table(one.metrics() if isinstance(one, Run) else one.metrics) for label, one in found.items()
    }
    return pd.concat(tables).droplevel(1).rename_axis(None).round(2)


def dev_table(history: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """step | loss | `columns` of the history | Spearman on dev x 100 | seconds, a row a measured step."""
    shown = history.reindex(columns=["step", "loss", *columns, "dev_spearman", "seconds"])
    shown = shown.dropna(subset=["dev_spearman"]).set_index("step").round(4)
    shown["dev_spearman"] = (100 * shown["dev_spearman"]).round(2)
    return shown.rename(columns={"dev_spearman": "Spearman on dev x 100"})


def _escaped(name: Any) -> Any:
    return escape(name) if isinstance(name, str) else name


def _row_name(name: Any) -> Any:
    long = isinstance(name, str) and len(name) > 20
    return f'<div style="min-width:7em">{escape(name)}</div>' if long else _escaped(name)


def _at_the_left(value: Any) -> str:
    text = "" if value is None else str(value)
    room = 12 if len(text) > 40 else 6 if len(text) > 12 else 0  # a number as text needs no more than it has
    wide = f";min-width:{room}em" if room else ""
    wide += ";overflow-wrap:anywhere" if room == 12 else ""  # a list of suites in a command has no space
    unbroken = _NUMBERS.sub(r"&nbsp;\1&nbsp;", escape(text))
    return f'<div style="text-align:left{wide}">{unbroken}</div>'
