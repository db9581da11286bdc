"""Hundreds of runs: filters, order, columns, one run by its name; removed; nothing is lost."""

import io
import json
import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from workbench.cli_runs import with_folders
from workbench.config import BaseConfig, RankCSEConfig, RankEncoderConfig, SimCSEConfig
from workbench.errors import RunError, SettingError
from workbench.files import lock_run
from workbench.runs import (
    Run,
    choose_runs,
    find_run,
    list_runs,
    note_failure,
    remove_runs,
    select_runs,
    told_apart,
)
from workbench.runs._listing import short_value


def written(
    root: Path, config: SimCSEConfig | RankEncoderConfig | BaseConfig, score: float | None, suite: str = "s"
) -> Run:
    """A run, finished where it has a score."""
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
    hot = written(folder, simcse(0, temperature=0.2), 0.5)
    hot.record(seconds=61.5)
    failed = written(folder, simcse(7), None)
    note_failure(failed.path, "RuntimeError: no luck")
    return folder


@pytest.mark.parametrize(
    ("where", "seeds"),
    [
        ([], [0, 0, 1, 2, 7]),
        (["seed<2"], [0, 0, 1]),
        (["seed<2", "temperature!=0.2"], [0, 1]),
        (["temperature = 2e-1"], [0]),
        (["status=finished"], [0, 0, 1]),
        (["status=failed"], [7]),
        (["s>=45"], [0, 0]),
        (["method=SimCSE", "s<45"], [1]),
        (["suites=world-test", "status=unfinished"], [2]),
        (["train_limit=none", "seed>=7"], [7]),
        (["started>2020-01-01", "seed=1"], [1]),
        (["profile=paper"], []),
    ],
)
def test_filters_take_columns_suites_and_any_setting(root: Path, where: list[str], seeds: list[int]):
    assert sorted(select_runs(root, where)["seed"].tolist()) == seeds


def test_a_filter_holds_for_no_run_that_lacks_what_it_names_and_compares_with_something(root: Path):
    written(root, BaseConfig.from_parameters("demo", overrides={"encoder": "world-encoder"}), 0.3)
    (root / "simcse" / "00000000-s9").mkdir()  # unreadable: nothing is known of it
    assert set(select_runs(root, ["temperature!=0.2"])["method"]) == {"simcse"}
    assert "unreadable" not in " ".join(select_runs(root, ["seed!=0"])["status"])
    for word in ("seed!=", "seed>", "seed>="):
        with pytest.raises(SettingError, match="has no value"):
            select_runs(root, [word])
    with pytest.raises(SettingError, match="expected a number"):
        select_runs(root, ["seed>zero"])


def test_a_folder_with_an_equals_sign_in_its_path_is_no_filter(tmp_path: Path):
    run = written(tmp_path / "rate=0.1", simcse(), 0.5)
    other = written(tmp_path / "rate=0.1", simcse(1), 0.5)
    found = choose_runs([str(run.path), other.path.name], tmp_path / "rate=0.1")
    assert [each.path for each in found] == [run.path, other.path]


def test_order_and_columns(root: Path):
    table = select_runs(root, sort="-s", columns=["seed", "temperature", "s"])
    assert table.columns.tolist() == ["seed", "temperature", "s"]
    assert table["s"].dropna().tolist() == [50, 45, 42]
    assert select_runs(root, sort="s")["s"].dropna().tolist() == [42, 45, 50]
    with pytest.raises(SettingError, match=r"'temprature' of a run; did you mean 'temperature'"):
        select_runs(root, ["temprature=1"])
    with pytest.raises(SettingError, match="is not a filter"):
        select_runs(root, ["temperature"])


