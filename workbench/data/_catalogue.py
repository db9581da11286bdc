"""Every set by name: what catalogue.toml says of its columns, scale and licence, and where it lies."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workbench.errors import DataError, did_you_mean

Kind = Literal["sentences", "pairs", "triples", "labelled", "transfer tasks"]


@dataclass(frozen=True)
class Hub:
    """A set on the hub: its repository at a commit, read by `datasets`, or out of the SentEval archive."""

    repo: str
    revision: str
    split: str = "train"
    config: str | None = None
    file: str | None = None  # one data file of the repository, when it holds several sets
    archive: bool = False  # `file` is SentEval's tar
    columns: Mapping[str, str] = field(default_factory=dict)  # our column -> theirs
    labels: Mapping[str, str] = field(default_factory=dict)  # their label -> ours
    rows: int | None = None
    note: str = ""


@dataclass(frozen=True)
class DataSet:
    """One set: `roles` says which column of its file is the gold, a sentence, a subset."""

    name: str
    kind: Kind
    title: str
    files: tuple[str, ...]  # below the data root; several are joined
    licence: str
    roles: Mapping[str, str]
    rows: int | None = None  # as published
    scale: tuple[float, float] | None = None  # the range of the gold
    ids: tuple[str, ...] = ()  # the columns that name a pair; none: its row, counted from 0
    classes: tuple[str, ...] = ()  # in their order: CoSENT ranks those of inference 0 < 1 < 2
    unlabelled: str = ""  # the label of a row without gold: such rows are left out and counted
    bundled: bool = False  # the project carries it
    hub: Hub | None = None
    note: str = ""


def dataset_names(kind: str | None = None) -> list[str]:
    """The names of the catalogue, of one kind ("sentences", "pairs", "triples", "labelled") or of all."""
    return [name for name, entry in CATALOGUE.items() if kind in (None, entry.kind)]


def find(name: str, *kinds: str) -> DataSet:
    """The entry called `name`; DataError with the closest names, or with the splits when only the split is wrong."""
    entry = CATALOGUE.get(name)
    if entry is None:
        base = name.rpartition("-")[0] or name
        splits = [known for known in CATALOGUE if known.rpartition("-")[0] in (base, name)]
        hint = f"; its splits are {', '.join(splits)}" if splits else did_you_mean(name, CATALOGUE)
        raise DataError(f"no dataset {name!r}{hint}; `workbench data list` shows all {len(CATALOGUE)}")
    if kinds and entry.kind not in kinds:
        raise DataError(
            f"{name} holds {entry.kind}, not {' or '.join(kinds)}: load it with load_{entry.kind}, or choose one of "
            f"{', '.join(f'dataset_names({kind!r})' for kind in kinds)}"
        )
    return entry


def _read_catalogue() -> Iterator[DataSet]:
    table = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    for said in table["set"]:
        facts = _with_likes(said, table["like"])
        rows = facts["rows"]
        for part in rows if isinstance(rows, dict) else [""]:
            yield _entry(_of_part(facts, part))


def _with_likes(said: dict[str, Any], likes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The facts that a table says, over those of the tables that it is like."""
    facts: dict[str, Any] = {}
    for more in (*(_with_likes(likes[name], likes) for name in said.get("like", [])), said):
        hub = facts.get("hub", {}) | more.get("hub", {})
        facts |= more | ({"hub": hub} if hub else {})
    return {name: value for name, value in facts.items() if name != "like"}


def _of_part(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return _of_part(value[part], part) if part in value else {key: _of_part(v, part) for key, v in value.items()}
    if isinstance(value, list):
        return tuple(_of_part(item, part) for item in value)
    return value.replace("{}", part) if isinstance(value, str) else value


def _entry(facts: dict[str, Any]) -> DataSet:
    facts["rows"] = facts["rows"] or None
    if "hub" in facts:
        facts["hub"] = Hub(**{"rows": facts["rows"], **facts["hub"]})
    return DataSet(**facts)


CATALOGUE: Mapping[str, DataSet] = {entry.name: entry for entry in _read_catalogue()}
