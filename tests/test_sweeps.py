"""Sweeps: which runs there are, each run once, failures that stop nobody, going on after any end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pytest
from forking import python
from nbformat.v4 import new_code_cell, new_notebook
from stand_in_cells import STAND_IN, ran
from written_runs import write_run

from workbench import sweeps
from workbench.config import CONFIGS
from workbench.errors import DataError, RunError, SettingError
from workbench.files import is_held, lock_run
from workbench.runs import list_runs, note_failure, run_path
from workbench.sweeps import _local, _process, _sweep
from workbench.sweeps._plan import cells_of
from workbench.sweeps._process import NO_FORK
from workbench.sweeps._warm import Warm


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that take a moment, without a kernel."""
    monkeypatch.setattr(_process, "CELL", STAND_IN)
    monkeypatch.setattr(_local, "WARM", False)
    monkeypatch.setattr(_local, "_BETWEEN", 0.01)
    monkeypatch.setattr(_local, "_ELSEWHERE", 0.01)
    monkeypatch.setattr(_sweep, "check_settings", lambda config: None)


def test_every_combination_runs_with_every_seed_and_its_name_says_what_varies():
    spec = sweeps.read_spec(
        methods={"simcse": {"temperature": [0.05, 0.1]}, "cosent": {}},
        seeds="0-1",
        grid={"learning_rate": [1e-3, 3e-4], "max_steps": 5},
    )
    cells = cells_of(spec)
    assert len(cells) == len({cell.path for cell in cells}) == 2 * (2 * 2 + 2)
    assert cells[0].title == "simcse learning_rate=0.001, temperature=0.05 seed 0"
    assert {cell.config.max_steps for cell in cells} == {5}
    assert all(run_path(cell.config, ".").as_posix() == cell.path for cell in cells)


def test_a_run_that_others_learn_from_is_one_cell_in_front_of_them():
    cells = cells_of(sweeps.read_spec(methods=["cosent", "rankencoder", "simcse"], seeds=[0, 1]))
    assert [cell.method for cell in cells[:2]] == ["simcse", "simcse"], "E1 is a run of SimCSE, which is asked for too"
    assert len(cells) == 6
    needs = {cell.path: cell.needs for cell in cells if cell.needs}
    assert set(needs.values()) == {(cells[0].path,), (cells[1].path,)}


def test_a_setting_reached_in_two_ways_is_one_cell():
    default = CONFIGS["simcse"].from_parameters("demo").temperature
    points = [{"name": "as it is", "method": "simcse"}]
    cells = cells_of(sweeps.read_spec(methods=["simcse"], grid={"temperature": [default]}, points=points))
    assert len(cells) == 1


TOML = """
methods = ["simcse", "cosent"]
seeds = "0-1"
[grid]
learning_rate = [1e-3, 3e-4]
[[points]]
name = "small"
method = "simcse"
settings = { batch_size = 16 }
[[without]]
method = "cosent"
learning_rate = 3e-4
"""
YAML = """
methods: {simcse: {}, cosent: {}}
seeds: [0, 1]
grid:
  learning_rate: [1.0e-3, 3.0e-4]
points:
  - {name: small, method: simcse, settings: {batch_size: 16}}
without:
  - {method: cosent, learning_rate: 3.0e-4}
"""


