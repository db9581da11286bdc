"""A run's directory: a function of the settings, never half written, never lost."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import filelock
import pandas as pd
import pytest

from workbench.config import SimCSEConfig
from workbench.errors import RunError
from workbench.files import History, replacing, write_json
from workbench.runs import Run, list_runs, metrics_table


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
    other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert other.returncode != 0
    assert "another process is working on" in other.stderr
    assert str(run.path) in other.stderr


def test_a_run_that_lets_go_can_be_taken_unless_its_training_processes_live_on(tmp_path: Path):
    run = Run.create(config(), tmp_path)
    run.release()
    code = "import sys\nfrom pathlib import Path\nfrom workbench.files import lock_run\n"
    code += "lock = lock_run(Path(sys.argv[1]), sys.argv[2])\nprint('held', flush=True)\nsys.stdin.read()"
    for name in (".lock", ".processes.lock"):
        command = [sys.executable, "-c", code, str(run.path), name]
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
from workbench.encoder import saving
from workbench.files import replacing
run, when = Path(sys.argv[1]), sys.argv[2]
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
if when == "table":
    with replacing(run / "before" / "scores.csv") as file:
        file.write("half")
        kill()
rename = Path.rename
if when == "swap":
    Path.rename = lambda self, target: (rename(self, target), kill())
with saving.replacing(run / "encoder") as fresh:
    (fresh / "config.json").write_text("new")
    if when == "encoder":
        kill()
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["table", "encoder", "swap"])
def test_what_a_kill_left_half_written_is_gone_when_the_run_goes_on(tmp_path: Path, when: str):
    run = Run.create(config(), tmp_path)
    for name in ("before", "encoder"):
        (run.path / name).mkdir()
    (run.path / "encoder" / "config.json").write_text("old")
    (run.path / "before" / ".not.ours").touch()
    run.release()
    kept = sorted(run.path.rglob("*"))
    done = subprocess.run([sys.executable, "-c", KILLED, str(run.path), when], check=False)
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

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    assert Run.create(config(), tmp_path).metrics()["s"]["n"] == 2


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

    monkeypatch.setattr("tempfile.mkstemp", refuse)
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


def test_history_continues_after_a_checkpoint_without_the_lost_steps(tmp_path: Path):
    first = History(tmp_path / "history.csv", 0)
    first.add(0, dev_spearman=0.4)
    first.add(5, loss=1.0)
    first.add(5, dev_spearman=0.5)
    first.add(9, loss=0.5)
    again = History(tmp_path / "history.csv", 5)
    again.add(10, loss=0.7)
    table = pd.read_csv(tmp_path / "history.csv")
    assert table["step"].tolist() == [0, 5, 10]
    assert table.loc[1, ["loss", "dev_spearman"]].tolist() == [1.0, 0.5]
    assert pd.isna(table.loc[2, "dev_spearman"])


def test_the_list_of_runs_shows_what_was_changed_and_survives_a_broken_run(tmp_path: Path):
    finish(Run.create(config(1, temperature=0.07), tmp_path), 0.25)
    Run.create(config(2), tmp_path)
    broken = tmp_path / "simcse" / "00000000-s0"
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("{")
    table = list_runs(tmp_path).set_index("seed")
    assert table.loc[1, "changed"] == "temperature=0.07"
    assert table.loc[1, "s"] == 0.25
    assert table.loc[2, "status"] == "unfinished"
    assert table["status"].str.startswith("unreadable").sum() == 1


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
    assert list_runs(tmp_path)["s"].dtype == float
