"""Metrics against their definitions as loops, against SciPy and scikit-learn, and on the real STS-B."""

import itertools
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from scipy.stats import kendalltau, rankdata, spearmanr
from sklearn.metrics import ndcg_score

from workbench import metrics
from workbench.data import load_pairs


def numbers(n: int, seed: int, kinds: int | None = None) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.random(n) if kinds is None else draw.integers(kinds, size=n).astype(float)


SIZES = pytest.mark.parametrize(("n", "kinds"), [(2, None), (9, 3), (60, None), (60, 4), (1000, 6)])


@SIZES
def test_spearman_and_kendall_equal_scipy(n: int, kinds: int | None) -> None:
    gold, predicted = numbers(n, 0, kinds), numbers(n, 1, kinds)
    assert metrics.spearman(gold, predicted) == pytest.approx(spearmanr(gold, predicted).statistic, abs=1e-12)
    assert metrics.kendall(gold, predicted) == pytest.approx(kendalltau(gold, predicted).statistic, abs=1e-12)
    assert np.array_equal(metrics.average_ranks(gold), rankdata(gold))


def test_spearman_by_hand_with_a_tie() -> None:
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5.
    assert metrics.spearman([0, 1, 1, 2], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5), abs=1e-15)


def test_kendall_equals_counting_pairs() -> None:
    gold, predicted = numbers(12, 0, 4), numbers(12, 1, 4)
    signs = [
        (np.sign(gold[i] - gold[j]), np.sign(predicted[i] - predicted[j]))
        for i, j in itertools.combinations(range(12), 2)
    ]
    total = math.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))
    assert metrics.kendall(gold, predicted) == pytest.approx(sum(a * b for a, b in signs) / total, abs=1e-12)


@SIZES
def test_linear_ndcg_equals_scikit_learn_with_ties(n: int, kinds: int | None) -> None:
    gold, predicted = numbers(n, 2, 5), numbers(n, 3, kinds)
    assert metrics.ndcg(gold, predicted) == pytest.approx(ndcg_score([gold], [predicted]), abs=1e-12)
    assert metrics.ndcg(gold, predicted, gain="exponential") == pytest.approx(
        ndcg_score([2**gold - 1], [predicted]), abs=1e-12
    )


def test_ndcg_by_hand() -> None:
    best = 3 / math.log2(2) + 1 / math.log2(3)
    assert metrics.ndcg([3, 1, 0], [0.1, 0.9, 0.5]) == pytest.approx((1 + 3 / math.log2(4)) / best, abs=1e-15)
    tied = 2 / math.log2(2) + 2 / math.log2(3)  # 3 and 1 share places 1 and 2
    assert metrics.ndcg([3, 1, 0], [0.9, 0.9, 0.5]) == pytest.approx(tied / best, abs=1e-15)


def test_a_perfect_order_scores_one_and_a_reversed_one_minus_one() -> None:
    gold = numbers(50, 0)
    assert metrics.spearman(gold, gold**3) == metrics.kendall(gold, gold**3) == metrics.ndcg(gold, gold**3) == 1
    assert metrics.spearman(gold, -gold) == metrics.kendall(gold, -gold) == -1


