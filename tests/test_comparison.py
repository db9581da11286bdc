"""Runs on disk become tables: spread over seeds, intervals, paired tests, and the papers' numbers beside."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from written_runs import PAIRS, SUITE, write_run

from workbench.config import CoSENTConfig, SimCSEConfig
from workbench.look import comparison, part_scores, ranking_tables, score_intervals
from workbench.runs import Run


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
    write_run(folder, SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.2}), 2.0)
    write_run(folder, CoSENTConfig.from_parameters("demo", 7, {}), 0.5)
    Run.create(SimCSEConfig.from_parameters("demo", 2, {}), folder)
    return folder


@pytest.fixture(scope="module")
def runs(root: Path) -> pd.DataFrame:
    return comparison.finished_runs(root, SUITE)


def test_finished_runs_are_labelled_by_what_differs(runs: pd.DataFrame):
    assert runs["label"].tolist() == ["cosent", "simcse", "simcse", "simcse (temperature=0.2)"]
    assert runs["seed"].tolist() == [7, 0, 1, 0]
    assert (runs["spearman"] > runs["before"]).all()


def test_where_profiles_differ_too_the_label_says_which(tmp_path: Path):
    write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    paper = SimCSEConfig.from_parameters("paper", 0, {"encoder": "world-encoder", "suites": [SUITE]})
    write_run(tmp_path, paper, 1.0)
    labels = comparison.finished_runs(tmp_path, SUITE)["label"].tolist()
    assert labels[0] == "simcse (demo)"
    assert labels[1].startswith("simcse (paper, encoder=world-encoder")


def test_the_seed_table_has_mean_and_spread_times_100(runs: pd.DataFrame):
    table = comparison.seed_table(runs)
    values = 100 * runs.loc[runs["label"] == "simcse", "spearman"].to_numpy()
    assert table.loc["simcse", "Spearman"] == f"{values.mean():.2f} ± {values.std(ddof=1):.2f}"
    assert table.loc["simcse", "seeds"] == 2
    assert table.loc["cosent", "Spearman"] == f"{100 * runs['spearman'][0]:.2f}"


def test_each_run_has_its_interval(runs: pd.DataFrame):
    found = comparison.intervals(runs, SUITE, samples=50)
    assert found["value"].to_numpy() == pytest.approx(runs["spearman"].to_numpy(), abs=1e-12)
    assert ((found["low"] < found["value"]) & (found["value"] < found["high"])).all()
    figure = score_intervals(found, SUITE)
    assert list(figure.layout.yaxis.ticktext) == ["cosent", "simcse", "simcse (temperature=0.2)"]
    assert figure.data[0].error_x.array[0] == pytest.approx(100 * (found["high"] - found["value"])[0])


def test_paired_tests_meet_the_same_seed_else_the_first(runs: pd.DataFrame):
    found = comparison.paired_tests(runs, SUITE, "simcse", samples=60)
    assert found["against"].tolist() == ["simcse, seed 0"] * 2
    assert np.sign(found["difference"]).tolist() == [1, -1]
    assert found["difference"][0] == pytest.approx(runs["spearman"][0] - runs["spearman"][1], abs=1e-12)
    assert found["p_value"].tolist() == pytest.approx([1 / 61] * 2)
    against_simcse = comparison.paired_tests(runs, SUITE, samples=5)
    assert against_simcse["label"].tolist() == ["cosent", "simcse (temperature=0.2)"]
    without = runs.loc[runs["label"] != "simcse"]
    assert set(comparison.paired_tests(without, SUITE, samples=5)["against"]) == {"simcse (temperature=0.2), seed 0"}
    one = runs.loc[runs["label"] == "cosent"]
    assert comparison.paired_tests(one, SUITE, samples=5).empty


def test_runs_of_other_pairs_are_not_tested_against_each_other(tmp_path: Path):
    write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    write_run(tmp_path, CoSENTConfig.from_parameters("demo", 0, {}), 1.0, pairs=100)
    found = comparison.finished_runs(tmp_path, SUITE)
    with pytest.raises(ValueError, match=f"100 of 100 and {len(PAIRS.gold)} in common"):
        comparison.paired_tests(found, SUITE, samples=5)


def test_parts_are_suites_and_their_subsets(runs: pd.DataFrame):
    found = comparison.parts(runs)
    assert found["part"].unique().tolist() == [SUITE, f"{SUITE}: even", f"{SUITE}: odd"]
    row = found[(found["label"] == "simcse") & (found["part"] == SUITE)].iloc[0]
    assert (row["n"], math.isnan(row["std"])) == (2, False)
    figure = part_scores(found)
    assert [trace.name for trace in figure.data] == ["cosent", "simcse", "simcse (temperature=0.2)"]


def test_published_numbers_stand_beside_with_their_own_model_and_data(runs: pd.DataFrame):
    published = pd.DataFrame(
        [
            ("table 2", "BERT-base", "SimCSE", "average", "76.25"),
            ("table 9", "BERT-base", "SimCSE", "average", "76.25"),
            ("table 2", "BERT-large", "SimCSE", "average", "78.41"),
            ("table 6 (deviation of 5 runs)", "BERT-base", "SimCSE", "average", "0.70"),
            ("table 2", "BERT-base", "SimCSE", "STS-B", "76.85"),
            ("table 4", "BERT-base", "SimCSE + RankEncoder", "average", "78.1"),
            ("table 5", "BERT-base", "RankCSE-ListNet, teacher DiffCSE + SimCSE", "average", "80.20"),
            ("table 9", "BERT-base", "DiffCSE", "average", "78.49"),
        ],
        columns=["table", "model", "method", "task", "value"],
    )
    beside = comparison.published_beside(runs, SUITE, published, "BERT-base")
    assert beside.index.tolist() == ["cosent", "simcse", "simcse", "simcse"]
    assert beside["published"].tolist() == ["", "", "", "76.25"]
    assert beside["measured here"].astype(bool).tolist() == [True, True, True, False]
    assert beside["data"].tolist() == [SUITE, SUITE, SUITE, "average"]
    assert beside["model"].tolist() == ["world-encoder"] * 3 + ["BERT-base"]
    assert beside["from"].iloc[-1] == "table 2; table 9"
    assert len(comparison.published_beside(runs, SUITE, published)) == 5


def test_the_papers_numbers_at_hand_are_numbers_of_known_tables():
    published = comparison.published_numbers()
    values = published["value"].astype(float)
    assert values.between(-100, 100).all()
    # A task has one name in all files, and "average" is that of the seven STS sets: others stand beside nothing.
    for _, row in published.groupby(["table", "model", "method"]):
        tasks = set(row["task"])
        assert ("TREC" in tasks) == ("SST" in tasks)
        assert "average" not in tasks or {f"STS{year}" for year in range(12, 17)} <= tasks or len(tasks) < 3
    simcse = published[(published["method"] == "SimCSE") & (published["model"] == "BERT-base")]
    assert float(simcse[simcse["task"] == "STS12"]["value"].iloc[0]) == 68.40  # RankCSE table 2


def test_rankings_of_runs_are_of_the_same_targets(runs: pd.DataFrame):
    tables = comparison.rankings_of_runs(runs, SUITE)
    assert list(tables) == ["before", "cosent", "simcse", "simcse (temperature=0.2)"]
    assert list(ranking_tables(tables)) == list(tables)
    chosen = comparison.rankings_of_runs(runs, SUITE, labels=["simcse"], before=False)
    assert list(chosen) == ["simcse"]
    with pytest.raises(ValueError, match="no runs 'simcs'; there are cosent, simcse"):
        comparison.rankings_of_runs(runs, SUITE, labels=["simcs"])


def test_without_runs_everything_is_empty_and_says_how_to_make_some(tmp_path: Path):
    empty = comparison.finished_runs(tmp_path, SUITE)
    assert "workbench run simcse" in comparison.no_runs(empty, tmp_path)
    tables = [
        comparison.seed_table(empty),
        comparison.intervals(empty, SUITE),
        comparison.paired_tests(empty, SUITE),
        comparison.parts(empty),
        comparison.published_beside(empty, SUITE, comparison.published_numbers()),
    ]
    assert [len(table) for table in tables] == [0] * 5
    assert score_intervals(tables[1], SUITE).layout.title.text == "No finished runs yet"
    assert part_scores(tables[3]).layout.title.text == "No finished runs yet"
    assert comparison.rankings_of_runs(empty, SUITE) == {}


def test_an_unknown_suite_or_baseline_is_refused_with_what_there_is(root: Path, runs: pd.DataFrame):
    with pytest.raises(ValueError, match="no finished run was scored on 'stsb-test'; they were scored on world-dev"):
        comparison.finished_runs(root, "stsb-test")
    with pytest.raises(ValueError, match="no runs 'rankcse'; there are cosent, simcse"):
        comparison.paired_tests(runs, SUITE, "rankcse")
