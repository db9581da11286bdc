"""Read files as columns of text: those of a data root, and a user's own in any usual format."""

import codecs
import csv
import gzip
import io
import json
import math
import re
import sys
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from numpy import ndarray
from pandas import DataFrame

from workbench.config import unique_keys
from workbench.errors import DataError, unknown_name
from workbench.files import (
    OWN_FILES,
    AnyPath,
    Facts,
    atomic_path,
    file_checksum,
    text_checksum,
    user_path,
)

Roles = Mapping[str, str]  # role -> column
Texts = dict[str, list[str]]  # column -> its cells
Records = dict[int, list[str]]  # first line -> the fields of a row

_DELIMITERS = {"csv": ",;\t|", "tsv": "\t,;|"}  # the first is the one that the ending promises
_SINGLE = {"csv": "\x1f", "tsv": "\t"}  # of a single column: the first occurs in no text
_QUOTING = 'put the field in quotes and write a quote inside it as "", or save the file as .tsv'
# A line of a table or a JSON object. Prose has a space after a comma, a semicolon or a bar, and
# digits around the comma of a number.
_TABLE_LINE = re.compile(
    r"""(?x) ^{"                # an object
    | \S\s*\t\s*\S             # a tab between two texts
    | [;|]\S                    # a mark without a space after it
    | ^-?[\d.]*\s*\|            # a bar at the start, or after a number there
    | "(,\ ?|\ )"              # two texts in quotes
    | ^-?\d*\.?\d+,[^\s\d]     # a number, then a text
    | [A-Za-z.?!],[A-Za-z]      # two texts; not every script has spaces
    | [^\s\d],-?\d*\.?\d+\s*$  # a text, then a number"""
)
_DECIMAL_COMMA = re.compile(r"(?i)\s*(-?\d*,?\d+(e[+-]?\d+)?|-|n/?a|nan)?\s*")
# May be thousands: "1,200", but not "0,125".
_THOUSANDS = re.compile(r"(?i)\s*(-?([1-9]\d{0,2},\d{3}|\d+)|-|n/?a|nan)?\s*")
_HEADER_LINE = re.compile(
    r"(?ai)sentences?|text|(sent\w*|text\w*|anchor|query|premise|question\w*|label|score|id)(,\w+)+"
)


@dataclass(frozen=True)
class Table:
    """Columns of text of one length; `lines` holds the line of each row, for errors."""

    columns: Texts
    where: str
    checksum: str  # sha256 of the content
    lines: Any = range(sys.maxsize)  # by default the numbers of the rows
    unit: str = "row"  # what `lines` counts
    cells: Mapping[str, list[Any]] = field(default_factory=dict)  # of a source that has types
    note: str = ""  # how the rows were made

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def require(self, roles: Roles) -> None:
        """Raise DataError, with the nearest name, for the column of a role that does not exist."""
        for name in roles.values():
            if name not in self.columns:
                raise DataError(unknown_name("column", name, self.columns, f"in {self.where}"))

    def require_text(self, column: str) -> None:
        """Raise DataError with the first row of a column whose cell is neither text nor missing."""
        for row, cell in enumerate(self.cells.get(column, ())):
            if not isinstance(cell, str):
                raise DataError(
                    f"{self.at(row)}: {column} is {str(cell)!r:.42} ({type(cell).__name__}), not "
                    "text; write one text per cell, a number in quotes"
                )

    def at(self, row: int) -> str:
        """Return the place of a row, for an error."""
        return f"{self.where}, {self.unit} {self.lines[row]}"

    def numbers(self, column: str) -> list[float]:
        """Return the cells of a column as finite numbers; nan for a cell that is none."""
        return list(map(to_number, self.columns[column]))

    def is_numeric(self, column: str) -> bool:
        """Return whether every cell of a column is a number."""
        return not any(map(math.isnan, map(to_number, self.columns[column])))

    def has_lists(self, *columns: str) -> bool:
        """Return whether a cell of these columns is a list."""
        return any(
            isinstance(cell, (list, tuple, ndarray))
            for column in columns
            for cell in self.cells.get(column, ())
        )

    def combine_lists(self, positive: str, negative: str) -> "Table":
        """Return a row for each positive with each negative, if a column holds lists of texts."""
        if not self.has_lists(positive, negative):
            return self
        rows = DataFrame(self.cells, self.lines, dtype=object)
        rows = rows.explode(positive).explode(negative)
        texts = rows[[positive, negative]].fillna("").astype(str)
        rows = rows[(texts != "").all(axis=1)]
        if rows.empty:
            raise DataError(
                f"{self.where}: no row has both a text in {positive} and one in {negative}"
            )
        # Exploding repeats the line of a row.
        used = rows.index.nunique()
        note = (
            f"{len(rows)} triplets of the lists in {used} rows ({len(self) - used} rows without "
            f"{positive} or {negative} left out)"
        )
        return replace(table_of(rows, self.where, rows.index, self.unit), note=note)


