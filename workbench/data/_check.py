"""Facts about data sets and files: whether they can be read, what they hold, what two share."""

import re
import shlex
from collections.abc import Mapping
from itertools import chain, combinations
from pathlib import Path

import numpy as np
from pandas import DataFrame

from workbench.data._catalogue import CATALOGUE, TRANSFER, find_set
from workbench.data._loading import kinds_of, load_data, local_root
from workbench.data._roles import ROLES, Columns, Scale, kinds_of_table, match_columns
from workbench.data._sets import AnySet, LabelledSentences, Pairs
from workbench.data._tables import Table, own_file, write_table
from workbench.errors import DataError
from workbench.files import Facts, Names, as_list, fill_template, set_name
from workbench.metrics import FEWEST_TARGETS
from workbench.words import words_of

# An empty text, spaces (also without a width), and what programs write for no value.
_MISSING = re.compile(
    r"(?i)[\s\u200b\ufeff]*(nan|none|null|\\n|#?n/?a|#(name|ref|value|num|null|div/0)[!?]|<na>)?\s*"
)


def describe(name: str) -> Facts:
    """Return the catalogue's facts about a set: kind, title, rows, scale, source, licence, ..."""
    entry = find_set(name)
    source = "bundled" if entry.bundled else "local or hub" if entry.hub else "local"
    scale = "{:g} to {:g}".format(*entry.scale) if entry.scale else ""
    return vars(entry) | {"rows": entry.rows or "", "scale": scale, "source": source}


def check(names: Names | None = None, *, columns: Columns = None, scale: Scale = None) -> DataFrame:
    """Read data sets whole and return a row for each: name, kind, status, rows, problem.

    Args:
        names: Of the catalogue, or paths of your own files, read with `columns` and `scale`; None:
            the whole catalogue.

    The status is "bundled", "local", "own file", "refused" (an own file that cannot be read as it
    is), "hub" (not on this machine; not downloaded), "damaged" or "missing"; the problem, which
    contains the name, is "" if the set loads and nothing is remarkable.
    """
    rows = [
        _check(part, columns, scale)
        for name in as_list(CATALOGUE if names is None else names)
        # A task is a set for each of its splits.
        for part in TRANSFER.get(name, {"all": name}).values()
    ]
    return DataFrame(rows).astype({"rows": "Int64"})


def unusable(table: DataFrame) -> list[str]:
    """Return the problems of the sets in a table of `check` that cannot be loaded."""
    broken = table[table["status"].isin(["damaged", "refused", "missing"])]
    return broken["problem"].tolist()


def _check(name: str, columns: Columns, scale: Scale) -> Facts:
    kind = ""
    status = "missing"
    rows = None
    problem = ""
    try:
        entry = None if own_file(name) else find_set(name)
        if entry and not local_root(entry):
            kind = entry.kind
            rows = entry.rows or None
            if entry.hub:
                status = "hub"
            else:
                problem = "set WORKBENCH_DATA"
        else:
            status = "damaged" if entry else "refused"
            kind = kinds_of(name, columns)[0]
            data = load_data(name) if entry else load_data(name, columns=columns, scale=scale)
            status = "own file" if entry is None else "bundled" if entry.bundled else "local"
            rows = len(data)
            if entry and entry.rows not in (0, rows):
                problem = f"published: {entry.rows} rows"
            if isinstance(data, Pairs) and np.ptp(data.gold) == 0:
                problem = "the score is the same in every row: no correlation can be computed"
    except DataError as error:
        problem = str(error)
    # The error of a damaged set of a data root names its file there, not the set.
    if problem and str(name) not in problem:
        problem = f"{name}: {problem}"
    return {"name": name, "kind": kind, "status": status, "rows": rows, "problem": problem}


def report(data: AnySet) -> list[str]:
    """Return one line per fact: how rows were read, their number, scale, duplicates, empty ones."""
    rows = _rows(data)
    texts = [*chain(*data.texts)]
    counts = {
        "duplicate rows": len(rows) - len(set(rows)),
        "empty sentences (also nan, None, N/A)": len(list(filter(_MISSING.fullmatch, texts))),
        "sentences of more than 64 words (training cuts them)": sum(
            len(words_of(text)) > 64 for text in texts
        ),
    }
    text = fill_template(
        "data/report.txt",
        data=data,
        counts=counts,
        fewest=FEWEST_TARGETS,
    )
    return text.rstrip().split("\n")


def training_commands(file: str, data: AnySet, options: str = "") -> list[str]:
    """Return a sentence and the commands that train on your own file.

    options: Those of `workbench data split`."""
    facts: Facts = {"data": data, "options": options, "fewest": FEWEST_TARGETS}
    facts["file"] = shlex.quote(file)
    facts["lists"] = isinstance(data, Pairs) and data.groups()
    for part in ("train", "dev", "test"):
        facts[part] = shlex.quote(f"parts/{set_name(file)}-{part}.tsv.gz")
    return fill_template("data/commands.txt", **facts).rstrip().split("\n")


def overlaps(sets: Mapping[str, AnySet]) -> list[str]:
    """Return a line for every two sets that share rows or sentences.

    A test must not contain training data."""
    lines = []
    for (first, one), (second, other) in combinations(sets.items(), 2):
        counts = {
            "rows": len({*_rows(one)} & {*_rows(other)}),
            "queries": len({*one.texts[0]} & {*other.texts[0]}),
            "sentences": len({*chain(*one.texts)} & {*chain(*other.texts)}),
        }
        shared = [f"{count} {what}" for what, count in counts.items() if count]
        if shared:  # a row or a query in both is also a sentence in both
            lines.append(f"{first} and {second} share {', '.join(shared)}")
    return lines


def _rows(data: AnySet) -> list[tuple[str, ...]]:
    """Return the sentences of each row; a pair is the same in either direction, as its cosine."""
    rows = zip(*data.texts, strict=True)
    if isinstance(data, Pairs):
        return [(min(row), max(row)) for row in rows]
    return list(rows)


def write_split(parts: Mapping[str, AnySet], folder: Path) -> list[Path]:
    """Write the parts of a split as .tsv.gz files, with all columns of their source.

    Raises DataError if one of the files exists."""
    paths = [folder / f"{data.name}.tsv.gz" for data in parts.values()]
    # All are tested before the first is written.
    for path in paths:
        if path.exists():
            raise DataError(f"{path} exists already; move it away, or choose another folder")
        if set_name(path) in CATALOGUE:
            raise DataError(f"{set_name(path)} is a set of the catalogue; rename the file")
    for path, data in zip(paths, parts.values(), strict=True):
        names = data.sides if len(data.sides) > 1 else ["sentence"]
        columns = dict(zip(names, data.texts, strict=True))
        if isinstance(data, Pairs):  # the header has the scale; no other score is preferred to gold
            columns[f"gold ({data.scale_text})"] = list(map(repr, data.gold.tolist()))
        if isinstance(data, LabelledSentences):
            columns["label"] = [data.classes[label] for label in data.label]
        # No other column must be read in the place of one of these.
        written = Table(columns | data.extra, str(path), "")
        is_same = columns.keys().isdisjoint(data.extra)
        if is_same and data.kind in ROLES:
            read = [found[0] for found in match_columns(data.kind, written, None).values()]
            is_same = read == [*columns] and kinds_of_table(written)[0] == data.kind
        if not is_same:
            raise DataError(
                f"with the other columns of the file ({', '.join(data.extra)}) its parts would be "
                f"read otherwise; rename or remove there what is called {', '.join(columns)} or "
                "like another role of a set"
            )
        write_table(path, written.columns)
    return paths
