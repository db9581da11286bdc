"""The entries of data sets: those of data/catalogue.toml, and one made of the columns of a user's
own file."""

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from workbench.data._tables import Table, is_number, to_number
from workbench.errors import DataError, SettingError, did_you_mean
from workbench.files import project_path

Kind = Literal["sentences", "pairs", "triplets", "labelled", "transfer tasks"]
Columns = Mapping[str, str] | None
Scale = tuple[float, float] | None
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
    # Arguments of datasets.load_dataset; {}: not on the hub.
    hub: Mapping[str, Any] = field(default_factory=dict)
    hub_columns: Mapping[str, str] = field(default_factory=dict)  # our column -> that of the hub
    hub_labels: Mapping[str, str] = field(default_factory=dict)  # label of the hub -> ours
    archive: Sequence[str] = ()  # files inside SentEval's archive on the hub
    fields: str = ""  # the names of the fields there
    header: int = 0  # lines of header there


def dataset_names(kind: str | None = None) -> list[str]:
    """Return the names of all data sets, or of those of one kind."""
    return [name for name, entry in CATALOGUE.items() if kind in (None, entry.kind)]


def find_set(name: str, kind: str | None = None) -> DataSet:
    """Return the entry called `name`. Raises DataError with the closest name, or if it is of
    another kind."""
    entry = CATALOGUE.get(name)
    if entry is None:
        raise DataError(
            f"no dataset {name!r}{did_you_mean(name, CATALOGUE)}; `workbench data list` shows all"
        )
    if kind not in (None, entry.kind):
        raise DataError(f"{name} holds {entry.kind}, not {kind}; load_data({name!r}) loads it")
    return entry


def _read_sets() -> Iterator[DataSet]:
    """Yield every set; an entry with a table of `rows` is a set per part (row), whose name replaces
    "{part}"."""
    for own in _TABLES["set"]:
        facts: dict[str, Any] = {}
        for source in [*(_TABLES["like"][name] for name in own.pop("like", [])), own]:
            facts |= source | {"hub": facts.get("hub", {}) | source.get("hub", {})}
        for part in facts["rows"] if isinstance(facts["rows"], dict) else [""]:
            text = json.dumps(facts).replace("{part}", part)
            yield DataSet(
                **json.loads(text, object_hook=lambda table, part=part: table.get(part, table))
            )


_TABLES = tomllib.loads((project_path("data") / "catalogue.toml").read_text(encoding="utf-8"))
CATALOGUE: Mapping[str, DataSet] = {entry.name: entry for entry in _read_sets()}
# Kind -> role -> the usual names of its column; the kind with the most roles comes first.
ROLES: Mapping[Kind, Mapping[str, list[str]]] = _TABLES["columns"]
# Transfer task -> the set of each split; "all" is cut into folds.
TRANSFER: Mapping[str, Mapping[str, str]] = _TABLES["transfer"]


def parse_columns(text: str) -> dict[str, str]:
    """Return {"sentence1": "left", ...} for "sentence1=left,score=how close"."""
    chosen = {}
    for part in filter(None, text.split(",")):
        role, _, column = map(str.strip, part.partition("="))
        if not role or not column:
            example = "for example sentence1=left,score=grade"
            raise SettingError(f"--columns {text!r}: expected ROLE=COLUMN,..., {example}")
        chosen[role] = column
    return chosen


def kinds_of_table(table: Table, chosen: Columns = None) -> tuple[Kind, ...]:
    """Return every kind that a table can be read as, the fullest first. Raises DataError if there
    is none."""
    matches = {kind: _match_columns(kind, table.columns, chosen) for kind in ROLES}
    kinds: list[Kind] = [kind for kind in ROLES if all(matches[kind].values())]
    if not kinds:
        nearest = max(ROLES, key=lambda kind: sum(map(bool, matches[kind].values())))
        raise _missing_columns(table, nearest, matches[nearest])
    if "triplets" in kinds:
        positive, negative = (matches["triplets"][role][0] for role in ("positive", "negative"))
        if table.has_lists(positive, negative):
            return ("triplets",)
    return tuple(kinds)


def read_roles(
    name: str, kind: Kind, table: Table, chosen: Columns, scale: Scale
) -> tuple[DataSet, Table, str]:
    """Return the entry of a user's table as in the catalogue, the table, and a text about what was
    guessed."""
    matches = _match_columns(kind, table.columns, chosen)
    if not all(matches.values()):
        raise _missing_columns(table, kind, matches)
    roles = {role: columns[0] for role, columns in matches.items()}
    for role, texts in table.by_role(roles).items():
        column = roles[role]
        is_usual = _plain(column) in ROLES[kind][role][:3]
        if len(matches[role]) > 1 and not is_usual:
            several = " or ".join(map(repr, matches[role]))
            problem = f"{role} could be {several}; choose with --columns {role}=NAME"
            raise DataError(f"{table.where}: {problem}")
        if role != "score" and all(map(is_number, texts)):
            problem = f"{column} has a number in every row; if swapped, name them: --columns"
            raise DataError(f"{table.where}: {problem}")
    entry = DataSet(name, kind, "your own", (table.where,), "your own", roles)
    notes = [f"{role} = {column}" for role, column in roles.items() if role != column]
    unread = [column for column in table.columns if column not in roles.values()]
    if kind == "triplets":
        table = table.combine_lists(roles["positive"], roles["negative"])
    if kind == "pairs":
        explicit = roles["score"] in (chosen or {}).values()
        entry, table, note = _read_scores(entry, table, scale, explicit=explicit)
        notes.append(note)
    elif unread:
        notes.append(f"not read: {', '.join(unread)}")
    return entry, table, ", ".join(filter(None, [*notes, table.note]))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _STATED_SCALE.sub("", name).casefold())


