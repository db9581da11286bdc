"""The entries of data sets: those of data/catalogue.toml, and one made of the columns of a user's own file."""

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from workbench.data._tables import Table, to_number
from workbench.errors import DataError, SettingError, did_you_mean
from workbench.files import project_path

Kind = Literal["sentences", "pairs", "triplets", "labelled", "transfer tasks"]
Columns = Mapping[str, str] | None
Scale = tuple[float, float] | None
_CLASSES = (("contradiction", "neutral", "entailment"), ("false", "true"), ("no", "yes"))
_USUAL_SCALES = ((0.0, 1.0), (-1.0, 1.0), (1.0, 5.0), (0.0, 5.0), (0.0, 10.0), (0.0, 100.0))
# As in "similarity (0-5)", "score (0 to 5)" or "grade (0, 1, 2, 3)".
_STATED_SCALE = re.compile(r"\(\s*(-?[\d.]+)(?:\s*,\s*[\d.]+)*\s*(?:to|-|–|,)\s*(-?[\d.]+)\s*\)")


@dataclass(frozen=True)
class DataSet:
    """One data set: where its files are, and which of their columns has which role."""

    name: str
    kind: Kind
    title: str
    files: Sequence[str]  # below the data root; several are joined
    licence: str
    roles: Mapping[str, str]  # "score", "sentence1", "subset", ... -> column
    rows: int = 0  # as published; 0: not stated
    scale: Sequence[float] | None = None  # the range of the gold scores
    ids: Sequence[str] = ()  # the columns that identify a pair; without them its row number does
    classes: Sequence[str] = ()  # in order: CoSENT ranks those of inference 0 < 1 < 2
    unlabelled: str = ""  # the label of rows without gold, which are left out and counted
    bundled: bool = False  # part of the project
    note: str = ""
    hub: Mapping[str, Any] = field(default_factory=dict)  # arguments of datasets.load_dataset; {}: not on the hub
    hub_columns: Mapping[str, str] = field(default_factory=dict)  # our column -> that of the hub
    hub_labels: Mapping[str, str] = field(default_factory=dict)  # label of the hub -> ours
    archive: Sequence[str] = ()  # files inside SentEval's archive on the hub
    fields: str = ""  # the names of the fields there
    header: int = 0  # lines of header there


def dataset_names(kind: str | None = None) -> list[str]:
    """Return the names of all data sets, or of those of one kind."""
    return [name for name, entry in CATALOGUE.items() if kind in (None, entry.kind)]


def find_set(name: str, kind: str | None = None) -> DataSet:
    """Return the entry called `name`. Raises DataError with the closest name, or if it is of another kind."""
    entry = CATALOGUE.get(name)
    if entry is None:
        raise DataError(f"no dataset {name!r}{did_you_mean(name, CATALOGUE)}; `workbench data list` shows all")
    if kind not in (None, entry.kind):
        raise DataError(f"{name} holds {entry.kind}, not {kind}; load_data({name!r}) loads it")
    return entry


def _read_sets() -> Iterator[DataSet]:
    """Yield every set; an entry with a table of `rows` is a set per part (row), whose name replaces "{part}"."""
    for own in _TABLES["set"]:
        facts: dict[str, Any] = {}
        for source in [*(_TABLES["like"][name] for name in own.pop("like", [])), own]:
            facts |= source | {"hub": facts.get("hub", {}) | source.get("hub", {})}
        for part in facts["rows"] if isinstance(facts["rows"], dict) else [""]:
            text = json.dumps(facts).replace("{part}", part)
            yield DataSet(**json.loads(text, object_hook=lambda table, part=part: table.get(part, table)))


_TABLES = tomllib.loads((project_path("data") / "catalogue.toml").read_text(encoding="utf-8"))
CATALOGUE: Mapping[str, DataSet] = {entry.name: entry for entry in _read_sets()}
# Kind -> role -> the usual names of its column; the kind with the most roles comes first.
ROLES: Mapping[Kind, Mapping[str, list[str]]] = _TABLES["columns"]


