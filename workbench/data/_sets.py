"""What a set is once loaded: sentences, scored pairs, triples, labelled sentences; and the checks on the way there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral

import numpy as np

from workbench.data._catalogue import DataSet
from workbench.data._format import Table
from workbench.errors import DataError
from workbench.files import text_checksum


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

    def __post_init__(self) -> None:
        if not len(self.sentence1) == len(self.sentence2) == len(self.gold):
            lengths = len(self.sentence1), len(self.sentence2), len(self.gold)
            raise DataError(f"{self.name}: sentence1, sentence2 and gold have {lengths} rows; give one of each a pair")
        if not np.isfinite(self.gold).all():
            row = int(np.flatnonzero(~np.isfinite(self.gold))[0])
            raise DataError(
                f"{self.name}: gold of row {row} is {self.gold[row]}; give a finite number, or drop the row"
            )

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


def as_sentences(entry: DataSet, table: Table, source: str) -> Sentences:
    """The sentences of `table`; DataError when all are blank."""
    return Sentences(entry.name, _spaced(table, entry.roles["sentence"]), source, table.checksum)


def as_triples(entry: DataSet, table: Table, source: str) -> Triples:
    """The triples of `table`; DataError when all anchors, positives or negatives are blank."""
    anchor, positive, hard_negative = (
        _spaced(table, entry.roles[role]) for role in ("anchor", "positive", "hard_negative")
    )
    return Triples(entry.name, anchor, positive, hard_negative, source, table.checksum)


def as_pairs(entry: DataSet, table: Table, source: str) -> Pairs:
    """The scored pairs of `table`; DataError naming the first row with an empty sentence or a gold that cannot be."""
    roles = entry.roles
    labels = table.column(roles["gold"])
    gold = _class_gold(entry, table, labels) if entry.classes else _number_gold(entry, table, labels)
    kept = np.flatnonzero(~np.isnan(gold)).tolist()  # nan only where a label says that there is no gold
    if not kept:
        raise DataError(f"{table.where}: no row has a gold label; choose another set")
    dropped = len(labels) - len(kept)

    def rows(column: list[str]) -> list[str]:
        return [column[i] for i in kept] if dropped else column

    # Columns in _raw hold the text as published, which no paper here scores.
    extra = {n: rows(v) for n, v in table.columns.items() if n not in roles.values() and not n.endswith("_raw")}
    return Pairs(
        entry.name,
        rows(_sentences(table, roles["sentence1"])),
        rows(_sentences(table, roles["sentence2"])),
        _read_only(gold[kept]),
        rows(table.column(roles["subset"])) if "subset" in roles else None,
        rows(_pair_ids(entry, table)),
        entry.scale or (float(gold[kept].min()), float(gold[kept].max())),
        source + (f" ({dropped} rows without a gold label left out)" if dropped else ""),
        table.checksum,
        extra,
        dropped,
    )


def as_labelled(entry: DataSet, table: Table, source: str) -> LabelledSentences:
    """The labelled sentences of `table`; DataError naming the first label that is no class."""
    labels = table.column(entry.roles["label"])
    label = [int(value) for value in _class_gold(entry, table, labels)]
    sentences = table.column(entry.roles["sentence"])
    return LabelledSentences(entry.name, sentences, label, source, table.checksum, entry.classes)


def draw(total: int, limit: int | None, seed: int) -> list[int] | None:
    """`limit` of the rows 0 to `total` - 1 without replacement, in their order; None: all, for there are no more.

    The draw depends on the three numbers only. Raises DataError on a limit that is no row count and a seed below 0.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, Integral) or limit < 1):
        raise DataError(f"limit is {limit!r}; it is a number of rows, 1 or more, or None for all")
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise DataError(f"seed is {seed!r}; it is a whole number, 0 or more")
    if limit is None or limit >= total:
        return None
    return np.sort(np.random.default_rng(seed).choice(total, limit, replace=False)).tolist()


def sampled(source: str, checksum: str, total: int, limit: int | None, seed: int) -> tuple[str, str]:
    """How a sample of `limit` rows speaks of its source, and its own checksum."""
    drawn = f"{source}, {limit} of {total} rows sampled with seed {seed}"
    return drawn, text_checksum(f"{checksum} {limit} {seed}")


def some_pairs(pairs: Pairs, limit: int | None, seed: int) -> Pairs:
    """`limit` of the pairs, as `draw` has it: of those with gold, which are known only when all were read."""
    rows = draw(len(pairs), limit, seed)
    if rows is None:
        return pairs
    source, checksum = sampled(pairs.source, pairs.checksum, len(pairs), limit, seed)
    columns = {name: [value[i] for i in rows] for name, value in vars(pairs).items() if isinstance(value, list)}
    extra = {name: [column[i] for i in rows] for name, column in pairs.extra.items()}
    gold = _read_only(pairs.gold[rows])
    return replace(pairs, **columns, extra=extra, gold=gold, source=source, checksum=checksum)


def _read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def _spaced(table: Table, name: str) -> list[str]:
    """A column of training text; an empty sentence is a single space, as in SimCSE's training code."""
    column = [s if s and not s.isspace() else " " for s in table.column(name)]
    if column.count(" ") == len(column):
        raise DataError(f"{table.where}: {name} is blank in every row; there is nothing to train on")
    return column


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
