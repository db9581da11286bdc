"""What a set is once loaded: sentences, scored pairs, triples, labelled sentences; and the checks on the way there."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from workbench.data._catalogue import DataSet, Kind
from workbench.data._columns import NAMES, Said, understood
from workbench.data._format import Table
from workbench.data._own import table_of
from workbench.errors import DataError
from workbench.files import text_checksum


class _FromColumns:
    """How a set is made of what lies in memory."""

    kind: ClassVar[Kind]

    @classmethod
    def from_frame(
        cls, frame: Any, *, name: str = "frame", columns: Said = None, scale: tuple[float, float] | None = None
    ) -> Self:
        """The set in a data frame, a datasets.Dataset or a dictionary of columns, checked like a file.

        name: in tables and errors.  columns: role -> column, instead of the guess by names, which `.source` tells.
        scale: of pairs, the range of their gold; None: a guess.  Raises DataError.
        """
        entry, table, guess = understood(name, cls.kind, table_of(frame, name), columns, scale)
        return _MAKERS[cls.kind](entry, table, f"{name}, in memory" + (f"; {guess}" if guess else ""))

    @classmethod
    def from_lists(cls, *lists: Iterable[Any], name: str = "lists", scale: tuple[float, float] | None = None) -> Self:
        """The same from one list a role: sentences; sentence1, sentence2, score; anchor, positive, negative; ..."""
        roles = list(NAMES[cls.kind])
        if len(lists) != len(roles):
            raise DataError(f"{name}: {len(lists)} lists; give {len(roles)}: {', '.join(roles)}")
        columns = dict(zip(roles, map(list, lists), strict=True))
        if len(set(map(len, columns.values()))) > 1:
            counts = ", ".join(f"{role} {len(values)}" for role, values in columns.items())
            raise DataError(f"{name}: lists of different lengths ({counts}); give one value a row in each")
        return cls.from_frame(columns, name=name, scale=scale)


@dataclass(frozen=True)
class Sentences(_FromColumns):
    """Unlabelled sentences; an empty one is a single space, as in SimCSE's training code."""

    kind = "sentences"

    name: str
    sentences: list[str]
    source: str
    checksum: str

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, row: int) -> str:
        return self.sentences[row]


@dataclass(frozen=True, eq=False)
class Pairs(_FromColumns):
    """Scored pairs: `gold` within `scale`, larger is closer; `subset` names the parts of a suite that has parts.

    `extra` holds the file's other columns as text; `dropped` counts rows left out because they had no gold label.
    """

    kind = "pairs"

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

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        return f"{self.name}: {len(self)} pairs, gold {self.scale[0]:g} to {self.scale[1]:g}"

    def __len__(self) -> int:
        return len(self.sentence1)

    def __getitem__(self, row: int) -> tuple[str, str, float]:
        return self.sentence1[row], self.sentence2[row], float(self.gold[row])


@dataclass(frozen=True)
class Triples(_FromColumns):
    """Anchors, each with a positive and a hard negative."""

    kind = "triples"

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
class LabelledSentences(_FromColumns):
    """Sentences with a class each: `label` counts into `classes`. Empty sentences are kept, as SentEval keeps them."""

    kind = "labelled"

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


AnySet = Sentences | Pairs | Triples | LabelledSentences
SomeSet = TypeVar("SomeSet", bound=AnySet)

_MAKERS: dict[str, Callable[[DataSet, Table, str], Any]] = {
    "sentences": as_sentences,
    "pairs": as_pairs,
    "triples": as_triples,
    "labelled": as_labelled,
}


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
    return _rows(pairs, rows, pairs.name, *sampled(pairs.source, pairs.checksum, len(pairs), limit or 0, seed))


def _rows(data: Any, rows: Sequence[int], name: str, source: str, checksum: str) -> Any:
    """A set of some rows of another."""
    changed: dict[str, Any] = {
        key: [value[row] for row in rows] for key, value in vars(data).items() if isinstance(value, list)
    }
    if isinstance(data, Pairs):
        changed["gold"] = _read_only(data.gold[list(rows)])
        changed["extra"] = {key: [column[row] for row in rows] for key, column in data.extra.items()}
    return replace(data, **changed, name=name, source=source, checksum=checksum)


def queries(data: AnySet) -> list[str]:
    """The sentence of each row that the others of its group share: the first of a pair or triple, the only one else."""
    return getattr(data, {"pairs": "sentence1", "triples": "anchor"}.get(data.kind, "sentences"))


def split(data: SomeSet, *, dev: float = 0.1, test: float = 0.1, seed: int = 0) -> dict[str, SomeSet]:
    """ "train", "dev" and "test" of a set: all rows with one first sentence (query) fall to one of them.

    dev, test: shares of the queries, from 0 (none) to below 1 together; drawn with `seed`.  Raises DataError.
    """
    groups: dict[str, list[int]] = {}
    for row, query in enumerate(queries(data)):
        groups.setdefault(query, []).append(row)
    counts = {"dev": _share(dev, len(groups)), "test": _share(test, len(groups))}
    if not 0 <= dev + test < 1 or sum(counts.values()) >= len(groups):
        raise DataError(
            f"{data.name}: dev {dev:g} and test {test:g} of {len(groups)} queries leave none to train on; give smaller "
            "shares, from 0 to below 1 together"
        )
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    rows, parts = list(groups.values()), {}
    for part, count in {**counts, "train": len(groups) - sum(counts.values())}.items():
        taken, order = order[:count], order[count:]
        if taken:
            chosen = sorted(row for group in taken for row in rows[group])
            said = f"{part} part by query, dev {dev:g}, test {test:g}, seed {seed}"
            checksum = text_checksum(f"{data.checksum} {said}")
            parts[part] = _rows(data, chosen, f"{data.name}-{part}", f"{data.source}; {said}", checksum)
    return {part: parts[part] for part in ("train", "dev", "test") if part in parts}


def _share(share: float, total: int) -> int:
    return max(1, round(share * total)) if share > 0 else 0


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
    if empty := [row for row, sentence in enumerate(column) if not sentence or sentence.isspace()]:
        more = f" (and in {len(empty) - 1} more rows)" if len(empty) > 1 else ""
        raise DataError(
            f"{table.at(empty[0])}: {name} is empty{more}; a pair needs two sentences, fill it in or drop the row"
        )
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
