"""The one format on disk: gzip'd UTF-8, one header line, one row a line, fields split by one tab, nothing quoted."""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench.errors import DataError, did_you_mean
from workbench.files import replacing

MANIFEST = "MANIFEST.json"
MAX_BYTES = 2**31  # decompressed: the largest set known here has 0.14 GiB, so more is a damaged or hostile file
MAX_LINE = 100_000  # bytes: the longest row known here has 1,315, and a tokenizer takes 4 s for a million
BLOCK = 2**20
# What a file that is no text begins with, and what to do with it.
MAGIC = {
    b"\x1f\x8b": "compressed by gzip; let its name end in .gz",
    b"\xff\xfe": "UTF-16; convert it to UTF-8 (iconv -f utf-16 -t utf-8)",
    b"\xfe\xff": "UTF-16; convert it to UTF-8 (iconv -f utf-16 -t utf-8)",
    b"PK\x03\x04": "a zip archive or an office document; save its text as UTF-8",
    b"PAR1": "a parquet file; save its columns as tab-separated text",
    b"%PDF": "a PDF; save its text as UTF-8",
}


@dataclass(frozen=True)
class Table:
    """Columns of text, all of one length, and what an error needs to point at a row of them."""

    columns: dict[str, list[str]]
    where: str
    checksum: str  # sha256 of the whole content
    total: int  # rows of the whole content, of which `columns` may hold fewer
    lines: Sequence[int] = ()  # where each row stands; (): one line a row, behind a header
    unit: str = "line"  # what `lines` counts
    note: str = ""  # how the content was read, where that was a choice

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> list[str]:
        """The column called `name`; DataError naming those that are there when it is not."""
        if name not in self.columns:
            hint = did_you_mean(name, self.columns)
            raise DataError(f"{self.where}: no column {name!r}; its columns are {', '.join(self.columns)}{hint}")
        return self.columns[name]

    def at(self, row: int) -> str:
        """Where row `row` (0 is the first) stands, for an error; of a table that holds every row."""
        return f"{self.where}, {self.unit} {self.lines[row] if self.lines else row + 2}"


def read_table(path: Path, *, rows: Sequence[int] | None = None, crlf: bool = False) -> Table:
    """The table in a file, or the sentences of a .txt, one a line, as a table with the column "sentence".

    The whole file is checked and counted, and no more than `rows` of it (sorted, from 0; None: all) is kept in memory.
    crlf: lines may end in CR LF too, as in files of users. Raises DataError naming the first line that breaks the
    format of data/README.md.
    """
    where, content, names = str(path), hashlib.sha256(), []
    header = 0 if path.name.endswith((".txt", ".txt.gz")) else 1
    columns: list[list[str]] = [[]]
    total = 0  # rows before the block at hand
    for text, lines in text_lines(path, crlf=crlf):
        content.update(text)
        if not names:
            names = _header(lines.pop(0).decode(), where) if header else ["sentence"]
            columns = [[] for _ in names]
        if header:
            _check_width(lines, names, where, total + 2)
        wanted = lines if rows is None else _among(lines, rows, total)
        total += len(lines)
        for column, values in zip(columns, _columns(wanted, len(names)), strict=True):
            column.extend(values)
    if not total:
        raise DataError(f"{where}: a header ({', '.join(names)}) and no row; line 1 names the columns, rows follow")
    if not header:
        columns[0] = [line.replace("\t", " ") for line in columns[0]]
    named = dict(zip(names, columns, strict=True))
    return Table(named, where, content.hexdigest(), total, range(header + 1, header + 1 + total))


def text_lines(path: Path, *, crlf: bool = False) -> Iterator[tuple[bytes, list[bytes]]]:
    """A UTF-8 file in blocks, each with its lines without their ends; DataError naming a line that is no text."""
    number = 1
    for block in _blocks(path):
        text = block.replace(b"\r\n", b"\n") if crlf else block
        lines = _checked_lines(text, str(path), number)
        number += len(lines)
        yield text, lines


