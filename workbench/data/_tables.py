"""Read files as columns of text: those of a data root, and a user's own in any usual format."""

import codecs
import csv
import gzip
import io
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import compress, pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, unknown_name
from workbench.files import OWN_FILES, atomic_path, text_checksum

_DELIMITERS = {"csv": ",;\t|", "tsv": "\t,;|"}  # the first is the one that the ending promises
_QUOTING = 'put the field in quotes and write a quote inside it as "", or save the file as .tsv'
_AS_SENTENCES = 'if its lines are sentences, give them a header "sentence" and save the file as .tsv'


@dataclass(frozen=True)
class Table:
    """Columns of text of one length; `lines` holds the line of each row, for errors."""

    columns: dict[str, list[str]]
    where: str
    checksum: str  # sha256 of the content
    lines: Sequence[int] = ()
    cells: Mapping[str, list[Any]] = field(default_factory=dict)  # of columns that hold more than text
    note: str = ""  # how the rows were made
    unit: str = "line"  # what `lines` counts

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def by_role(self, roles: Mapping[str, str]) -> dict[str, list[str]]:
        """Return role -> column. Raises DataError, with the nearest name, for a column that does not exist."""
        for name in roles.values():
            if name not in self.columns:
                raise DataError(unknown_name("column", name, self.columns, f"in {self.where}"))
        return {role: self.columns[name] for role, name in roles.items()}

    def at(self, row: int) -> str:
        """Return the place of a row, for an error."""
        return f"{self.where}, {f'{self.unit} {self.lines[row]}' if len(self.lines) else f'row {row}'}"

    def require_text(self, column: str) -> None:
        """Raise DataError with the first row of a column whose cell is neither text nor missing."""
        for row, cell in enumerate(self.cells.get(column, ())):
            if not isinstance(cell, str):
                shown = f"{column} is {str(cell)[:40]!r} ({type(cell).__name__}), not text"
                raise DataError(f"{self.at(row)}: {shown}; write one text per cell, a number in quotes")

    def combine_lists(self, positive: str, negative: str) -> "Table":
        """Return a row for each positive with each negative, if one of the two columns holds lists of texts."""
        cells = [*self.cells.get(positive, ()), *self.cells.get(negative, ())]
        if not any(isinstance(cell, (list, tuple, np.ndarray)) for cell in cells):
            return self
        frame: Any = pd.DataFrame({**self.columns, **self.cells}, dtype=object)
        for name in (positive, negative):
            frame = frame.explode(name).dropna(subset=[name])
            frame = frame[frame[name].astype(str) != ""]
        if frame.empty:
            raise DataError(f"{self.where}: no row has both a text in {positive} and one in {negative}")
        rows = frame.index.tolist()
        used = len(set(rows))
        note = f"{len(rows)} triplets of the lists in {used} rows"
        if used < len(self):
            note += f" ({len(self) - used} rows without {positive} or {negative} left out)"
        lines = [self.lines[row] for row in rows] if len(self.lines) else rows
        unit = self.unit if len(self.lines) else "row"
        return replace(table_of(frame, self.where, lines), note=note, unit=unit)


def read_table(path: Path) -> Table:
    """Return the table in a .tsv.gz of a data root: UTF-8, one header line, fields split by one tab, no quotes."""
    content = _read_content(path)
    columns, lines = _make_columns(*_parse_plain(_decode(content, path)), path, "\t")
    return Table(columns, str(path), text_checksum(content), lines)


@lru_cache(maxsize=1024)
def content_checksum(path: Path, _checksum: str) -> str:
    """Return the checksum of `read_table` without parsing the file."""
    return text_checksum(_read_content(path))


def own_file(name: str | Path) -> Path | None:
    """Return the path if `name` is a user's own file and not the name of a set. Raises DataError if it is no file."""
    path = Path(name).expanduser()
    if path.name.endswith(OWN_FILES):
        if not path.is_file():
            raise DataError(f"{path}: {'not a regular file' if path.exists() else f'no such file in {Path.cwd()}'}")
        return path
    if path.name.lower().endswith(OWN_FILES):
        raise DataError(f"{name}: write the ending of the file in lower case, as in {path.name.lower()}")
    if path.suffix in (".json", ".xlsx", ".xls") or isinstance(name, Path) or "/" in name:
        raise DataError(f"{name}: expected .txt, .csv, .tsv, .jsonl (also .gz) or .parquet; convert the file")
    return None