def parse_columns(text: str) -> dict[str, str]:
    """Return {"sentence1": "left", ...} for "sentence1=left,score=how close"."""
    parts = [[half.strip() for half in part.partition("=")] for part in text.split(",")] if text else []
    if not all(role and column for role, _, column in parts):
        raise SettingError(f"--columns {text!r}: expected ROLE=COLUMN,..., for example sentence1=left,score=grade")
    return {role: column for role, _, column in parts}


def kinds_of_table(table: Table, chosen: Columns = None) -> tuple[Kind, ...]:
    """Return every kind that a table can be read as, the fullest first. Raises DataError if there is none."""
    matches = {kind: _match_columns(kind, table.columns, chosen) for kind in ROLES}
    kinds: list[Kind] = [kind for kind in ROLES if matches[kind] and all(matches[kind].values())]
    if not kinds:
        nearest = max(ROLES, key=lambda kind: sum(map(bool, matches[kind].values())))
        raise _missing_columns(table, nearest, matches[nearest])
    return tuple(kinds)


def read_roles(name: str, kind: Kind, table: Table, chosen: Columns, scale: Scale) -> tuple[DataSet, Table, str]:
    """Return the entry of a user's table as in the catalogue, the table, and a text about what was guessed."""
    matches = _match_columns(kind, table.columns, chosen)
    if not matches:
        wrong, roles = ", ".join(chosen or {}), ", ".join(ROLES[kind])
        raise DataError(f"{table.where}: columns chosen for {wrong}, but the roles of {kind} are {roles}")
    if not all(matches.values()):
        raise _missing_columns(table, kind, matches)
    roles = {role: columns[0] for role, columns in matches.items()}
    for role, texts in table.by_role(roles).items():
        if matches[role][1:] and _plain(roles[role]) not in ROLES[kind][role][:3]:
            several = " or ".join(map(repr, matches[role]))
            raise DataError(f"{table.where}: {role} could be {several}; choose with --columns {role}=NAME")
        if role != "score" and not any(math.isnan(to_number(text)) for text in texts):
            raise DataError(f"{table.where}: {roles[role]} has a number in every row; if swapped, name them: --columns")
    entry = DataSet(name, kind, "your own", (table.where,), "your own", roles)
    if kind == "triplets":
        table = table.combine_lists(roles["positive"], roles["negative"])
    notes = [f"{role} = {column}" for role, column in roles.items() if role != column]
    if kind == "pairs":
        entry, table, note = _read_scores(entry, table, scale, explicit=roles["score"] in (chosen or {}).values())
        notes.append(note)
    elif unread := ", ".join(column for column in table.columns if column not in roles.values()):
        notes.append(f"not read: {unread}")
    return entry, table, ", ".join(filter(None, [*notes, table.note]))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _STATED_SCALE.sub("", name).casefold())


def _match_columns(kind: Kind, columns: Iterable[str], chosen: Columns) -> dict[str, list[str]]:
    """Return role -> the columns that may have it, best first; {} if a chosen role is not one of this kind."""
    named = {_plain(role): column for role, column in (chosen or {}).items()}
    taken, matches = set(named.values()), {}
    for role, names in ROLES[kind].items():
        if key := next((name for name in names if name in named), None):
            matches[role] = [named.pop(key)]
            continue
        free = [(_plain(column), column) for column in columns if column not in taken]
        matches[role] = [column for name in names for plain, column in free if plain == name]
        if kind == "pairs" and not matches[role] and {*_TABLES["companions"].get(role, [])} & {*map(_plain, columns)}:
            matches[role] = [column for plain, column in free if plain in ("text", "sentence")]
        taken.update(matches[role][:1])
    return {} if named else matches


