"""The larger commands, each a typer application that `cli` puts under `workbench`."""

from workbench.commands._runs import (
    Runs as Runs,
    metrics_text as metrics_text,
    runs_app as runs_app,
    with_folders as with_folders,
)
from workbench.commands._sweep import sweep_app as sweep_app