def read_table(path: Path) -> Table:
    """Return the table in a .tsv.gz of a data root.

    It is UTF-8 with one header line; fields are split by one tab, and a quote is text."""
    text = read_text(path)
    columns, lines = _make_columns(_parse_plain(text), path, "\t")
    return Table(columns, str(path), text_checksum(text), lines, "line")


@lru_cache(maxsize=1024)
def content_checksum(path: Path, _checksum: str) -> str:
    """Return the checksum of `read_table` without parsing the file."""
    return text_checksum(read_text(path))


def own_file(name: AnyPath) -> Path | None:
    """Return the path if `name` is a user's own file, None if it may be the name of a set.

    Raises DataError for a file that does not exist or has another format."""
    path = user_path(name)
    if path.name.endswith(OWN_FILES):
        if not path.is_file():
            raise DataError(f"{path}: no such regular file (relative paths begin in {Path.cwd()})")
        return path
    # No set has such a name.
    if "." in path.name or "/" in str(name):
        raise DataError(
            f"{name}: expected .txt, .csv, .tsv, .jsonl (also .gz) or .parquet, in lower case; "
            "convert the file, rename it, or name a file of the folder"
        )
    return None


def read_own(name: AnyPath) -> Table | None:
    """Return the table in a user's own file, None if `name` may be the name of a set.

    Raises DataError, with the line, for a file that cannot be read."""
    path = own_file(name)
    if path is None:
        return None
    table = _read_file(path, file_checksum(path))
    # Copies: whoever shuffles them must not change what is kept.
    copies = {name: [*cells] for name, cells in table.columns.items()}
    return Table(**dict(vars(table), columns=copies))


@lru_cache(maxsize=4)
def _read_file(path: Path, _checksum: str) -> Table:
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if ending == "parquet":
        return _read_parquet(path)
    text = read_text(path)
    if ending == "jsonl":
        return _read_objects(text, path)
    if ending == "txt":
        sentences = _read_lines(text, path)
        lines = range(1, len(sentences) + 1)
        return Table({"sentence": sentences}, str(path), text_checksum(text), lines, "line")
    columns, lines = _read_delimited(text, path, ending)
    return Table(columns, str(path), text_checksum(table_content(columns)), lines, "line")


def _read_parquet(path: Path) -> Table:
    from pyarrow import parquet

    try:
        rows = _of_arrow(parquet.read_table(path))
    except (OSError, ValueError, LookupError) as problem:
        raise DataError(f"{path} cannot be read as Parquet: {problem!r}") from None
    return table_of(rows, str(path))


def _read_objects(text: str, path: Path) -> Table:
    rows = {}  # line -> object
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows[number] = {**json.loads(line, object_pairs_hook=unique_keys)}
            # Half a surrogate pair is valid in JSON, but cannot be encoded.
            json.dumps(rows[number], ensure_ascii=False).encode()
        except (ValueError, TypeError, RecursionError) as problem:
            raise DataError(
                f"{path}, line {number}: not a JSON object ({problem}); write one per line"
            ) from None
    # As objects: otherwise the label 1 becomes 1.0 if another line has none.
    frame = DataFrame([*rows.values()], dtype=object)
    return table_of(frame, str(path), [*rows], "line")


