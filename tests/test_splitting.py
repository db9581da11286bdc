"""Splitting sentences: halves, clauses, spans of clauses, spans from a file."""

import itertools
from pathlib import Path

import pytest

from workbench.errors import DataError
from workbench.methods.splitting import (
    Spans,
    adjacent_spans,
    clauses,
    overlapping_spans,
    read_spans,
    split_words,
    subsample,
    subsuming_spans,
)

SENTENCES = [
    "A man is lifting weights in a garage.",
    "When it rains , the old man reads a book , because he likes it .",
    "The treaty (signed in 1920) ended the war, but the border stayed closed until 1931; "
    "nobody crossed it.",
    "cats and dogs",
    "Yes",
    "  spaces   everywhere , which the parser   must not mind ",
]


def test_parts_in_order_are_the_whole_and_differ_by_one_word_at_most():
    for length, parts in itertools.product(range(4, 14), (2, 3, 4)):
        words = [str(i) for i in range(length)]
        runs = [text.split() for text in split_words(" ".join(words), parts)]
        assert len(runs) == parts
        assert [word for run in runs for word in run] == words
        assert max(map(len, runs)) - min(map(len, runs)) <= 1
    assert split_words("a man is here today") == ("a man", "is here today")


def test_a_single_word_is_its_own_left_and_right_half():
    assert split_words("Yes") == ("Yes", "Yes")
    assert split_words("Yes", 4) == ("Yes",) * 4
    assert split_words("two words", 3) == ("two words", "two", "words")
    assert split_words("") == ("", "")


def test_clauses_end_at_punctuation_and_begin_at_conjunctions():
    assert clauses(SENTENCES[1]) == [
        "When it rains ,",
        "the old man reads a book ,",
        "because he likes it .",
    ]
    assert clauses(SENTENCES[2]) == [
        "The treaty",
        "(signed in 1920)",
        "ended the war,",
        "but the border stayed closed",
        "until 1931;",
        "nobody crossed it.",
    ]
    for sentence in SENTENCES:
        assert " ".join(clauses(sentence)).split() == sentence.split()
    # No clause is shorter than two words.
    for short in (SENTENCES[0], SENTENCES[3], SENTENCES[4], "red, green"):
        assert clauses(short) == [short]
        assert (
            adjacent_spans([short]) == overlapping_spans([short]) == subsuming_spans([short]) == []
        )
    assert clauses(" ") == subsuming_spans([]) == []
    assert clauses("the dog sleeps under the table and the cat eats its food") == [
        "the dog sleeps under the table",
        "and the cat eats its food",
    ]


def test_adjacent_spans_share_no_clause_and_overlapping_spans_are_all_neighbours():
    found = ["a", "b", "c", "d", "e"]
    assert adjacent_spans(found) == [Spans("a b", ("a", "b")), Spans("c d", ("c", "d"))]
    assert [spans.anchor for spans in overlapping_spans(found)] == ["a b", "b c", "c d", "d e"]
    assert all(spans.anchor == " ".join(spans.parts) for spans in overlapping_spans(found))


def test_subsuming_spans_halve_the_clauses():
    found = ["aa", "bb", "cc", "dd", "ee"]
    two = subsuming_spans(found, 2)
    assert [spans.anchor for spans in two] == ["aa bb cc dd ee", "aa bb", "cc dd ee"]
    assert [spans.parts for spans in two] == [("aa bb", "cc dd ee"), ("aa", "bb"), ("cc", "dd ee")]
    # Depth 3 leaves the whole out; quarters of one clause have no halves.
    assert [spans.anchor for spans in subsuming_spans(found, 3)] == ["aa bb", "cc dd ee", "dd ee"]
    assert len(subsuming_spans(list("abcdefgh"), 3)) == 6
    assert [len(subsuming_spans(["x" * 10, "y" * right])) for right in (5, 6)] == [0, 1], (
        "halves of unlike length"
    )
    spans = subsample([SENTENCES[1], SENTENCES[0], SENTENCES[1]], "overlapping")
    assert spans == overlapping_spans(clauses(SENTENCES[1])), "each distinct sentence once"


def write(folder: Path, *lines: str) -> Path:
    path = folder / "spans.tsv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_spans_are_read_with_their_text_or_with_the_number_of_their_sentence(tmp_path: Path):
    texts = write(tmp_path, "anchor\tleft\tright", "big red dog\tbig\tred dog")
    assert read_spans(texts, []) == [Spans("big red dog", ("big", "red dog"))]
    numbers = write(tmp_path, "row\tleft\tright", "0\tA man\tin a garage.", "4\tYes\tYes")
    assert read_spans(numbers, SENTENCES) == [
        Spans(SENTENCES[0], ("A man", "in a garage.")),
        Spans("Yes", ("Yes", "Yes")),
    ]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["left\tright", "a\tb"], "no column 'row'"),
        (["anchor\tleft\tright", "a b\ta\tb\tc", "a b\ta\tb"], "line 2"),
        (["anchor\tleft\tright", "a b\t \tb"], "line 2: left is empty"),
        (["row\tleft\tright", "99\ta\tb"], r"line 2: row is '99'.*0 to 5"),
        (
            ["row\tleft\tright", "0\tA man\tin a boat"],
            "line 2: right 'in a boat' does not occur in sentence 0",
        ),
    ],
)
def test_a_broken_file_of_spans_is_refused_with_its_line(
    tmp_path: Path, lines: list[str], cause: str
):
    with pytest.raises(DataError, match=cause):
        read_spans(write(tmp_path, *lines), SENTENCES)