@lru_cache(maxsize=4)
def read_own(path: Path, _checksum: str) -> Table:
    """Return the table in a user's own file; a .txt holds one sentence per line. Raises DataError with the line."""
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        import pyarrow  # noqa: F401 - without it pandas names a second library too

        try:
            return table_of(pd.read_parquet(path), str(path))
        except (OSError, ValueError) as problem:
            raise DataError(f"{path} cannot be read as Parquet: {problem}") from None
    text = _decode(_read_content(path), path)
    if kind == "jsonl":
        return _parse_json(text, path)
    if kind == "txt":
        return _parse_sentences(text, path)
    stated = re.match(r'"?sep=(.)"?\n(?=.)', text)  # Excel's line above the header
    delimiter = stated[1] if stated else _find_delimiter(text, kind)
    if delimiter == "\t" and not _uses_quotes(text):
        records, lines = _parse_plain(text)
    else:
        records, lines = _parse_quoted(text, path, delimiter)
    if stated:
        records, lines = records[1:], lines[1:]
    columns, lines = _make_columns(records, lines, path, delimiter)
    if len(columns) == 1:
        _refuse_carriage_returns(text, path)
    columns = {name: list(map(one_line, values)) for name, values in columns.items()}
    return Table(columns, str(path), text_checksum(table_content(columns)), lines)


