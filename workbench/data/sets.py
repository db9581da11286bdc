"""What a set is once loaded: sentences, scored pairs, triples, labelled sentences; and the checks on the way there."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from workbench.data.entry import DataSet
from workbench.data.format import Table
from workbench.errors import DataError


@dataclass(frozen=True)
class Sentences:
    """Unlabelled sentences; an empty one is a single space, as in SimCSE's training code."""

    name: str
    sentences: list[str]
    source: str
    checksum: str

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, row: int) -> str:
        return self.sentences[row]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Scored pairs: `gold` within `scale`, larger is closer; `subset` names the parts of a suite that has parts.

    `extra` holds the file's other columns as text; `dropped` counts rows left out because they had no gold label.
    """

    name: str
    sentence1: list[str]
    sentence2: list[str]
    gold: np.ndarray
    subset: list[str] | None
    pair_id: list[str]
    scale: tuple[float, float]
    source: str
    checksum: str
    extra: dict[str, list[str]] = field(default_factory=dict)
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.sentence1)

    def __getitem__(self, row: int) -> tuple[str, str, float]:
        return self.sentence1[row], self.sentence2[row], float(self.gold[row])


@dataclass(frozen=True)
class Triples:
    """Anchors, each with a positive and a hard negative."""

    name: str
    anchor: list[str]
    positive: list[str]
    hard_negative: list[str]
    source: str
    checksum: str

    def __len__(self) -> int:
        return len(self.anchor)

    def __getitem__(self, row: int) -> tuple[str, str, str]:
        return self.anchor[row], self.positive[row], self.hard_negative[row]


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences with a class each: `label` counts into `classes`. Empty sentences are kept, as SentEval keeps them."""

    name: str
    sentences: list[str]
    label: list[int]
    source: str
    checksum: str
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, row: int) -> tuple[str, int]:
        return self.sentences[row], self.label[row]


AnySet = TypeVar("AnySet", Sentences, Pairs, Triples, LabelledSentences)


def as_sentences(entry: DataSet, table: Table, source: str) -> Sentences:
    """The sentences of `table`."""
    column = table.column(entry.roles["sentence"])
    return Sentences(entry.name, [s if s and not s.isspace() else " " for s in column], source, table.checksum)


def as_pairs(entry: DataSet, table: Table, source: str, *, raw: bool = False) -> Pairs:
    """The scored pairs of `table`; DataError naming the first row with an empty sentence or a gold that cannot be."""
    roles = dict(entry.roles)
    checksum = table.checksum
    if raw and entry.hub_raw is not None:
        roles |= {role: f"{roles[role]}_raw" for role in ("sentence1", "sentence2")}
        source += ", text as published"
        checksum = hashlib.sha256(f"{checksum} raw".encode()).hexdigest()  # one file holds both forms
    labels = table.column(roles["gold"])
    gold = _class_gold(entry, table, labels) if entry.classes else _number_gold(entry, table, labels)
    kept = np.flatnonzero(~np.isnan(gold)).tolist()  # nan only where a label says that there is no gold
    if not kept:
        raise DataError(f"{table.where}: no row has a gold label; choose another set")

    def rows(column: list[str]) -> list[str]:
        return column if len(kept) == len(column) else [column[i] for i in kept]

    subset = roles.get("subset")
    if raw and subset not in table.columns:
        subset = None
    used = {*roles.values(), *entry.roles.values()}
    extra = {n: rows(v) for n, v in table.columns.items() if n not in used and not n.endswith("_raw")}
    dropped = len(labels) - len(kept)
    return Pairs(
        entry.name,
        rows(_sentences(table, roles["sentence1"])),
        rows(_sentences(table, roles["sentence2"])),
        _read_only(gold[kept]),
        rows(table.column(subset)) if subset else None,
        rows(_pair_ids(entry, table)),
        entry.scale or (float(gold[kept].min()), float(gold[kept].max())),
        source + (f" ({dropped} rows without a gold label left out)" if dropped else ""),
        checksum,
        extra,
        dropped,
    )


