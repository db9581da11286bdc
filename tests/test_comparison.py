"""Runs on disk become tables: spread over seeds, intervals, paired tests, and the papers' numbers beside."""

import math
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from written_runs import PAIRS, SUITE, write_run

from workbench.cli import overrides_of
from workbench.config import CONFIGS, SEVEN_STS, BaseConfig, CoSENTConfig, RankCSEConfig, SimCSEConfig
from workbench.data import TRANSFER
from workbench.metrics import spearman
from workbench.rankings import COLUMNS
from workbench.runs import Run, list_runs, select_runs
from workbench.views import (
    comparison,
    papers,
    part_scores,
    ranking_tables,
    rankings_of_runs,
    runs_by_settings,
    score_intervals,
)
from workbench.views.papers import commands


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


def test_a_run_is_compared_with_its_start_in_one_sentence(root: Path, tmp_path: Path):
    better = Run(next((root / "cosent").iterdir()))
    metrics = better.metrics(), better.metrics("before")
    gain = 100 * (metrics[0][SUITE]["spearman"] - metrics[1][SUITE]["spearman"])
    assert comparison.compare_with_start(better).startswith(
        f"Better than its start on {SUITE}: {gain:+.1f} spearman x 100, 95% interval +"
    )
    start, trained = better.scores("before"), better.scores()
    written = {"rankings": better.rankings(), "metrics": metrics[1]}
    worse, equal = (Run.create(SimCSEConfig.from_profile("demo", seed=seed), tmp_path) for seed in (0, 1))
    worse.write_evaluation(metrics[0], trained, written["rankings"], "before")
    worse.write_evaluation(written["metrics"], start, written["rankings"])
    sentence = comparison.compare_with_start(worse)
    assert f"Worse than its start on {SUITE}: {-gain:+.1f} spearman" in sentence
    assert "Try a lower learning_rate (now 0.001)" in sentence
    for stage in ("before", ""):
        equal.write_evaluation(written["metrics"], start, written["rankings"], stage)
    assert "Not clearly different from its start" in (sentence := comparison.compare_with_start(equal))
    assert "Try more training data" in sentence


def test_a_label_says_what_differs_and_no_more():
    words = {"mixed": ["a=1, b=2, c=3"], "rankcse": ["a=1, b=2", "a=1", "a=1, b=[x, y]"]}
    rows = [
        {"method": method, "profile": "demo", "changed": text, "seed": 0, "digest": "d", "settings": {"b": text[-2:]}}
        for method, texts in words.items()
        for text in texts
    ]
    assert comparison.labels_of(rows) == ["mixed", "rankcse (b=2)", "rankcse", "rankcse (b=[x, y])"]
    assert comparison.labels_of(rows, ["b"]) == ["mixed", "rankcse", "rankcse", "rankcse"]
    assert comparison.labels_of([rows[1], rows[1]]) == ["rankcse d"] * 2


def test_what_was_evaluated_is_called_as_the_encoder_and_what_was_made_of_it():
    model = {"encoder": "/models/mine", "kind": "pooling"}
    trained = {"encoder": "/runs/simcse/01234567-s0", "kind": "pooling"}
    ways = [model, model | {"kind": "whitening"}, model | {"kind": "tfidf"}, trained, model]
    changes = ["encoder=mine", "kind=whitening", "kind=tfidf", "encoder=simcse 01234567", "encoder=mine, pooling=cls"]
    rows = [
        {"method": "base", "profile": "", "changed": text, "seed": 0, "digest": text, "settings": settings}
        for text, settings in zip(changes, ways, strict=True)
    ]
    named = ["mine", "mine, whitening", "tfidf", "simcse 01234567-s0", "mine (pooling=cls)"]
    assert comparison.labels_of(rows) == named


def test_where_profiles_differ_too_the_label_says_which(tmp_path: Path):
    write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    paper = SimCSEConfig.from_parameters("paper", 0, {"encoder": "world-encoder", "suites": [SUITE]})
    write_run(tmp_path, paper, 1.0)
    labels = comparison.finished_runs(tmp_path, SUITE)["label"].tolist()
    assert labels[0] == "simcse (demo)"
    assert labels[1].startswith("simcse (paper, encoder=world-encoder")


