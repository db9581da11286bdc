"""The one format on disk: gzip'd UTF-8, one header line, one row a line, fields split by one tab, nothing quoted."""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from workbench.errors import DataError

MANIFEST = "MANIFEST.json"
MAX_BYTES = 2**31  # decompressed: the largest set known here has 0.14 GiB, so more is a damaged or hostile file


@dataclass(frozen=True)
class Table:
    """Columns of text, all of one length, and what an error needs to point at a row of them."""

    columns: dict[str, list[str]]
    where: str
    checksum: str
    first_line: int = 2  # line 1 of a file is its header

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> list[str]:
        """The column called `name`; DataError naming those that are there when it is not."""
        if name not in self.columns:
            hint = did_you_mean(name, self.columns)
            raise DataError(f"{self.where}: no column {name!r}; its columns are {', '.join(self.columns)}{hint}")
        return self.columns[name]

    def at(self, row: int) -> str:
        """Where row `row` (0 is the first) stands, for an error."""
        return f"{self.where}, line {row + self.first_line}"


def did_you_mean(name: str, known: Mapping[str, object] | list[str]) -> str:
    """'; did you mean ...?' when something in `known` is close to `name`, else nothing."""
    close = get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def read_content(path: Path) -> bytes:
    """The bytes of a file, decompressed when its name ends in .gz."""
    try:
        if path.stat().st_size == 0:
            raise DataError(f"{path}: the file is empty (0 bytes); fetch it again")
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as handle:
            content = handle.read(MAX_BYTES + 1)
    except EOFError as error:
        raise DataError(f"{path}: the gzip stream ends too early, the file was cut short; fetch it again") from error
    except gzip.BadGzipFile as error:
        raise DataError(
            f"{path}: not an intact gzip file ({error}); compress it with gzip, or fetch it again"
        ) from error
    except zlib.error as error:
        raise DataError(f"{path}: the gzip stream is damaged ({error}); fetch it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check that it exists and may be read") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{path}: more than {MAX_BYTES} bytes when decompressed; split the file")
    return content


def read_lines(content: bytes, where: str) -> list[str]:
    """The lines of `content` without their line ends; DataError naming the line of a byte that is not UTF-8."""
    if b"\r" in content:
        line = content[: content.index(b"\r")].count(b"\n") + 1
        raise DataError(f"{where}, line {line}: a carriage return; end lines with LF alone (dos2unix does it)")
    raw = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if raw and not raw[-1]:
        raw.pop()
    try:
        return [line.decode() for line in raw]  # a fifth of the time of decoding the whole and splitting it after
    except UnicodeDecodeError:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{where}, line {number}: byte 0x{line[error.start]:02x} at position {error.start + 1} is not "
                    "UTF-8; convert the file to UTF-8 (iconv -f latin1 -t utf-8)"
                ) from error
        raise


def parse_table(content: bytes, where: str) -> Table:
    """The table that `content` holds; DataError naming the first line that breaks the format of data/README.md."""
    lines = read_lines(content, where)
    if not lines:
        raise DataError(f"{where}: no line in it, not even the header; fetch it again")
    names = lines[0].split("\t")
    if len(set(names)) != len(names):
        raise DataError(f"{where}, line 1: a column name stands twice in the header ({', '.join(names)})")
    if len(lines) == 1:
        raise DataError(f"{where}: a header ({', '.join(names)}) and no row; line 1 names the columns, rows follow")
    width = len(names)
    for number, line in enumerate(lines[1:], start=2):
        if line.count("\t") + 1 != width:
            raise DataError(
                f"{where}, line {number}: {line.count(chr(9)) + 1} fields, but the header has {width} "
                f"({', '.join(names)}); fields are split by one tab and hold none"
            )
    if width == 1:
        columns = {names[0]: lines[1:]}
    else:
        rows = [line.split("\t") for line in lines[1:]]
        columns = {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    return Table(columns, where, hashlib.sha256(content).hexdigest())


def table_content(columns: Mapping[str, list[str]]) -> bytes:
    """The bytes of `columns` in the format: what write_table compresses and what a checksum is taken over."""
    rows = zip(*columns.values(), strict=True) if len(columns) > 1 else ((v,) for v in next(iter(columns.values())))
    return "".join("\t".join(row) + "\n" for row in [tuple(columns), *rows]).encode()


def write_table(path: Path, columns: Mapping[str, list[str]]) -> None:
    """Writes `columns` to `path` (.tsv.gz), the same bytes at each call; written beside and renamed into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    with beside.open("wb") as handle, gzip.GzipFile("", "wb", 9, handle, mtime=0) as packed:
        packed.write(table_content(columns))
    beside.replace(path)


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
        table = parse_table(read_content(path), str(path))
        entry |= {"rows": len(table), "columns": list(table.columns), "sha256_uncompressed": table.checksum}
    return entry


def write_manifest(root: Path, entries: list[dict]) -> None:
    """Writes the MANIFEST.json of `root` with `entries`, sorted by file."""
    content = {
        "format": "gzip TSV, UTF-8, one header line, fields never quoted or escaped, no tab or newline inside a field",
        "files": sorted(entries, key=lambda entry: entry["file"]),
    }
    beside = root / f"{MANIFEST}.{os.getpid()}.part"
    beside.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(root / MANIFEST)
