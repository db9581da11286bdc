"""The four kinds of data sets, how they are made of a table, samples of them, and splits by
query."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import pandas as pd

from workbench.config import SEVEN_STS
from workbench.data._catalogue import ROLES, TRANSFER, Columns, DataSet, Kind, Scale, read_roles
from workbench.data._tables import Table, Texts, table_of, to_number
from workbench.errors import DataError
from workbench.files import text_checksum
from workbench.metrics import ranking_groups

# Means of seven sets in a run's metrics.
AVERAGES = {"sts-average": SEVEN_STS, "transfer-average": [*TRANSFER]}


@dataclass(frozen=True)
class _Rows:
    """Rows of one or more sentences; `extra` holds the other columns of the file as text."""

    kind: ClassVar[Kind]
    sides: ClassVar[tuple[str, ...]] = ("sentences",)  # the fields with the sentences of a row

    name: str
    extra: Texts = field(default_factory=dict, kw_only=True)

    @property
    def texts(self) -> list[list[str]]:
        """The columns of sentences: one, of pairs two, of triplets three."""
        return [getattr(self, name) for name in self.sides]

    def __len__(self) -> int:
        return len(self.texts[0])

    @classmethod
    def from_frame(
        cls, frame: Any, *, name: str = "frame", columns: Columns = None, scale: Scale = None
    ) -> Self:
        """Return the data set in a DataFrame, a datasets.Dataset or a dictionary of columns,
        checked like a file."""
        table = table_of(frame, name)
        return read_set(name, cls.kind, table, f"{name}, in memory", columns=columns, scale=scale)

    @classmethod
    def from_lists(cls, *lists: Iterable[Any], name: str = "lists", scale: Scale = None) -> Self:
        """Return the same from one list per role: sentence1, sentence2, score; anchor, positive,
        negative; ..."""
        return cls.from_frame(
            dict(zip(ROLES[cls.kind], map(list, lists), strict=True)), name=name, scale=scale
        )


@dataclass(frozen=True)
class Sentences(_Rows):
    """Unlabelled sentences; an empty one is a single space, as in SimCSE's training code."""

    kind = "sentences"
    sentences: list[str]
    source: str
    checksum: str


@dataclass(frozen=True, eq=False)
class Pairs(_Rows):
    """Scored pairs: `gold` within `score_range`, larger is closer; `subset` names the parts of a
    suite that has parts.

    `how` is that of `spearman_by_subset` when the pairs choose a checkpoint.
    Rows without a gold label are left out; `source` counts them.
    """

    kind = "pairs"
    sides = ("sentence1", "sentence2")
    sentence1: list[str]
    sentence2: list[str]
    gold: np.ndarray
    subset: list[str] | None
    pair_id: list[str]
    score_range: tuple[float, float]
    source: str
    checksum: str
    how: Literal["all", "mean"] = "all"

    def __post_init__(self) -> None:
        if len(wrong := np.flatnonzero(~np.isfinite(self.gold))):
            raise DataError(
                f"{self.name}: gold of row {wrong[0]} is {self.gold[wrong[0]]}; it must be finite"
            )

    @property
    def summary(self) -> str:
        """One line: the name, the number of pairs and the range of gold scores."""
        return f"{self.name}: {len(self)} pairs, gold {self.scale_text}"

    @property
    def scale_text(self) -> str:
        """The range of gold scores, such as "0 to 5"."""
        return "{:g} to {:g}".format(*self.score_range)


@dataclass(frozen=True)
class Triplets(_Rows):
    """Anchors, each with a positive and a hard negative."""

    kind = "triplets"
    sides = ("anchor", "positive", "hard_negative")
    anchor: list[str]
    positive: list[str]
    hard_negative: list[str]
    source: str
    checksum: str


@dataclass(frozen=True)
class LabelledSentences(_Rows):
    """Sentences with a class each: `label` counts into `classes`. Empty sentences are kept, as
    SentEval keeps them."""

    kind = "labelled"
    kind = "labelled"
    sentences: list[str]
    label: list[int]
    source: str
    checksum: str
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TransferTask:
    """Sentences, or pairs, with a class each, by split: "all"; "train" and "test"; or "train",
    "dev" and "test"."""

    name: str
    splits: Mapping[str, LabelledSentences | Pairs]

    @property
    def judged(self) -> LabelledSentences | Pairs:
        """The part that accuracy is measured on."""
        return self.splits.get("test") or self.splits["all"]

    @property
    def summary(self) -> str:
        """One line: the name, and the number of rows and of classes."""
        return (
            f"{self.name}: {len(self)} rows to classify, of "
            f"{len(np.unique(labels(self.judged)))} classes"
        )

    @property
    def source(self) -> str:
        """Where the parts come from."""
        return " + ".join(split.source for split in self.splits.values())

    @property
    def checksum(self) -> str:
        """sha256 over the parts."""
        return text_checksum(*(split.checksum for split in self.splits.values()))

    def __len__(self) -> int:
        return len(self.judged)


