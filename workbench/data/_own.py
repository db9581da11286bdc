"""What users bring, however it is written (text, CSV, TSV, JSON lines, Parquet, data frames), as columns of text."""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.data._format import Table, check_regular, field, read_table, text_lines
from workbench.errors import DataError
from workbench.files import OWN_FILES, text_checksum

_DELIMITERS = {"csv": ",;\t|", "tsv": "\t,;|"}  # the first is what the ending promises
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_CURES = {
    ".json": "write one object a line, as .jsonl",
    ".xlsx": "save the sheet as CSV in UTF-8",
    ".xls": "save the sheet as CSV in UTF-8",
    ".arrow": "save it as .parquet",
}


def own_file(name: str | Path) -> Path | None:
    """The path when `name` is a file of the user's own rather than a name of the catalogue; DataError."""
    text = str(name)
    if text.endswith(OWN_FILES):
        path = Path(text).expanduser()
        check_regular(path)
        return path
    cure = _CURES.get(Path(text).suffix)
    if cure or isinstance(name, Path) or "/" in text:
        endings = ", ".join(ending for ending in OWN_FILES if not ending.endswith(".gz"))
        raise DataError(f"{text}: a file of your own ends in one of {endings}; {cure or 'convert it'}")
    return None


def read_own(path: Path, *, rows: Sequence[int] | None = None) -> Table:
    """The table in a file of the user's own; a .txt holds one sentence a line, in the column "sentence".

    The whole file is checked and counted. rows: no more than these (sorted, from 0) are kept, and of text none else is
    in memory; None: all. Raises DataError naming the first line that cannot be read.
    """
    kind = _kind_of_file(path)
    if kind == "txt":
        return _lines_alone(path, read_table(path, rows=rows, crlf=True))
    if kind in _DELIMITERS:
        return _delimited(path, None if rows is None else set(rows))
    table = _json_lines(path) if kind == "jsonl" else table_of(_parquet(path), str(path))
    if rows is None:
        return table
    kept = [row for row in rows if row < table.total]
    columns = {name: [values[row] for row in kept] for name, values in table.columns.items()}
    return replace(table, columns=columns, lines=[table.lines[row] for row in kept])


def columns_of(path: Path) -> list[str]:
    """The column names of a file of the user's own, of which no more than its beginning is read."""
    kind = _kind_of_file(path)
    if kind == "txt":
        return ["sentence"]
    if kind in _DELIMITERS:
        return _header(path)[0]
    return list(next(_objects(path))[1]) if kind == "jsonl" else list(_parquet(path, header=True))


def table_of(frame: Any, where: str, *, lines: Sequence[int] = (), unit: str = "row") -> Table:
    """A data frame, a datasets.Dataset or a mapping of columns as columns of text; a missing cell is empty text.

    lines, unit: where a row stands, for errors; (): rows are counted from 0. Raises DataError for what is no table.
    """
    if isinstance(frame, Mapping) and any(hasattr(part, "column_names") for part in frame.values()):
        raise DataError(f"{where}: several sets ({', '.join(map(str, frame))}); give one of them")
    try:
        convert: Callable[[], pd.DataFrame] = getattr(frame, "to_pandas", lambda: pd.DataFrame(frame))
        table = convert()
    except (ValueError, TypeError) as problem:
        raise DataError(f"{where}: no table ({problem}); give columns of one length") from problem
    if not len(table):
        raise DataError(f"{where}: no row; give at least one")
    features = getattr(frame, "features", None) or {}
    columns = {str(name): _column(table[name], features.get(name)) for name in table.columns}
    texts = {name: values for name, values in columns.items() if values is not None}
    left_out = [name for name in columns if name not in texts]
    if not texts:
        raise DataError(f"{where}: every column holds lists or objects; give columns of text and numbers")
    checksum = text_checksum(*("\n".join([name, *values, ""]) for name, values in texts.items()))
    note = f"left out, as they hold lists: {', '.join(left_out)}" if left_out else ""
    return Table(texts, where, checksum, len(table), lines or range(len(table)), unit, note)


