"""The runs of a folder: as a table with filters, by name, and removed unless others need them."""

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

import pandas as pd

from workbench.config import ALIASES, RUN_CONFIGS
from workbench.errors import RunError, SettingError, WorkbenchError, require_known
from workbench.files import HOME, Names, as_list, remove_path, reraise_os_error, user_path
from workbench.printing import LOG
from workbench.runs._run import (
    BEFORE,
    NAME,
    AnyPath,
    Facts,
    Run,
    held_lock,
    owner_of,
    root_of_needed,
    run_path,
)

# Columns in front of the suites, and after them.
_FIRST = ["method", "profile", "seed", "digest", "status", "changed"]
_LAST = ["started", "seconds", "host", "path"]
# A suite with one of these names has its measure in front: "spearman status".
_TAKEN = {*_FIRST, *_LAST, "settings", "scores", "facts", "run", "failure", "start"}
_TAKEN |= {name for each in RUN_CONFIGS.values() for name in each.model_fields}
# Names of folders that do not tell encoders apart: common ones, digests, commits of the hub, the
# modules of a SentenceTransformer, and that of the user.
_COMMON_NAME = re.compile(
    r"(encoder|model|checkpoint|best|final|last|output|snapshot)s?([-_]?\d+)?"
    r"|[0-9a-f]{8,}(-s\d+)?|\d_Transformer|.*[/\\]|" + re.escape(Path(HOME).name)
)
# Name, sign, value; only = may have none, or an empty variable of a shell would select all runs.
_FILTER = re.compile(r"(?s)([^=<>!]+?)\s*+(=|(?:!=|<=|>=|<|>)(?=\s*\S))\s*+((?!=|[<>]\s*[\d-]).*)")
# Methods of a series.
_SIGNS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def list_runs(
    root: AnyPath = "runs",
    where: Names = (),
    *,
    sort: str = "",
    columns: Names = (),
) -> pd.DataFrame:
    """Return a row for each run under `root` that satisfies every filter.

    Scores are Spearman or accuracy x 100. status is "finished", "failed", "unfinished" or
    "unreadable", and `failure` the reason: one broken run does not hide the others.

    Args:
        root: Folder of runs.
        where: Such as "method=rankcse", "seed<3", "world-test>=45"; a run without a value satisfies
            no filter on it.
        sort: A column, a suite or a setting; with - in front: descending.
        columns: Of the same names, and SUITE:start, SUITE:kcc and SUITE:ndcg, x 100; by default
            those of a run, its changed settings as text, and all suites. "start" is the score
            before training on an average of sets, or on the first suite of the run (RankEncoder's
            setting of this name is no column).

    Raises:
        SettingError: No run has a column, suite or setting of this name, or a filter is malformed.

    Example:
        workbench.list_runs("runs", ["method=simcse", "world-test>=40"], sort="-world-test")
    """
    rows = read_rows(root)
    suites = set()
    main_suites = set()
    for row in rows:
        of_row = main_suite(row["metrics"])
        main_suites.add(of_row)
        values = _values_by_column(row, suites)
        values["start"] = values.get(f"{of_row}:start")
        row.update(values | row)  # a setting never hides a fact of the run
    table: Any = pd.DataFrame(rows, dtype=object)

    def column(name: str) -> str:
        name = name if name in table else ALIASES.get(name, name)
        require_known("column, suite or setting", name, table, "of a run")
        return name

    columns = as_list(columns)
    if rows:
        for text in as_list(where):
            match = _FILTER.fullmatch(text)
            if match is None:
                raise SettingError(
                    f"{text!r} is no method or filter; write NAME=VALUE, with =, !=, <, <=, > or >="
                )
            name, sign, wanted = match.groups()
            table = table[_satisfies(table[column(name)], sign, wanted)]
        columns = list(dict.fromkeys(map(column, columns)))
        if sort:
            table = table.sort_values(
                column(sort.removeprefix("-")),
                key=_comparable,
                ascending=sort[0] != "-",
                kind="stable",
            )
    shown = [name for name in suites if table[name].notna().any()]
    if shown:  # the start is next to the results that it belongs to
        shown.sort(key=lambda name: (name not in main_suites, name))
        shown.insert(0, "start")
    table = table.reindex(columns=columns or [*_FIRST, *shown, *_LAST]).reset_index(drop=True)
    kinds = {"seed": "Int64", "seconds": float} | dict.fromkeys(shown, float)
    return table.astype({name: kind for name, kind in kinds.items() if name in table})


def _values_by_column(row: Facts, suites: set[str]) -> Facts:
    """Take settings and metrics out of a row; return them by column, and add suites."""
    del row["facts"]
    columns = {
        name: "none" if value is None else value  # so that a filter can ask for it
        for name, value in row.pop("settings").items()
    }
    for suite, values in row.pop("metrics").items():
        title = f"{values['measure']} {suite}" if suite in _TAKEN else suite
        suites.add(title)
        names = {title: "score"} | {f"{suite}:{name}": name for name in ("start", "kcc", "ndcg")}
        for column, name in names.items():
            if values.get(name) is not None:
                columns[column] = round(100 * values[name], 2)
    return columns