def _missing_columns(table: Table, kind: Kind, matches: Mapping[str, list[str]]) -> DataError:
    known = ", ".join(f"{role} = {columns[0]}" for role, columns in matches.items() if columns) or "none"
    missing = ",".join(f"{role}=NAME" for role, columns in matches.items() if not columns) or "ROLE=NAME"
    have = f"{table.where}: the columns are {', '.join(list(table.columns)[:12])} (known: {known})"
    what = f"{kind} have {', '.join(ROLES[kind])}: rename columns in the file"
    if missing in ("score=NAME", "negative=NAME"):
        what = f"no method trains on pairs without a score or a negative; {what}"
    return DataError(f"{have}; {what}, or rewrite it with `workbench data split` and --columns {missing}")


def _read_scores(entry: DataSet, table: Table, scale: Scale, *, explicit: bool) -> tuple[DataSet, Table, str]:
    """Return entry and table with scores that can be read, and a note; `explicit`: the user chose the column."""
    if scale is not None and not (len(scale) == 2 and to_number(str(scale[0])) < to_number(str(scale[1]))):
        raise DataError(f"scale is {scale}: give the lowest score, then the highest, such as (0, 5) or --scale 0 5")
    column, note = entry.roles["score"], ""
    labels = [score.strip().casefold() for score in table.columns[column]]
    if classes := next((ordered for ordered in _CLASSES if {*labels} - {"-"} <= {*ordered}), ()):
        entry = replace(entry, classes=classes, unlabelled="-", scale=scale or (0.0, len(classes) - 1.0))
        return entry, replace(table, columns={**table.columns, column: labels}), f"classes {' < '.join(classes)}"
    stated = _STATED_SCALE.search(column)
    numbers = list(map(to_number, labels))
    if not explicit and not stated:
        _refuse_numbered_classes(entry, table, {*numbers})
    if scale is None and stated and to_number(stated[1]) < to_number(stated[2]):
        scale = (float(stated[1]), float(stated[2]))
    if scale is None and not any(map(math.isnan, numbers)):  # a score that is not a number is refused later by its line
        low, high = min(numbers), max(numbers)
        _refuse_missing_gold(table, column, numbers)
        usual = [one for one in _USUAL_SCALES if one[0] <= low and high <= one[1] and one[0] in (low, 0, -1)]
        scale = (low, high) if not usual or all(map(float.is_integer, numbers)) else usual[0]
        note = f"scale {scale[0]:g} to {scale[1]:g} is a guess from gold of {low:g} to {high:g}"
        if _is_label(column) and scale == (0, 1):
            note += " (1 = similar)"
    return replace(entry, scale=scale), table, note


def _is_label(column: str) -> bool:
    return "label" in _plain(column)


def _refuse_numbered_classes(entry: DataSet, table: Table, values: set[float]) -> None:
    """Raise DataError for classes of inference written as numbers, in which the lowest is often the closest.

    Labels of 0 and 1 are those of paraphrases (1 = similar), unless the first sentence is a premise.
    """
    column = entry.roles["score"]
    is_premise = _plain(entry.roles["sentence1"]) == "premise"
    is_class = is_premise or (_is_label(column) and not values <= {0, 1})
    if not is_class or not values <= {-1, 0, 1, 2}:
        return
    known = ", ".join(f"{value:g}" for value in sorted(values))
    what = f"{column} holds classes as numbers ({known}), and most published files count from 0 = entailment"
    closer = f"if larger is closer rename it to score, or --columns score={column}"
    remedy = f"write the words (or triplets: docs/own-data.md); {closer}"
    raise DataError(f"{table.where}: {what}; {remedy}")


def _refuse_missing_gold(table: Table, column: str, numbers: list[float]) -> None:
    """Raise DataError with the row of a -1 below scores from 0: published files write it for a missing score."""
    lowest, *others = sorted({*numbers})
    if lowest == -1 and others and others[0] >= 0 and others[-1] > 1:
        what = f"{column} is -1, which often means that there is no score"
        place = table.at(numbers.index(-1))
        raise DataError(f"{place}: {what}; drop such rows, or state the range with --scale -1 {others[-1]:g}")
