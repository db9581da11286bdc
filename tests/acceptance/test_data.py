"""A user's own files work wherever a name does; a fault is reported with its column or its line."""

import gzip
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench import DataError, Run, load_pairs, load_sentences
from workbench.config import CONFIGS
from workbench.data import dataset_names
from workbench.execution import check_settings

ROWS = [
    ("A man plays a guitar.", "A man plays.", 4.5),
    ('She said "no", twice', "Nothing, ever", 0.25),
]
FRAME = pd.DataFrame(ROWS, columns=["sentence1", "sentence2", "score"])
FORMATS: dict[str, Callable[[Path], None]] = {
    "mine.csv": lambda file: FRAME.to_csv(file, index=False),
    "mine.csv.gz": lambda file: FRAME.to_csv(file, index=False),
    "mine.tsv": lambda file: FRAME.to_csv(file, index=False, sep="\t"),
    "mine.jsonl": lambda file: FRAME.to_json(file, orient="records", lines=True),
    "mine.parquet": FRAME.to_parquet,
}


def contents(pairs: Any) -> list[tuple[str, str, float]]:
    return list(zip(pairs.sentence1, pairs.sentence2, pairs.gold.tolist(), strict=True))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_pairs(name: str, tmp_path: Path):
    FORMATS[name](tmp_path / name)
    assert contents(load_pairs(str(tmp_path / name))) == ROWS


