"""What commands print: texts, tables, the scores of a run, and warnings about its encoder."""

import shutil
import sys
from pathlib import Path
from typing import Any

import typer

import workbench
from workbench.printing import printable


def echo(text: object, *, err: bool = False) -> None:
    """Print a text without control characters."""
    typer.echo(printable(text), err=err)


def print_table(table: Any) -> None:
    """Print a table as aligned text, on a terminal with its cells cut to its width."""
    import pandas as pd

    # A pipe or a file gets every cell whole.
    width = None
    if sys.stdout.isatty():
        width = max(48, shutil.get_terminal_size().columns // table.shape[1])
    shown = table.astype(object).where(table.notna(), "")
    # A sign of Chinese or Japanese takes two places.
    with pd.option_context("display.unicode.east_asian_width", True):
        echo(shown.to_string(index=False, float_format="{:.2f}".format, max_colwidth=width))
    if caption := table.attrs.get("caption"):
        echo(caption)


def print_scores(run: Any) -> None:
    """Print the scores of a run: before training, if it was trained, and once it is finished."""
    titles = {"": "scores:"}
    if run.has("before"):
        titles = {"before": "before training:", "": "after:"}
    for stage, title in titles.items():
        if run.has(stage):
            echo(title)
            print_table(workbench.metrics.metrics_table(run.metrics(stage)))


def warn_of(folder: Path) -> str:
    """Return and print a warning if training did not improve the encoder of a run.

    The folder is that of the run or its `encoder/`; of any other folder nothing is known.
    """
    from workbench.views import read_or_warn, warning_of

    path = folder.parent if folder.name == "encoder" else folder
    if not (workbench.runs.is_finished(path) and (path / "encoder").is_dir()):
        return ""
    warning = read_or_warn(path, warning_of) or ""
    if warning:
        echo(f"warning: {path} is {warning}", err=True)
    return warning
