"""Hundreds of runs: filters, order, columns, one run by its name; removed; nothing is lost."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from workbench.cli_runs import with_folders
from workbench.config import BaseConfig, RankCSEConfig, RankEncoderConfig, SimCSEConfig
from workbench.errors import RunError, SettingError
from workbench.runs import Run, choose_runs, find_run, list_runs, lock_run, remove_runs, split_common_settings

Call = Callable[..., int]


def written(
    root: Path, config: SimCSEConfig | RankCSEConfig | RankEncoderConfig | BaseConfig, score: float | None, suite="s"
) -> Run:
    """Write a run, which is finished if it has a score."""
    run = Run.create(config, root)
    if score is not None:
        table = pd.DataFrame({"suite": [suite], "subset": [""], "pair_id": ["0"]})
        run.write_evaluation({suite: {"spearman": score, "n": 2}}, table, table)
    run.release()
    return run


def simcse(seed: int = 0, **overrides: object) -> SimCSEConfig:
    return SimCSEConfig.from_parameters("demo", seed, overrides)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for seed, score in enumerate((0.45, 0.42, None)):
        written(folder, simcse(seed), score)
    written(folder, simcse(0, temperature=0.2), 0.5).record(seconds=61.5)
    written(folder, simcse(7), None).record(failure="RuntimeError: no luck")
    return folder


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """(words) -> the exit code of the command."""

    def command(*words: str, answer: str = "") -> int:
        from workbench.cli import main

        monkeypatch.setattr(sys, "argv", ["workbench", *words])
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    return command


@pytest.mark.parametrize(
    ("where", "seeds"),
    [
        (["seed<2", "temperature!=0.2"], [0, 1]),
        (["temperature = 2e-1"], [0]),
        (["status=failed"], [7]),
        (["s>=45"], [0, 0]),
        (["method=SimCSE", "s<45"], [1]),
        (["suites=world-test", "status=unfinished"], [2]),
        (["train_limit=none", "seed>=7"], [7]),
        (["started>2020-01-01", "seed=1"], [1]),
        (["mlp=false", "seed=2"], []),
        (["profile=paper"], []),
    ],
)
def test_filters_take_columns_suites_and_any_setting(root: Path, where: list[str], seeds: list[int]):
    assert sorted(list_runs(root, where)["seed"].tolist()) == seeds


def test_a_filter_holds_for_no_run_that_lacks_what_it_names_and_compares_with_something(root: Path):
    written(root, BaseConfig.from_parameters("demo", overrides={"encoder": "world-encoder"}), 0.3)
    (root / "simcse" / "00000000-s9").mkdir()  # unreadable: nothing is known of it
    assert set(list_runs(root, ["temperature!=0.2"])["method"]) == {"simcse"}
    assert "unreadable" not in " ".join(list_runs(root, ["seed!=0"])["status"])
    assert list_runs(root, ["status=unreadable"])["path"].str.endswith("-s9").tolist() == [True]
    for word, reason in (("seed!=", "has no value"), ("seed>", "has no value"), ("seed>zero", "expected a number")):
        with pytest.raises(SettingError, match=reason):
            list_runs(root, [word])


def test_order_and_columns(root: Path):
    table = list_runs(root, sort="-s", columns=["seed", "temperature", "s"])
    assert table.columns.tolist() == ["seed", "temperature", "s"]
    assert table["s"].dropna().tolist() == [50, 45, 42]
    assert list_runs(root, sort="s")["s"].dropna().tolist() == [42, 45, 50]
    assert list(list_runs(root, ["seed=7"], columns=["s"])) == ["s"], "known, though no run is left that has it"
    with pytest.raises(SettingError, match=r"'temprature' of a run; did you mean 'temperature'"):
        list_runs(root, ["temprature=1"])
    with pytest.raises(SettingError, match="is not a filter"):
        list_runs(root, ["temperature"])


@pytest.mark.parametrize("suite", ["status", "temperature"])
def test_a_suite_called_like_a_column_or_a_setting_hides_nothing(root: Path, suite: str, call: Call):
    written(root, simcse(9, temperature=0.3), 0.61, suite)
    assert list_runs(root, [f"spearman {suite}>60"])["seed"].tolist() == [9]
    assert list_runs(root, ["temperature=0.3", "status=finished", "method=simcse"])["seed"].tolist() == [9]
    assert list_runs(root).columns.is_unique
    assert call("runs", str(root)) == 0


def test_no_escape_sequence_of_a_terminal_is_printed_from_a_name(root: Path, call: Call, capsys):
    suite = "\x1b[31mred\x9b\x7f"
    run = written(root, simcse(9), 0.61, suite)
    run.record(failure="\x1b[31mno luck")
    run.path.rename(root / "simcse" / f"{suite}-s9")
    for words in (["runs"], ["runs", "--csv"], ["runs", "--json"], ["runs", "x=1"], ["show", suite], ["rm", suite]):
        call(*words, "--runs", str(root), answer="n\n")
        captured = capsys.readouterr()
        assert r"\u001b[31m" in captured.out + captured.err
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", captured.out + captured.err)
        if "--json" in words:
            assert suite in json.loads(captured.out)[-1]


def test_a_run_is_found_by_the_beginning_of_its_name_in_commands_and_settings(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    name, path = simcse(1).digest(), next(root.glob("*/*-s2"))
    assert find_run(f"{name}-s1", root).config.seed == 1
    assert find_run(f"simcse/{simcse(0, temperature=0.2).digest()[:4]}", root).config.temperature == 0.2
    assert find_run(str(path), "nowhere").config.seed == 2
    for word, reason in ((name, "4 runs begin with"), ("zz", "no run 'zz'"), ("", "no run ''")):
        with pytest.raises(RunError, match=reason):
            find_run(word, root)
    monkeypatch.chdir(root)
    others = ["max_steps=10000000,20000000", f"base=./simcse/{path.name}", "encoder=owner/model-s0"]
    others += ["corpus=12345678.txt", 'revisions={"owner/model": "86b5e093"}', f"encoder=simcse/{path.name}"]
    assert with_folders(others, str(root)) == others, "paths that are there, numbers and revisions"
    named = [f"teachers={path.name},world-encoder", f'teachers=["{path.name}"]', path.name]
    expected = [f"teachers={path},world-encoder", f'teachers=["{path}"]', str(path)]
    assert with_folders(named, str(root)) == expected
    with pytest.raises(RunError, match=r"(?s)4 runs.*simcse/"):
        with_folders([f"encoder=simcse/{path.name[:4]}"], str(root))


def test_a_folder_with_an_equals_sign_in_its_path_is_no_filter(tmp_path: Path):
    runs = [written(tmp_path / "rate=0.1", simcse(seed), 0.5) for seed in (0, 1)]
    chosen = choose_runs([str(runs[0].path), runs[1].path.name], tmp_path / "rate=0.1")
    assert [each.path for each in chosen] == [run.path for run in runs]


def test_a_run_that_another_learned_from_is_removed_only_with_it(tmp_path: Path):
    base = written(tmp_path, simcse(0), 0.4)
    by_method = written(tmp_path, RankEncoderConfig.from_parameters("demo", 0), 0.5)
    (base.path / "encoder").mkdir()
    (base.path / "encoder" / "config.json").write_text("{}")
    by_folder = written(tmp_path, simcse(3, encoder=str(base.path)), 0.5)
    judged = written(tmp_path, BaseConfig.from_parameters("demo", overrides={"encoder": str(base.path)}), 0.4)
    every = {"learned from it": (by_method, by_folder), "evaluated it": (judged,)}
    for reason, runs in every.items():
        for run in runs:
            others = [each for each in (base, by_method, by_folder, judged) if each is not run]
            with pytest.raises(RunError, match=f"is needed: .*{run.path.name} {reason}"):
                remove_runs(others, tmp_path)
    assert len(list_runs(tmp_path)) == 4
    lock = lock_run(judged.path)
    with pytest.raises(RunError, match=r"a process is working on .*end it first"):
        remove_runs([judged], tmp_path)
    lock.release()
    remove_runs([base, by_method, by_folder, judged], tmp_path)
    assert list_runs(tmp_path).empty


def test_common_settings_are_split_from_others_also_where_a_value_is_a_list(tmp_path: Path):
    for given in (["world-encoder"], ["world-teacher", "world-encoder"]):
        written(tmp_path, RankCSEConfig.from_parameters("demo", 0, {"teachers": given, "max_steps": 7}), 0.5)
    common, own = split_common_settings(list_runs(tmp_path)["changed"].tolist())
    assert common == "max_steps=7"
    assert sorted(own) == ["teachers=[world-teacher, world-encoder]", "teachers=world-encoder"]
    assert split_common_settings([]) == ("", [])
    assert split_common_settings(["demo, n=1, a=2", "demo, n=1"], ["a"]) == ("demo, n=1", ["", ""])


def test_runs_are_listed_and_shown(root: Path, call: Call, capsys: pytest.CaptureFixture):
    assert call("runs", str(root), "seed=7", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["status"], row["seed"]) == ("failed", 7)
    assert call("runs", "--runs", str(root), "--csv", "--columns", "seed,status") == 0
    assert capsys.readouterr().out.splitlines()[0] == "seed,status"
    next(root.glob("*/*-s1")).joinpath("config.json").write_text("{")
    assert call("runs", str(root)) == 0
    shared, heads, *rows = capsys.readouterr().out.splitlines()
    assert shared == "all: demo"
    assert heads.split()[:4] == ["method", "run", "status", "changed"]
    assert [row.split()[1] for row in rows] == sorted(path.name for path in root.glob("*/*-s*"))
    assert sum("unreadable" in row for row in rows) == 1
    assert call("runs", str(root), "method=simces", "seed=8") == 0
    assert "with method=simces seed=8" in capsys.readouterr().out

    name = simcse(7).digest() + "-s7"
    history = "step,dev_spearman\n0,0.5\n1,\n2,0.47\n3,0.46\n"
    (root / "simcse" / name / "history.csv").write_text(history)
    assert call("show", name, "--runs", str(root)) == 0
    shown = capsys.readouterr().out
    assert "no luck" in shown
    assert re.search(r"kept +step 2, dev 47.00 \(before training 50.00\)", shown)
    assert re.search(r"version +\d", shown)
    assert call("push", name, "me/mine", "--runs", str(root)) == 1
    assert str(root / "simcse" / name) in capsys.readouterr().err
    for command in (["evaluate"], ["run", "rankcse"], ["sweep", "rankcse"]):
        word = f"{'' if command == ['evaluate'] else 'teachers='}{name[:8]}-s6"
        assert call(*command, word, "--runs", str(root)) == 1
        assert f"no run '{name[:8]}-s6'" in capsys.readouterr().err


def test_runs_are_removed_after_a_question_by_name_or_by_filters(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    assert call("rm", "temperature=0.2", "seed<9", "--runs", str(root), answer="n\n") == 1
    assert re.fullmatch(r"\S+-s0\nremove 1 run\(s\)\? .*", capsys.readouterr().out.strip())
    assert len(list_runs(root)) == 5
    assert call("rm", simcse(7).digest() + "-s7", "--runs", str(root), "--yes") == 0
    assert call("rm", "status=finished", "--runs", str(root), "--yes") == 0
    assert list_runs(root)["status"].tolist() == ["unfinished"]
    (left,) = list_runs(root)["path"]
    monkeypatch.setattr("typer.confirm", lambda _: Run(left).record(failure="while it was asked") is None)
    assert call("rm", "status!=failed", "--runs", str(root)) == 1
    for words, code in ((["seed=1"], 1), (["seed=2", "abcd"], 2)):
        assert call("rm", *words, "--runs", str(root), "--yes") == code
    assert len(list_runs(root)) == 1