def test_a_text_file_holds_one_sentence_a_line(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("first, one\nthe second\n")
    assert load_sentences(str(tmp_path / "mine.txt")).sentences == ["first, one", "the second"]
    (tmp_path / "mine.txt.gz").write_bytes(gzip.compress(b"first\nsecond\n"))
    assert load_sentences(str(tmp_path / "mine.txt.gz")).sentences == ["first", "second"]


@pytest.mark.parametrize(
    "names", ["text_a,text_b,similarity", "premise,hypothesis,label", "Sentence 1,Sentence 2,Score"]
)
def test_columns_are_known_by_their_usual_names_in_any_order(names: str, tmp_path: Path):
    table = FRAME.set_axis(names.split(","), axis=1)
    table[table.columns[::-1]].to_csv(tmp_path / "mine.csv", index=False)
    assert contents(load_pairs(str(tmp_path / "mine.csv"))) == ROWS


def test_columns_and_the_range_of_scores_can_be_named(tmp_path: Path):
    FRAME.set_axis(["left", "right", "how close"], axis=1).to_csv(
        tmp_path / "mine.csv", index=False
    )
    columns = {"sentence1": "left", "sentence2": "right", "score": "how close"}
    assert contents(load_pairs(str(tmp_path / "mine.csv"), columns=columns, scale=(0, 5))) == ROWS


HEADER = "sentence1,sentence2,score\n"
FAULTS = {
    "a column is missing": (
        "mine.csv",
        "sentence1,sentence2\na,b\n",
        ["score", "sentence1", "sentence2"],
    ),
    "columns of other names": (
        "mine.csv",
        "left,right,points,stars\na,b,1,4\n",
        ["left", "right", "--columns"],
    ),
    "a score that is no number": (
        "mine.csv",
        HEADER + "a,b,1\nc,d,high\n",
        ["line 3", "score", "high"],
    ),
    "a score that is missing": (
        "mine.tsv",
        "sentence1\tsentence2\tscore\na\tb\t\nc\td\t1\n",
        ["line 2", "score"],
    ),
    "a row with too many fields": ("mine.csv", HEADER + "a,b,1\na,b,c,1\n", ["line 3"]),
    "JSON that is broken": (
        "mine.jsonl",
        '{"sentence1": "a"}\n{"sentence1": \n',
        ["line 2", "JSON"],
    ),
    "an empty file": ("mine.csv", "", ["mine.csv", "empty"]),
    "a header alone": ("mine.csv", HEADER, ["mine.csv", "row"]),
    "no file": ("gone.csv", None, ["gone.csv"]),
    "a format of another kind": ("mine.xlsx", "", ["xlsx", "csv"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_file_is_reported_with_what_and_where_it_is(fault: str, tmp_path: Path):
    name, content, said = FAULTS[fault]
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as refused:
        load_pairs(str(tmp_path / name))
    assert [word for word in said if word.lower() not in str(refused.value).lower()] == []


def test_a_misspelt_column_or_set_is_answered_with_the_right_one(tmp_path: Path):
    FRAME.to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(DataError, match="'score'"):
        load_pairs(str(tmp_path / "mine.csv"), columns={"score": "scoer"})
    with pytest.raises(DataError, match="world-test"):
        load_pairs("world-tset")


def test_the_bundled_sets_have_their_names_and_sizes():
    sizes = {"world-train": 4200, "world-dev": 1750, "world-test": 1750, "ladders-all": 936}
    assert {name: len(load_pairs(name).gold) for name in sizes} == sizes


def test_the_real_sets_have_their_sizes_and_subsets(real_data: Path):
    sizes = {"stsb-test": 1379, "sick-test": 4927, "sts16-test": 1186}
    found = {name: load_pairs(name) for name in sizes}
    assert {name: len(pairs.gold) for name, pairs in found.items()} == sizes
    assert len(set(found["sts16-test"].subset)) == 5


def test_a_file_of_triples_can_be_trained_on(
    train: Callable[..., Run], tiny_sentences: list[str], tmp_path: Path
):
    rows = zip(tiny_sentences[:18], tiny_sentences[18:36], tiny_sentences[36:54], strict=True)
    pd.DataFrame(rows, columns=["anchor", "positive", "negative"]).to_csv(
        tmp_path / "triplets.csv", index=False
    )
    assert train(
        "cosent", tmp_path, objective="triplet", train=str(tmp_path / "triplets.csv")
    ).finished


def test_data_check_says_how_a_file_is_read_and_what_is_wrong(
    workbench: Callable[..., Any], tmp_path: Path
):
    FRAME.set_axis(["left", "right", "grade"], axis=1).to_csv(tmp_path / "mine.csv", index=False)
    (tmp_path / "bad.csv").write_text(HEADER + "a,b,high\n")
    good = workbench(
        "data", "check", "mine.csv", "--columns", "sentence1=left,sentence2=right", cwd=tmp_path
    )
    assert good.returncode == 0, good.stderr
    assert "pairs" in good.stdout
    assert "grade" in good.stdout
    bad = workbench("data", "check", "bad.csv", "world-dev", cwd=tmp_path)
    assert bad.returncode == 1
    assert "line 2" in bad.stdout
    assert "world-dev" in bad.stdout
    assert "Traceback" not in bad.stdout + bad.stderr


def test_data_check_states_the_counts_of_lists_and_what_is_not_measured(
    workbench: Callable[..., Any], tmp_path: Path
):
    row = '{"query": "a boat", "pos": ["a ship"], "neg": ["a dog", "a cat"]}\n'
    (tmp_path / "lists.jsonl").write_text(row)
    (tmp_path / "mine.txt").write_text("first, one\nthe second\n")
    lists = workbench("data", "check", "lists.jsonl", cwd=tmp_path).stdout
    assert "2 triplets of the lists in 1 rows" in lists
    assert "not been measured" not in lists
    assert (
        "have not been measured to help"
        in workbench("data", "check", "mine.txt", cwd=tmp_path).stdout
    )


TRAINED_BY = {
    "sentence1,sentence2,score": ["cosent", "lists"],
    "anchor,positive,negative": ["cosent", "simcse"],
    "sentence": ["rankcse", "simcse", "compcse", "rankencoder"],
}
PUBLIC_TEACHER = "sentence-transformers/all-MiniLM-L6-v2"  # of the hub


@pytest.mark.parametrize("header", TRAINED_BY)
@pytest.mark.parametrize("named", ["as usual", "otherwise"])
def test_data_check_prints_commands_that_train_on_the_file(
    header: str,
    named: str,
    workbench: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    roles = header.split(",")
    columns = roles if named == "as usual" else [f"column{place}" for place in range(len(roles))]
    table = pd.DataFrame({name: [f"{name} {row}" for row in range(50)] for name in columns})
    if "score" in roles:
        table[columns[-1]] = range(50)
        table[columns[0]] = [f"a sentence {row // 5}" for row in range(50)]  # with lists
    table.to_csv(tmp_path / "my file.csv", index=False)
    options = (
        []
        if columns is roles
        else ["--columns", ",".join(map("=".join, zip(roles, columns, strict=True)))]
    )
    printed = workbench("data", "check", "my file.csv", *options, cwd=tmp_path).stdout
    commands = [
        shlex.split(line.replace(PUBLIC_TEACHER, "english-encoder"))[1:]
        for line in printed.splitlines()
        if line.startswith("  workbench ")
    ]
    monkeypatch.chdir(tmp_path)
    trained = []
    for command, name, *words in commands:
        if command == "data":
            assert workbench(command, name, *words, cwd=tmp_path).returncode == 0
        else:
            has_profile = words[0] == "--profile"
            profile = words[1] if has_profile else "demo"
            given = words[2:] if has_profile else words
            settings = dict(word.split("=", 1) for word in given)
            check_settings(CONFIGS[name].from_parameters(profile, 0, settings))
            trained.append(name)
    assert trained == TRAINED_BY[header]


def test_data_list_names_every_set(workbench: Callable[..., Any]):
    listed = workbench("data", "list", "--kind", "pairs").stdout
    names = [line.split()[0] for line in listed.splitlines()[1:] if line.strip()]
    assert names == dataset_names("pairs")


def test_data_split_keeps_the_rows_of_a_query_together_and_never_overwrites(
    workbench: Callable[..., Any], files: SimpleNamespace, tmp_path: Path
):
    def split(*more: object) -> Any:
        return workbench("data", "split", files.train, tmp_path, "--dev", 0.2, "--test", 0.2, *more)

    assert split("--seed", 0).returncode == 0
    parts = {file.name: load_pairs(str(file)) for file in sorted(tmp_path.iterdir())}
    assert len(parts) == 3
    queries = [set(part.sentence1) for part in parts.values()]
    assert sum(map(len, queries)) == len(set.union(*queries)) == 6
    assert np.concatenate([part.gold for part in parts.values()]).size == len(
        load_pairs(str(files.train)).gold
    )
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    again = split("--seed", 1)
    assert again.returncode != 0
    assert "Traceback" not in again.stderr
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