@pytest.mark.parametrize(("name", "text"), [("a.toml", TOML), ("a.yaml", YAML)])
def test_a_file_says_methods_grids_points_and_exclusions(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    cells = cells_of(sweeps.read_spec(**sweeps.read_spec_file(tmp_path / name)))
    assert [cell.title for cell in cells if cell.seed == 1] == [
        "simcse learning_rate=0.001 seed 1",
        "simcse learning_rate=0.0003 seed 1",
        "cosent learning_rate=0.001 seed 1",
        "simcse small seed 1",
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {"learning_rate": "1e-3"},  # as YAML reads 1e-3
        {"learning_rate": 0.001, "seed": 1, "profile": "demo"},
        {"method": "rankcse", "teachers": "world-teacher", "mlp": "true"},
    ],
)
def test_what_is_left_out_is_read_as_the_grid_is(entry: dict):
    given = {"methods": ["rankcse"], "grid": {"learning_rate": ["1e-3", "3e-4"]}, "seeds": [1]}
    given["grid"]["teachers"] = [["world-teacher"], ["world-encoder"]]
    every, left = (cells_of(sweeps.read_spec(**given, without=without)) for without in ([], [entry]))
    assert (len(every), len(left)) == (4, 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"methods": ["simsce"]}, "did you mean 'simcse'"),
        ({"methods": ["simcse"], "grid": {"temprature": [1]}}, "did you mean 'temperature'"),
        ({"methods": ["simcse", "cosent"], "grid": {"temperature": [1]}}, r"METHOD\.temperature"),
        ({"methods": ["simcse"], "grid": {"temperature": [0.1, -1]}}, "a number > 0"),
        ({"methods": ["simcse"], "seeds": "4-0"}, "0-2,7"),
        ({"methods": ["simcse"], "sedes": [0]}, "sedes"),
        ({"methods": ["simcse"], "without": [{"method": "simcse", "temprature": 1}]}, "did you mean 'temperature'"),
        ({"methods": ["simcse"], "without": [{"temperature": 7}]}, "leaves nothing out"),
        ({"methods": ["simcse"], "without": [{"method": "simcse"}]}, "nothing to run"),
        ({}, "nothing to run"),
    ],
)
def test_what_does_not_exist_is_refused_and_nothing_is_made(tmp_path: Path, given: dict, words: str):
    with pytest.raises(SettingError, match=words):
        sweeps.Sweep.create(sweeps.read_spec(**given), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="no folder here in which even root writes nothing")
def test_a_folder_that_nothing_can_be_written_to_is_said_before_the_first_cell():
    with pytest.raises(RunError, match="cannot write under /sys/kernel/runs"):
        sweeps.sweep("simcse", runs_root="/sys/kernel/runs")


def test_a_set_that_is_of_no_use_to_a_cell_is_refused_before_the_first_cell(tmp_path: Path):
    spec = sweeps.read_spec(methods=["simcse"], grid={"train": ["world", "world-train"]})
    with pytest.raises(DataError, match="world-train holds pairs"):
        sweeps.Sweep.create(spec, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_typed_values_are_split_at_commas_outside_brackets():
    shared, own = sweeps.typed_grid(["suites=[a,b],[a]", "mlp=true,false", "cosent.scale=20"])
    assert shared == {"suites": [["a", "b"], ["a"]], "mlp": ["true", "false"]}
    assert own == {"cosent": {"scale": ["20"]}}
    with pytest.raises(SettingError, match="given twice"):
        sweeps.typed_grid(["mlp=true", "mlp=false"])


@pytest.mark.usefixtures("stand_in")
def test_each_cell_runs_once_a_failure_stops_nobody_and_is_all_that_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture
):
    found = sweeps.sweep("simcse", seeds="0-4", runs_root=tmp_path, jobs=2)
    shown = capsys.readouterr().out
    assert "5 cells: 0 finished, 5 to run" in shown
    assert "failed   simcse seed 3: the cell ended with exit code 1" in shown
    assert found.table()["state"].tolist() == ["finished"] * 3 + ["failed", "finished"]
    assert "no luck with 3" in found.table()["failure"][3]
    assert list_runs(tmp_path).shape[0] == 5
    assert ran(tmp_path) == sorted(cell.path for cell in found.cells)
    assert (found.table()["seconds"].dropna() > 0.05).all(), "of the whole process, not of its notebook"
    sweeps.sweep("simcse", seeds="0-4", runs_root=tmp_path, jobs=2)
    assert "5 cells: 4 finished, 1 to run, 1 of them failed before" in capsys.readouterr().out
    assert ran(tmp_path).count(found.cells[3].path) == 2
    assert len(ran(tmp_path)) == 6
    sweeps.sweep("simcse", seeds="4-5", runs_root=tmp_path / "other")
    sweeps.sweep("simcse", seeds="4-5", runs_root=tmp_path / "other")
    assert capsys.readouterr().out.rstrip().endswith("2 cells: all finished, nothing to run")


