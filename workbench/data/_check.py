"""Facts about data sets and files: whether they can be read, what is in them, what two of them
share."""

import shlex
from collections.abc import Iterable, Mapping
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data._catalogue import CATALOGUE, TRANSFER, Columns, Scale, find_set
from workbench.data._loading import kinds_of, load_data, local_root
from workbench.data._sets import AnySet, LabelledSentences, Pairs
from workbench.data._tables import own_file, write_table
from workbench.errors import DataError
from workbench.files import set_name
from workbench.metrics import FEWEST_TARGETS, ranking_groups

# Kind of a file -> the methods that train on it, with the settings they need from english-encoder.
_TRAINERS = {
    "pairs": ["cosent", "lists"],
    "triplets": ["cosent objective=triplet", "simcse pooling=mean supervised=true"],
    "sentences": [
        f"{name} pooling=mean" for name in ("simcse", "compcse", "rankcse teachers=english-encoder")
    ]
    + ["rankencoder pooling=mean base=english-encoder"],
}
# Below the commands for unlabelled sentences.
_NOT_MEASURED = [
    "They suit an encoder that was not yet tuned for similarity. They have not been "
    "measured to help one that was",
    "(such as all-MiniLM), and may lower it: a run keeps its start if dev never gains, "
    "and says if it is worse.",
]


def describe(name: str) -> dict[str, Any]:
    """Return the catalogue's facts about a set: kind, title, rows, scale, source, files, hub,
    licence, note, ..."""
    entry = find_set(name)
    scale = "{:g} to {:g}".format(*entry.scale) if entry.scale else ""
    source = "bundled" if entry.bundled else "local or hub" if entry.hub else "local"
    return vars(entry) | {"rows": entry.rows or "", "scale": scale, "source": source}


def check(
    names: Iterable[str] | None = None, *, columns: Columns = None, scale: Scale = None
) -> pd.DataFrame:
    """Read data sets whole and return a row for each: name, kind, status, rows, problem.

    names: of the catalogue, or paths of your own files, read with `columns` and `scale`; None: the
        whole catalogue.
    status: "bundled", "local", "own file", "hub" (not on this machine; not downloaded), "damaged"
        or "missing".
    problem: "" if the set loads and nothing is remarkable."""
    names = CATALOGUE if names is None else names
    every = [part for name in names for part in TRANSFER.get(name, {"all": name}).values()]
    return pd.DataFrame([_check(name, columns, scale) for name in every]).astype({"rows": "Int64"})


def unusable(table: pd.DataFrame) -> dict[str, str]:
    """Return name -> problem of the sets in a table of `check` that cannot be loaded."""
    broken = table[table["status"].isin(["damaged", "missing"])]
    return dict(zip(broken["name"], broken["problem"], strict=True))


def _check(name: str, columns: Columns, scale: Scale) -> dict[str, Any]:
    row = {"name": name, "kind": "", "status": "missing", "rows": None, "problem": ""}
    try:
        entry = None if own_file(name) else find_set(name)
        if entry and not local_root(entry):
            there = {"status": "hub"} if entry.hub else {"problem": "set WORKBENCH_DATA"}
            return row | {"kind": entry.kind, "rows": entry.rows or None} | there
        row["status"] = "damaged"
        row["kind"] = kinds_of(name, columns)[0]
        data = load_data(name) if entry else load_data(name, columns=columns, scale=scale)
    except DataError as error:
        return row | {"problem": str(error)}
    status = "own file" if entry is None else "bundled" if entry.bundled else "local"
    note = f"published: {entry.rows} rows" if entry and entry.rows not in (0, len(data)) else ""
    if isinstance(data, Pairs) and np.ptp(data.gold) == 0:
        note = "the score is the same in every row: no correlation can be computed"
    return row | {"status": status, "rows": len(data), "problem": note}


