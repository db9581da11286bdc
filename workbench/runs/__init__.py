"""Runs on disk: the folder of one run, and the list of all."""

from workbench.runs._listing import (
    choose_runs as choose_runs,
    encoder_name as encoder_name,
    find_run as find_run,
    list_runs as list_runs,
    main_suite as main_suite,
    needed_by as needed_by,
    read_row as read_row,
    read_rows as read_rows,
    remove_runs as remove_runs,
    short_value as short_value,
    split_common_settings as split_common_settings,
)
from workbench.runs._run import (
    AnyPath as AnyPath,
    Facts as Facts,
    Run as Run,
    finished_run as finished_run,
    held_lock as held_lock,
    is_finished as is_finished,
    lock_run as lock_run,
    read_json as read_json,
    read_stored_table as read_stored_table,
    root_of_needed as root_of_needed,
    run_path as run_path,
)