def test_where_a_score_or_its_interval_is_undefined_column_and_seed_stand_there(runs: pd.DataFrame):
    table = comparison.seed_table(runs.assign(spearman=np.nan, kcc=np.nan))
    assert "Spearman" in table
    assert "KCC" not in table
    found = comparison.intervals(runs, SUITE, samples=5).assign(high=np.nan, low=np.nan)
    names = [trace for trace in score_intervals(found, SUITE).data if trace.mode == "text"]
    assert all(np.isfinite(np.asarray(trace.x, float)).all() for trace in names)


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


def test_runs_of_one_setting_are_tested_against_their_encoders_before_training(runs: pd.DataFrame, root: Path):
    simcse = runs.loc[runs["label"] == "simcse"]
    found = comparison.paired_tests(simcse, SUITE, samples=60)
    assert found["against"].tolist() == ["before, seed 0", "before, seed 1"]
    gains = (simcse["spearman"] - simcse["before"]).to_numpy()
    assert found["difference"].to_numpy() == pytest.approx(gains, abs=1e-12)
    assert found["mean"].to_numpy() == pytest.approx([gains.mean()] * 2, abs=1e-12)
    assert found["std"].to_numpy() == pytest.approx([gains.std(ddof=1)] * 2, abs=1e-12)
    assert "its own encoder before training" in comparison.what_there_is(simcse, root)
    assert "compared with simcse" in comparison.what_there_is(runs, root)
    every = comparison.every_run(root, runs)
    assert set(runs["seed"]) <= set(every["seed"])
    assert every["started"].dropna().str.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d").all()
    whole = select_runs(root)["changed"].dropna()
    assert (every["changed"].dropna().str.len() <= whole.str.len()).all()
    assert not set.intersection(*(set(text.split(", ")) for text in every["changed"].dropna())) - {""}
    assert len(comparison.paired_tests(runs, SUITE, "before", samples=5)) == len(runs)


