"""The larger commands, each a typer application that `cli` puts under `workbench`."""

from workbench.commands._runs import runs_app
from workbench.commands._sweep import sweep_app

__all__ = ["runs_app", "sweep_app"]
