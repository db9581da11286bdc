"""Tables and figures of the papers: every number in one, every command documented, runs fill their cells."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from test_docs import COMMANDS, EVALUATES, evaluated, resolved
from written_runs import SUITE, write_run

from workbench.cli import overrides_of
from workbench.config import (
    SEVEN_STS,
    BaseConfig,
    CompCSEConfig,
    CoSENTConfig,
    RankCSEConfig,
    SimCSEConfig,
    TrainingConfig,
)
from workbench.errors import SettingError
from workbench.rankings import COLUMNS
from workbench.runs import Run
from workbench.views import (
    finished_runs,
    paper_figure,
    paper_table,
    papers,
    published_numbers,
    runs_by_settings,
)
from workbench.views.paper_tables import TRANSFER
from workbench.views.papers import commands, layout, on_the_world, paper_cells, settings_key, settings_of

PAPERS = ("rankcse", "compcse", "cosent", "rankencoder")
TABLES = [(paper, table) for paper in PAPERS for table in layout(paper)["tables"]]
FIGURES = [(paper, figure) for paper in PAPERS for figure in layout(paper)["figures"]]


def finished(root: Path, config: TrainingConfig, metrics: dict, rankings: pd.DataFrame | None = None) -> Run:
    """A run of these settings with these numbers, as if it had been trained and evaluated."""
    run = Run.create(config, root)
    history = {"step": [0, 5, 10], "epoch": [0, 0.5, 1.0], "loss": [np.nan, 2, 1], "seconds": [0, 30.0, 60.0]}
    history |= {"dev_spearman": [0.2, 0.7, 0.6], "dev_alignment": [0.3, 0.2, 0.1], "dev_uniformity": [-1, -2, -3]}
    pd.DataFrame(history).to_csv(run.path / "history.csv", index=False)
    scores = pd.DataFrame(columns=["suite", "subset", "pair_id", "gold", "predicted"])
    run.write_evaluation(metrics, scores, pd.DataFrame(columns=list(COLUMNS)) if rankings is None else rankings)
    run.release()
    return run


def test_every_published_number_stands_in_one_table():
    shown = [cell.value for paper, table in TABLES for cell in paper_cells(paper, table)]
    numbers = published_numbers()
    assert len(shown) == len(numbers) - numbers["table"].str.contains("deviation").sum()
    assert len(shown) > 1_500


@pytest.mark.parametrize(("paper", "table"), TABLES)
def test_without_runs_a_table_has_its_numbers_and_the_commands_that_fill_it(paper: str, table: str):
    found = paper_table(paper, table, {})
    printed = found.xs("published", level=1).drop(columns="command").to_numpy()
    assert sorted(filter(None, printed.ravel())) == sorted(cell.value for cell in paper_cells(paper, table))
    if "here" in found.index.get_level_values(1):
        here = found.xs("here", level=1)
        assert (here.drop(columns="command") == "").all(axis=None)
        assert here["command"].str.contains("workbench (?:run|evaluate) ").all()
    assert table in found.attrs["title"]


def test_a_row_without_a_transfer_task_is_made_by_a_documented_command():
    known = {settings_key(resolved(command)) for command in COMMANDS if "--profile paper" in command}
    known |= {settings_key(SimCSEConfig.from_parameters("paper", 0, {"batch_size": 128}))}
    known |= {settings_key(SimCSEConfig.from_parameters("paper-bert-large", 0, {"batch_size": 128}))}
    known |= {settings_key(evaluated(c, {})) for c in EVALUATES if not re.search("FOLDER|MODEL|RUN", c)}
    made = [cell for paper, table in TABLES for cell in paper_cells(paper, table) if cell.config is not None]
    lacking = {commands([cell.config]) for cell in made if settings_key(cell.config) not in known}
    assert lacking == set()
    assert len(made) > 800


def test_runs_fill_the_cells_of_their_settings_whatever_they_were_scored_on(tmp_path: Path):
    seven = {name: {"spearman": 0.7, "n": 9, "kcc": 0.5, "ndcg": 0.9} for name in SEVEN_STS}
    for seed, value in enumerate((0.79, 0.81)):
        average = {"sts-average": {"spearman": value, "kcc": 0.5, "ndcg": 0.9}}
        finished(tmp_path, RankCSEConfig.from_parameters("paper", seed), seven | average)
    transfer = {name: {"accuracy": 0.8, "n": 9} for name in TRANSFER.values()} | {"transfer-average": {"accuracy": 0.8}}
    ablation = {"beta": 0, "suites": ["stsb-dev"]}
    finished(tmp_path, RankCSEConfig.from_parameters("paper", 0, ablation), transfer)
    runs = runs_by_settings(tmp_path)
    row = paper_table("rankcse", 2, runs).loc[("BERT-base, RankCSE-ListNet", "here")]
    assert row["average"] == "80.00 ± 1.41"
    assert row["command"] == ""
    ablated = paper_table("rankcse", 4, runs)
    whole = ablated.loc[("BERT-base, RankCSE-ListNet", "here")]
    assert whole["transfer average"] == ""
    assert "suites=mr,cr,subj,mpqa,sst2,trec,mrpc" in whole["command"]
    without = ablated.loc[("BERT-base, RankCSE-ListNet without consistency", "here")]
    assert (without["average"], without["transfer average"]) == ("", "80.00")
    assert paper_table("rankcse", 13, runs).loc[("BERT-base, RankCSE", "here"), "average KCC"].startswith("50.00")


def test_what_evaluate_keeps_of_an_encoder_fills_the_rows_of_bases(tmp_path: Path):
    seven = {name: {"spearman": 0.3, "n": 9} for name in SEVEN_STS} | {"sts-average": {"spearman": 0.29}}
    run = Run.create(BaseConfig.from_parameters("cls"), tmp_path)
    scores = pd.DataFrame(columns=["suite", "subset", "pair_id", "gold", "predicted"])
    run.write_evaluation(seven, scores, pd.DataFrame(columns=list(COLUMNS)))
    run.release()
    table = paper_table("cosent", "III", runs_by_settings(tmp_path))
    assert table.loc[("BERT-base, BERT CLS-vector", "here"), "average"] == "29.00"
    other = table.loc[("BERT-base, Avg. BERT embeddings", "here")]
    assert (other["average"], other["command"]) == ("", "workbench evaluate bert-base-uncased --profile mean")


def test_what_a_run_says_of_its_training_stands_in_the_tables_of_that(tmp_path: Path):
    finished(tmp_path, RankCSEConfig.from_parameters("paper"), {})
    finished(tmp_path, SimCSEConfig.from_parameters("paper"), {})
    finished(tmp_path, CompCSEConfig.from_parameters("paper"), {})
    runs = runs_by_settings(tmp_path)
    assert paper_table("compcse", 6, runs).loc[("BERT-base", "here"), "256"] == "70.00"
    times = paper_table("rankcse", 11, runs)
    assert times.loc[("minutes an epoch", "here"), "RankCSE base"] == "1.00"
    geometry = paper_table("rankencoder", 2, runs).loc[("BERT-base, SimCSE", "here")]
    assert (geometry["uniformity"], geometry["alignment"]) == ("-2.00", "0.20")


def test_a_query_of_table_1_is_found_by_the_gold_of_its_targets(tmp_path: Path):
    gold = [4.8, 3.6, 1.6, 1.4, 1.0]
    columns = {
        "suite": "stsb-test",
        "query_id": "q",
        "target_id": list("abcde"),
        "query": "one",
        "target": list("abcde"),
    }
    ranked = pd.DataFrame({**columns, "gold": gold, "score": [0.9, 0.8, 0.5, 0.6, 0.4], "rank": [1, 2, 4, 3, 5]})
    finished(tmp_path, RankCSEConfig.from_parameters("paper"), {"stsb-test": {"spearman": 0.5, "n": 5}}, ranked)
    table = paper_table("rankcse", 1, runs_by_settings(tmp_path))
    found = [table.loc[(f"query 1, target {place}", "here"), ["RankCSE", "RankCSE, rank"]] for place in (1, 3, 5)]
    assert [list(pair) for pair in found] == [["0.90", "1.00"], ["0.50", "4.00"], ["0.40", "5.00"]]
    assert table.loc[("query 2, target 1", "here"), "RankCSE"] == ""


@pytest.mark.parametrize(("paper", "figure"), FIGURES)
def test_every_figure_is_drawn_or_says_its_commands(paper: str, figure: str, tmp_path: Path):
    of = layout(paper)["figures"][figure]
    empty = paper_figure(paper, figure, {})
    if of["kind"] == "bars":
        assert isinstance(empty, go.Figure)
        known = set(" ".join(published_numbers()[["method", "task"]].to_numpy().ravel()).split())
        assert set(" ".join(empty.data[0].x).replace("<br>", " ").split()) <= known, "every name stands there whole"
        return
    assert isinstance(empty, pd.DataFrame)
    assert empty["command"].str.match("workbench (?:run|evaluate) ").all()
    words = next(iter(of["rows"].values())) + (f" --set {of['setting']}={of['values'][0]}" if "setting" in of else "")
    world = on_the_world(settings_of(words), *([of["setting"]] if "setting" in of else []))
    assert world is not None
    run = write_run(tmp_path, world, 1.0)
    finished(tmp_path / "other", world, {})
    (tmp_path / "other" / run.path.relative_to(tmp_path) / "history.csv").rename(run.path / "history.csv")
    drawn = paper_figure(paper, figure, runs_by_settings(tmp_path), profile="demo", suite=SUITE)
    assert isinstance(drawn, go.Figure)
    assert drawn.data
    if len(paper_figure(paper, figure, {}, profile="demo")) > 1:
        assert drawn.layout.meta["no run yet"].startswith("workbench run ")


@pytest.mark.parametrize(("paper", "figure", "count"), [("cosent", 4, 9), ("rankcse", "3b", 4), ("rankcse", "3a", 12)])
def test_on_the_bundled_world_what_is_one_run_is_one_row(paper: str, figure: str, count: int):
    rows = paper_figure(paper, figure, {}, profile="demo")
    assert len(rows) == count
    assert rows["command"].is_unique
    assert rows.index.is_unique


def test_what_is_not_there_is_refused_with_what_is():
    with pytest.raises(SettingError, match="rankcse"):
        paper_table("rankces", 2, {})
    with pytest.raises(SettingError, match=r"no table '99' .*13"):
        paper_table("rankcse", 99, {})


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


def test_published_numbers_stand_beside_with_their_own_model_and_data(tmp_path: Path):
    for config in (SimCSEConfig, CoSENTConfig):
        write_run(tmp_path, config.from_parameters("demo", 0, {}), 1.0)
    write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {"temperature": 0.2}), 1.0)
    runs = finished_runs(tmp_path, SUITE)
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


def test_mrpc_classified_and_mrpc_ranked_are_two_published_numbers():
    row = {"label": "simcse", "method": "simcse", "encoder": "e", "accuracy": 0.9, "spearman": np.nan}
    tables = {
        suite: papers.published_beside(pd.DataFrame([row]), suite, papers.published_numbers())
        for suite in ("mrpc", "mrpc-test")
    }
    assert tables["mrpc"]["measured here"].iloc[0] == "90.00"
    assert "74.43" in tables["mrpc"]["published"].tolist()  # SimCSE in RankCSE table 3
    assert not set(tables["mrpc"]["from"]) & set(tables["mrpc-test"]["from"].iloc[1:])
