"""The four kinds of data sets, made of tables; samples of them, and splits by query."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import pandas as pd
from numpy import ndarray

from workbench.config import SEVEN_STS
from workbench.data._catalogue import TRANSFER, DataSet, Kind
from workbench.data._roles import ROLES, Columns, Scale, read_roles
from workbench.data._tables import Table, Texts, table_of
from workbench.errors import DataError
from workbench.files import Facts, text_checksum
from workbench.metrics import RankingGroup, ranking_groups

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
        """Return the data set in a DataFrame, a datasets.Dataset or a dictionary of columns.

        It is checked like a file."""
        table = table_of(frame, name)
        return read_set(name, cls.kind, table, f"{name}, in memory", columns=columns, scale=scale)

    @classmethod
    def from_lists(cls, *lists: Iterable[Any], name: str = "lists", scale: Scale = None) -> Self:
        """Return the same from one list per role.

        The roles are sentence; sentence1, sentence2, score; or anchor, positive, negative."""
        roles = ROLES[cls.kind]
        # The letters of a text would be rows.
        if str in map(type, lists) or len(lists) != len(roles):
            raise DataError(f"{name}: give lists, of one text [text], for {', '.join(roles)}")
        columns = dict(zip(roles, map(list, lists), strict=True))
        return cls.from_frame(columns, name=name, scale=scale)


@dataclass(frozen=True)
class Sentences(_Rows):
    """Unlabelled sentences; an empty one is a single space, as in SimCSE's training code."""

    kind = "sentences"
    sentences: list[str]
    source: str
    checksum: str


@dataclass(frozen=True, eq=False)
class Pairs(_Rows):
    """Scored pairs: `gold` within `score_range`, larger is closer.

    `subset` names the parts of a suite that has parts.
    `how` is that of `spearman_by_subset` when the pairs choose a checkpoint.
    Rows without a gold label are left out; `source` counts them.
    """

    kind = "pairs"
    sides = ("sentence1", "sentence2")
    sentence1: list[str]
    sentence2: list[str]
    gold: ndarray
    subset: list[str] | None
    pair_id: list[str]
    score_range: tuple[float, float]
    source: str
    checksum: str
    how: Literal["all", "mean"] = "all"

    def __post_init__(self) -> None:
        for row in np.flatnonzero(~np.isfinite(self.gold)):
            raise DataError(f"{self.name}: gold of row {row} is {self.gold[row]}, not finite")

    @property
    def summary(self) -> str:
        """One line: the name, the number of pairs and the range of gold scores."""
        return f"{self.name}: {len(self)} pairs, gold {self.scale_text}"

    def groups(self) -> list[RankingGroup]:
        """Return the queries with their targets, as `ranking_groups`."""
        return list(ranking_groups(self.sentence1, self.sentence2, self.gold).values())

    @property
    def scale_text(self) -> str:
        """The range of gold scores, such as "0 to 5"."""
        # All digits: the parts of a split have it in their header, and their scores lie in it.
        return " to ".join(str(end).removesuffix(".0") for end in self.score_range)


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
    """Sentences with a class each: `label` counts into `classes`.

    Empty sentences are kept, as SentEval keeps them."""

    kind = "labelled"
    sentences: list[str]
    label: list[int]
    source: str
    checksum: str
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TransferTask:
    """Sentences, or pairs, with a class each, by split.

    The splits are "all"; "train" and "test"; or "train", "dev" and "test"."""

    name: str
    splits: Mapping[str, LabelledSentences | Pairs]

    @property
    def judged(self) -> LabelledSentences | Pairs:
        """The part that accuracy is measured on."""
        return self.splits.get("test") or self.splits["all"]

    @property
    def summary(self) -> str:
        """One line: the name, and the number of rows and of classes."""
        classes = np.unique(labels(self.judged))
        return f"{self.name}: {len(self)} rows to classify, of {len(classes)} classes"

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
    name: str, kind: Kind | None, table: Table, source: str, *, columns: Columns, scale: Scale
) -> Any:
    """Return the data set in a user's table; its `source` also states what was guessed."""
    entry, table, note = read_roles(name, kind, table, columns, scale)
    return make_set(entry, table, f"{source}; {note}" if note else source)


def make_set(entry: DataSet, table: Table, source: str) -> Any:
    """Return the data set in a table that has the columns of the entry's roles.

    Raises DataError with the line of the first sentence or label that is wrong."""
    roles = entry.roles
    made = _KINDS[entry.kind]
    sides = [column for role, column in roles.items() if role not in ("score", "label", "subset")]
    texts = [_read_sentences(entry, table, column) for column in sides]
    facts: Facts = {
        "name": entry.name,
        "source": source,
        "checksum": table.checksum,
        "extra": {
            name: cells for name, cells in table.columns.items() if name not in roles.values()
        },
    }
    facts |= zip(made.sides, texts, strict=True)
    if entry.kind == "labelled":
        facts["label"] = _read_gold(entry, table, roles["label"]).astype(int).tolist()
        facts["classes"] = tuple(entry.classes)
    if entry.kind != "pairs":
        return made(**facts)
    gold = _read_gold(entry, table, roles["score"])
    graded = np.flatnonzero(~np.isnan(gold))
    if not len(graded):
        raise DataError(f"{table.where}: no row has a gold label; choose another set")
    scale: Any = entry.scale  # every set of pairs has one
    pairs = Pairs(
        **facts,
        gold=np.nan_to_num(gold),
        subset=table.columns[roles["subset"]] if "subset" in roles else None,
        pair_id=_pair_ids(entry, table),
        score_range=tuple(scale),
    )
    dropped = len(gold) - len(graded)
    if not dropped:
        return pairs
    return take_rows(pairs, graded, f" ({dropped} rows without a gold label left out)")


