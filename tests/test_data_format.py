"""The format on disk: what is written is read back, and whatever breaks it is refused with file, line and cure."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from workbench.data import load_sentences
from workbench.data._format import (
    MAX_LINE,
    Table,
    describe_file,
    read_manifest,
    read_table,
    table_content,
    write_manifest,
    write_table,
)
from workbench.errors import DataError

COLUMNS = {"score": ["5", "0.5"], "sentence1": ['a "quoted" word', "b\x08\x12"], "sentence2": ["NA", "二つ目"]}


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


def table_of(content: bytes, tmp_path: Path, name: str = "some.tsv") -> Table:
    (tmp_path / name).write_bytes(content)
    return read_table(tmp_path / name)


def refusal(content: bytes, tmp_path: Path, name: str = "some.tsv") -> str:
    with pytest.raises(DataError) as caught:
        table_of(content, tmp_path, name)
    return str(caught.value)


def test_a_written_table_is_read_back_with_quotes_control_characters_and_the_word_na(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a set.tsv.gz"
    write_table(path, COLUMNS)
    table = read_table(path)
    assert table.columns == COLUMNS
    assert table.checksum == hashlib.sha256(table_content(COLUMNS)).hexdigest()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write_table(tmp_path / "a.tsv.gz", COLUMNS)
    write_table(tmp_path / "b.tsv.gz", COLUMNS)
    assert (tmp_path / "a.tsv.gz").read_bytes() == (tmp_path / "b.tsv.gz").read_bytes()


def test_a_missing_last_line_end_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    assert table_of(b"\xef\xbb\xbfsentence\none\ntwo", tmp_path).columns == {"sentence": ["one", "two"]}


def test_a_single_column_keeps_its_empty_lines(tmp_path: Path) -> None:
    assert table_of(b"sentence\none\n\ntwo\n", tmp_path).columns == {"sentence": ["one", "", "two"]}


def test_a_wrong_number_of_fields_names_its_line(tmp_path: Path) -> None:
    text = refusal(b"score\tsentence1\n1\ta\n2\tb\tc\n", tmp_path)
    assert "some.tsv, line 3: 3 fields, but the header has 2 (score, sentence1)" in text


def test_a_tab_in_a_single_column_names_its_line(tmp_path: Path) -> None:
    assert "line 2: 2 fields, but the header has 1" in refusal(b"sentence\na\tb\n", tmp_path)


@pytest.mark.parametrize("header", [b"sentence\n", b"score\tsentence1\n"])
def test_a_byte_that_is_not_utf8_names_its_line_and_position(header: bytes, tmp_path: Path) -> None:
    line = b"ab\xff\n" if header == b"sentence\n" else b"1\t\xff\n"
    text = refusal(header + line.replace(b"\xff", b"c") * 2 + line, tmp_path)
    assert "line 4: byte 0xff at position 3 is not UTF-8" in text
    assert "iconv" in text


def test_a_carriage_return_names_its_line(tmp_path: Path) -> None:
    assert "line 2: a carriage return" in refusal(b"sentence\na\r\nb\r\n", tmp_path)


def test_a_header_alone_and_a_repeated_column_are_refused(tmp_path: Path) -> None:
    assert "a header (score, sentence1) and no row" in refusal(b"score\tsentence1\n", tmp_path)
    assert "the file is empty" in refusal(b"", tmp_path)
    assert "twice in the header" in refusal(b"score\tscore\n1\t2\n", tmp_path)


def test_a_missing_column_names_those_there_and_the_closest(tmp_path: Path) -> None:
    table = table_of(b"score\tsentence_1\n1\ta\n", tmp_path)
    with pytest.raises(DataError, match="no column 'sentence1'; its columns are score, sentence_1; did you mean"):
        table.column("sentence1")


def test_damaged_files_are_told_apart(tmp_path: Path) -> None:
    whole = gzip.compress(b"sentence\n" + b"".join(b"%d some words\n" % i for i in range(5000)))
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    cases = {
        "empty": (b"", "the file is empty"),
        "text": (b"sentence\nplain\n", "not an intact gzip file"),
        "cut": (whole[: len(whole) // 2], "cut short"),
        "flipped": (bytes(damaged), "damaged|not an intact gzip"),
    }
    for name, (content, text) in cases.items():
        path = tmp_path / f"{name}.tsv.gz"
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"{name}.tsv.gz: .*({text})"):
            read_table(path)
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "absent.tsv.gz")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("one\ntwo\n".encode("utf-16"), "not UTF-8 text but UTF-16"),
        ("one\ntwo\n".encode("utf-16-le"), "line 1: a zero byte, so this is UTF-16 or no text"),
        (gzip.compress(b"one\n"), "compressed by gzip; let its name end in .gz"),
        (b"PK\x03\x04 and more", "a zip archive"),
        (b"PAR1\x15", "a parquet file"),
    ],
    ids=["utf-16", "utf-16 without a mark", "gzip", "zip", "parquet"],
)
def test_content_that_is_no_text_is_said_to_be_what_it_is(tmp_path: Path, content: bytes, text: str) -> None:
    refused = refusal(content, tmp_path, "mine.txt")
    assert text in refused
    assert "latin1" not in refused


def test_what_is_no_regular_file_is_said_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "dir.txt").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "zero.txt").symlink_to("/dev/zero")
    for name, text in (("dir.txt", "is a folder"), ("pipe.txt", "is no regular file"), ("zero.txt", "no regular file")):
        with pytest.raises(DataError, match=f"{name}: {text}" if "pipe" in name else text):
            load_sentences(tmp_path / name)


@pytest.mark.parametrize("length", [MAX_LINE + 1, 3 * 2**20])
def test_a_line_that_is_no_sentence_is_named(tmp_path: Path, length: int) -> None:
    assert len(table_of(b"one\n" + b"x" * MAX_LINE + b"\ntwo", tmp_path, "fits.txt")) == 3
    text = refusal(b"one\ntwo\n" + b"\xe4\xb8\x80" * (length // 3 + 1) + b"\nthree\n", tmp_path, "long.txt")
    assert f"long.txt, line 3: longer than {MAX_LINE} bytes" in text


def test_lines_across_blocks_are_whole_and_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.data._format.BLOCK", 64)
    rows = [f"{i}\tsentence number {i} é" for i in range(100)]
    content = "\n".join(["id\tsentence", *rows])
    table = table_of(content.encode(), tmp_path)
    assert table.columns["sentence"] == [row.split("\t")[1] for row in rows]
    assert table.checksum == hashlib.sha256(content.encode()).hexdigest()
    some = read_table(tmp_path / "some.tsv", rows=[0, 7, 99])
    assert (some.columns["id"], some.total, some.checksum) == (["0", "7", "99"], 100, table.checksum)
    assert "line 62: 1 fields" in refusal(content.replace("60\t", "60").encode(), tmp_path)
    assert "line 92: byte 0xe9 at position 23" in refusal(
        content.encode().replace("90 é".encode(), "90 é".encode("latin-1")), tmp_path
    )


def test_a_file_too_large_when_decompressed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.data._format.MAX_BYTES", 1000)
    assert len(read_table(packed(tmp_path / "fits.tsv.gz", b"x\n" * 500))) == 499
    with pytest.raises(DataError, match="more than 1000 bytes when decompressed"):
        read_table(packed(tmp_path / "bomb.tsv.gz", b"x\n" * 501))


def test_a_manifest_lists_what_the_files_hold(tmp_path: Path) -> None:
    write_table(tmp_path / "sts" / "a.tsv.gz", COLUMNS)
    (tmp_path / "model.bin").write_bytes(b"weights")
    write_manifest(tmp_path, [describe_file(tmp_path, file) for file in ("sts/a.tsv.gz", "model.bin")])
    listed = read_manifest(tmp_path)
    assert list(listed) == ["model.bin", "sts/a.tsv.gz"]
    table = listed["sts/a.tsv.gz"]
    assert (table["rows"], table["columns"]) == (2, list(COLUMNS))
    assert table["sha256_uncompressed"] == hashlib.sha256(table_content(COLUMNS)).hexdigest()
    assert listed["model.bin"]["sha256"] == hashlib.sha256(b"weights").hexdigest()


def test_a_broken_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / "MANIFEST.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"MANIFEST.json: not a manifest"):
        read_manifest(tmp_path)
