"""SentEval's transfer tasks: one or more sets of the catalogue that a classifier learns from and is judged on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.config import SEVEN_STS
from workbench.data._sets import LabelledSentences, Pairs
from workbench.errors import DataError
from workbench.files import text_checksum

# Task -> the set that holds each part of it; "all" has no split, and is cut into folds.
TRANSFER: Mapping[str, Mapping[str, str]] = {
    "mr": {"all": "mr"},
    "cr": {"all": "cr"},
    "subj": {"all": "subj"},
    "mpqa": {"all": "mpqa"},
    "sst2": {"train": "sst2-train", "dev": "sst2-dev", "test": "sst2-test"},
    "trec": {"train": "trec-train", "test": "trec-test"},
    "mrpc": {"train": "mrpc-train", "test": "mrpc-test"},
}
# What stands for seven sets in a run's metrics: their mean.
AVERAGES: Mapping[str, Sequence[str]] = {"sts-average": SEVEN_STS, "transfer-average": [*TRANSFER]}
_SPLITS = ({"all"}, {"train", "test"}, {"train", "dev", "test"})


def sets_of(name: str) -> list[str]:
    """The sets that a name stands for: those of a transfer task, else itself."""
    return list(TRANSFER[name].values()) if name in TRANSFER else [name]


@dataclass(frozen=True)
class TransferTask:
    """Sentences, or pairs of them, with a class each, by split: "all", "train" and "test", or these two and "dev".

    Raises DataError where a split is missing, kinds are mixed, or there are not two classes or more to tell apart.
    """

    name: str
    splits: Mapping[str, LabelledSentences | Pairs]

    def __post_init__(self) -> None:
        if set(self.splits) not in _SPLITS:
            raise DataError(
                f"{self.name}: a transfer task has the splits {' or '.join(', '.join(sorted(s)) for s in _SPLITS)}; "
                f"got {', '.join(self.splits) or 'none'}: give what is missing"
            )
        if len({type(split) for split in self.splits.values()}) > 1:
            raise DataError(f"{self.name}: some splits hold sentences and some pairs; give one kind")
        for split, data in self.splits.items():
            if len(classes := np.unique(labels(data))) < 2:
                raise DataError(
                    f"{self.name}, {split}: {len(data)} rows of {len(classes)} class; a classifier needs two classes "
                    "to tell apart: restore the set, or leave it out"
                )

    @property
    def judged(self) -> LabelledSentences | Pairs:
        """The part that accuracy is measured on."""
        return self.splits.get("test") or self.splits["all"]

    @property
    def summary(self) -> str:
        """What it is, in a line."""
        what = "sentences" if len(texts(self.judged)) == 1 else "pairs"
        return f"{self.name}: {len(self)} {what} to classify, of {len(np.unique(labels(self.judged)))} classes"

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

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        return self.judged[row]


def scored_pairs(suites: Mapping[str, Pairs | TransferTask]) -> dict[str, Pairs]:
    """The suites of scored pairs, by name: what has an order to look at, which a transfer task has not."""
    return {name: data for name, data in suites.items() if isinstance(data, Pairs)}


def labels(data: LabelledSentences | Pairs) -> np.ndarray:
    """The class of each row, as a whole number."""
    return np.asarray(data.gold if isinstance(data, Pairs) else data.label).astype(int)


def texts(data: LabelledSentences | Pairs) -> list[list[str]]:
    """The sentences of each row's first place, and of its second where rows are pairs."""
    return [data.sentence1, data.sentence2] if isinstance(data, Pairs) else [data.sentences]