def _satisfies(column: Any, sign: str, wanted: str) -> Any:
    """Return for each value of a column whether it satisfies a filter; never, if it is missing."""
    number: Any = pd.to_numeric(wanted, errors="coerce")
    values = _comparable(column, as_text=sign in ("=", "!=") and pd.isna(number))
    is_numeric = pd.api.types.is_numeric_dtype(values)
    if is_numeric and pd.isna(number):
        raise SettingError(f"{column.name} is a number, which {wanted!r} is not; write 39.5")
    value = number if is_numeric else wanted.lower()
    return getattr(values, _SIGNS[sign])(value) & values.notna()


def _comparable(column: Any, *, as_text: bool = False) -> Any:
    """Return a column as numbers if it has any, otherwise as lower-case text."""

    def text_of(value: Any) -> str:
        return ",".join(map(str, value)) if isinstance(value, list) else str(value)

    texts = column.map(text_of, "ignore")
    numbers: Any = pd.to_numeric(texts, errors="coerce")
    # Digits around an e are no number there, and two digests may be one as numbers.
    if as_text or column.name == "digest" or numbers.isna().all():
        return texts.astype("string").str.lower()
    return numbers


def run_folders(root: AnyPath) -> list[Path]:
    """Return the folders of the runs under `root`."""
    root = user_path(root)
    if not root.is_dir():
        LOG.warning("the folder %s does not exist, so it has no runs", root.absolute())
    # The folder of one method, too.
    own = [path for path in sorted(root.glob("[!.]*")) if NAME.fullmatch(path.name)]
    return own + [
        path
        for path in sorted(root.glob("*/[!.]*"))  # with a dot: being removed
        if not NAME.fullmatch(path.parent.name)
        and (NAME.fullmatch(path.name) or (path / "config.json").exists())
    ]


def read_rows(root: AnyPath) -> list[Facts]:
    """Return `read_row` of each run under `root`; `list_runs` makes a table of them."""
    return [read_row(path) for path in run_folders(root)]


def read_row(path: Path) -> Facts:
    """Return method, path and status of a run and, if it can be read, all else that is known.

    That is its facts, settings, metrics and failure. The metrics are those of a run that is
    finished, with "score" in [-1, 1], nan if undefined, its "measure", "spearman" or "accuracy",
    and "start", the score before training, if it was measured.
    """
    row = {
        "method": path.parent.name,
        "path": str(path),
        "facts": {},
        "settings": {},
        "metrics": {},
    }
    try:
        run = Run(path)
        facts = row["facts"] = run.facts()
        config = run.config
        for name in ("digest", "started", "seconds", "host", "failure"):
            row[name] = facts.get(name)
        for name in ("method", "profile", "seed"):
            row[name] = getattr(config, name)
        row["changed"] = ", ".join(
            f"{name}={short_value(value, config.seed)}"
            for name, value in config.changed().items()
            if name not in config.outside_digest
        )
        row["settings"] = config.model_dump(mode="json")
        row["status"] = "failed" if row["failure"] else "unfinished"
        if run.finished:
            row["status"] = "finished"
            start = run.metrics(BEFORE) if run.has(BEFORE) else {}
            metrics = run.metrics()
            for suite, values in metrics.items():
                values.update(_score_of(values))
                if suite in start:
                    values["start"] = _score_of(start[suite])["score"]
            row["metrics"] = metrics  # now that they were read
    except Exception as problem:  # whatever is wrong with one run, the others are listed
        row |= {"status": "unreadable", "failure": str(problem)}
    return row


def _score_of(values: Facts) -> Facts:
    measure = "accuracy" if "accuracy" in values else "spearman"
    value = values.get(measure)
    return {"score": float("nan" if value is None else value), "measure": measure}


def main_suite(metrics: Facts) -> str:
    """Return the suite that one number of a run is of: an average of sets, otherwise the first.

    "" if there is none.
    """
    averages = (suite for suite in metrics if suite.endswith("-average"))
    return next(averages, next(iter(metrics), ""))


def split_common_settings(
    texts: Sequence[str], without: Collection[str] = ()
) -> tuple[str, list[str]]:
    """Return the settings that all texts share, and the others of each, except `without`.

    A text is that of the column `changed`.
    """
    words = []
    for text in texts:
        parts = re.split(r", (?=\w+=)", text)  # a list has commas too
        words.append([part for part in parts if part and part.split("=")[0] not in without])
    first = words[0] if words else []
    common = [word for word in first if all(word in others for others in words)]
    own = [", ".join(word for word in each if word not in common) for each in words]
    return ", ".join(common), own


