"""The command line: arguments, output, files on disk, and exit codes."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from workbench import CONFIGS, Encoder, Run, evaluate, list_runs, load_pairs

from .conftest import METHOD_NAMES, PROJECT

Call = Callable[..., subprocess.CompletedProcess[str]]
Words = Callable[[dict[str, Any]], list[str]]


def test_an_import_does_not_load_torch():
    code = "import sys, workbench, workbench.config, workbench.runs; "
    code += "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


REFUSED = {
    "an unknown method": (["run", "simsce"], ["simcse"]),
    "an unknown setting": (["run", "simcse", "temprature=0.1"], ["temprature", "temperature"]),
    "a value of another type": (["run", "simcse", "temperature=hot"], ["temperature", "hot"]),
    "a value out of its range": (["run", "simcse", "dropout=1.5"], ["dropout", "1.5"]),
    "an unknown profile": (["run", "simcse", "--profile", "papr"], ["paper"]),
    "an unknown set": (["run", "simcse", "train=wrold"], ["wrold", "world"]),
    "a file that is not there": (["run", "simcse", "train=gone.txt"], ["gone.txt"]),
    "an encoder that is not there": (
        ["run", "simcse", "encoder=no-such-encoder"],
        ["no-such-encoder"],
    ),
    "no KEY=VALUE": (["run", "simcse", "--set", "temperature"], ["KEY=VALUE"]),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_fault_is_refused_in_words_before_anything_starts(
    fault: str, workbench: Call, tmp_path: Path
):
    command, said = REFUSED[fault]
    ended = workbench(*command, cwd=tmp_path)
    assert ended.returncode == 2
    assert [word for word in said if word not in ended.stderr] == []
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_settings_are_listed_with_their_values_and_the_profiles(workbench: Call):
    listed = workbench("settings", "rankcse", "--profile", "paper-listmle")
    assert listed.returncode == 0
    table = CONFIGS["rankcse"].from_parameters("paper-listmle").table()
    rows = [line for line in listed.stdout.splitlines() if not line.startswith(" ")]
    assert [line.split(" = ")[0] for line in rows[:-1]] == table["setting"].tolist()
    assert [line.startswith("ranking = listmle") for line in rows].count(True) == 1
    assert rows[-1] == f"profiles: {', '.join(CONFIGS['rankcse'].profiles)}"
    assert [
        name
        for name in ("temperature", "teacher", "listmle", "paper-bert-large")
        if name not in listed.stdout
    ] == []


@pytest.fixture(scope="module")
def root(train: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create runs: SimCSE with three seeds, another temperature, one unfinished; CoSENT."""
    folder = tmp_path_factory.mktemp("of runs")
    for seed in range(3):
        train("simcse", folder, seed, max_steps=3)
    train("simcse", folder, max_steps=3, temperature=0.2)
    train("cosent", folder, max_steps=3)
    Run.open(CONFIGS["simcse"].from_parameters("demo", 4), folder).release()
    return folder


def of(root: Path, method: str, seed: int) -> Path:
    """Return the first run of a method and a seed."""
    table = list_runs(root)
    return Path(table.loc[(table["method"] == method) & (table["seed"] == seed), "path"].iloc[0])


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        ([], [0, 0, 0, 1, 2, 4]),
        (["method=simcse", "seed<2"], [0, 0, 1]),
        (["method=simcse", "temperature=0.2"], [0]),
        (["status!=finished"], [4]),
        (["method=simcse", "--sort", "-seed"], [4, 2, 1, 0, 0]),
        (["mine>-200", "method=cosent"], [0]),
    ],
)
def test_runs_are_filtered_and_sorted(
    words: list[str], seeds: list[int], workbench: Call, root: Path
):
    listed = workbench("runs", *words, "--runs", root, "--json")
    assert listed.returncode == 0, listed.stderr
    found = [run["seed"] for run in json.loads(listed.stdout)]
    assert (found if "--sort" in words else sorted(found)) == seeds


def test_the_table_of_runs_names_them_and_their_scores(workbench: Call, root: Path):
    shown = workbench("runs", "--runs", root).stdout
    for path in list_runs(root)["path"]:
        assert Path(path).name in shown
    score = 100 * Run(of(root, "cosent", 0)).metrics()["mine"]["spearman"]
    assert f"{score:.2f}" in shown
    none = workbench("runs", "--runs", root / "none")
    assert none.returncode == 0
    assert "workbench run" in none.stdout


def test_a_filter_by_an_unknown_name_is_answered_with_the_right_one(workbench: Call, root: Path):
    refused = workbench("runs", "temprature=0.2", "--runs", root)
    assert refused.returncode == 2
    assert "temperature" in refused.stderr


