"""The catalogue of data sets, and the usual names of columns, read from data/catalogue.toml."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.errors import DataError, did_you_mean
from workbench.files import project_path

Kind = Literal["sentences", "pairs", "triplets", "labelled", "transfer tasks"]


@dataclass(frozen=True)
class Hub:
    """A data set on the Hugging Face hub: its repository at a commit."""

    repo: str
    revision: str
    split: str = "train"
    config: str | None = None
    file: str | None = None  # one data file of a repository that holds several sets
    archive: tuple[str, ...] = ()  # files, or subsets, inside `file`, which is SentEval's tar
    fields: str = ""  # the names of the tab-separated fields there
    header: int = 0  # lines of header there
    columns: Mapping[str, str] = field(default_factory=dict)  # our column -> theirs
    labels: Mapping[str, str] = field(default_factory=dict)  # their label -> ours
    rows: int | None = None
    note: str = ""


@dataclass(frozen=True)
class DataSet:
    """One data set: where its files are, and which of their columns has which role."""

    name: str
    kind: Kind
    title: str
    files: tuple[str, ...]  # below the data root; several are joined
    licence: str
    roles: Mapping[str, str]  # "gold", "sentence1", "subset", ... -> column
    rows: int | None = None  # as published
    scale: tuple[float, float] | None = None  # the range of the gold scores
    ids: tuple[str, ...] = ()  # the columns that identify a pair; without them its row number does
    classes: tuple[str, ...] = ()  # in order: CoSENT ranks those of inference 0 < 1 < 2
    unlabelled: str = ""  # the label of rows without gold, which are left out and counted
    bundled: bool = False  # part of the project
    hub: Hub | None = None
    note: str = ""


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
    """Yield every set; an entry with a table of `rows` is a set per part, whose name replaces "{}"."""
    for own in _TABLES["set"]:
        sources = [*(_TABLES["like"][name] for name in own.pop("like", [])), own]
        hub = {key: value for source in sources for key, value in source.get("hub", {}).items()}
        facts: dict[str, Any] = {key: value for source in sources for key, value in source.items()} | {"hub": hub}
        for part in facts["rows"] if isinstance(facts["rows"], dict) else [""]:
            entry = _of_part(facts, part)
            rows = entry["rows"] or None
            yield DataSet(**entry | {"rows": rows, "hub": Hub(**{"rows": rows, **entry["hub"]}) if hub else None})


def _of_part(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return _of_part(value[part], part) if part in value else {key: _of_part(v, part) for key, v in value.items()}
    if isinstance(value, list):
        return tuple(_of_part(item, part) for item in value)
    return value.replace("{}", part) if isinstance(value, str) else value


_TABLES = tomllib.loads((project_path("data") / "catalogue.toml").read_text(encoding="utf-8"))
CATALOGUE: Mapping[str, DataSet] = {entry.name: entry for entry in _read_sets()}
# Kind -> role -> the usual names of its column; the kind with the most roles comes first.
ROLES: Mapping[Kind, Mapping[str, list[str]]] = {
    kind: {role: names.split() for role, names in roles.items()} for kind, roles in _TABLES["columns"].items()
}
COMPANIONS = {role: set(names.split()) for role, names in _TABLES["companions"].items()}