def test_an_evaluation_is_not_asked_for_an_encoder_before_training(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    config = BaseConfig(encoder="world-encoder", suites=[SUITE])
    shutil.rmtree(write_run(tmp_path, config, 1.0).path / "before")
    alone = comparison.finished_runs(tmp_path, SUITE)
    assert alone["method"].tolist() == ["base"]
    assert alone["label"].tolist() == ["world-encoder"]
    assert comparison.in_words(comparison.paired_tests(alone, SUITE, samples=5)).empty
    write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    both = comparison.finished_runs(tmp_path, SUITE)
    assert comparison.paired_tests(both, SUITE, "before", samples=5)["label"].tolist() == ["simcse"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("low", "high", "std", "words"),
    [
        (-0.001, 0.02, 0.001, "not told apart"),
        (0.00001, 0.0002, 0.00001, "but under 0.1 points"),
        (0.005, 0.015, math.nan, "one seed"),
        (0.005, 0.015, 0.02, "within the deviation over seeds"),
        (0.005, 0.015, 0.005, "beyond the deviation over seeds"),
    ],
)
def test_a_small_p_value_alone_is_not_called_a_gain(low: float, high: float, std: float, words: str):
    middle = (low + high) / 2
    row = {"label": "a", "seed": 0, "against": "b", "difference": middle, "low": low, "high": high, "p_value": 0.001}
    (shown,) = comparison.in_words(pd.DataFrame([{**row, "mean": middle, "std": std}])).to_dict("records")
    assert words in shown["reads as"]
    assert shown["difference"] == f"{100 * middle:+.2f}"
    assert shown["p"] == "0.001"
    assert ("±" in shown["over seeds"]) is not math.isnan(std)


def write_seven(root: Path, seed: int) -> None:
    """A run scored on all seven STS sets, 30 pairs each with noise of its own, as `evaluate` leaves it behind."""
    run = Run.create(SimCSEConfig.from_parameters("demo", seed, {}), root)
    draw = np.random.default_rng(seed)
    for stage, noise in (("before", 4.0), ("", 1.0)):
        metrics, scores = {}, []
        for suite in SEVEN_STS:
            gold = PAIRS.gold[:30]
            predicted = gold + noise * draw.standard_normal(30)
            identity = {"suite": suite, "subset": "", "pair_id": PAIRS.pair_id[:30]}
            scores.append(pd.DataFrame({**identity, "gold": gold, "predicted": predicted}))
            metrics[suite] = {"spearman": spearman(gold, predicted), "n": 30, "kcc": 0.5, "ndcg": 0.9}
        names = ("spearman", "kcc", "ndcg")
        metrics["sts-average"] = {name: float(np.mean([metrics[s][name] for s in SEVEN_STS])) for name in names}
        run.write_evaluation(metrics, pd.concat(scores), pd.DataFrame(columns=list(COLUMNS)), stage)


def test_the_average_of_the_seven_sets_is_compared_like_a_suite(tmp_path: Path):
    write_seven(tmp_path, 0)
    write_seven(tmp_path, 1)
    runs = comparison.finished_runs(tmp_path, "sts-average")
    assert runs["pairs"].tolist() == [210, 210]
    table = comparison.seed_table(runs)
    assert (table.loc["simcse", "pairs"], table.loc["simcse", "queries"]) == (210, 0)
    assert table.loc["simcse", "KCC"] == "50.00 ± 0.00"
    found = comparison.intervals(runs, "sts-average", samples=60)
    assert found["label"].tolist() == ["before", "simcse", "simcse"]
    shown = [runs["before"][0], *runs["spearman"]]
    assert found["value"].to_numpy() == pytest.approx(np.array(shown), abs=1e-12)
    assert ((found["low"] < found["value"]) & (found["value"] < found["high"])).all()
    tests = comparison.paired_tests(runs, "sts-average", samples=60)
    gains = (runs["spearman"] - runs["before"]).to_numpy()
    assert tests["difference"].to_numpy() == pytest.approx(gains, abs=1e-12)
    assert tests["p_value"].tolist() == pytest.approx([1 / 61] * 2)
    assert not papers.published_beside(runs, "sts-average", papers.published_numbers(), "BERT-base").empty
    figure = score_intervals(found, "sts-average")
    dots = [trace for trace in figure.data if trace.mode == "markers"]
    assert [list(trace.text) for trace in dots] == [["seed 0"], ["seed 0", "seed 1"]]
    assert set(comparison.parts(runs)["label"]) == {"before", "simcse"}


def write_transfer(root: Path, seed: int) -> None:
    """A run that classified all seven transfer tasks, 40 rows each, better after training than before."""
    run = Run.create(SimCSEConfig.from_parameters("demo", seed, {}), root)
    draw = np.random.default_rng(seed)
    for stage, wrong in (("before", 0.5), ("", 0.1)):
        metrics, scores = {}, []
        for suite in TRANSFER:
            gold = draw.integers(0, 2, 40)
            predicted = np.where(np.arange(40) < 40 * wrong, 1 - gold, gold)
            identity = {"suite": suite, "subset": "", "pair_id": [str(i) for i in range(40)]}
            scores.append(pd.DataFrame({**identity, "gold": gold, "predicted": predicted}))
            metrics[suite] = {"accuracy": float(np.mean(gold == predicted)), "n": 40, "classifier": "sklearn"}
        metrics["transfer-average"] = {"accuracy": float(np.mean([metrics[s]["accuracy"] for s in TRANSFER]))}
        run.write_evaluation(metrics, pd.concat(scores), pd.DataFrame(columns=list(COLUMNS)), stage)


@pytest.mark.parametrize("suite", ["mr", "transfer-average"])
def test_transfer_accuracies_are_compared_like_correlations(tmp_path: Path, suite: str):
    for seed in (0, 1):
        write_transfer(tmp_path, seed)
    assert list_runs(tmp_path)[f"accuracy {suite}"].tolist() == pytest.approx([0.9, 0.9])
    runs = comparison.finished_runs(tmp_path, suite)
    table = comparison.seed_table(runs).loc["simcse"]
    assert (table["accuracy before"], table["accuracy"]) == ("50.00 ± 0.00", "90.00 ± 0.00")
    found = comparison.intervals(runs, suite, samples=60)
    assert found["value"].tolist() == pytest.approx([0.5, 0.9, 0.9])  # before, and two seeds
    assert ((found["low"] < found["value"]) & (found["high"] > found["value"])).all()
    assert set(comparison.parts(runs)["part"]) == {*TRANSFER, "transfer-average"}
    published = papers.published_beside(runs, suite, papers.published_numbers(), "BERT-base")
    assert published["measured here"].iloc[0] == "90.00 ± 0.00"
    assert "81.18" in published["published"].tolist() or suite != "mr"


def test_mrpc_classified_and_mrpc_ranked_are_two_published_numbers(tmp_path: Path):
    write_transfer(tmp_path, 0)
    runs = comparison.finished_runs(tmp_path, "mrpc")
    tables = {
        suite: papers.published_beside(runs, suite, papers.published_numbers()) for suite in ("mrpc", "mrpc-test")
    }
    assert "74.43" in tables["mrpc"]["published"].tolist()  # SimCSE in RankCSE table 3
    assert not set(tables["mrpc"]["from"]) & set(tables["mrpc-test"]["from"].iloc[1:])


@pytest.mark.parametrize("name", ["scores.csv", "rankings.csv", "before/scores.csv", "before/metrics.json"])
def test_a_run_that_cannot_be_read_is_named_and_left_out(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    whole = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    broken = write_run(tmp_path, CoSENTConfig.from_parameters("demo", 0, {}), 0.5)
    text = (broken.path / name).read_text(encoding="utf-8")
    (broken.path / name).write_text(text[: text.rindex("\n", 0, len(text) // 2)], encoding="utf-8")
    runs = comparison.finished_runs(tmp_path, SUITE)
    tables = rankings_of_runs(runs, SUITE)
    comparison.intervals(runs, SUITE, samples=5)
    comparison.paired_tests(runs, SUITE, "before", samples=5)
    assert len(comparison.parts(runs)) >= 3
    assert "simcse" in tables
    assert str(broken.path) in caplog.text
    assert "left out" in caplog.text
    assert str(whole.path) not in caplog.text


def test_a_copy_of_a_run_is_no_further_seed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    shutil.copytree(run.path, tmp_path / "of the other machine" / run.path.name)
    runs = comparison.finished_runs(tmp_path, SUITE)
    assert (runs["method"].tolist(), len(comparison.seed_table(runs))) == (["simcse"], 1)
    assert comparison.seed_table(runs).loc["simcse", "seeds"] == 1
    assert "so no further seed" in caplog.text


def test_the_command_of_settings_makes_just_their_run():
    settings = {
        "temperature": 1 / 30,
        "teachers": ["world-teacher", "world-encoder"],
        "teacher_weights": [1 / 3, 2 / 3],
        "teacher_pooling": {"world-teacher": "mask"},
        "teacher_template": {"world-teacher": 'It\'s "{sentence}": [MASK].'},
        "info_nce": False,
        "dropout": 0.15,
    }
    config = RankCSEConfig.from_parameters("demo", 0, settings)
    typed = [word for word in shlex.split(commands([config]))[5:] if word != "--set"]
    assert RankCSEConfig.from_parameters("demo", 0, overrides_of(typed)).digest() == config.digest()


def test_a_run_that_cannot_be_read_is_no_run_of_a_papers_row(tmp_path: Path):
    for seed in (0, 1):
        run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
    (run.path / "metrics.json").write_text("{")
    (found,) = runs_by_settings(tmp_path).values()
    assert [one.config.seed for one in found] == [0]


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
    beside = papers.published_beside(runs, SUITE, published, "BERT-base")
    assert beside.index.tolist() == ["cosent", "simcse", "simcse", "simcse"]
    assert beside["published"].tolist() == ["", "", "", "76.25"]
    assert beside["measured here"].astype(bool).tolist() == [True, True, True, False]
    assert beside["data"].tolist() == [SUITE, SUITE, SUITE, "average"]
    assert beside["model"].tolist() == ["world-encoder"] * 3 + ["BERT-base"]
    assert beside["from"].iloc[-1] == "table 2; table 9"
    assert len(papers.published_beside(runs, SUITE, published)) == 5


def test_the_papers_numbers_at_hand_are_numbers_of_known_tables():
    published = papers.published_numbers()
    values = published["value"].astype(float)
    assert values[~published["task"].isin(["batch size", "minutes"])].between(-100, 100).all()
    # A task has one name in all files, and "average" is that of the seven STS sets: others stand beside nothing.
    for _, row in published.groupby(["table", "model", "method"]):
        tasks = set(row["task"])
        assert ("TREC" in tasks) == ("SST" in tasks)
        assert "average" not in tasks or {f"STS{year}" for year in range(12, 17)} <= tasks or len(tasks) < 3
    simcse = published[(published["method"] == "SimCSE") & (published["model"] == "BERT-base")]
    assert float(simcse[simcse["task"] == "STS12"]["value"].iloc[0]) == 68.40  # RankCSE table 2


def test_rankings_of_runs_are_of_the_same_targets(runs: pd.DataFrame):
    tables = rankings_of_runs(runs, SUITE)
    assert list(tables) == ["before simcse", "before cosent", "cosent", "simcse", "simcse (temperature=0.2)"]
    assert list(ranking_tables(tables)) == list(tables)
    chosen = rankings_of_runs(runs, SUITE, labels=["simcse"], before=False)
    assert list(chosen) == ["simcse"]
    with pytest.raises(ValueError, match="no runs 'simcs'; there are cosent, simcse"):
        rankings_of_runs(runs, SUITE, labels=["simcs"])


def test_without_runs_everything_is_empty_and_says_how_to_make_some(tmp_path: Path):
    empty = comparison.finished_runs(tmp_path, SUITE)
    assert "workbench run simcse" in comparison.what_there_is(empty, tmp_path)
    tables = [
        comparison.seed_table(empty),
        comparison.intervals(empty, SUITE),
        comparison.paired_tests(empty, SUITE),
        comparison.parts(empty),
        papers.published_beside(empty, SUITE, papers.published_numbers()),
    ]
    assert [len(table) for table in tables] == [0] * 5
    assert score_intervals(tables[1], SUITE).layout.title.text == "No finished runs yet"
    assert part_scores(tables[3]).layout.title.text == "No finished runs yet"
    assert rankings_of_runs(empty, SUITE) == {}


@pytest.mark.parametrize("others", [False, True], ids=["no runs", "runs on other sets"])
def test_a_file_that_no_run_was_scored_on_has_no_runs_and_the_command_that_scores(
    tmp_path: Path, root: Path, others: bool
):
    file = tmp_path / "my pairs.csv"
    file.write_text("sentence1,sentence2,score\na,b,1\n")
    runs_root = root if others else tmp_path
    found = comparison.finished_runs(runs_root, str(file))
    assert found.empty
    said = comparison.what_there_is(found, runs_root, str(file))
    assert f"workbench evaluate MODEL --suites '{file}' --runs {runs_root}" in said
    assert "workbench run" not in said
    with pytest.raises(ValueError, match=r"no finished run was scored on 'absent'"):
        comparison.finished_runs(root, str(tmp_path / "absent.csv"))


def test_an_unknown_suite_or_baseline_is_refused_with_what_there_is(root: Path, runs: pd.DataFrame):
    with pytest.raises(ValueError, match="no finished run was scored on 'stsb-test'; they were scored on world-dev"):
        comparison.finished_runs(root, "stsb-test")
    with pytest.raises(ValueError, match="no runs 'rankcse'; there are cosent, simcse"):
        comparison.paired_tests(runs, SUITE, "rankcse")


def test_runs_that_learned_from_the_run_of_their_own_seed_are_seeds_of_one_label(tmp_path: Path):
    for seed in (0, 1):
        own = write_run(tmp_path, CONFIGS["simcse"].from_parameters("demo", seed), 1.0)
        write_run(tmp_path, CONFIGS["rankcse"].from_parameters("demo", seed, {"teachers": [str(own.path)]}), 1.0)
        write_run(tmp_path, CONFIGS["rankcse"].from_parameters("demo", seed), 1.0)
    labels = comparison.finished_runs(tmp_path, SUITE).groupby("label")["seed"].apply(list)
    digest = own.path.name.partition("-")[0]
    assert labels.to_dict() == {"simcse": [0, 1], "rankcse": [0, 1], f"rankcse (teachers=simcse {digest})": [0, 1]}
