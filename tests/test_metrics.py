"""Metrics against SciPy, scikit-learn and explicit resampling, and on the real STS-B."""

import itertools
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from scipy.stats import kendalltau, rankdata, spearmanr

from workbench import metrics
from workbench.data import load_pairs


def numbers(n: int, seed: int, kinds: int | None = None) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.random(n) if kinds is None else draw.integers(kinds, size=n).astype(float)


def test_a_perfect_order_scores_one_and_a_reversed_one_minus_one() -> None:
    gold = numbers(50, 0)
    assert (
        metrics.spearman(gold, gold**3)
        == metrics.kendall(gold, gold**3)
        == metrics.ndcg(gold, gold**3)
        == 1
    )
    assert metrics.spearman(gold, -gold) == metrics.kendall(gold, -gold) == -1
    many, some = numbers(1000, 0, 6), numbers(1000, 1, 6)
    assert metrics.kendall(many, some) == pytest.approx(kendalltau(many, some).statistic, abs=1e-12)
    assert np.array_equal(metrics.average_ranks(many), rankdata(many))
    # One order, two scales.
    assert metrics.permutation_test(gold, some[:50], some[:50] ** 3, samples=20).p_value == 1


def test_undefined_is_nan_without_a_warning() -> None:
    some, flat = [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (
            metrics.spearman(some, flat),
            metrics.spearman([], []),
            metrics.kendall(flat, some),
            metrics.ndcg([0.0, 0.0], [1.0, 2.0]),
            metrics.ndcg([1.0], [1.0]),
            metrics.alignment(np.zeros((1, 3)), np.ones((1, 3))),
            metrics.alignment(np.empty((0, 3)), np.empty((0, 3))),
            metrics.uniformity(np.ones((1, 3))),
            metrics.spearman_by_subset(some + some, some + flat, list("aaabbb"), how="mean"),
            metrics.seed_spread([0.5]).std,
            metrics.seed_interval([0.5]).low,
            metrics.seed_interval([]).high,
            metrics.hierarchical_interval([0.5], [[0.4, 0.6]]).low,
            metrics.hierarchical_interval([0.5, 0.6], [[0.4, 0.6], [0.5, math.nan]]).high,
            metrics.smallest_difference(1.0, 1),
            *metrics.bootstrap_values([], [], samples=2),
            metrics.bootstrap_interval(some, flat, samples=3).low,
            metrics.permutation_test(some, some, flat, samples=3).p_value,
        ):
            assert math.isnan(value)


def test_a_few_undefined_resamples_are_left_out_and_most_leave_no_interval() -> None:
    gold, scores = np.array([0.0, 0, 0, 1, 0, 0]), numbers(6, 1)
    values = metrics.bootstrap_values(gold, scores, samples=400)
    # In (5/6)^6, a third of them, no pair is that of another gold score.
    kept = values[~np.isnan(values)]
    assert 200 < len(kept) < 400
    interval = metrics.bootstrap_interval(gold, scores, samples=400)
    assert interval[1:] == pytest.approx(tuple(np.quantile(kept, [0.025, 0.975])), abs=1e-12)
    # Gold and scores must both vary: more than a half of the resamples are undefined.
    single = [0, 1, 0, 0, 0, 0]
    assert math.isnan(metrics.bootstrap_interval([1, 0, 0, 0, 0, 0], single, samples=400).low)


def test_without_vectors_there_is_neither_alignment_nor_uniformity() -> None:
    for empty in ([], np.empty((0, 3))):
        assert math.isnan(metrics.alignment(empty, empty))
        assert math.isnan(metrics.uniformity(empty))


def test_uniformity_does_not_depend_on_blocks_or_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(11, 4))
    whole = metrics.uniformity(vectors)
    monkeypatch.setattr("workbench.metrics.measures._ROWS", 3)
    assert metrics.uniformity(vectors * 7) == pytest.approx(whole, abs=1e-12)
    assert metrics.uniformity([[1.0, 0.0], [-2.0, 0.0]]) == pytest.approx(-8, abs=1e-12)