def test_undefined_is_nan_without_a_warning() -> None:
    some, flat = [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (
            metrics.spearman(some, flat),
            metrics.spearman(flat, some),
            metrics.spearman([], []),
            metrics.kendall(flat, some),
            metrics.kendall([1.0], [1.0]),
            metrics.ndcg([0.0, 0.0], [1.0, 2.0]),
            metrics.ndcg([1.0], [1.0]),
            metrics.alignment(np.zeros((1, 3)), np.ones((1, 3))),
            metrics.alignment(np.empty((0, 3)), np.empty((0, 3))),
            metrics.uniformity(np.ones((1, 3))),
            metrics.spearman_by_subset(some + some, some + flat, list("aaabbb"), how="mean"),
            metrics.seed_spread([0.5]).std,
            metrics.bootstrap_interval(some, flat, samples=3).low,
            metrics.permutation_test(some, some, flat, samples=3).p_value,
        ):
            assert math.isnan(value)


def test_subset_aggregations_by_hand() -> None:
    gold, predicted = [1, 2, 3, 1, 2], [1, 2, 3, 9, 8]
    subset = list("aaabb")
    assert metrics.spearman_by_subset(gold, predicted, subset, how="mean") == pytest.approx(0.0, abs=1e-15)
    assert metrics.spearman_by_subset(gold, predicted, subset, how="wmean") == pytest.approx(0.2, abs=1e-15)
    assert metrics.spearman_by_subset(gold, predicted, subset) == metrics.spearman(gold, predicted)
    assert metrics.spearman_by_subset(gold, predicted, None, how="mean") == metrics.spearman(gold, predicted)


def test_alignment_and_uniformity_equal_loops_whatever_the_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(2, 11, 4))
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b))
    assert metrics.alignment(a, b * 5) == pytest.approx(
        sum(math.dist(x, y) ** 2 for x, y in zip(u, v, strict=True)) / 11
    )
    pairs = [math.exp(-2 * math.dist(u[i], u[j]) ** 2) for i, j in itertools.combinations(range(11), 2)]
    expected = math.log(sum(pairs) / len(pairs))
    for block in (1024, 3):
        monkeypatch.setattr("workbench.metrics.geometry._BLOCK", block)
        assert metrics.uniformity(a * 7) == pytest.approx(expected, abs=1e-12)
    assert metrics.uniformity([[1.0, 0.0], [-2.0, 0.0]]) == pytest.approx(-8, abs=1e-12)
    assert metrics.uniformity([[1.0, 0.0], [3.0, 0.0]]) == pytest.approx(0, abs=1e-12)


def test_groups_take_either_side_once_and_keep_repeated_pairs() -> None:
    first, second = ["q", "t", "q", "q", "q", "x"], ["a", "q", "q", "b", "b", "a"]
    groups = metrics.ranking_groups(first, second, [0, 1, 2, 3, 4, 5])
    assert list(groups) == ["q"]
    group = groups["q"]
    assert list(group) == ["a", "t", "q", "b", "b"]
    assert len(group) == 5
    assert group.pairs.tolist() == [0, 1, 2, 3, 4]
    assert group.gold.tolist() == [0, 1, 2, 3, 4]
    assert len(metrics.ranking_groups(first, second, range(6), either_side=False)["q"]) == 4
    assert list(metrics.ranking_groups(first, second, range(6), more_than=1)) == ["q", "a", "b"]


@pytest.mark.parametrize(("split", "either", "first_only"), [("test", 19, 12), ("dev", 5, 1), ("train", 47, 15)])
def test_stsb_has_the_known_number_of_queries(split: str, either: int, first_only: int, real_data: Path) -> None:
    pairs = load_pairs(f"stsb-{split}")
    sides = pairs.sentence1, pairs.sentence2, pairs.gold
    assert len(metrics.ranking_groups(*sides)) == either
    assert len(metrics.ranking_groups(*sides, either_side=False)) == first_only


def test_stsb_as_a_whole_has_116_queries(real_data: Path) -> None:
    parts = [load_pairs(f"stsb-{split}") for split in ("train", "dev", "test")]
    columns = [list(itertools.chain(*(getattr(p, name) for p in parts))) for name in ("sentence1", "sentence2", "gold")]
    assert len(metrics.ranking_groups(*columns)) == 116


def test_a_bootstrap_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    # Gaussian pairs with Pearson .5 have Spearman (6 / pi) asin(.25). 120 experiments at 90%: 108 +- 3 * 3.3, and
    # percentile intervals of 60 draws of 60 pairs run some points short.
    truth, draw, covered = 6 / math.pi * math.asin(0.25), np.random.default_rng(0), 0
    for seed in range(120):
        x = draw.normal(size=60)
        y = 0.5 * x + math.sqrt(0.75) * draw.normal(size=60)
        interval = metrics.bootstrap_interval(x, y, samples=60, level=0.9, seed=seed)
        covered += interval.low <= truth <= interval.high
    assert 92 <= covered <= 118