def _read_content(path: Path) -> bytes:
    """Return the content of a file in UTF-8, with lines ended by LF."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            content = content.decode("utf-16").encode()
    except (OSError, EOFError, zlib.error, UnicodeError) as problem:
        raise DataError(f"{path} cannot be read ({problem}); restore it") from None
    if not content or content.isspace():
        raise DataError(f"{path}: the file is empty")
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise DataError(f"{path}, line {line}: a NUL byte, perhaps of UTF-16; save the file as UTF-8 text")
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\r" in content:
        content = re.sub(rb"\r+\n", b"\n", content)
        # A header or a first sentence that ends with CR alone, as in Excel for Mac: all rows do.
        if b"\r" in content.partition(b"\n")[0]:
            content = content.replace(b"\r", b"\n")
    return content


def _decode(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        line, byte = content.count(b"\n", 0, problem.start) + 1, content[problem.start]
        raise DataError(f"{path}, line {line}: byte 0x{byte:02x} is not UTF-8 text; save the file as UTF-8") from None


def _find_delimiter(text: str, kind: str) -> str:
    """Return the delimiter that the header has, and most of the first lines as often as the header."""
    head = text.split("\n", 20)[:20]

    def agreement(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in head]
        return (counts.count(counts[0]) if counts[0] else 0), counts[0]

    return max(_DELIMITERS[kind], key=agreement)


def _parse_plain(text: str) -> tuple[Sequence[Sequence[str]], Sequence[int]]:
    """Return the records of tab-separated text in which a quote is text, and the line of each."""
    lines = text.removesuffix("\n").split("\n")
    records = [line.split("\t") for line in lines] if "\t" in text else list(zip(lines, strict=True))
    return records, range(1, len(lines) + 1)


def _parse_quoted(text: str, path: Path, delimiter: str) -> tuple[Sequence[Sequence[str]], Sequence[int]]:
    """Return the records of delimited text whose fields may be in quotes, and the line that each begins in.

    Raises DataError with the lines of a field that begins with a quote and does not end with one, and of one that joins
    what reads as several rows.
    """
    # The csv module takes a carriage return outside of quotes for the end of a row; here it is white space.
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # by default a text has 131,072 characters at most
    lines = io.StringIO(text.replace("\r", " "), newline="\n")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    records: list[list[str]] = []
    starts = [1]
    try:
        for record in reader:
            records.append(record or [""])
            starts.append(reader.line_num + 1)
    except csv.Error as problem:
        what = f"a field begins with a quote and does not end with one (line {reader.line_num}: {problem})"
        raise DataError(f"{path}, line {starts[-1]}: {what}; {_QUOTING}") from None
    _refuse_merged_rows(text, path, delimiter, starts)
    return records, starts[:-1]


def _refuse_merged_rows(text: str, path: Path, delimiter: str, starts: Sequence[int]) -> None:
    """Raise DataError for a record of several lines that all read as rows of their own if quotes are text.

    A row has a number where most lines of the file have one. If those have none, every line must be such a row.
    """
    joined = [(start - 1, end - 1) for start, end in pairwise(starts) if end - start > 1]
    if not joined:
        return
    lines = text.removesuffix("\n").split("\n")
    shapes = Counter(_row_shape(line, delimiter) for line in lines[1:1000])
    usual = shapes.most_common(1)[0][0]
    agree = all(line.count(delimiter) == len(usual) - 1 for line in lines if line)
    for start, end in joined:
        are_rows = all(_row_shape(line, delimiter) == usual for line in lines[start:end])
        if are_rows and len(usual) > 1 and (agree or any(usual)):
            what = f"a quote joins it with the lines up to {end}, which read as rows of their own"
            raise DataError(f"{path}, line {start + 1}: {what}; {_QUOTING}")


def _row_shape(line: str, delimiter: str) -> tuple[bool, ...]:
    """Return which fields of a line are numbers."""
    return tuple(map(_is_number, line.split(delimiter)))


def _make_columns(
    records: Sequence[Sequence[str]], lines: Sequence[int], path: Path, delimiter: str
) -> tuple[dict[str, list[str]], Sequence[int]]:
    """Return the columns of records, the first of which names them, and the line of each row.

    Blank lines are rows of a single column only.
    """
    names = [name.strip() for name in records[0]]
    _require_distinct(names, f"{path}, line {lines[0]}")
    width = len(names)
    for record, line in zip(records, lines, strict=True):
        if len(record) > width:
            what = f"Expected {width} fields in line {line}, saw {len(record)}"
            raise DataError(f"{path}: {what}; put a field that has {delimiter!r} in quotes")
    if width > 1:
        kept = [any(record) for record in records]
        records = list(compress(records, kept))
        lines = list(compress(lines, kept))
    if len(records) == 1:
        raise DataError(f"{path}: the file has a header ({', '.join(names)}) but no rows")
    columns = zip_longest(*records, fillvalue="")
    return {name: list(column[1:]) for name, column in zip(names, columns, strict=True)}, lines[1:]


def _require_distinct(names: Sequence[str], where: str) -> None:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{where}: a column name is repeated ({', '.join(repeated)}); rename one of the columns")


def _refuse_carriage_returns(text: str, path: Path) -> None:
    """Raise DataError where a row of one column holds a carriage return: is it a text, or two?"""
    if (place := text.find("\r")) >= 0:
        line = text.count("\n", 0, place) + 1
        what = "a carriage return (Mac line end) inside a row of a file whose rows end with a line feed"
        raise DataError(f"{path}, line {line}: {what}; save the file with one kind of line end")


def _uses_quotes(text: str) -> bool:
    """Return whether a tab-separated file quotes its fields as spreadsheets do; otherwise a quote is text.

    All fields that begin with a quote end with one, and the header, a doubled quote or a line break is quoted. If all
    lines have as many tabs, no field contains a line break.
    """
    tabs = {line.count("\t") for line in text.split("\n") if line}
    excluded = r"\t\n" if len(tabs) == 1 else ""
    begins = r'(?<![^\t\n])"'
    whole_field = rf'{begins}(?:[^"{excluded}]|"")*"(?![^\t\n])'
    fields = re.findall(whole_field, text)
    is_evident = any(re.search(r'""|[\t\n]', field[1:-1]) for field in fields)
    is_evident = is_evident or '"' in text.partition("\n")[0]
    return is_evident and not re.search(begins, re.sub(whole_field, "", text))


def _parse_sentences(text: str, path: Path) -> Table:
    """Return one sentence per line. Raises DataError for a header or a table, which would be trained on."""
    _refuse_carriage_returns(text, path)
    lines = text.removesuffix("\n").split("\n")
    filled = [line for line in lines if line.strip()]
    is_table = len(filled) > 1 and 2 * sum(map(_has_fields, filled)) > len(filled)
    if is_table or re.fullmatch(r"sentences?|text|\w+(,\w+)+", lines[0].strip().lower()):
        what = f"line 1, {lines[0][:60]!r}, reads as a header or a table"
        raise DataError(f"{path}: {what}; rename the file to .tsv or .csv; {_AS_SENTENCES}")
    sentences = [line.replace("\t", " ") for line in lines]
    return Table({"sentence": sentences}, str(path), text_checksum(text), range(1, len(lines) + 1))


def _has_fields(line: str) -> bool:
    """Return whether a line reads as a row: prose has commas, but no number as its first or last field."""
    ends = (line.partition(",")[0], line.rpartition(",")[2])
    return line.startswith('{"') or any(mark in line for mark in "\t;|") or any(map(_is_number, ends))


def _parse_json(text: str, path: Path) -> Table:
    rows: dict[int, Any] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows[number] = json.loads(line, object_pairs_hook=_make_object)
                if not isinstance(rows[number], dict):
                    raise ValueError(f"it is {line[:40]!r}")  # noqa: TRY004, TRY301
                json.dumps(rows[number], ensure_ascii=False).encode()  # fails for half a surrogate pair
            except (ValueError, RecursionError) as problem:
                raise DataError(f"{path}, line {number}: not a JSON object ({problem}); write one per line") from None
    # As objects: otherwise the label 1 becomes 1.0 if another line has none.
    return table_of(pd.DataFrame([*rows.values()], dtype=object), str(path), [*rows])


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; Python would keep the last of two values of one key without a word."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"a key of {', '.join(made)} is repeated")
    return made


def table_of(frame: Any, where: str, lines: Sequence[int] = ()) -> Table:
    """Return a DataFrame, a datasets.Dataset or a mapping of columns as columns of text; a missing cell is ""."""
    table: Any = pd.DataFrame(frame) if isinstance(frame, (Mapping, pd.DataFrame)) else frame.to_pandas()
    if not table.size:
        raise DataError(f"{where}: no rows, or no column")
    names = list(map(str, table.columns))
    _require_distinct(names, where)
    table = table.astype(object).where(table.notna(), "")
    cells = {name: table.iloc[:, place].tolist() for place, name in enumerate(names)}
    texts = {name: list(map(_cell_text, values)) for name, values in cells.items()}
    checksum = text_checksum(*("\n".join([name, *values, ""]) for name, values in texts.items()))
    others = {name: values for name, values in cells.items() if not all(isinstance(cell, str) for cell in values)}
    return Table(texts, where, checksum, lines, others)


def _cell_text(cell: Any) -> str:
    return one_line(str(cell.tolist() if isinstance(cell, np.ndarray) else cell))


def to_number(text: str) -> float:
    """Return the finite number in a text; nan if there is none."""
    try:
        number = math.nan if "_" in text else float(text)  # Python reads 1_000 as 1000
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _is_number(text: str) -> bool:
    return not math.isnan(to_number(text))


def one_line(text: str) -> str:
    """Return a text with each run of tabs and line breaks replaced by a space."""
    return text if text.isprintable() else re.sub(r"[\t\r\n]+", " ", text)


def table_content(columns: Mapping[str, list[str]]) -> bytes:
    """Return the bytes of `columns` in the format of a data root, of which checksums are taken."""
    return "\n".join(map("\t".join, [tuple(columns), *zip(*columns.values(), strict=True), ()])).encode()


def write_table(path: Path, columns: Mapping[str, list[str]]) -> None:
    """Write `columns` to a .tsv.gz; the same columns give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as new, new.open("wb") as handle, gzip.GzipFile("", "wb", 9, handle, mtime=0) as packed:
        packed.write(table_content(columns))


def read_manifest(root: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of the MANIFEST.json of `root` by file, {} if there is none."""
    path = root / "MANIFEST.json"
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else '{"files": []}'
        return {entry["file"]: entry for entry in json.loads(text)["files"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is not a manifest ({error!r}); repair or remove it") from None
