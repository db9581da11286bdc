"""The ladders: the committed table is the built one, every ladder is sound, and the two gradings are kept apart."""

import gzip
import importlib
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "data" / "build"
sys.path.insert(0, str(BUILD))
ladders = importlib.import_module("ladders")
measures = importlib.import_module("ladders_measure")
sys.path.remove(str(BUILD))

COMMITTED = ROOT / "data" / "ladders" / "ladders.all.tsv.gz"
QUERY = "The dog chased the boy through the park."
GOOD = [
    "5 paraphrase Through the park ran the boy, with the dog after him.",
    "3 place The dog chased the boy along the beach.",
    "2 role_swap The boy chased the dog through the park.",
    "2 negation The dog did not chase the boy.",
    "1 same_topic Dogs must be kept on a lead here.",
    "0 unrelated She signed the contract on the train.",
]


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    with gzip.open(COMMITTED, "rt", encoding="utf-8", newline="\n") as lines:
        header, *rest = [line.rstrip("\n").split("\t") for line in lines]
    assert header == ["query_id", "score", "score_second", "relation", "sentence1", "sentence2"]
    assert {len(row) for row in rest} == {6}
    return rest


@pytest.fixture(scope="module")
def by_query(rows: list[list[str]]) -> dict[str, list[list[str]]]:
    groups: dict[str, list[list[str]]] = defaultdict(list)
    for row in rows:
        groups[row[0]].append(row)
    return groups


def block(targets: list[str], query: str = QUERY, query_id: str = "animals-01") -> str:
    return "\n".join([f"{query_id} {query}", *(f"  {target}" for target in targets)]) + "\n"


def checked(text: str, folder: Path) -> None:
    path = folder / "ladders.txt"
    path.write_text(text, encoding="utf-8")
    ladders.check_all(ladders.read_ladders(path))


def test_the_committed_table_is_the_one_that_the_text_files_give() -> None:
    packed = COMMITTED.read_bytes()
    assert gzip.decompress(packed) == ladders.build()
    assert packed[4:8] == bytes(4), "the gzip header holds a time: rebuilding would change the file"


def test_there_are_at_least_120_ladders_of_six_targets_and_one_query(by_query: dict[str, list[list[str]]]) -> None:
    assert len(by_query) >= 120
    assert {len(group) for group in by_query.values()} == {6}
    assert all(len({row[4] for row in group}) == 1 for group in by_query.values())


def test_every_ladder_leads_from_the_same_meaning_to_none(by_query: dict[str, list[list[str]]]) -> None:
    steps = {step / 2 for step in range(11)}
    for group in by_query.values():
        scores = {float(row[1]) for row in group}
        assert scores <= steps
        assert len(scores) >= 4
        assert max(scores) >= 4
        assert min(scores) <= 0.5


def test_no_sentence_occurs_twice(rows: list[list[str]]) -> None:
    texts = Counter([row[5].lower() for row in rows] + [query.lower() for query in {row[4] for row in rows}])
    assert [text for text, count in texts.items() if count > 1] == []


