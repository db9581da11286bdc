"""Which column of a user's table has which role, and the range of its scores."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from workbench.data._catalogue import BESIDE, ROLES, DataSet, Kind
from workbench.data._tables import Table
from workbench.errors import DataError, SettingError

Columns = Mapping[str, str] | None
Scale = tuple[float, float] | None
_CLASSES = (("contradiction", "neutral", "entailment"), ("false", "true"), ("no", "yes"))
_USUAL_SCALES = ((0.0, 1.0), (-1.0, 1.0), (1.0, 5.0), (0.0, 5.0), (0.0, 10.0), (0.0, 100.0))
_STATED_SCALE = re.compile(r"\(\s*(-?[\d.]+)\s*(?:to|-|–|,)\s*(-?[\d.]+)\s*\)")  # as in "similarity (0-5)"


def parse_columns(text: str) -> dict[str, str]:
    """Return {"sentence1": "left", ...} for "sentence1=left,score=how close"."""
    parts = [[half.strip() for half in part.partition("=")] for part in text.split(",")] if text else []
    if not all(role and column for role, _, column in parts):
        raise SettingError(f"--columns {text!r}: expected ROLE=COLUMN,..., for example sentence1=left,score=grade")
    return {role: column for role, _, column in parts}


def kinds_of_table(table: Table, chosen: Columns = None) -> tuple[Kind, ...]:
    """Return every kind that a table can be read as, the fullest first. Raises DataError if there is none."""
    candidates = {kind: _candidates(kind, table.columns, chosen) for kind in ROLES}
    kinds: list[Kind] = [kind for kind in ROLES if candidates[kind] and all(candidates[kind].values())]
    if kinds:
        return tuple(kinds)
    raise _not_found(table, max(candidates.values(), key=lambda roles: sum(map(bool, roles.values()))))


def read_roles(name: str, kind: Kind, table: Table, chosen: Columns, scale: Scale) -> tuple[DataSet, Table, str]:
    """Return the entry of a user's table as in the catalogue, the table, and a text about what was guessed."""
    candidates, roles = _candidates(kind, table.columns, chosen), {}
    for role, columns in candidates.items():
        if not columns:
            raise _not_found(table, candidates)
        if len(columns) > 1 and _plain(columns[0]) not in ROLES[kind][role][:3]:
            several = " or ".join(map(repr, columns))
            raise DataError(f"{table.where}: {role} could be {several}; choose with --columns {role}=NAME")
        roles[role] = columns[0]
        if role not in ("score", "label") and all(map(_is_number, table.column(columns[0]))):
            raise DataError(f"{table.where}: {columns[0]} is a number in every row; are columns swapped? Use --columns")
    if not roles:
        wrong, known = ", ".join(chosen or {}), ", ".join(ROLES[kind])
        raise DataError(f"{table.where}: columns chosen for {wrong}, but the roles of {kind} are {known}")
    entry = DataSet(name, kind, "your own", (table.where,), "your own", roles)
    notes = [f"{role} = {column}" for role, column in roles.items() if role != column]
    if kind == "pairs":
        entry, table, note = _with_gold(entry, table, scale, explicit=roles["score"] in (chosen or {}).values())
        notes.append(note)
    if kind == "labelled":
        entry = replace(entry, classes=_classes(table, roles))
        notes.append(f"{len(entry.classes)} classes")
    unread = ", ".join(column for column in table.columns if column not in roles.values())
    notes.append(f"not read: {unread}" if unread and kind != "pairs" else "")
    return entry, table, ", ".join(filter(None, [*notes, table.note]))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _STATED_SCALE.sub("", name).casefold())


def _candidates(kind: Kind, columns: Iterable[str], chosen: Columns) -> dict[str, list[str]]:
    """Return role -> the columns that may have it, best first; {} if a chosen role is not one of this kind."""
    named = {_plain(role): column for role, column in (chosen or {}).items()}
    taken, candidates = set(named.values()), {}
    for role, names in ROLES[kind].items():
        key = next((name for name in names if name in named), None)
        free = [(_plain(column), column) for column in columns if column not in taken]
        fitting = [column for name in names for plain, column in free if plain == name]
        if kind == "pairs" and not fitting and BESIDE.get(role, set()) & {*map(_plain, columns)}:
            fitting = [column for plain, column in free if plain in ("text", "sentence")]
        candidates[role] = [named.pop(key)] if key else fitting
        taken.update(candidates[role][:1])
    return {} if named else candidates


def _not_found(table: Table, roles: Mapping[str, list[str]]) -> DataError:
    known = ", ".join(f"{role} = {columns[0]}" for role, columns in roles.items() if columns) or "none"
    missing = ",".join(f"{role}=NAME" for role, columns in roles.items() if not columns) or "ROLE=NAME"
    have = f"{table.where}: the columns are {', '.join(list(table.columns)[:12])} (known: {known})"
    return DataError(f"{have}; name the others: `workbench data check` or `data split` --columns {missing}")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _classes(table: Table, roles: Mapping[str, str]) -> tuple[str, ...]:
    labels, sentences = set(table.column(roles["label"])), set(table.column(roles["sentence"]))
    if len(labels) > max(1, len(sentences)):
        raise DataError(f"{table.where}: {len(labels)} labels for {len(sentences)} sentences; are columns swapped?")
    if "" in labels:
        raise DataError(f"{table.at(table.column(roles['label']).index(''))}: {roles['label']} is empty; fill it in")
    return tuple(sorted(labels, key=lambda label: (float(label), "") if _is_number(label) else (0.0, label)))


def _with_gold(entry: DataSet, table: Table, scale: Scale, *, explicit: bool) -> tuple[DataSet, Table, str]:
    """Return entry and table with scores that can be read, and a note; `explicit`: the user chose the column."""
    if scale is not None and not scale[0] < scale[1]:
        raise DataError(f"--scale {scale[0]:g} {scale[1]:g}: expected the lowest score first, then the highest")
    column = entry.roles["score"]
    labels = [label.strip().casefold() for label in table.column(column)]
    if classes := next((ordered for ordered in _CLASSES if {*labels} - {"-"} <= {*ordered}), ()):
        entry = replace(entry, classes=classes, unlabelled="-", scale=scale or (0.0, len(classes) - 1.0))
        return entry, replace(table, columns={**table.columns, column: labels}), f"classes {' < '.join(classes)}"
    if not explicit and _plain(entry.roles["sentence1"]) == "premise" and {*labels} <= {"0", "1", "2", "-1"}:
        raise DataError(
            f"{table.where}: {column} holds classes as numbers, and most published files count from 0 = entailment, "
            f"the closest; write the words, or --columns score={column} if larger is closer"
        )
    if scale is None and (stated := _STATED_SCALE.search(column)) and float(stated[1]) < float(stated[2]):
        scale = (float(stated[1]), float(stated[2]))
    if scale or not all(map(_is_number, labels)):  # what is no number is refused later, with its line
        return replace(entry, scale=scale), table, ""
    low, high = (float(bound) for bound in (min(labels, key=float), max(labels, key=float)))
    usual = [one for one in _USUAL_SCALES if one[0] <= low and high <= one[1] and one[0] in (low, 0, -1)]
    whole = all(float(label).is_integer() for label in labels)
    scale = (low, high) if whole or not usual else usual[0]
    note = f"scale {scale[0]:g} to {scale[1]:g} is a guess from gold of {low:g} to {high:g}"
    return replace(entry, scale=scale), table, note
