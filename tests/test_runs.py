"""A run's directory: a function of the settings, never half written, never lost."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import filelock
import pandas as pd
import pytest
from forking import python

from workbench import look
from workbench.config import SimCSEConfig
from workbench.errors import RunError
from workbench.execution import runs_folder
from workbench.files import file_checksum, replacing, replacing_file, replacing_folder, write_json
from workbench.runs import Run, _provenance, list_runs, metrics_table, select_runs


def config(seed: int = 0, **overrides: object) -> SimCSEConfig:
    return SimCSEConfig.from_parameters("demo", seed, overrides)


def finish(run: Run, spearman: float = 0.5) -> None:
    scores = pd.DataFrame(
        {"suite": "s", "subset": ["", "x"], "pair_id": ["007", "nan"], "gold": [1.0, 2.0], "predicted": [0.1, 0.3]}
    )
    rankings = pd.DataFrame(
        {
            "suite": "s",
            "query_id": ["0"],
            "target_id": ["1"],
            "query": ["a, b"],
            "target": ['"null"\tx'],
            "gold": [1.0],
            "score": [0.5],
            "rank": [1.0],
        }
    )
    run.write_evaluation({"s": {"spearman": spearman, "n": 2}}, scores, rankings)


def test_the_same_settings_meet_the_same_directory(tmp_path: Path):
    assert Run.create(config(), tmp_path).path == Run.create(config(temperature=0.05), tmp_path).path
    assert Run.create(config(), tmp_path).path != Run.create(config(1), tmp_path).path
    assert Run.create(config(), tmp_path).path != Run.create(config(temperature=0.06), tmp_path).path


def test_config_json_says_what_a_number_depends_on(tmp_path: Path):
    run = Run.create(config(3), tmp_path)
    facts = run.facts()
    assert facts["settings"]["temperature"] == 0.05
    assert {"python", "torch", "transformers", "numpy"} <= set(facts["versions"])
    assert "git_commit" in facts
    assert run.config == config(3)


def test_a_notebook_that_was_saved_is_no_changed_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_provenance, "PACKAGE", tmp_path / "workbench")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    (tmp_path / "a.ipynb").write_text("{}")
    (tmp_path / "a.py").write_text("1")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    commit = _provenance._git_commit()
    assert re.fullmatch("[0-9a-f]{40}", str(commit))
    (tmp_path / "a.ipynb").write_text('{"metadata": {}}')
    assert _provenance._git_commit() == commit
    (tmp_path / "a.py").write_text("2")
    assert _provenance._git_commit() == f"{commit}+changes"


def test_recorded_facts_are_merged_not_replaced(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    run.record(data={"a": 1})
    run.record(data={"b": 2}, device="cpu")
    assert run.facts()["data"] == {"a": 1, "b": 2}
    assert run.facts()["device"] == "cpu"


def test_data_that_changed_under_a_run_is_refused(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    run.record_input("dev", "a folder", "0" * 64)
    run.record_input("dev", "another folder", "0" * 64)
    with pytest.raises(RunError, match="dev: a folder is not what"):
        run.record_input("dev", "a folder", "1" * 64)
    assert run.facts()["inputs"]["dev"]["sha256"] == "0" * 64
    run.record_suite("dev", "a file dev.tsv", "1" * 64)  # another set than the one that chooses the checkpoint
    with pytest.raises(RunError, match="suite dev: a file dev"):
        run.record_suite("dev", "a file dev.tsv", "2" * 64)


def test_a_run_is_finished_when_its_metrics_exist(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    assert not run.finished
    with pytest.raises(RunError, match="has not come that far"):
        run.metrics()
    finish(run)
    assert run.finished
    assert run.metrics()["s"]["spearman"] == 0.5


def test_tables_come_back_as_they_were_written(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    finish(run)
    assert run.scores()["pair_id"].tolist() == ["007", "nan"]
    assert run.scores()["subset"].tolist() == ["", "x"]
    assert run.scores()["predicted"].tolist() == [0.1, 0.3]
    assert run.rankings()["target"].tolist() == ['"null"\tx']


def test_a_stage_does_not_finish_a_run(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    empty = pd.DataFrame({"suite": []})
    run.write_evaluation({"s": {"spearman": 0.1}}, empty, empty, stage="before")
    assert not run.finished
    assert run.metrics("before")["s"]["spearman"] == 0.1


def test_finishing_removes_the_training_state(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    (run.path / "checkpoint" / "checkpoint-5").mkdir(parents=True)
    finish(run)
    assert not (run.path / "checkpoint").exists()


def test_a_run_that_another_process_works_on_is_refused(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    code = (
        "import sys\nfrom workbench.config import SimCSEConfig\nfrom workbench.runs import Run\n"
        "Run.create(SimCSEConfig.from_parameters('demo'), sys.argv[1])"
    )
    other = subprocess.run([python("looks"), "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert other.returncode != 0
    assert "another process is working on" in other.stderr
    assert str(run.path) in other.stderr


def test_a_run_that_lets_go_can_be_taken_unless_its_training_processes_live_on(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    run.release()
    code = "import sys\nfrom pathlib import Path\nfrom workbench.files import lock_run\n"
    code += "lock = lock_run(Path(sys.argv[1]), sys.argv[2])\nprint('held', flush=True)\nsys.stdin.read()"
    for name in (".lock", ".processes.lock"):
        command = [python("looks"), "-c", code, str(run.path), name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with pytest.raises(RunError, match="another process is working on") as kept:  # as a notebook keeps it
                Run.create(config(), tmp_path)
            assert not filelock.FileLock(run.path / ".lock", is_singleton=True).is_locked, kept
    Run.create(config(), tmp_path)


def test_an_interrupted_run_keeps_on_record_how_it_began(tmp_path: Path):
    Run.create(config(), tmp_path)
    again = Run.create(config(device="cpu"), tmp_path)
    assert again.config.device == "cpu"
    assert "earlier_starts" not in again.facts(), "nothing was computed before"
    again.record_input("train", "a folder", "0" * 64)
    third = Run.create(config(), tmp_path)
    assert [start["settings"]["device"] for start in third.facts()["earlier_starts"]] == ["cpu"]


KILLED = """
import os, signal, sys
from pathlib import Path
from workbench.files import replacing, replacing_folder
run, when = Path(sys.argv[1]), sys.argv[2]
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
if when == "table":
    with replacing(run / "before" / "scores.csv") as file:
        file.write("half")
        kill()
