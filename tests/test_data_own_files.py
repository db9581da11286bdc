"""Files of the user's own, by path."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from workbench.data import check, load_pairs, load_sentences, load_suites, load_training, unusable
from workbench.errors import DataError


def test_files_of_the_users_own_load_by_path(tmp_path: Path) -> None:
    text = tmp_path / "my sentences.txt"
    text.write_bytes(b"one\r\ntwo\twords\n\nthree")
    assert load_sentences(text).sentences == ["one", "two words", " ", "three"]
    pairs = tmp_path / "mine.tsv"
    pairs.write_text("sentence1\tsentence2\tlabel\na\tb\t0\nc\td\t1\n", encoding="utf-8")
    loaded = load_pairs(str(pairs))
    assert (loaded.name, loaded.scale) == ("mine", (0.0, 1.0))
    assert "the range of its own gold" in loaded.source
    assert load_pairs(pairs, scale=(0.0, 4.0)).scale == (0.0, 4.0)
    with pytest.raises(DataError, match=r"line 3: label is '1', not a number from 0 to 0.5"):
        load_pairs(pairs, scale=(0.0, 0.5))
    assert type(load_training(SimpleNamespace(train=str(pairs)))).__name__ == "Pairs"
    assert type(load_training(SimpleNamespace(train=str(text)))).__name__ == "Sentences"
    assert list(load_suites(SimpleNamespace(suites=[str(pairs)]))) == ["mine"]


def test_a_byte_order_mark_hides_no_column(tmp_path: Path) -> None:
    path = tmp_path / "marked.tsv"
    path.write_text("sentence1\tsentence2\tscore\na\tb\t1\nc\td\t2\n", encoding="utf-8-sig")
    assert check([str(path)]).loc[0, ["kind", "rows"]].tolist() == ["pairs", 2]


def test_files_of_the_users_own_are_checked_like_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.txt").write_text("one\ntwo\nthree\n")
    Path("t.tsv").write_text("sent0\tsent1\thard_neg\na\tb\tc\n")
    Path("bad.tsv").write_text("sentence1\tsentence2\tscore\na\tb\tmuch\n")
    table = check(["s.txt", "t.tsv", "bad.tsv", "world-dev"]).set_index("name")
    assert table["kind"].tolist() == ["sentences", "triples", "pairs", "pairs"]
    assert table["found"].tolist() == ["own file"] * 3 + ["bundled"]
    assert table.loc[["s.txt", "t.tsv"], "rows"].tolist() == [3, 1]
    assert list(unusable(table.reset_index())) == ["bad.tsv"]
    assert "bad.tsv, line 2: score is 'much'" in table.loc["bad.tsv", "problem"]


def test_a_name_that_is_not_there_is_a_row_of_the_check_beside_the_others() -> None:
    table = check(["world-dev", "world-devv", "absent.tsv"]).set_index("name")
    assert table["found"].tolist() == ["bundled", "missing", "missing"]
    assert "world-dev" in table.loc["world-devv", "problem"]
    assert "no such file" in table.loc["absent.tsv", "problem"]
    assert list(unusable(table.reset_index())) == ["world-devv", "absent.tsv"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent.tsv", "absent.tsv: no such file"),
        ("data/mine.csv", "a file of your own is a .tsv"),
        ("mine.parquet", "convert it"),
    ],
)
def test_a_file_of_another_kind_or_none_is_refused(name: str, text: str) -> None:
    with pytest.raises(DataError, match=text):
        load_pairs(name)


def test_a_byte_that_is_not_utf8_in_a_users_text_names_the_line_of_that_file(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"one\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"latin.txt, line 2: byte 0xe9 at position 4"):
        load_sentences(path)