def _read_lines(text: str, path: Path) -> list[str]:
    """Return one sentence per line.

    Raises DataError for a header or a table, which would be trained on."""
    lines = text.removesuffix("\n").split("\n")
    first = list(islice(filter(str.strip, lines), 1000))
    in_table = list(filter(_TABLE_LINE.search, first))
    # One line alone may be an odd sentence.
    is_table = len(in_table) > max(1, len(first) / 2)
    if is_table or _HEADER_LINE.fullmatch(lines[0].strip()):
        raise DataError(
            f"{path}: line 1, {lines[0][:60]!r}, reads as a header or a table; rename the file to "
            '.tsv or .csv; if its lines are sentences, give them a header "sentence" and save the '
            "file as .tsv"
        )
    return [line.replace("\t", " ") for line in lines]


def _read_delimited(text: str, path: Path, ending: str) -> tuple[Texts, Sequence[int]]:
    """Return the columns of a .csv or .tsv, and the line of each row."""
    stated = re.match(r'"?sep=([^\\])"?\n(?=.)', text)  # Excel's line above the header
    delimiter = stated[1] if stated else _find_delimiter(text, ending)
    if stated:  # an empty line in its place, so that all others keep their numbers
        text = "\n" + text[stated.end() :]
    records = _parse_tabs(text, path) if delimiter == "\t" else _parse_quoted(text, path, delimiter)
    if stated:
        del records[1]
    columns, lines = _make_columns(records, path, delimiter)
    # Where a comma does not separate cells, it may be that of a decimal. What may be one of
    # thousands stays as it is, and is refused as a number.
    for name, texts in columns.items() if delimiter in ";\t" else ():
        if all(map(_DECIMAL_COMMA.fullmatch, texts)) and not all(map(_THOUSANDS.fullmatch, texts)):
            columns[name] = [text.replace(",", ".") for text in texts]
    return columns, lines


def read_text(path: Path) -> str:
    """Return the text of a file, with lines ended by LF."""
    try:
        content = path.read_bytes()
        # Whatever its ending: browsers unpack some files and keep the name.
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            content = content.decode("utf-16").encode()
    except (OSError, EOFError, zlib.error, UnicodeError) as problem:
        raise DataError(f"{path} cannot be read ({problem}); restore it") from None
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content or content.isspace():
        raise DataError(f"{path}: the file is empty")
    if content[:40].lower().startswith((b"version https://git-lfs", b"<!doctype html", b"<html")):
        raise DataError(f"{path} is a pointer of Git LFS or a web page; download the file itself")
    # Line ends of Windows, those that were converted twice, and of a Mac.
    for line_end in (b"\r\r\n", b"\r\n", b"\r"):
        content = content.replace(line_end, b"\n")
    wrong = content.find(b"\0")  # perhaps UTF-16 without its mark
    try:
        text = content.decode()
    except UnicodeDecodeError as problem:
        text = ""
        wrong = problem.start
    if wrong >= 0:
        line = content.count(b"\n", 0, wrong) + 1
        raise DataError(
            f"{path}, line {line}: byte 0x{content[wrong]:02x} is not UTF-8 text; save the file as "
            "UTF-8"
        )
    return text


def _find_delimiter(text: str, ending: str) -> str:
    """Return the delimiter that most of the first lines have as often as the header has it."""
    lines = text.split("\n", 20)[:20]

    def rank(delimiter):
        counts = [line.count(delimiter) for line in lines]
        return counts.count(counts[0]), counts[0]

    in_header = [delimiter for delimiter in _DELIMITERS[ending] if delimiter in lines[0]]
    # In a single column of a .csv all of them are text.
    return max(in_header, key=rank, default=_SINGLE[ending])


def _parse_plain(text: str) -> Records:
    """Return line -> record of tab-separated text in which a quote is text."""
    lines = text.removesuffix("\n").split("\n")
    return {number: line.split("\t") for number, line in enumerate(lines, 1)}


