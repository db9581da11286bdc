"""The ranking table by hand, with ties, repeated targets and several suites; and back from disk as it was."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from workbench import metrics, rankings
from workbench.data import load_pairs


@dataclass(frozen=True)
class FewPairs:
    sentence1: list[str]
    sentence2: list[str]
    gold: np.ndarray
    pair_id: list[str]


# p is a query of four targets, one of them twice and one on the other side; q of five; nothing else is.
PAIRS = FewPairs(
    ["p", "p", "p", "d", "q", "q", "q", "q", "q"],
    ["a", "b", "a", "p", "e", "f", "g", "h", "i"],
    np.array([3.0, 1.0, 2.0, 0.0, 5.0, 4.0, 3.0, 2.0, 1.0]),
    [f"pair-{n}" for n in range(9)],
)
RIGHT = [0.9, 0.5, 0.7, 0.1, 0.9, 0.8, 0.7, 0.6, 0.5]
TIED = [0.9, 0.5, 0.5, 0.1, 0.5, 0.6, 0.7, 0.8, 0.9]


def table(scores: list[float], suite: str = "few") -> pd.DataFrame:
    return rankings.ranking_table(PAIRS, scores, suite)


def test_each_target_has_its_rank_and_ties_share_their_average() -> None:
    result = table(TIED)
    assert tuple(result.columns) == rankings.COLUMNS
    first = result[result["query_id"] == "q0"]
    assert first[["query", "target", "target_id", "gold", "score", "rank"]].to_numpy().tolist() == [
        ["p", "a", "pair-0", 3.0, 0.9, 1.0],
        ["p", "b", "pair-1", 1.0, 0.5, 2.5],
        ["p", "a", "pair-2", 2.0, 0.5, 2.5],
        ["p", "d", "pair-3", 0.0, 0.1, 4.0],
    ]
    assert result.loc[result["query_id"] == "q1", "rank"].tolist() == [5, 4, 3, 2, 1]


def test_only_first_sentences_are_queries_when_asked() -> None:
    result = rankings.ranking_table(PAIRS, RIGHT, "few", either_side=False)
    assert result["query"].unique().tolist() == ["q"]


def test_without_queries_the_table_is_empty_and_everything_reads_it() -> None:
    empty = rankings.ranking_table(PAIRS, RIGHT, "few", more_than=9)
    assert tuple(empty.columns) == rankings.COLUMNS
    for result in (
        rankings.per_query_metrics(empty),
        rankings.disagreements(empty, empty),
    ):
        assert len(result) == 0


def test_per_query_metrics_are_the_metrics_of_each_query() -> None:
    result = rankings.per_query_metrics(table(TIED)).set_index("query")
    assert result.loc["p", "kcc"] == metrics.kendall([3, 1, 2, 0], [0.9, 0.5, 0.5, 0.1])
    assert result.loc["p", "ndcg"] == metrics.ndcg([3, 1, 2, 0], [0.9, 0.5, 0.5, 0.1])
    assert result.loc["q", "kcc"] == pytest.approx(-1, abs=1e-15)
    assert result["n"].tolist() == [4, 5]
    assert rankings.per_query_metrics(table([1.0] * 9))["kcc"].isna().all()


def test_side_by_side_puts_models_beside_gold_target_by_target() -> None:
    wide = rankings.side_by_side({"before": table(TIED), "after": table(RIGHT)}, "q0")
    assert wide.columns.tolist() == [
        *("target", "gold", "gold rank"),
        *("rank: before", "rank: after", "score: before", "score: after"),
    ]
    assert wide.index.tolist() == ["pair-0", "pair-2", "pair-1", "pair-3"]
    assert wide["gold rank"].tolist() == wide["rank: after"].tolist() == [1, 2, 3, 4]
    assert wide["rank: before"].tolist() == [1, 2.5, 2.5, 4]


def test_rows_in_another_order_are_matched_by_target() -> None:
    shuffled = table(TIED).sample(frac=1, random_state=0)
    wide = rankings.side_by_side({"right": table(RIGHT), "shuffled": shuffled}, "q1")
    assert wide["rank: shuffled"].tolist() == [5, 4, 3, 2, 1]
    found = rankings.disagreements(table(RIGHT), shuffled)
    pd.testing.assert_frame_equal(found, rankings.disagreements(table(RIGHT), table(TIED)))


def test_a_query_of_one_suite_is_found_among_several() -> None:
    both = pd.concat([table(RIGHT), table(TIED, "other")])
    wide = rankings.side_by_side({"both": both}, "q1", suite="other")
    assert wide["rank: both"].tolist() == [5, 4, 3, 2, 1]
    assert len(rankings.per_query_metrics(both)) == 4


def test_disagreements_put_the_most_different_query_first_and_the_undefined_last() -> None:
    result = rankings.disagreements(table(RIGHT), table(TIED))
    assert result["query"].tolist() == ["q", "p"]
    assert result.loc[0, "disagreement"] == 2
    assert result.loc[1, "disagreement"] == 1 - metrics.kendall(RIGHT[:4], TIED[:4])
    assert result["largest_move"].tolist() == [4, 0.5]
    constant = rankings.disagreements(table(RIGHT), table([1.0] * 4 + RIGHT[4:]))
    assert constant["query"].tolist() == ["q", "p"]
    assert constant["disagreement"].isna().tolist() == [False, True]


def test_a_table_comes_back_from_csv_as_it_was(tmp_path: Path) -> None:
    table(TIED).to_csv(tmp_path / "rankings.csv", index=False)
    text = dict.fromkeys(["suite", "query_id", "target_id", "query", "target"], str)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "rankings.csv", dtype=text), table(TIED), check_dtype=False)


def test_in_the_bundled_world_every_query_is_a_first_sentence_with_at_least_six_targets() -> None:
    pairs = load_pairs("world-test")
    result = rankings.ranking_table(pairs, pairs.gold, pairs.name)
    assert set(result["query"]) == set(pairs.sentence1)
    assert len(result) == len(pairs.gold)
    found = rankings.per_query_metrics(result)
    assert found["n"].min() >= 6
    assert found["kcc"].to_numpy() == pytest.approx(1, abs=1e-12)


def test_stsb_rankings_hold_its_nineteen_queries(real_data: Path) -> None:
    pairs = load_pairs("stsb-test")
    found = rankings.per_query_metrics(rankings.ranking_table(pairs, pairs.gold, pairs.name))
    assert len(found) == 19
    assert found["kcc"].isna().sum() == 1  # one query's labels are all equal
    assert found["kcc"].dropna().to_numpy() == pytest.approx(1, abs=1e-12)


MISTAKES = {
    "there must be 9": lambda: table(RIGHT[:3]),
    "none of them nan": lambda: table([float("nan"), *RIGHT[1:]]),
    "no column score": lambda: rankings.per_query_metrics(table(RIGHT).drop(columns="score")),
    "query 'q7' is in the suites": lambda: rankings.side_by_side({"a": table(RIGHT)}, "q7"),
    "'few', 'other'": lambda: rankings.side_by_side({"a": pd.concat([table(RIGHT), table(RIGHT, "other")])}, "q0"),
    "b ranks other targets": lambda: rankings.side_by_side({"a": table(RIGHT), "b": table(RIGHT)[1:]}, "q0"),
    "share 8 of 9 and 8": lambda: rankings.disagreements(table(RIGHT), table(RIGHT)[1:]),
}


@pytest.mark.parametrize(("text", "call"), MISTAKES.items(), ids=MISTAKES.keys())
def test_a_mistake_is_refused(text: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=text):
        call()
