"""What the catalogue says of a set: its columns, scale and licence, and where it lies on disk and on the hub."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["sentences", "pairs", "triples", "labelled"]

SIMCSE_REPO = "princeton-nlp/datasets-for-simcse"
SIMCSE_COMMIT = "e145e8bb659b2aa2669f32ef79cb4cdef6c58fef"
NLI_CLASSES = ("contradiction", "neutral", "entailment")  # ordered: CoSENT ranks them 0 < 1 < 2
TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
BINARY = ("0", "1")
PAIR = {"sentence1": "sentence1", "sentence2": "sentence2", "gold": "score"}
LABELLED_PAIR = PAIR | {"gold": "label"}
SPLITS = {"train": "train", "dev": "validation", "test": "test"}  # ours -> the hub's


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
    files: tuple[str, ...]
    licence: str
    roles: Mapping[str, str]
    rows: int | None = None
    scale: tuple[float, float] | None = None
    ids: tuple[str, ...] = ()  # the columns that name a pair; none: its row, counted from 0
    classes: tuple[str, ...] = ()
    unlabelled: str = ""  # the label of a row without gold: such rows are left out and counted
    bundled: bool = False
    hub: Hub | None = None
    hub_raw: Hub | None = None
    note: str = ""


def senteval(rows: int) -> Hub:
    """SentEval's archive as SimCSE publishes it: the text as SentEval prepares it, with subsets."""
    return Hub(SIMCSE_REPO, SIMCSE_COMMIT, file="senteval.tar", archive=True, rows=rows)
