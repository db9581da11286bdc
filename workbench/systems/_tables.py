"""Read scores of pairs from tables: a column for each system, or a file for each system.

Which column is what follows from `columns`, otherwise from these rules:

1. The two texts have one of the usual names, as in any file of pairs.
2. "id" or "pair_id" names a row. Other ids and an index are not read.
3. Gold has a name that only gold has (gold, label, rating, ...). Without one it is score,
   similarity or sim, unless that is the only column of numbers and gold is known from elsewhere.
4. Any other column that mostly holds numbers is a system, unless its name says that it is a fact
   of a row or larger for what is further (id, year, length, distance, ...)."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from workbench.data import (
    CATALOGUE,
    Pairs,
    load_own_pairs,
    load_pairs,
    own_columns,
    read_own,
    require_in_one,
)
from workbench.data._roles import NO_ROLE, Roles, match_columns, plain_name
from workbench.data._sets import take_rows
from workbench.data._tables import to_number
from workbench.errors import DataError
from workbench.evaluation import report_pairs
from workbench.files import OWN_FILES, Names, as_list, set_name, user_path
from workbench.runs import AnyPath
from workbench.systems._scores import SystemScores

_ROW_ID = re.compile(r"(?i)(pair[\W_]?)?id")
_GOLD_OR_SYSTEM = "score similarity similarityscore sim"
# The only system of a file is called by the file if its column has such a name.
_ANY_SYSTEM = re.compile(r"score|sim(ilarity)?(score)?|pred(ict\w+)?|cos\w*|system")
# What identifies a row, beside its systems, whose names may be any text.
_KEYS = (_ID, _TEXTS, _GOLD) = range(3)
_OTHER = 3
# A .txt holds sentences, or is a run file.
_ENDINGS = tuple(ending for ending in OWN_FILES if ".txt" not in ending.lower())


def score_files(source: AnyPath) -> list[Path]:
    """Return the files of scores that a source is: itself, or those in a folder of such files.

    There is none in a folder that has folders or JSON, as those of runs and of encoders have."""
    path = user_path(source)
    if path.name.lower().endswith(_ENDINGS):
        return [path]
    if any(path.glob("[!.]*/")) or any(path.glob("[!.]*.json")):
        return []
    return [file for file in sorted(path.glob("[!.]*")) if file.name.lower().endswith(_ENDINGS)]


def read_score_file(
    paths: Names,
    *,
    on: Pairs | AnyPath | None = None,
    columns: Roles | None = None,
) -> SystemScores:
    """Return the scores of systems in tables: one with a column for each, or several files.

    Rows of several files, and of `on`, belong together if their ids, texts and gold agree, as far
    as both have them. Rows without a score of every system are left out and counted.

    Args:
        paths: .csv, .tsv, .jsonl (also .gz) or .parquet, or folders as of `score_files`.
        on: The pairs and their gold, which the files then need not have: a set, its name or a file.
            By default the first of the files.
        columns: sentence1, sentence2, gold or id -> column, where the rules above do not hold.

    Raises:
        DataError: A file cannot be read or has no system; `columns` has another role; an id occurs
            twice; a score is no finite number; no pair has a score of every system.
    """
    if isinstance(on, AnyPath):
        on = user_path(on)
    gold_files = [on.absolute()] if isinstance(on, Path) else []
    files = []
    paths = as_list(paths)
    for path in paths:
        own = score_files(path) or [user_path(path).absolute()]
        # In a folder, the pairs may lie beside the scores.
        files += [file for file in own if len(own) == 1 or file.absolute() not in gold_files]
    # A file need not have a column that another one has.
    chosen = columns or {}
    require_in_one([*files, *gold_files], chosen)
    tables = []
    for path in files:
        has_gold = on is not None or path != files[0]
        tables.append(_read_rows(path, own_columns(path, chosen) or {}, has_gold=has_gold))
    notes = [table.attrs["note"] for table in tables]
    if on is None:
        rows = tables.pop(0)
        pairs = load_pairs(files[0], columns=rows.attrs["columns"])
        # A pair has the number of its row; those without gold are left out.
        rows = rows.iloc[list(map(int, pairs.pair_id))].reset_index(drop=True)
        if len(files) > len(paths):  # they have the name of their folder
            pairs = replace(pairs, name=Path(files[0]).absolute().parent.name)
    else:
        pairs = on if isinstance(on, Pairs) else load_own_pairs(on, chosen)
        rows = DataFrame({_TEXTS: list(zip(*pairs.texts, strict=True))})
        # A row of a file without ids has a number, which says nothing about ids elsewhere.
        usual_id = next(filter(_ROW_ID.fullmatch, pairs.extra), "")
        own_ids = pairs.extra.get(chosen.get("id", ""), pairs.extra.get(usual_id))
        if ids := pairs.pair_id if pairs.name in CATALOGUE else own_ids:
            rows[_ID] = _plain_ids(ids, pairs.source)
    rows[_GOLD] = pairs.gold.round(4)
    for table in tables:
        rows = _join_table(rows, table, notes)
    rows = rows.dropna()
    if rows.empty:
        raise DataError(
            "no pair has a score of every system; its id, texts and gold must be the same in all "
            f"files ({'; '.join(notes)})"
        )
    if left_out := len(pairs) - len(rows):
        notes.append(f"{left_out} of {len(pairs)} pairs left out, without a score of every system")
        pairs = take_rows(pairs, rows.index.to_numpy(), f"; {notes[-1]}", notes[-1])
    systems = rows.columns.difference(_KEYS, sort=False)
    reports = {name: [report_pairs({pairs.name: (pairs, rows[name])})] for name in systems}
    return SystemScores(reports, {pairs.name: pairs}, notes)


def _read_rows(path: AnyPath, chosen: Any, *, has_gold: bool) -> DataFrame:
    """Return _ID, _TEXTS and _GOLD of a file, those that it has, and a column for each system."""
    table: Any = read_own(path)
    cells = DataFrame(table.columns)
    numbers: Any = cells.map(to_number)
    is_wrong: Any = numbers.isna() & (cells != "")
    own_id = chosen.pop("id", next(filter(_ROW_ID.fullmatch, cells), ""))
    matches = match_columns("pairs", table, chosen)
    sides = [*matches["sentence1"][:1], *matches["sentence2"][:1]]
    # In the order of the usual names; one that a user chose is the only one.
    golds = [name for name in matches["score"] if plain_name(name) not in _GOLD_OR_SYSTEM.split()]
    free = cells.columns.difference([own_id, *sides, *golds, *chosen.values()], sort=False)
    is_score = numbers.count() > is_wrong.sum()
    systems = [name for name in free if is_score[name] and not NO_ROLE.fullmatch(name)]
    unread = free.difference(systems)
    if not golds and not (has_gold and len(systems) == 1):
        golds = matches["score"][:1]
        systems = [name for name in systems if name not in golds]
    found = {"systems": systems, "gold": golds, "texts": sides, "not read": unread}
    parts = [f"{what} = {', '.join(names) or 'none':.800}" for what, names in found.items()]
    note = f"{path}: {'; '.join(parts)}"
    is_enough = has_gold or (golds and len(sides) == 2)
    if not systems or len(golds) > 1 or not is_enough:
        raise DataError(
            f"{note}. It needs systems (numbers with a decimal point), one gold and two texts: "
            "choose with --columns gold=NAME,sentence1=NAME,sentence2=NAME (the only other role "
            "is id), or give gold and texts with --on FILE"
        )
    for row, place in np.argwhere(is_wrong[systems]):
        name = systems[place]
        raise DataError(
            f"{table.at(row)}: {name} is {cells[name][row]!r:.80}, not a finite number; "
            "correct it, or leave it empty to leave out the pair"
        )
    rows = numbers[systems]
    if len(systems) == 1 and _ANY_SYSTEM.fullmatch(plain_name(*systems)):
        rows.columns = [set_name(path)]
    if own_id:
        rows[_ID] = _plain_ids(table.columns[own_id], str(path))
    if len(sides) == 2:
        rows[_TEXTS] = list(map(tuple, cells[sides].to_numpy()))
    for gold in golds:
        if not is_wrong[gold].any():  # words are not compared
            rows[_GOLD] = numbers[gold].round(4)
        # Otherwise `load_pairs` takes another one of several.
        if len(matches["score"]) > 1:
            chosen["score"] = gold
    rows.attrs = {"path": path, "note": note, "columns": chosen}
    return rows


def _plain_ids(ids: list[str], where: str) -> pd.Series:
    """Return ids without the ".0" that a column of whole numbers with a gap gets from pandas.

    Raises DataError for one that occurs twice."""
    plain = pd.Series(ids).str.strip().str.removesuffix(".0")
    for name in plain[plain.duplicated()]:
        raise DataError(
            f"{where}: id {name} occurs twice; give each pair an id of its own, or drop the column"
        )
    return plain


def _join_table(rows: DataFrame, table: DataFrame, notes: list[str]) -> DataFrame:
    """Return rows with the scores that the rows of another file have for them."""
    path = table.attrs["path"]
    shared = [key for key in _KEYS if key in rows and key in table]
    if shared in ([], [_GOLD]):
        raise DataError(f"{path}: it lacks a column id or both texts, by which rows are matched")
    # Equal texts with equal scores are one row.
    others = table.drop_duplicates().reset_index(names=_OTHER)
    for name in others[shared[0]][others.duplicated(shared)]:
        raise DataError(
            f"{path}: {name} occurs twice with other scores; add to all files a column id"
        )
    # A system that another file has, too, is called by its file.
    joined = rows.merge(others, "left", shared, suffixes=(None, f" ({path})"))
    if unused := len(others) - joined.pop(_OTHER).nunique():
        notes.append(f"{path}: {unused} rows left out, whose id, texts or gold no other file has")
    return joined
