"""Read files as columns of text: those of a data root, and a user's own in any usual format."""

import codecs
import csv
import gzip
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, product
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
        chosen = [self.cells.get(name, self.columns[name]) for name in (positive, negative)]
        if not any(_is_list(cell) for cells in chosen for cell in cells):
            return self
        texts = [self._read_lists(name) for name in (positive, negative)]
        rows: list[int] = []
        pairs: list[tuple[str, str]] = []
        for row, both in enumerate(zip(*texts, strict=True)):
            combined = list(product(*both))
            rows += [row] * len(combined)
            pairs += combined
        if not pairs:
            raise DataError(f"{self.where}: no row has both a text in {positive} and one in {negative}")
        columns = _take_rows(self.columns, rows)
        columns[positive], columns[negative] = map(list, zip(*pairs, strict=True))
        cells = _take_rows({name: self.cells[name] for name in self.cells if name not in (positive, negative)}, rows)
        note = f"{len(rows)} triplets of the lists in {len(set(rows))} rows"
        if dropped := len(self) - len(set(rows)):
            note += f" ({dropped} rows without {positive} or {negative} left out)"
        lines = [self.lines[row] for row in rows] if len(self.lines) else rows
        unit = self.unit if len(self.lines) else "row"
        return Table(columns, self.where, self.checksum, lines, cells, note, unit)

    def _read_lists(self, column: str) -> list[list[str]]:
        """Return the texts of each cell: those of a list, or one text. Raises DataError for anything else."""
        texts = []
        for row, cell in enumerate(self.cells.get(column, self.columns[column])):
            members = list(cell) if _is_list(cell) else [cell] if cell != "" else []
            if wrong := [member for member in members if not isinstance(member, str)]:
                shown = f"{column} holds {str(wrong[0])[:40]!r} ({type(wrong[0]).__name__})"
                raise DataError(f"{self.at(row)}: {shown}, not a text or a list of texts; correct it")
            texts.append(list(map(one_line, members)))
        return texts


def _is_list(cell: Any) -> bool:
    return isinstance(cell, (list, tuple, np.ndarray))


def _take_rows(columns: Mapping[str, list[Any]], rows: Sequence[int]) -> dict[str, list[Any]]:
    return {name: [values[row] for row in rows] for name, values in columns.items()}


def read_table(path: Path) -> Table:
    """Return the table in a .tsv.gz of a data root: UTF-8, one header line, fields split by one tab, no quotes."""
    content = _read_content(path)
    columns, lines = _parse_plain(_decode(content, path), path, "\t")
    return Table(columns, str(path), text_checksum(content), lines)


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
        try:
            return table_of(pd.read_parquet(path), str(path))
        except (OSError, ValueError, ImportError) as problem:
            raise DataError(f"{path} cannot be read as Parquet: {problem}") from None
    text = _decode(_read_content(path), path)
    if kind == "jsonl":
        return _parse_json(text, path)
    if kind == "txt":
        return _parse_sentences(text, path)
    delimiter, stated = _find_delimiter(text, kind)
    body = text.partition("\n")[2] if stated else text
    quoted = delimiter != "\t" or _uses_quotes(body)
    parse = _parse_quoted if quoted else _parse_plain
    columns, lines = parse(body, path, delimiter, first_line=1 + stated)
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
    if b"\r" not in content:
        return content
    content = re.sub(rb"\r+\n", b"\n", content)
    # The first line is a header or a sentence. If it ends with CR, as in Excel for Mac, so do all rows.
    first_end = re.search(rb"[\r\n]", content)
    return content.replace(b"\r", b"\n") if first_end and first_end[0] == b"\r" else content


