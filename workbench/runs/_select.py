"""Runs by what they are: filters, order, columns; and one run by the beginning of its name."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.config import RECORDED
from workbench.errors import RunError, SettingError, did_you_mean, unknown_name
from workbench.runs._listing import ACCURACY, SCORE, list_folders, read_rows, scored
from workbench.runs._run import Run, folder_of_runs

_FILTER = re.compile(r"(?P<name>.+?)\s*(?P<sign>!=|<=|>=|=|<|>)\s*(?P<value>.*)", re.DOTALL)
_ALWAYS = ["method", "profile", "seed", "digest", "status", "changed"]
_VALUES = 12  # of a setting, that a refusal names
_AFTER = ["started", "seconds", "host", "path"]
# A suite of one of these names keeps its measure in front: "spearman status".
_TAKEN = {*_ALWAYS, *_AFTER, "run", "failure", *(name for each in RECORDED.values() for name in each.model_fields)}


def is_filter(word: str) -> bool:
    """Whether a word reads as NAME=VALUE, with =, !=, <, <=, > or >=."""
    return _FILTER.fullmatch(word) is not None


def select_runs(
    root: str | Path = "runs", where: Iterable[str] = (), *, sort: str = "", columns: Sequence[str] = ()
) -> pd.DataFrame:
    """The runs under `root` for which every filter holds, a row each; scores are Spearman or accuracy x 100.

    Args:
        root: Folder of runs.
        where: Such as "method=rankcse", "seed<3", "status=failed", "world-test>=45", or any setting. None holds for a
            run that does not have what it names, != neither.
        sort: A column, a suite or a setting; with - in front downwards.
        columns: Which, of the same names; none: method, profile, seed, digest, status, changed, the scores of all
            suites, started, seconds (of the headless run, in a sweep of its whole process), host, path. A suite that
            is called like a column or a setting has its measure in front: "spearman status".

    Where no run is left, `attrs["why none"]` says which of the filters none holds, and what values there are.

    Raises:
        SettingError: No run has a column, a suite or a setting of this name.
    """
    read, where = read_rows(root), list(where)
    rows = every = [_named(row) for row in read]
    for text in where:
        found = _FILTER.fullmatch(text)
        if found is None:
            raise SettingError(f"{text!r} is no filter: give NAME=VALUE, with =, !=, <, <=, > or >=")
        if not found["value"] and found["sign"] != "=":  # a variable of the shell that was empty; it would mean all
            raise SettingError(f"{text!r} compares with nothing; put a value behind {found['sign']}")
        _require_known(every, found["name"])
        rows = [row for row in rows if found["name"] in row]  # != too says something of what is there
        _require_order(rows, found)
        rows = [row for row in rows if _holds(row[found["name"]], found["sign"], found["value"])]
    if sort:
        name = sort.removeprefix("-")
        _require_known(every, name)
        rows = sorted(rows, key=lambda row: _order(row.get(name)), reverse=sort.startswith("-"))
    for name in columns:
        _require_known(every, name)
    suites = {name: not name.endswith("-average") for row in read for name in _scores(row)}
    shown = [suite for suite in sorted(suites, key=lambda suite: suites[suite]) if any(suite in row for row in rows)]
    names = list(dict.fromkeys(columns)) or [*_ALWAYS, *shown, *_AFTER]
    table = pd.DataFrame([{name: row.get(name) for name in names} for row in rows], columns=names)
    if not rows:
        table.attrs["why none"] = _why_none(every, where)
    return table


def _require_order(rows: list[dict[str, Any]], found: re.Match[str]) -> None:
    """Raises SettingError where numbers are to be less or more than a word."""
    numbers = any(isinstance(_comparable(row[found["name"]]), float) for row in rows)
    if found["sign"][0] in "<>" and numbers and not isinstance(_comparable(found["value"]), float):
        raise SettingError(f"{found[0]!r}: {found['name']} is a number; give one behind {found['sign']}")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A run's settings, scores x 100 and facts by name."""
    inside = ("settings", "facts", SCORE, ACCURACY)  # what is inside of them has names of its own
    facts = {name: value for name, value in row.items() if not name.startswith(inside)}
    return {**(row.get("settings") or {}), **_scores(row), **facts}


