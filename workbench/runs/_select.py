"""Select runs by filters on their settings, scores and state, or by the beginning of a name."""

import operator
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.config import RECORDED
from workbench.errors import RunError, SettingError, unknown_name
from workbench.runs._listing import ACCURACY, SCORE, list_folders, read_rows, scored
from workbench.runs._run import Run, folder_of_runs

_FILTER = re.compile(r"(?P<name>.+?)\s*(?P<sign>!=|<=|>=|=|<|>)\s*(?P<value>.*)", re.DOTALL)
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_FIRST = ["method", "profile", "seed", "digest", "status", "changed"]
_LAST = ["started", "seconds", "host", "path"]
# A suite of one of these names keeps its measure in front: "spearman status".
_TAKEN = {*_FIRST, *_LAST, "run", "failure", *(name for each in RECORDED.values() for name in each.model_fields)}


def is_filter(word: str) -> bool:
    """Return whether a word reads as NAME=VALUE, with =, !=, <, <=, > or >=."""
    return _FILTER.fullmatch(word) is not None


def select_runs(
    root: str | Path = "runs", where: Iterable[str] = (), *, sort: str = "", columns: Sequence[str] = ()
) -> pd.DataFrame:
    """Return a row for each run under `root` for which every filter holds; scores are Spearman or accuracy x 100.

    Args:
        root: Folder of runs.
        where: Such as "method=rankcse", "seed<3", "status=failed", "world-test>=45", or any setting. No filter holds
            for a run that does not have the column, setting or suite it names.
        sort: A column, a suite or a setting; with - in front: descending.
        columns: Of the same names; by default method, profile, seed, digest, status, changed settings, all suites,
            started, seconds, host, path. A suite that is called like a column or a setting has its measure in front:
            "spearman status".

    Raises:
        SettingError: No run has a column, a suite or a setting of this name; a number is compared with a word.
    """
    read = read_rows(root)
    rows = [_named(row) for row in read]
    filters = [_filter(text) for text in where]
    known = {name for row in rows for name in row}
    for name in (*(name for name, _, _ in filters), *columns, *filter(None, [sort.removeprefix("-")])):
        if rows and name not in known:
            raise SettingError(unknown_name("column, suite or setting", name, known, "of a run"))
    for name, sign, value in filters:
        rows = [row for row in rows if name in row and _holds(row[name], sign, value)]
    suites = {name: not name.endswith("-average") for row in read for name in _scores(row)}
    shown = [suite for suite in sorted(suites, key=lambda suite: suites[suite]) if any(suite in row for row in rows)]
    names = list(dict.fromkeys(columns)) or [*_FIRST, *shown, *_LAST]
    if sort:
        keys = pd.Series([row.get(sort.removeprefix("-")) for row in rows], dtype=object)
        numbers = pd.to_numeric(keys, errors="coerce")
        order = (numbers if numbers.notna().any() else keys.astype("string")).sort_values(
            ascending=not sort.startswith("-"), kind="stable"
        )
        rows = [rows[place] for place in order.index]
    return pd.DataFrame([{name: row.get(name) for name in names} for row in rows], columns=names)


def _filter(text: str) -> tuple[str, str, str]:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise SettingError(f"{text!r} is not a filter; write NAME=VALUE, with =, !=, <, <=, > or >=")
    if not match["value"] and match["sign"] != "=":  # an empty shell variable, which would select everything
        raise SettingError(f"{text!r} has no value after {match['sign']}")
    return match["name"], match["sign"], match["value"]


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Return a run's settings, scores x 100 and facts by name."""
    nested = ("settings", "facts", SCORE, ACCURACY)
    facts = {name: value for name, value in row.items() if not name.startswith(nested)}
    return {**(row.get("settings") or {}), **_scores(row), **facts}


def _scores(row: dict[str, Any]) -> dict[str, float]:
    """Return the scores of a run x 100, by the names of their columns."""
    named = {f"{kind} {suite}" if suite in _TAKEN else suite: value for suite, (value, kind) in scored(row).items()}
    return {name: round(100 * value, 2) for name, value in named.items()}


def _holds(value: Any, sign: str, wanted: str) -> bool:
    """Compare as numbers if both are, otherwise as texts; the status "unreadable: ..." equals its first word."""
    ours, theirs = _comparable(value), _comparable(wanted)
    if sign in ("=", "!="):
        first = ours.partition(":")[0] if isinstance(ours, str) else ours
        return (theirs in (ours, first)) == (sign == "=")
    if value is None:
        return False
    if isinstance(ours, float) and not isinstance(theirs, float):
        raise SettingError(f"{sign}{wanted}: expected a number, as in 'seed<3'")
    if type(ours) is not type(theirs):  # a text and a number: both as texts
        theirs = wanted.lower()
    return _COMPARE[sign](ours, theirs)


def _comparable(value: Any) -> float | str:
    if isinstance(value, list):
        return ",".join(map(str, value)).lower()
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value).lower()


def find_run(name: str, root: str | Path = "runs") -> Run:
    """Return the run in a folder, or the only one under `root` whose name, with or without its method, begins so.

    Raises RunError if there is none, or several.
    """
    if _is_folder(name):
        return Run(name)
    wanted = name.strip("/")
    folders = list_folders(root) if wanted else []
    near = [path for path in folders if path.name.startswith(wanted)]
    near = near or [path for path in folders if f"{path.parent.name}/{path.name}".startswith(wanted)]
    if len(near) == 1:
        return Run(near[0])
    if not near:
        raise RunError(f"no run {name!r} under {folder_of_runs(root)}; list them with: workbench runs")
    shown = ", ".join(f"{path.parent.name}/{path.name}" for path in near[:8])
    raise RunError(f"{len(near)} runs begin with {name!r}: {shown}{', ...' if len(near) > 8 else ''}")


def _is_folder(word: str) -> bool:
    return (Path(word) / "config.json").is_file()


def choose_runs(words: Sequence[str], root: str | Path = "runs") -> list[Run]:
    """Return the runs of these names (as `find_run`), each once, or those for which all filters hold.

    Raises RunError if there is none, SettingError if names and filters are mixed.
    """
    where = [word for word in words if is_filter(word) and not _is_folder(word)]
    if not where:
        return list({run.path.resolve(): run for run in (find_run(name, root) for name in words)}.values())
    if len(where) < len(words):
        raise SettingError(f"{' '.join(words)}: either names of runs or filters, not both")
    chosen = select_runs(root, where)
    if chosen.empty:
        raise RunError(f"no runs under {folder_of_runs(root)} with {' '.join(where)}")
    return [Run(path) for path in chosen["path"]]