def _read_sentences(entry: DataSet, table: Table, column: str) -> list[str]:
    """Return the sentences of a column.

    To train on, an empty one is a single space, as in SimCSE's code."""
    table.require_text(column)
    texts = table.columns[column]
    empty = [row for row, text in enumerate(texts) if not text.strip()]
    if not empty or entry.kind == "labelled":
        return texts
    # The published triplets of NLI contain empty sentences.
    is_own_triplet = entry.kind == "triplets" and not entry.hub
    if entry.kind == "pairs" or is_own_triplet or len(empty) == len(texts):
        raise DataError(
            f"{table.at(empty[0])}: {column} is empty (the first of {len(empty)} such rows); fill "
            "it in or drop the row"
        )
    return [text if text.strip() else " " for text in texts]


def _read_gold(entry: DataSet, table: Table, column: str) -> ndarray:
    """Return scores as numbers, and labels as their place among the classes.

    The label of rows without gold is nan; anything else that is not allowed is infinite at first.
    """
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
        gold = np.nan_to_num(table.numbers(column), nan=math.inf)
    for row in np.flatnonzero(np.isinf(gold) | (gold < low) | (gold > high)):
        raise DataError(
            f"{table.at(int(row))}: {column} is {labels[row]!r:.80}, not {allowed}; drop the row "
            "or correct it, with a point before decimals and nothing between thousands"
        )
    return gold


def _pair_ids(entry: DataSet, table: Table) -> list[str]:
    """Return an id per row: the id columns joined by ":", numbered if they repeat.

    Without these columns it is the row's number."""
    if not entry.ids or not table.columns.keys() >= {*entry.ids}:
        return list(map(str, range(len(table))))
    parts = zip(*(table.columns[name] for name in entry.ids), strict=True)
    ids = pd.Series(map(":".join, parts))
    # Published ids repeat in some sets, but a pair must be found again by its id.
    if ids.is_unique:
        return ids.tolist()
    repetition = ids.groupby(ids).cumcount()
    return (ids + "." + repetition.astype(str)).tolist()


def scored_pairs(suites: Mapping[str, Pairs | TransferTask]) -> dict[str, Pairs]:
    """Return the suites of scored pairs, which have rankings; transfer tasks have none."""
    return {name: data for name, data in suites.items() if isinstance(data, Pairs)}


def labels(data: LabelledSentences | Pairs) -> ndarray:
    """Return the class of each row as a whole number."""
    values = data.gold if isinstance(data, Pairs) else data.label
    return np.asarray(values, int)


def sample(data: SomeSet, limit: int, seed: int) -> SomeSet:
    """Return `limit` rows of a data set, drawn with `seed` and kept in order.

    A sample has another checksum than its set."""
    if limit >= len(data):
        return data
    rows = draw_rows(len(data), limit, seed)
    note = f", {limit} of {len(data)} rows sampled with seed {seed}"
    return take_rows(data, rows, note, f"{limit} {seed}")


def sample_queries(data: Pairs, limit: int, seed: int) -> Pairs:
    """Return all pairs of `limit` queries, drawn with `seed` and kept in order.

    A query is a sentence in four or more pairs."""
    groups = data.groups()
    if limit >= len(groups):
        return data
    chosen = draw_rows(len(groups), limit, seed)
    rows = np.concatenate([groups[query].pairs for query in chosen])
    how = f"{limit} of {len(groups)} queries sampled with seed {seed}"
    return take_rows(data, np.unique(rows), f", {how}", how)


def draw_rows(count: int, limit: int, seed: int) -> ndarray:
    return np.sort(np.random.default_rng(seed).choice(count, limit, replace=False))


def take_rows(data: Any, rows: ndarray, note: str, how: str = "", **changed: Any) -> Any:
    """Return some rows with `note` in their source and `how` they were chosen in their checksum."""
    changed["source"] = data.source + note
    if how:
        changed["checksum"] = text_checksum(f"{data.checksum} {how}")
    numbers = rows.tolist()
    for name, value in vars(data).items():
        if isinstance(value, list):
            changed[name] = [value[row] for row in numbers]
    extra = {name: [texts[row] for row in numbers] for name, texts in data.extra.items()}
    if isinstance(data, Pairs):
        changed["gold"] = data.gold[rows]
    return replace(data, extra=extra, **changed)


def split(
    data: SomeSet, *, dev: float = 0.1, test: float = 0.1, seed: int = 0
) -> dict[str, SomeSet]:
    """Return "train", "dev" and "test" of a set; rows with one first sentence stay together.

    Args:
        dev, test: Shares of the first sentences (queries), drawn with `seed`: from 0 (none) to
            below 1 together. Otherwise, or if none is left to train on, raises DataError.
    """
    # Pairs of one query in train and in test would leak what the query means.
    query_of, queries = pd.factorize(np.array(data.texts[0], object))
    total = len(queries)
    counts = {
        part: max(1, round(share * total))
        for part, share in (("dev", dev), ("test", test))
        if share > 0
    }
    held_out = sum(counts.values())
    if not (min(dev, test) >= 0 and dev + test < 1) or held_out >= total:
        raise DataError(
            f"{data.name}: dev {dev:g} and test {test:g} of {total} queries leave none to train on"
        )
    order = np.random.default_rng(seed).permutation(total)
    part_of = np.full(total, "train")
    part_of[order[:held_out]] = np.repeat(list(counts), list(counts.values()))
    parts = {}
    for part in ("train", *counts):
        rows = np.flatnonzero(part_of[query_of] == part)
        how = f"{part} part by query, dev {dev:g}, test {test:g}, seed {seed}"
        parts[part] = take_rows(data, rows, f"; {how}", how, name=f"{data.name}-{part}")
    return parts