def _scores(row: dict[str, Any]) -> dict[str, float]:
    """Return the scores of a run x 100, by the names of their columns."""
    named = {f"{kind} {suite}" if suite in _TAKEN else suite: value for suite, (value, kind) in scored(row).items()}
    return {name: round(100 * value, 2) for name, value in named.items()}


def _why_none(rows: list[dict[str, Any]], where: Iterable[str]) -> str:
    """Why none of these runs answers to all filters: which of them none does alone, and what values there are."""
    said = []
    if not rows:
        return "there are none; start one with: workbench run simcse"
    for found in filter(None, map(_FILTER.fullmatch, where)):
        values = [row[found["name"]] for row in rows if found["name"] in row]
        if any(_holds(value, found["sign"], found["value"]) for value in values):
            continue
        values = [str(each).partition(":")[0] for each in values] if found["name"] == "status" else values
        known = dict.fromkeys(_text(value) for value in sorted(values, key=_order))
        shown = [*list(known)[:_VALUES], *(["..."] if len(known) > _VALUES else [])]
        said.append(f"{found[0]} holds for none{did_you_mean(found['value'], known)} (there are {', '.join(shown)})")
    return "; ".join(said) or "each filter holds for some run, but not all for one"


def _text(value: Any) -> str:
    """A value as a filter has it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _require_known(rows: list[dict[str, Any]], name: str) -> None:
    known = {each for row in rows for each in row}
    if rows and name not in known:
        raise SettingError(unknown_name("column, suite or setting", name, known, "of a run"))


def _order(value: Any) -> tuple[bool, bool, Any]:
    """Numbers, then texts, then what is missing."""
    if value is None or value != value:  # noqa: PLR0124 - nan is not itself
        return True, True, ""
    number = isinstance(value, (int, float))
    return False, not number, value if number else str(value)


def _holds(value: Any, sign: str, wanted: str) -> bool:
    """A filter on one value: as numbers where both are, else as texts; a text status by its first word."""
    ours, theirs = _comparable(value), _comparable(wanted)
    if isinstance(ours, float) is not isinstance(theirs, float):
        ours, theirs = str(value).lower(), wanted.lower()
    if sign in ("=", "!="):
        same = ours == theirs or (isinstance(ours, str) and ours.partition(":")[0] == theirs)
        return same == (sign == "=")
    if value is None:
        return False
    return {"<": ours < theirs, "<=": ours <= theirs, ">": ours > theirs, ">=": ours >= theirs}[sign]


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return _text(value).lower()
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value).lower()


def find_run(name: str, root: str | Path = "runs") -> Run:
    """The run in a folder, or the only one under `root` whose name (with or without its method) begins so.

    Raises RunError where there is none, or several.
    """
    if _is_folder(name):
        return Run(name)
    wanted = name.strip("/")
    folders = list_folders(root) if wanted else []
    found = [path for path in folders if f"{path.parent.name}/{path.name}".startswith(wanted)]
    found = [path for path in folders if path.name.startswith(wanted)] or found
    if len(found) == 1:
        return Run(found[0])
    if not found:
        raise RunError(f"no run {name!r} under {folder_of_runs(root)}; list them with: workbench runs")
    shown = ", ".join(f"{path.parent.name}/{path.name}" for path in found[:8])
    raise RunError(
        f"{len(found)} runs begin with {name!r}: {shown}{', ...' if len(found) > 8 else ''}; give more of it"
    )


def _is_folder(word: str) -> bool:
    """Whether a word names a run's folder, in whose path there may be a =."""
    return (Path(word) / "config.json").is_file()


def choose_runs(words: Sequence[str], root: str | Path = "runs") -> list[Run]:
    """The runs of these names (as of `find_run`), each once, or all for which filters hold (as of `select_runs`).

    Raises RunError where there is none, SettingError where names and filters are given together.
    """
    where = [word for word in words if is_filter(word) and not _is_folder(word)]
    if not where:
        return list({run.path.resolve(): run for run in (find_run(name, root) for name in words)}.values())
    if len(where) < len(words):
        raise SettingError(f"{' '.join(words)}: give the names of runs, or filters all of which hold, not both")
    found = select_runs(root, where)
    if found.empty:
        raise RunError(f"no runs under {folder_of_runs(root)} with {' '.join(where)}: {found.attrs['why none']}")
    return [Run(path) for path in found["path"]]
