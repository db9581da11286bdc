"""The larger commands, each a typer application that `cli` puts under `workbench`."""

from workbench.commands._runs import Runs, runs_app
from workbench.commands._sweep import sweep_app
