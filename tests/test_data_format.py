"""The format on disk: what is written is read back, and whatever breaks it is refused with file, line and cure."""

import gzip
import hashlib
from pathlib import Path

import pytest

from workbench.data.format import (
    describe_file,
    parse_table,
    read_content,
    read_manifest,
    table_content,
    write_manifest,
    write_table,
)
from workbench.errors import DataError

COLUMNS = {"score": ["5", "0.5"], "sentence1": ['a "quoted" word', "b\x08\x12"], "sentence2": ["NA", "二つ目"]}


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


def refusal(content: bytes) -> str:
    with pytest.raises(DataError) as caught:
        parse_table(content, "some.tsv.gz")
    return str(caught.value)


def test_a_written_table_is_read_back_with_quotes_control_characters_and_the_word_na(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a set.tsv.gz"
    write_table(path, COLUMNS)
    table = parse_table(read_content(path), str(path))
    assert table.columns == COLUMNS
    assert table.checksum == hashlib.sha256(table_content(COLUMNS)).hexdigest()
    assert not list(path.parent.glob("*.part"))


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write_table(tmp_path / "a.tsv.gz", COLUMNS)
    write_table(tmp_path / "b.tsv.gz", COLUMNS)
    assert (tmp_path / "a.tsv.gz").read_bytes() == (tmp_path / "b.tsv.gz").read_bytes()


def test_a_missing_last_line_end_and_a_byte_order_mark_change_nothing() -> None:
    assert parse_table(b"\xef\xbb\xbfsentence\none\ntwo", "x").columns == {"sentence": ["one", "two"]}


def test_a_single_column_keeps_its_empty_lines() -> None:
    assert parse_table(b"sentence\none\n\ntwo\n", "x").columns == {"sentence": ["one", "", "two"]}


def test_a_wrong_number_of_fields_names_its_line() -> None:
    text = refusal(b"score\tsentence1\n1\ta\n2\tb\tc\n")
    assert "some.tsv.gz, line 3: 3 fields, but the header has 2 (score, sentence1)" in text


def test_a_tab_in_a_single_column_names_its_line() -> None:
    assert "line 2: 2 fields, but the header has 1" in refusal(b"sentence\na\tb\n")


@pytest.mark.parametrize("header", [b"sentence\n", b"score\tsentence1\n"])
def test_a_byte_that_is_not_utf8_names_its_line_and_position(header: bytes) -> None:
    line = b"ab\xff\n" if header == b"sentence\n" else b"1\t\xff\n"
    text = refusal(header + line.replace(b"\xff", b"c") * 2 + line)
    assert "line 4: byte 0xff at position 3 is not UTF-8" in text
    assert "iconv" in text


def test_a_carriage_return_names_its_line() -> None:
    assert "line 2: a carriage return" in refusal(b"sentence\na\r\nb\r\n")


def test_a_header_alone_and_a_repeated_column_are_refused() -> None:
    assert "a header (score, sentence1) and no row" in refusal(b"score\tsentence1\n")
    assert "no line in it" in refusal(b"")
    assert "twice in the header" in refusal(b"score\tscore\n1\t2\n")


def test_a_missing_column_names_those_there_and_the_closest() -> None:
    table = parse_table(b"score\tsentence_1\n1\ta\n", "some.tsv.gz")
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
            read_content(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_content(tmp_path / "absent.tsv.gz")


def test_a_file_too_large_when_decompressed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.data.format.MAX_BYTES", 1000)
    assert len(read_content(packed(tmp_path / "fits.tsv.gz", b"x" * 1000))) == 1000
    with pytest.raises(DataError, match="more than 1000 bytes when decompressed"):
        read_content(packed(tmp_path / "bomb.tsv.gz", b"x" * 1001))


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
