"""Runs on disk: the directory of one run (what was asked, what happened, what came out), and the list of all."""

from workbench.runs._listing import SCORE, list_runs, metrics_table, shown_runs
from workbench.runs._run import Run, folder_of_runs, is_finished, run_path

__all__ = ["SCORE", "Run", "folder_of_runs", "is_finished", "list_runs", "metrics_table", "run_path", "shown_runs"]
