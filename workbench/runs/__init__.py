"""Runs on disk: the directory of one run (what was asked, what happened, what came out), and the list of all."""

from workbench.runs._listing import (
    ACCURACY as ACCURACY,
    SCORE as SCORE,
    list_folders as list_folders,
    list_runs as list_runs,
    metrics_table as metrics_table,
    read_rows as read_rows,
    scored as scored,
    setting_words as setting_words,
    short_value as short_value,
    told_apart as told_apart,
)
from workbench.runs._removal import (
    needed_by as needed_by,
    remove_runs as remove_runs,
    require_removable as require_removable,
)
from workbench.runs._run import Run as Run, folder_of_runs as folder_of_runs, run_path as run_path
from workbench.runs._select import (
    choose_runs as choose_runs,
    find_run as find_run,
    is_filter as is_filter,
    select_runs as select_runs,
)
from workbench.runs._state import (
    clock as clock,
    counted as counted,
    failure_of as failure_of,
    forget_failure as forget_failure,
    is_finished as is_finished,
    is_running as is_running,
    note_failure as note_failure,
    read_json as read_json,
)