@pytest.mark.parametrize("suite", ["path", "status", "method", "started", "host", "changed", "run", "temperature"])
def test_a_suite_called_like_a_column_or_a_setting_hides_nothing(
    root: Path, suite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    written(root, simcse(9, temperature=0.3), 0.61, suite)
    assert select_runs(root, [f"spearman {suite}>60"])["seed"].tolist() == [9]
    assert select_runs(root, ["temperature=0.3", "status=finished", "method=simcse"])["seed"].tolist() == [9]
    assert select_runs(root).columns.is_unique
    for form in ([], ["--csv"], ["--json"]):
        assert call(monkeypatch, "runs", str(root), *form) == 0
        assert f"spearman {suite}" in capsys.readouterr().out


def test_no_escape_sequence_of_a_terminal_is_printed_from_a_name(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    suite = "\x1b[31mred\x9b\x7f"
    run = written(root, simcse(9), 0.61, suite)
    note_failure(run.path, "\x1b[31mno luck")
    run.path.rename(root / "simcse" / f"{suite}-s9")
    for words in (["runs"], ["runs", "--csv"], ["runs", "--json"], ["runs", "x=1"], ["show", suite], ["rm", suite]):
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        call(monkeypatch, *words, "--runs", str(root))
        captured = capsys.readouterr()
        printed = captured.out + captured.err
        assert r"\u001b[31m" in printed
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", printed)
        if "--json" in words:
            assert suite in json.loads(captured.out)[-1]


def test_an_unreadable_run_is_a_row_and_hides_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    next(root.glob("*/*-s1")).joinpath("config.json").write_text("{")
    assert len(select_runs(root)) == 5
    assert select_runs(root, ["status=unreadable"])["path"].str.endswith("-s1").tolist() == [True]
    assert call(monkeypatch, "runs", str(root)) == 0
    assert sum(bool(re.search("-s1 +unreadable", line)) for line in capsys.readouterr().out.splitlines()) == 1


def test_a_run_is_found_by_the_beginning_of_its_name(root: Path):
    name = simcse(1).digest()
    assert find_run(f"{name}-s1", root).config.seed == 1
    assert find_run(simcse(0, temperature=0.2).digest()[:4], root).config.temperature == 0.2
    assert find_run(str(next(root.glob("*/*-s2"))), "nowhere").config.seed == 2
    with pytest.raises(RunError, match="4 runs begin with"):
        find_run(name, root)
    with pytest.raises(RunError, match="no run 'zz'"):
        find_run("zz", root)


def test_a_run_that_another_learned_from_is_removed_only_with_it(tmp_path: Path):
    base = written(tmp_path, simcse(0), 0.4)
    by_method = written(tmp_path, RankEncoderConfig.from_parameters("demo", 0), 0.5)
    (base.path / "encoder").mkdir()
    (base.path / "encoder" / "config.json").write_text("{}")
    by_folder = written(tmp_path, simcse(3, encoder=str(base.path)), 0.5)
    with pytest.raises(RunError, match=f"is needed: .*{by_method.path.name} learned from it"):
        remove_runs([base], tmp_path)
    with pytest.raises(RunError, match=f"{by_folder.path.name} learned from"):
        remove_runs([base, by_method], tmp_path)
    assert len(list_runs(tmp_path)) == 3
    config = BaseConfig.from_parameters("demo", overrides={"encoder": str(base.path)})
    judged = written(tmp_path, config, 0.4)
    with pytest.raises(RunError, match=f"{judged.path.name} evaluated it"):
        remove_runs([base, by_method, by_folder], tmp_path)
    remove_runs([base, by_method, by_folder, judged], tmp_path)
    assert list_runs(tmp_path).empty


def test_a_run_in_progress_is_not_removed_and_who_holds_it_is_said(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/mine.ipynb")
    run = find_run(f"{simcse(2).digest()}-s2", root)
    lock = lock_run(run.path, ".headless.lock")
    who = rf"process {os.getpid()} on {re.escape(platform.node())} since 20\d\d-.*, the kernel of /home/me/mine.ipynb"
    with pytest.raises(RunError, match=f"a process is working on .*{who}.*end it first"):
        remove_runs([run], root)
    lock.release()


def test_a_run_is_a_folder_that_tar_takes_to_another_machine(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.unpack_archive(shutil.make_archive(str(tmp_path / "runs"), "gztar", root), tmp_path / "there")
    there = tmp_path / "there"
    assert list_runs(there).drop(columns="path").equals(list_runs(root).drop(columns="path"))
    run = Run.create(simcse(1), there)
    assert run.finished
    assert run.metrics() == Run.create(simcse(1), root).metrics()
    assert call(monkeypatch, "import", str(tmp_path / "runs.tar.gz")) == 2, "tar does it"


def test_what_all_settings_have_in_common_stands_once_and_a_comma_in_a_value_is_none_between_settings(tmp_path: Path):
    teachers, both = ["world-encoder"], ["world-teacher", "world-encoder"]
    for given in (teachers, both):
        written(tmp_path, RankCSEConfig.from_parameters("demo", 0, {"teachers": given, "max_steps": 7}), 0.5)
    changed = list_runs(tmp_path)["changed"].tolist()
    assert "teachers=[world-teacher, world-encoder]" in ", ".join(changed)
    common, own = told_apart(changed)
    assert common == "max_steps=7"
    assert sorted(own) == ["teachers=[world-teacher, world-encoder]", "teachers=world-encoder"]
    assert told_apart([]) == ("", [])


@pytest.mark.parametrize(
    "value", ["a, b=c", "it's, n=2", '"[MASK]", n=2 {sentence}', ["p', n=2", "q]"], {"a": "b, n=2"}]
)
def test_what_stands_in_a_value_is_no_setting(value: Any):
    texts = [f"demo, template={short_value(each, 0)}, n=1" for each in (value, "plain")]
    assert told_apart(texts) == ("demo, n=1", [f"template={short_value(value, 0)}", "template=plain"])


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    from workbench.cli import main

    monkeypatch.setattr(sys, "argv", ["workbench", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_a_column_is_known_by_every_run_whichever_are_left(root: Path):
    assert list(select_runs(root, ["seed=7"], columns=["s"])) == ["s"]
    with pytest.raises(SettingError, match="nosuch"):
        select_runs(root, ["profile=paper"], sort="nosuch")


def test_a_run_is_named_shortly_in_every_setting_and_other_words_stay(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(root)
    path = next(root.glob("*/*-s2"))
    name = f"simcse/{path.name}"
    others = ["max_steps=10000000,20000000", f"base=./{name}", "encoder=owner/model-s0", "corpus=12345678.txt"]
    others += ['revisions={"owner/model": "86b5e093"}', "simcse.revisions=[{}]"]
    assert with_folders(others, str(root)) == others
    assert with_folders([f"encoder={name}"], str(root)) == [f"encoder={name}"], "a path that is there"
    named = [f"teachers={path.name},world-encoder", f'teachers=["{path.name}"]', path.name.partition("-")[0] + "-s2"]
    found = [f"teachers={path},world-encoder", f'teachers=["{path}"]', str(path)]
    assert with_folders(named, str(root)) == found
    alone = next(each for each in root.glob("simcse/*") if not each.name.startswith(path.name[:4]))
    assert with_folders([f"teachers=simcse/{alone.name[:4]}"], str(root)) == [f"teachers={alone}"]
    with pytest.raises(RunError, match=r"(?s)4 runs.*simcse/"):
        with_folders([f"encoder=simcse/{path.name[:4]}"], str(root))


def test_the_commands_list_show_and_ask_before_they_remove_one_or_all_that_filters_mean(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    assert call(monkeypatch, "runs", str(root), "seed=7", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["status"], found["seed"]) == ("failed", 7)
    assert call(monkeypatch, "runs", "--runs", str(root), "--csv", "--columns", "seed,status") == 0
    assert capsys.readouterr().out.splitlines()[0] == "seed,status"
    name = simcse(7).digest() + "-s7"
    assert call(monkeypatch, "show", name, "--runs", str(root)) == 0
    assert "no luck" in capsys.readouterr().out
    history = "step,dev_spearman\n0,0.5\n1,\n2,0.47\n3,0.46\n"
    (next(root.glob(f"*/{name}")) / "history.csv").write_text(history)
    assert call(monkeypatch, "show", name, "--runs", str(root)) == 0
    assert re.search(r"kept +step 2, dev 47.00 \(before training 50.00\)", capsys.readouterr().out)
    assert call(monkeypatch, "evaluate", f"{name[:8]}-s6", "--runs", str(root)) == 1, "read as a run's name"
    assert f"no run '{name[:8]}-s6'" in capsys.readouterr().err
    for command in (["run", "rankcse"], ["sweep", "rankcse"]):
        assert call(monkeypatch, *command, f"teachers={name[:8]}-s6", "--runs", str(root)) == 1
    assert call(monkeypatch, "push", name, "me/mine", "--runs", str(root)) == 1
    assert str(root / "simcse" / name) in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert call(monkeypatch, "rm", name, "--runs", str(root)) == 1
    assert len(list_runs(root)) == 5
    assert call(monkeypatch, "rm", name, "--runs", str(root), "--yes") == 0
    assert len(list_runs(root)) == 4
    capsys.readouterr()
    assert call(monkeypatch, "runs", str(root)) == 0
    shared, heads, *rows = capsys.readouterr().out.splitlines()
    assert shared == "all: demo"
    assert heads.split()[:4] == ["method", "run", "status", "changed"]
    assert [row.split()[1] for row in rows] == sorted(path.name for path in root.glob("*/*-s*"))
    assert call(monkeypatch, "runs", str(root), "method=simces", "seed=8") == 0
    assert "with method=simces seed=8" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert call(monkeypatch, "rm", "temperature=0.2", "seed<9", "--runs", str(root)) == 1
    assert re.fullmatch(r"\S+-s0\nremove 1 run\? .*", capsys.readouterr().out.strip())
    assert call(monkeypatch, "rm", "status=finished", "--runs", str(root), "--yes") == 0
    assert list_runs(root)["status"].tolist() == ["unfinished"]
    (left,) = list_runs(root)["path"]
    with monkeypatch.context() as asked:
        asked.setattr("typer.confirm", lambda _: note_failure(Path(left), "while it was asked") is None)
        assert call(monkeypatch, "rm", "status!=failed", "--runs", str(root)) == 1
    for words, code in ((["seed=1"], 1), (["seed=2", name], 2)):
        assert call(monkeypatch, "rm", *words, "--runs", str(root), "--yes") == code
    assert len(list_runs(root)) == 1
