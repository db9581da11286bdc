"""The command line: refusals, exit codes, and the commands about runs."""

import gzip
import io
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from forking import python

import workbench
import workbench.commands.training
from workbench import SimCSE, fit
from workbench.commands.app import main
from workbench.commands.options import overrides_of
from workbench.config import (
    SEVEN_STS,
    BaselineConfig,
    RankCSEConfig,
    RankEncoderConfig,
    SimCSEConfig,
)
from workbench.data import Sentences, load_dev, load_pairs
from workbench.errors import BusyError, RunError, SettingError
from workbench.files import PACKAGE, project_path
from workbench.runs import Run, find_run, list_runs, lock_run, remove_runs, split_common_settings

Call = Callable[..., int]
_NEEDS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is full")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function (arguments) -> exit code of the command."""

    def command(*words: object, answer: str = "") -> int:
        for name in ("stdout", "stderr"):  # which `main` replaces
            monkeypatch.setattr(sys, name, getattr(sys, name))
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, words)])
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    return command


def write_run(
    root: Path,
    config: SimCSEConfig | RankCSEConfig | RankEncoderConfig | BaselineConfig,
    score: float | None,
    suite="s",
) -> Run:
    """Write a run, which is finished if it has a score."""
    run = Run.open(config, root)
    if score is not None:
        table = pd.DataFrame({"suite": [suite], "subset": [""], "pair_id": ["0"]})
        run.write_evaluation({suite: {"spearman": score, "n": 2}}, table, table)
    run.release()
    return run