@pytest.mark.parametrize("n", [12, 60])
def test_a_bca_interval_is_that_of_scipy_on_whole_draws(n: int) -> None:
    draw = np.random.default_rng(n)
    gold = draw.integers(0, 6, n).astype(float)
    scores = gold + draw.standard_normal(n)
    how = {"paired": True, "vectorized": False, "n_resamples": 200, "rng": np.random.default_rng(3)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a draw of one pair alone
        wanted = scipy.stats.bootstrap((gold, scores), lambda a, b: spearmanr(a, b).statistic, method="BCa", **how)
    found = metrics.bootstrap_interval(gold, scores, samples=200, seed=3, method="bca")
    assert found[1:] == pytest.approx(tuple(wanted.confidence_interval), abs=1e-12)
    percentile = metrics.bootstrap_interval(gold, scores, samples=200, seed=3)
    assert metrics.bootstrap_interval(gold, gold, samples=50, method="bca") == (1.0, 1.0, 1.0), (
        "one value in every draw"
    )
    assert found.low > percentile.low, "a correlation near 1 has a long tail below, which draws exaggerate"


def test_a_draw_counts_pairs_as_if_they_stood_there_as_often() -> None:
    gold, predicted = numbers(40, 0, 5), numbers(40, 1, 7)
    draws = np.random.default_rng(3)
    rows = [draws.integers(40, size=40) for _ in range(50)]
    found = [spearmanr(gold[row], predicted[row]).statistic for row in rows]
    interval = metrics.bootstrap_interval(gold, predicted, samples=50, seed=3)
    assert interval[1:] == pytest.approx(np.quantile(found, [0.025, 0.975]), abs=1e-12)


def test_a_mean_over_sets_draws_and_exchanges_within_each() -> None:
    sets = ["a"] * 30 + ["b"] * 50
    gold, first, second = numbers(80, 0, 5), numbers(80, 1, 7), numbers(80, 2)
    parts = [slice(0, 30), slice(30, 80)]
    means = [np.mean([metrics.spearman(gold[part], x[part]) for part in parts]) for x in (first, second)]
    assert metrics.bootstrap_interval(gold, first, sets=sets, samples=5).value == pytest.approx(means[0], abs=1e-15)
    paired = metrics.bootstrap_interval(gold, first, second, sets=sets, samples=200)
    assert paired.value == pytest.approx(means[0] - means[1], abs=1e-15)
    assert paired.low < paired.value < paired.high
    assert metrics.permutation_test(gold, first, second, sets=sets, samples=5).difference == paired.value
    shifted = first + np.array([0.0] * 30 + [99.0] * 50)  # another level in another set changes no rank within one
    assert metrics.bootstrap_interval(gold, shifted, sets=sets) == metrics.bootstrap_interval(gold, first, sets=sets)
    one = metrics.bootstrap_interval(gold, first, sets=["a"] * 80)
    assert one == metrics.bootstrap_interval(gold, first)


def test_paired_tests_see_a_difference_and_do_not_invent_one() -> None:
    draw = np.random.default_rng(1)
    gold = draw.random(300)
    good, bad, like_good = (gold + s * draw.normal(size=300) for s in (0.1, 0.4, 0.1))
    better = metrics.bootstrap_interval(gold, good, bad, samples=200)
    assert 0 < better.low < better.value == metrics.spearman(gold, good) - metrics.spearman(gold, bad) < better.high
    assert metrics.permutation_test(gold, good, np.exp(9 * bad), samples=200).p_value == pytest.approx(1 / 201)
    same = metrics.bootstrap_interval(gold, good, like_good, samples=200)
    assert same.low < 0 < same.high
    assert metrics.permutation_test(gold, good, like_good, samples=200).p_value > 0.05
    assert metrics.permutation_test(gold, good, good**3, samples=20).p_value == 1  # one order, two scales


def test_the_resampled_accuracy_is_that_of_scipy() -> None:
    """The same statistic by scipy's bootstrap and its test of paired samples; 4 standard errors of 2,000 draws."""
    draw = np.random.default_rng(3)
    gold, ours, theirs = (draw.integers(0, 3, 90) for _ in range(3))
    ours[:60], theirs[:50] = gold[:60], gold[:50]
    right = [(x == gold).astype(float) for x in (ours, theirs)]
    found = metrics.bootstrap_interval(gold, ours, measure="accuracy", samples=2000)
    theirs_found = scipy.stats.bootstrap((right[0],), np.mean, method="percentile", n_resamples=2000, rng=draw)
    assert found.value == right[0].mean()
    ends = theirs_found.confidence_interval
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=0.015)
    test = metrics.permutation_test(gold, ours, theirs, measure="accuracy", samples=2000)
    exact = scipy.stats.permutation_test(
        right, lambda a, b: np.mean(a) - np.mean(b), permutation_type="samples", n_resamples=2000, rng=draw
    )
    assert test.difference == pytest.approx(exact.statistic)
    assert test.p_value == pytest.approx(exact.pvalue, abs=4 * np.sqrt(2 * 0.25 / 2000))
    gain = metrics.bootstrap_interval(gold, ours, theirs, measure="accuracy", samples=200)
    assert gain.value == pytest.approx(test.difference)
    assert gain.low < gain.value < gain.high