def _match_columns(kind: Kind, columns: Iterable[str], chosen: Columns) -> dict[str, list[str]]:
    """Return role -> the columns that may have it, best first; none if a chosen role is not of this
    kind."""
    named = {_plain(role): column for role, column in (chosen or {}).items()}
    taken = set(named.values())
    plain = {column: _plain(column) for column in columns}
    matches = {}
    for role, names in ROLES[kind].items():
        key = next((name for name in names if name in named), None)
        if key is not None:
            matches[role] = [named.pop(key)]
            continue
        free = [column for column in plain if column not in taken]
        found = [column for name in names for column in free if plain[column] == name]
        companions = _TABLES["companions"].get(role, [])
        if not found and not set(companions).isdisjoint(plain.values()):
            found = [column for column in free if plain[column] in ("text", "sentence")]
        matches[role] = found
        taken.update(found[:1])
    return {role: [] for role in matches} if named else matches


def _missing_columns(table: Table, kind: Kind, matches: Mapping[str, list[str]]) -> DataError:
    """Return an error with the columns of a table and the roles that none of them has."""
    have = ", ".join(list(table.columns)[:12])
    known = [f"{role} = {columns[0]}" for role, columns in matches.items() if columns]
    missing = ",".join(f"{role}=NAME" for role, columns in matches.items() if not columns)
    problem = f"the columns are {have} (known: {', '.join(known) or 'none'})"
    rule = f"the roles of {kind} are {', '.join(matches)}"
    if missing in ("score=NAME", "negative=NAME"):
        rule = f"no method trains on pairs without a score or a negative; {rule}"
    remedy = "rename columns in the file, or rewrite it with `workbench data split` and --columns"
    return DataError(f"{table.where}: {problem}; {rule}: {remedy} {missing}")


def _read_scores(
    entry: DataSet, table: Table, scale: Scale, *, explicit: bool
) -> tuple[DataSet, Table, str]:
    """Return entry and table with scores that can be read, and a note; `explicit`: the user chose
    the column."""
    if scale is not None and not (len(scale) == 2 and -math.inf < scale[0] < scale[1] < math.inf):
        example = "such as (0, 5) or --scale 0 5"
        raise DataError(f"scale is {scale}: give the lowest score, then the highest, {example}")
    column = entry.roles["score"]
    labels = [score.strip().casefold() for score in table.columns[column]]
    for classes in _TABLES["guess"]["classes"]:
        if {*labels} <= {*classes, "-"}:
            scale = scale or (0.0, len(classes) - 1.0)
            entry = replace(entry, classes=classes, unlabelled="-", scale=scale)
            table = replace(table, columns={**table.columns, column: labels})
            return entry, table, f"classes {' < '.join(classes)}"
    numbers = list(map(to_number, labels))
    values = sorted(set(numbers))
    stated = _STATED_SCALE.search(column)
    if stated and scale is None:
        low, high = map(to_number, stated.groups())
        scale = (low, high) if low < high else None
    if not explicit and not stated and _are_numbered_classes(entry, set(values)):
        what = (
            f"{column} holds classes as numbers, and most published files count from 0 = entailment"
        )
        remedy = "write the words (or triplets: docs/own-data.md)"
        closer = f"if larger is closer rename it to score, or --columns score={column}"
        raise DataError(f"{table.where}: {what}; {remedy}; {closer}")
    note = ""
    if scale is None and not any(map(math.isnan, values)):  # otherwise refused later, by its line
        low, high = values[0], values[-1]
        if low == -1 and high > 1 and values[1] >= 0:
            where = table.at(numbers.index(-1))
            what = f"{column} is -1, which often means that there is no score"
            remedy = f"drop such rows, or state the range with --scale -1 {high:g}"
            raise DataError(f"{where}: {what}; {remedy}")
        scale = _guess_scale(values)
        guessed = "{:g} to {:g}".format(*scale)
        note = f"scale {guessed} is a guess from gold of {low:g} to {high:g}"
    return replace(entry, scale=scale), table, note


def _are_numbered_classes(entry: DataSet, values: set[float]) -> bool:
    """Return whether scores are classes of inference as numbers, whose lowest is often the closest.

    Without a premise, labels of 0 and 1 are those of paraphrases (1 = similar), labels of -1 and 1
    are similar or not, and labels of a query are grades of relevance."""
    first = _plain(entry.roles["sentence1"])
    is_label = "label" in _plain(entry.roles["score"]) and first not in (
        "query",
        "question",
        "question1",
    )
    is_class = first == "premise" or (is_label and 0 in values and not values <= {0, 1})
    return is_class and values <= {-1, 0, 1, 2}


def _guess_scale(values: list[float]) -> tuple[float, float]:
    """Return the first usual scale that contains sorted scores, or for whole numbers and in other
    cases their range."""
    low, high = values[0], values[-1]
    if not all(map(float.is_integer, values)):
        for lowest, highest in _TABLES["guess"]["scales"]:
            if lowest <= low and high <= highest and lowest in (low, 0, -1):
                return lowest, highest
    return low, high
