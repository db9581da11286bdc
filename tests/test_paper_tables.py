"""Tables of the papers: every number is in one, every command is documented, runs fill
their cells."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_docs import COMMANDS, EVALUATES, evaluated, resolved

from workbench.checkpoints import published_spec
from workbench.commands.options import overrides_of
from workbench.config import (
    SEVEN_STS,
    BaselineConfig,
    CompCSEConfig,
    CoSENTConfig,
    RankCSEConfig,
    SimCSEConfig,
)
from workbench.data import AVERAGES
from workbench.evaluation import RANKING_COLUMNS
from workbench.files import project_path
from workbench.runs import Run
from workbench.views import paper_table, runs_by_settings, show_measured
from workbench.views.papers import (
    commands,
    parse_command,
    published_table,
    read_papers,
    settings_key,
)

PLACES = [(paper, table) for paper, shape in read_papers().items() for table in shape["tables"]]
TABLES = {place: published_table(*place) for place in PLACES}
STATED = {("cosent", "II"): 33, ("rankcse", "7"): 11, ("rankcse", "8"): 11, ("rankcse", "9"): 36}


def finished(root: Path, config: Any, metrics: dict) -> Run:
    """Create a run of these settings with these numbers, without training or evaluation."""
    run = Run.open(config, root)
    history = {
        "step": [0, 5, 10],
        "epoch": [0, 0.5, 1.0],
        "loss": [np.nan, 2, 1],
        "seconds": [0, 30.0, 60.0],
    }
    history |= {
        "dev_spearman": [0.2, 0.7, 0.6],
        "dev_alignment": [0.3, 0.2, 0.1],
        "dev_uniformity": [-1, -2, -3],
    }
    pd.DataFrame(history).to_csv(run.path / "history.csv", index=False)
    scores = pd.DataFrame(columns=["suite", "subset", "pair_id", "gold", "predicted"])
    run.write_evaluation(metrics, scores, pd.DataFrame(columns=list(RANKING_COLUMNS)))
    run.release()
    return run


def test_every_published_number_is_in_one_table_with_the_commands_that_fill_it():
    files = [pd.read_csv(file, dtype=str) for file in project_path("data").glob("published/*.csv")]
    deviations = pd.concat(files)["table"].str.contains("deviation")
    assert sum(map(len, TABLES.values())) == len(deviations) - deviations.sum() > 1_500
    values = pd.concat(TABLES.values())
    assert (
        values.loc[values["metric"] != "", "value"]
        .str.partition(" ")[0]
        .astype(float)
        .between(-100, 100)
        .all()
    )
    for (paper, table), values in TABLES.items():
        shown = paper_table(paper, table, {})
        printed = shown.xs("published", level=1).drop(columns="command").to_numpy()
        assert sorted(filter(None, printed.ravel())) == sorted(values["value"])
        here = shown[shown.index.get_level_values(1) == "here"]
        if (values["stated"] != "").any():
            assert (here["command"] == "").all()
            continue
        assert (here.drop(columns="command") == "").all(axis=None)
        assert here["command"].str.contains("workbench (?:run|evaluate) ").all()
        assert table in shown.attrs["title"]


def test_every_command_of_a_table_is_documented():
    known = {
        settings_key(resolved(command)) for command in COMMANDS if "--profile paper" in command
    }
    for profile in ("paper", "paper-bert-large"):
        known |= {settings_key(SimCSEConfig.from_parameters(profile, 0, {"batch_size": 128}))}
    known |= {
        settings_key(evaluated(c, {})) for c in EVALUATES if not re.search("FOLDER|MODEL|RUN", c)
    }
    made = [command for values in TABLES.values() for command in values["command"] if command]
    assert {
        command for command in {*made} if settings_key(parse_command(command)) not in known
    } == set()
    assert len(made) > 800


def test_sizes_and_settings_are_ours_and_a_difference_is_marked():
    shown = {place: paper_table(*place, {}).xs("here", level=1) for place in STATED}
    assert {place: int((TABLES[place]["stated"] != "").sum()) for place in STATED} == STATED
    differ = {
        place: table.stack()[lambda texts: texts.str.contains("≠")].to_dict()
        for place, table in shown.items()
    }
    sick = {
        ("SICK", part): f"{rows} ≠"
        for part, rows in (("train", 4500), ("validation", 500), ("test", 4927))
    }
    assert differ.pop(("cosent", "II")) == {**sick, ("ATEC", "train"): "24061 ≠"}
    assert not any(differ.values())
    assert shown["rankcse", "9"].loc["tau_3", "BERT-large, RankCSE-ListNet"] == "0.025"


def test_every_value_of_diffcse_has_a_command_of_the_checkpoint_that_made_it():
    values = pd.concat(TABLES.values())
    values = values[values["method"] == "DiffCSE"]
    assert len(values) == 88
    for value in values.itertuples():
        config = parse_command(value.command)
        kind = "trans" if value.table == "RankCSE table 10" else "sts"
        backbone = {"BERT-base": "bert-base-uncased", "RoBERTa-base": "roberta-base"}[value.model]
        assert config.encoder == f"voidism/diffcse-{backbone}-{kind}"
        assert config.classifier == ("senteval" if value.metric == "accuracy" else "sklearn")
        assert published_spec(config.encoder).pooling == "cls"


def test_runs_fill_the_cells_of_their_settings_whatever_they_were_scored_on(tmp_path: Path):
    seven = {name: {"spearman": 0.7, "n": 9, "kcc": 0.5, "ndcg": 0.9} for name in SEVEN_STS}
    for seed, value in enumerate((0.79, 0.81)):
        average = {"sts-average": {"spearman": value, "kcc": 0.5, "ndcg": 0.9}}
        finished(tmp_path, RankCSEConfig.from_parameters("paper", seed), seven | average)
    transfer = {
        name: {"accuracy": 0.8, "n": 9}
        for name in (*AVERAGES["transfer-average"], "transfer-average")
    }
    finished(
        tmp_path,
        RankCSEConfig.from_parameters("paper", 0, {"beta": 0, "suites": ["stsb-dev"]}),
        transfer,
    )
    finished(
        tmp_path, BaselineConfig.from_parameters("cls"), seven | {"sts-average": {"spearman": 0.29}}
    )
    pooled = {
        f"{name}-test": {"spearman": 0.1 * n}
        for n, name in enumerate(["stsb", "sick", "paws", "mrpc"], start=1)
    }
    finished(
        tmp_path,
        CoSENTConfig.from_parameters("paper", 0, {"pooling": "cls", "suites": [*pooled]}),
        pooled,
    )
    broken = finished(tmp_path, SimCSEConfig.from_parameters("paper"), {})
    (broken.path / "metrics.json").write_text("{")
    runs = runs_by_settings(tmp_path)
    assert len(runs) == 4

    row = paper_table("rankcse", 2, runs).loc[("BERT-base, RankCSE-ListNet", "here")]
    assert (row["average"], row["command"]) == ("80.00 ± 1.41", "")
    assert (
        paper_table("rankcse", 13, runs)
        .loc[("BERT-base, RankCSE", "here"), "average KCC"]
        .startswith("50.00")
    )
    ablated = paper_table("rankcse", 4, runs).xs("here", level=1)
    assert (
        "suites=mr,cr,subj,mpqa,sst2,trec,mrpc"
        in ablated.loc["BERT-base, RankCSE-ListNet", "command"]
    )
    without = ablated.loc["BERT-base, RankCSE-ListNet without consistency"]
    assert (without["average"], without["transfer average"]) == ("", "80.00")
    table = paper_table("cosent", "III", runs).xs("here", level=1)
    assert table.loc["BERT-base, BERT CLS-vector", "average"] == "29.00"
    assert (
        table.loc["BERT-base, Avg. BERT embeddings", "command"]
        == "workbench evaluate bert-base-uncased --profile mean"
    )
    row = paper_table("cosent", "IX", runs).loc[("BERT-base, CoSENT-NLI CLS", "here")]
    assert (row["MRPC"], row["row average"], row["command"]) == ("40.00", "25.00", "")

    finished(tmp_path, CompCSEConfig.from_parameters("paper"), {})
    shutil.rmtree(broken.path)
    finished(tmp_path, SimCSEConfig.from_parameters("paper"), {})
    runs = runs_by_settings(tmp_path)
    assert paper_table("compcse", 6, runs).loc[("BERT-base", "here"), "256"] == "70.00", (
        "of dev, from the history"
    )
    geometry = paper_table("rankencoder", 2, runs).loc[("BERT-base, SimCSE", "here")]
    assert (geometry["uniformity"], geometry["alignment"]) == ("-2.00", "0.20")


def test_the_command_of_settings_makes_just_their_run_and_unknown_names_are_refused():
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
    for place in (("rankces", 2), ("rankcse", 99)):
        with pytest.raises(KeyError):
            paper_table(*place, {})


def test_rows_with_a_run_are_shown_and_a_table_that_lacks_runs_is_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown: list[str] = []
    monkeypatch.setattr("workbench.views.papers.display", lambda html: shown.append(html.data))
    metrics = {"world-test": {"spearman": 0.7, "n": 9, "kcc": 0.5, "ndcg": 0.9}}
    finished(tmp_path, CoSENTConfig.from_parameters("demo", 0, {}), metrics)
    table = paper_table(
        "cosent", "IV", runs_by_settings(tmp_path), profile="demo", suite="world-test"
    )
    assert table.attrs["measured"] == ["CoSENT"]
    row = table.loc["CoSENT"]
    assert (row["world-test"], row["seeds"], row["command"]) == ("70.00", 1, "")
    show_measured(table)
    measured, folded = shown
    assert ("70.00" in measured, "workbench run" in measured) == (True, False)
    assert folded.startswith("<details>")
    assert "workbench run cosent --profile demo --set objective=mse" in folded
    shown.clear()
    show_measured(paper_table("rankcse", 4, {}))
    assert len(shown) == 1, "nothing is measured"


def test_a_run_whose_encoder_is_gone_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    start = tmp_path / "start"
    shutil.copytree(project_path("data") / "models" / "world-encoder", start)
    configs = [SimCSEConfig(encoder=encoder) for encoder in (str(start), "world-encoder")]
    gone, kept = (finished(tmp_path / "runs", config, {}) for config in configs)
    shutil.rmtree(start)
    (runs,) = runs_by_settings(tmp_path / "runs").values()
    assert [run.path for run in runs] == [kept.path]
    assert gone.path.name in caplog.text
