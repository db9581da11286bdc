"""Read scores of pairs from tables: a column for each system, or a file for each system.

Which column is what follows from `columns`, otherwise from these rules:

1. The two texts have one of the usual names, as in any file of pairs.
2. "id" or "pair_id" names a row. Other ids and an index are not read.
3. Gold has a name that only gold has (gold, label, rating, ...). Without one it is score,
   similarity or sim, unless that is the only column of numbers and gold is known from elsewhere.
4. Any other column that mostly holds numbers is a system."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import CATALOGUE, Pairs, load_pairs
from workbench.data._roles import Roles, match_columns, plain_name
from workbench.data._sets import take_rows
from workbench.data._tables import Table, read_own
from workbench.errors import DataError, SettingError
from workbench.evaluation import report_pairs
from workbench.files import set_name
from workbench.systems._scores import SystemScores

_ROW_ID = re.compile(r"(pair[\W_]?)?id", re.IGNORECASE)
# What names a query, a document, or a row as pandas does, and is no system.
_NO_SYSTEM = re.compile(r"(.*[\W_])?idx?|(row|query|q|doc)id|index|(unnamed.*)?", re.IGNORECASE)
_GOLD_OR_SYSTEM = ("score", "similarity", "similarityscore", "sim")
# The only system of a file is called by the file if its column has such a name.
_ANY_SYSTEM = re.compile(r"score|sim(ilarity)?(score)?|pred(ict\w+)?|cos\w*|system")
# What identifies a row, beside its systems, whose names may be any text.
_OTHER, _ID, _TEXTS, _GOLD = range(4)


def read_score_file(
    paths: str | Path | Iterable[str | Path],
    *,
    on: Pairs | str | Path | None = None,
    columns: Roles | None = None,
) -> SystemScores:
    """Return the scores of systems in tables: one with a column for each, or several files.

    Rows of several files, and of `on`, belong together if their ids, texts and gold agree, as far
    as both have them. Rows without a score of every system are left out and counted.

    Args:
        paths: .csv, .tsv, .jsonl (also .gz) or .parquet.
        on: The pairs and their gold, which the files then need not have: a set, its name or a file.
            By default the first of the files.
        columns: sentence1, sentence2, gold or id -> column, where the rules above do not hold.

    Raises:
        DataError: A file cannot be read or has no system; an id occurs twice; a score is no finite
            number; no pair has a score of every system.
        SettingError: `columns` has another role.
    """
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    tables = []
    for path in files:
        has_gold = on is not None or len(tables) > 0
        tables.append(_read_rows(path, dict(columns or {}), has_gold=has_gold))
    notes = [table.attrs["note"] for table in tables]
    if on is None:
        rows: Any = tables.pop(0)
        pairs = load_pairs(files[0], columns=rows.attrs["columns"])
        # A pair has the number of its row; those without gold are left out.
        rows = rows.iloc[list(map(int, pairs.pair_id))].reset_index(drop=True)
    else:
        pairs = on if isinstance(on, Pairs) else load_pairs(on)
        rows = pd.DataFrame({_TEXTS: list(zip(*pairs.texts, strict=True))})
        own_id = next(filter(_ROW_ID.fullmatch, pairs.extra), "")
        # A row of a file without ids has a number, which says nothing about ids elsewhere.
        if own_id or pairs.name in CATALOGUE:
            rows[_ID] = _plain_ids(pairs.extra.get(own_id, pairs.pair_id))
    rows[_GOLD] = pairs.gold.round(4)
    for table in tables:
        rows = _join_table(rows, table, notes)
    systems = [name for name in rows if isinstance(name, str)]
    rows = rows.dropna(subset=systems)
    if rows.empty:
        raise DataError(
            "no pair has a score of every system; its id, texts and gold must be the same in all "
            f"files ({'; '.join(notes)})"
        )
    if len(rows) < len(pairs):
        left_out = len(pairs) - len(rows)
        notes.append(f"{left_out} of {len(pairs)} pairs left out, without a score of every system")
        pairs = take_rows(pairs, rows.index.to_numpy(), f"; {notes[-1]}", notes[-1])
    try:
        reports = {name: [report_pairs({pairs.name: (pairs, rows[name])})] for name in systems}
    except ValueError as problem:
        raise DataError(f"{pairs.source}: {problem}") from None
    return SystemScores(reports, {pairs.name: pairs}, notes)


def _read_rows(path: str | Path, chosen: dict[str, str], *, has_gold: bool) -> pd.DataFrame:
    """Return _ID, _TEXTS and _GOLD of a file, those that it has, and a column for each system."""
    table = read_own(path)
    if table is None:
        raise DataError(f"{path}: expected a file of scores: .csv, .tsv, .jsonl or .parquet")
    table.require(chosen)
    own_id = chosen.pop("id", next(filter(_ROW_ID.fullmatch, table.columns), ""))
    matches = match_columns("pairs", table, chosen)
    if chosen and not any(matches.values()):
        raise SettingError(
            f"{', '.join(chosen)}: --columns has roles that a file of scores has not; they are "
            "sentence1, sentence2, gold and id"
        )
    sides = [*matches["sentence1"][:1], *matches["sentence2"][:1]]
    # In the order of the usual names; one that a user chose is the only one.
    golds = matches["score"]
    is_either = {column: plain_name(column) in _GOLD_OR_SYSTEM for column in golds}
    sure = [column for column in golds if column in chosen.values() or not is_either[column]]
    if len(sure) > 1:
        raise DataError(
            f"{table.where}: gold could be {' or '.join(sure)}; choose with --columns gold=NAME"
        )
    systems, unread = _find_systems(table, {own_id, *sides, *sure})
    if not sure and has_gold and len(systems) == 1:
        golds = []
    gold = next(iter(sure or golds), "")
    systems.pop(gold, None)
    if not (has_gold or (gold and len(sides) == 2)):
        raise DataError(
            f"{table.where}: it lacks {'gold' if len(sides) == 2 else 'two texts'} (columns: "
            f"{', '.join(table.columns)}); choose with --columns sentence1=NAME,sentence2=NAME,"
            "gold=NAME, or give the pairs with --on FILE"
        )
    if not systems:
        first = ", ".join(f"{name} {table.columns[name][0]!r}" for name in unread)
        raise DataError(
            f"{table.where}: no column has a system's scores, beside gold = {gold or '?'}; write "
            f"them as numbers with a decimal point (not read: {first or 'nothing'})"
        )
    rows = pd.DataFrame(systems)
    if len(systems) == 1 and _ANY_SYSTEM.fullmatch(plain_name(*systems)):
        rows.columns = [set_name(path)]
    note = f"{table.where}: systems = {', '.join(rows)}; gold = {gold or 'that of the pairs'}"
    rows.attrs["where"] = table.where
    rows.attrs["columns"] = chosen | ({"score": gold} if len(golds) > 1 else {})
    rows.attrs["note"] = f"{note}; not read: {', '.join(unread)}" if unread else note
    if own_id:
        rows[_ID] = _plain_ids(table.columns[own_id])
        for row in np.flatnonzero(rows[_ID].duplicated()):
            raise DataError(
                f"{table.at(int(row))}: {own_id} {rows[_ID][row]} occurs twice; give each pair an "
                "id of its own, or drop the column"
            )
    if len(sides) == 2:
        rows[_TEXTS] = list(zip(*map(table.columns.get, sides), strict=True))
    if gold:
        rows[_GOLD] = pd.Series(table.numbers(gold)).round(4)
    return rows


def _plain_ids(ids: list[str]) -> list[str]:
    """Return ids without the ".0" that a column of whole numbers with a gap gets from pandas."""
    return [name.strip().removesuffix(".0") for name in ids]


def _find_systems(table: Table, taken: set[str]) -> tuple[dict[str, pd.Series], list[str]]:
    """Return the columns with scores, nan for an empty cell, and the names of those that are not.

    Raises DataError for a cell of the former that is neither empty nor a finite number."""
    systems = {}
    unread = []
    for column, texts in table.columns.items():
        if column in taken:
            continue
        numbers = pd.Series(table.numbers(column))
        wrong = np.flatnonzero(numbers.isna() & (pd.Series(texts).str.strip() != ""))
        if _NO_SYSTEM.fullmatch(column) or numbers.count() <= len(wrong):
            unread.append(column)
            continue
        for row in wrong:
            raise DataError(
                f"{table.at(int(row))}: {column} is {texts[row]!r}, not a finite number; correct "
                "it, or leave it empty to leave out the pair"
            )
        systems[column] = numbers
    return systems, unread


def _join_table(rows: pd.DataFrame, table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return rows with the scores that the rows of another file have for them."""
    where = table.attrs["where"]
    shared = [key for key in (_ID, _TEXTS, _GOLD) if key in rows and key in table]
    if shared in ([], [_GOLD]):
        raise DataError(f"{where}: it lacks a column id or both texts, by which rows are matched")
    for system in rows.columns.intersection(table.columns).difference(shared):
        raise DataError(
            f"{where}: another file has a system {system}, too; rename its column, or the file if "
            "the system is called by it"
        )
    # Equal texts with equal scores are one row.
    others = table.drop_duplicates().reset_index(names=_OTHER)
    for row in np.flatnonzero(others.duplicated(shared)):
        raise DataError(
            f"{where}: {others[shared[0]][row]} occurs twice with other scores; add to all files a "
            "column id"
        )
    joined = rows.merge(others, "left", shared)
    unused = len(others) - joined.pop(_OTHER).nunique()
    if unused:
        notes.append(f"{where}: {unused} rows left out, whose id, texts or gold no other file has")
    return joined