def _kind_of_file(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[2]


def _column(values: Iterable[Any], feature: Any) -> list[str] | None:
    """A column as text; None where it holds lists."""
    cells = list(values)
    if any(isinstance(cell, (list, tuple, dict, np.ndarray)) for cell in cells):
        return None
    if names := getattr(feature, "names", None):  # a class of `datasets` is a number that stands for a word
        return [names[int(cell)] if not pd.isna(cell) and cell >= 0 else "-" for cell in cells]
    return [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    if isinstance(cell, (bool, np.bool_)):
        return str(cell).lower()
    return "" if pd.isna(cell) else field(str(cell))


def _lines_alone(path: Path, table: Table) -> Table:
    """A text whose lines are sentences; DataError where it is a table, or has a header, which would be trained on."""
    _, lines = next(text_lines(path, crlf=True))
    first, tabs = lines[0].decode(), {line.count(b"\t") for line in lines}
    if first.strip().lower() in ("sentence", "sentences", "text"):
        raise DataError(f"{path}: {first!r} is a header; delete that line, or let the name end in .tsv")
    if len(lines) > 1 and len(tabs) == 1 and tabs != {0}:
        raise DataError(f"{path}: its lines are split by tabs, as a table; let the name end in .tsv, under a header")
    return table


def _delimited(path: Path, wanted: set[int] | None) -> Table:
    names, delimiter = _header(path)
    kept, lines, total = [], [], 0
    content = hashlib.sha256("\t".join(names).encode() + b"\n")
    for line, row in _rows(path, names, delimiter):
        content.update("\t".join(row).encode() + b"\n")
        if wanted is None or total in wanted:
            kept.append(row)
            lines.append(line)
        total += 1
    if not total:
        raise DataError(f"{path}: a header ({', '.join(names)}) and no row; line 1 names the columns, rows follow")
    columns = dict(zip(names, map(list, zip(*kept, strict=True)) if kept else [[] for _ in names], strict=True))
    note = "" if delimiter == _DELIMITERS[_kind_of_file(path)][0] else f"fields split by {delimiter!r}"
    return Table(columns, str(path), content.hexdigest(), total, lines, note=note)


def _texts(path: Path) -> Iterator[str]:
    return (f"{line.decode()}\n" for _, lines in text_lines(path, crlf=True) for line in lines)


def _header(path: Path) -> tuple[list[str], str]:
    """The names in line 1, and what splits them: of the usual delimiters the one that finds most."""
    first = next(_texts(path))
    splits = {
        delimiter: next(csv.reader([first], delimiter=delimiter)) for delimiter in _DELIMITERS[_kind_of_file(path)]
    }
    delimiter = max(splits, key=lambda one: len(splits[one]))
    names = [name.strip() for name in splits[delimiter]]
    if len(set(names)) != len(names):
        raise DataError(f"{path}, line 1: a column name stands twice in the header ({', '.join(names)})")
    return names, delimiter


def _rows(path: Path, names: list[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the line that it begins in; DataError naming the first line with other fields than the header."""
    quoted = delimiter != "\t" or _uses_quotes(path)
    reader = csv.reader(
        _texts(path),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        skipinitialspace=delimiter != "\t",
        strict=True,
    )
    line = 1
    try:
        for row in reader:
            start, line = line, reader.line_num + 1
            if start == 1 or (not row and len(names) > 1):
                continue
            row = row or [""]  # noqa: PLW2901 - a blank line of one column is an empty sentence
            _check_row(row, names, f"{path}, line {start}", delimiter)
            yield start, [field(text) for text in row]
    except csv.Error as problem:
        raise DataError(
            f"{path}, line {line}: its quotes do not match ({problem}); double a quote inside a quoted field"
        ) from problem


def _uses_quotes(path: Path) -> bool:
    """Whether the fields of a file split by tabs stand in quotes as spreadsheets write them; a quote is text otherwise.

    They do when the header has them or a quote inside is doubled, and no field begins with a quote in another way.
    """
    sure = False
    for number, line in enumerate(_texts(path)):
        if '"' not in line:
            continue
        for text in line.rstrip("\n").split("\t"):
            if text.startswith('"'):
                if not _QUOTED.fullmatch(text):
                    return False
                sure = sure or not number or '""' in text[1:-1]
    return sure


def _check_row(row: list[str], names: list[str], where: str, delimiter: str) -> None:
    if len(row) != len(names):
        raise DataError(
            f"{where}: {len(row)} fields, but the header has {len(names)} ({', '.join(names)}), split by "
            f"{delimiter!r}; put a field that holds {delimiter!r} in quotes"
            + ("" if len(names) > 1 else ", or name a file of sentences alone .txt")
        )
    if row == names:
        raise DataError(f"{where}: the header stands here a second time; delete the line")


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_texts(path), 1):
        if line.isspace():
            continue
        try:
            found = json.loads(line)
        except ValueError as problem:
            raise DataError(f"{path}, line {number}: not JSON ({problem}); a line is one object") from problem
        if not isinstance(found, dict):
            raise DataError(f'{path}, line {number}: not an object; a line is like {{"sentence": "..."}}')
        yield number, found


def _json_lines(path: Path) -> Table:
    lines, objects = zip(*_objects(path), strict=True)
    names = dict.fromkeys(name for one in objects for name in one)
    # As objects: pandas would make 1.0 of the label 1 where another line has none.
    frame = pd.DataFrame({name: pd.Series([one.get(name) for one in objects], dtype=object) for name in names})
    return table_of(frame, str(path), lines=lines, unit="line")


def _parquet(path: Path, *, header: bool = False) -> pd.DataFrame:
    try:
        from pyarrow import parquet

        return parquet.read_schema(path).empty_table().to_pandas() if header else pd.read_parquet(path)
    except ImportError as problem:
        raise DataError(f"{path}: Parquet needs pyarrow; pip install 'ranking-workbench[train]'") from problem
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: not an intact Parquet file ({problem}); write it again") from problem
