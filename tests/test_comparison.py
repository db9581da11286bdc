"""Finished runs as tables: labels, spread over seeds, intervals, paired tests, and one table of all
labels."""

import math
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from typer.testing import CliRunner
from written_runs import SUITE, write_run

from workbench import views
from workbench.commands.app import app
from workbench.config import CONFIGS, BaselineConfig, CoSENTConfig, SimCSEConfig
from workbench.data import AVERAGES
from workbench.errors import DataError, EncoderError, SettingError
from workbench.evaluation import RANKING_COLUMNS
from workbench.metrics import smallest_difference, spearman
from workbench.runs import Run, finished_run, list_runs
from workbench.views.notebooks import table_html
from workbench.views.run_tables import label_runs

LABELS = ["cosent", "simcse", "simcse (temperature=0.2)"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs of three labels, two with two seeds, and an unfinished run."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
        write_run(folder, SimCSEConfig.from_parameters("demo", seed, {"temperature": 0.2}), 3.0)
    write_run(folder, CoSENTConfig.from_parameters("demo", 7, {}), 0.3)
    Run.open(SimCSEConfig.from_parameters("demo", 2, {}), folder)
    return folder


@pytest.fixture(scope="module")
def runs(root: Path) -> pd.DataFrame:
    return views.finished_runs(root, SUITE)


def test_runs_are_labelled_by_what_differs_and_their_seeds_have_mean_and_spread(runs: pd.DataFrame):
    assert list(zip(runs["label"], runs["seed"], strict=True)) == [
        *[("cosent", 7), ("simcse", 0), ("simcse", 1)],
        *[("simcse (temperature=0.2)", 0), ("simcse (temperature=0.2)", 1)],
    ]
    assert (runs["spearman"] > runs["before"]).all()
    table = views.seed_table(runs)
    values = 100 * runs.loc[runs["label"] == "simcse", "spearman"].to_numpy()
    assert table.loc["simcse", "Spearman"] == f"{values.mean():.2f} ({values.std(ddof=1):.2f})"
    assert "(standard deviation) over seeds" in table_html(table)
    few = views.seed_table(runs.assign(queries=[49, 50, 50, 49, 49]))
    assert (few["KCC"] == "").tolist() == (few["NDCG"] == "").tolist() == [True, False, True]
    assert "KCC" not in views.seed_table(runs.assign(queries=49)), (
        "a mean of few queries is not shown"
    )
    assert table["seeds"].tolist() == [1, 2, 2]
    undefined = views.seed_table(runs.assign(spearman=np.nan, kcc=np.nan))
    assert ("Spearman" in undefined, "KCC" in undefined) == (True, False)
    assert list(views.RunPicker(runs, SUITE, labels=LABELS).rankings) == [
        *(f"before {label}" for label in reversed(LABELS)),
        *LABELS,
    ]


def test_a_label_has_the_settings_that_differ_and_the_digest_if_these_are_not_enough():
    words = {"mixed": ["a=1, b=2, c=3"], "rankcse": ["a=1, b=2", "a=1", "a=1, b=[x, y]"]}
    rows = [
        {
            "method": method,
            "profile": "demo",
            "changed": text,
            "seed": 0,
            "digest": "d",
            "settings": {"b": text[-2:]},
        }
        for method, texts in words.items()
        for text in texts
    ]
    assert label_runs(rows) == ["mixed", "rankcse (b=2)", "rankcse", "rankcse (b=[x, y])"]
    assert label_runs([rows[1], rows[1]]) == ["rankcse d"] * 2
    assert label_runs([rows[2], rows[2] | {"profile": "paper"}]) == [
        "rankcse (demo)",
        "rankcse (paper)",
    ]
    shorter = rows[2] | {"changed": "suites=[x, y], eval_steps=5, a=2"}
    assert label_runs([rows[2], shorter]) == ["rankcse (a=1)", "rankcse (a=2)"]
    shorter = rows[2] | {"changed": "a=1, suites=[x, y]"}
    assert label_runs([rows[2], shorter]) == ["rankcse", "rankcse (suites=[x, y])"], (
        "nothing else tells them apart"
    )
    model = {"encoder": "/models/mine", "kind": "pooling"}
    ways = [model, model | {"kind": "whitening"}, model | {"kind": "tfidf"}, model]
    changes = ["encoder=mine", "kind=whitening", "kind=tfidf", "encoder=mine, pooling=cls"]
    rows = [
        {
            "method": "base",
            "profile": "",
            "changed": text,
            "seed": 0,
            "digest": text,
            "settings": settings,
        }
        for text, settings in zip(changes, ways, strict=True)
    ]
    assert label_runs(rows) == ["mine", "mine, whitening", "tfidf", "mine (pooling=cls)"]


def test_encoders_as_they_are_have_no_start_and_runs_of_runs_are_seeds_of_one_label(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    config = BaselineConfig(encoder="world-encoder", suites=[SUITE])
    shutil.rmtree(write_run(tmp_path, config, 1.0).path / "before")
    alone = views.finished_runs(tmp_path, SUITE)
    assert (alone["method"].tolist(), alone["label"].tolist()) == (["base"], ["world-encoder"])
    compared = views.compare_runs(alone, SUITE, samples=5)
    assert compared.table["system"].tolist() == ["world-encoder"]
    assert compared.verdicts() == [], "there is no start to compare it with"
    for seed in (0, 1):
        own = write_run(tmp_path, CONFIGS["simcse"].from_parameters("demo", seed), 1.0)
        write_run(
            tmp_path,
            CONFIGS["rankcse"].from_parameters("demo", seed, {"teachers": [str(own.path)]}),
            1.0,
        )
    every = views.finished_runs(tmp_path, SUITE)
    found = every.groupby("label")["seed"].apply(list)
    assert found.to_dict() == {"rankcse": [0, 1], "simcse": [0, 1], "world-encoder": [0]}
    compared = views.compare_runs(every, SUITE, "world-encoder", samples=5).table
    assert compared["paired_seeds"].dropna().tolist() == [2, 2], "it has no seeds of its own"
    assert not caplog.records


def test_each_run_has_its_interval_and_the_figure_shows_it(runs: pd.DataFrame):
    names = runs["label"] + ", seed " + runs["seed"].astype(str)
    compared = views.compare_runs(runs.assign(label=names), SUITE, samples=50)
    found = compared.table
    assert found["value"].to_numpy() == pytest.approx(runs["spearman"].to_numpy(), abs=1e-12)
    assert ((found["low"] < found["value"]) & (found["value"] < found["high"])).all()
    figure = views.score_intervals(compared)
    drawn = [trace.name.replace("<br>", " ") for trace in figure.data]
    assert drawn == list(found["system"])
    rows = [trace.y[0].replace("<br>", " ") for trace in figure.data]
    assert rows == [f"{SUITE}: {name}" for name in found["system"]]
    assert figure.data[1].x[0] == pytest.approx(100 * found["value"][1])
    assert figure.data[1].error_x.array[0] == pytest.approx(
        100 * (found["high"] - found["value"])[1]
    )
    assert figure.data[1].error_x.arrayminus[0] == pytest.approx(
        100 * (found["value"] - found["low"])[1]
    )


def test_on_several_suites_the_figure_has_a_row_for_each(tmp_path: Path):
    for seed in (0, 1):
        write_sets(tmp_path, seed, "sts-average")
    runs = views.finished_runs(tmp_path, "sts-average")
    compared = views.compare_runs(runs, [], samples=20)
    assert set(compared.table["suite"]) == {*AVERAGES["sts-average"], "sts-average"}
    before, trained = views.score_intervals(compared).data
    assert (before.name, trained.name) == ("before", "simcse")
    assert len(trained.y) == len(before.y) == 8
    two = views.compare_runs(runs, ["stsb-test", "sick-test"], samples=20).table
    assert two["suite"].tolist() == ["stsb-test"] * 2 + ["sick-test"] * 2


def test_of_several_seeds_some_may_lack_a_suite(tmp_path: Path):
    for seed in (0, 1):
        run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
    write_run(tmp_path, CoSENTConfig.from_parameters("demo", 1, {}), 1.0)
    metrics, scores = run.metrics(), run.scores()
    for seed_and_method in (run, Run(next((tmp_path / "cosent").iterdir()))):
        more = scores.assign(suite="other", predicted=-scores["predicted"])
        own = seed_and_method.scores()
        seed_and_method.write_evaluation(
            seed_and_method.metrics() | {"other": metrics[SUITE] | {"spearman": -0.5}},
            pd.concat([own, more], ignore_index=True),
            seed_and_method.rankings(),
        )
    runs = views.finished_runs(tmp_path, SUITE)
    table = views.compare_runs(runs, [], samples=20).table.set_index(["suite", "system"])
    assert table.loc[(SUITE, "simcse"), "seeds"] == 2
    assert table.loc[("other", "simcse"), "seeds"] == 1
    assert table.loc[("other", "cosent"), "value"] == pytest.approx(
        table.loc[("other", "simcse"), "value"]
    )


def test_a_run_is_compared_with_its_start_in_one_sentence(root: Path, tmp_path: Path):
    better = Run(next((root / "cosent").iterdir()))
    metrics = better.metrics(), better.metrics("before")
    gain = 100 * (metrics[0][SUITE]["spearman"] - metrics[1][SUITE]["spearman"])
    sentence = views.compare_with_start(better)
    assert sentence.startswith(
        f"cosent is better than its start on {SUITE}: {gain:+.1f} Spearman x 100, 95% interval "
    )
    start, trained, rankings = better.scores("before"), better.scores(), better.rankings()
    worse, equal = (Run.open(SimCSEConfig(profile="demo", seed=seed), tmp_path) for seed in (0, 1))
    worse.write_evaluation(metrics[0], trained, rankings, "before")
    worse.write_evaluation(metrics[1], start, rankings)
    sentence = views.compare_with_start(worse)
    assert f"simcse is worse than its start on {SUITE}: {-gain:+.1f} Spearman" in sentence
    assert "Try a lower learning_rate" in sentence
    for stage in ("before", ""):
        equal.write_evaluation(metrics[1], start, rankings, stage)
    assert "No clear difference between simcse and its start" in views.compare_with_start(equal)
    equal.record(settings={"keep_start": True})
    pd.DataFrame({"step": [0, 10], "dev_spearman": [0.5, 0.4]}).to_csv(equal.path / "history.csv")
    assert views.compare_with_start(equal).startswith("It is its start: no step was better on dev")
    assert views.result_line(equal).endswith("dev 50.00 -> 50.00, kept the start")


@pytest.mark.parametrize("column", ["gold", "predicted"])
def test_a_run_without_a_correlation_is_told_why(column: str, root: Path, tmp_path: Path):
    scored = Run(next((root / "cosent").iterdir()))
    metrics = {SUITE: scored.metrics()[SUITE] | {"spearman": math.nan}}
    flat = Run.open(SimCSEConfig(profile="demo", seed=0), tmp_path)
    for stage in ("before", ""):
        flat.write_evaluation(
            metrics, scored.scores().assign(**{column: 0.5}), scored.rankings(), stage
        )
    sentence = views.compare_with_start(flat)
    assert "cannot be compared: all gold scores, or all scores of one, are equal" in sentence
    assert sentence.endswith("Use another suite or a lower learning_rate.")
    assert "nan" not in sentence


def test_labels_are_compared_by_seed_and_one_label_with_its_start(runs: pd.DataFrame, root: Path):
    found = views.compare_runs(runs, SUITE, "simcse", samples=60)
    rows = found.table.set_index("system")
    assert list(rows.index) == LABELS
    assert rows["paired_seeds"].dropna().to_dict() == {"cosent": 1, LABELS[2]: 2}
    assert rows.loc["cosent", "difference"] == pytest.approx(
        runs["spearman"][0] - runs["spearman"][1], abs=1e-12
    )
    assert rows.loc["cosent", "p_value"] == pytest.approx(1 / 61), "so few say nothing more"
    again = views.compare_runs(runs, SUITE, samples=60)
    pd.testing.assert_frame_equal(again.table, found.table, obj="SimCSE is the baseline")
    # The seed that the baseline lacks is left out, and one seed has no interval over seeds.
    one = views.compare_runs(runs.drop(index=2), SUITE, samples=5).table.set_index("system")
    assert one.loc[LABELS[2], "paired_seeds"] == 1
    assert math.isnan(one.loc[LABELS[2], "seed_std"])
    simcse = runs.loc[runs["label"] == "simcse"]
    start, trained = views.compare_runs(simcse, SUITE, samples=60).table.to_dict("records")
    assert (start["system"], trained["system"]) == ("before", "simcse")
    assert start["value"] == pytest.approx(simcse["before"].mean(), abs=1e-12)
    gains = (simcse["spearman"] - simcse["before"]).to_numpy()
    assert trained["difference"] == pytest.approx(gains.mean(), abs=1e-12)
    assert trained["seed_std"] == pytest.approx(gains.std(ddof=1), abs=1e-12)
    # Over seeds and pairs: wider than Student's t over seeds alone.
    low, high = scipy.stats.t.interval(0.95, 1, gains.mean(), scipy.stats.sem(gains))
    assert trained["difference_low"] < low
    assert trained["difference_high"] > high
    assert trained["difference_high"] == pytest.approx(high, abs=0.1)
    assert views.describe_runs(runs, root) == f"{len(runs)} finished runs under {root}"


def test_before_is_one_system_for_labels_with_the_same_start(runs: pd.DataFrame):
    # Cosent has a seed of its own, the two settings of SimCSE have seeds in common.
    two = runs[runs["label"] != "simcse"]
    found = views.compare_runs(two, SUITE, "before", samples=20).table.set_index("system")
    assert found["paired_seeds"].dropna().to_dict() == {"cosent": 1, LABELS[2]: 2}
    gains = two["spearman"] - two["before"]
    assert found.loc["cosent", "difference"] == pytest.approx(gains.iloc[0], abs=1e-12)
    assert found.loc[LABELS[2], "difference"] == pytest.approx(gains.iloc[1:].mean(), abs=1e-12)
    with pytest.raises(SettingError, match="one seed began with different encoders"):
        views.compare_runs(runs, SUITE, "before", samples=20)


def test_the_smallest_difference_follows_from_seeds_and_pairs_and_is_printed(
    root: Path, runs: pd.DataFrame
):
    compared = views.compare_runs(runs, SUITE, samples=200).table.set_index("system")
    one = views.smallest_differences(compared.loc["cosent"])
    assert one.index.tolist() == [52, 210, 840]
    assert one.columns.tolist() == list(range(2, 11))
    assert one.isna().all(axis=None), "one seed says nothing about others"
    two = compared.loc[LABELS[2]]
    scores = runs.pivot(index="seed", columns="label", values="spearman").dropna(subset="simcse")
    difference = scores[LABELS[2]] - scores["simcse"]
    assert two["seed_std"] == pytest.approx(difference.std())
    smallest = views.smallest_differences(two)
    assert smallest.loc[210, 2] == pytest.approx(two["smallest"]), "as in the comparison"
    assert (smallest[2] > 2 * smallest[5]).all(), "two seeds say little"
    for times, pairs in ((0.25, 52), (4, 840)):
        pairs_std = two["pairs_std"] / times**0.5
        expected = smallest_difference(two["seed_std"], 3, pairs_std=pairs_std)
        assert smallest.loc[pairs, 3] == pytest.approx(expected)
    simcse = runs[runs["label"] == "simcse"]
    alone = views.compare_runs(simcse, SUITE, samples=200)
    assert alone.baseline == "before"
    gains = simcse["spearman"] - simcse["before"]
    assert alone.table["seed_std"].iloc[1] == pytest.approx(gains.std())
    asked = ["power", SUITE, "--runs", str(root)]
    printed = CliRunner().invoke(app, asked).output
    assert "cosent against simcse: needs at least two seeds that both have" in printed
    shown = 100 * smallest.loc[210, 2]
    assert f"{shown:.2f}" in printed
    assert CliRunner().invoke(app, [*asked, "--baseline", "x"]).exit_code


def test_a_comparison_leaves_out_a_broken_run_with_a_warning(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = Path(shutil.copytree(root, tmp_path / "runs"))
    runs = views.finished_runs(folder, SUITE)
    broken = Path(runs.loc[runs["label"] == "cosent", "path"].item())
    (broken / "scores.csv").write_text("suite\n")
    found = views.compare_runs(runs, SUITE, samples=20).table
    assert found["system"].tolist() == LABELS[1:]
    (message,) = caplog.messages
    assert message.startswith(
        f"left out: {broken}: {broken / 'scores.csv'} is not what the run wrote"
    )


def test_no_zero_has_a_sign():
    assert "-0.0" not in table_html(pd.DataFrame({"x": [-0.001, 0.5]}).round(2))


def write_sets(root: Path, seed: int, average: str) -> None:
    """Write a run with scores on seven sets, better after training, for pairs or classes."""
    run, draw = (
        Run.open(SimCSEConfig.from_parameters("demo", seed, {}), root),
        np.random.default_rng(seed),
    )
    for stage, noise in (("before", 4.0), ("", 1.0)):
        metrics, scores = {}, []
        for suite in AVERAGES[average]:
            if average == "sts-average":
                gold = np.arange(30) % 6
                predicted = gold + noise * draw.standard_normal(30)
                metrics[suite] = {
                    "spearman": spearman(gold, predicted),
                    "n": 30,
                    "kcc": 0.5,
                    "ndcg": 0.9,
                }
            else:
                gold = np.arange(30) % 2
                predicted = np.where(np.arange(30) < 5 * noise, 1 - gold, gold)
                metrics[suite] = {
                    "accuracy": float(np.mean(gold == predicted)),
                    "n": 30,
                    "classifier": "sklearn",
                }
            identity = {"suite": suite, "subset": "", "pair_id": list(map(str, range(30)))}
            scores.append(pd.DataFrame({**identity, "gold": gold, "predicted": predicted}))
        names = {"spearman", "kcc", "ndcg", "accuracy"} & metrics[suite].keys()
        metrics[average] = {
            name: float(np.mean([one[name] for one in metrics.values()])) for name in names
        }
        run.write_evaluation(
            metrics, pd.concat(scores), pd.DataFrame(columns=list(RANKING_COLUMNS)), stage
        )


@pytest.mark.parametrize(
    ("average", "measure"), [("sts-average", "spearman"), ("transfer-average", "accuracy")]
)
def test_the_average_of_seven_sets_is_compared_like_a_suite(
    tmp_path: Path, average: str, measure: str
):
    for seed in (0, 1):
        write_sets(tmp_path, seed, average)
    runs = views.finished_runs(tmp_path, average)
    table = views.seed_table(runs).loc["simcse"]
    assert (table["pairs"], table["queries"], table["seeds"]) == (210, 0, 2)
    found = views.compare_runs(runs, average, samples=60).table
    assert found["system"].tolist() == ["before", "simcse"]
    assert found["value"].to_numpy() == pytest.approx(
        np.array([runs["before"].mean(), runs[measure].mean()]), abs=1e-12
    )
    assert ((found["low"] < found["value"]) & (found["value"] < found["high"])).all()
    gained = found.iloc[1]
    assert (gained["measure"], gained["paired_seeds"]) == (measure, 2)
    assert gained["difference"] == pytest.approx((runs[measure] - runs["before"]).mean(), abs=1e-12)
    one = views.compare_runs(runs[:1], average, samples=60).table.iloc[1]
    assert one["p_value"] == pytest.approx(1 / 61)
    shown = dict(views.compare_runs(runs, average, samples=60).tables())
    assert "KCC" not in shown[average], "an average counts no queries"
    alone = views.compare_systems(tmp_path, samples=60)
    assert alone.table["p_value"].isna().all(), "a single label is a table without marks"
    (of_average,) = alone.table.loc[alone.table["suite"] == average, "value"]
    assert of_average == pytest.approx(runs[measure].mean(), abs=1e-12)


def test_further_metrics_are_means_over_seeds(root: Path):
    found = views.compare_runs(views.finished_runs(root, SUITE), SUITE, samples=20).table
    own = found.set_index("system").loc["simcse"]
    configs = [SimCSEConfig.from_parameters("demo", seed, {}) for seed in (0, 1)]
    metrics = [finished_run(config, root).metrics()[SUITE] for config in configs]
    for name in ("kcc", "ndcg", "queries"):
        assert own[name] == pytest.approx(np.mean([one[name] for one in metrics]))
    assert metrics[0]["kcc"] != metrics[1]["kcc"]


def test_a_run_that_cannot_be_read_and_a_copy_are_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    whole = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    broken = write_run(tmp_path, CoSENTConfig.from_parameters("demo", 0, {}), 0.5)
    for name in ("scores.csv", "before/scores.csv", "before/metrics.json"):
        caplog.clear()
        file, text = broken.path / name, (broken.path / name).read_text(encoding="utf-8")
        file.write_text(text[: text.rindex("\n", 0, len(text) // 2)], encoding="utf-8")
        runs = views.finished_runs(tmp_path, SUITE)
        views.compare_runs(runs, SUITE, samples=5)
        views.compare_runs(runs[runs["label"] == "cosent"], SUITE, "before", samples=5)
        assert f"left out: {broken.path}" in caplog.text
        assert str(whole.path) not in caplog.text
        file.write_text(text, encoding="utf-8")
    shutil.copytree(whole.path, tmp_path / "of the other machine" / whole.path.name)
    assert views.seed_table(views.finished_runs(tmp_path, SUITE))["seeds"].to_dict() == {
        "cosent": 1,
        "simcse": 1,
    }
    assert "so no further seed" in caplog.text


def test_without_runs_everything_is_empty_and_names_the_command_that_makes_some(
    tmp_path: Path, root: Path
):
    empty, file = views.finished_runs(tmp_path, SUITE), tmp_path / "my pairs.csv"
    assert "workbench run simcse" in views.describe_runs(empty, tmp_path)
    compared = views.compare_runs(empty, SUITE)
    assert (len(views.seed_table(empty)), len(compared.table)) == (0, 0)
    assert compared.to_html().startswith("<ul></ul>")
    assert views.score_intervals(compared).layout.title.text == "No finished runs yet"
    file.write_text("sentence1,sentence2,score\na,b,1\n")
    for runs_root in (root, tmp_path):
        command = f"workbench evaluate MODEL --suites '{file}' --runs {shlex.quote(str(runs_root))}"
        text = views.describe_runs(views.finished_runs(runs_root, str(file)), runs_root, str(file))
        assert command in text


def test_unknown_names_and_other_pairs_are_refused(root: Path, runs: pd.DataFrame, tmp_path: Path):
    with pytest.raises(
        DataError, match=r"no suite 'world-de' of a finished run.*; did you mean 'world-dev'"
    ):
        views.finished_runs(root, "world-de")
    assert views.finished_runs(root, "stsb-test").empty
    with pytest.raises(SettingError, match=r"no runs 'rankcse' on this suite .*cosent, simcse"):
        views.compare_runs(runs, SUITE, "rankcse")
    with pytest.raises(SettingError, match=r"no system 'rankcse' among .*known: cosent"):
        views.compare_systems(root, baseline="rankcse", samples=5)
    (tmp_path / "none").mkdir()
    with pytest.raises(EncoderError, match=r"none has no config\.json"):
        views.compare_systems(tmp_path / "none")
    write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    write_run(tmp_path, CoSENTConfig.from_parameters("demo", 0, {}), 1.0, pairs=100)
    fewer = views.compare_runs(views.finished_runs(tmp_path, SUITE), SUITE, samples=5)
    assert fewer.table["pairs"].tolist() == [100, 100]
    (note,) = fewer.notes
    assert "110" in note, "the pairs that only one of them scored"


def test_a_label_that_is_better_is_marked_and_the_table_is_exported(root: Path):
    found = views.compare_systems(root, samples=200)
    assert found.baseline == "simcse"
    rows = found.table.set_index("system")
    assert rows["paired_seeds"].dropna().to_dict() == {"cosent": 1, "simcse (temperature=0.2)": 2}
    # The runs of cosent and simcse have no seed in common: the first of each is compared.
    assert 0 < rows.loc["cosent", "p_value"] <= 1 / 201
    assert rows.loc["cosent", "adjusted"] == pytest.approx(2 * rows.loc["cosent", "p_value"])
    cells = found.overview()[SUITE]
    assert cells["cosent"].endswith(" ↑")
    assert "±" in cells["simcse"]
    better, other = found.verdicts()
    assert better.startswith("cosent is better than simcse on world-dev: +")
    tempered = rows.loc["simcse (temperature=0.2)"]
    is_clear = tempered["adjusted"] < 0.05
    assert is_clear == (tempered["difference_high"] < 0)
    assert other.startswith(
        "simcse (temperature=0.2) is worse" if is_clear else "No clear difference between"
    )
    five = views.compare_systems(root, samples=5).table.set_index("system")
    assert five.loc["cosent", "adjusted"] > 0.05, "five permutations cannot be significant"
    assert "KCC" not in found.to_latex(), "of fewer than 50 queries"
    assert found.to_latex().splitlines()[1:3] == [
        f"\\begin{{tabular}}{{l{'r' * 9}}}",
        "\\toprule",
    ]
    assert "Holm" in found.to_html()
    # The texts as numbers.
    mean, std = 100 * rows.loc["simcse", ["value", "std"]]
    assert cells["simcse"] == f"{mean:.2f} ± {std:.2f}"
    assert np.isnan(rows.loc["cosent", "std"])


@pytest.mark.parametrize("function", ["compare_runs", "RunPicker", "phenomena"])
def test_the_table_of_list_runs_is_refused_with_the_function_that_makes_the_right_one(
    function: str, root: Path
):
    with pytest.raises(SettingError, match=r"no column label; take views\.finished_runs\("):
        getattr(views, function)(list_runs(root), SUITE)
    with pytest.raises(SettingError, match=r"take views\.finished_runs"):
        views.seed_table(list_runs(root))


def test_runs_of_other_data_are_not_averaged(tmp_path: Path):
    for seed in (0, 1):
        run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
        run.record({"train": ("x", str(seed) * 64)})
    with pytest.raises(ValueError, match="simcse: runs of different train have no mean"):
        views.compare_systems(tmp_path, samples=5)


def test_texts_of_a_suite_that_differ_between_runs_are_noted(tmp_path: Path):
    for temperature in (0.05, 0.1):
        config = SimCSEConfig.from_parameters("demo", 0, {"temperature": temperature})
        run = write_run(tmp_path, config, 1.0)
        (suite,) = run.metrics()
        run.record({suite: ("mine.csv", str(temperature))})
    notes = views.compare_systems(tmp_path, samples=5).notes
    assert f"{suite}: runs read it with other texts, though with this gold" in notes


def test_seeds_may_begin_with_weights_of_their_own(tmp_path: Path):
    for seed in (0, 1):
        run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
        run.record({"encoder": (f"folder:/runs/{seed}", str(seed) * 64)})
    views.compare_systems(tmp_path, samples=5)


def test_a_comparison_names_the_run_that_it_leaves_out(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path / "runs"
    shutil.copytree(root, folder)
    changed = next(folder.glob("cosent/*/scores.csv"))
    changed.write_text(changed.read_text().replace(",0.", ",1."))
    systems = views.compare_systems(folder, samples=5).table["system"]
    assert set(systems) == {"simcse", "simcse (temperature=0.2)"}
    assert "left out" in caplog.text
    assert str(changed) in caplog.text


def test_a_copy_of_a_run_is_no_further_seed_of_a_comparison(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = tmp_path / "runs"
    shutil.copytree(root, folder)
    alone = views.compare_systems(folder, samples=5)
    (run,) = [path for path in (folder / "cosent").iterdir() if path.is_dir()]
    shutil.copytree(run, folder / "copied" / run.name)
    both = views.compare_systems(folder, samples=5)
    assert both.overview().equals(alone.overview())
    assert "no further seed" in caplog.text
