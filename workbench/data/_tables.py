"""Read files as columns of text: those of a data root, and a user's own in any usual format."""

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError, unknown_name
from workbench.files import OWN_FILES, atomic_path, text_checksum

_DELIMITERS = {"csv": ",;\t|", "tsv": "\t,;|"}  # the first is the one that the ending promises


@dataclass(frozen=True)
class Table:
    """Columns of text of one length; `lines` holds the line of each row, for errors."""

    columns: dict[str, list[str]]
    where: str
    checksum: str  # sha256 of the content
    lines: Sequence[int] = ()

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
        return f"{self.where}, {f'line {self.lines[row]}' if len(self.lines) else f'row {row}'}"


def read_table(path: Path) -> Table:
    """Return the table in a .tsv.gz of a data root: UTF-8, one header line, fields split by one tab, no quotes."""
    content = _read_content(path)
    columns, lines = _parse_fields(content, path, "\t", quoted=False)
    return Table(columns, str(path), text_checksum(content), lines)


def own_file(name: str | Path) -> Path | None:
    """Return the path if `name` is a user's own file and not the name of a set. Raises DataError if it is no file."""
    path = Path(name).expanduser()
    if path.name.endswith(OWN_FILES):
        if not path.is_file():
            raise DataError(f"{path}: {'not a regular file' if path.exists() else f'no such file in {Path.cwd()}'}")
        return path
    if path.suffix in (".json", ".xlsx", ".xls") or isinstance(name, Path) or "/" in name:
        raise DataError(f"{name}: expected .txt, .csv, .tsv, .jsonl (also .gz) or .parquet; convert the file")
    return None


@lru_cache(maxsize=4)
def read_own(path: Path, _checksum: str) -> Table:
    """Return the table in a user's own file; a .txt holds one sentence per line. Raises DataError with the line."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        import pyarrow  # noqa: F401 - without it pandas names a second library too

        try:
            return table_of(pd.read_parquet(path), str(path))
        except (OSError, ValueError) as problem:
            raise DataError(f"{path} cannot be read as Parquet: {problem}") from None
    content = _read_content(path)
    text = _decode(content, path)
    if kind == "jsonl":
        return _parse_json(text, path)
    if kind == "txt":
        return _parse_sentences(text, path)
    delimiter = max(_DELIMITERS[kind], key=text.partition("\n")[0].count)
    columns, lines = _parse_fields(content, path, delimiter, quoted=delimiter != "\t" or _uses_quotes(text))
    columns = {name: list(map(one_line, values)) for name, values in columns.items()}
    return Table(columns, str(path), text_checksum(table_content(columns)), lines)


def _read_content(path: Path) -> bytes:
    """Return the content of a file, with lines ended by LF."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError(f"{path} cannot be read ({problem}); restore it") from None
    if not content or content.isspace():
        raise DataError(f"{path}: the file is empty")
    content = content.removeprefix(codecs.BOM_UTF8)
    return content.replace(b"\r\n", b"\n") if b"\r" in content else content


def _decode(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as problem:
        line, byte = content.count(b"\n", 0, problem.start) + 1, content[problem.start]
        raise DataError(f"{path}, line {line}: byte 0x{byte:02x} is not UTF-8 text; save the file as UTF-8") from None


def _parse_fields(content: bytes, path: Path, delimiter: str, *, quoted: bool) -> tuple[dict[str, list[str]], Any]:
    """Return the columns of delimited text, and the line of each row; blank lines are rows of a single column only."""
    options: dict[str, Any] = {"quoting": csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, "skipinitialspace": quoted}
    options |= {"header": None, "dtype": object, "na_filter": False, "skip_blank_lines": False, "lineterminator": "\n"}
    frame: Any
    try:
        if quoted or delimiter.encode() in content:
            frame = pd.read_csv(io.BytesIO(content), sep=delimiter, **options)
        else:  # perhaps millions of sentences; pandas would take four times as long
            frame = {0: list(map(bytes.decode, content.split(b"\n")[: -1 if content.endswith(b"\n") else None]))}
    except ValueError as problem:
        _decode(content, path)  # raises an error with the line if a byte is not UTF-8
        raise DataError(f"{path}: {str(problem).strip()}; put a field that has {delimiter!r} in quotes") from None
    names, lines = [frame[place][0].strip() for place in frame], np.arange(1, len(frame[0]) + 1)
    if len(set(names)) != len(names):
        raise DataError(f"{path}, line 1: a column name is repeated ({', '.join(names)})")
    if quoted:  # a field may have several lines
        breaks = np.sum([frame[place].str.count("\n") for place in frame], axis=0)
        lines += np.cumsum(breaks) - breaks
    if len(names) > 1 and (frame[0] == "").any():
        filled = (frame != "").any(axis=1)
        frame, lines = frame[filled], lines[filled]
    if len(lines) == 1:
        raise DataError(f"{path}: the file has a header ({', '.join(names)}) but no rows")
    return {name: list(frame[place])[1:] for place, name in enumerate(names)}, lines[1:]


def _uses_quotes(text: str) -> bool:
    """Return whether a tab-separated file quotes its fields as spreadsheets do; otherwise a quote is text."""
    fields = re.findall(r'"(?<![^\t\n]")[^\t\n]*', text)  # those that begin with a quote
    doubled = '"' in text.partition("\n")[0] or any('""' in field[1:-1] for field in fields)
    return doubled and all(re.fullmatch(r'"(?:[^"]|"")*"', field) for field in fields)


def _parse_sentences(text: str, path: Path) -> Table:
    """Return one sentence per line. Raises DataError for a header or a table, which would be trained on."""
    lines = text.removesuffix("\n").split("\n")
    is_table = len(lines) > 1 and "\t" in lines[0] and len({line.count("\t") for line in lines}) == 1
    if is_table or lines[0].strip().lower() in ("sentence", "sentences", "text"):
        raise DataError(f"{path}: line 1, {lines[0]!r}, reads as a header or a table; rename the file to .tsv")
    sentences = [line.replace("\t", " ") for line in lines]
    return Table({"sentence": sentences}, str(path), text_checksum(text), range(1, len(lines) + 1))


def _parse_json(text: str, path: Path) -> Table:
    rows: dict[int, Any] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows[number] = json.loads(line)
                if not isinstance(rows[number], dict):
                    raise ValueError(f"it is {line[:40]!r}")  # noqa: TRY004, TRY301
                json.dumps(rows[number], ensure_ascii=False).encode()  # fails for half a surrogate pair
            except (ValueError, RecursionError) as problem:
                raise DataError(f"{path}, line {number}: not a JSON object ({problem}); write one per line") from None
    # As objects: otherwise the label 1 becomes 1.0 if another line has none.
    return table_of(pd.DataFrame([*rows.values()], dtype=object), str(path), [*rows])


def table_of(frame: Any, where: str, lines: Sequence[int] = ()) -> Table:
    """Return a DataFrame, a datasets.Dataset or a mapping of columns as columns of text; a missing cell is ""."""
    table: Any = pd.DataFrame(frame) if isinstance(frame, (Mapping, pd.DataFrame)) else frame.to_pandas()
    if not table.size:
        raise DataError(f"{where}: no rows, or no column")
    table = table.astype(object).where(table.notna(), "")
    texts = {str(name): [one_line(str(cell)) for cell in table[name]] for name in table}
    checksum = text_checksum(*("\n".join([name, *values, ""]) for name, values in texts.items()))
    return Table(texts, where, checksum, lines)


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