rename = Path.rename
if when == "swap":
    Path.rename = lambda self, target: (rename(self, target), kill())
with replacing_folder(run / "encoder") as fresh:
    (fresh / "config.json").write_text("new")
    if when == "encoder":
        kill()
"""


@pytest.mark.parametrize("when", ["table", "encoder", "swap"])
def test_what_a_kill_left_half_written_is_gone_when_the_run_goes_on(tmp_path: Path, when: str):
    run = Run.create(config(), tmp_path)
    for name in ("before", "encoder"):
        (run.path / name).mkdir()
    (run.path / "encoder" / "config.json").write_text("old")
    (run.path / "before" / ".not.ours").touch()
    run.release()
    kept = sorted(run.path.rglob("*"))
    done = subprocess.run([python("looks"), "-c", KILLED, str(run.path), when], check=False)
    assert done.returncode == -9
    assert sorted(run.path.rglob("*")) != kept
    Run.create(config(), tmp_path)
    locks = {run.path / ".lock", run.path / ".processes.lock"}
    assert set(run.path.rglob("*")) - locks == set(kept) - locks
    assert (run.path / "encoder" / "config.json").read_text() == "old"


def test_a_finished_run_opens_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    finish(Run.create(config(), tmp_path))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr("workbench.files.settle", refuse)
    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    assert Run.create(config(), tmp_path).metrics()["s"]["n"] == 2


def test_a_file_is_for_all_who_may_read_what_is_beside_it_whoever_writes_it(tmp_path: Path):
    for made in (tmp_path / "ordinary").mkdir, (tmp_path / "ordinary.txt").touch:
        made()
    with replacing_file(tmp_path / "one.txt") as fresh:
        fresh.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_CREAT, 0o600))  # as safetensors writes its files
    with replacing_folder(tmp_path / "folder") as fresh:
        os.close(os.open(fresh / "one.txt", os.O_CREAT, 0o600))
    for name, as_it in (("one.txt", "ordinary.txt"), ("folder", "ordinary"), ("folder/one.txt", "ordinary.txt")):
        assert (tmp_path / name).stat().st_mode == (tmp_path / as_it).stat().st_mode


def test_a_path_with_spaces_and_accents_works(tmp_path: Path):
    run = Run.create(config(), tmp_path / "my runs é")
    finish(run)
    assert list_runs(tmp_path / "my runs é")["status"].tolist() == ["finished"]


def test_a_runs_folder_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(RunError, match=r"cannot write under .* give a runs folder"):
        Run.create(config(), tmp_path / "runs")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_or_read_only_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int):
    run = Run.create(config(), tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, "refused by the system")

    monkeypatch.setattr("workbench.files.settle", refuse)
    with pytest.raises(RunError, match="refused by the system"):
        run.record(device="cpu")
    assert json.loads((run.path / "config.json").read_text())["digest"] == config().digest()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path):
    write_json(tmp_path / "a.json", {"x": 1})

    def fail_half_way() -> None:
        with replacing(tmp_path / "a.json") as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_nan_is_written_as_null(tmp_path: Path):
    write_json(tmp_path / "a.json", {"x": float("nan"), "y": [1.5]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": None, "y": [1.5]}


def test_the_list_of_runs_shows_what_was_changed_and_survives_a_broken_run(tmp_path: Path):
    finish(Run.create(config(1, temperature=0.07), tmp_path), 0.25)
    Run.create(config(2), tmp_path)
    broken = tmp_path / "simcse" / "00000000-s0"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("{")
    table = list_runs(tmp_path).set_index("seed")
    assert table.loc[1, "changed"] == "temperature=0.07"
    assert table.loc[1, "spearman s"] == 0.25
    assert select_runs(tmp_path).set_index("seed").loc[1, "s"] == 25
    assert table.loc[2, "status"] == "unfinished"
    assert table["status"].str.startswith("unreadable").sum() == 1


def damaged(root: Path, name: str, content: bytes | None) -> Path:
    """A finished run of which one file was changed, removed or cut (`content` as a number of bytes to keep)."""
    run = Run.create(config(5), root)
    for stage in ("before", ""):
        finish_stage(run, stage)
    file = run.path / name
    file.unlink() if content is None else file.write_bytes(content)
    return file


def finish_stage(run: Run, stage: str) -> None:
    scores = pd.DataFrame({"suite": "s", "subset": "", "pair_id": ["0", "1"], "gold": [1.0, 2.0], "predicted": 0.5})
    run.write_evaluation({"s": {"spearman": 0.5, "n": 2}}, scores, scores.rename(columns={"pair_id": "query"}), stage)


ODD = [
    *(("metrics.json", text) for text in (b"[]", b'{"ktest": 0.5}', b'{"s": {"spearman": "a"}}', b'{"s": {', b"\xff")),
    *(("before/metrics.json", text) for text in (b'{"s"', b'{"s": {"spearman": "high"}}', None)),
    *(("config.json", b'{"method": "simcse", "settings": {}, "%s": %s}' % (name, odd))
      for name in (b"inputs", b"files", b"digest") for odd in (b"[]", b'{"train": 5}')),
    *(("config.json", text) for text in (b"[]", b"{}", b"[" * 100_000, b'{"method": "x", "settings": {}}', None)),
    *((f"{stage}{name}", text) for stage in ("", "before/") for name in ("scores.csv", "rankings.csv")
      for text in (None, b"", b"suite,subset", b"\x00\xff")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content"), ODD)
def test_an_odd_run_is_named_with_its_reason_and_hides_no_other(tmp_path: Path, name: str, content: bytes | None):
    finish(Run.create(config(1), tmp_path), 0.25)
    file = damaged(tmp_path, name, content)
    table = list_runs(tmp_path).set_index("path")
    sound = table.index != str(file.parent.parent if file.parent.name == "before" else file.parent)
    assert set(table.index[sound]) <= set(look.finished_runs(tmp_path, "s")["path"])
    assert table.loc[sound, ["status", "spearman s"]].to_numpy().tolist() == [["finished", 0.25]]
    if name != "before/metrics.json" or content is not None:  # without it, that stage was never stored
        (status,) = table.loc[~sound, "status"]
        assert status.startswith("unreadable: ")
        assert "config.json" in status or file.name in status


@pytest.mark.parametrize("stage", ["", "before"])
@pytest.mark.parametrize("name", ["scores.csv", "rankings.csv"])
@pytest.mark.parametrize("cut", ["at a line's end", "a digit changed"])
def test_a_table_that_was_cut_or_changed_is_found_when_it_is_read(tmp_path: Path, stage: str, name: str, cut: str):
    run = Run.create(config(), tmp_path)
    finish_stage(run, "before")
    finish_stage(run, "")
    file = run.path / stage / name
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]) if cut == "at a line's end" else file.read_text().replace("0.5", "0.6"))
    with pytest.raises(RunError, match=rf"{name} is not what the run wrote.*move {run.path} away"):
        run.scores(stage) if name == "scores.csv" else run.rankings(stage)
    assert list_runs(tmp_path)["status"].str.startswith("unreadable").tolist() == [cut == "at a line's end"]


@pytest.mark.parametrize("table", ["scores", "rankings", "history"])
def test_a_missing_table_of_a_finished_run_is_not_promised_by_running_it_again(tmp_path: Path, table: str):
    run = Run.create(config(), tmp_path)
    with pytest.raises(RunError, match="run it again and it goes on"):
        getattr(run, table)()
    finish_stage(run, "")
    (run.path / f"{table}.csv").unlink(missing_ok=True)
    with pytest.raises(RunError, match=rf"{table}.csv is missing, though the run is finished.*move {run.path} away"):
        getattr(run, table)()


FIXED = ["method", "profile", "seed", "digest", "status", "changed", "path"]


@pytest.mark.parametrize("suite", [*FIXED, "spearman", "spearman seed", "sts-average", "label", "n"])
def test_a_suite_of_any_name_has_a_column_of_its_own(tmp_path: Path, suite: str):
    run = Run.create(config(4), tmp_path)
    empty = pd.DataFrame({"suite": []})
    run.write_evaluation({suite: {"spearman": 0.5, "n": 2}}, empty, empty)
    table = list_runs(tmp_path)
    assert table.columns.tolist() == [*FIXED[:-1], f"spearman {suite}", "path"]
    assert table.loc[0, ["method", "seed", "status", f"spearman {suite}"]].tolist() == ["simcse", 4, "finished", 0.5]


def test_what_is_no_folder_of_runs_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file; give the folder"):
        list_runs(tmp_path / "file")
    with pytest.raises(RunError, match="cannot be listed"):
        list_runs(tmp_path / ("x" * 300))


def test_a_folder_that_is_not_there_has_no_runs_and_a_line_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    assert list_runs(tmp_path).empty
    assert not caplog.records, "an empty folder is one"
    assert list_runs(tmp_path / "rnus").empty
    assert caplog.messages == [f"there is no folder {tmp_path / 'rnus'}, and so no run"]


def test_the_runs_of_a_notebook_do_not_depend_on_where_its_kernel_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    project = Path(__file__).resolve().parent.parent
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    for start in (project, project / "notebooks", tmp_path):
        monkeypatch.chdir(start)
        assert runs_folder("../runs") == str(project / "runs")
        assert runs_folder("mine") == str(start / "mine")
    assert runs_folder(tmp_path) == str(tmp_path)
    assert not caplog.text
    (tmp_path / "runs").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert runs_folder("../runs") == str(project / "runs")
    monkeypatch.setenv("JPY_SESSION_NAME", "a copy in a folder of one's own, live")
    assert runs_folder("../runs") == str(tmp_path / "runs")


def test_config_json_keeps_the_places_of_files_beside_their_checksums(tmp_path: Path):
    file = tmp_path / "mine.txt"
    file.write_text("a b\nc d\n")
    run = Run.create(config(train=str(file)), tmp_path / "runs")
    assert run.facts()["contents"] == {str(file): file_checksum(file)}
    assert run.facts()["settings"]["train"] == str(file)


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path):
    target = tmp_path / "folder"
    with replacing_folder(target) as fresh:
        (fresh / "a").write_text("old")

    def fail_half_way() -> None:
        with replacing_folder(target, beside=".unfinished") as fresh:
            (fresh / "a").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert (target / "a").read_text() == "old"
    (tmp_path / ".unfinished").mkdir()
    target.rename(tmp_path / ".unfinished.old")  # killed between the two renames
    with pytest.raises(KeyboardInterrupt):
        fail_half_way()
    assert (target / "a").read_text() == "old"
    (tmp_path / ".unfinished.old").mkdir()  # killed before what was replaced was gone
    with replacing_folder(target, beside=".unfinished") as fresh:
        (fresh / "b").write_text("new")
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["folder", "folder/b"]
    assert (target / "b").read_text() == "new"


@pytest.mark.skipif(sys.platform != "linux", reason="the name of an open file is read from /proc")
def test_content_reaches_the_disk_before_its_name_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(
        os, "fsync", lambda handle: (seen.append(Path(f"/proc/self/fd/{handle}").resolve().name), fsync(handle))
    )
    monkeypatch.setattr(Path, "rename", lambda self, target: (seen.append("rename"), rename(self, target))[1])
    monkeypatch.setattr(Path, "replace", lambda self, target: (seen.append("rename"), rename(self, target))[1])
    with replacing_folder(tmp_path / "folder") as fresh:
        (fresh / "weights").write_text("new")
    assert seen == ["weights", fresh.name, "rename", tmp_path.name]
    seen.clear()
    write_json(tmp_path / "a.json", {})
    assert seen[1:] == ["rename", tmp_path.name]
    assert seen[0].startswith(".a.json.")


def test_a_folder_without_runs_gives_an_empty_list(tmp_path: Path):
    assert list_runs(tmp_path / "none").empty


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path):
    with pytest.raises(RunError, match=r"no config\.json"):
        Run(tmp_path)


def test_the_shown_table_is_times_hundred():
    table = metrics_table({"a": {"spearman": 0.5, "n": 3}, "b": {"spearman": None, "n": 2}})
    assert table.loc[0, "Spearman"] == 50
    assert pd.isna(table.loc[1, "Spearman"])


def test_a_spearman_that_is_undefined_everywhere_is_still_shown(tmp_path: Path):
    assert metrics_table({"b": {"spearman": None, "n": 2}}).columns.tolist() == ["suite", "pairs", "Spearman"]
    finish(Run.create(config(), tmp_path), float("nan"))
    assert list_runs(tmp_path)["spearman s"].dtype == float