def _parse_tabs(text: str, path: Path) -> Records:
    """Return line -> record of tab-separated text, which may quote its fields as spreadsheets do.

    Then all rows have as many fields as the header, and a quote in the header, a doubled one, or a
    tab or line break in a field shows it, or that the fields in quotes are those with a comma.
    Otherwise a quote is text. Raises DataError for a single column that may be either."""
    plain = _parse_plain(text)
    try:
        quoted = _parse_quoted(text, path, "\t")
    except DataError:
        return plain
    header = text.lstrip("\n").partition("\n")[0]
    content = "".join(chain.from_iterable(quoted.values()))
    is_evident = '"' in header or '""' in text
    if "\n" in content and not is_evident and "\t" not in header:
        if '"' in content:  # a quote within a field would be doubled
            return plain
        raise DataError(
            f"{path}: text in quotes goes over several lines; put the header in quotes if it is "
            "one field, or save the file as .txt if each line is a sentence"
        )
    is_evident |= "\n" in content or "\t" in content
    # Excel quotes the cells with a comma, and these alone.
    cells = set(chain.from_iterable(plain.values()))
    in_quotes = {cell for cell in cells if cell.startswith('"')}
    is_evident |= bool(in_quotes) and in_quotes == {cell for cell in cells if "," in cell}
    is_even = len({len(record) for record in quoted.values() if any(record)}) == 1
    return quoted if is_evident and is_even else plain


def _parse_quoted(text: str, path: Path, delimiter: str) -> Records:
    """Return first line -> record of delimited text whose fields may be in quotes.

    Raises DataError with the lines of a field that begins with a quote and does not end with one,
    and of one that joins what reads as several rows.
    """
    # The csv module refuses a space between a closing quote and the delimiter, as in aligned
    # columns.
    plain = re.sub(rf'"(?<=[^"\n{delimiter}]") +(?=[\n{delimiter}])', '"', text)
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # by default 131,072 characters
    source = io.StringIO(plain, newline="\n")
    reader = csv.reader(source, delimiter=delimiter, skipinitialspace=True, strict=True)
    records = {}
    start = 1
    try:
        for record in reader:
            records[start] = record or [""]
            start = reader.line_num + 1
    except csv.Error as problem:
        raise DataError(
            f"{path}, line {start}: a field begins with a quote and does not end with one (line "
            f"{reader.line_num}: {problem}); {_QUOTING}"
        ) from None
    width = max(map(len, records.values()))
    lines = plain.split("\n")
    for start, record in records.items():
        content = "".join(record)
        breaks = content.count("\n")
        # Rows that a quote joins have the delimiters of rows; prose has a space after a comma.
        joined = lines[start - 1 : start + breaks]
        are_rows = all(line.count(delimiter) == width - 1 for line in joined)
        if breaks and are_rows and delimiter in content and f"{delimiter} " not in content:
            raise DataError(
                f"{path}, line {start}: a quote joins it with the lines up to {start + breaks}, "
                f"which read as rows of their own; {_QUOTING}"
            )
    return records


def _make_columns(records: Records, path: Path, delimiter: str) -> tuple[Texts, Sequence[int]]:
    """Return the columns of records, the first of which names them, and the line of each row."""
    header = min(records)
    names = [_one_line(name.strip()) for name in records.pop(header)]
    _require_distinct(names, f"{path}, line {header}")
    width = len(names)
    for line, record in records.items():
        if width > 1 and record == names:
            raise DataError(f"{path}, line {line}: the header is repeated here; remove the line")
        if len(record) > width:
            raise DataError(
                f"{path}: Expected {width} fields in line {line}, saw {len(record)}; put a field "
                f"that has {delimiter!r} in quotes, or give the file a header with all columns"
            )
    if width > 1:  # a blank line is a row of a single column only
        records = {line: record for line, record in records.items() if any(record)}
    if not records:
        raise DataError(f"{path}: the file has a header ({', '.join(names):.200}) but no rows")
    # Fields that a short row lacks are empty.
    columns = zip_longest(names, *records.values(), fillvalue="")
    return {name: list(map(_one_line, texts)) for name, *texts in columns}, list(records)


