"""SentEval: its transfer tasks, and its archive (senteval.tar, as SimCSE publishes it) read into our columns.

The text is what SentEval scores: prepared files, words joined by single spaces. Nothing is unpacked to disk.
"""

import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench.config import SEVEN_STS
from workbench.data._catalogue import Hub
from workbench.data._sets import LabelledSentences, Pairs
from workbench.errors import DataError
from workbench.files import text_checksum

# Task -> the set of each split; "all" is cut into folds.
TRANSFER: Mapping[str, Mapping[str, str]] = {
    **{name: {"all": name} for name in ("mr", "cr", "subj", "mpqa")},
    "sst2": {split: f"sst2-{split}" for split in ("train", "dev", "test")},
    **{name: {split: f"{name}-{split}" for split in ("train", "test")} for name in ("trec", "mrpc")},
}
AVERAGES = {"sts-average": SEVEN_STS, "transfer-average": [*TRANSFER]}  # means of seven sets in a run's metrics


def sets_of(name: str) -> list[str]:
    """Return the data sets of a transfer task; of any other name the name itself."""
    return list(TRANSFER[name].values()) if name in TRANSFER else [name]


@dataclass(frozen=True)
class TransferTask:
    """Sentences, or pairs, with a class each, by split: "all"; "train" and "test"; or "train", "dev" and "test"."""

    name: str
    splits: Mapping[str, LabelledSentences | Pairs]

    @property
    def judged(self) -> LabelledSentences | Pairs:
        """The part that accuracy is measured on."""
        return self.splits.get("test") or self.splits["all"]

    @property
    def summary(self) -> str:
        """One line: the name, and the number of sentences or pairs and of classes."""
        what = "pairs" if isinstance(self.judged, Pairs) else "sentences"
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


def scored_pairs(suites: Mapping[str, Pairs | TransferTask]) -> dict[str, Pairs]:
    """Return the suites of scored pairs, which have rankings; transfer tasks have none."""
    return {name: data for name, data in suites.items() if isinstance(data, Pairs)}


def labels(data: LabelledSentences | Pairs) -> np.ndarray:
    """Return the class of each row as a whole number."""
    return np.asarray(data.gold if isinstance(data, Pairs) else data.label).astype(int)


def read_senteval(archive: Path, name: str, hub: Hub) -> dict[str, list[str]]:
    """Return the columns of a data set. Raises an error if the archive is damaged or a file is not in it."""
    with tarfile.open(archive) as tar:
        members = {f"/{member.name}": member for member in tar.getmembers() if member.isfile()}

        def lines(path: str) -> list[str]:
            member = next((member for key, member in members.items() if key.endswith(f"/{path}")), None)
            handle = tar.extractfile(member) if member else None
            if handle is None:
                raise DataError(f"{archive}: no file {path} in the archive; it is not SentEval's, or damaged")
            return _decode_archive(handle.read()).removesuffix("\n").split("\n")

        if name.startswith("sts1"):
            names, rows = "subset line score sentence1 sentence2", _sts_rows(name[:5].upper(), hub.archive, lines)
        elif name.startswith("trec"):
            names, parts = "label fine_label sentence", [line.partition(" ") for line in lines(hub.archive[0])]
            rows = [[*label.partition(":")[::2], sentence] for label, _, sentence in parts]
        elif hub.fields:
            names, rows = hub.fields, [line.split("\t") for line in lines(hub.archive[0])[hub.header :]]
        else:
            names = "label sentence"
            rows = [[label, line] for label, path in zip("10", hub.archive, strict=True) for line in lines(path)]
    order = sorted(enumerate(names.split()), key=lambda item: item[1].startswith("sentence"))  # in ours they are last
    return {name: [" ".join(row[place].split()) for row in rows] for place, name in order}


def _decode_archive(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # TREC and some of the polarity files; SentEval reads them so
    return text.replace("\r\n", "\n")


def _sts_rows(task: str, subsets: Iterable[str], lines: Callable[[str], list[str]]) -> list[list[str]]:
    rows = []
    for subset in subsets:
        pairs = [line.split("\t") for line in lines(f"{task}-en-test/STS.input.{subset}.txt")]
        scored = enumerate(zip(lines(f"{task}-en-test/STS.gs.{subset}.txt"), pairs, strict=True))
        name = subset.removeprefix("surprise.")
        # A blank score marks a pair that was never graded: STS15 and STS16 have many.
        rows += [[name, str(line), score, *pair] for line, (score, pair) in scored if score.strip()]
    return rows