def report(data: AnySet) -> list[str]:
    """Return one line per fact: how rows were read, their number and scale, duplicates, empty and
    long ones."""
    rows, texts = _rows(data), [*chain(*data.texts)]
    lines = [data.source, f"{len(data)} rows of {data.kind}"]
    if isinstance(data, Pairs):
        gold = data.gold
        groups = ranking_groups(data.sentence1, data.sentence2, gold)
        lines += [
            f"gold {gold.min():g} to {gold.max():g}, mean {gold.mean():.3g}, scale "
            f"{data.scale_text}",
            f"{len(set(data.sentence1))} queries (first sentences)",
            f"{len(groups)} sentences in {FEWEST_TARGETS} pairs or more, which rankings "
            "use as queries",
        ]
    counts = {
        "duplicate rows": len(rows) - len(set(rows)),
        "empty sentences": sum(not text.strip() for text in texts),
        "sentences of more than 64 words (training cuts them)": sum(
            len(text.split()) > 64 for text in texts
        ),
    }
    remarks = [f"{what}: {number}" for what, number in counts.items() if number]
    return lines + (remarks or ["no duplicate, empty or long rows"])


def training_commands(file: str, kind: str, options: str = "") -> list[str]:
    """Return a sentence and the commands that train on your own file; options: of `workbench data
    split`."""
    parts = [
        shlex.quote(f"parts/{set_name(file)}-{part}.tsv.gz") for part in ("train", "dev", "test")
    ]
    lines, train = (
        ["train on it, with scored pairs of your own as dev and suites if you have some:"],
        shlex.quote(file),
    )
    if kind == "pairs":
        lines = [
            "scored pairs can be dev and suites of every method, and train CoSENT (order "
            "of all pairs) and lists"
        ]
        lines[0] += f" (order within each query of {FEWEST_TARGETS} targets or more):"
    if kind == "pairs" or options:
        lines, train = [*lines, f"workbench data split {train} parts {options}".rstrip()], parts[0]
    held_out = (
        f"dev={parts[1]} suites={parts[2]}"
        if kind == "pairs"
        else "dev=world-dev suites=ladders-all"
    )
    for run in _TRAINERS[kind]:
        lines.append(f"workbench run {run} encoder=english-encoder train={train} {held_out}")
    return lines + (_NOT_MEASURED if kind == "sentences" else [])


def overlaps(sets: Mapping[str, AnySet]) -> list[str]:
    """Return a line for every two sets that share rows or sentences: a test must not contain
    training data."""
    lines = []
    for (first, one), (second, other) in combinations(sets.items(), 2):
        counts = {
            "rows": len({*_rows(one)} & {*_rows(other)}),
            "queries": len({*one.texts[0]} & {*other.texts[0]}),
            "sentences": len({*chain(*one.texts)} & {*chain(*other.texts)}),
        }
        if counts["sentences"]:
            lines.append(
                f"{first} and {second} share "
                f"{', '.join(f'{n} {what}' for what, n in counts.items() if n)}"
            )
    return lines


def _rows(data: AnySet) -> list[tuple[str, ...]]:
    """Return the sentences of each row; a pair is the same in either direction, as its cosine
    is."""
    rows = list(zip(*data.texts, strict=True))
    return [(b, a) if b < a else (a, b) for a, b in rows] if isinstance(data, Pairs) else rows


def write_split(parts: Mapping[str, AnySet], folder: Path) -> list[Path]:
    """Write the parts of a split as .tsv.gz files, with all columns of their source. Raises
    DataError if one exists."""
    paths = [folder / f"{data.name}.tsv.gz" for data in parts.values()]
    if existing := [path for path in paths if path.exists()]:
        raise DataError(f"{existing[0]} exists already; move it away, or choose another folder")
    for path, data in zip(paths, parts.values(), strict=True):
        columns = dict(
            zip(data.sides if len(data.sides) > 1 else ["sentence"], data.texts, strict=True)
        )
        if isinstance(data, Pairs):  # the header has the scale
            columns[f"score ({data.scale_text})"] = list(map(repr, data.gold.tolist()))
        if isinstance(data, LabelledSentences):
            columns["label"] = [data.classes[label] for label in data.label]
        if both := columns.keys() & data.extra.keys():
            raise DataError(
                f"{min(both)!r} is a column that was not read as {min(both)}; rename it in the file"
            )
        write_table(path, columns | data.extra)
    return paths
