"""Choosing runs without a browser: what is ticked, what it gives, and what follows it."""

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from written_runs import PAIRS, SUITE, write_run

from workbench.config import CoSENTConfig, SimCSEConfig
from workbench.data import load_pairs
from workbench.errors import DataError
from workbench.look import (
    PairExplorer,
    RankingExplorer,
    RunPicker,
    compare,
    cosine_by_gold,
    finished_runs,
    intervals,
    most_changed,
    paired_tests,
    paper_figure,
    ranking_html,
    rankings_of_runs,
    response,
    runs_by_settings,
    scores_of_runs,
)
from workbench.metrics import spearman
from workbench.runs import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    root = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(root, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
    write_run(root, CoSENTConfig.from_parameters("demo", 7, {}), 0.5)
    return finished_runs(root, SUITE)


@pytest.fixture
def picker(runs: pd.DataFrame) -> RunPicker:
    return RunPicker(runs, SUITE)


def does(view: RunPicker, name: str, value: Any) -> None:
    """As the browser says it."""
    view._told(None, {name: value}, None)


def test_every_run_has_a_row_with_its_settings_seed_score_and_date(picker: RunPicker, runs: pd.DataFrame):
    rows = re.findall("<tr>(.*?)</tr>", picker.parts["list"])[1:]
    assert len(rows) == len(runs) == 3
    cells = [re.findall("<td[^>]*>(.*?)</td>", row) for row in rows]
    assert [(row[1], row[2]) for row in cells] == [("cosent", "7"), ("simcse", "0"), ("simcse", "1")]
    assert cells[1][3] == f"{100 * runs['spearman'][1]:.2f}"
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", row[4]) for row in cells)
    assert "3 of 3 runs ticked, all with demo" in picker.parts["status"], "what all share is said once"
    several = RunPicker(runs.assign(settings=["demo", "demo", "demo, temperature=0.1"]), SUITE).parts["list"]
    assert re.findall(r'<t. class="text[^>]*>(.*?)</t.>', several)[1::2] == ["settings", "", "", "temperature=0.1"]
    assert 'aria-label="simcse, seed 1" checked' in picker.parts["list"]


def test_what_is_ticked_is_what_tables_and_explorers_get(picker: RunPicker):
    assert list(picker.rankings) == ["before simcse", "before cosent", "cosent", "simcse"]
    does(picker, "run 0", False)
    assert picker.runs["label"].tolist() == ["simcse", "simcse"]
    does(picker, "before", False)
    assert list(picker.rankings) == list(picker.scores) == ["simcse"]
    assert "2 of 3 runs ticked" in picker.parts["status"]
    assert "cosent" not in picker.parts["means"]
    does(picker, "tick", "")
    assert picker.rankings == {}
    assert "No run is ticked" in picker.parts["means"]
    does(picker, "search", "cosent")
    does(picker, "tick", "all")
    assert picker.runs["label"].tolist() == ["cosent"], "all that are listed"


def test_each_run_is_compared_with_its_own_start(picker: RunPicker, runs: pd.DataFrame):
    starts = ["before simcse", "before cosent"]  # of another pooling
    assert list(picker.rankings) == list(picker.scores) == [*starts, "cosent", "simcse"]
    for name, path in zip(starts, runs["path"].iloc[[1, 0]], strict=True):
        pd.testing.assert_frame_equal(picker.rankings[name], Run(path).rankings("before"))
    explorer = RankingExplorer(picker.rankings, SUITE)
    assert (explorer.a, explorer.b) == ("before simcse", "simcse")
    does(picker, "run 0", False)
    assert list(picker.rankings) == ["before", "simcse"]


def test_of_runs_on_two_versions_of_a_suite_the_newest_are_ticked(tmp_path: Path):
    for temperature, version in ((0.1, "old"), (0.2, "new"), (0.3, "new")):
        run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {"temperature": temperature}), 1.0)
        run.record_suite(SUITE, "here", version)
        if version == "old":
            rewritten(run, run.rankings().iloc[5:], run.scores().iloc[:-5])
        run.record(ended=f"2030-01-0{round(10 * temperature)}")
    runs = finished_runs(tmp_path, SUITE)
    old, *new = runs["label"]
    picker = RunPicker(runs, SUITE)
    assert picker.runs["label"].tolist() == new
    assert RankingExplorer(picker.rankings, SUITE).labels == ["before", *new]
    assert len(paired_tests(picker.runs, SUITE, samples=9)) == 1
    said = f"; scored on another version of {SUITE}, so not ticked at first: {old}, seed 0"
    assert said in picker.parts["status"]
    assert said in picker._repr_mimebundle_()[0]["text/html"]
    assert RunPicker(runs, SUITE, labels=[old]).runs["label"].tolist() == [old]