def test_word_overlap_hardly_tells_the_grade(rows: list[list[str]]) -> None:
    overlap = measures.jaccard([row[4] for row in rows], [row[5] for row in rows])
    assert abs(spearmanr([float(row[1]) for row in rows], overlap).statistic) < 0.25
    relation = np.array([row[3] for row in rows])
    assert overlap[relation == "paraphrase"].mean() < overlap[relation == "word_sense"].mean()
    assert overlap[relation == "paraphrase"].mean() < overlap[relation == "role_swap"].mean() / 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (block(GOOD[:5]), "has 5 targets, not 6"),
        (block([*GOOD, "0 unrelated The soup is made with lentils."]), "has 7 targets, not 6"),
        (block([*GOOD[:5], "0.3 unrelated She signed it on the train."]), "line 7"),
        (block([*GOOD[:5], "6 unrelated She signed it on the train."]), "line 7"),
        (block([*GOOD[:5], "? unrelated She signed it on the train."]), "without a grade"),
        (block([*GOOD[:5], "0 random She signed it on the train."]), "'random'"),
        (block([*GOOD[:5], "1 unrelated She signed it on the train."]), "down to <= 0.5"),
        (block([*GOOD[:5], GOOD[1].replace("3 ", "0 ")]), "occurs 2 times"),
        (block([*GOOD[:5], "0 unrelated She signed\tit on the train."]), "printable ASCII"),
        (block([*GOOD[:5], "0 unrelated She signed it at the caf\u00e9."]), "printable ASCII"),
        (block([*GOOD[:5], "0 unrelated She signed it  on the train."]), "double space"),
        (block([*GOOD[:5], "0 unrelated She signed it on the the train."]), "repeats a word"),
        (block([*GOOD[:5], "0 unrelated she signed it on the train."]), "capital"),
        (block([*GOOD[:5], "0 unrelated She signed it on the train"]), "does not end"),
        (block([*GOOD[:5], "0 unrelated She signed it."]), "5 to 20 words"),
        (block(GOOD, query_id="Animals"), "domain-07"),
        (block(GOOD) + block(GOOD), "used twice"),
        ("  " + GOOD[0] + "\n", "line 1"),
        (
            block(GOOD) + block([f"{target[:-1]} today." for target in GOOD], "The cat sat in the sun.", "animals-02"),
            "the same grades and relations as animals-01",
        ),
    ],
)
def test_a_faulty_ladder_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ladders.LadderError, match=message.replace("?", r"\?")):
        checked(text, tmp_path)


def test_a_sound_ladder_is_accepted(tmp_path: Path) -> None:
    checked(block(GOOD), tmp_path)


def test_the_blind_sheet_tells_neither_grade_nor_relation_and_follows_its_seed(tmp_path: Path) -> None:
    source = ladders.read_ladders(ladders.SOURCE)
    sheet, other = ladders.blind_sheet(source, 1), ladders.blind_sheet(source, 2)
    assert sheet == ladders.blind_sheet(source, 1) != other
    targets = [line for line in sheet.split("\n") if line.startswith("  ")]
    assert {line[:4] for line in targets} == {"  ? "}
    assert {line[4:] for line in targets} == {t.sentence for i in ladders.drawn(source) for t in source[i][1]}
    path = tmp_path / "sheet.txt"
    path.write_text(sheet)
    with pytest.raises(ladders.LadderError, match="no grade"):
        ladders.second_scores(source, path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("food-06 My", "food-99 My", "other ladders than those drawn"),
        ("taught me how to cook rice", "taught me how to cook beans", "differ from those"),
    ],
)
def test_a_second_grading_of_other_sentences_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = ladders.SECOND.read_text()
    assert text.count(old) == 1
    path = tmp_path / "second.txt"
    path.write_text(text.replace(old, new))
    source = ladders.read_ladders(ladders.SOURCE)
    with pytest.raises(ladders.LadderError, match=message):
        ladders.second_scores(source, path)


def test_agreement_of_a_hand_worked_example() -> None:
    groups = ["a", "a", "a", "b", "b", "b"]
    first, second = np.array([5.0, 3.0, 0.0, 4.0, 2.0, 0.0]), np.array([5.0, 2.5, 0.0, 2.0, 3.5, 0.0])
    found = measures.agreement(groups, first, second)
    assert (found["queries"], found["pairs"]) == (2, 6)
    assert found["mean Kendall tau-b within a ladder"] == pytest.approx((1 + 1 / 3) / 2)
    assert found["mean absolute difference"] == pytest.approx(4 / 6)
    assert found["share with the same grade"] == pytest.approx(3 / 6)
    assert found["share within 0.5"] == pytest.approx(4 / 6)
    assert found["largest difference"] == 2
    # Quadratic kappa is 1 - (observed squared distance) / (that of independent gradings with the same margins).
    expected = np.mean((first[:, None] - second[None, :]) ** 2)
    kappa = 1 - np.mean((first - second) ** 2) / expected
    assert found["weighted kappa (quadratic)"] == pytest.approx(kappa)