def as_triples(entry: DataSet, table: Table, source: str) -> Triples:
    """The triples of `table`; an empty sentence is a single space, as in SimCSE's training code."""
    anchor, positive, hard_negative = (
        [s if s and not s.isspace() else " " for s in table.column(entry.roles[role])]
        for role in ("anchor", "positive", "hard_negative")
    )
    return Triples(entry.name, anchor, positive, hard_negative, source, table.checksum)


def as_labelled(entry: DataSet, table: Table, source: str) -> LabelledSentences:
    """The labelled sentences of `table`; DataError naming the first label that is no class."""
    labels = table.column(entry.roles["label"])
    label = [int(value) for value in _class_gold(entry, table, labels)]
    sentences = table.column(entry.roles["sentence"])
    return LabelledSentences(entry.name, sentences, label, source, table.checksum, entry.classes)


def sample(data: AnySet, limit: int | None, seed: int) -> AnySet:
    """`limit` rows of `data` drawn without replacement, in their order; `data` itself when it has no more than that.

    The draw depends on `seed`, `limit` and the number of rows only, and the checksum becomes that of the sample.
    """
    if limit is not None and limit < 1:
        raise DataError(f"{data.name}: limit {limit}; it is a number of rows, 1 or more, or None for all")
    if limit is None or limit >= len(data):
        return data
    rows: list[int] = np.sort(np.random.default_rng(seed).choice(len(data), limit, replace=False)).tolist()
    changes: dict[str, object] = {
        name: [value[i] for i in rows] for name, value in vars(data).items() if isinstance(value, list)
    }
    if isinstance(data, Pairs):
        changes["gold"] = _read_only(data.gold[rows])
        changes["extra"] = {name: [column[i] for i in rows] for name, column in data.extra.items()}
    changes["source"] = f"{data.source}, {limit} of {len(data)} rows sampled with seed {seed}"
    changes["checksum"] = hashlib.sha256(f"{data.checksum} {limit} {seed}".encode()).hexdigest()
    return replace(data, **changes)


def _read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def _sentences(table: Table, name: str) -> list[str]:
    column = table.column(name)
    for row, sentence in enumerate(column):
        if not sentence or sentence.isspace():
            raise DataError(f"{table.at(row)}: {name} is empty; a pair needs two sentences, fill it in or drop the row")
    return column


def _number_gold(entry: DataSet, table: Table, labels: Sequence[str]) -> np.ndarray:
    low, high = entry.scale or (-math.inf, math.inf)
    try:
        gold = np.array(labels, dtype=np.float64)
        if np.isfinite(gold).all() and gold.min() >= low and gold.max() <= high:
            return gold
    except ValueError:
        pass  # found again below, with its line
    allowed = f"a number from {low:g} to {high:g}" if entry.scale else "a finite number"
    for row, label in enumerate(labels):
        try:
            value = float(label)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high):
            name = entry.roles["gold"]
            raise DataError(f"{table.at(row)}: {name} is {label!r}, not {allowed}; correct it or drop the row")
    raise AssertionError("unreachable: one label was refused by numpy")


def _class_gold(entry: DataSet, table: Table, labels: Sequence[str]) -> np.ndarray:
    """The place of each label among the classes; nan for the label that says that there is no gold."""
    code = {name: float(i) for i, name in enumerate(entry.classes)}
    if entry.unlabelled:
        code[entry.unlabelled] = math.nan
    for row, label in enumerate(labels):
        if label not in code:
            raise DataError(f"{table.at(row)}: label {label!r}; allowed are {', '.join(map(repr, code))}")
    return np.array([code[label] for label in labels])


def _pair_ids(entry: DataSet, table: Table) -> list[str]:
    """One id a row: the id columns joined by ":", with a running number where they repeat; else the row's number."""
    if not entry.ids or any(name not in table.columns for name in entry.ids):
        return [str(row) for row in range(len(table))]
    ids = [":".join(parts) for parts in zip(*(table.columns[name] for name in entry.ids), strict=True)]
    if len(set(ids)) == len(ids):
        return ids
    seen: dict[str, int] = {}
    for row, name in enumerate(ids):
        seen[name] = seen.get(name, -1) + 1
        ids[row] = f"{name}.{seen[name]}"
    return ids