def test_runs_of_one_start_share_it_and_other_weights_are_another_start(tmp_path: Path):
    for temperature, checksum in ((0.1, "a"), (0.2, "a"), (0.3, "b")):
        run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {"temperature": temperature}), 1.0)
        run.record_input("encoder", "here", checksum)
    runs = finished_runs(tmp_path, SUITE)
    first, second, third = runs["label"]
    assert list(scores_of_runs(runs, SUITE)) == [f"before {third}", f"before {first}", first, second, third]
    assert list(scores_of_runs(runs, SUITE, labels=[first, second])) == ["before", first, second]


def test_seeds_stand_one_by_one_or_averaged(runs: pd.DataFrame):
    each = rankings_of_runs(runs, SUITE, before=False, seeds="each")
    assert list(each) == ["cosent, seed 7", "simcse, seed 0", "simcse, seed 1"]
    mean = rankings_of_runs(runs, SUITE, before=False, seeds="mean")["simcse"]
    scores = (each["simcse, seed 0"]["score"].to_numpy() + each["simcse, seed 1"]["score"].to_numpy()) / 2
    assert mean["score"].to_numpy() == pytest.approx(scores)
    for _, rows in mean.groupby("query_id"):
        assert spearman(rows["score"], -rows["rank"]) == pytest.approx(1)
        assert sorted(rows["rank"]) == list(range(1, len(rows) + 1))
    found = scores_of_runs(runs, SUITE, before=False, seeds="mean")["simcse"]
    assert spearman(found["gold"], found["predicted"]) > runs["spearman"][1:].max(), "noise averages out"
    with pytest.raises(ValueError, match="seeds is 'all'; choose one of first, mean, each"):
        rankings_of_runs(runs, SUITE, seeds="all")


def test_seeds_of_other_pairs_have_no_mean(tmp_path: Path):
    for seed, pairs in ((0, 210), (1, 200)):
        write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 1.0, pairs=pairs)
    with pytest.raises(ValueError, match="seeds of simcse were scored on other pairs"):
        scores_of_runs(finished_runs(tmp_path, SUITE), SUITE, seeds="mean")


def rewritten(run: Run, rankings: pd.DataFrame, scores: pd.DataFrame | None = None) -> None:
    run.write_evaluation(run.metrics(), run.scores() if scores is None else scores, rankings)


def test_seeds_that_ranked_other_targets_are_refused_and_the_ticks_stay(tmp_path: Path):
    written = [write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 1.0) for seed in (0, 1, 2)]
    rewritten(written[2], written[2].rankings().iloc[5:])
    picker = RunPicker(finished_runs(tmp_path, SUITE), SUITE)
    explorer = RankingExplorer(picker.rankings, SUITE)
    pairs = PairExplorer(picker.scores, PAIRS)
    picker.feeds(explorer, pairs)
    does(picker, "seeds", "mean")
    assert picker.parts["problem"].count("look at them one by one") == 1
    every = [run.scores()["predicted"].to_numpy() for run in written]
    assert pairs.table["score: simcse"].to_numpy() == pytest.approx(np.mean(every, axis=0)), "their pairs have a mean"
    assert "3 of 3 runs ticked" in picker.parts["status"]
    assert explorer.labels == ["before", "simcse"], "it shows what it showed"
    does(picker, "run 2", False)
    assert picker.parts["problem"] == ""
    assert "2 of 3 runs ticked" in picker.parts["status"]


