"""A run's folder is a function of the settings; it is never half written and never lost."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from forking import python
from written_runs import after_a_timeout, hold_lock

import workbench
from workbench import views
from workbench.config import RankEncoderConfig, SimCSEConfig
from workbench.errors import BusyError, RunError
from workbench.files import (
    HOME,
    atomic_path,
    file_checksum,
    reraise_os_error,
    write_json,
    write_text,
)
from workbench.metrics import metrics_table
from workbench.runs import Run, finished_run, held_lock, list_runs, lock_run, short_value
from workbench.runs._listing import _comparable, _satisfies
from workbench.runs._run import checkout_commit
from workbench.views import runs_folder
from workbench.views.encoders import label_encoders

LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="open files and processes are read from /proc"
)


def config(seed: int = 0, **overrides: object) -> SimCSEConfig:
    return SimCSEConfig.from_parameters("demo", seed, overrides)


SCORES = pd.DataFrame(
    {
        "suite": "s",
        "subset": ["", "x"],
        "pair_id": ["007", "nan"],
        "gold": [1.0, 2.0],
        "predicted": [0.1, 0.5],
    }
)
RANKED = {
    "suite": "s",
    "query_id": ["0"],
    "target_id": ["1"],
    "query": ["a, b"],
    "target": ['"null"\tx'],
}
RANKINGS = pd.DataFrame({**RANKED, "gold": [1.0], "score": [0.5], "rank": [1.0]})


def finish(run: Run, spearman: float = 0.5, *stages: str) -> Run:
    """Store evaluations of these stages and, as the last one, that of the trained encoder."""
    for stage in (*stages, ""):
        run.write_evaluation({"s": {"spearman": spearman, "n": 2}}, SCORES, RANKINGS, stage)
    return run


def test_the_same_settings_meet_the_same_directory_with_all_that_a_number_depends_on(
    tmp_path: Path,
):
    file = tmp_path / "mine.txt"
    file.write_text("a b\nc d\n")
    run = Run.open(config(3, train=str(file)), tmp_path / "my runs é")
    assert (
        run.path
        == Run.open(config(3, train=str(file), temperature=0.05), tmp_path / "my runs é").path
    )
    others = [config(4, train=str(file)), config(3), config(3, train=str(file), temperature=0.06)]
    assert len({run.path.name, *(Run.open(each, tmp_path).path.name for each in others)}) == 4
    facts = run.facts()
    assert (facts["settings"]["temperature"], facts["settings"]["train"]) == (0.05, str(file))
    assert facts["contents"][str(file)] == file_checksum(file)
    assert {"python", "torch", "transformers", "numpy", "ranking-workbench"} <= set(
        facts["versions"]
    )
    assert run.config == config(3, train=str(file))
    run.record(data={"a": 1})
    run.record(data={"b": 2}, device="cpu")
    assert (run.facts()["data"], run.facts()["device"]) == ({"a": 1, "b": 2}, "cpu")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_saved_notebook_is_not_changed_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # within a hook of git they name the user's repository
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # a user's may sign commits
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    (tmp_path / "a.ipynb").write_text("{}")
    (tmp_path / "a.py").write_text("1")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    commit = checkout_commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", str(commit))
    (tmp_path / "a.ipynb").write_text('{"metadata": {}}')
    assert checkout_commit(tmp_path) == commit
    (tmp_path / "a.py").write_text("2")
    assert checkout_commit(tmp_path) == f"{commit}+changes"


def test_git_does_not_read_the_pipe_that_ends_a_cell(tmp_path: Path):
    # It never starts on Windows otherwise; here it would read the pipe.
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nread line && echo $line || echo none\n")
    git.chmod(0o755)
    code = "from workbench.runs._run import checkout_commit as read; print(read())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="what the parent wrote\n",
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == {"none"}


def test_a_file_that_another_program_holds_for_a_moment_is_replaced_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    held = iter([True, True, False, True])
    replace = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if next(held):
            raise PermissionError(13, "Access is denied")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr("workbench.files._WAITS", (0, 0))
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "new"
    monkeypatch.setattr("workbench.files._WAITS", ())
    with pytest.raises(RunError, match="close what has it open"), reraise_os_error(tmp_path):
        write_text(tmp_path / "a.txt", "newer")
    assert (tmp_path / "a.txt").read_text() == "new"


def test_data_that_changed_under_a_run_is_refused(tmp_path: Path):
    run = Run.open(config(), tmp_path)
    run.record({"dev": ("a folder", "0" * 64)})
    run.record({"dev": ("another folder", "0" * 64), "train": ("a file", "2" * 64)})
    with pytest.raises(RunError, match="dev: a folder is not what"):
        run.record({"dev": ("a folder", "1" * 64)}, device="cpu")
    inputs = {
        "dev": {"source": "a folder", "sha256": "0" * 64},
        "train": {"source": "a file", "sha256": "2" * 64},
    }
    assert (run.facts()["inputs"], run.facts().get("device")) == (inputs, None)


def test_a_run_is_finished_by_its_last_evaluation_and_reads_as_it_was_written(tmp_path: Path):
    run = Run.open(config(), tmp_path)
    (run.path / "checkpoint" / "checkpoint-5").mkdir(parents=True)
    run.write_evaluation({"s": {"spearman": 0.1, "n": 2}}, SCORES, RANKINGS, stage="before")
    assert (run.finished, run.metrics("before")["s"]["spearman"]) == (False, 0.1)
    with pytest.raises(RunError, match="run it again and it goes on"):
        run.metrics()
    finish(run)
    assert (run.finished, run.metrics()) == (True, {"s": {"spearman": 0.5, "n": 2}})
    assert not (run.path / "checkpoint").exists()
    (run.path / "checkpoint").mkdir()  # as if killed before it was removed
    assert finished_run(config(), tmp_path)
    assert not (run.path / "checkpoint").exists()
    pd.testing.assert_frame_equal(run.scores(), SCORES)
    pd.testing.assert_frame_equal(run.rankings(), RANKINGS)
    shutil.copytree(tmp_path / "simcse", tmp_path / "there" / "simcse")  # a run is a folder
    here, there = list_runs(tmp_path), list_runs(tmp_path / "there")
    assert here.drop(columns="path").equals(there.drop(columns="path"))


def test_the_list_has_the_score_of_the_start_next_to_the_result(tmp_path: Path):
    # The second was never evaluated before its training.
    for seed, stages in enumerate([("before",), ()]):
        run = Run.open(config(seed), tmp_path)
        for stage, scores in zip(
            (*stages, ""), ((0.6, 0.3), (0.5, 0.4))[-1 - len(stages) :], strict=True
        ):
            metrics = {
                "own": {"spearman": scores[0], "n": 2},
                "another": {"accuracy": scores[1], "n": 2},
            }
            run.write_evaluation(metrics, SCORES, RANKINGS, stage)
        run.release()
    table = list_runs(tmp_path)
    assert table.columns.tolist()[6:9] == ["start", "own", "another"]
    assert table["start"].fillna(0).tolist() == [60.0, 0.0]
    assert table["own"].tolist() == [50.0, 50.0]
    (row,) = list_runs(tmp_path, ["start>55"], columns=["own:start", "another:start"]).to_dict(
        "records"
    )
    assert row == {"own:start": 60.0, "another:start": 30.0}


def test_a_run_belongs_to_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/mine.ipynb")
    run = Run.open(config(), tmp_path)
    assert held_lock(run.path)
    Run.open(config(), tmp_path)  # the cell of a notebook once more
    holder = (run.path / ".lock.owner").read_text()
    assert holder.startswith(f"process {os.getpid()} on ")
    assert holder.endswith("the kernel of /home/me/mine.ipynb")
    run.release()
    assert not held_lock(run.path)
    with hold_lock(run.path):
        for attempt in (lambda: Run.open(config(), tmp_path), run.acquire):
            with pytest.raises(
                BusyError, match=r"another process is working on .* \(process \d+ on "
            ):
                attempt()
        assert held_lock(run.path)
    assert not held_lock(run.path)
    # On Windows nobody else can read a locked file, and a full disk keeps no owner.
    with hold_lock(run.path):
        (run.path / ".lock.owner").unlink()
        with pytest.raises(BusyError, match=r"working on .* \(it did not note its name\); wait"):
            Run.open(config(), tmp_path)
    # A notebook that starts: its kernel takes the run some seconds later.
    notebook = lock_run(run.path, "notebook.ipynb", ".notebook.lock")
    assert held_lock(run.path)
    notebook.release()
    assert not held_lock(run.path)
    run.acquire()


def test_a_cell_of_a_sweep_waits_for_the_process_that_has_its_run_and_keeps_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = Run.open(config(), tmp_path)
    run.release()
    monkeypatch.setenv("WORKBENCH_CELL", "a file")
    with hold_lock(run.path) as other:
        after_a_timeout(monkeypatch, lambda: (finish(run), other.communicate()))
        opened = Run.open(config(device="cpu"), tmp_path)
    assert opened.finished
    assert opened.config.device == "auto"
    opened.release()


def test_an_interrupted_run_keeps_on_record_how_it_began(tmp_path: Path):
    Run.open(config(), tmp_path)
    again = Run.open(config(device="cpu"), tmp_path)
    assert again.config.device == "cpu"
    assert "earlier_starts" not in again.facts(), "nothing was computed before"
    again.record({"train": ("a folder", "0" * 64)}, failure="out of memory")
    assert list_runs(tmp_path)["status"].tolist() == ["failed"]
    third = Run.open(config(), tmp_path)
    assert [start["settings"]["device"] for start in third.facts()["earlier_starts"]] == ["cpu"]
    assert third.facts()["inputs"].keys() == {"train"}
    third.release()
    fourth = Run.open(config(temperature=0.05), tmp_path)
    assert len(fourth.facts()["earlier_starts"]) == 1, "a default was given, so nothing changed"
    assert list_runs(tmp_path)["status"].tolist() == ["unfinished"]


KILLED = """
import os, signal, sys
from pathlib import Path
from workbench.files import atomic_path
run, when = Path(sys.argv[1]), sys.argv[2]
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
if when == "table":
    with atomic_path(run / "history.csv") as new:
        new.write_text("half")
        kill()