def _blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, decompressed when its name ends in .gz, in blocks of whole lines."""
    check_regular(path)
    read, rest = 0, b""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as handle:
            while block := handle.read(BLOCK):
                if not read:
                    _check_start(block, path)
                read += len(block)
                if read > MAX_BYTES:
                    raise DataError(f"{path}: more than {MAX_BYTES} bytes when decompressed; split the file")
                whole, end, tail = block.rpartition(b"\n")
                if end:
                    yield rest + whole + end
                rest = tail if end else rest + tail
                if len(rest) > MAX_LINE:  # a line that will be refused is not collected first
                    yield rest
    except EOFError as error:
        raise DataError(f"{path}: the gzip stream ends too early, the file was cut short; fetch it again") from error
    except gzip.BadGzipFile as error:
        raise DataError(
            f"{path}: not an intact gzip file ({error}); compress it with gzip, or fetch it again"
        ) from error
    except zlib.error as error:
        raise DataError(f"{path}: the gzip stream is damaged ({error}); fetch it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check that it may be read") from error
    if rest:
        yield rest
    if not read:
        raise DataError(f"{path}: the file is empty; fetch it again")


def check_regular(path: Path) -> None:
    """DataError when `path` is no file, and for a folder, a pipe or a device, which exist, in these words."""
    if not path.is_file():
        what = "is a folder, no file" if path.is_dir() else "is no regular file" if path.exists() else "no such file"
        if what == "no such file" and not path.is_absolute():
            what += f" in {Path.cwd()}"  # which of a notebook is its kernel's folder, and nowhere to be seen
        raise DataError(f"{path}: {what}; give a path to a file, or a name of the catalogue")


def _check_start(block: bytes, path: Path) -> None:
    for magic, cure in MAGIC.items():
        if block.startswith(magic):
            raise DataError(f"{path}: not UTF-8 text but {cure}")


def _checked_lines(block: bytes, where: str, first: int) -> list[bytes]:
    """The lines of a block of which the first has number `first`; DataError naming the line that cannot be."""
    lines = (block.removeprefix(b"\xef\xbb\xbf") if first == 1 else block).split(b"\n")
    if not lines[-1]:
        lines.pop()
    long = next((number for number, line in enumerate(lines, first) if len(line) > MAX_LINE), None)
    if long:
        raise DataError(
            f"{where}, line {long}: longer than {MAX_LINE} bytes, which is no sentence; one sentence or row is one line"
        )
    for byte, problem in (
        (b"\r", "a carriage return; end lines with LF alone (dos2unix does it)"),
        (b"\0", "a zero byte, so this is UTF-16 or no text at all; save it as UTF-8"),
    ):
        if byte in block:
            raise DataError(f"{where}, line {first + block[: block.index(byte)].count(10)}: {problem}")
    try:
        block.decode()
    except UnicodeDecodeError as error:
        line = first + block[: error.start].count(b"\n")
        position = error.start - block.rfind(b"\n", 0, error.start)
        raise DataError(
            f"{where}, line {line}: byte 0x{block[error.start]:02x} at position {position} is not UTF-8; convert the "
            "file to UTF-8 (iconv -f latin1 -t utf-8, where it is Latin-1)"
        ) from error
    return lines


def _header(line: str, where: str) -> list[str]:
    names = line.split("\t")
    if len(set(names)) != len(names):
        raise DataError(f"{where}, line 1: a column name stands twice in the header ({', '.join(names)})")
    return names


def _check_width(lines: list[bytes], names: list[str], where: str, first: int) -> None:
    tabs = len(names) - 1
    for number, line in enumerate(lines, first):
        if line.count(b"\t") != tabs:
            raise DataError(
                f"{where}, line {number}: {line.count(9) + 1} fields, but the header has {len(names)} "
                f"({', '.join(names)}); fields are split by one tab and hold none"
            )


def _among(lines: list[bytes], rows: Sequence[int], before: int) -> list[bytes]:
    """Those of `lines`, which are the rows from `before` on, that `rows` names."""
    start, end = np.searchsorted(rows, [before, before + len(lines)])
    return [lines[row - before] for row in rows[start:end]]


def _columns(lines: list[bytes], width: int) -> list[Sequence[str]]:
    if width == 1:
        return [[line.decode() for line in lines]]
    rows = [line.decode().split("\t") for line in lines]
    return list(zip(*rows, strict=True)) or [()] * width


def field(text: str) -> str:
    """A text as one field: each run of tabs and line breaks in it is a space."""
    return text if text.isprintable() else re.sub(r"[\t\r\n]+", " ", text)


def table_content(columns: Mapping[str, list[str]]) -> bytes:
    """The bytes of `columns` in the format: what write_table compresses and what a checksum is taken over."""
    rows = zip(*columns.values(), strict=True) if len(columns) > 1 else ((v,) for v in next(iter(columns.values())))
    return "".join("\t".join(row) + "\n" for row in [tuple(columns), *rows]).encode()


def write_table(path: Path, columns: Mapping[str, list[str]]) -> None:
    """Writes `columns` to `path` (.tsv.gz), the same bytes at each call; written beside and renamed into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, binary=True) as handle, gzip.GzipFile("", "wb", 9, handle, mtime=0) as packed:
        packed.write(table_content(columns))


def read_manifest(root: Path) -> dict[str, dict]:
    """The entries of the MANIFEST.json of `root` by file, {} where there is none."""
    path = root / MANIFEST
    if not path.is_file():
        return {}
    try:
        return {entry["file"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))["files"]}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not a manifest of this format ({error!r}); repair or remove it") from error


def describe_file(root: Path, file: str) -> dict:
    """The manifest entry of one file: size and sha256, and of a table also rows, columns and the content's sha256."""
    path = root / file
    packed = path.read_bytes()
    entry: dict = {"file": file, "bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}
    if file.endswith(".tsv.gz"):
        table = read_table(path, rows=())
        entry |= {"rows": table.total, "columns": list(table.columns), "sha256_uncompressed": table.checksum}
    return entry


def write_manifest(root: Path, entries: list[dict]) -> None:
    """Writes the MANIFEST.json of `root` with `entries`, sorted by file."""
    content = {
        "format": "gzip TSV, UTF-8, one header line, fields never quoted or escaped, no tab or newline inside a field",
        "files": sorted(entries, key=lambda entry: entry["file"]),
    }
    with replacing(root / MANIFEST) as handle:
        handle.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