def test_seeds_of_the_same_pairs_have_a_mean_wherever_these_stand_in_the_files(tmp_path: Path):
    first, second = (write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 1.0) for seed in (0, 1))
    tables = [pd.concat([table.assign(suite="other"), table]) for table in (second.rankings(), second.scores())]
    rewritten(second, *tables)
    runs = finished_runs(tmp_path, SUITE)
    for found, given in ((rankings_of_runs, first.rankings), (scores_of_runs, first.scores)):
        assert len(found(runs, SUITE, seeds="mean")["simcse"]) == len(given())


def test_a_table_is_read_once_and_the_last_explorer_alone_is_fed(
    picker: RunPicker, runs: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
):
    old, new = (RankingExplorer(picker.rankings, SUITE) for _ in range(2))
    mine = picker.rankings["cosent"]
    mine["score"] = 0.0
    read = []
    reads = Run.rankings
    monkeypatch.setattr(Run, "rankings", lambda run, stage="": read.append(run.path) or reads(run, stage))
    picker.feeds(old)
    picker.feeds(new)
    for label in ("simcse", "cosent"):
        picker.select(labels=[label])
        assert (old.labels, new.labels) == (["before simcse", "before cosent", "cosent", "simcse"], ["before", label])
    assert new.selected["score: cosent"].abs().max() > 0
    assert not read
    run = Run(runs["path"].iloc[0])
    os.utime(run.path / "rankings.csv", (1, 1))
    assert list(picker.rankings) == ["before", "cosent"]
    assert run.path in read, "what is written anew is read anew"


def test_an_explorer_that_is_fed_follows_and_keeps_its_query(picker: RunPicker, runs: pd.DataFrame):
    explorer = RankingExplorer(picker.rankings, SUITE)
    picker.feeds(explorer)
    explorer.select(order="data", chosen="q3")
    does(picker, "seeds", "each")
    before = ["before simcse, seed 0", "before cosent, seed 7"]
    assert explorer.labels == [*before, "cosent, seed 7", "simcse, seed 0", "simcse, seed 1"]
    assert explorer.query_id == "q3"
    assert ">simcse, seed 1</th>" in explorer.parts["view"]
    picker.select(labels=["cosent"], before=False, seeds="mean")
    picker.select(labels=None, before=None, seeds=None)
    with pytest.raises(TypeError, match="lables"):
        picker.select(lables=None)
    assert (picker.before, picker.seeds) == (False, "mean"), "of what None is said, nothing is changed"
    picker.select(before=True)
    picker.select(before=None)
    assert picker.before, "likewise"
    picker.select(before=False)
    assert explorer.labels == ["cosent"]
    assert explorer.order == "data"
    does(picker, "tick", "")
    assert explorer.labels == ["cosent"], "of nothing it shows what it showed"
    picker.select(labels=["simcse"])
    picker.select(labels=[])
    assert picker.runs.empty
    assert explorer.labels == ["simcse"]
    picker.select(labels=["simcse"])
    later = RankingExplorer(rankings_of_runs(runs, SUITE, labels=["cosent"]), SUITE)
    picker.feeds(later)
    does(picker, "search", "cosent")
    assert later.labels == ["before", "cosent"]
    picker.select(labels=["simcse"])
    assert later.labels == ["simcse"], "what is chosen again is shown by who does not show it yet"


def test_labels_of_parameters_are_ticked_and_a_wrong_one_is_refused(runs: pd.DataFrame):
    assert set(RunPicker(runs, SUITE, labels=["simcse"]).runs["label"]) == {"simcse"}
    with pytest.raises(ValueError, match="no runs 'simcs'; there are cosent, simcse"):
        RunPicker(runs, SUITE, labels=["simcs"])


def test_without_a_kernel_what_is_ticked_stands_there_and_text_is_text(runs: pd.DataFrame):
    hostile = '<script>alert(1)</script> & "quotes" $1 to $2'
    view = RunPicker(runs.assign(label=hostile), SUITE)
    html = view._repr_mimebundle_()[0]["text/html"]
    assert html.count("✓") == 3
    assert "<input" not in html
    for part in [*view.parts.values(), html]:
        assert "<script" not in part


