"""Files of the user's own, by path."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from workbench.cli import check_data
from workbench.config import SimCSEConfig
from workbench.data import (
    Pairs,
    Sentences,
    _loading,
    check,
    columns_said,
    kinds_of,
    load_own,
    load_pairs,
    load_sentences,
    load_suites,
    load_training,
    overlaps,
    report,
    split,
    unusable,
    write_split,
)
from workbench.data._own import read_own
from workbench.errors import DataError, SettingError


@dataclass
class Given:
    """A file as somebody has it: its bytes, and what is in it, or what the refusal says."""

    name: str
    content: str | bytes
    pairs: list[tuple[str, str, float]] | None = None
    scale: tuple[float, float] = (0.0, 5.0)
    said: str = ""
    refused: str = ""


TWO = [("A man plays a guitar.", "A man plays.", 4.5), ("A dog, asleep", "Nothing moves.", 0.25)]
READ = [
    Given(
        "comma.csv",
        'sentence1,sentence2,score\nA man plays a guitar.,A man plays.,4.5\n"A dog, asleep",Nothing moves.,0.25\n',
        TWO,
    ),
    Given(
        "excel, European.csv",
        "\ufeffText A;Text B;Similarity\r\nA man plays a guitar.;A man plays.;4,5\r\n"
        "A dog, asleep;Nothing moves.;0,25\r\n",
        TWO,
        said="score = Similarity, decimal commas",
    ),
    Given(
        "quotes.csv",
        'premise,hypothesis,rating\n"He said ""no"", twice","two\nlines",1\n\n"x",y,2.5\n',
        [('He said "no", twice', "two lines", 1.0), ("x", "y", 2.5)],
        scale=(1.0, 5.0),
        said="sentence1 = premise, sentence2 = hypothesis, score = rating",
    ),
    Given(
        "plain.tsv",
        'sentence1\tsentence2\tscore\n"Yes," he said.\tNA\t3.5\n"No."\tnull\t0.5\n',
        [('"Yes," he said.', "NA", 3.5), ('"No."', "null", 0.5)],
    ),
    Given(
        "sheet.tsv",
        'sentence1\tsentence2\tscore\n"a ""b"" c"\td\t3.5\ne\t"f"\t0.5\n',
        [('a "b" c', "d", 3.5), ("e", "f", 0.5)],
    ),
    Given(
        "lines.jsonl",
        '{"anchor": "Grüße", "candidate": "a\\tb", "label": true, "tags": ["x"]}\n\n'
        '{"anchor": "c", "candidate": "d", "label": false}\n',
        [("Grüße", "a b", 1.0), ("c", "d", 0.0)],
        scale=(0.0, 1.0),
        said="classes false < true",
    ),
    Given(
        "words.csv",
        "label,hypothesis,premise\nEntailment,b,a\n-,x,y\ncontradiction,d,c\nneutral,f,e\n",
        [("a", "b", 2.0), ("c", "d", 0.0), ("e", "f", 1.0)],
        scale=(0.0, 2.0),
        said="(1 rows without a gold label left out)",
    ),
    Given(
        "stated scale.csv",
        "id|question1|question2|grade (1-4)\n7|a|b|2.5\n8|c|d|3\n",
        [("a", "b", 2.5), ("c", "d", 3.0)],
        scale=(1.0, 4.0),
    ),
    Given(
        "glue.csv",
        "text,text_pair,label\na,b,1\nc,d,0\n",
        [("a", "b", 1.0), ("c", "d", 0.0)],
        scale=(0.0, 1.0),
        said="sentence1 = text, sentence2 = text_pair, score = label",
    ),
    Given(
        "searched.csv",
        "query,sentence,score\na,b,1\nc,d,0\n",
        [("a", "b", 1.0), ("c", "d", 0.0)],
        scale=(0.0, 1.0),
        said="sentence1 = query, sentence2 = sentence",
    ),
    Given(
        "nli.csv",
        "premise,hypothesis,sentence,score\na,b,x,0.5\nc,d,y,3\n",
        [("a", "b", 0.5), ("c", "d", 3.0)],
        said="sentence1 = premise, sentence2 = hypothesis",
    ),
    Given(
        "tickets.csv",
        "id;question;answer;grade\r\n7;a;b;4\r\n8;c;d;1\r\n",
        [("a", "b", 4.0), ("c", "d", 1.0)],
        scale=(1.0, 4.0),
        said="sentence1 = question, sentence2 = answer, score = grade",
    ),
    Given(
        "whole numbers.tsv",
        "sentence1\tsentence2\tlabel\na\tb\t0\nc\td\t1\n",
        [("a", "b", 0.0), ("c", "d", 1.0)],
        scale=(0.0, 1.0),
        said="scale 0 to 1 is a guess",
    ),
]
REFUSED = [
    Given("no header.csv", "A man plays.,A man rests.,2\nb,c,3\n", refused="no kind of data; they are 'A man plays.'"),
    Given(
        "half known.csv",
        "Query,Product text,Relevance\na,b,1\n",
        refused="they would be sentence1 = Query, score = Relevance; say the rest: --columns sentence2=NAME",
    ),
    Given(
        "header twice.csv",
        "sentence1,sentence2,score\na,b,1\nsentence1,sentence2,score\n",
        refused="line 3: the header",
    ),
    Given(
        "unquoted comma.csv",
        "sentence1,sentence2,score\na,b,1\nc, d,e,2\n",
        refused="line 3: 4 fields, but the header has 3",
    ),
    Given("decimal comma.csv", "sentence1,sentence2,score\na,b,4,5\n", refused="line 2: 4 fields"),
    Given(
        "thousands.csv", "sentence1;sentence2;score\na;b;1,250\nc;d;2,000\n", refused="line 2: score is '1,250'; is it"
    ),
    Given("missing cell.csv", "sentence1,sentence2,score\na,b,1\nc,,2\n", refused="line 3: sentence2 is empty"),
    Given(
        "missing score.jsonl",
        '{"text1": "a", "text2": "b", "score": 1}\n{"text1": "a", "text2": "b"}\n',
        refused="line 2: score is ''",
    ),
    Given("words for numbers.csv", "sentence1,sentence2,score\na,b,close\n", refused="line 2: score is 'close'"),
    Given("swapped.csv", "sentence1,score,sentence2\na,b,1\nc,d,2\n", refused="sentence2 holds numbers in every row"),
    Given("classes.csv", "premise,hypothesis,label\na,b,0\nc,d,2\n", refused="0; write the words"),
    Given("two golds.csv", "sentence1,sentence2,rating,grade\na,b,1,2\n", refused="score could be 'rating' or 'grade'"),
    Given(
        "a table.txt", "a\tb\t1\nc\td\t2\n", refused="its lines are split by tabs, as a table; let the name end in .tsv"
    ),
    Given("open quote.csv", 'sentence1,sentence2,score\n"a,b,1\nc,d,2\n', refused="line 2: its quotes do not match"),
    Given("latin.csv", "sentence1,sentence2,score\na,é,1\n".encode("latin-1"), refused="line 2: byte 0xe9"),
    Given("sheet.csv", b"PK\x03\x04", refused="an office document"),
    Given("utf16.csv", "sentence1,sentence2,score\na,b,1\n".encode("utf-16"), refused="UTF-16"),
    Given("array.jsonl", '[{"text1": "a"}]\n', refused="line 1: not an object"),
    Given("not json.jsonl", "sentence1,sentence2\n", refused="line 1: not JSON"),
    Given("empty.csv", "sentence1,sentence2,score\n", refused="and no row"),
]


def written(given: Given, folder: Path) -> Path:
    path = folder / given.name
    path.write_bytes(given.content if isinstance(given.content, bytes) else given.content.encode())
    return path


@pytest.mark.parametrize("given", READ, ids=lambda given: given.name)
def test_a_file_as_it_lies_is_read_rightly(given: Given, tmp_path: Path) -> None:
    pairs = load_pairs(written(given, tmp_path))
    assert [pairs[row] for row in range(len(pairs))] == given.pairs
    assert pairs.scale == given.scale
    assert given.said in pairs.source


@pytest.mark.parametrize("given", REFUSED, ids=lambda given: given.name)
def test_a_file_that_would_be_read_wrongly_is_refused_in_one_line(given: Given, tmp_path: Path) -> None:
    path = written(given, tmp_path)
    with pytest.raises(DataError) as caught:
        load_own(path)
    assert given.refused in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_scale_that_is_upside_down_is_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sentence1,sentence2,score\na,b,4\n")
    with pytest.raises(DataError, match="--scale 5 1: give the lowest gold first"):
        load_own(tmp_path / "a.csv", scale=(5.0, 1.0))


def test_one_content_in_every_format_is_one_set(tmp_path: Path) -> None:
    frame = pd.DataFrame(TWO, columns=["sentence1", "sentence2", "score"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.tsv.gz", sep="\t", index=False)
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "a.parquet")
    files = [load_pairs(path) for path in sorted(tmp_path.iterdir())]
    lists = Pairs.from_lists(*(frame[name] for name in frame))
    sets = [*files, lists, Pairs.from_frame(frame), Pairs.from_frame(Dataset.from_pandas(frame))]
    assert len(files) == 4
    for pairs in sets:
        assert [pairs[row] for row in range(len(pairs))] == TWO


def test_classes_of_a_dataset_are_read_by_their_words() -> None:
    features = Features(
        premise=Value("string"),
        hypothesis=Value("string"),
        label=ClassLabel(names=["entailment", "neutral", "contradiction"]),
    )
    rows = {"premise": ["a", "c", "e"], "hypothesis": ["b", "d", "f"], "label": [0, 2, -1]}
    pairs = Pairs.from_frame(Dataset.from_dict(rows, features=features))
    assert (pairs.gold.tolist(), pairs.dropped) == ([2.0, 0.0], 1)


def test_what_is_no_table_in_memory_is_refused_with_its_row() -> None:
    with pytest.raises(DataError, match="3 lists; give 1: sentence"):
        Sentences.from_lists(["a"], ["b"], ["c"])
    with pytest.raises(DataError, match="one length"):
        Pairs.from_frame({"sentence1": ["a", "b"], "sentence2": ["c"], "score": [1]})
    with pytest.raises(DataError, match=r"sentence1 2, sentence2 1, score 1"):
        Pairs.from_lists(["a", "b"], ["c"], [1])
    with pytest.raises(DataError, match=r"row 0: sentence1 is empty \(and in 1 more rows\)"):
        Pairs.from_lists(["", "b", " "], ["c", "d", "e"], [1, 2, 3])
    with pytest.raises(
        DataError, match=r"`workbench data split`, whose files every command reads.*; in Python columns="
    ):
        Pairs.from_frame({"Frage": ["a"], "Kandidat": ["b"], "Bewertung": [1]})
    with pytest.raises(DataError, match="row 1: sentence2 is empty"):
        Pairs.from_lists(["a", "b"], ["c", None], [1, 2])
    with pytest.raises(DataError, match=r"several sets \(train, test\)"):
        Pairs.from_frame(DatasetDict(train=Dataset.from_dict({"a": [1]}), test=Dataset.from_dict({"a": [1]})))


def test_every_kind_is_told_by_its_columns_and_a_run_takes_the_kind_that_it_trains_on(tmp_path: Path) -> None:
    files = {
        "triples": "anchor,positive,negative\na,b,c\n",
        "labelled": "text,category\na,x\nb,y\n",
        "sentences": "Sentence\na\nb\n",
    }
    for kind, content in files.items():
        path = tmp_path / f"{kind}.csv"
        path.write_text(content)
        assert kinds_of(path)[0] == kind
        assert load_own(path).kind == kind
    (tmp_path / "whence.csv").write_text("source,sentence,label\na,x,b\nc,y,d\n")
    assert kinds_of(tmp_path / "whence.csv")[0] == "labelled", "nor is a sentence beside where it is from"
    body = tmp_path / "body.csv"
    body.write_text("body,query,label\na,x,b\nc,y,d\n")
    assert kinds_of(body, {"sentence": "body"})[0] == "labelled", "one column is not both of a pair"
    (tmp_path / "more.csv").write_text("text,target,label\na,x,b\nc,y,d\n")
    assert kinds_of(tmp_path / "more.csv")[0] == "labelled", "a text beside a target is no pair"
    assert "not read: category" in load_sentences(tmp_path / "labelled.csv").source  # no column is left out unsaid
    trained = load_training(SimpleNamespace(train=str(tmp_path / "labelled.csv")))
    assert trained == replace(
        Sentences.from_lists(["a", "b"], name="labelled"), source=trained.source, checksum=trained.checksum
    )
    (tmp_path / "swapped.csv").write_text("label,sentence\nA cat sleeps.,pets\nA dog barks.,pets\n")
    with pytest.raises(DataError, match="2 different labels for 1 different sentences; are columns swapped"):
        load_own(tmp_path / "swapped.csv")


def test_columns_that_are_named_overrule_the_guess(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("left,right,how close,score\na,b,1,9\nc,d,3,9\n")
    said = columns_said("sentence1=left,sentence2=right,score=how close")
    pairs = load_pairs(path, columns=said, scale=(0, 4))
    assert [pairs[0], pairs[1]] == [("a", "b", 1.0), ("c", "d", 3.0)]
    assert pairs.extra == {"score": ["9", "9"]}
    with pytest.raises(DataError, match=r"no column 'rigth'; .* did you mean 'right'"):
        load_pairs(path, columns={"sentence1": "left", "sentence2": "rigth"})
    with pytest.raises(DataError, match="pairs have sentence1, sentence2, score"):
        load_pairs(path, columns={"negative": "left"})
    with pytest.raises(SettingError, match="ROLE=COLUMN"):
        columns_said("left")


def test_a_text_that_begins_with_a_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("Sentence\none\ntwo\n")
    with pytest.raises(DataError, match="'Sentence' is a header"):
        load_sentences(path)


def test_a_split_is_by_query_and_its_files_load_with_the_same_scale(tmp_path: Path) -> None:
    rows = [(f"query {query}", f"target {query}.{target}", 0.5 + target) for query in range(20) for target in range(4)]
    pairs = Pairs.from_lists(*zip(*rows, strict=True), name="mine", scale=(0, 10))
    parts = split(pairs, dev=0.2, test=0.1, seed=3)
    assert {part: len(data) for part, data in parts.items()} == {"train": 56, "dev": 16, "test": 8}
    assert sorted(data[row] for data in parts.values() for row in range(len(data))) == sorted(rows)
    assert not overlaps(parts)
    assert split(pairs, dev=0.2, test=0.1, seed=3)["dev"].sentence1 == parts["dev"].sentence1
    assert split(pairs, dev=0.2, test=0.1, seed=4)["dev"].sentence1 != parts["dev"].sentence1
    files = write_split(parts, tmp_path)
    back = load_pairs(files[1])
    assert ([back[row] for row in range(16)], back.scale) == ([parts["dev"][row] for row in range(16)], (0.0, 10.0))
    with pytest.raises(DataError, match="is there already"):
        write_split(parts, tmp_path)
    with pytest.raises(DataError, match="leave none to train on"):
        split(pairs, dev=0.5, test=0.5)


def test_the_report_says_what_would_be_trained_on(tmp_path: Path) -> None:
    long = "word " * 70
    lists = (["a", "a", "a", "b"], ["x", "x", "y", "b"], [1, 1, 0, 0.5])
    text = "\n".join(report(Pairs.from_lists(*lists)))
    assert "4 rows of pairs" in text
    assert "2 queries (first sentences), 1 with targets of different gold" in text
    assert "0 sentences in 4 pairs or more, on either side, which rankings take as queries; 4 in fewer" in text
    more = report(Pairs.from_lists([*lists[0], "z"], [*lists[1], "a"], [*lists[2], 0.1]))
    assert any(line.startswith("1 sentences in 4 pairs or more") and line.endswith("; 4 in fewer") for line in more)
    assert "rows that stand there more than once: 1" in text
    assert "rows that hold one sentence twice: 1" in text
    assert "4 pairs are few: what is chosen or reported by fewer than 30 is mostly chance" in text
    text = "\n".join(report(Sentences.from_lists(["a", "", long])))
    assert "empty sentences: 1" in text
    assert "sentences of more than 64 words (training cuts at max_tokens): 1" in text


def test_a_pair_is_the_same_in_either_direction() -> None:
    one = Pairs.from_lists(["a", "b", "c"], ["b", "a", "d"], [1, 0.5, 0], name="one")
    other = Pairs.from_lists(["d", "e"], ["c", "f"], [0, 1], name="other")
    targets = {"train": one, "dev": Pairs.from_lists(["f"], ["b"], [1])}
    assert overlaps(targets)[0].endswith(
        "share 1 sentences (none of them a query of both: what a split by query leaves)"
    )
    said = report(one)
    assert "rows that stand there more than once: 1" in said
    assert "rows that give a pair another gold than an earlier row: 1" in said
    assert overlaps({"train": one, "test": other}) == ["train and test share 1 rows, 2 sentences"]


def test_one_file_for_training_and_testing_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rows in {"train": "a,b,1\nc,d,2\n", "dev": "a,b,1\nc,d,2\n", "test": "c,e,2\nf,g,1\n"}.items():
        (tmp_path / f"{name}.csv").write_text("sentence1,sentence2,score\n" + rows)
    check_data([str(tmp_path / f"{name}.csv") for name in ("train", "dev", "test")])
    shown = capsys.readouterr().out
    assert f"warning: {tmp_path / 'train.csv'} and {tmp_path / 'dev.csv'} hold the same rows" in shown
    assert f"{tmp_path / 'dev.csv'} and {tmp_path / 'test.csv'} share 1 queries, 1 sentences" in shown


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "txt"])
def test_a_file_is_read_once_whether_checked_or_limited(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"mine.{ending}"
    rows = {"csv": "text,id\na,1\nb,2\nc,3\n", "tsv": "text\tid\na\t1\nb\t2\nc\t3\n", "txt": "a\nb\nc\n"}
    path.write_text(rows.get(ending) or "".join(f'{{"text": "{one}", "id": 1}}\n' for one in "abc"))
    read: list[object] = []
    monkeypatch.setattr(_loading, "read_own", lambda *a, **k: read.append(k) or read_own(*a, **k))
    check_data([str(path)])
    assert "3 rows of sentences" in capsys.readouterr().out
    assert load_sentences(path, limit=3) == load_sentences(path)
    assert len(read) == 3
    drawn = load_sentences(path, limit=2)  # how many there are to draw from is known at the end
    assert len(read) == 5
    assert set(drawn.sentences) < {"a", "b", "c"}
    assert len(drawn) == 2


def test_files_of_the_users_own_load_by_path(tmp_path: Path) -> None:
    text = tmp_path / "my sentences.txt"
    text.write_bytes(b"one\r\ntwo\twords\n\nthree")
    assert load_sentences(text).sentences == ["one", "two words", " ", "three"]
    pairs = tmp_path / "mine.tsv"
    pairs.write_text("sentence1\tsentence2\tlabel\na\tb\t0\nc\td\t1\n", encoding="utf-8")
    assert load_pairs(str(pairs)).name == "mine"
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
        ("absent.tsv", f"absent.tsv: no such file in {re.escape(str(Path.cwd()))};"),
        ("data/mine.xlsx", "save the sheet as CSV in UTF-8"),
        ("mine.json", "one object a line, as .jsonl"),
        ("mine.parquet", "no such file"),
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


def test_an_encoder_that_knows_the_bundled_world_alone_is_warned_of_where_it_reads_a_file_of_ones_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mine.txt").write_text("The kettle is on.\nNobody came.\n", encoding="utf-8")
    for encoder, warned in (("world-encoder", True), ("world-teacher", True), ("english-encoder", False)):
        caplog.clear()
        config = SimCSEConfig.from_parameters(
            "demo", 0, {"train": str(tmp_path / "mine.txt"), "encoder": encoder, "train_limit": None}
        )
        load_training(config)
        assert ("name another encoder" in caplog.text) is warned
