"""All runs of a folder: as a table with filters, by name, and removed unless other runs need them."""

import logging
import math
import operator
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.config import ALIASES, CONFIGS, RECORDED, BaselineConfig
from workbench.errors import RunError, SettingError, WorkbenchError, unknown_name
from workbench.files import reraise_os_error
from workbench.runs._run import NAME, Run, config_of, run_path
from workbench.runs._state import is_running

_LOG = logging.getLogger("workbench")
_FIRST = ["method", "profile", "seed", "digest", "status", "changed"]
_LAST = ["started", "seconds", "host", "path"]
# A suite with one of these names has its measure in front: "spearman status".
_TAKEN = {*_FIRST, *_LAST, "run", "failure", *(name for each in RECORDED.values() for name in each.model_fields)}
_MEASURES = {"spearman": "Spearman", "kcc": "KCC", "ndcg": "NDCG", "accuracy": "accuracy", "f1": "F1"}
_SHOWN = ["pairs", "spearman", "kcc", "ndcg", "queries", "classified", "accuracy", "f1"]  # columns of `metrics_table`
_FILTER = re.compile(r"(?P<name>.+?)\s*(?P<sign>!=|<=|>=|=|<|>)\s*(?P<value>.*)", re.DOTALL)
_SIGNS = {"=": operator.eq, "!=": operator.ne}
_SIGNS |= {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def list_runs(
    root: str | Path = "runs", where: Iterable[str] = (), *, sort: str = "", columns: Sequence[str] = ()
) -> pd.DataFrame:
    """Return a row for each run under `root` that satisfies every filter; scores are Spearman or accuracy x 100.

    status is "finished", "failed", "unfinished", or "unreadable: " and the reason: a broken run hides no other.

    Args:
        root: Folder of runs.
        where: Such as "method=rankcse", "seed<3", "world-test>=45"; a run without a value satisfies no filter on it.
        sort: A column, a suite or a setting; with - in front: descending.
        columns: Of the same names; by default those of a run, its changed settings as text, and all suites.

    Raises:
        SettingError: No run has a column, a suite or a setting of this name; a filter is malformed.
        RunError: `root` is a file.
    """
    rows = [_flatten(row) for row in read_rows(root)]
    table: Any = pd.DataFrame([row for row, _ in rows], dtype=object)

    def column(name: str) -> str:
        name = name if name in table else ALIASES.get(name, name)
        if rows and name not in table:
            raise SettingError(unknown_name("column, suite or setting", name, table, "of a run"))
        return name

    filters = [(column(name), sign, value) for name, sign, value in map(_parse_filter, where)]
    columns = [column(name) for name in columns]
    key = column(sort.removeprefix("-")) if sort else ""
    for each in filters if rows else ():
        table = table[_holds(table, *each)]
    if key and rows:
        texts = _lower_texts(table[key])
        numbers: Any = pd.to_numeric(texts, errors="coerce")
        order = (numbers if numbers.notna().any() else texts).reindex(table.index)
        table = table.loc[order.sort_values(ascending=not sort.startswith("-"), kind="stable").index]
    suites = sorted({name for _, names in rows for name in names}, key=lambda name: (name.endswith("-average"), name))
    suites = [name for name in suites if table[name].notna().any()]
    kinds = {"seed": "Int64", "seconds": float} | dict.fromkeys(suites, float)
    table = table.reindex(columns=list(dict.fromkeys(columns)) or [*_FIRST, *suites, *_LAST]).reset_index(drop=True)
    return table.astype({name: kind for name, kind in kinds.items() if name in table})


def _parse_filter(text: str) -> tuple[str, str, str]:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise SettingError(f"{text!r} is not a filter; write NAME=VALUE, with =, !=, <, <=, > or >=")
    if not match["value"] and match["sign"] != "=":  # an empty shell variable, which would select everything
        raise SettingError(f"{text!r} has no value after {match['sign']}")
    return match["name"], match["sign"], match["value"]


def _holds(table: pd.DataFrame, name: str, sign: str, value: str) -> pd.Series:
    """Compare a column as numbers if the value is one, otherwise as text; a missing value satisfies no filter."""
    texts = _lower_texts(table[name])
    if name == "status":
        texts = texts.str.partition(":")[0]  # of "unreadable: ..." the first word
    numbers: Any = pd.to_numeric(texts, errors="coerce")
    try:
        holds = _SIGNS[sign](numbers, float(value)) if numbers.notna().any() else _SIGNS[sign](texts, value.lower())
    except ValueError:
        if sign not in ("=", "!="):
            raise SettingError(f"{name}{sign}{value}: expected a number, as in 'seed<3'") from None
        holds = _SIGNS[sign](texts, value.lower())
    return holds.reindex(table.index, fill_value=False)


def _lower_texts(column: Any) -> Any:
    """Return the values that are not missing as lower-case text."""
    values = column.dropna()
    return values.map(lambda each: ",".join(map(str, each)) if isinstance(each, list) else str(each)).str.lower()


def run_folders(root: str | Path) -> list[Path]:
    """Return the folders of the runs under `root`. Raises RunError if it is a file."""
    root = Path(root).expanduser()
    if root.is_file():
        raise RunError(f"{root} is a file; name the folder of the runs")
    if not root.exists():
        _LOG.warning("there is no folder %s, and so no run", root.absolute())
    paths = [path for path in sorted(root.glob("*/*")) if not path.name.startswith(".")]  # with a dot: being removed
    return [path for path in paths if NAME.fullmatch(path.name) or (path / "config.json").exists()]


def read_rows(root: str | Path) -> list[dict[str, Any]]:
    """Return `read_row` of each run under `root`; `list_runs` makes a table of them."""
    return [read_row(path) for path in run_folders(root)]


def read_row(path: Path) -> dict[str, Any]:
    """Return method, path and status of a run and, if it can be read, its facts, settings, scores and failure.

    The scores are suite -> (score, "spearman" or "accuracy"), of a run that is finished.
    """
    row: dict[str, Any] = {"method": path.parent.name, "path": str(path), "scores": {}}
    try:
        run = Run(path)
        facts = row["facts"] = run.facts()
        config = config_of(facts, path)
        row |= {"method": config.method, "profile": config.profile, "seed": config.seed}
        row["settings"] = config.model_dump(mode="json")
        row |= {name: facts.get(name) for name in ("digest", "started", "seconds", "host", "failure")}
        changed = {name: value for name, value in config.changed().items() if name not in config.outside_digest}
        row["changed"] = ", ".join(f"{name}={short_value(value, config.seed)}" for name, value in changed.items())
        for suite, values in run.metrics().items() if run.finished else ():
            measure = "accuracy" if "accuracy" in values else "spearman"
            value = values.get(measure)
            row["scores"][suite] = (math.nan if value is None else value, measure)
        row["status"] = "finished" if run.finished else "failed" if row["failure"] else "unfinished"
    except Exception as problem:  # whatever is wrong with one run, the others are listed
        row["status"] = f"unreadable: {problem}"
    return row


def _flatten(row: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a run's settings, scores x 100 and facts by name, and the names of its suites."""
    named = {f"{kind} {name}" if name in _TAKEN else name: value for name, (value, kind) in row["scores"].items()}
    settings = {name: "none" if value is None else value for name, value in (row.get("settings") or {}).items()}
    facts = {name: value for name, value in row.items() if name not in ("settings", "scores", "facts")}
    return settings | {name: round(100 * value, 2) for name, value in named.items()} | facts, list(named)


def split_common_settings(texts: Sequence[str], without: Collection[str] = ()) -> tuple[str, list[str]]:
    """Return the settings that all texts (of the column `changed`) have in common, and the others of each.

    The settings `without` are left out.
    """
    parts = [re.split(r", (?=\w+=)", text) if text else [] for text in texts]  # a list has commas too
    words = [[word for word in each if word.partition("=")[0] not in without] for each in parts]
    common = [word for word in words[0] if all(word in others for others in words)] if words else []
    return ", ".join(common), [", ".join(word for word in each if word not in common) for each in words]


def short_value(value: Any, seed: int | None = None) -> str:
    """Return a setting's value as short text: of a path its name; of a run its method and digest, and another seed."""
    if isinstance(value, list):
        items = ", ".join(short_value(item, seed) for item in value)
        return items if len(value) == 1 else f"[{items}]"
    path = Path(str(value))
    if not path.is_absolute():
        return str(value)
    return f"{path.parent.name} {path.name.removesuffix(f'-s{seed}')}" if NAME.fullmatch(path.name) else path.name


def metrics_table(metrics: Mapping[str, Any]) -> pd.DataFrame:
    """Return metrics.json as a table, correlations and accuracies x 100; columns that no suite has are left out."""
    rows = []
    for suite, values in metrics.items():
        count = "classified" if "accuracy" in values else "pairs"
        rows.append({"suite": suite, **values, count: values.get("n")})
    table: Any = pd.DataFrame(rows)
    table = table[["suite", *(name for name in _SHOWN if name in table)]]
    table = table.astype({name: float if name in _MEASURES else "Int64" for name in table.columns[1:]})
    table[table.columns.intersection([*_MEASURES])] *= 100
    return table.rename(columns=_MEASURES)


def find_run(name: str, root: str | Path = "runs") -> Run:
    """Return the run in a folder, or the only one under `root` whose name, with or without its method, begins so."""
    if _is_folder(name):
        return Run(name)
    folders = run_folders(root) if name else []
    near = [path for path in folders if path.name.startswith(name)]
    near = near or [path for path in folders if f"{path.parent.name}/{path.name}".startswith(name)]
    if not near:
        raise RunError(f"no run {name!r} under {root}; list them with: workbench runs")
    if len(near) > 1:
        raise RunError(f"{len(near)} runs begin with {name!r}: {', '.join(map(str, near[:8]))}; write more of the name")
    return Run(near[0])


def _is_folder(word: str) -> bool:
    return (Path(word) / "config.json").is_file()


def choose_runs(words: Sequence[str], root: str | Path = "runs") -> list[Run]:
    """Return the runs with these names (as `find_run`), each once, or those that satisfy all filters.

    Raises RunError if there is none, SettingError if names and filters are mixed.
    """
    where = [word for word in words if _FILTER.fullmatch(word) and not _is_folder(word)]
    if not where:
        return list({run.path.resolve(): run for run in (find_run(name, root) for name in words)}.values())
    if len(where) < len(words):
        raise SettingError(f"{' '.join(words)}: either names of runs or filters, not both")
    chosen = list_runs(root, where)
    if chosen.empty:
        raise RunError(f"no runs under {root} with {' '.join(where)}")
    return [Run(path) for path in chosen["path"]]


def needed_by(root: str | Path) -> dict[Path, dict[Path, str]]:
    """Return folder of a run -> folders of the runs under `root` that "learned from it" or "evaluated it"."""
    needs: dict[Path, dict[Path, str]] = {}
    for row in [row for row in read_rows(root) if row.get("settings")]:  # of those that can be read
        config, own = RECORDED[row["method"]](**row["settings"]), Path(row["path"]).resolve()
        named = {Path(text) for texts in config.paths().values() for text in texts}
        paths = {path.parent if path.name == "encoder" else path for path in named}
        with suppress(WorkbenchError):  # a setting names a file that is gone
            needed = [CONFIGS[name].from_parameters(profile, config.seed) for name, profile in config.runs_needed]
            paths |= {run_path(each, root).resolve() for each in needed}
        for path in paths - {own}:
            if NAME.fullmatch(path.name):
                why = "evaluated it" if row["method"] == BaselineConfig.method else "learned from it"
                needs.setdefault(path, {})[own] = why
    return needs


def remove_runs(runs: Sequence[Run], root: str | Path = "runs") -> None:
    """Remove runs for good. Raises RunError if one is in progress, or needed by a run that stays."""
    needs, leaving = needed_by(root), {run.path.resolve() for run in runs}
    for path in leaving:
        if is_running(path):
            raise RunError(f"a process is working on {path} ({(path / '.lock').read_text()}); end it first")
        stay = sorted(f"{other} {why}" for other, why in needs.get(path, {}).items() if other not in leaving)
        if stay:
            raise RunError(f"{path} is needed: {', '.join(stay)}; remove these too, or keep it")
    for run in runs:
        with reraise_os_error(run.path):
            gone = run.path.with_name(f".{run.path.name}.removed")
            run.path.rename(gone)  # in one step: a kill leaves no half run
            shutil.rmtree(gone)
