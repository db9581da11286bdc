"""Runs on disk: the directory of one run (what was asked, what happened, what came out), and the list of all."""

from workbench.runs._listing import SCORE, list_folders, list_runs, metrics_table, shown_runs
from workbench.runs._run import Run, folder_of_runs, run_path
from workbench.runs._state import failure_of, forget_failure, is_finished, is_running, note_failure

__all__ = [
    "SCORE",
    "Run",
    "failure_of",
    "folder_of_runs",
    "forget_failure",
    "is_finished",
    "is_running",
    "list_folders",
    "list_runs",
    "metrics_table",
    "note_failure",
    "run_path",
    "shown_runs",
]
