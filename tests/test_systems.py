"""Comparisons of systems against plain computations, and the command."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from scipy.stats import spearmanr
from typer.testing import CliRunner
from written_runs import write_run

import workbench
from workbench import metrics, views
from workbench.commands.app import app
from workbench.config import (
    SEVEN_STS,
    BaselineConfig,
    CoSENTConfig,
    RankEncoderConfig,
    SimCSEConfig,
)
from workbench.data import Pairs, load_pairs
from workbench.data._sets import take_rows
from workbench.errors import DataError, RunError, SettingError
from workbench.evaluation import (
    RANKING_COLUMNS,
    Report,
    evaluate_model,
    extract_table,
    report_pairs,
)
from workbench.metrics import average_ranks, hierarchical_interval, hierarchical_p
from workbench.systems import SystemScores, compare_scores, join_systems
from workbench.systems._verdicts import p_text
from workbench.views import system_sources
from workbench.views.encoders import CachedEncoder

ON_DEV = {"suites": ["world-dev"], "device": "cpu", "precision": "fp32"}


def make_pairs(count: int = 60, name: str = "mine") -> Pairs:
    """Return pairs of queries with six targets each, and gold from 0 to 5."""
    gold = np.random.default_rng(1).integers(0, 6, count).astype(float)
    queries = [f"Question {row // 6} about the garden" for row in range(count)]
    targets = [f"Answer {row} on plants" for row in range(count)]
    return Pairs.from_lists(queries, targets, gold, name=name, scale=(0, 5))


def noisy(pairs: Pairs, spread: float, seed: int = 0) -> np.ndarray:
    return pairs.gold + spread * np.random.default_rng(seed).standard_normal(len(pairs))


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    return make_pairs()


def systems_of(pairs: Pairs, **scores: np.ndarray) -> SystemScores:
    reports = {name: [report_pairs({pairs.name: (pairs, own)})] for name, own in scores.items()}
    return SystemScores(reports, {pairs.name: pairs})


def test_a_row_has_the_values_of_the_plain_computations(pairs: Pairs):
    a, b = noisy(pairs, 3.0), noisy(pairs, 1.0, 1)
    found = compare_scores(systems_of(pairs, a=a, b=b), samples=300)
    first, second = found.table.to_dict("records")
    assert first["value"] == pytest.approx(spearmanr(pairs.gold, a).statistic)
    interval = metrics.bootstrap_interval(pairs.gold, b, samples=300)
    assert (second["value"], second["low"], second["high"]) == pytest.approx(interval)
    difference = metrics.bootstrap_interval(pairs.gold, b, a, samples=300)
    names = ["difference", "difference_low", "difference_high"]
    assert [second[name] for name in names] == pytest.approx(list(difference))
    p = metrics.permutation_test(pairs.gold, b, a, samples=300).p_value
    assert (second["p_value"], second["adjusted"]) == (p, p), "one test needs no correction"
    assert (second["pairs"], second["queries"]) == (60, 10)
    assert np.isnan(first["difference"])
    # The draws of the difference, and the normal quantiles of 0.975 and 0.8.
    draws = [metrics.bootstrap_values(pairs.gold, own, samples=300) for own in (a, b)]
    assert second["smallest"] == pytest.approx(
        (1.959964 + 0.841621) * np.std(draws[1] - draws[0], ddof=1)
    )


def test_holm_is_over_the_whole_table_and_the_sentence_follows_it(pairs: Pairs):
    scores = {"a": noisy(pairs, 2.0), "equal": noisy(pairs, 2.0, 5), "best": noisy(pairs, 0.1, 6)}
    found = compare_scores(systems_of(pairs, **scores), samples=400)
    rows = found.table.set_index("system")
    assert rows["adjusted"].dropna().tolist() == metrics.holm(rows["p_value"].dropna()).tolist()
    unclear, clear = found.verdicts()
    assert unclear.startswith("No clear difference between equal and a on mine: ")
    assert f", p {p_text(rows.loc['equal', 'adjusted'])}; a true" in unclear
    alone = report_pairs({"other": (replace(pairs, name="other"), scores["a"])})
    apart = SystemScores({"a": [report_pairs({"mine": (pairs, scores["a"])})], "b": [alone]})
    assert compare_scores(apart, samples=50).notes == [
        "mine: only a has scores; give its pairs with --on for others",
        "other: only b has scores; give its pairs with --on for others",
    ]
    assert "would be seen in 80 of 100 cases" in unclear
    assert clear.startswith("best is better than a on mine: +")
    # Nine systems as good as `a` make the best one's p nine times as large, and no smaller.
    many = scores | {f"other {place}": noisy(pairs, 2.0, 10 + place) for place in range(8)}
    more = compare_scores(systems_of(pairs, **many), samples=400).table.set_index("system")
    assert more.loc["best", "adjusted"] == pytest.approx(10 * rows.loc["best", "p_value"])


def test_the_deviation_behind_a_smallest_difference_is_that_over_drawn_files():
    draw = np.random.default_rng(0)
    gold = draw.standard_normal(60)
    noise = [3.0, 2.0]
    smallest, observed, is_clear = [], [], []
    for _ in range(60):
        pairs = Pairs.from_lists(
            [f"a{row}" for row in range(60)], [f"b{row}" for row in range(60)], gold, scale=(-9, 9)
        )
        scores = {
            name: gold + one * draw.standard_normal(60)
            for name, one in zip("ab", noise, strict=True)
        }
        row = compare_scores(systems_of(pairs, **scores), samples=200).table.iloc[1]
        smallest.append(row["smallest"])
        observed.append(row["difference"])
        is_clear.append(row["difference_low"] > 0)
    deviations = np.array(smallest) / (1.959964 + 0.841621)
    # Each file estimates how much the difference varies from file to file.
    assert np.mean(deviations) == pytest.approx(np.std(observed), rel=0.3)
    # So the share of clear intervals is that of a normal with this deviation.
    share = ndtr(np.mean(observed) / np.std(observed) - 1.959964)
    assert np.mean(is_clear) == pytest.approx(share, abs=0.15)


def test_only_common_pairs_are_compared_and_the_others_are_counted(pairs: Pairs):
    whole = report_pairs({"mine": (pairs, noisy(pairs, 1.0))})
    part = report_pairs({"mine": (pairs, noisy(pairs, 2.0))})
    shuffled = part.scores.iloc[5:].sample(frac=1, random_state=0)
    systems = SystemScores(
        {"a": [whole], "b": [Report(part.metrics, shuffled, part.rankings)]}, notes=["a guess"]
    )
    found = compare_scores(systems, samples=50)
    assert found.table["pairs"].tolist() == [55, 55]
    assert found.notes == [
        "a guess",
        "mine: pairs left out, not scored by every system: 5 (so that no measure is shown that "
        "each has of all its own)",
    ]
    assert "ndcg" not in found.table, "it would be of other pairs than the correlation"
    kept = whole.scores.iloc[5:]
    assert found.table["value"][0] == pytest.approx(
        spearmanr(kept["gold"], kept["predicted"]).statistic
    )
    other = shuffled.assign(gold=shuffled["gold"] + (shuffled["pair_id"] == "7"))
    wrong = SystemScores({"a": [whole], "b": [Report(part.metrics, other, part.rankings)]})
    with pytest.raises(DataError, match=r"a and b have different gold, first of pair '7' \(1 pair"):
        compare_scores(wrong, samples=5)
    others = shuffled.assign(pair_id="x" + shuffled["pair_id"])
    none = SystemScores({"a": [whole], "b": [Report(part.metrics, others, part.rankings.iloc[:0])]})
    with pytest.raises(DataError, match="mine: a, b have no pair or query in common"):
        compare_scores(none, samples=5)


def test_constant_scores_are_stated_and_no_number(pairs: Pairs):
    found = compare_scores(
        systems_of(pairs, a=noisy(pairs, 1.0), flat=np.zeros(len(pairs))), samples=20
    )
    assert np.isnan(found.table["value"][1])
    assert found.verdicts() == []
    assert found.notes == [
        "mine: flat has no spearman: all gold, or all scores of one of its seeds, are equal"
    ]
    assert "flat" in found.to_html()
    assert json.loads(found.to_json())["rows"][1]["value"] is None


def ranked(values: dict[str, list[float]], suite: str = "docs") -> Report:
    """Return a report of rankings alone: query -> the scores of three documents, graded 2, 1, 0."""
    rows = [
        (suite, query, f"{query}-{place}", query, f"text {place}", 2.0 - place, score)
        for query, scores in values.items()
        for place, score in enumerate(scores)
    ]
    table = pd.DataFrame(rows, columns=list(RANKING_COLUMNS[:-1]))
    ranks = table.groupby("query_id")["score"].transform(lambda own: average_ranks(-own))
    empty = pd.DataFrame(columns=["suite", "subset", "pair_id", "gold", "predicted"])
    return Report(
        {suite: {"n": len(table), "queries": len(values)}}, empty, table.assign(rank=ranks)
    )


def test_rankings_alone_are_compared_by_query():
    queries = [f"q{number}" for number in range(8)]
    right = {query: [3.0, 2.0, 1.0] for query in queries}
    wrong = {query: [1.0, 2.0, 3.0] for query in queries}
    found = compare_scores(SystemScores({"a": [ranked(wrong)], "b": [ranked(right)]}), samples=2000)
    assert found.table["measure"].tolist() == ["ndcg", "ndcg"]
    discounts = 1 / np.log2([2, 3, 4])
    worst = (np.array([0, 1, 2]) @ discounts) / (np.array([2, 1, 0]) @ discounts)
    assert found.table["value"].tolist() == pytest.approx([worst, 1.0])
    assert "Intervals: 95% over queries. Differences from a" in found.caption
    # All eight differ in one direction: of 2 ** 8 changes of sign two are as large.
    assert found.table["p_value"][1] == pytest.approx(2 / 2**8, abs=0.006)


def test_queries_are_those_that_were_compared_and_pairs_have_none(pairs: Pairs):
    """A query without a relevant document has no NDCG."""
    values = {f"q{number}": [3.0, 2.0, 1.0] for number in range(5)}
    report = ranked(values)
    report.rankings.loc[report.rankings["query_id"] == "q0", "gold"] = 0.0
    few = take_rows(pairs, np.arange(3), "", "")
    of_pairs = report_pairs({"few": (few, noisy(few, 1.0))})
    found = compare_scores(SystemScores({"a": [report], "b": [report]}), samples=20)
    assert found.table["queries"].tolist() == [4, 4]
    parts = [SystemScores({"a": [report]}), SystemScores({"a": [of_pairs]})]
    both = compare_scores(join_systems(parts), samples=20)
    assert "nan" not in both.to_html().replace("ranking", "")


def test_a_permutation_test_of_means_counts_all_changes_of_sign():
    differences = np.array([0.3, -0.1, 0.4, 0.2, 0.25, 0.05, -0.02, 0.15])
    means = [
        np.mean(differences * signs)
        for signs in itertools.product([-1, 1], repeat=len(differences))
    ]
    exact = np.mean(np.abs(means) >= differences.mean() - 1e-12)
    found = metrics.permutation_test(
        np.zeros(8), differences, np.zeros(8), measure="mean", samples=20_000
    )
    assert found.difference == pytest.approx(differences.mean())
    assert found.p_value == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("shift", [0.0, 0.5, 0.9, 1.2, 3.0])
def test_the_p_of_seeds_and_pairs_is_that_of_the_interval(shift: float):
    draw = np.random.default_rng(3)
    values = shift + draw.standard_normal(5)
    draws = values[:, None] + 0.5 * draw.standard_normal(400) + 0.2 * draw.standard_normal((5, 400))
    interval = hierarchical_interval(values, draws)
    p = hierarchical_p(values, draws)
    is_clear = not interval.low <= 0 <= interval.high
    # The interval's part over pairs is a quantile, that of p is normal: not near the border.
    if abs(p - 0.05) > 0.01:
        assert (p < 0.05) == is_clear
    assert np.isnan(hierarchical_p(values[:1], draws[:1]))


def test_runs_that_kept_their_start_do_not_differ_from_it():
    zeros = np.zeros(3)
    assert hierarchical_p(zeros, np.zeros((3, 100))) == pytest.approx(1)
    assert hierarchical_p(np.array([-0.1, 0, 0.1]), np.zeros((3, 100))) == pytest.approx(1)


def test_seeds_are_paired_and_an_encoder_is_compared_with_all(tmp_path: Path, pairs: Pairs):
    for seed in (0, 1, 2):
        write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 2.0)
    for seed in (1, 2, 3):
        write_run(tmp_path, CoSENTConfig.from_parameters("demo", seed, {}), 0.5)
    found = views.compare_systems(tmp_path, samples=100)
    rows = found.table.set_index("system")
    assert found.baseline == "simcse"
    assert (rows.loc["cosent", "seeds"], rows.loc["cosent", "paired_seeds"]) == (3, 2)
    values = {
        (row.label, row.seed): row.spearman
        for row in views.finished_runs(tmp_path, "world-dev").itertuples()
    }
    wanted = np.mean([values["cosent", seed] - values["simcse", seed] for seed in (1, 2)])
    assert rows.loc["cosent", "difference"] == pytest.approx(wanted)
    two = views.compare_systems(["cosent", "simcse"], runs_root=tmp_path, samples=100)
    assert two.baseline == "cosent", "the first source"
    assert two.table["difference"][1] == pytest.approx(-wanted)


def test_reports_without_seeds_are_paired_by_their_place(pairs: Pairs):
    scores = [noisy(pairs, 1.0, seed) for seed in range(5)]
    reports = [report_pairs({"mine": (pairs, own)}) for own in scores]
    found = compare_scores(SystemScores({"a": reports[:2], "b": reports[2:]}), samples=50)
    values = [spearmanr(pairs.gold, own).statistic for own in scores]
    wanted = np.mean(values[2:4]) - np.mean(values[:2])
    assert found.table["paired_seeds"][1] == 2
    assert found.table["difference"][1] == pytest.approx(wanted)
    assert "over pairs, of several seeds over both" in found.caption
    partly = (
        "mine: b and a are compared on 2 of their seeds: those that both have, or the first of "
    )
    assert found.notes == [f"{partly}each if they share none"]
    whole = compare_scores(SystemScores({"a": reports[:2], "b": reports[3:]}), samples=50)
    assert whole.notes == []
    # Those of runs whose encoders were evaluated on other pairs have the seeds of the runs.
    seeded = [
        replace(report, config=SimCSEConfig.from_parameters("demo", seed))
        for report, seed in zip(reports, (0, 1, 1, 2, 3), strict=True)
    ]
    found = compare_scores(SystemScores({"a": seeded[:2], "b": seeded[2:]}), samples=50)
    assert found.table["paired_seeds"][1] == 1
    assert found.table["difference"][1] == pytest.approx(values[2] - values[1])
    found = compare_scores(SystemScores({"a": seeded[:1], "b": seeded[2:]}), samples=50)
    assert found.table["paired_seeds"][1] == 1, "one run is no encoder without seeds"
    parts = replace(pairs, subset=["x", "y"] * (len(pairs) // 2))
    by_part = report_pairs({"mine": (parts, scores[0])}, how="mean")
    found = compare_scores(SystemScores({"a": [reports[0]], "b": [by_part]}), samples=50)
    assert found.notes == ["mine: a run has the mean over its parts; here it is of all pairs"]


def test_a_suite_without_the_baseline_is_said_to_have_no_differences(pairs: Pairs):
    other = make_pairs(name="other")
    reports = {}
    for number, name in enumerate("abc"):
        suites = [pairs] if name == "a" else [pairs, other]
        reports[name] = [report_pairs({one.name: (one, noisy(one, 1.0, number)) for one in suites})]
    found = compare_scores(SystemScores(reports), samples=20)
    assert found.notes == ["other: no scores of the baseline, a; give the pairs with --on"]
    of_other = found.table[found.table["suite"] == "other"]
    assert len(of_other) == 2
    assert of_other["difference"].isna().all()


def test_the_guess_of_a_scale_is_among_the_notes(tmp_path: Path):
    source = tmp_path / "scores.csv"
    lines = [f"text {row},text of {row},{row % 4},{row / 9},{row / 7}\n" for row in range(12)]
    source.write_text("sentence1,sentence2,gold,a,b\n" + "".join(lines))
    notes = views.compare_systems([source], samples=20).notes
    assert any("scale 0 to 3 is a guess from gold of 0 to 3" in note for note in notes)


def test_two_sources_of_one_system_join_their_suites_and_not_twice_the_same(pairs: Pairs):
    first = systems_of(pairs, a=noisy(pairs, 1.0))
    second = systems_of(make_pairs(name="other"), a=noisy(pairs, 1.0))
    joined = join_systems([first, second])
    assert joined.suites == ["mine", "other"]
    assert len(joined.reports["a"][0].scores) == 120
    with pytest.raises(DataError, match="two parts of one, have scores of a on mine; rename"):
        join_systems([first, systems_of(pairs, a=noisy(pairs, 2.0))])


def test_an_average_is_that_of_its_sets():
    sets = {name: make_pairs(30, name) for name in SEVEN_STS}
    reports = {}
    for name, spread in (("a", 3.0), ("b", 1.0)):
        report = report_pairs({suite: (one, noisy(one, spread)) for suite, one in sets.items()})
        of_average = {"sts-average": {"spearman": 0.0}}
        reports[name] = [Report(report.metrics | of_average, report.scores, report.rankings)]
    found = compare_scores(SystemScores(reports), suites=["sts-average"], samples=50)
    single = compare_scores(SystemScores(reports), suites=SEVEN_STS, samples=50)
    means = single.table.groupby("system")["value"].mean()
    assert found.table["value"].tolist() == pytest.approx(means[["a", "b"]].tolist())
    assert found.table["pairs"].tolist() == [210, 210]


def test_the_command_prints_writes_and_refuses(tmp_path: Path):
    names = {kind: tmp_path / f"c.{kind}" for kind in ("html", "latex", "csv")}
    files = [word for kind, path in names.items() for word in (f"--{kind}", str(path))]
    command = ["compare", "english-encoder", "word-overlap", "--on", "ladders-all"]
    done = CliRunner().invoke(app, [*command, *files], catch_exceptions=False)
    assert "word-overlap is worse than english-encoder on ladders-all: -" in done.output
    assert "Holm's correction (tests: 1)." in done.output
    assert "<table" in names["html"].read_text()
    assert "\\toprule" in names["latex"].read_text()
    numbers = pd.read_csv(names["csv"])
    assert numbers["system"].tolist() == ["english-encoder", "word-overlap"]
    printed = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False)
    content = json.loads(printed.output)
    assert content["rows"][1]["difference"] == pytest.approx(numbers["difference"][1])
    with pytest.raises(SettingError, match="no system 'word' among"):
        CliRunner().invoke(app, [*command, "--baseline", "word"], catch_exceptions=False)


def test_files_that_cannot_be_written_and_runs_without_judgements_are_refused(tmp_path: Path):
    source = tmp_path / "scores.csv"
    source.write_text("sentence1,sentence2,gold,a,b\nx y,z,1,0.1,0.2\nu,v w,2,0.3,0.1\n")
    gold = tmp_path / "gold.csv"
    gold.write_text(source.read_text())
    folder = tmp_path / "systems"
    folder.mkdir()
    relative = str(tmp_path / "systems" / ".." / "scores.csv")
    refused = [
        ([str(source)], tmp_path / "none" / "c.csv"),
        ([str(source)], source),
        ([relative], source),
        ([str(source), "--on", str(gold)], gold),
        ([str(folder)], folder / "b.csv"),
    ]
    for words, output in refused:
        with pytest.raises(SettingError, match=r"cannot be written: give a file in a folder"):
            CliRunner().invoke(
                app, ["compare", *words, "--csv", str(output)], catch_exceptions=False
            )
    run = tmp_path / "first.run"
    run.write_text("q1 Q0 d1 1 0.5 first\n")
    with pytest.raises(SettingError, match=r"first\.run is read as a TREC run file.*--on FILE"):
        views.compare_systems([run])
    text = run.rename(tmp_path / "first.txt")
    judged = tmp_path / "qrels"
    judged.write_text("q1 0 d1 1\nq1 0 d2 0\n")
    assert [*views.compare_systems([text], [str(judged)]).scores.reports] == ["first"]
    with pytest.raises(DataError, match=r"other\.run: no run file; .*qrels judges documents"):
        views.compare_systems([text, tmp_path / "other.run"], [str(judged)])
    with pytest.raises(SettingError, match="no system is given"):
        views.compare_systems([])


def test_the_name_of_an_encoder_is_that_encoder_where_its_run_lacks_the_set(tmp_path: Path):
    config = BaselineConfig(encoder="world-encoder", suites=["world-dev"], device="cpu")
    evaluate_model(config, tmp_path)
    options = {"runs_root": tmp_path, "samples": 5}
    found = views.compare_systems(["world-encoder"], ["world-test"], **options)
    assert found.table["suite"].tolist() == ["world-test"]
    stored = views.compare_systems(["world-encoder"], ["world-dev"], **options)
    assert stored.scores.pairs == {}, "its stored scores, without encoding"


@pytest.mark.parametrize(
    "config",
    [
        BaselineConfig(encoder="world-encoder", suites=["world-dev"], device="cpu"),
        RankEncoderConfig.from_parameters(
            "demo", 0, {"max_steps": 1, "base": "world-encoder", "corpus_size": 20} | ON_DEV
        ),
        CoSENTConfig.from_parameters(
            "demo", 0, {"max_steps": 1, "architecture": "cross-encoder"} | ON_DEV
        ),
    ],
    ids=lambda config: config.method,
)
def test_a_run_scores_a_further_set_as_it_scored_its_own(tmp_path: Path, config: Any):
    runs = {}
    for suite in ("world-dev", "world-test"):
        changed = config.model_copy(update={"suites": [suite]})
        if isinstance(config, BaselineConfig):
            runs[suite] = evaluate_model(changed, tmp_path / suite)
        else:
            runs[suite] = workbench.run(changed, tmp_path / suite, quiet=True)
    path = str(runs["world-dev"].path)
    found = views.compare_systems([path], ["world-test"], runs_root=tmp_path, samples=5)
    [label] = found.scores.first
    report: Any = found.scores.first[label]
    scored = extract_table(report, "scores")["predicted"].to_numpy()
    expected = runs["world-test"].scores()["predicted"].to_numpy()
    assert scored == pytest.approx(expected, abs=1e-5)
    assert report.config == runs["world-dev"].config, "with its seed"
    if getattr(config, "architecture", "") != "cross-encoder":  # whose sentences have no vectors
        test = load_pairs("world-test")
        cosines = CachedEncoder("", runs["world-dev"]).cosines(test.sentence1, test.sentence2)
        assert cosines == pytest.approx(expected, abs=1e-5), "as in the views that ask and explain"


def test_a_run_that_was_changed_is_refused_and_not_scored_as_an_encoder(tmp_path: Path):
    run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0), 1.0)
    views.compare_systems([str(run.path)], samples=5)
    metrics_file = run.path / "metrics.json"
    metrics_file.write_text(metrics_file.read_text() + " ")
    with pytest.raises(RunError, match=r"metrics\.json is not what the run wrote"):
        views.compare_systems([str(run.path)], samples=5)


def test_stored_scores_of_a_file_that_has_changed_since_are_not_used(tmp_path: Path):
    first = ["the dog runs", "a cat sleeps", "the sailor anchors the boat", "an old bird sings"]
    second = ["a dog runs fast", "the cat naps", "a baker bakes bread", "the bird is old"]
    file = tmp_path / "mine.csv"

    def write(sentences: list[str]) -> None:
        rows = zip(first, sentences, [4, 3, 0, 2], strict=True)
        file.write_text(
            "sentence1,sentence2,score\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)
        )

    write(second)
    config = BaselineConfig(encoder="world-encoder", suites=[str(file)], device="cpu")
    evaluate_model(config, tmp_path / "runs")
    write(second[::-1])
    found = {
        root: views.compare_systems(
            ["world-encoder"], [str(file)], runs_root=tmp_path / root, samples=5
        ).scores
        for root in ("runs", "none")
    }
    assert len(found["runs"].pairs) == 1, "scored now"
    stored, expected = (
        extract_table(scores.first["world-encoder"], "scores")["predicted"].tolist()
        for scores in found.values()
    )
    assert stored == pytest.approx(expected)


def test_stored_scores_of_other_columns_are_not_used(tmp_path: Path):
    file = tmp_path / "graded.csv"
    rows = ["the dog runs,a dog runs fast,4,0", "a cat sleeps,the cat naps,3,1"]
    rows += ["the old bird sings,a baker bakes bread,0,3", "an old bird,the bird is old,2,4"]
    file.write_text("\n".join(["sentence1,sentence2,human1,human2", *rows, ""]))
    columns = {"score": "human1"}
    config = BaselineConfig(
        encoder="world-encoder", suites=[str(file)], columns=columns, device="cpu"
    )
    run = evaluate_model(config, tmp_path)
    assert system_sources._has_scored(run, str(file), columns)
    assert system_sources._has_scored(run, str(file), {"score": "human1", "sentence1": "sentence1"})
    assert not system_sources._has_scored(run, str(file), {"score": "human2"})


def test_two_sets_of_one_name_are_refused(tmp_path: Path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test.csv").write_text("sentence1,sentence2,score\na,b,1\nc,d,0\n")
    files = [str(tmp_path / folder / "test.csv") for folder in ("a", "b")]
    with pytest.raises(DataError, match="two sets are called test; rename one of the files"):
        views.compare_systems(["word-overlap"], files)


def test_a_difference_can_be_clear_among_many_tests():
    """56 tests of one seed: what none of 200 permutations reaches has a smaller p than 1 / 201."""
    sets = [make_pairs(name=f"set {number}") for number in range(7)]
    systems = {"bad": 40.0} | {f"good {number}": 0.1 for number in range(8)}
    reports = {
        name: [report_pairs({one.name: (one, noisy(one, spread, seed)) for one in sets})]
        for seed, (name, spread) in enumerate(systems.items())
    }
    found = compare_scores(SystemScores(reports), samples=200).table
    assert found["adjusted"].count() == 56
    assert found["adjusted"].max() < 0.01


def test_resamples_without_a_correlation_are_left_out_for_several_seeds():
    gold = np.repeat([1.0, 0.0], [4, 36])
    pairs = Pairs.from_lists(["a"] * 40, [f"b{row}" for row in range(40)], gold, name="few")
    reports = {
        name: [report_pairs({"few": (pairs, noisy(pairs, spread, seed))}) for seed in range(3)]
        for name, spread in (("a", 1.0), ("b", 0.2))
    }
    draws = metrics.bootstrap_values(gold, noisy(pairs, 1.0), samples=300)
    assert 0 < np.isnan(draws).sum() < 30, "a resample in which no label differs"
    found = compare_scores(SystemScores(reports), samples=300).table
    names = ["low", "high", "difference_low", "difference_high", "p_value", "smallest"]
    assert found.iloc[1][names].notna().all()
    assert found.iloc[0][["low", "high"]].notna().all()
    # A baseline without seeds that is constant in some resamples.
    overlap = np.where(np.arange(40) < 5, 0.5, 0.0)
    reports = {"c": [report_pairs({"few": (pairs, overlap)})]} | reports
    found = compare_scores(SystemScores(reports), samples=300).table
    assert found.iloc[1:][names].notna().all(axis=None)


def test_the_folder_of_an_encoder_that_has_a_metrics_json_is_an_encoder(
    tiny_encoder: Path, tmp_path: Path
):
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "mine"))
    (folder / "metrics.json").write_text('{"eval_loss": 1.0}')
    found = views.compare_systems({"mine": folder}, ["ladders-all"], samples=5)
    assert found.table["system"].tolist() == ["mine"]


def test_a_difference_that_cannot_exist_is_not_called_detectable(pairs: Pairs):
    """Equal orders have no difference at all, and three pairs none that could be seen."""
    gold = np.arange(3.0)
    reports = {
        name: [report_pairs({"few": (Pairs.from_lists(["a"] * 3, list("bcd"), gold), values)})]
        for name, values in {"one": gold, "two": 2 * gold}.items()
    }
    found = compare_scores(SystemScores(reports), samples=50)
    assert found.table["smallest"].isna().all()
    assert not any("would be seen" in verdict for verdict in found.verdicts())
    # Accuracies differ by 1 at most, and four texts would show only larger differences.
    classes = np.array([0.0, 1.0, 0.0, 1.0])
    texts = Pairs.from_lists(list("abcd"), list("efgh"), classes, name="task")
    reports = {}
    for name, predicted in {"one": [0.0, 1.0, 1.0, 0.0], "two": [1.0, 0.0, 0.0, 1.0]}.items():
        report = report_pairs({"task": (texts, predicted)})
        report.metrics["task"]["accuracy"] = 0.5
        reports[name] = [report]
    found = compare_scores(SystemScores(reports), samples=50)
    assert found.table["measure"].tolist() == ["accuracy"] * 2
    assert found.table["smallest"].isna().all()


def test_an_interval_stays_within_what_the_measure_can_be(pairs: Pairs):
    """Student's t of two seeds alone reaches beyond 1."""
    seeds = [report_pairs({"mine": (pairs, noisy(pairs, sd))}) for sd in (0.01, 1.0)]
    found = compare_scores(SystemScores({"a": seeds}), samples=50)
    low, high = found.table.loc[0, ["low", "high"]]
    assert metrics.seed_interval([own.metrics["mine"]["spearman"] for own in seeds]).high > 1
    assert -1 <= low < found.table["value"][0] < high
    assert high == 1


def test_a_p_below_the_level_is_not_printed_as_the_level():
    assert [p_text(p) for p in (0.0494, 50 / 1001, 0.0504)] == [".049", "< .05", ".050"]
