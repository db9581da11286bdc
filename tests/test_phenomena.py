"""Shares of targets ranked right by relation: against loops, with marks that only clear differences
get."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import permutation_test

from workbench.config import CompCSEConfig, CoSENTConfig, SimCSEConfig, TrainingConfig
from workbench.data import Pairs, load_pairs
from workbench.errors import DataError, SettingError
from workbench.evaluation import report_pairs
from workbench.metrics import holm, seed_interval, spearman
from workbench.runs import BEFORE, Run
from workbench.systems import SystemScores
from workbench.views import Phenomena, finished_runs, phenomena
from workbench.views.relations import SECOND, ranked_right

GOLD = {"paraphrase": 5.0, "negation": 2.0, "topic": 1.0, "<b>": 0.0}
QUERIES, SEEDS = 40, (0, 1, 2)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of forty queries with a target of each relation; the second grader ties topic
    and negation."""
    rows = [
        [
            f"query {query}",
            f"{relation} of {query}",
            gold,
            "" if query % 2 else max(gold, 1.0) // 2 * 2,
            relation,
        ]
        for query in range(QUERIES)
        for relation, gold in GOLD.items()
    ]
    path = tmp_path_factory.mktemp("phenomena") / "kinds.csv"
    pd.DataFrame(
        rows, columns=["sentence1", "sentence2", "score", "score_second", "relation"]
    ).to_csv(path, index=False)
    return path


def write(
    root: Path, config: TrainingConfig, scores: np.ndarray, pairs: Pairs, stage: str = ""
) -> Run:
    run = Run.open(config, root)
    table = {
        "suite": pairs.name,
        "subset": "",
        "pair_id": pairs.pair_id,
        "gold": pairs.gold,
        "predicted": scores,
    }
    value = {
        "spearman": spearman(pairs.gold, scores),
        "n": len(scores),
        "kcc": 0.5,
        "ndcg": 0.5,
        "queries": QUERIES,
    }
    run.write_evaluation(
        {pairs.name: value}, pd.DataFrame(table), pd.DataFrame({"suite": []}), stage
    )
    run.release()
    return run