def _require_distinct(names: Sequence[str], where: str) -> None:
    if repeated := Counter(names) - Counter({*names}):
        raise DataError(
            f"{where}: a column name is repeated ({', '.join(map(repr, repeated))}); rename or "
            "remove one of the columns (is the first line a header with one tab or comma between "
            "its names?)"
        )


def table_of(source: Any, where: str, lines: Any = None, unit: str = "row") -> Table:
    """Return what pandas reads as a DataFrame, or a datasets.Dataset, as columns of text.

    A missing cell is "". An index with a name is a column. lines: Of the rows, in this `unit`; by
    default their numbers."""
    try:
        if hasattr(source, "with_format"):
            source = _of_arrow(source.with_format("arrow")[:])
        frame = DataFrame(source)
    except (KeyError, TypeError, ValueError) as error:  # of a DatasetDict, too
        raise DataError(f"{where}: {type(source).__name__} is no table: {error}") from error
    if lines is None:
        has_index = any(frame.index.names)
        # A name that occurs twice is refused below.
        frame = frame.reset_index(drop=not has_index, allow_duplicates=True)
        lines = frame.index
    if not frame.size:
        raise DataError(f"{where}: no rows, or no column")
    names = [_one_line(str(name)) for name in frame.columns]
    _require_distinct(names, where)
    frame = frame.astype(object).where(frame.notna(), "")
    cells = frame.set_axis(names, axis=1).to_dict("list")
    texts = {name: list(map(_cell_text, values)) for name, values in cells.items()}
    contents = ["\n".join([name, *values, ""]) for name, values in texts.items()]
    return Table(texts, where, text_checksum(*contents), lines, unit, cells)


def _of_arrow(table: Any) -> DataFrame:
    """Return an Arrow table with the names of classes, which `datasets` stores as numbers.

    The class -1, which is none, is "-"."""
    frame = table.to_pandas()
    facts = (table.schema.metadata or {}).get(b"huggingface", '{"info": {"features": {}}}')
    features = json.loads(facts)["info"]["features"]
    for name in frame.columns:
        feature = features.get(name)
        # A list is described by a list.
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            frame[name] = frame[name].map(dict(enumerate(feature["names"]))).fillna("-")
    return frame


def _cell_text(cell: Any) -> str:
    return _one_line(str(cell.tolist() if isinstance(cell, ndarray) else cell))


def to_number(text: str) -> float:
    """Return the finite number in a text; nan if there is none."""
    try:
        number = math.nan if "_" in text else float(text)  # Python reads 1_000 as 1000
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _one_line(text: str) -> str:
    """Return a text with each run of tabs, line breaks and zero bytes replaced by a space."""
    return text if text.isprintable() else re.sub(r"[\t\r\n\0]+", " ", text)


def table_content(columns: Texts) -> bytes:
    """Return the bytes of `columns` in the format of a data root, of which checksums are taken."""
    rows = zip(*columns.values(), strict=True)
    lines = map("\t".join, [columns, *rows, ()])
    return "\n".join(lines).encode()


def write_table(path: Path, columns: Texts) -> None:
    """Write `columns` to a .tsv.gz, which `read_own` reads as they are.

    The same columns give the same bytes."""
    content = table_content(columns)
    if b'"' in content:  # then all fields are in quotes, and so is a header that shows it
        content = (
            DataFrame(columns)
            .to_csv(sep="\t", index=False, quoting=csv.QUOTE_ALL, lineterminator="\n")
            .encode()
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Neither a name nor a time in the header of gzip, so that the bytes follow from the rows.
    with (
        atomic_path(path) as new,
        new.open("wb") as handle,
        gzip.GzipFile("", "wb", 9, handle, mtime=0) as packed,
    ):
        packed.write(content)


def read_manifest(root: Path) -> dict[str, Facts]:
    """Return the entries of the MANIFEST.json of `root` by file, {} if there is none."""
    path = root / "MANIFEST.json"
    if not path.is_file():
        return {}
    try:
        return {entry["file"]: entry for entry in json.loads(path.read_bytes())["files"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is not a manifest ({error!r}); repair or remove it") from None