_KINDS = {made.kind: made for made in (Sentences, Pairs, Triplets, LabelledSentences)}
AnySet = Sentences | Pairs | Triplets | LabelledSentences
SomeSet = TypeVar("SomeSet", bound=AnySet)


def read_set(
    name: str, kind: Kind, table: Table, source: str, *, columns: Columns, scale: Scale
) -> Any:
    """Return the data set in a user's table; its `source` also states what was guessed."""
    entry, table, note = read_roles(name, kind, table, columns, scale)
    return make_set(entry, table, f"{source}; {note}" if note else source)


def make_set(entry: DataSet, table: Table, source: str) -> Any:
    """Return the data set in a table. Raises DataError with the line of the first sentence or label
    that is wrong."""
    roles = entry.roles
    columns = table.by_role(roles)
    sides = [column for role, column in roles.items() if role not in ("score", "label", "subset")]
    texts = [_read_sentences(entry, table, column) for column in sides]
    extra = {name: values for name, values in table.columns.items() if name not in roles.values()}
    made: Any = _KINDS[entry.kind]
    facts: dict[str, Any] = dict(zip(made.sides, texts, strict=True))
    facts |= {"name": entry.name, "source": source, "checksum": table.checksum, "extra": extra}
    if entry.kind == "labelled":
        facts["label"] = _read_gold(entry, table, roles["label"]).astype(int).tolist()
        facts["classes"] = tuple(entry.classes)
    if entry.kind != "pairs":
        return made(**facts)
    gold = _read_gold(entry, table, roles["score"])
    rows = np.flatnonzero(~np.isnan(gold))
    if not len(rows):
        raise DataError(f"{table.where}: no row has a gold label; choose another set")
    scale: Any = entry.scale  # every set of pairs has one
    pairs = Pairs(
        **facts,
        gold=np.nan_to_num(gold),
        subset=columns.get("subset"),
        pair_id=_pair_ids(entry, table),
        score_range=tuple(scale),
    )
    if dropped := len(gold) - len(rows):
        return _take(pairs, rows, source=f"{source} ({dropped} rows without a gold label left out)")
    return pairs


def _read_sentences(entry: DataSet, table: Table, column: str) -> list[str]:
    """Return the sentences of a column, to train on with a single space for an empty one, as in
    SimCSE's code."""
    table.require_text(column)
    texts = table.columns[column]
    empty = [row for row, text in enumerate(texts) if not text.strip()]
    if not empty or entry.kind == "labelled":
        return texts
    if (
        entry.kind == "pairs"
        or (entry.kind == "triplets" and not entry.hub)
        or len(empty) == len(texts)
    ):
        problem = f"{column} is empty (the first of {len(empty)} such rows)"
        raise DataError(f"{table.at(empty[0])}: {problem}; fill it in or drop the row")
    return [text if text.strip() else " " for text in texts]


def _read_gold(entry: DataSet, table: Table, column: str) -> np.ndarray:
    """Return scores as numbers, and labels as their place among the classes; nan for the label
    without gold."""
    labels = table.columns[column]
    low, high = entry.scale or (-math.inf, math.inf)
    if entry.classes:
        codes = {name: float(place) for place, name in enumerate(entry.classes)}
        if entry.unlabelled:
            codes[entry.unlabelled] = math.nan
        allowed = f"one of {', '.join(map(repr, codes))}"
        gold = np.array([codes.get(label, math.inf) for label in labels])
    else:
        allowed = f"a number from {low:g} to {high:g}" if entry.scale else "a finite number"
        gold = np.nan_to_num(list(map(to_number, labels)), nan=math.inf)
    wrong = np.flatnonzero(np.isinf(gold) | (gold < low) | (gold > high))
    if len(wrong):
        row = wrong[0]
        raise DataError(f"{table.at(row)}: {column} is {labels[row]!r}, not {allowed}; correct it")
    return gold