@pytest.fixture(scope="module")
def root(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs: SimCSE guesses whether paraphrase or negation is nearer, CoSENT guesses again;
    CompCSE never does, but puts negations last."""
    folder, pairs = tmp_path_factory.mktemp("runs"), load_pairs(suite)
    relation = np.array(pairs.extra["relation"])
    for seed in SEEDS:
        draw = np.random.default_rng(seed)
        for config in (SimCSEConfig, CoSENTConfig):
            guessed = pairs.gold + np.where(
                relation == "negation", draw.choice([0, 5], len(pairs)), 0
            )
            write(folder, config.from_parameters("demo", seed, {}), guessed, pairs)
        last = np.where(relation == "negation", -1, pairs.gold)
        write(folder, CompCSEConfig.from_parameters("demo", seed, {}), last, pairs)
    return folder


@pytest.fixture(scope="module")
def found(root: Path, suite: Path) -> Phenomena:
    return phenomena(finished_runs(root, str(suite)), suite)


def naive(query: list[str], gold: list[float], scores: list[float], place: int) -> list[float]:
    """Return the shares of one target: of all others, and of those with a higher and a lower
    grade."""
    counted: dict[str, list[float]] = {"all": [], "above": [], "below": []}
    for other in range(len(gold)):
        if query[other] != query[place] or gold[other] == gold[place]:
            continue
        kind = "above" if gold[other] > gold[place] else "below"
        apart = scores[other] - scores[place] if kind == "above" else scores[place] - scores[other]
        right = 1.0 if apart > 0 else 0.5 if apart == 0 else 0.0
        counted["all"].append(right)
        counted[kind].append(right)
    return [sum(values) / len(values) if values else float("nan") for values in counted.values()]


def test_ranked_right_equals_a_loop_with_ties_of_gold_and_of_scores():
    draw = np.random.default_rng(0)
    query, target = (
        [f"q{number}" for number in draw.integers(0, 6, 60)],
        [f"t{number}" for number in range(60)],
    )
    pairs = Pairs.from_lists(
        query, target, draw.integers(0, 4, 60).tolist(), name="drawn", scale=(0, 3)
    )
    scores = draw.integers(0, 5, 60).astype(float)
    expected = [naive(query, pairs.gold.tolist(), scores.tolist(), place) for place in range(60)]
    assert np.isnan(expected).any()
    np.testing.assert_allclose(ranked_right(pairs, scores), expected)


def test_what_a_method_gains_and_loses_is_said_in_a_sentence_and_chance_is_not(found: Phenomena):
    assert found.baseline == "simcse"
    assert found.sentences == [
        "compcse gains on paraphrase and loses on negation, topic and <b>.",
        "cosent neither gains nor loses clearly.",
    ]
    rows = found.table.set_index(["label", "relation"])
    assert rows.loc[("compcse", "paraphrase"), ["share", "below"]].tolist() == [1, 1]
    assert np.isnan(rows.loc[("compcse", "paraphrase"), "above"]), "no target has a higher grade"
    assert rows.loc[("compcse", "negation"), ["share", "above", "below"]].tolist() == pytest.approx(
        [1 / 3, 1, 0]
    )
    assert rows.loc[("compcse", "topic"), "share"] == pytest.approx(2 / 3)
    differences = (
        rows["share"].unstack("label").sub(rows["share"].unstack("label")["simcse"], axis=0)
    )
    for label in ("compcse", "cosent"):
        np.testing.assert_allclose(
            rows.loc[label, "difference"], differences.loc[rows.loc[label].index, label]
        )
    assert rows.loc["simcse", "p_value"].isna().all()


def test_marks_follow_from_the_test_over_queries_and_the_interval_over_seeds(
    found: Phenomena, root: Path, suite: Path
):
    pairs, runs = (
        load_pairs(suite),
        finished_runs(root, str(suite)).set_index(["label", "seed"])["path"].to_dict(),
    )
    rows = np.flatnonzero(np.array(pairs.extra["relation"]) == "negation")

    def shares(label: str) -> np.ndarray:
        """Return [seeds, queries]: a query has one negation."""
        tables = (Run(runs[label, seed]).scores()["predicted"].to_numpy() for seed in SEEDS)
        return np.stack([ranked_right(pairs, scores)[rows, 0] for scores in tables])

    gaps = shares("cosent") - shares("simcse")
    row = found.table.set_index(["label", "relation"]).loc[("cosent", "negation")]
    mean = gaps.mean(axis=0)
    exact = permutation_test(
        (mean,),
        np.mean,
        permutation_type="samples",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    )
    # Four deviations of 10,000 draws are 0.02.
    assert row["p_value"] == pytest.approx(exact.pvalue, abs=0.03)
    over_seeds = seed_interval(gaps.mean(axis=1))
    assert row["difference"] == pytest.approx(over_seeds.value)
    assert row["low"] <= over_seeds.low
    assert row["high"] >= over_seeds.high
    lost = found.table.set_index(["label", "relation"]).loc[("compcse", "negation")]
    assert lost["low"] < lost["difference"] < lost["high"] < 0
    tested = found.table.dropna(subset=["p_value"])
    assert tested["adjusted"].tolist() == pytest.approx(holm(tested["p_value"].tolist()))
    assert len(tested) == 2 * len(GOLD)


def test_the_second_grader_is_the_ceiling_on_what_was_graded_twice(found: Phenomena):
    rows = found.table[found.table["label"] == SECOND].set_index("relation")
    assert rows["targets"].tolist() == [QUERIES // 2] * 4
    # Their grades are 4, 2, 0 and 0: only the last two are not told apart.
    assert rows["share"].tolist() == pytest.approx([1, 1, 2.5 / 3, 2.5 / 3])


def test_a_cell_opens_its_targets_and_names_are_text(found: Phenomena):
    assert 'value="negation\ncompcse"' in found.heat.html
    assert "<b>" not in found.heat.html
    found.press("negation\ncompcse")
    assert (
        f"{QUERIES} of {QUERIES} targets, shares x 100, the largest changes first"
        in found.targets.html
    )
    assert "negation of " in found.targets.html
    found.press("negation\ncompcse")
    assert found.targets.html == ""
    table = found.targets_of("compcse", "negation")
    assert (table["compcse"] - table["simcse"]).abs().is_monotonic_decreasing
    assert table["compcse"].tolist() == pytest.approx([1 / 3] * QUERIES)
    worst = found.targets_of("simcse", "negation")
    assert worst.columns.tolist() == ["query", "target", "gold", "simcse"]
    assert worst["simcse"].is_monotonic_increasing
    assert worst["simcse"].nunique() > 1
    found.press("negation\nsimcse")
    assert "the smallest shares first" in found.targets.html
    found.press("negation\nsimcse")
    assert "<button" not in found.static()


def test_without_independent_differences_nothing_is_marked(root: Path, suite: Path):
    runs: Any = finished_runs(root, str(suite))
    # Three seeds against one run, and one seed.
    few = runs[(runs["seed"] == 0) | (runs["label"] == "compcse")]
    one = phenomena(few, suite)
    assert set(one.table["verdict"]) == {0}
    assert one.table["low"].isna().all()
    unknown = "has no interval over seeds: nothing is clear."
    assert one.sentences == [f"compcse {unknown}", f"cosent {unknown}"]
    assert "nan" not in one.heat.html
    assert (
        one.table.set_index(["label", "relation"]).loc[("compcse", "paraphrase"), "difference"] > 0
    )
    same: Any = runs[runs["label"] == "simcse"]
    twin = phenomena(pd.concat([same, same.assign(label="twin")]), suite)
    assert twin.sentences == ["twin neither gains nor loses clearly."]


def test_a_run_is_compared_with_its_own_start(suite: Path, tmp_path: Path):
    pairs = load_pairs(suite)
    ends = {SimCSEConfig: (0 * pairs.gold, pairs.gold), CompCSEConfig: (pairs.gold, -pairs.gold)}
    for config, (start, end) in ends.items():
        for seed in SEEDS:
            settings = config.from_parameters("demo", seed, {"suites": [str(suite)]})
            write(tmp_path, settings, start, pairs, BEFORE)
            write(tmp_path, settings, end, pairs)
    # Your own file, by the name of its suite.
    runs = finished_runs(tmp_path, "kinds")
    for label, gained in (("simcse", 0.5), ("compcse", -1)):
        found = phenomena(runs[runs["label"] == label], "kinds", BEFORE)
        rows = found.table.set_index(["label", "relation"])
        assert (rows.loc[label, "difference"] == gained).all()
        share = 0.5 if label == "simcse" else 1
        assert (rows.loc[BEFORE, "share"] == share).all(), "the mean of its starts"
        shown = found.targets_of(label, "topic")
        assert (shown[[BEFORE, label]] == [share, share + gained]).all(axis=None)
    with pytest.raises(SettingError, match="began with different encoders"):
        phenomena(runs, "kinds", BEFORE)


def test_a_mark_takes_every_test_over_queries_and_the_interval_over_seeds(tmp_path: Path):
    """Four relations, each in twelve queries of its own with a target "other", of which "often" has
    two."""
    # Queries in which the baseline is wrong.
    wrong = {"always": 12, "weakly": 6, "often": 12, "never": 0}
    rows = [
        [f"{kind} {query}", f"{relation} {number} of {query}", gold, relation, query < wrong[kind]]
        for kind in wrong
        for query in range(12)
        for number, (relation, gold) in enumerate(
            [(kind, 5.0)] * (1 + (kind == "often")) + [("other", 0.0)]
        )
    ]
    table = pd.DataFrame(rows, columns=["sentence1", "sentence2", "score", "relation", "wrong"])
    path = tmp_path / "marks.csv"
    table.drop(columns="wrong").to_csv(path, index=False)
    pairs, kind = load_pairs(path), np.array([text.split()[0] for text in table["sentence1"]])
    for seed in SEEDS:
        base = np.where(table["wrong"], -pairs.gold, pairs.gold)
        write(tmp_path / "runs", SimCSEConfig.from_parameters("demo", seed, {}), base, pairs)
        # One seed of three does not gain.
        own = np.where((kind == "often") & (seed == 2), base, pairs.gold)
        write(tmp_path / "runs", CoSENTConfig.from_parameters("demo", seed, {}), own, pairs)
    found = phenomena(finished_runs(tmp_path / "runs", str(path)), path).table.set_index(
        ["label", "relation"]
    )
    rows = found.loc["cosent"]
    assert rows["verdict"].to_dict() == {
        "always": 1,
        "weakly": 0,
        "often": 0,
        "never": 0,
        "other": 1,
    }
    assert rows.loc["always", ["low", "high"]].tolist() == pytest.approx([1, 1]), (
        "whichever queries are drawn"
    )
    assert rows.loc["weakly", "p_value"] == pytest.approx(2 / 2**6, abs=0.01)
    assert rows.loc["weakly", "adjusted"] > 0.05, "alone it would be clear"
    assert (
        0
        < rows.loc["weakly", "low"]
        < rows.loc["weakly", "difference"]
        < rows.loc["weakly", "high"]
    )
    assert rows.loc["often", "adjusted"] < 0.01, "over these seeds it is clear"
    assert rows.loc["often", "low"] < 0
    gained = [1.0] * 12 + [1.0] * 6 + [0.0] * 6 + [2 / 3] * 12 + [0.0] * 12  # of "other"
    assert rows.loc["other", "difference"] == pytest.approx(np.mean(gained))
    draw = np.random.default_rng(0)
    ends = np.quantile(draw.choice(gained, (20_000, 48)).mean(axis=1), [0.025, 0.975])
    over_seeds = seed_interval([np.mean(gained) + 1 / 12] * 2 + [np.mean(gained) - 1 / 6])
    expected = [np.hypot(over_seeds.value - over_seeds.low, np.mean(gained) - ends[0])]
    expected += [np.hypot(over_seeds.high - over_seeds.value, ends[1] - np.mean(gained))]
    half = [rows.loc["other", "difference"] - rows.loc["other", "low"]]
    half += [rows.loc["other", "high"] - rows.loc["other", "difference"]]
    assert half == pytest.approx(expected, rel=0.05)


def test_targets_that_were_not_graded_twice_are_left_out():
    pairs = Pairs.from_lists(["q"] * 4, [*"abcd"], [3, 2, 1, 0], name="drawn", scale=(0, 3))
    shares = ranked_right(pairs, np.array([3, 1, 2, np.nan]))
    np.testing.assert_array_equal(shares[:, 0], [1, 0.5, 0.5, np.nan])


def test_pairs_without_relation_and_runs_of_other_pairs_are_refused(
    root: Path, suite: Path, tmp_path: Path
):
    runs = finished_runs(root, str(suite))
    table = pd.read_csv(suite)
    table.drop(columns="relation").to_csv(tmp_path / "kinds.csv", index=False)
    with pytest.raises(DataError, match="no column relation"):
        phenomena(runs, tmp_path / "kinds.csv")
    table.assign(score=table["score"].replace(2, 3)).to_csv(tmp_path / "kinds.csv", index=False)
    with pytest.raises(ValueError, match="another version of 'kinds': its gold differs"):
        phenomena(runs, tmp_path / "kinds.csv")
    with pytest.raises(ValueError, match="was not scored on ladders-all"):
        phenomena(runs)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [("q", f"t{row}", row % 6, f"kind {row}") for row in range(201)],
            "201 relations are too many to show",
        ),
        (
            [("q", f"t{row}", row % 6, "same") for row in range(3_001)],
            "3,001 targets of one query are too many",
        ),
        (
            [(f"q{row}", "t", row % 6, "same") for row in range(20_001)],
            "20,001 queries are too many to show",
        ),
    ],
)
def test_what_would_take_hours_or_gigabytes_is_refused(
    root: Path, suite: Path, tmp_path: Path, rows: Any, words: str
):
    file = tmp_path / "many.csv"
    pd.DataFrame(rows, columns=["sentence1", "sentence2", "score", "relation"]).to_csv(
        file, index=False
    )
    with pytest.raises(DataError, match=words):
        phenomena(finished_runs(root, str(suite)), file)


def test_systems_from_elsewhere_have_the_shares_of_their_scores():
    pairs = load_pairs("ladders-all")
    draw = np.random.default_rng(0)
    good = pairs.gold + 0.5 * draw.standard_normal(len(pairs))
    poor = pairs.gold + 3.0 * draw.standard_normal(len(pairs))
    reports = {
        name: [report_pairs({pairs.name: (pairs, scores)})]
        for name, scores in (("poor", poor), ("good", good))
    }
    systems = SystemScores(reports, {pairs.name: pairs})
    found = phenomena(systems)
    assert found.baseline == "poor"
    table = found.table.set_index(["label", "relation"])
    relation = pairs.extra["relation"][0]
    of_relation = np.array(pairs.extra["relation"]) == relation
    shares = ranked_right(pairs, good)[of_relation, 0]
    assert table.loc[("good", relation), "share"] == pytest.approx(np.nanmean(shares))
    assert (found.table.loc[found.table["label"] == "good", "difference"] > 0).all()
    # A pair that the baseline lacks is compared for nobody.
    lacking = reports["poor"][0]
    first = found.table["relation"][0]
    row = int(np.flatnonzero(np.array(pairs.extra["relation"]) == first)[0])
    lacking = replace(lacking, scores=lacking.scores.drop(index=row))
    table = phenomena(SystemScores(reports | {"poor": [lacking]}, systems.pairs)).table
    assert table.loc[table["label"] == "good", ["difference", "p_value"]].notna().all(axis=None)
    both = SystemScores(reports | {"both": reports["good"] + reports["poor"]}, systems.pairs)
    table = phenomena(both).table.set_index(["label", "relation"])
    mean = (table.loc["good", "share"] + table.loc["poor", "share"]) / 2
    assert table.loc["both", "share"].tolist() == pytest.approx(mean.tolist()), "over all seeds"
    assert table.loc["both", "low"].notna().all()
    with pytest.raises(SettingError, match="no system 'best' among those compared"):
        phenomena(systems, baseline="best")