def short_value(value: Any, seed: int | None = None) -> str:
    """Return a setting's value as short text.

    Of a run it is its method and digest, with its seed unless that is `seed`; of another path its
    `encoder_name`.
    """
    if isinstance(value, list):
        items = ", ".join(short_value(item, seed) for item in value)
        return items if len(value) == 1 else f"[{items}]"
    path = Path(str(value).removeprefix("st:"))
    if not path.is_absolute():
        return str(value)
    for folder in (path, path.parent):
        if NAME.fullmatch(folder.name):
            return f"{folder.parent.name} {folder.name.removesuffix(f'-s{seed}')}"
    return encoder_name(path)


def encoder_name(source: AnyPath) -> str:
    """Return the last part of a path or hub id that tells an encoder apart; of a run its method.

    A folder such as "model" does not, nor does the place in the hub's cache.
    """
    path = Path(str(source).removeprefix("st:"))
    # A relative folder such as "." has its telling parts above it; a hub id is no folder.
    if path.is_dir():
        path = path.absolute()
    for part in reversed(path.parts):
        if not _COMMON_NAME.fullmatch(part):
            return part.rpartition("--")[2] if part.startswith("models--") else part
    return path.name


def find_run(name: str, root: AnyPath = "runs") -> Run:
    """Return the run in a folder, or the only one under `root` whose name begins so.

    The name may have its method in front. Raises RunError.
    """
    if (user_path(name) / "config.json").is_file():
        return Run(name)
    # "-s1" is also the beginning of "-s10".
    fits = str.__eq__ if re.search(r"-s\d+$", name) else str.startswith
    near = [
        path
        for path in (run_folders(root) if name else [])
        if fits(path.name, name) or fits(f"{path.parent.name}/{path.name}", name)
    ]
    if len(near) != 1:
        raise RunError(
            f"{len(near)} runs under {root} begin with {name!r}; list them with "
            f"`workbench runs --runs {quote(str(root))}`"
        )
    return Run(near[0])


def choose_runs(words: Names, root: AnyPath = "runs") -> list[Run]:
    """Return the runs with these names (as `find_run`), each once, or those of all filters.

    Raises RunError if a name or the filters fit no run, or if names and filters are mixed.
    """
    words = as_list(words)
    # The path of a run may contain "=".
    names = [word for word in words if user_path(word).exists() or not _FILTER.fullmatch(word)]
    if names or not words:
        runs = [find_run(word, root) for word in words]
        return list({run.path.resolve(): run for run in runs}.values())
    table = list_runs(root, words)
    if table.empty:
        raise RunError(f"no runs under {root} with {' '.join(words)}")
    return [Run(path) for path in table["path"]]


def needed_by(*roots: AnyPath) -> dict[Path, list[Path]]:
    """Return the folders under `roots` of the runs that learned from a run or evaluated it.

    They are listed by the folder of the run that they need.
    """
    needs = {}
    for place in sorted({path.absolute() for root in roots for path in run_folders(root)}):
        folder = place.resolve()
        root = place.parents[1]  # not that of what a link leads to
        paths = set()
        with suppress(WorkbenchError):  # it cannot be read, or a setting names a file that is gone
            config = Run(folder).config
            for text in config.paths():
                path = Path(text.removeprefix("st:")).resolve()
                path = path.parent if path.name == "encoder" else path
                # If all runs were moved, the recorded place is the former one.
                paths |= {path, root.joinpath(*path.parts[-2:])}
            roots_of_needed = (root, root_of_needed(config, root))
            for needed in config.runs_needed:
                paths |= {run_path(needed, each).resolve() for each in roots_of_needed}
        for path in paths - {folder}:
            needs.setdefault(path, []).append(folder)
    return needs


def remove_runs(runs: Sequence[Run], root: AnyPath = "runs") -> None:
    """Remove runs for good, or none.

    Raises RunError if one is in progress, or needed by a run that stays.
    """
    leaving = {run.path.resolve() for run in runs}
    needs = needed_by(root, *{path.parents[1] for path in leaving})
    for run in runs:
        path = run.path.resolve()
        if run.path.is_symlink() or not NAME.fullmatch(path.name):
            raise RunError(
                f"{run.path} is a link, or has not the name of a run; if it is one, remove it "
                "yourself"
            )
        if held := held_lock(path):
            raise RunError(f"a process is working on {path} ({owner_of(held)}); end it first")
        if stay := sorted({*needs.get(path, ())} - leaving):
            raise RunError(
                f"{path} is needed by {', '.join(map(str, stay))}; remove these too, or keep it"
            )
    for path in leaving:
        gone = path.with_name(f".{path.name}.removed")
        with reraise_os_error(path):
            remove_path(gone)  # of an earlier run with this name
            path.rename(gone)  # in one step: a kill leaves no half run
    # Afterwards: deleting takes seconds, in which one of them might be started.
    for folder in {path.parent for path in leaving}:
        for gone in folder.glob(".*.removed"):  # also of an interrupted removal
            remove_path(gone)