@pytest.mark.usefixtures("stand_in")
def test_a_disk_too_full_to_keep_why_a_cell_failed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    def full(*_: object) -> None:
        raise RunError("cannot write")

    monkeypatch.setattr(_process, "note_failure", full)
    sweeps.sweep("simcse", seeds="3-4", runs_root=tmp_path)
    shown = capsys.readouterr().out
    assert "failed   simcse seed 3: error: no luck with 3" in shown
    assert "finished simcse seed 4" in shown


@pytest.mark.usefixtures("stand_in")
def test_what_needs_a_run_that_failed_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture):
    found = sweeps.sweep(["rankencoder"], seeds="2-3", runs_root=tmp_path)
    assert "left out rankencoder seed 3: a run that it needs failed" in capsys.readouterr().out
    assert dict(zip(found.table()["cell"], found.table()["state"], strict=True)) == {
        "simcse seed 2": "finished",
        "simcse seed 3": "failed",
        "rankencoder seed 2": "finished",
        "rankencoder seed 3": "waiting",
    }


@pytest.mark.usefixtures("stand_in")
def test_two_sweeps_at_once_run_no_cell_twice(tmp_path: Path):
    arguments = {"seeds": "4-9", "runs_root": tmp_path, "jobs": 2}
    both = [threading.Thread(target=sweeps.sweep, args=("simcse",), kwargs=arguments) for _ in range(2)]
    sweeps.sweep("simcse", **arguments, dry=True)
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    found = sweeps.find_sweep("simcse", tmp_path)
    assert set(found.table()["state"]) == {"finished"}
    assert ran(tmp_path) == sorted(cell.path for cell in found.cells)


def test_a_sweep_is_a_file_that_tells_states_from_the_runs(tmp_path: Path):
    made = sweeps.sweep("simcse", seeds="0-2", runs_root=tmp_path, dry=True)
    note_failure(made.path(made.cells[1]), "RunError: the disk is full")
    made.path(made.cells[2]).mkdir()
    held = lock_run(made.path(made.cells[2]))
    found = sweeps.find_sweep("sim", tmp_path)
    assert found.table()[["state", "failure"]].to_numpy().tolist() == [
        ["waiting", ""],
        ["failed", "RunError: the disk is full"],
        ["running", ""],
    ]
    held.release()
    assert not is_held(made.path(made.cells[2]))
    with pytest.raises(RunError, match=r"there is no sweep 'x'.*there are: simcse"):
        sweeps.find_sweep("x", tmp_path)


CELL = '{"method": "simcse", "profile": "demo", "seed": 0, "overrides": {}, "path": %s}'


