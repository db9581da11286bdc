"""The catalogue of data sets, data/catalogue.toml."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from workbench.config import read_data
from workbench.data._tables import Roles
from workbench.errors import DataError, did_you_mean

Kind = Literal["sentences", "pairs", "triplets", "labelled", "transfer tasks"]


@dataclass(frozen=True)
class DataSet:
    """One data set: where its files are, and which of their columns has which role."""

    name: str
    kind: Kind
    title: str
    files: Sequence[str]  # below the data root; several are joined
    licence: str
    roles: Roles  # "score", "sentence1", "subset", ... -> column
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
    """Return the entry called `name`.

    Raises DataError with the closest name, or if the set is of another kind."""
    entry = CATALOGUE.get(name)
    if entry is None:
        raise DataError(
            f"no dataset {name!r}{did_you_mean(name, CATALOGUE)}; `workbench data list` shows all; "
            "a file is named with its ending, as mine.csv"
        )
    if kind not in (None, entry.kind):
        raise DataError(f"{name} holds {entry.kind}, not {kind}; load_data({name!r}) loads it")
    return entry


def _read_sets() -> Iterator[DataSet]:
    """Yield every set; an entry with a table of `rows` is a set for each of its parts.

    The name of the part replaces "{part}", and a table with a value per part becomes this value."""
    for own in TABLES["set"]:
        facts = {"hub": {}}
        shared = [TABLES["like"][name] for name in own.pop("like", [])]
        for source in (*shared, own):
            facts |= source | {"hub": facts["hub"] | source.get("hub", {})}
        rows = facts.get("rows")
        for part in rows if isinstance(rows, dict) else [""]:
            text = json.dumps(facts).replace("{part}", part)
            content = json.loads(text, object_hook=lambda table, part=part: table.get(part, table))
            yield DataSet(**content)


# All tables of the file; those on a user's own columns are read in _roles.py.
TABLES = read_data("catalogue.toml")
CATALOGUE = {entry.name: entry for entry in _read_sets()}
# Transfer task -> the set of each split; "all" is cut into folds.
TRANSFER = TABLES["transfer"]