def test_p_values_are_uniform_when_nothing_differs() -> None:
    draw, values = np.random.default_rng(2), []
    for seed in range(150):
        gold = draw.random(30)
        first, second = (gold + 0.3 * draw.normal(size=30) for _ in range(2))
        values.append(metrics.permutation_test(gold, first, second, samples=19, seed=seed).p_value)
    # Binomial(150, .1): 15 +- 3 standard deviations of 3.7.
    assert 4 <= sum(value <= 0.1 for value in values) <= 26


def test_resampling_repeats_with_its_seed() -> None:
    gold, first, second = numbers(40, 0), numbers(40, 1), numbers(40, 2)
    for test in (metrics.bootstrap_interval, metrics.permutation_test):
        assert test(gold, first, second, samples=20, seed=5) == test(gold, first, second, samples=20, seed=5)
    intervals = {metrics.bootstrap_interval(gold, first, samples=20, seed=seed) for seed in (5, 5, 6)}
    assert len(intervals) == 2


def test_holm_by_hand_and_never_below_the_value_itself() -> None:
    # Of four: .01 x 4, .02 x 3, then the largest so far, then .5; unknown ones do not count.
    found = metrics.holm([0.02, math.nan, 0.5, 0.01, 0.03])
    assert found == pytest.approx([0.06, math.nan, 0.5, 0.04, 0.06], nan_ok=True)
    assert metrics.holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    assert metrics.holm([]).tolist() == []


def test_a_permutation_test_counts_exchanges_of_ranks_one_after_the_other() -> None:
    sizes, draw = (30, 7), np.random.default_rng(4)
    sides = [draw.integers(0, 9, (3, n)).astype(float) for n in sizes]
    coin, chance = np.random.default_rng(1), np.zeros(200)
    for gold, ours, theirs in ([rankdata(side) for side in of_set] for of_set in sides):
        for number, swap in enumerate(coin.integers(0, 2, (200, len(gold)), dtype=np.int8) == 1):
            mixed = np.where(swap, theirs, ours), np.where(swap, ours, theirs)
            chance[number] += (np.corrcoef(gold, mixed[0])[0, 1] - np.corrcoef(gold, mixed[1])[0, 1]) / 2
    sets = np.repeat(["a", "b"], sizes).tolist()
    found = metrics.permutation_test(*np.hstack(sides), sets=sets, samples=200, seed=1)
    assert found.p_value == (1 + (abs(chance) >= abs(found.difference)).sum()) / 201


def test_seed_spread_by_hand() -> None:
    assert metrics.seed_spread([1.0, 2.0, 3.0]) == (2.0, 1.0, 3)


MISTAKES = {
    "gold and predicted have shapes": lambda: metrics.spearman([1, 2], [1, 2, 3]),
    "predicted contains nan in 1 of 2": lambda: metrics.kendall([1, 2], [1, math.nan]),
    "log": lambda: metrics.ndcg([1, 2], [1, 2], gain="log"),
    "gold contains -1": lambda: metrics.ndcg([-1, 2], [1, 2]),
    "max": lambda: metrics.spearman_by_subset([1], [1], ["a"], how="max"),
    "1 names of sets for 2": lambda: metrics.spearman_by_subset([1, 2], [1, 2], ["a"], how="mean"),
    "a and b have shapes": lambda: metrics.alignment([[1.0]], [[1.0], [2.0]]),
    "nan or infinity": lambda: metrics.uniformity([[math.inf], [1.0]]),
    "shorter": lambda: metrics.ranking_groups(["a", "b"], ["a"], [1.0, 2.0]),
    "1 names of sets for 2 pairs": lambda: metrics.bootstrap_interval([1, 2], [1, 2], sets=["a"]),
}


@pytest.mark.parametrize(("text", "call"), MISTAKES.items(), ids=MISTAKES.keys())
def test_a_mistake_is_refused(text: str, call: Callable[[], object]) -> None:
    with pytest.raises((ValueError, KeyError), match=text):
        call()


def test_the_similar_third_is_above_67_of_a_hundred_of_any_scale() -> None:
    assert metrics.similar_third([0, 3.35, 3.36, 5], (0.0, 5.0)).tolist() == [False, False, True, True]
    assert metrics.similar_third([1, 4.3, 4.4], (1.0, 6.0)).tolist() == [False, False, True]