def _decode(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        line, byte = content.count(b"\n", 0, problem.start) + 1, content[problem.start]
        raise DataError(f"{path}, line {line}: byte 0x{byte:02x} is not UTF-8 text; save the file as UTF-8") from None


def _find_delimiter(text: str, kind: str) -> tuple[str, bool]:
    """Return the delimiter that most of the first lines have as often as the header; True: Excel's line sep= has it."""
    head = text.split("\n", 20)[:20]
    if stated := re.fullmatch(r'"?sep=(.)"?', head[0]):
        return stated[1], True

    def agreement(delimiter: str) -> tuple[int, int]:
        counts = [line.count(delimiter) for line in head]
        return (counts.count(counts[0]) if counts[0] else 0), counts[0]

    return max(_DELIMITERS[kind], key=agreement), False


def _parse_plain(text: str, path: Path, delimiter: str, first_line: int = 1) -> tuple[dict[str, list[str]], Any]:
    """Return the columns of delimited text in which a quote is text, and the line of each row."""
    rows = text.removesuffix("\n").split("\n")
    lines = np.arange(first_line, first_line + len(rows))
    if delimiter in text:
        return _make_columns([row.split(delimiter) for row in rows], lines, path, delimiter)
    _refuse_carriage_returns(text, path)  # perhaps millions of sentences, which need no splitting
    return _name_columns([rows[0]], [rows[1:]], path), lines[1:]


def _parse_quoted(text: str, path: Path, delimiter: str, first_line: int = 1) -> tuple[dict[str, list[str]], Any]:
    """Return the columns of delimited text whose fields may be in quotes, and the line of each row.

    Raises DataError with the line for text after a closing quote, a quote that is never closed, and a quoted field
    that joins what reads as several rows.
    """
    rows = text.removesuffix("\n").split("\n")
    # The csv module takes a carriage return outside of quotes for the end of a row; here it is white space.
    reader = csv.reader(
        (f"{row}\n" for row in text.replace("\r", " ").removesuffix("\n").split("\n")),
        delimiter=delimiter,
        skipinitialspace=True,
        strict=True,
    )
    records: list[list[str]] = []
    starts = [0]
    try:
        for record in reader:
            records.append(record or [""])
            starts.append(reader.line_num)
    except csv.Error as problem:
        is_open = "expected after" not in str(problem)
        line = first_line + (starts[-1] if is_open else reader.line_num - 1)
        what = "the quote that begins a field is not closed" if is_open else "text follows a closing quote"
        raise DataError(f"{path}, line {line}: {what}; {_QUOTING}") from None
    merged = _find_merged_rows(rows, records, starts, delimiter)
    if merged is not None:
        place = f"lines {first_line + starts[merged]} to {first_line + starts[merged + 1] - 1}"
        raise DataError(f"{path}, {place}: a quote joins what reads as rows of their own; {_QUOTING}")
    if all(len(record) == 1 for record in records):
        _refuse_carriage_returns(text, path)
    return _make_columns(records, np.array(starts[:-1]) + first_line, path, delimiter)


def _find_merged_rows(
    rows: Sequence[str], records: Sequence[list[str]], starts: Sequence[int], delimiter: str
) -> int | None:
    """Return the first record of several lines that are rows of their own if quotes are text; None if there is none.

    A line is such a row if it has all fields, with a number in each column that has one in every record of one line.
    Without such a column every line of the file must have all fields.
    """
    width = len(records[0])
    spans = list(pairwise(starts))
    joined = [place for place, (start, end) in enumerate(spans) if end - start > 1]
    if width == 1 or not joined:
        return None
    single = [record for record, (start, end) in zip(records[1:], spans[1:], strict=True) if end - start == 1]
    full = [record for record in single if len(record) == width]
    numeric = [
        column for column in range(width) if full and all(_is_number(record[column]) for record in full)
    ]
    whole_file_agrees = all(row.count(delimiter) == width - 1 for row in rows if row)
    for place in joined:
        fields = [row.split(delimiter) for row in rows[slice(*spans[place])]]
        has_all_fields = all(len(line) == width for line in fields)
        has_numbers = all(_is_number(line[column]) for line in fields for column in numeric if has_all_fields)
        if has_all_fields and (has_numbers if numeric else whole_file_agrees):
            return place
    return None


def _make_columns(
    records: list[list[str]], lines: np.ndarray, path: Path, delimiter: str
) -> tuple[dict[str, list[str]], np.ndarray]:
    """Return the columns of records below their header, without blank ones if there are several columns."""
    width = len(records[0])
    for record, line in zip(records, lines, strict=True):
        if len(record) > width:
            what = f"Expected {width} fields in line {line}, saw {len(record)}"
            raise DataError(f"{path}: {what}; put a field that has {delimiter!r} in quotes")
        record += [""] * (width - len(record))
    kept = [place for place, record in enumerate(records) if width == 1 or any(record)]
    columns = list(map(list, zip(*(records[place] for place in kept[1:]), strict=True))) or [[]]
    return _name_columns(records[0], columns, path), lines[kept[1:]]


def _name_columns(header: list[str], columns: list[list[str]], path: Path) -> dict[str, list[str]]:
    names = [name.strip() for name in header]
    _require_distinct(names, f"{path}, line 1")
    if not columns[0]:
        raise DataError(f"{path}: the file has a header ({', '.join(names)}) but no rows")
    return dict(zip(names, columns, strict=True))


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
    """Return whether a tab-separated file quotes its fields as spreadsheets do; otherwise a quote is text."""
    fields = re.findall(r'"(?<![^\t\n]")[^\t\n]*', text)  # those that begin with a quote
    doubled = '"' in text.partition("\n")[0] or any('""' in field[1:-1] for field in fields)
    return doubled and all(re.fullmatch(r'"(?:[^"]|"")*"', field) for field in fields)


def _parse_sentences(text: str, path: Path) -> Table:
    """Return one sentence per line. Raises DataError for a header or a table, which would be trained on."""
    _refuse_carriage_returns(text, path)
    lines = text.removesuffix("\n").split("\n")
    if lines[0].strip().lower() in ("sentence", "sentences", "text") or _reads_as_table(lines):
        what = f"line 1, {lines[0][:60]!r}, reads as a header or a table"
        raise DataError(f"{path}: {what}; rename the file to .tsv, .csv or .jsonl; {_AS_SENTENCES}")
    sentences = [line.replace("\t", " ") for line in lines]
    return Table({"sentence": sentences}, str(path), text_checksum(text), range(1, len(lines) + 1))


def _reads_as_table(lines: Sequence[str]) -> bool:
    """Return whether most lines of a .txt file have fields: a few uneven ones do not make it a list of sentences."""
    filled = [line for line in lines if line.strip()]
    if filled[0].startswith('{"') and filled[0].endswith("}"):
        return True
    if 2 * sum("\t" in line for line in filled) >= len(filled):
        return True
    for separator in ("||", "|", ";", ","):
        counts = Counter(line.count(separator) for line in filled)
        count, agreeing = counts.most_common(1)[0]
        if count == 0 or 4 * agreeing < 3 * len(filled) or len(filled) == 1:
            continue
        fields = [line.split(separator) for line in filled[1:]]
        has_numbers = all(_is_number(line[0]) or _is_number(line[-1]) for line in fields)
        # Prose has commas too, so those of a table need a label or a score beside the texts.
        if separator != "," or has_numbers:
            return True
    return False


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
