"""Evaluation: the field's protocol, nothing made up where a number does not exist."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from workbench.config import SEVEN_STS, SimCSEConfig
from workbench.data import Pairs, load_pairs
from workbench.errors import DataError, RunError
from workbench.evaluation import embed_pairs, evaluate
from workbench.runs import Run

WORDS = ["a b", "a c", "b c", "c d", "d e", "a e"]


def pairs(gold: list[float], subset: list[str] | None = None, name: str = "made") -> Pairs:
    first = (WORDS * 20)[: len(gold)]
    second = [" ".join(reversed(WORDS[(3 * i + 1) % 6])) + f" {i}" for i in range(len(gold))]
    ids = [str(i) for i in range(len(gold))]
    return Pairs(name, first, second, np.asarray(gold, float), subset, ids, (0.0, 5.0), "made here", "0")


def by_letters(sentences: list[str]) -> np.ndarray:
    """A fixed embedding: counts of letters and digits, of any length."""
    return np.array([[sentence.count(letter) for letter in "abcde0123456789"] for sentence in sentences], float)


def cosines(made: Pairs) -> np.ndarray:
    a, b = by_letters(made.sentence1), by_letters(made.sentence2)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_spearman_is_that_of_scipy_over_all_pairs():
    made = pairs(list(np.random.default_rng(0).uniform(0, 5, 40)))
    report = evaluate(by_letters, {"made": made})
    assert report.metrics["made"]["spearman"] == pytest.approx(spearmanr(made.gold, cosines(made)).statistic, abs=1e-12)
    np.testing.assert_allclose(report.scores["predicted"], cosines(made), atol=1e-12)


def test_aggregation_is_named_and_all_is_the_default():
    generator = np.random.default_rng(1)
    made = pairs(list(generator.uniform(0, 5, 60)), ["x"] * 40 + ["y"] * 20)
    each = {name: spearmanr(made.gold[rows], cosines(made)[rows]).statistic for name, rows in
            (("x", slice(0, 40)), ("y", slice(40, 60)))}  # fmt: skip
    found = {how: evaluate(by_letters, {"made": made}, how=how).metrics["made"] for how in ("all", "mean", "wmean")}
    assert evaluate(by_letters, {"made": made}).metrics["made"] == found["all"]
    assert found["all"]["spearman"] == pytest.approx(spearmanr(made.gold, cosines(made)).statistic)
    assert found["mean"]["spearman"] == pytest.approx((each["x"] + each["y"]) / 2)
    assert found["wmean"]["spearman"] == pytest.approx((40 * each["x"] + 20 * each["y"]) / 60)
    assert found["all"]["subsets"]["x"] == {"spearman": pytest.approx(each["x"]), "n": 40}


def test_the_average_of_the_seven_exists_only_with_all_seven():
    generator = np.random.default_rng(2)
    suites = {name: pairs(list(generator.uniform(0, 5, 20)), name=name) for name in SEVEN_STS}
    metrics = evaluate(by_letters, suites).metrics
    assert metrics["sts-average"]["spearman"] == pytest.approx(np.mean([metrics[n]["spearman"] for n in SEVEN_STS]))
    suites.pop("sick-test")
    assert "sts-average" not in evaluate(by_letters, suites).metrics


def test_gold_that_is_all_equal_has_no_correlation():
    report = evaluate(by_letters, {"made": pairs([3.0] * 10)})
    assert np.isnan(report.metrics["made"]["spearman"])
    assert np.isnan(report.table().loc[0, "Spearman"]) if "Spearman" in report.table() else True


def test_each_distinct_sentence_is_embedded_once():
    seen: list[str] = []

    def watching(sentences: list[str]) -> np.ndarray:
        seen.extend(sentences)
        return by_letters(sentences)

    evaluate(watching, {"made": pairs([1.0, 2.0, 3.0] * 10)})
    assert len(seen) == len(set(seen))


def test_vectors_of_any_length_are_compared_by_cosine():
    made = pairs([1.0, 2.0, 3.0, 4.0] * 5)
    longer = evaluate(lambda s: by_letters(s) * np.arange(1, len(s) + 1)[:, None], {"made": made})
    np.testing.assert_allclose(longer.scores["predicted"], cosines(made), atol=1e-12)


@pytest.mark.parametrize(
    ("encode", "words"),
    [
        (lambda s: np.full((len(s), 3), np.nan), "nan or infinity"),
        (lambda s: np.ones((2, 3)), "one row each"),
        (lambda s: np.ones(len(s)), "one row each"),
    ],
)
def test_a_broken_encoder_is_refused(encode, words: str):
    with pytest.raises(ValueError, match=words):
        evaluate(encode, {"made": pairs([1.0, 2.0, 3.0])})


def test_encode_or_score_but_not_both_or_none():
    made = pairs([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="either encode"):
        evaluate(None, {"made": made})
    with pytest.raises(ValueError, match="either encode"):
        evaluate(by_letters, {"made": made}, score=lambda a, b: np.zeros(len(a)))
    report = evaluate(None, {"made": made}, score=lambda a, b: np.arange(len(a)))
    assert report.metrics["made"]["spearman"] == pytest.approx(1.0)


def test_a_run_holds_what_was_found_and_is_not_evaluated_twice(tmp_path: Path):
    run = Run.create(SimCSEConfig.from_parameters("demo"), tmp_path)
    made = pairs([1.0, 2.0, 3.0, 4.5] * 6)
    report = evaluate(by_letters, {"made": made}, run=run)
    assert run.finished
    assert run.facts()["inputs"]["made"]["sha256"] == "0"

    def never(sentences: list[str]) -> np.ndarray:
        raise AssertionError("a finished run was encoded again")

    again = evaluate(never, {"made": made}, run=run)
    assert again.metrics == report.metrics
    pd.testing.assert_frame_equal(again.scores, report.scores, check_dtype=False)
    pd.testing.assert_frame_equal(again.rankings, report.rankings, check_dtype=False)


def test_a_suite_called_as_the_average_is_a_suite(tmp_path: Path):
    run = Run.create(SimCSEConfig.from_parameters("demo"), tmp_path)
    made = {"sts-average": pairs([1.0, 2.0, 3.0, 4.5] * 6)}
    report = evaluate(by_letters, made, run=run)
    assert evaluate(by_letters, made, run=run).metrics == report.metrics
    suites = dict.fromkeys((*SEVEN_STS, "sts-average"), made["sts-average"])
    with pytest.raises(DataError, match="rename its file"):
        evaluate(by_letters, suites)


def test_an_evaluation_that_a_run_does_not_hold_is_refused(tmp_path: Path):
    run = Run.create(SimCSEConfig.from_parameters("demo"), tmp_path)
    evaluate(by_letters, {"made": pairs([1.0, 2.0, 3.0, 4.5] * 6, ["x", "y"] * 12)}, run=run)
    with pytest.raises(RunError, match="holds an evaluation of made"):
        evaluate(by_letters, {"other": pairs([1.0, 2.0])}, run=run)
    with pytest.raises(RunError, match="by 'all'"):
        evaluate(by_letters, {"made": pairs([1.0, 2.0])}, run=run, how="mean")


def test_queries_of_the_bundled_world_are_ranked():
    made = {"w": load_pairs("world-test")}
    report = evaluate(lambda s: np.array([[len(x), x.count("e"), 1] for x in s], float), made)
    values = report.metrics["w"]
    assert values["queries"] == report.rankings["query_id"].nunique()
    assert values["queries"] >= 100
    assert report.rankings.groupby("query_id").size().min() >= 6
    assert -1 <= values["kcc"] <= 1
    assert 0 <= values["ndcg"] <= 1


def test_pairs_are_embedded_as_unit_rows():
    first, second = embed_pairs(by_letters, pairs([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(np.linalg.norm(np.vstack([first, second]), axis=1), 1.0)