def simcse(seed: int = 0, **overrides: object) -> SimCSEConfig:
    return SimCSEConfig.from_parameters("demo", seed, overrides)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create runs of SimCSE: two finished, one unfinished, one failed, one other temperature."""
    folder = tmp_path / "runs"
    for seed, score in enumerate((0.45, 0.42, None)):
        write_run(folder, simcse(seed), score)
    write_run(folder, simcse(0, temperature=0.2), 0.5).record(seconds=61.5)
    write_run(folder, simcse(7), None).record(failure="RuntimeError: no luck")
    return folder


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "simcse", "mlp=true", "--set", "mlp =false"], 2, "given twice"),
        (["run", "simcse", "lr=1e-4", "learning_rate=1e-5"], 2, "learning_rate is given twice"),
        (["run", "simcse", "per-device-train-batch-size=many"], 2, "batch_size: "),
        (["run", "simcse", "--set", f"train={'x' * 300}.txt"], 2, "File name too long"),
        (["run", "simcse", "--no-notebook", "--html"], 2, "--html needs the notebook"),
        (["run", "simcse", "--runs", "caf\udce9"], 2, r"caf\udce9: not UTF-8; rename"),
        (["data", "check", "caf\udce9.tsv"], 2, r"caf\udce9.tsv: not UTF-8; rename"),
        (["look", "--html", "nowhere/a.html"], 2, "in a folder that exists, not nowhere/a.html"),
        (["look", "--html", "a.ipynb"], 2, "--html FILE.html"),
    ],
)
def test_a_refusal_is_one_text_without_a_traceback(  # noqa: PLR0917
    arguments: list[str],
    code: int,
    words: str,
    call: Call,
    capsys,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert words in error
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_busy_elsewhere_has_an_exit_code_of_its_own(
    call: Call, capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise BusyError("another process is working on it; wait for its end")

    monkeypatch.setattr(workbench, "run", refuse)
    assert call("run", "simcse", "--no-notebook", "--runs", tmp_path) == 75
    assert "wait for its end" in capsys.readouterr().err


def test_the_help_names_every_baseline(call: Call, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "300")
    call("evaluate", "--help")
    shown = capsys.readouterr().out
    assert all(name in shown for name in BaselineConfig.profiles)
    call("look", "--help")
    assert "word-overlap." in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_three_times_ends_in_one_line(tmp_path: Path, small_files: dict[str, str]):
    settings = ["max_steps=5000", *(f"{name}={file}" for name, file in small_files.items())]
    command = [python(), "-m", "workbench", "run", "simcse", *settings, "--runs", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        while not run.stdout.readline().startswith("step"):
            assert run.poll() is None
        for _ in range(3):
            run.send_signal(signal.SIGINT)
            time.sleep(0.1)
        _, error = run.communicate()
    assert run.returncode == 130
    before = ("running 10_simcse.ipynb", "pairs of file")  # said before the training
    lines = [line for line in error.splitlines() if line and not line.startswith(before)]
    assert lines == ["Interrupted. Run the same command again to resume from the last saved state."]


def test_no_value_of_the_settings_is_cut_and_the_version_is_printed(call: Call, capsys):
    assert call("settings", "rankcse", "--profile", "paper") == 0
    shown = capsys.readouterr().out
    assert all(suite in shown for suite in SEVEN_STS)
    assert call("--version") == 0
    assert capsys.readouterr().out.startswith(
        f"ranking-workbench {metadata.version('ranking-workbench')}, Python 3."
    )


def test_the_demo_trains_three_seeds_and_prints_their_mean(
    monkeypatch, call: Call, capsys, tmp_path: Path
):
    def trained(method: str, *, seed: int, runs: str, html: bool) -> None:
        assert (method, html) == ("simcse", True)
        write_run(Path(runs), simcse(seed), 0.4 + 0.1 * seed, "world-test")

    monkeypatch.setattr("workbench.commands.training.run", trained)
    assert call("demo", "--runs", tmp_path) == 0
    shown = capsys.readouterr().out
    assert "50.00 (10.00)" in shown
    assert "mean (standard deviation) over seeds, x 100\nnext: make lab" in shown


def test_a_run_prints_its_progress_and_its_gain(  # noqa: PLR0917
    tiny_encoder: Path, small_files: dict[str, str], call: Call, capsys, caplog, tmp_path: Path
):
    small = [
        "max_steps=2",
        "eval_steps=2",
        "train_limit=20",
        "device=cpu",
        f"encoder={tiny_encoder}",
        *(f"{name}={file}" for name, file in small_files.items()),
    ]
    assert call("run", "simcse", *small, "--no-notebook", "--runs", tmp_path / "my runs") == 0
    shown = capsys.readouterr().out
    assert re.search(
        r"^step +2/2  loss [\d.]+  dev Spearman [-\d.]+ \(step 2\)  [\d:]+$", shown, re.MULTILINE
    )
    assert re.search(
        r"^\w.* its start on small-test: [+-][\d.]+ Spearman x 100, 95% inter", shown, re.MULTILINE
    )
    result = r"^result:   small-test [-\d.]+ -> [-\d.]+, dev [-\d.]+ -> [-\d.]+$"
    assert re.search(result, shown, re.MULTILINE)
    assert "2 steps with 1 evaluation(s) on dev are too few" in caplog.text


def test_push_and_look_warn_of_an_encoder_that_lost_against_its_start(
    tiny_encoder: Path, call: Call, capsys, monkeypatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("workbench.commands.notebooks.open_lab", lambda *_: None)
    table = pd.DataFrame({"suite": ["s"], "subset": [""], "pair_id": ["0"]})
    for seed, end in enumerate((0.5, 0.7)):
        run = Run.open(simcse(seed), "runs")
        pd.DataFrame({"step": [0, 10, 20], "dev_spearman": [0.524, 0.459, 0.4]}).to_csv(
            run.path / "history.csv"
        )
        for stage, score in (("before", 0.6), ("", end)):
            run.write_evaluation({"s": {"spearman": score, "n": 2}}, table, table, stage)
        run.release()
        shutil.copytree(tiny_encoder, run.path / "encoder")
        (run.path / "encoder" / "README.md").write_text("---\nlicense: mit\n---\nA card.\n")
        lost = ("s 60.00 -> 50.00, " if end == 0.5 else "") + "dev 52.40 -> 45.90"
        warning = f"is worse than its start, world-encoder: {lost} (x 100)\n"
        options = ["--on", "ladders-all", "--name", f"seed{seed}"]
        for command in (
            ["push", run.path, "me/mine", "--dry-run"],
            ["look", run.path / "encoder", *options],
        ):
            assert call(*command) == 0
            printed = capsys.readouterr()
            assert warning in printed.err
            if command[0] == "push":
                assert f"\n\nThis encoder {warning[:-1]}.\n" in printed.out.replace("&#62;", ">"), (
                    "its card"
                )
    run.record(settings=run.facts()["settings"] | {"keep_start": True})
    assert call("push", run.path, "me/mine", "--dry-run") == 0
    printed = capsys.readouterr()
    assert "is its start: no step of its training was better on dev\n" in printed.err
    assert (
        "\n\nThis encoder is its start: no step of its training was better on dev.\n" in printed.out
    )
    assert call("look", tiny_encoder, "--on", "ladders-all") == 0
    assert "warning" not in capsys.readouterr().err


def test_filters_take_columns_suites_and_any_setting(root: Path):
    for where, seeds in (
        (["temperature = 2e-1"], [0]),
        (["method=SimCSE", "s<45"], [1]),
        (["suites=world-test", "status=unfinished"], [2]),
        (["train_limit=none", "seed>=7"], [7]),
        (["started>2020-01-01", "seed=1", "temperature!=0.2", "profile=demo"], [1]),
    ):
        assert list_runs(root, where)["seed"].tolist() == seeds


def test_the_folder_of_one_method_has_its_runs(root: Path):
    run = write_run(root, simcse(9), 0.61)
    (run.path / "encoder").mkdir()
    (run.path / "encoder" / "config.json").write_text("{}")
    own = list_runs(root, ["method=simcse"])
    assert list_runs(root / "simcse")["seed"].tolist() == own["seed"].tolist()
    assert "unreadable" not in list_runs(root / "simcse")["status"].tolist()
    # A run that was copied one level too high hides no other.
    shutil.copytree(run.path, root / "cccccccc-s2")
    assert len(list_runs(root)) == len(own) + 1


def test_a_filter_leaves_out_runs_without_its_column_and_needs_a_value(root: Path):
    write_run(
        root, BaselineConfig.from_parameters("demo", overrides={"encoder": "world-encoder"}), 0.3
    )
    (root / "simcse" / "00000000-s9").mkdir()  # unreadable: nothing is known of it
    assert set(list_runs(root, ["temperature!=0.2"])["method"]) == {"simcse"}
    assert list_runs(root, ["status=unreadable"])["path"].str.endswith("-s9").tolist() == [True]
    for word in ("seed>", "seed", "seed==0", "seed=>0", "seed!==0", "seed= =0"):
        with pytest.raises(SettingError, match=r"is no method or filter|is a number, which"):
            list_runs(root, [word])
    with pytest.raises(SettingError, match="seed is a number, which 'zero' is not"):
        list_runs(root, ["seed<zero"])


@pytest.mark.parametrize("suite", ["status", "temperature", "scores", "facts"])
def test_a_suite_called_like_a_column_or_a_setting_hides_nothing(
    root: Path, suite: str, call: Call
):
    write_run(root, simcse(9, temperature=0.3), 0.61, suite)
    assert list_runs(root, [f"spearman {suite}>60"])["seed"].tolist() == [9]
    assert list_runs(root, ["temperature=0.3", "status=finished", "method=simcse"])[
        "seed"
    ].tolist() == [9]
    assert list_runs(root).columns.is_unique
    assert call("runs", "--runs", root) == 0


def test_no_escape_sequence_of_a_terminal_is_printed_from_a_name(root: Path, call: Call, capsys):
    suite = "\x1b[31mred\x9b\x7f"
    run = write_run(root, simcse(9), 0.61, suite)
    run.record(failure="\x1b[31mno luck")
    run.path.rename(root / "simcse" / f"{suite}-s9")
    for words in (["runs"], ["runs", "--json"], ["runs", "x=1"], ["show", suite], ["rm", suite]):
        call(*words, "--runs", root, answer="n\n")
        captured = capsys.readouterr()
        assert r"\u001b[31m" in captured.out + captured.err
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", captured.out + captured.err)


def test_a_run_is_opened_by_the_beginning_of_its_name_in_commands_and_settings(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    name, path = simcse(1).digest(), next(root.glob("*/*-s2"))
    assert find_run(f"{name}-s1", root).config.seed == 1
    assert (
        find_run(f"simcse/{simcse(0, temperature=0.2).digest()[:4]}", root).config.temperature
        == 0.2
    )
    for word, found in ((name, 4), ("zz", 0), ("", 0)):
        with pytest.raises(RunError, match=f"^{found} runs under .* begin with '{word}'"):
            find_run(word, root)
    eleventh = write_run(root / "many", simcse(10), 0.4)
    assert (
        find_run(write_run(root / "many", simcse(1), 0.4).path.name, root / "many").config.seed == 1
    )
    assert find_run(eleventh.path.name, root / "many").config.seed == 10
    monkeypatch.chdir(root)
    others = {
        "max_steps": "10000000,20000000",
        "base": f"./simcse/{path.name}",
        "encoder": "owner/model-s0",
    }
    others |= {
        "corpus": "12345678.txt",
        "revisions": '{"owner/model": "86b5e093"}',
        "a": f"simcse/{path.name}",
    }
    same = overrides_of([f"{key}={value}" for key, value in others.items()], str(root))
    assert same == others, "existing paths, numbers and revisions"
    named = overrides_of(
        [f"teachers={path.name},world-encoder", f'b=["{path.name}"]', f"c={path.name}"], str(root)
    )
    assert named == {"teachers": f"{path},world-encoder", "b": f'["{path}"]', "c": str(path)}
    # As a sweep writes it: the spaces of a template belong to it.
    assert overrides_of(["template=a {sentence} [MASK] "]) == {"template": "a {sentence} [MASK] "}
    # Paths of Windows, and the label of an evaluated run, stay as they are.
    for text in (r"C:\runs\cosent\f6426706-s0", r".\runs\f6426706-s0", "simcse f6426706-s0"):
        assert overrides_of([f"encoder={text}"]) == {"encoder": text}


def test_a_run_that_another_learned_from_is_removed_only_with_it(tmp_path: Path):
    base = write_run(tmp_path, simcse(0), 0.4)
    by_method = write_run(tmp_path, RankEncoderConfig.from_parameters("demo", 0), 0.5)
    (base.path / "encoder").mkdir()
    (base.path / "encoder" / "config.json").write_text("{}")
    by_folder = write_run(tmp_path, simcse(3, encoder=str(base.path)), 0.5)
    evaluated = write_run(
        tmp_path, BaselineConfig.from_parameters("demo", overrides={"encoder": str(base.path)}), 0.4
    )
    # The folder of runs under another name, as a home folder on a cluster, and by another library.
    alias = tmp_path / "alias"
    alias.symlink_to(tmp_path, target_is_directory=True)
    named = str(alias / "simcse" / base.path.name)
    by_alias = write_run(tmp_path, simcse(4, encoder=named), 0.5)
    by_library = write_run(
        tmp_path, BaselineConfig.from_parameters("demo", overrides={"encoder": f"st:{named}"}), 0.4
    )
    every = [by_method, by_folder, evaluated, by_alias, by_library]
    for run in every:
        others = [each for each in (base, *every) if each is not run]
        with pytest.raises(RunError, match=f"is needed by .*{run.path.name}"):
            remove_runs(others, tmp_path)
    assert len(list_runs(tmp_path)) == 6
    lock = lock_run(evaluated.path)
    with pytest.raises(RunError, match=r"a process is working on .*end it first"):
        remove_runs([evaluated], tmp_path)
    lock.release()
    link = tmp_path / "elsewhere" / "simcse" / base.path.name
    link.parent.mkdir(parents=True)
    link.symlink_to(base.path)
    with pytest.raises(RunError, match="is a link, or has not the name of a run"):
        remove_runs([Run(link)], tmp_path / "elsewhere")
    # An encoder has a config.json, too.
    with pytest.raises(RunError, match="is a link, or has not the name of a run"):
        remove_runs([Run(base.path / "encoder")], tmp_path)
    assert (base.path / "encoder" / "config.json").is_file()
    left = tmp_path / "simcse" / ".12345678-s0.removed"  # of a removal that was killed
    left.mkdir()
    remove_runs([base, *every], tmp_path)
    assert list_runs(tmp_path).empty
    assert not left.exists()


def test_a_run_is_needed_also_by_one_whose_folder_lies_on_another_disk(tmp_path: Path):
    root = tmp_path / "runs"
    base = write_run(root, simcse(0), 0.4)
    learned = write_run(root, RankEncoderConfig.from_parameters("demo", 0), 0.5)
    shutil.move(root / "rankencoder", tmp_path / "disk")
    (root / "rankencoder").symlink_to(tmp_path / "disk")
    with pytest.raises(RunError, match=f"is needed by .*{learned.path.name}"):
        remove_runs([base], root)


def test_what_the_command_starts_runs_its_code_and_not_that_of_the_folder(tmp_path: Path):
    code = (
        "import atexit, os, sys\n"
        "atexit.register(lambda: print('safe', os.environ.get('PYTHONSAFEPATH')))\n"
        "sys.argv = ['workbench', '--version']\n"
        "from workbench.__main__ import main\n"
        "main()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    environment.pop("PYTHONSAFEPATH", None)
    for folder, expected in ((tmp_path, "safe 1"), (PACKAGE.parent, "safe None")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.splitlines()[-1] == expected, done.stderr


def test_a_run_is_needed_also_where_all_runs_were_moved_to_and_under_another_root(tmp_path: Path):
    base = write_run(tmp_path / "runs", simcse(0), 0.4)
    (base.path / "encoder").mkdir()
    (base.path / "encoder" / "config.json").write_text("{}")
    learned = write_run(tmp_path / "runs", simcse(3, encoder=str(base.path)), 0.5)
    with pytest.raises(RunError, match=f"is needed by .*{learned.path.name}"):
        remove_runs([base], tmp_path / "other")
    (tmp_path / "runs").rename(tmp_path / "moved")
    moved = Run(tmp_path / "moved" / "simcse" / base.path.name)
    with pytest.raises(RunError, match=f"is needed by .*{learned.path.name}"):
        remove_runs([moved], tmp_path / "moved")


@pytest.mark.parametrize("option", ["--gpus=1", "--minutes=240", "--sbatch=account=mine"])
def test_resources_of_a_cell_need_the_cluster(call: Call, capsys, tmp_path: Path, option: str):
    assert call("sweep", "simcse", option, "--runs", tmp_path / "runs") != 0
    assert "need --slurm" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "runs").exists()


def test_common_settings_are_split_from_others_also_for_lists(tmp_path: Path):
    for teachers in (["world-encoder"], ["world-teacher", "world-encoder"]):
        write_run(
            tmp_path,
            RankCSEConfig.from_parameters("demo", 0, {"teachers": teachers, "max_steps": 7}),
            0.5,
        )
    common, own = split_common_settings(list_runs(tmp_path)["changed"].tolist())
    assert common == "max_steps=7"
    assert sorted(own) == ["teachers=[world-teacher, world-encoder]", "teachers=world-encoder"]
    assert split_common_settings([]) == ("", [])
    assert split_common_settings(["demo, n=1, a=2", "demo, n=1"], ["a"]) == ("demo, n=1", ["", ""])


def test_runs_are_listed_and_shown(root: Path, call: Call, capsys: pytest.CaptureFixture):
    assert call("runs", "--runs", root, "--columns", "seed,status") == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["seed", "status"]
    next(root.glob("*/*-s1")).joinpath("config.json").write_text("{")
    assert call("runs", "--runs", root) == 0
    shared, _, *rows = capsys.readouterr().out.splitlines()
    assert shared == "all: demo"
    assert [
        str(path) in row for row, path in zip(rows, sorted(root.glob("*/*-s*")), strict=True)
    ] == [True] * 5
    assert sum("unreadable" in row for row in rows) == 1
    assert call("runs", "--runs", root, "method=simces", "seed=8") == 0
    assert "No such runs under" in capsys.readouterr().out
    assert call("runs", "--runs", root, "seed<3,5") == 2
    assert "seed is a number, which '3,5' is not" in capsys.readouterr().err
    name = simcse(7).digest() + "-s7"
    assert call("show", name, "--runs", root) == 0
    assert re.search(r"(?s)failure +RuntimeError: no luck.*version +\d", capsys.readouterr().out)
    assert call("push", name, "me/mine", "--runs", root) == 1
    assert str(root / "simcse" / name) in capsys.readouterr().err
    encoder = project_path("data/models/world-encoder")
    assert call("show", encoder) == 1
    assert f"{encoder} is no run: it has no config.json of one" in capsys.readouterr().err
    for command in (["evaluate"], ["run", "rankcse"], ["sweep", "rankcse"]):
        word = f"{'' if command == ['evaluate'] else 'teachers='}{name[:8]}-s6"
        assert call(*command, word, "--runs", root) == 1
        assert f"begin with '{name[:8]}-s6'" in capsys.readouterr().err
    for config in root.glob("*/*/config.json"):
        config.write_text("{")
    assert call("runs", "--runs", root) == 0
    assert capsys.readouterr().out.count("unreadable") == 5


def test_runs_are_removed_after_a_question_by_name_or_by_filters(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    assert call("rm", "temperature=0.2", "seed<9", "--runs", root, answer="n\n") == 1
    assert re.fullmatch(r"\S+-s0\nremove 1 run\(s\)\? .*", capsys.readouterr().out.strip())
    assert len(list_runs(root)) == 5
    assert call("rm", simcse(7).digest() + "-s7", "--runs", root, "--yes") == 0
    assert call("rm", "status=finished", "--runs", root, "--yes") == 0
    (left,) = list_runs(root)["path"]
    monkeypatch.setattr(
        "typer.confirm", lambda _, **__: Run(left).record(failure="while it was asked")
    )
    assert call("rm", "status!=failed", "--runs", root) == 1
    for words, code in ((["seed=1"], 1), (["seed=2", "abcd"], 1)):
        assert call("rm", *words, "--runs", root, "--yes") == code
    assert len(list_runs(root)) == 1


def test_a_look_writes_a_page_with_friendly_names_and_a_notebook_that_runs(
    call: Call, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    rows = [
        ("a cat sleeps", "the cat is asleep", 5),
        ("a cat sleeps", "a dog barks", 1),
        ("it rains", "rain falls", 4),
    ]
    pd.DataFrame(rows, columns=["sentence1", "sentence2", "score"]).to_csv("mine.csv", index=False)
    named = [
        "english-encoder",
        "word-overlap",
        "--on",
        "mine.csv",
        "--name",
        "Ours",
        "--name",
        "Words",
    ]
    for opened in ("", "again"):
        assert call("look", *named, "--html", "page.html") == 0, opened
        # The scores are in the cache.
        monkeypatch.setattr("workbench.evaluation._evaluate._predict", None)
        named = [word if word != "word-overlap" else "english-encoder" for word in named]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>Pairs of mine: Ours, Words</h1>" in page
    assert re.search(
        r"Spearman with gold x 100: Ours [\d.-]+, Words [\d.-]+; "
        r"ordered by: a and b disagree; a: Ours",
        page,
    )
    assert all(text in page for text in ("a dog barks", "rain falls"))
    assert not re.search(r"[0-9a-f]{8}-s\d|english-encoder", page)

    monkeypatch.setattr("workbench.commands.notebooks.open_lab", lambda *_: None)
    assert call("look", *named) == 0
    notebook = nbformat.read(tmp_path / "look-Ours-Words-mine.ipynb", 4)
    assert notebook.cells[0].source.startswith("# Ours, Words\n")
    assert not re.search(r"[0-9a-f]{8}-s\d", str(notebook.cells))
    values: dict[str, Any] = {}
    for cell in notebook.cells[1::2]:
        *lines, last = cell.source.splitlines()
        exec("\n".join([*lines, f"view = {last}"]), values)  # as a kernel in its folder does
        assert list(values["encoders"]) == ["Ours", "Words"]
        if cell.id == "marked":
            assert values["view"].empty
            values["explorer"].grid.ticked = [0, 2]
            exec(cell.source.replace("# ", ""), values)
            assert load_pairs("marked.csv").sentence2 == ["the cat is asleep", "rain falls"]
        elif "HTML(" in last:
            assert "Ours" in values["view"].data
        elif "views.Ask(" in last:
            table = values["view"].selected
            assert dict(zip(table["target"], table["gold"], strict=True)) == {
                "the cat is asleep": 5,
                "a dog barks": 1,
            }
        else:
            assert "asleep" in values["view"].static()


def test_lists_are_proposed_where_a_sentence_is_in_four_pairs(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = [("a cat", text, score) for score, text in enumerate(["one", "two", "three", "four"])]
    for count, proposed in ((3, False), (4, True)):
        frame = pd.DataFrame(rows[:count], columns=["sentence1", "sentence2", "score"])
        frame.to_csv(tmp_path / "mine.csv", index=False)
        call("data", "check", str(tmp_path / "mine.csv"))
        printed = capsys.readouterr().out
        assert "workbench run cosent " in printed
        assert ("workbench run lists " in printed) == proposed
        assert ("or lists (" in printed) == proposed


def test_the_proposed_parts_of_a_large_file_are_no_larger_than_dev_needs(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)

    def split(file: str) -> tuple[str, list[Path]]:
        """Split the file by the command that is proposed for it; return all that is proposed."""
        capsys.readouterr()
        assert call("data", "check", file) == 0
        printed = capsys.readouterr().out
        line = next(line for line in printed.splitlines() if "workbench data split" in line)
        assert call(*shlex.split(line)[1:]) == 0
        return printed, sorted(Path("parts").glob(f"{Path(file).stem}-*"))

    pairs = [f"a cat {row},a dog {row},{row % 6}\n" for row in range(25_000)]
    Path("many.csv").write_text("sentence1,sentence2,score\n" + "".join(pairs))
    Path("few.csv").write_text("sentence1,sentence2,score\n" + "".join(pairs[:200]))
    Path("lines.txt").write_text("".join(f"cat number {row} sleeps\n" for row in range(60_000)))
    for file, sizes in {
        "few.csv": (20, 20, 160),
        "many.csv": (2000, 2000, 21_000),
        "lines.txt": (1800, 1800, 56_400),
    }.items():
        printed, parts = split(file)
        found = [gzip.decompress(part.read_bytes()).count(b"\n") - 1 for part in parts]
        assert found == pytest.approx(sizes, rel=0.1), file
        assert ("a tenth of the queries" in printed) == (file == "few.csv")
        assert ("about 2,000 pairs each" in printed) == (file == "many.csv")
        # The teacher need not embed all sentences for a few hundred steps.
        assert ("train_limit=50000" in printed) == (file == "lines.txt")


def test_every_command_that_reads_a_file_takes_its_columns(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    rows = [("a cat sleeps", "the cat is asleep"), ("a cat naps", "a dog barks"), ("it rains", "x")]
    frame = pd.DataFrame(rows, columns=["left", "right"])
    frame.assign(stars=[1, 2, 4], points=[4, 0, 1]).to_csv("loose.csv", index=False)
    trained: list[Any] = []
    monkeypatch.setattr("workbench.commands.notebooks.open_lab", lambda *_: None)
    monkeypatch.setattr(workbench, "run", lambda config, _: trained.append(config) or 1 / 0)
    settings = ["encoder=world-encoder", "train=loose.csv", "dev=loose.csv", "suites=loose.csv"]
    columns = "sentence1=left,sentence2=right,score=points"
    sides = {"sentence1": "left", "sentence2": "right", "score": "points"}
    commands = [
        ["data", "check", "loose.csv"],
        ["data", "split", "loose.csv", "parts", "--dev", "0.3", "--test", "0.3"],
        ["evaluate", "world-encoder", "--suites", "loose.csv"],
        ["look", "word-overlap", "--on", "loose.csv", "--html", "page.html"],
        ["look", "word-overlap", "--on", "loose.csv"],
        ["sweep", "cosent", *settings, "--plan"],
    ]
    for words in commands:
        assert call(*words) in (1, 2), words
        shown = capsys.readouterr()
        assert f'--columns "{columns.replace("points", "NAME")}"' in shown.out + shown.err
        assert call(*words, "--columns", columns) == 0, words
    with pytest.raises(ZeroDivisionError):
        workbench.commands.training.run("cosent", settings, columns=columns, notebook=False)
    assert trained[0].columns == sides
    (cell,) = json.loads(next(Path("runs/sweeps").glob("*/sweep.json")).read_text())["cells"]
    assert cell["overrides"]["columns"] == sides
    written = nbformat.read("look-word-overlap-loose.ipynb", 4).cells
    cells = {cell.id: cell.source for cell in written}
    values: dict[str, Any] = {}
    for cell in written[1:5:2]:
        exec(cell.source, values)
    assert "columns=" in cells["pairs"]
    assert values["explorer"].table["gold"].tolist() == [4, 0, 1]
    # A finished run knows how its suite is read.
    finished = workbench.views.finished_runs("runs", "loose")
    assert workbench.views.RunPicker(finished, "loose").pairs.gold.tolist() == [4, 0, 1]
    assert call("evaluate", "world-encoder", "--columns", columns) == 2
    assert "no column 'left' in your files" in capsys.readouterr().err


def test_a_look_at_no_file_no_model_or_unnamed_models_is_refused(
    call: Call, capsys, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for words, text in (
        (["--on", "absent.csv"], "no such regular file"),
        (["no folder"], "'no folder' is neither a folder nor a hub id"),
        (
            ["english-encoder", "--name", "a", "--name", "b"],
            "1 models need as many different names, not a, b",
        ),
        (
            ["english-encoder", "--name", "a", "--name", "a"],
            "1 models need as many different names, not a, a",
        ),
        (["--html", "page.htm"], "give --html FILE.html in a folder that exists, not page.htm"),
    ):
        assert call("look", *words) == 2
        assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_look_opens_lab_on_its_notebook_and_keeps_a_changed_one(
    call: Call, tmp_path: Path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    opened: list[list[str]] = []
    monkeypatch.setattr("jupyterlab.labapp.LabApp.launch_instance", opened.append)
    both, one = "look-english-encoder-word-overlap-ladders-all", "look-english-encoder-ladders-all"
    for words, name in (([], both), ([], both), (["english-encoder"], one)):
        assert call("look", *words, "--with=--no-browser") == 0
        page = f"--LabApp.default_url=/lab/tree/{name}.ipynb"
        assert opened.pop() == [f"--ServerApp.root_dir={tmp_path}", page, "--no-browser"]
    # A folder with signs that mean something in an address.
    (tmp_path / "a#b 100%25").mkdir()
    assert call("lab", "a#b 100%25") == 0
    assert "--LabApp.default_url=/lab/tree/a%23b%20100%2525" in opened.pop()[1]
    first = tmp_path / f"{both}.ipynb"
    assert all(
        name in first.read_text(encoding="utf-8")
        for name in ("english-encoder", "word-overlap", "ladders-all")
    )
    changed = first.read_text(encoding="utf-8").replace("Choose", "First choose")
    first.write_text(changed, encoding="utf-8")
    assert call("look") == 0  # it looks at the same, so that it is opened as it is
    assert len([opened.pop()]) == 1
    first.rename(tmp_path / f"{one}.ipynb")
    first = tmp_path / f"{one}.ipynb"
    assert call("look", "english-encoder") == 2
    assert "was written for other encoders or data, or is no notebook" in capsys.readouterr().err
    assert (first.read_text(encoding="utf-8"), opened) == (changed, [])
    first.write_text("half a noteb", encoding="utf-8")
    assert call("look", "english-encoder") == 2
    assert (first.read_text(encoding="utf-8"), opened) == ("half a noteb", [])


def test_runs_outside_the_folder_of_runs_are_removed_with_every_byte(
    root: Path, call: Call, monkeypatch, capsys
):
    others = root.parent / "others"
    first, second, third, busy = (
        write_run(others, simcse(seed), 0.4).path for seed in range(20, 24)
    )
    monkeypatch.chdir(others)
    third.with_name(f".{third.name}.removed").mkdir()  # an interrupted removal of an earlier run
    third.with_name(f".{third.name}.removed").joinpath("file").write_text("")
    words = [f"{first}/", second.relative_to(others), first, f"./simcse/../simcse/{third.name}"]
    lock = lock_run(busy)
    assert call("rm", *words, busy, "--runs", root, "--yes") == 1
    assert "a process is working on" in capsys.readouterr().err
    lock.release()
    assert len(list((others / "simcse").iterdir())) == 5, "nothing was removed"
    assert call("rm", *words, "--runs", root, "--yes") == 0
    assert capsys.readouterr().out.endswith("removed 3 run(s)\n")
    assert list((others / "simcse").iterdir()) == [busy]
    link = others / "link"
    link.symlink_to(busy)
    assert call("rm", link, "--runs", root, "--yes") == 1
    assert busy.is_dir()
    assert len(list_runs(root)) == 5


@pytest.fixture(params=["pipe", pytest.param("disk", marks=_NEEDS_FULL)])
def ended(request: pytest.FixtureRequest) -> Iterator[int]:
    """Open what nothing can be written to: a pipe whose reader has gone, or a full disk."""
    if request.param == "pipe":
        read, write = os.pipe()
        os.close(read)
    else:
        write = os.open("/dev/full", os.O_WRONLY)
    yield write
    os.close(write)


@pytest.mark.slow
@pytest.mark.parametrize("is_error_lost", [False, True])
def test_a_training_goes_on_when_nothing_more_can_be_printed(
    ended: int,
    tiny_encoder: Path,
    small_files: dict[str, str],
    tmp_path: Path,
    *,
    is_error_lost: bool,
):
    small = ["max_steps=2", "eval_steps=2", "train_limit=20", "device=cpu"]
    words = [
        "run",
        "simcse",
        *small,
        *(f"{name}={file}" for name, file in small_files.items()),
        f"encoder={tiny_encoder}",
        "--no-notebook",
        "--runs",
        str(tmp_path / "runs"),
    ]
    error = ended if is_error_lost else subprocess.PIPE
    done = subprocess.run(
        [python(), "-m", "workbench", *words], stdout=ended, stderr=error, text=True
    )
    assert done.returncode == 0
    assert list_runs(tmp_path / "runs")["status"].tolist() == ["finished"]
    if not is_error_lost:
        assert "Traceback" not in done.stderr
        assert done.stderr.count("nothing more is printed") == 1


def test_lost_output_does_not_change_the_exit_code_of_a_process(ended: int):
    code = (
        "from workbench.printing import steady_stdout\nwith steady_stdout():\n    print('a' "
        "* 100_000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=ended, stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)


def test_what_is_only_printed_is_an_error_if_it_is_lost(ended: int):
    command = [python("looks"), "-m", "workbench", "settings", "simcse"]
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
    assert subprocess.run(command, stdout=ended, stderr=ended).returncode != 0


def test_a_training_in_python_goes_on_when_nothing_more_can_be_printed(
    tiny_encoder: Path, monkeypatch, caplog
):
    class Ended(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    config = simcse(max_steps=2, eval_steps=2, device="cpu", encoder=str(tiny_encoder))
    monkeypatch.setattr(sys, "stdout", Ended())
    history = fit(
        SimCSE(config), Sentences.from_lists(["a b", "c d", "e f"] * 40), load_dev(config)
    )
    assert history["step"].max() == 2
    assert [record.message for record in caplog.records if "printed" in record.message] == [
        "nothing more is printed (Broken pipe); the work goes on"
    ]


@_NEEDS_FULL
def test_a_list_that_cannot_be_printed_is_an_error(root: Path):
    with Path("/dev/full").open("w") as full:
        command = [python("looks"), "-m", "workbench", "runs", "--runs", root]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith(
        "error: the output or the current folder: No space left on device"
    )


def test_a_disk_that_is_full_is_named_with_a_path_and_a_remedy(
    call: Call, monkeypatch, capsys, tmp_path: Path
):
    def copy(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", copy)
    assert call("notebooks", tmp_path / "mine") == 1
    error = capsys.readouterr().err
    assert error.startswith(
        f"error: cannot write under {tmp_path / 'mine'}: No space left on device; free some"
    )
    assert call("notebooks", "/dev/null") == 1
    assert "error: cannot write under /dev/null: " in capsys.readouterr().err


def test_a_log_line_has_no_control_characters_of_a_name(
    root: Path, call: Call, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logging.root, "handlers", [])
    assert call("runs", "--runs", root / "\x1b[31mred\r\u202egone\nforged: line") == 0
    first, second = capsys.readouterr().err.splitlines()
    assert r"\u001b[31mred\u000d\u202egone" in first
    assert second == "  forged: line does not exist, so it has no runs"