@pytest.mark.parametrize(
    "text", ["{", "[]", "[" * 100_000, '{"cells": []}', '{"cells": [{}]}', f'{{"cells": [{CELL % 5}]}}', "\udcff"]
)
def test_a_damaged_sweep_is_left_out_with_a_line_and_refused_by_name(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    sweeps.sweep("simcse", runs_root=tmp_path, name="good", dry=True)
    file = tmp_path / "sweeps" / "bad" / "sweep.json"
    file.parent.mkdir()
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert call(monkeypatch, "status", "--runs", str(tmp_path)) == 0
    assert [found.name for found in sweeps.list_sweeps(tmp_path)] == ["good"]
    assert f"left out: {file}" in caplog.text
    caplog.clear()
    assert call(monkeypatch, "status", "goo", "--runs", str(tmp_path)) == 0
    assert not caplog.text
    assert call(monkeypatch, "status", "bad", "--runs", str(tmp_path)) == 1
    with pytest.raises(RunError, match=r"bad/sweep\.json is no file of a sweep"):
        sweeps.find_sweep("bad", tmp_path)


def test_a_name_is_neither_html_nor_an_escape_sequence_of_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture
):
    name = "<img src=x>\x1b[31m"
    found = sweeps.sweep("simcse", runs_root=tmp_path, name=name, dry=True)
    assert "<p>&lt;img src=x&gt;" in found._repr_html_()
    note_failure(found.path(found.cells[0]), "no \x1b[31mluck")
    (tmp_path / "sweeps" / "\x1b[32m").mkdir()
    (tmp_path / "sweeps" / "\x1b[32m" / "sweep.json").touch()
    capsys.readouterr()
    for words, code in ((["status"], 0), (["status", name], 0), (["status", "\x1b[33m"], 1)):
        assert call(monkeypatch, *words, "--runs", str(tmp_path)) == code
        captured = capsys.readouterr()
        assert r"\u001b[3" in captured.out + captured.err
        assert "\x1b" not in captured.out + captured.err + "".join(caplog.messages)


VALUES = ",".join(str(number / 1000) for number in range(1, 90))