def test_stsb_has_the_known_number_of_queries(real_data: Path) -> None:
    parts = [load_pairs(f"stsb-{split}") for split in ("train", "dev", "test")]
    columns = [[p.sentence1, p.sentence2, list(p.gold)] for p in parts]
    assert [len(metrics.ranking_groups(*each)) for each in columns] == [47, 5, 19]
    first, second = ["q", "t", "q", "q", "q", "x"], ["a", "q", "q", "b", "b", "a"]
    groups = metrics.ranking_groups(first, second, [0, 1, 2, 3, 4, 5])
    assert groups["q"].pairs.tolist() == groups["q"].gold.tolist() == [0, 1, 2, 3, 4], (
        "repeated pairs stay"
    )
    whole = [list(itertools.chain(*each)) for each in zip(*columns, strict=True)]
    assert len(metrics.ranking_groups(*whole)) == 116


@pytest.mark.parametrize("n", [12, 60])
def test_an_interval_is_that_of_scipy_on_the_same_resamples(n: int) -> None:
    draw = np.random.default_rng(n)
    gold = draw.integers(0, 6, n).astype(float)
    scores = gold + draw.standard_normal(n)
    how = {"paired": True, "vectorized": False, "n_resamples": 200, "rng": np.random.default_rng(3)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a resample of one pair alone
        expected = scipy.stats.bootstrap(
            (gold, scores), lambda a, b: spearmanr(a, b).statistic, method="percentile", **how
        )
    interval = metrics.bootstrap_interval(gold, scores, samples=200, seed=3)
    assert interval[1:] == pytest.approx(tuple(expected.confidence_interval), abs=1e-12)
    assert metrics.bootstrap_interval(gold, gold, samples=50) == (1.0, 1.0, 1.0)
    assert interval != metrics.bootstrap_interval(gold, scores, samples=200, seed=4)


def test_a_mean_over_sets_resamples_and_exchanges_within_each() -> None:
    sets = ["a"] * 30 + ["b"] * 50
    gold, first, second = numbers(80, 0, 5), numbers(80, 1, 7), numbers(80, 2)
    parts = [slice(0, 30), slice(30, 80)]
    means = [
        np.mean([metrics.spearman(gold[part], x[part]) for part in parts]) for x in (first, second)
    ]
    interval = metrics.bootstrap_interval(gold, first, sets=sets)
    assert interval.value == pytest.approx(means[0], abs=1e-15)
    paired = metrics.bootstrap_interval(gold, first, second, sets=sets, samples=200)
    assert paired.value == pytest.approx(means[0] - means[1], abs=1e-15)
    assert paired.low < paired.value < paired.high
    test = metrics.permutation_test(gold, first, second, sets=sets, samples=5)
    assert test.difference == pytest.approx(paired.value, abs=1e-15)
    # Another level in another set changes no rank within one.
    shifted = first + np.array([0.0] * 30 + [99.0] * 50)
    assert metrics.bootstrap_interval(gold, shifted, sets=sets) == interval
    assert metrics.bootstrap_interval(gold, first, sets=["a"] * 80) == metrics.bootstrap_interval(
        gold, first
    )


def test_the_resampled_accuracy_is_that_of_scipy() -> None:
    """Compare with scipy's bootstrap and paired test, within 4 standard errors of 2,000 draws."""
    draw = np.random.default_rng(3)
    gold, ours, theirs = (draw.integers(0, 3, 90) for _ in range(3))
    ours[:60], theirs[:50] = gold[:60], gold[:50]
    right = [(x == gold).astype(float) for x in (ours, theirs)]
    interval = metrics.bootstrap_interval(gold, ours, measure="accuracy", samples=2000)
    expected = scipy.stats.bootstrap(
        (right[0],), np.mean, method="percentile", n_resamples=2000, rng=draw
    )
    assert interval.value == right[0].mean()
    assert interval[1:] == pytest.approx(tuple(expected.confidence_interval), abs=0.015)
    test = metrics.permutation_test(gold, ours, theirs, measure="accuracy", samples=2000)
    exact = scipy.stats.permutation_test(
        right,
        lambda a, b: np.mean(a) - np.mean(b),
        permutation_type="samples",
        n_resamples=2000,
        rng=draw,
    )
    assert test.difference == pytest.approx(exact.statistic)
    assert test.p_value == pytest.approx(exact.pvalue, abs=4 * np.sqrt(2 * 0.25 / 2000))
    gain = metrics.bootstrap_interval(gold, ours, theirs, measure="accuracy", samples=200)
    assert gain.value == pytest.approx(test.difference)
    assert gain.low < gain.value < gain.high


def test_two_models_are_resampled_on_the_same_pairs() -> None:
    gold, first, second, sets = (
        numbers(60, 0, 5),
        numbers(60, 1),
        numbers(60, 2),
        ["a"] * 25 + ["b"] * 35,
    )
    how = {"sets": sets, "samples": 700, "seed": 3}
    one, other = (metrics.bootstrap_values(gold, side, **how) for side in (first, second))
    assert one.shape == (700,)
    draw, parts = np.random.default_rng(3), (np.arange(25), np.arange(25, 60))
    drawn = [part[draw.integers(0, len(part), (20_000 // 60, len(part)))][0] for part in parts]
    for values, side in ((one, first), (other, second)):
        expected = np.mean([metrics.spearman(gold[rows], side[rows]) for rows in drawn])
        assert values[0] == pytest.approx(expected, abs=1e-12)
    paired = metrics.bootstrap_interval(gold, first, second, **how)
    assert paired[1:] == pytest.approx(tuple(np.quantile(one - other, [0.025, 0.975])), abs=1e-12)


def test_an_interval_over_seeds_is_students() -> None:
    values = numbers(5, 0)
    expected = scipy.stats.t.interval(0.95, 4, values.mean(), scipy.stats.sem(values))
    interval = metrics.seed_interval(values)
    assert interval == pytest.approx((values.mean(), *expected), abs=1e-12)
    still = metrics.hierarchical_interval(values, np.repeat(values[:, None], 9, axis=1))
    assert still == pytest.approx(interval, abs=1e-12), "pairs that make no difference add nothing"
    pairs = np.random.default_rng(0).standard_normal(999)
    alone = metrics.hierarchical_interval([0.0, 0.0], [pairs - pairs.mean()] * 2)
    assert alone[1:] == pytest.approx(
        tuple(np.quantile(pairs - pairs.mean(), [0.025, 0.975])), abs=1e-12
    )


# Number of starts, and the deviations of the effects of start, seed, pair, and seed with pair.
EFFECTS = [
    (1, 0, 1, 0.1, 0.1),
    (1, 0, 0.5, 0.5, 0),
    (1, 0, 0.3, 1, 0.3),
    (1, 0, 0.1, 0.3, 1),
    (3, 0.5, 0.3, 0.5, 0.3),
]


@pytest.mark.parametrize("effects", EFFECTS)
def test_of_intervals_over_five_seeds_and_pairs_19_in_20_contain_the_truth(
    effects: tuple[float, ...],
) -> None:
    """Simulate differences that are a sum of these effects; the true mean is 0."""
    starts, of_start, of_seed, of_pair, of_both = effects
    draw, size, trials, found = np.random.default_rng(0), 100, 500, 0
    # How often each pair is drawn does not depend on the data: a few tables serve all trials.
    tables = [draw.multinomial(size, np.full(size, 1 / size), 300).T / size for _ in range(20)]
    for trial in range(trials):
        resamples = tables[trial % len(tables)]
        pairs, observed, resampled = of_pair * draw.standard_normal(size), [], []
        for shift in of_start * draw.standard_normal(int(starts)):
            seeds = shift + of_seed * draw.standard_normal((5, 1))
            values = seeds + (pairs + of_both * draw.standard_normal((5, size))) * math.sqrt(size)
            observed.append(values.mean(axis=1))
            resampled.append(values @ resamples)
        values, draws = observed[0], resampled[0]
        if starts > 1:
            values = [of_start.mean() for of_start in observed]
            draws = [of_start.mean(axis=0) for of_start in resampled]
        _, low, high = metrics.hierarchical_interval(values, draws)
        found += low <= 0 <= high
    assert 0.9 <= found / trials <= 0.98


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_the_smallest_difference_is_found_by_four_t_tests_in_five(n: int) -> None:
    true = metrics.smallest_difference(0.7, n)
    values = true + 0.7 * np.random.default_rng(n).standard_normal((20_000, n))
    assert np.mean(scipy.stats.ttest_1samp(values, 0, axis=1).pvalue < 0.05) == pytest.approx(
        0.8, abs=0.015
    )
    assert metrics.smallest_difference(1.4, n) == pytest.approx(2 * true)
    least = scipy.stats.t.ppf(0.975, n - 1)
    power = scipy.stats.nct.sf(least, n - 1, true * math.sqrt(n) / 0.7)
    assert power == pytest.approx(0.8, abs=1e-4)


def simulated_effects(
    true: float, seeds: int, stds: tuple[float, float, float], count: int
) -> Iterator[Any]:
    """Yield observed differences [seeds] and their resamples [seeds, draws] of sweeps with these
    deviations.

    stds: Of seeds, of pairs in common to all seeds, and of the interaction of both.
    """
    draw, (of_seed, of_pairs, of_both) = np.random.default_rng(seeds), stds
    for _ in range(count):
        observed = true + of_seed * draw.standard_normal(seeds) + of_pairs * draw.standard_normal()
        observed += of_both * draw.standard_normal(seeds)
        changes = of_pairs * draw.standard_normal(300) + of_both * draw.standard_normal(
            (seeds, 300)
        )
        yield observed, observed[:, None] + changes


@pytest.mark.parametrize("n", [3, 8])
def test_the_smallest_difference_over_pairs_and_seeds_is_found_by_four_intervals_in_five(
    n: int,
) -> None:
    def found(true: float) -> float:
        intervals = (
            metrics.hierarchical_interval(*sweep)
            for sweep in simulated_effects(true, n, stds, 3000)
        )
        return float(np.mean([interval.low > 0 for interval in intervals]))

    stds = (0.5, 0.6, 0.3)
    seed_std = math.hypot(stds[0], stds[2])
    assert found(metrics.smallest_difference(seed_std, n, pairs_std=stds[1])) == pytest.approx(
        0.8, abs=0.03
    )
    assert found(metrics.smallest_difference(seed_std, n)) < 0.75, (
        "without the deviation over pairs"
    )
    assert found(metrics.smallest_difference(0.0, n, pairs_std=stds[1])) < 0.77, (
        "without that over seeds"
    )
    assert metrics.smallest_difference(0.0, n) == 0


def test_a_permutation_test_counts_exchanges_of_ranks_one_after_the_other() -> None:
    sizes, draw = (30, 7), np.random.default_rng(4)
    sides = [draw.integers(0, 9, (3, n)).astype(float) for n in sizes]
    coin, chance = np.random.default_rng(1), np.zeros(200)
    for gold, ours, theirs in ([rankdata(side) for side in of_set] for of_set in sides):
        for number, swap in enumerate(coin.integers(0, 2, (200, len(gold)), dtype=np.int8) == 1):
            mixed = np.where(swap, theirs, ours), np.where(swap, ours, theirs)
            chance[number] += (
                np.corrcoef(gold, mixed[0])[0, 1] - np.corrcoef(gold, mixed[1])[0, 1]
            ) / 2
    sets = np.repeat(["a", "b"], sizes).tolist()
    test = metrics.permutation_test(*np.hstack(sides), sets=sets, samples=200, seed=1)
    assert test.p_value == (1 + (abs(chance) >= abs(test.difference)).sum()) / 201


def test_a_difference_that_no_permutation_reaches_has_the_p_of_a_normal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = np.random.default_rng(2)
    gold = np.arange(40.0)
    ours, theirs = gold + 4 * draw.standard_normal(40), gold + 16 * draw.standard_normal(40)
    ranks = [rankdata(side) for side in (gold, ours, theirs)]
    chance = []
    for swap in np.random.default_rng(1).integers(0, 2, (300, 40), dtype=np.int8) == 1:
        mixed = np.where(swap, ranks[2], ranks[1]), np.where(swap, ranks[1], ranks[2])
        chance.append(np.subtract(*(np.corrcoef(ranks[0], side)[0, 1] for side in mixed)))
    monkeypatch.setattr("workbench.metrics.significance._BLOCK", 400)  # a hundred at a time
    test = metrics.permutation_test(gold, ours, theirs, samples=300, seed=1)
    assert max(map(abs, chance)) < test.difference
    deviations = test.difference / np.sqrt(np.mean(np.square(chance)))
    assert test.p_value == pytest.approx(2 * scipy.stats.norm.sf(deviations), rel=1e-9)
    assert test.p_value < 1 / 301


def test_a_p_over_seeds_is_students_and_over_pairs_that_of_a_normal() -> None:
    values = numbers(5, 0) - 0.2
    still = np.repeat(values[:, None], 9, axis=1)
    expected = scipy.stats.ttest_1samp(values, 0).pvalue
    assert metrics.hierarchical_p(values, still) == pytest.approx(expected, rel=1e-6)
    pairs = np.random.default_rng(0).standard_normal(999)
    pairs -= pairs.mean()
    expected = 2 * scipy.stats.norm.sf(1.5 / pairs.std())
    found = metrics.hierarchical_p([1.5, 1.5], [1.5 + pairs] * 2)
    assert found == pytest.approx(expected, rel=1e-6)
    both = metrics.hierarchical_p(values, still + 0.3 * pairs[:9])
    assert both > metrics.hierarchical_p(values, still)


def test_the_resamples_of_many_models_are_those_of_each_model() -> None:
    draw = np.random.default_rng(5)
    gold = draw.integers(0, 4, 60)
    models = draw.integers(0, 4, (7, 60)).astype(float)
    models[3] = 1  # a constant model has no correlation
    for measure in ("spearman", "accuracy", "mean"):
        options: Any = {"sets": ["a"] * 20 + ["b"] * 40, "measure": measure, "samples": 70}
        several = metrics.bootstrap_values(gold, models, **options)
        assert several.shape == (7, 70)
        for scores, values in zip(models, several, strict=True):
            single = metrics.bootstrap_values(gold, scores, **options)
            assert np.array_equal(values, single, equal_nan=True)
        assert np.isnan(several[3]).all() == (measure == "spearman")
        same = metrics.permutation_test(gold, models[6], models[6], **options)
        assert same == (0, 1), "a model and itself do not differ"


def test_holm_and_the_spread_over_seeds_by_hand() -> None:
    # Of four: .01 x 4, .02 x 3, then the largest so far, then .5; unknown ones do not count.
    adjusted = metrics.holm([0.02, math.nan, 0.5, 0.01, 0.03])
    assert adjusted == pytest.approx([0.06, math.nan, 0.5, 0.04, 0.06], nan_ok=True)
    assert metrics.holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    assert metrics.seed_spread([1.0, 2.0, 3.0]) == (2.0, 1.0, 3)


def test_the_similar_third_is_above_67_of_a_hundred_of_any_scale() -> None:
    assert metrics.similar_third([0, 3.35, 3.36, 5], (0.0, 5.0)).tolist() == [
        False,
        False,
        True,
        True,
    ]
    assert metrics.similar_third([1, 4.3, 4.4], (1.0, 6.0)).tolist() == [False, False, True]


MISTAKES = {
    "gold and predicted have shapes": lambda: metrics.spearman([1, 2], [1, 2, 3]),
    "predicted contains nan in 1 of 2": lambda: metrics.kendall([1, 2], [1, math.nan]),
    "1 names of sets for 2 pairs": lambda: metrics.spearman_by_subset(
        [1, 2], [1, 2], ["a"], how="mean"
    ),
    "a and b have shapes": lambda: metrics.alignment([[1.0]], [[1.0], [2.0]]),
    "nan or infinity": lambda: metrics.uniformity([[math.inf], [1.0]]),
}


def test_a_mistake_is_refused() -> None:
    for text, call in MISTAKES.items():
        with pytest.raises(ValueError, match=text):
            call()