def _pair_ids(entry: DataSet, table: Table) -> list[str]:
    """Return an id per row: the id columns joined by ":", numbered if they repeat; otherwise the
    row's number."""
    if not entry.ids or not table.columns.keys() >= {*entry.ids}:
        return [str(row) for row in range(len(table))]
    ids = pd.Series(map(":".join, zip(*(table.columns[name] for name in entry.ids), strict=True)))
    return list(ids if ids.is_unique else ids + "." + ids.groupby(ids).cumcount().astype(str))


def scored_pairs(suites: Mapping[str, Pairs | TransferTask]) -> dict[str, Pairs]:
    """Return the suites of scored pairs, which have rankings; transfer tasks have none."""
    return {name: data for name, data in suites.items() if isinstance(data, Pairs)}


def labels(data: LabelledSentences | Pairs) -> np.ndarray:
    """Return the class of each row as a whole number."""
    return np.asarray(data.gold if isinstance(data, Pairs) else data.label).astype(int)


def sample(data: SomeSet, limit: int | None, seed: int) -> SomeSet:
    """Return `limit` rows of a data set, drawn with `seed` and kept in order, with a checksum of
    their own."""
    if limit is None or limit >= len(data):
        return data
    rows = _draw_rows(len(data), limit, seed)
    note = f", {limit} of {len(data)} rows sampled with seed {seed}"
    return _take_part(data, rows, note, f"{limit} {seed}")


def sample_queries(data: Pairs, limit: int | None, seed: int) -> Pairs:
    """Return all pairs of `limit` queries (sentences in four or more pairs), drawn with `seed` and
    kept in order."""
    groups = list(ranking_groups(data.sentence1, data.sentence2, data.gold).values())
    if limit is None or limit >= len(groups):
        return data
    chosen = _draw_rows(len(groups), limit, seed)
    rows = np.unique(np.concatenate([groups[number].pairs for number in chosen]))
    how = f"{limit} of {len(groups)} queries sampled with seed {seed}"
    return _take_part(data, rows, f", {how}", how)


def _draw_rows(count: int, limit: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.sort(generator.choice(count, limit, replace=False))


def _take_part(data: Any, rows: np.ndarray, note: str, how: str, **changed: Any) -> Any:
    """Return some rows with `note` in their source and `how` they were chosen in their checksum."""
    checksum = text_checksum(f"{data.checksum} {how}")
    return _take(data, rows, source=data.source + note, checksum=checksum, **changed)


def _take(data: Any, rows: np.ndarray, **changed: Any) -> Any:
    def take(column: list[Any]) -> list[Any]:
        return [column[row] for row in rows.tolist()]

    changed |= {key: take(value) for key, value in vars(data).items() if isinstance(value, list)}
    changed["extra"] = {key: take(column) for key, column in data.extra.items()}
    if isinstance(data, Pairs):
        changed["gold"] = data.gold[rows]
    return replace(data, **changed)


def split(
    data: SomeSet, *, dev: float = 0.1, test: float = 0.1, seed: int = 0
) -> dict[str, SomeSet]:
    """Return "train", "dev" and "test" of a set; all rows with one first sentence (query) are in
    one of them.

    dev, test: shares of the queries, from 0 (none) to below 1 together; drawn with `seed`.  Raises
        DataError."""
    query_of, queries = pd.factorize(np.array(data.texts[0], dtype=object))
    shares = {"dev": dev, "test": test}
    counts = {
        part: max(1, round(share * len(queries))) for part, share in shares.items() if share > 0
    }
    held_out = sum(counts.values())
    if not 0 <= dev + test < 1 or held_out >= len(queries):
        problem = f"dev {dev:g} and test {test:g} of {len(queries)} queries leave none to train on"
        raise DataError(f"{data.name}: {problem}")
    order = np.random.default_rng(seed).permutation(len(queries))
    part_of = np.full(len(queries), "train")
    part_of[order[:held_out]] = np.repeat([*counts], [*counts.values()])
    parts = {}
    for part in ("train", *counts):
        rows = np.flatnonzero(part_of[query_of] == part)
        how = f"{part} part by query, dev {dev:g}, test {test:g}, seed {seed}"
        parts[part] = _take_part(data, rows, f"; {how}", how, name=f"{data.name}-{part}")
    return parts