@pytest.mark.parametrize(
    ("words", "count"),
    [(["--seeds", "0-999999999"], 10**9), (["--seeds", "0-2999", f"temperature={VALUES}"], 267_000)],
)
def test_a_plan_is_counted_before_it_is_listed(
    words: list[str], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    assert call(monkeypatch, "simcse", *words, "--plan", "--runs", str(tmp_path)) == 2
    assert f"at most 20,000 cells, and this one has {count:,}" in capsys.readouterr().err
    with pytest.raises(SettingError, match="at most 20,000 cells"):
        sweeps.sweep("simcse", seeds=range(10**9), runs_root=tmp_path, dry=True)


def test_a_name_stands_for_one_set_of_cells(tmp_path: Path):
    sweeps.sweep("simcse", runs_root=tmp_path, name="mine", dry=True)
    sweeps.sweep("simcse", runs_root=tmp_path, name="mine", dry=True)
    with pytest.raises(RunError, match="has other cells"):
        sweeps.sweep("simcse", seeds=[1], runs_root=tmp_path, name="mine", dry=True)
    with pytest.raises(SettingError, match="is no name"):
        sweeps.sweep("simcse", seeds=[1], runs_root=tmp_path, name="../mine", dry=True)
    with pytest.raises(SettingError, match="is no name"):
        sweeps.sweep("simcse", runs_root=tmp_path, name="..", dry=True)


def test_what_is_finished_is_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    checked = []
    monkeypatch.setattr(_sweep, "check_settings", lambda config: checked.append(config.temperature))
    grid = {"temperature": [0.04, 0.05]}
    made = sweeps.sweep("simcse", grid=grid, runs_root=tmp_path, name="first", dry=True)
    write_run(tmp_path, made.cells[0].config, 1.0)
    checked.clear()
    sweeps.sweep("simcse", grid={"temperature": [0.04]}, runs_root=tmp_path, name="done", dry=True)
    assert checked == []
    sweeps.sweep("simcse", grid=grid, runs_root=tmp_path, name="second", dry=True)
    assert checked == [0.05]


def test_the_time_to_come_is_that_of_finished_runs_of_the_kind(tmp_path: Path):
    made = sweeps.sweep("simcse", seeds="0-3", runs_root=tmp_path, dry=True)
    assert made.outlook().seconds is None
    assert "time unknown" in made.outlook().text(2)
    for cell, seconds in zip(made.cells[:3], (10, 20, 90), strict=True):
        path = made.path(cell)
        path.mkdir(parents=True)
        facts = {"method": "simcse", "settings": cell.config.model_dump(mode="json"), "seconds": seconds}
        (path / "config.json").write_text(json.dumps(facts))
        (path / "metrics.json").write_text("{}")
    outlook = made.outlook()
    assert (outlook.seconds, outlook.known_from, outlook.finished) == (20.0, 3, 3)
    assert outlook.bytes > 100
    assert "about 10 s with 2 at a time once all is loaded, from 3 finished runs" in outlook.text(2)


def test_cells_share_gpus_and_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert _local.visible_gpus() == ["4", "5"]
    assert _local._share(2, ["5"])["CUDA_VISIBLE_DEVICES"] == "5"
    made = sweeps.sweep("simcse", seeds="0-3", runs_root=tmp_path, dry=True)
    queue = _local.Queue(made, 0)
    assert (queue.jobs, queue.free) == (2, ["4", "5"])
    assert _local.Queue(made, 4).free == ["4", "5", "4", "5"]
    on_cpu = sweeps.sweep("simcse", grid={"processes": 4, "device": "cpu"}, runs_root=tmp_path, dry=True)
    assert _local.Queue(on_cpu, 0).waiting == on_cpu.cells, "the GPUs are none of its business"
    large = sweeps.sweep("simcse", grid={"processes": 4}, runs_root=tmp_path, dry=True)
    with pytest.raises(SettingError, match="2 GPUs are visible"):
        _local.Queue(large, 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert _local.visible_gpus() == []
    assert int(_local._share(10**6, [])["OMP_NUM_THREADS"]) == 1


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("jobs", [0, 3, 4])
def test_every_cell_has_the_gpus_that_it_asked_for_and_no_gpu_more_cells_than_its_share(
    jobs: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    class Held:
        returncode: int | None = None

        def poll(self) -> int | None:
            return self.returncode

        def close(self) -> None: ...

        def said(self) -> str:
            return ""

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    monkeypatch.setattr(_local.Queue, "_begin", lambda queue, cell, environment: Held())
    methods = {"cosent": {"processes": 2}, "simcse": {"processes": 1}}
    queue = _local.Queue(sweeps.sweep(methods, seeds="0-3", runs_root=tmp_path, dry=True), jobs)
    ended = 0
    while queue.waiting or queue.workers:
        ended += len(list(queue.advance()))
        for worker in queue.workers:
            assert len(set(worker.gpus)) == len(worker.gpus) == worker.cell.config.processes
        used = [gpu for worker in queue.workers for gpu in worker.gpus]
        assert max(used.count("4"), used.count("5")) <= max(1, (jobs + 1) // 2)
        if queue.workers:
            queue.workers[ended % len(queue.workers)].process.returncode = 1
    assert ended == 8


def command(program: str, root: Path, *words: str) -> list[str]:
    return [program, "-m", "workbench", "sweep", *words, "--runs", str(root)]


def alive(root: Path) -> list[str]:
    """Processes whose command line names this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if str(root) in text and int(path.parent.name) != os.getpid():
            found.append(text)
    return found


# Notes what the process that forks must not do: ask for a GPU, or have threads. Cells and kernels may.
WATCHED = """
import os, sys
if "workbench.sweeps._forks" in sys.orig_argv:
    import torch
    forks = os.getpid()
    def watched(name, call):
        def watching(*given, **how):
            if os.getpid() == forks:
                os.write(2, f"{name} was called\\n".encode())
            return call(*given, **how)
        return watching
    for module in (torch.cuda, torch.accelerator):
        for name in {"_lazy_init", "init", "synchronize", "is_available", "device_count"} & {*dir(module)}:
            setattr(module, name, watched(name, getattr(module, name)))
    def count():
        names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
        if os.getpid() == forks and len(names) > 1 + names.count("jemalloc_bg_thd\\n"):  # which minds forks itself
            os.write(2, f"there are threads: {names}\\n".encode())
    os.register_at_fork(before=count)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
def test_a_kernel_that_was_forked_ends_with_its_cell_however_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}
    nbformat.write(new_notebook(cells=[new_code_cell(source)], metadata=kernel), tmp_path / "in.ipynb")
    (tmp_path / "executes.py").write_text(
        "from pathlib import Path\n"
        "from workbench.headless import execute\n"
        "def main(folder):\n    execute(Path(folder, 'in.ipynb'), Path(folder, 'out.ipynb'), {})\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(sys, "executable", python("looks"))
    process = Warm(tmp_path / "log", {}, loads=["executes", "workbench.sweeps._prepared"], cell="executes")
    cell = process.begin(str(tmp_path), tmp_path / "cell.log", {})
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert cell.poll() is None
        time.sleep(0.05)
    running = Path("/proc", (tmp_path / "pid").read_text())
    cell.kill()
    deadline = time.monotonic() + 60
    while running.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.stop()
    assert not running.exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
def test_a_sweep_on_a_full_disk_says_so_and_one_that_was_killed_leaves_nothing_running_and_both_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "sitecustomize.py").write_text(WATCHED)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    words = ["simcse", "max_steps=100", "eval_steps=100", "save_steps=5", "train_limit=200", "batch_size=8"]
    words.append("suites=ladders-all")
    room = 300_000  # bytes of a file: for the log and the notebook, but for no state of training
    limited = ["sh", "-c", f'ulimit -f {room // 512}; exec "$@"', "sh", *command(python(), tmp_path, *words)]
    full = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert full.returncode == 1
    assert "RunError: the training state of step 5 cannot be written" in full.stdout
    assert "free some space and run again" in full.stdout
    # A Python of its own: it is watched, and found by its name.
    with subprocess.Popen(command(sys.executable, tmp_path, *words), stdout=subprocess.DEVNULL) as first:
        while not list(tmp_path.glob("simcse/*/checkpoint/state.safetensors")):
            assert first.poll() is None
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while alive(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(tmp_path)
    done = subprocess.run(command(python(), tmp_path, *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 cell: 0 finished, 1 to run" in done.stdout
    assert next(tmp_path.glob("sweeps/*/warm.log")).read_text() == "", "no GPU was asked for, and there are no threads"
    (found,) = sweeps.list_sweeps(tmp_path)
    assert set(found.table()["state"]) == {"finished"}
    assert (found.table()["seconds"] > 0).all()
    assert len(json.loads((Path(found.table()["path"][0]) / "config.json").read_text())["inputs"]) == 4


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    from workbench.cli import main

    monkeypatch.setattr(sys, "argv", ["workbench", "sweep", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["simcse", "--seeds", "0-1", "temperature=0.05,0.1", "--plan"], "waiting    simcse temperature=0.1 seed 1"),
        (["status"], "no sweeps under"),
    ],
)
def test_the_command_says_what_there_is_to_run(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    assert call(monkeypatch, *words, "--runs", str(tmp_path)) == 0
    assert told in capsys.readouterr().out


def test_of_a_running_cell_the_status_says_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    found = sweeps.sweep("simcse", runs_root=tmp_path, dry=True)
    (cell,) = found.cells
    found.log(cell).write_text("step      0/200\nstep     10/200  loss 0.7\n\n")
    monkeypatch.setattr(sys, "argv", ["workbench", "sweep", "status", found.name, "--runs", str(tmp_path)])
    found.path(cell).mkdir(parents=True)
    from workbench.cli import main

    with lock_run(found.path(cell)), pytest.raises(SystemExit):
        main()
    assert f"running    {cell.title}: step     10/200  loss 0.7\n" in capsys.readouterr().out
    write_run(tmp_path, cell.config, 0.5)  # as from a notebook or a script, whose time nobody took
    with pytest.raises(SystemExit):
        main()
    assert f"finished   {cell.title}\n" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere cells are not forked")
def test_a_forked_cell_that_crashes_hangs_or_is_told_to_end_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "stands_in.py").write_text(
        "import os, sys, time\n"
        "def main(how):\n"
        "    print(how, os.environ['OF_THE_CELL'])\n"
        "    if how == 'crashes':\n        os.abort()\n"
        "    if how == 'refuses':\n        sys.exit('no luck')\n"
        "    if how == 'hangs':\n        time.sleep(600)\n"
        "    if how == 'waits':\n        os.read(0, 1)\n        sys.exit(130)\n"
    )
    (tmp_path / "broken.py").write_text("raise ValueError('for the cell that needs it')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    loads = ["broken", "stands_in", "workbench.sweeps._prepared"]
    warm = Warm(tmp_path / "warm.log", {"OF_THE_CELL": "none"}, loads=loads, cell="stands_in")
    hows = ["crashes", "refuses", "hangs", "waits", "ends"]
    cells = {how: warm.begin(how, tmp_path / how, {"OF_THE_CELL": how.upper()}) for how in hows}
    codes = {how: cells[how].wait(60) for how in ("crashes", "refuses", "ends")}
    assert codes == {"crashes": -signal.SIGABRT, "refuses": 1, "ends": 0}
    assert (cells["hangs"].poll(), cells["waits"].poll()) == (None, None)
    cells["waits"].close()
    assert cells["waits"].wait(60) == 130
    cells["hangs"].kill()
    assert cells["hangs"].wait(60) == -signal.SIGKILL
    assert (tmp_path / "refuses").read_text().split("\n") == ["refuses REFUSES", "no luck", ""]
    left = warm.begin("waits", tmp_path / "left", {"OF_THE_CELL": "x"})
    warm.stop()
    assert left.poll() == -signal.SIGKILL
    assert (tmp_path / "warm.log").read_text() == ""
    (tmp_path / "loads_long.py").write_text("import time\ntime.sleep(600)\n")
    warm = Warm(tmp_path / "warm.log", {}, loads=["loads_long"], cell="stands_in")
    early = warm.begin("waits", tmp_path / "early", {})
    asked = early.began
    assert early.poll() is None
    assert early.began > asked, "it has not begun"
    early.close()
    assert early.wait(60) == -signal.SIGKILL, "not begun yet: nothing to wait for"
    warm.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere cells are not forked")
def test_a_cell_that_the_system_has_no_room_for_says_so_and_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "waits.py").write_text("import os\ndef main(how):\n    os.read(0, 1)\n")
    # One cell keeps one handle open, and needs another for the moment of the fork.
    (tmp_path / "narrow.py").write_text(
        "import os, resource\n"
        "last = max(map(int, os.listdir('/proc/self/fd')))\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (last + 2, 1000))\n"
    )
    (tmp_path / "ends.py").write_text("import os\nos.write(2, b'no room at all\\n')\nos._exit(1)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "warm.log").write_text("of an earlier sweep\n")
    made = sweeps.sweep("simcse", seeds="0-1", runs_root=tmp_path / "runs", dry=True)
    warm = Warm(tmp_path / "warm.log", {}, loads=["waits", "workbench.sweeps._prepared", "narrow"], cell="waits")
    first, second = (warm.begin("", tmp_path / "log", {}) for _ in range(2))
    assert second.wait(60) == NO_FORK
    assert first.poll() is None
    first.close()
    assert first.wait(60) == 0
    again = warm.begin("", tmp_path / "log", {})
    again.close()
    assert again.wait(60) == 0, "there is room again"
    lost = Warm(tmp_path / "warm.log", {}, loads=["ends"], cell="waits")
    third = lost.begin("", tmp_path / "log", {})
    third.wait(60)
    for cell, process in zip(made.cells, (second, third), strict=True):
        assert _process.outcome(made, cell, process) == "failed"
    warm.stop()
    lost.stop()
    said = made.table()["failure"].tolist()
    assert "Too many open files" in said[0]
    assert "no room at all" in said[1]
    assert "of an earlier sweep" not in said[0]
    assert (first.said(), again.said()) == ("", "")