def test_without_runs_it_says_so(tmp_path: Path):
    view = RunPicker(finished_runs(tmp_path, SUITE), SUITE)
    assert "0 of 0 runs" in view.parts["status"]
    assert view.rankings == {}
    assert np.size(view.runs) == 0


def test_a_file_of_ones_own_is_a_suite_by_its_name_with_its_endings_or_without(tmp_path: Path):
    rows = zip(PAIRS.pair_id, PAIRS.sentence1, PAIRS.sentence2, PAIRS.gold, strict=True)
    table = pd.DataFrame(rows, columns=["id", "sentence1", "sentence2", "score"])
    table.to_csv(tmp_path / "mine.csv", index=False)
    assert len(RunPicker(finished_runs(tmp_path, SUITE), str(tmp_path / "mine.csv")).pairs) == len(PAIRS), "no run yet"
    for method in (SimCSEConfig, CoSENTConfig):
        config = method.from_parameters("demo", 0, {"suites": [str(tmp_path / "mine.csv")]})
        run = write_run(tmp_path / "runs", config, 1)
        for stage in ("before", ""):
            scores, rankings = (one.assign(suite="mine") for one in (run.scores(stage), run.rankings(stage)))
            scores["pair_id"] = load_pairs(tmp_path / "mine.csv").pair_id
            run.write_evaluation({"mine": run.metrics(stage)[SUITE]}, scores, rankings, stage)
    for suite in ("mine", "mine.csv", str(tmp_path / "mine.csv")):
        runs = finished_runs(tmp_path / "runs", suite)
        picker = RunPicker(runs, suite)
        assert RankingExplorer(picker.rankings, suite).suite == "mine"
        assert len(PairExplorer(picker.scores, picker.pairs, suite=suite).table) == len(PAIRS)
        assert len(intervals(runs, suite, samples=9)) == len(paired_tests(runs, suite, samples=9)) * 2 == 2
        assert list(compare(tmp_path / "runs", suites=[suite], tests=False, mixed=True).values) == ["mine"]
        assert len(response(tmp_path / "runs", "temperature", suite)) == 1
        assert "No query" not in most_changed(picker.rankings, suite=suite).html
        assert cosine_by_gold(picker.scores, suite).data
        assert ranking_html(picker.rankings, "q0", suite=suite).html
        assert paper_figure("rankencoder", 9, runs_by_settings(tmp_path / "runs"), profile="demo", suite=suite).data
    (tmp_path / "elsewhere").mkdir()
    moved = (tmp_path / "mine.csv").rename(tmp_path / "elsewhere" / "mine.csv")
    with pytest.raises(DataError, match=r"mine\.csv"):
        _ = picker.pairs
    assert len(RunPicker(runs, str(moved)).pairs) == len(PAIRS), "what is given and there is taken"


def test_pairs_follow_the_picker_and_keep_their_pair_and_their_limits(picker: RunPicker):
    explorer, queries = PairExplorer(picker.scores, PAIRS), RankingExplorer(picker.rankings, SUITE)
    picker.feeds(queries)
    picker.feeds(explorer)
    explorer.select(order="data", chart="gold", low=2, chosen=7)
    does(picker, "seeds", "each")
    assert queries.labels == explorer.labels
    assert explorer.labels[1:] == ["before cosent, seed 7", "cosent, seed 7", "simcse, seed 0", "simcse, seed 1"]
    assert (explorer.current(), explorer.low, explorer.chart) == (7, 2, "gold")
    assert "rank: simcse, seed 1" in explorer.selected
    assert "gold 2 to 3, simcse, seed 1" in explorer.parts["view"], "the chart beside it follows too"
    picker.select(labels=["cosent"], before=False, seeds="mean")
    assert explorer.labels == ["cosent"]
    does(picker, "tick", "")
    assert explorer.labels == ["cosent"], "of nothing it shows what it showed"
