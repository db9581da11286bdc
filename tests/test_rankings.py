"""The ranking table by hand, with ties, repeated targets and several suites."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from workbench import metrics
from workbench.data import Pairs, load_pairs
from workbench.evaluation import RANKING_COLUMNS, per_query_metrics, ranking_table

# p is a query of four targets, one of them twice and one on the other side; q of five; nothing else
# is.
PAIRS = Pairs(
    name="few",
    sentence1=["p", "p", "p", "d", "q", "q", "q", "q", "q"],
    sentence2=["a", "b", "a", "p", "e", "f", "g", "h", "i"],
    gold=np.array([3.0, 1.0, 2.0, 0.0, 5.0, 4.0, 3.0, 2.0, 1.0]),
    subset=None,
    pair_id=[f"pair-{n}" for n in range(9)],
    score_range=(0.0, 5.0),
    source="made",
    checksum="",
)
RIGHT = [0.9, 0.5, 0.7, 0.1, 0.9, 0.8, 0.7, 0.6, 0.5]
TIED = [0.9, 0.5, 0.5, 0.1, 0.5, 0.6, 0.7, 0.8, 0.9]


def table(scores: list[float], suite: str = "few") -> pd.DataFrame:
    return ranking_table(PAIRS, scores, suite)


def test_each_target_has_its_rank_and_ties_share_their_average() -> None:
    result = table(TIED)
    assert tuple(result.columns) == RANKING_COLUMNS
    first = result[result["query_id"] == "q0"]
    assert first[["query", "target", "target_id", "gold", "score", "rank"]].to_numpy().tolist() == [
        ["p", "a", "pair-0", 3.0, 0.9, 1.0],
        ["p", "b", "pair-1", 1.0, 0.5, 2.5],
        ["p", "a", "pair-2", 2.0, 0.5, 2.5],
        ["p", "d", "pair-3", 0.0, 0.1, 4.0],
    ]
    assert result.loc[result["query_id"] == "q1", "rank"].tolist() == [5, 4, 3, 2, 1]
    for wrong, text in (
        (RIGHT[:3], "there must be 9"),
        ([float("nan"), *RIGHT[1:]], "none of them nan"),
    ):
        with pytest.raises(ValueError, match=text):
            table(wrong)


def test_per_query_metrics_are_the_metrics_of_each_query() -> None:
    result = per_query_metrics(pd.concat([table(TIED), table(RIGHT, "other")])).set_index(
        ["suite", "query"]
    )
    assert result.loc[("few", "p"), "kcc"] == metrics.kendall([3, 1, 2, 0], [0.9, 0.5, 0.5, 0.1])
    assert result.loc[("few", "p"), "ndcg"] == metrics.ndcg([3, 1, 2, 0], [0.9, 0.5, 0.5, 0.1])
    assert result["kcc"].iloc[1:].to_numpy() == pytest.approx([-1, 1, 1], abs=1e-15)
    assert result["n"].tolist() == [4, 5, 4, 5]
    assert per_query_metrics(table([1.0] * 9))["kcc"].isna().all()
    assert len(per_query_metrics(table(RIGHT)[:0])) == 0


def test_gold_ranked_by_itself_is_perfect(real_data: Path) -> None:
    for name, queries, undefined in (("world-test", 250, 0), ("stsb-test", 19, 1)):
        pairs = load_pairs(name)
        result = per_query_metrics(ranking_table(pairs, pairs.gold, name))
        assert (len(result), result["kcc"].isna().sum()) == (queries, undefined), (
            "one query's labels are all equal"
        )
        assert result["kcc"].dropna().to_numpy() == pytest.approx(1, abs=1e-12)
