"""What a user should know of files of their own before training on them; and the files of a split."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from workbench.data._format import write_table
from workbench.data._sets import AnySet, LabelledSentences, Pairs, Triples, queries
from workbench.errors import DataError
from workbench.metrics import FEWEST_TARGETS, ranking_groups

_FEW = 30  # pairs: the standard error of a correlation is about 0.2 there
_LONG = 64  # words: more than most training cuts leave of a sentence


def report(data: AnySet) -> list[str]:
    """One line a fact: how the rows were read, how many, their scale or classes, duplicates, empty, long sentences."""
    rows = _rows(data)
    twice = len(rows) - len(set(rows))
    texts = [text for row in rows for text in row]
    blank, long = sum(not text.strip() for text in texts), sum(len(text.split()) > _LONG for text in texts)
    counts = {
        "rows that stand there more than once": twice,
        "empty sentences": blank,
        f"sentences of more than {_LONG} words (training cuts at max_tokens)": long,
    }
    if isinstance(data, Pairs):
        distinct = len(set(zip(rows, data.gold.tolist(), strict=True)))
        counts["rows that give a pair another gold than an earlier row"] = distinct - len(set(rows))
    if isinstance(data, (Pairs, Triples)):
        counts["rows that hold one sentence twice"] = sum(len(set(row)) < len(row) for row in rows)
    said = [f"{what}: {number}" for what, number in counts.items() if number]
    if isinstance(data, Pairs) and len(data) < _FEW:
        said.append(f"{len(data)} pairs are few: what is chosen or reported by fewer than {_FEW} is mostly chance")
    return [
        data.source,
        f"{len(data)} rows of {data.kind}",
        *_of_kind(data),
        *(said or ["no duplicate, empty or long"]),
    ]


def overlaps(sets: Mapping[str, AnySet]) -> list[str]:
    """A line for each two sets that share rows or sentences: what was trained on must not be tested on."""
    lines = []
    for (first, one), (second, other) in combinations(sets.items(), 2):
        mine, theirs = _rows(one), set(_rows(other))
        if set(mine) == theirs:
            lines.append(f"{first} and {second} hold the same rows: scores on what was trained on say nothing")
            continue
        rows = sum(row in theirs for row in mine)
        known = {text for row in theirs for text in row}
        sentences = len(known & {text for row in mine for text in row})
        asked = len(set(queries(one)) & set(queries(other)))
        if sentences:
            counts = {"rows": rows, "queries": asked, "sentences": sentences}
            shared = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
            apart = "" if rows or asked else " (none of them a query of both: what a split by query leaves)"
            lines.append(f"{first} and {second} share {shared}{apart}")
    return lines


def write_split(parts: Mapping[str, AnySet], folder: Path) -> list[Path]:
    """Writes the parts of a split as .tsv.gz files that load by path. DataError when one of them is there already."""
    paths = [folder / f"{data.name}.tsv.gz" for data in parts.values()]
    for path in paths:
        if path.exists():
            raise DataError(f"{path} is there already and is not replaced; move it away, or give another folder")
    for path, data in zip(paths, parts.values(), strict=True):
        try:
            write_table(path, _columns(data))
        except OSError as problem:
            raise DataError(f"cannot write {path} ({problem.strerror}); give another folder") from problem
    return paths


def _rows(data: AnySet) -> list[tuple[str, ...]]:
    """The sentences of each row; a pair is the same in either direction, as a cosine is."""
    if isinstance(data, Pairs):
        return [(a, b) if a < b else (b, a) for a, b in zip(data.sentence1, data.sentence2, strict=True)]
    if isinstance(data, Triples):
        return list(zip(data.anchor, data.positive, data.hard_negative, strict=True))
    return [(sentence,) for sentence in data.sentences]


def _of_kind(data: AnySet) -> list[str]:
    if isinstance(data, LabelledSentences):
        counts = np.bincount(data.label, minlength=len(data.classes))
        return [", ".join(f"{name} {count}" for name, count in zip(data.classes, counts, strict=True))]
    if not isinstance(data, Pairs):
        return []
    gold: dict[str, set[float]] = {}
    for query, value in zip(data.sentence1, data.gold.tolist(), strict=True):
        gold.setdefault(query, set()).add(value)
    differ = sum(len(values) > 1 for values in gold.values())
    ranked = len(ranking_groups(data.sentence1, data.sentence2, data.gold))
    fewer = len({*data.sentence1, *data.sentence2}) - ranked
    run, scale = ("{:g} to {:g}".format(*ends) for ends in ((data.gold.min(), data.gold.max()), data.scale))
    return [
        f"gold {run}, mean {data.gold.mean():.3g}, on the scale {scale}",
        f"{len(gold)} queries (first sentences), {differ} with targets of different gold",
        f"{ranked} sentences in {FEWEST_TARGETS} pairs or more, on either side, which rankings take as queries; "
        f"{fewer} in fewer",
    ]


def _columns(data: AnySet) -> dict[str, list[str]]:
    """The columns of a set as its file has them; pairs say their scale in the header."""
    if isinstance(data, Pairs):
        low, high = data.scale
        gold = {f"score ({low:g} to {high:g})": [repr(value) for value in data.gold.tolist()]}
        columns = {"sentence1": data.sentence1, "sentence2": data.sentence2, **gold}
        return columns | {name: values for name, values in data.extra.items() if name not in columns}
    if isinstance(data, Triples):
        return {"sent0": data.anchor, "sent1": data.positive, "hard_neg": data.hard_negative}
    columns = {"sentence": data.sentences}
    if isinstance(data, LabelledSentences):
        columns["label"] = [data.classes[label] for label in data.label]
    return columns
