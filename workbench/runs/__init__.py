"""Runs on disk: the directory of one run (what was asked, what happened, what came out), and the list of all."""

from workbench.runs._archive import export_runs, import_runs, needed_by, remove_runs, require_removable
from workbench.runs._listing import (
    ACCURACY,
    SCORE,
    list_folders,
    list_runs,
    metrics_table,
    read_rows,
    scored,
    told_apart,
)
from workbench.runs._run import Run, folder_of_runs, run_path
from workbench.runs._select import choose_runs, find_run, is_filter, select_runs, why_none
from workbench.runs._state import (
    clock,
    counted,
    failure_of,
    forget_failure,
    is_finished,
    is_running,
    note_failure,
    read_json,
)