def test_a_run_is_shown_and_removed_only_after_a_yes(workbench: Call, root: Path, tmp_path: Path):
    root = shutil.copytree(root, tmp_path / "runs")  # other tests read the runs
    path = of(root, "simcse", 2)
    shown = workbench("show", path.name, "--runs", root)
    assert shown.returncode == 0
    assert "Spearman" in shown.stdout
    assert workbench("rm", path.name, "--runs", root, input="n\n").returncode != 0
    assert Run(path).finished
    assert workbench("rm", path.name, "--runs", root, "--yes").returncode == 0
    assert not path.exists()
    assert len(list_runs(root)) == 5
    assert workbench("rm", path.name, "--runs", root, "--yes").returncode == 1


def test_an_encoder_is_evaluated_and_listed_beside_the_runs(
    workbench: Call, spread_encoder: Path, files: SimpleNamespace, tmp_path: Path
):
    words = [
        "--suites",
        files.test,
        "--set",
        "device=cpu",
        "--set",
        "precision=fp32",
        "--runs",
        tmp_path,
    ]
    done = workbench("evaluate", spread_encoder, *words)
    assert done.returncode == 0, done.stderr
    expected = evaluate(
        Encoder.from_pretrained(spread_encoder, device="cpu"), {"mine": load_pairs(str(files.test))}
    )
    (path,) = list_runs(tmp_path)["path"]
    assert Run(path).metrics()["mine"] == pytest.approx(expected.metrics["mine"], abs=1e-6)
    assert f"{100 * expected.metrics['mine']['spearman']:.2f}" in done.stdout


def test_a_push_that_is_tried_lists_the_files_and_sends_nothing(workbench: Call, root: Path):
    listed = workbench("push", of(root, "simcse", 1).name, "me/mine", "--dry-run", "--runs", root)
    assert listed.returncode == 0, listed.stderr
    assert [
        name for name in ("model.safetensors", "README.md", "me/mine") if name not in listed.stdout
    ] == []


FILES = {
    "config.json",
    "history.csv",
    "scores.csv",
    "rankings.csv",
    "metrics.json",
    "notebook.ipynb",
    "encoder",
}


@pytest.mark.slow
def test_a_run_of_a_notebook_leaves_its_files_and_is_used_again(
    workbench: Call,
    settings: Callable[..., dict[str, Any]],
    words: Words,
    train: Callable[..., Run],
    tmp_path: Path,
):
    command = [
        "run",
        "simcse",
        *words(settings("simcse")),
        "--seed",
        3,
        "--runs",
        tmp_path / "runs",
    ]
    done = workbench(*command)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs" / "simcse").iterdir()
    assert path.name.endswith("-s3")
    assert {file.name for file in path.iterdir()} >= FILES
    run, same = Run(path), train("simcse", tmp_path / "here", 3)
    assert same.path.name == path.name
    assert run.metrics() == same.metrics()
    pd.testing.assert_frame_equal(run.scores(), same.scores())
    written = (path / "metrics.json").stat().st_mtime_ns
    assert workbench(*command).returncode == 0
    assert (path / "metrics.json").stat().st_mtime_ns == written


@pytest.mark.slow
def test_a_run_by_its_name_is_a_teacher_and_stays_while_it_is_needed(
    workbench: Call,
    settings: Callable[..., dict[str, Any]],
    words: Words,
    root: Path,
    tmp_path: Path,
):
    root = shutil.copytree(root, tmp_path / "runs")  # other tests read the runs
    teacher = of(root, "simcse", 0)
    small = settings("rankcse", max_steps=3, teachers=f"simcse/{teacher.name}")
    done = workbench("run", "rankcse", *words(small), "--no-notebook", "--runs", root)
    assert done.returncode == 0, done.stderr
    assert Run(of(root, "rankcse", 0)).config.teachers == [str(teacher)]
    kept = workbench("rm", f"simcse/{teacher.name}", "--runs", root, "--yes")
    assert kept.returncode == 1
    assert "rankcse" in kept.stderr
    assert Run(teacher).finished


@pytest.mark.slow
def test_a_run_that_fails_ends_with_exit_code_1_and_is_listed_so(
    workbench: Call, settings: Callable[..., dict[str, Any]], words: Words, tmp_path: Path
):
    rows = [
        f"the cat sees {letter},a dog,{place % 4 / 2}"
        for place, letter in enumerate("abcdefghijkl")
    ]
    (tmp_path / "pairs.csv").write_text("\n".join(["sentence1,sentence2,score", *rows]) + "\n")
    small = settings(
        "cosent", objective="softmax", softmax_labels="whole", train=str(tmp_path / "pairs.csv")
    )
    failed = workbench("run", "cosent", *words(small), "--runs", tmp_path / "runs")
    assert failed.returncode == 1
    assert "softmax" in failed.stderr, failed.stderr
    assert list_runs(tmp_path / "runs")["status"].tolist() == ["failed"]


def test_the_methods_are_named_by_the_help(workbench: Call):
    helped = workbench("run", "--help")
    assert helped.returncode == 0
    assert [method for method in METHOD_NAMES if method not in helped.stdout] == []