replace = Path.replace
if when == "swap":
    Path.replace = lambda self, target: (replace(self, target), kill())
with atomic_path(run / "encoder", folder=True) as new:
    (new / "config.json").write_text("new")
    if when == "encoder":
        kill()
"""


@pytest.mark.parametrize("when", ["table", "encoder", "swap"])
def test_what_a_kill_left_half_written_is_gone_when_the_run_goes_on(tmp_path: Path, when: str):
    run = Run.open(config(), tmp_path)
    (run.path / "encoder").mkdir()
    (run.path / "encoder" / "config.json").write_text("old")
    (run.path / "history.csv").write_text("step\n")
    run.release()
    kept = sorted(run.path.rglob("*"))
    done = subprocess.run([python("looks"), "-c", KILLED, str(run.path), when], check=False)
    assert done.returncode == -9
    assert sorted(run.path.rglob("*")) != kept
    Run.open(config(), tmp_path)
    write_text(run.path / "history.csv", "step\n0\n")
    assert sorted(run.path.rglob("*")) == kept
    assert (run.path / "encoder" / "config.json").read_text() == "old"


def test_a_folder_or_file_is_replaced_whole_or_not_at_all(tmp_path: Path):
    def fail_half_way(folder: bool) -> None:
        with atomic_path(tmp_path / ("folder" if folder else "a.json"), folder=folder) as new:
            (new / "a" if folder else new).write_text("half")
            raise KeyboardInterrupt

    write_json(tmp_path / "a.json", {"x": float("nan"), "y": [1.5]})
    with atomic_path(tmp_path / "folder", folder=True) as new:
        (new / "a").write_text("old")
    for folder in (True, False):
        with pytest.raises(KeyboardInterrupt):
            fail_half_way(folder)
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": None, "y": [1.5]}
    assert (tmp_path / "folder" / "a").read_text() == "old"
    with atomic_path(tmp_path / "folder", folder=True) as new:
        (new / "b").write_text("new")
    left = [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))]
    assert left == ["a.json", "folder", "folder/b"]


def test_a_file_may_be_read_by_all_who_may_read_other_files_of_the_folder(tmp_path: Path):
    (tmp_path / "ordinary").mkdir()
    (tmp_path / "ordinary.txt").touch()
    with atomic_path(tmp_path / "one.txt") as new:
        new.chmod(0o600)  # as safetensors writes its files
    with atomic_path(tmp_path / "folder", folder=True) as new:
        os.close(os.open(new / "one.txt", os.O_CREAT, 0o600))
    for name, other in (
        ("one.txt", "ordinary.txt"),
        ("folder", "ordinary"),
        ("folder/one.txt", "ordinary.txt"),
    ):
        assert (tmp_path / name).stat().st_mode == (tmp_path / other).stat().st_mode


@LINUX
def test_content_reaches_the_disk_before_its_name_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda f: (seen.append(Path(f"/proc/self/fd/{f}").resolve().name), fsync(f))
    )
    monkeypatch.setattr(
        Path, "replace", lambda self, target: (seen.append("rename"), replace(self, target))[1]
    )
    with atomic_path(tmp_path / "folder", folder=True) as new:
        (new / "weights").write_text("new")
    assert seen == ["weights", new.name, "rename", tmp_path.name]
    seen.clear()
    write_json(tmp_path / "a.json", {})
    assert seen == [".a.json.new", "rename", tmp_path.name]


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, "refused by the system")


def test_a_disk_that_takes_nothing_is_reported_and_a_finished_run_there_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = Run.open(config(), tmp_path)
    finish(Run.open(config(1), tmp_path))
    monkeypatch.setattr("workbench.files._sync", refuse)
    with pytest.raises(
        RunError, match=r"cannot write under .*refused by the system.*give a runs folder"
    ):
        run.record(device="cpu")
    assert json.loads((run.path / "config.json").read_text())["digest"] == config().digest()
    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    assert Run.open(config(1), tmp_path).metrics()["s"]["n"] == 2
    (tmp_path / "runs").write_text("")
    with pytest.raises(RunError, match="cannot write under"):
        Run.open(config(), tmp_path / "runs")
    assert list_runs(tmp_path / "runs").empty


ODD = [
    *(
        ("metrics.json", text)
        for text in (b'{"s": 0.5}', b'{"s": {"spearman": "a"}}', b'{"s": {', b"\xff")
    ),
    *(
        ("config.json", text)
        for text in (b"{}", b"[" * 100_000, b'{"method": "x", "settings": {}}', None)
    ),
]


@pytest.mark.parametrize(("name", "content"), ODD)
def test_an_odd_run_is_listed_with_its_reason_and_hides_no_other(
    tmp_path: Path, name: str, content: bytes | None
):
    sound = finish(Run.open(config(1, temperature=0.07), tmp_path), 0.25)
    file = finish(Run.open(config(5), tmp_path), 0.5, "before").path / name
    file.unlink() if content is None else file.write_bytes(content)
    table = list_runs(tmp_path).set_index("path")
    expected = ["finished", "temperature=0.07", 25]
    assert table.loc[str(sound.path), ["status", "changed", "s"]].tolist() == expected
    assert views.finished_runs(tmp_path, "s")["path"].tolist() == [str(sound.path)]
    assert table.loc[str(file.parent), "status"] == "unreadable"


TYPES = [
    *(
        ("config.json", text)
        for text in ({"seconds": "x"}, {"digest": [1]}, {"started": 5}, {"inputs": []})
    ),
    *(("config.json", text) for text in ({"files": {"encoder": "x"}}, {"failure": {}})),
    *(
        ("config.json", text)
        for text in ({"settings": []}, {"versions": 3}, {"inputs": {"dev": {}}})
    ),
]


@pytest.mark.parametrize(("name", "changes"), TYPES)
def test_a_value_of_a_wrong_type_costs_one_run_and_a_warning_names_it(
    tmp_path: Path, name: str, changes: dict[str, object], caplog: pytest.LogCaptureFixture
):
    sound, odd = (finish(Run.open(config(seed), tmp_path), 0.25) for seed in range(2))
    # As of earlier versions.
    facts = {key: value for key, value in odd.facts().items() if key != "files"}
    write_json(odd.path / "config.json", facts)
    write_json(odd.path / name, json.loads((odd.path / name).read_text()) | changes)
    table = list_runs(tmp_path, columns=["status", "seconds", "s"], sort="seconds")
    assert sorted(table["status"]) == ["finished", "unreadable"]
    assert views.finished_runs(tmp_path, "s")["path"].tolist() == [str(sound.path)]
    key = next(iter(changes))
    (message,) = caplog.messages
    assert message.startswith(f"left out: {odd.path}: {odd.path / name} cannot be read ({key}")


def test_settings_with_another_seed_than_the_folder_are_no_further_seed(tmp_path: Path):
    run, other = (finish(Run.open(config(seed), tmp_path)) for seed in range(2))
    facts = run.facts()
    write_json(run.path / "config.json", facts | {"settings": facts["settings"] | {"seed": 7}})
    with pytest.raises(RunError, match=r"config\.json has seed 7, unlike its folder; restore"):
        _ = run.config
    assert views.finished_runs(tmp_path, "s")["path"].tolist() == [str(other.path)]
    write_json(run.path / "config.json", facts)
    assert len(views.finished_runs(tmp_path, "s")) == 2


def test_a_run_of_an_unknown_method_names_the_known_ones(tmp_path: Path):
    file = finish(Run.open(config(), tmp_path)).path / "config.json"
    file.write_text('{"method": "x", "settings": {}}')
    with pytest.raises(RunError, match=r"^no method 'x' in .*config\.json \(known: .*simcse"):
        _ = Run(file.parent).config
    assert list_runs(tmp_path, columns=["failure"])["failure"].str.startswith(
        "no method 'x' in "
    ).tolist() == [True]


@pytest.mark.parametrize("stage", ["", "before"])
def test_metrics_that_were_edited_are_not_believed(tmp_path: Path, stage: str):
    run = finish(Run.open(config(), tmp_path), 0.5, "before")
    file = run.path / stage / "metrics.json"
    assert run.metrics(stage) == {"s": {"spearman": 0.5, "n": 2}}
    file.write_text(file.read_text().replace("0.5", "0.9"))
    with pytest.raises(
        RunError, match=f"^{re.escape(str(file))} is not what the run wrote.*run it again"
    ):
        run.metrics(stage)
    assert list_runs(tmp_path)["status"].tolist() == ["unreadable"]


@pytest.mark.parametrize("name", ["history", "watched"])
def test_tables_of_the_training_are_compared_once_the_run_is_finished(tmp_path: Path, name: str):
    run, text = Run.open(config(), tmp_path), "step,query,target,gold,score\n0,a,b,1.0,0.1\n"
    for each in ("history", "watched"):
        (run.path / f"{each}.csv").write_text(text)
    (run.path / "encoder").mkdir()
    run.record_training()
    file = run.path / f"{name}.csv"
    file.write_text(text.replace("0.1", "0.2"))
    assert getattr(run, name)()["score"].tolist() == [0.2], "as while it trains again"
    finish(run)
    with pytest.raises(RunError, match=f"{name}.csv is not what the run wrote"):
        getattr(run, name)()
    file.unlink()
    with pytest.raises(RunError, match=f"{name}.csv is missing"):
        getattr(run, name)()


BROKEN = [
    b"",
    b"\xff\xfe",
    b'"',
    b"step,query\n0,a\n",
    b"suite\n" + b"a,b\n" * 3,
    b"score,gold,step\nx,y,z\n",
]


@pytest.mark.parametrize("content", BROKEN)
@pytest.mark.parametrize("name", ["scores", "rankings", "history", "watched"])
def test_a_table_without_a_checksum_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: bytes
):
    run = finish(Run.open(config(), tmp_path))
    write_json(run.path / "config.json", run.facts() | {"files": {}})  # as of earlier versions
    file = run.path / f"{name}.csv"
    file.write_bytes(content if name != "history" else content.replace(b"step", b"stop"))
    with pytest.raises(RunError, match=f"^{re.escape(str(file))} cannot be read"):
        getattr(run, name)()


def test_a_run_does_not_stand_for_one_that_learned_from_another_encoder(tmp_path: Path):
    base = finish(Run.open(config(), tmp_path))
    (base.path / "encoder").mkdir()
    (base.path / "encoder" / "model.safetensors").write_text("weights")
    ranked = RankEncoderConfig.from_parameters("demo")
    finish(Run.open(ranked, tmp_path))
    assert finished_run(ranked, tmp_path)
    (base.path / "encoder" / "model.safetensors").write_text("of another training")
    with pytest.raises(
        RunError, match=f"finished, but simcse/{base.path.name} is not what it read then"
    ):
        finished_run(ranked, tmp_path)
    with pytest.raises(RunError, match="is not what it read then"):
        workbench.sweep("rankencoder", runs_root=tmp_path, dry=True)


def test_a_run_records_what_it_learned_from_although_that_was_trained_later(tmp_path: Path):
    ranked = RankEncoderConfig.from_parameters("demo")
    run = Run.open(ranked, tmp_path)  # as in the first cell of its notebook
    base = finish(Run.open(config(), tmp_path))
    (base.path / "encoder").mkdir()
    (base.path / "encoder" / "model.safetensors").write_text("weights")
    run.record_training()
    finish(run)
    assert finished_run(ranked, tmp_path)
    (base.path / "encoder" / "model.safetensors").write_text("of another training")
    with pytest.raises(RunError, match=f"simcse/{base.path.name} is not what it read then"):
        finished_run(ranked, tmp_path)


@pytest.mark.parametrize(("name", "stage"), [("scores", ""), ("rankings", "before")])
def test_a_table_that_is_not_as_it_was_written_is_refused_when_it_is_read(
    tmp_path: Path, stage: str, name: str
):
    run = finish(Run.open(config(), tmp_path), 0.5, "before")
    file = run.path / stage / f"{name}.csv"
    lines = file.read_text().splitlines(keepends=True)
    remedy = ".*move the folder of the run away"
    for content in ("".join(lines[:-1]), file.read_text().replace("0.5", "0.6")):
        file.write_text(content)
        with pytest.raises(RunError, match=f"{name}.csv is not what the run wrote{remedy}"):
            getattr(run, name)(stage)
    file.unlink()
    with pytest.raises(RunError, match=f"{name}.csv is missing{remedy}"):
        getattr(run, name)(stage)


def test_a_folder_that_is_not_there_has_no_runs_and_a_line_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    assert list_runs(tmp_path).empty
    assert not caplog.records, "an empty folder is one"
    assert list_runs(tmp_path / "rnus").empty
    assert caplog.messages == [f"the folder {tmp_path / 'rnus'} does not exist, so it has no runs"]
    with pytest.raises(RunError, match=r"no config\.json"):
        Run(tmp_path)


def test_the_runs_of_a_notebook_do_not_depend_on_where_its_kernel_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    project = Path(__file__).resolve().parent.parent
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    for start in (project, project / "notebooks", tmp_path):
        monkeypatch.chdir(start)
        assert runs_folder("../runs") == str(project / "runs")
        assert runs_folder("mine") == str(start / "mine")
    monkeypatch.setenv("JPY_SESSION_NAME", "")  # as of a kernel in batch
    assert runs_folder("../runs") == str(project / "runs")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with monkeypatch.context() as patch:
        note = str(tmp_path / "below" / "a.ipynb")
        patch.setattr(sys.modules["__main__"], "__vsc_ipynb_file__", note, raising=False)
        assert runs_folder("../runs") == str(tmp_path / "runs")
    monkeypatch.setenv("JPY_SESSION_NAME", "a copy in another folder, live")
    assert runs_folder("../runs") == str(tmp_path / "runs")


def test_the_shown_table_is_times_hundred_and_an_undefined_score_is_empty():
    table = metrics_table({"a": {"spearman": 0.5, "n": 3}, "b": {"spearman": None, "n": 2}})
    assert table.columns.tolist() == ["suite", "pairs", "Spearman"]
    assert table.loc[0, "Spearman"] == 50
    assert pd.isna(table.loc[1, "Spearman"])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/all-MiniLM/model", "all-MiniLM"),
        ("/out/mine/checkpoint-500", "mine"),
        ("/hub/models--me--mine/snapshots/" + 40 * "a", "mine"),
        ("st:/data/all-MiniLM/model", "all-MiniLM"),
        ("/data/all-MiniLM/0_Transformer", "all-MiniLM"),
        ("/runs/simcse/0123abcd-s0/encoder", "simcse 0123abcd-s0"),
        ("/data/models.csv", "models.csv"),
        ("model", "model"),
        (str(Path(HOME, "model")), "model"),
    ],
)
def test_an_encoder_is_named_by_the_folder_that_tells_it_apart(path: str, name: str):
    assert short_value(path) == name
    if "-s0" not in path:  # of a run `look` leaves out the digest
        assert [*label_encoders([path])] == [name]


def test_a_digest_is_text_even_where_it_could_be_a_number():
    digests = pd.Series(["1234e567", "5678e999", "00001234", "1234"], name="digest", dtype=object)
    assert _satisfies(digests, "=", "1234E567").tolist() == [True, False, False, False]
    assert _satisfies(digests, "=", "1234").tolist() == [False, False, False, True]
    assert _comparable(digests).tolist() == digests.tolist()
