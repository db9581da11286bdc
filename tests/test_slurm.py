"""A sweep on a real Slurm: arrays, failures, time limits, dead nodes; the same cells as on one machine."""

import contextlib
import os
import re
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forking import python
from real_slurm import Slurm, kill_processes, slurm
from safetensors.torch import load_file
from stand_in_cells import STAND_IN, ran
from torch.testing import assert_close

from workbench import sweeps
from workbench.cli import main
from workbench.errors import RunError, SettingError
from workbench.runs import run_path
from workbench.sweeps import _local, _process, _slurm, _sweep

DOCUMENTS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs, cells, torchrun and what it starts load nothing anew; what they start themselves is not the job's child."""
    monkeypatch.setattr(sys, "executable", python())
    monkeypatch.setattr(_process, "CELL", [python(), *_process.CELL[1:]])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with slurm() as found:
        yield found


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that take a moment, without a kernel."""
    monkeypatch.setattr(_process, "CELL", STAND_IN)
    monkeypatch.setattr(_local, "WARM", False)  # or those of this machine train
    monkeypatch.setattr(_sweep, "check_settings", lambda config: None)


def until(true: Callable[[], object], seconds: float = 240, every: float = 0.5) -> None:
    """Most of what is asked starts a program of Slurm."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(every)


def states(sweep: sweeps.Sweep) -> list[str]:
    return [sweep.state(cell) for cell in sweep.cells]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster", "stand_in")
def test_arrays_run_each_cell_once_though_a_sweep_here_wants_it_too_and_what_failed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Four arrays, each a chunk of one cell: what others learn from, then the others. Their jobs are forks."""
    monkeypatch.setattr(sys, "executable", python("looks"))
    given = {"seeds": "2-3", "runs_root": tmp_path, "slurm": sweeps.Slurm(chunk=1)}
    (tmp_path / "hold").touch()
    found = sweeps.sweep(["rankencoder"], **given)
    assert "4 cells put into Slurm's queue as jobs 1, 2, 3, 4" in capsys.readouterr().out
    sweeps.sweep(["rankencoder"], **given)
    assert "0 cells put" in capsys.readouterr().out, "they stand in the queue already"
    (tmp_path / "hold").unlink()
    until(lambda: not sweeps.queued(found))
    assert dict(zip((cell.title for cell in found.cells), states(found), strict=True)) == {
        "simcse seed 2": "finished",
        "simcse seed 3": "failed",
        "rankencoder seed 2": "finished",
        "rankencoder seed 3": "waiting",
    }
    assert ran(tmp_path) == sorted(cell.path for cell in found.cells[:3])
    assert "no luck with 3" in found.table()["failure"].str.cat()
    monkeypatch.setattr(sys, "argv", ["workbench", "sweep", "status", found.name, "--runs", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert "failed: simcse seed 3" in capsys.readouterr().out

    same = {"seeds": "4-5", "runs_root": tmp_path / "both"}  # on the cluster and on this machine at once
    made = sweeps.sweep("simcse", dry=True, **same)
    (tmp_path / "both" / "hold").touch()
    sweeps.sweep("simcse", slurm=sweeps.Slurm(), **same)
    until(lambda: "running" in states(made))
    here = threading.Thread(target=sweeps.sweep, args=("simcse",), kwargs=same)
    here.start()
    time.sleep(0.5)
    (tmp_path / "both" / "hold").unlink()
    here.join()
    until(lambda: not sweeps.queued(made))
    assert states(made) == ["finished"] * 2
    assert ran(tmp_path / "both") == sorted(cell.path for cell in made.cells)


@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
def test_a_node_that_dies_ends_nothing_and_a_sweep_can_be_taken_back(cluster: Slurm, tmp_path: Path):
    (tmp_path / "hold").touch()
    found = sweeps.sweep("simcse", seeds="0-1", runs_root=tmp_path, slurm=sweeps.Slurm())
    until(lambda: states(found) == ["running"] * 2)
    cluster.kill_node("n0")
    assert states(found) == ["waiting"] * 2
    cluster.start_node("n0")
    until(lambda: len(ran(tmp_path)) == 4)
    assert sweeps.cancel(found) == 2
    until(lambda: not sweeps.queued(found))
    assert states(found) == ["waiting"] * 2
    (tmp_path / "hold").unlink()
    sweeps.sweep("simcse", seeds="0-1", runs_root=tmp_path)
    assert states(found) == ["finished"] * 2, "on this machine, as well as there"


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_a_cell_that_is_queued_again_in_mid_training_ends_with_the_weights_of_one_that_was_not(
    cluster: Slurm, tmp_path: Path
):
    from workbench import Run, SimCSE, fit
    from workbench.data import load_dev, load_training

    settings = {"max_steps": 150, "eval_steps": 150, "save_steps": 4, "train_limit": 300, "batch_size": 8}
    settings |= {"precision": "fp32", "suites": "world-dev"}
    found = sweeps.sweep("simcse", grid=settings, runs_root=tmp_path, slurm=sweeps.Slurm(notice=10))
    (cell,) = found.cells
    path = found.path(cell)
    until((path / "checkpoint" / "state.safetensors").exists, every=0.05)
    (job,) = sweeps.queued(found)
    cluster.ask("scancel", "--signal=USR2", job)  # as Slurm does before the time is over
    until(lambda: found.state(cell) == "unfinished")
    until(lambda: found.state(cell) == "finished")
    config = cell.config.model_copy(update={"save_steps": 150})  # of one that was not, nothing is kept on the way
    straight = Run.create(config, tmp_path / "straight")
    fit(SimCSE(config), load_training(config), load_dev(config), run=straight, quiet=True)
    weights = [load_file(run / "encoder" / "model.safetensors") for run in (path, straight.path)]
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        assert_close(value, weights[1][name], rtol=0, atol=0)


HOLDS = """
import time
from real_slurm import slurm
with slurm() as cluster:
    cluster.ask("sbatch", "--output=/dev/null", "--wrap=srun sleep 600")
    while not cluster.ask("squeue", "--noheader", "--states=running"):
        time.sleep(0.1)
    print(cluster.folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_test_run_that_is_killed_leaves_no_process_and_no_file_of_its_slurm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) as holding:
        folder = Path(holding.stdout.readline().strip())
        assert (folder / "slurm.conf").exists()
        holding.kill()
    until(lambda: not folder.exists(), seconds=60)
    assert not kill_processes(folder)


OVER_NODES = """
import json, sys
from pathlib import Path
from workbench.processes import run_processes
from workbench.sweeps import Sweep
root = Path(json.loads(sys.argv[1])["runs_root"])
sweep = Sweep(next((root / "sweeps").iterdir()))
path = sweep.path(sweep.cells[0])
run_processes("of_a_node", str(root), 2, on_row=print, quiet=False)
path.mkdir(parents=True)
for name in ("config.json", "metrics.json"):
    (path / name).write_text("{}")
"""
OF_A_NODE = """
import os, sys
(__import__("pathlib").Path(sys.argv[1]) / os.environ["RANK"]).write_text(os.environ["SLURMD_NODENAME"])
"""


@pytest.mark.slow
@pytest.mark.usefixtures("forks")
def test_two_nodes_train_to_the_weights_of_one_process_by_the_documented_file_and_are_given_to_a_cell_of_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from workbench import Run, SimCSE, SimCSEConfig, fit
    from workbench.data import load_dev, load_training

    settings = {"max_steps": 4, "eval_steps": 4, "train_limit": 64, "batch_size": 8, "dropout": 0.0}
    settings |= {"precision": "fp32", "device": "cpu", "log_steps": 1, "suites": "world-dev"}
    config = SimCSEConfig.from_parameters("demo", 0, settings)
    run = Run.create(config, tmp_path / "one")
    one = fit(SimCSE(config), load_training(config), load_dev(config), run=run, quiet=True)

    (script,) = re.findall(r"```\n(#!/bin/bash\n#SBATCH.*?)```", (DOCUMENTS / "sweeps.md").read_text(), re.DOTALL)
    small = "demo " + " ".join(f"--set {name}={value}" for name, value in settings.items())
    words = {"paper": small, "processes=8": "processes=2", "/shared/runs": str(tmp_path / "runs")}
    for said, meant in words.items():
        assert script.count(said) == 1
        script = script.replace(said, meant)
    (tmp_path / "train.sh").write_text(script)
    (tmp_path / "of_a_node.py").write_text(OF_A_NODE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("PATH", f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(_process, "CELL", [sys.executable, "-c", OVER_NODES])

    with slurm(nodes=2, cpus=16, gpus=4) as two:
        two.ask("sbatch", f"--output={tmp_path / 'log'}", str(tmp_path / "train.sh"))
        given = {"runs_root": tmp_path, "slurm": sweeps.Slurm(gpus=1, options={"nodes": "2"})}
        found = sweeps.sweep("simcse", grid={"processes": 2}, **given)
        until(lambda: not two.ask("squeue", "--noheader"))
    path = run_path(config, tmp_path / "runs")
    assert Run(path).finished, (tmp_path / "log").read_text()
    for name in ("loss", "dev_spearman"):  # what differs is the order of sums of float32
        assert Run(path).history()[name].to_numpy() == pytest.approx(one[name].to_numpy(), abs=1e-4, nan_ok=True)
    assert Run(path).config.processes == 2
    assert states(found) == ["finished"], found.table()["failure"][0]
    assert sorted((tmp_path / rank).read_text() for rank in "01") == two.names  # either may come first


def test_a_cell_whose_time_never_suffices_is_given_up_and_says_why(tmp_path: Path):
    pytest.importorskip("submitit")
    made = sweeps.sweep("simcse", runs_root=tmp_path, dry=True)
    (cell,) = made.cells
    path = made.path(cell)
    state = path / "checkpoint" / "state.safetensors"
    state.parent.mkdir(parents=True)
    state.touch()

    def told(fruitless: int, *, begun: bool = True, saved: bool = False) -> _slurm.CellJob | None:
        """What is queued again after a start that was told to end."""
        job = _slurm.CellJob(made.folder, cell.path, STAND_IN, fruitless)
        if begun:
            job.before = job._saved()
            job.process = _process.begin(made, cell, {}, ["true"])
        if saved:
            os.utime(state, (1, 1))  # the clock of a file server need not be a node's
        again = job.checkpoint()
        return again and again.function

    assert told(1).fruitless == 2
    assert told(2, saved=True).fruitless == 0
    assert told(2, begun=False).fruitless == 2, "one that only waited has shown nothing"
    assert made.state(cell) == "waiting"
    assert told(2) is None
    assert "3 times before a state was saved; give it more minutes" in made.table()["failure"][0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"minutes": -5}, "minutes=-5"),
        ({"minutes": 1}, "at least 3 minutes"),
        ({"chunk": 0}, "chunk=0"),
        ({"cpus": 0}, "cpus=0"),
        ({"notice": 3600}, "at least 62 minutes"),
        ({"options": {"nodes": "1-2"}}, "nodes=1-2.*one number"),
        ({"options": {"job-name": "mine"}}, "job-name is set by the sweep"),
    ],
)
def test_what_no_job_can_have_is_refused(given: dict, words: str):
    with pytest.raises(SettingError, match=words):
        sweeps.Slurm(**given)


def test_any_number_of_cells_at_a_time_is_as_many_as_an_array_holds():
    assert sweeps.Slurm().parameters("mine", 0)["slurm_array_parallelism"] == sweeps.Slurm().chunk
    assert sweeps.Slurm().parameters("mine", 7)["slurm_array_parallelism"] == 7


def test_two_who_put_a_sweep_into_the_queue_at_once_or_are_killed_at_it_leave_each_cell_there_once_and_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("submitit")
    made = sweeps.sweep("simcse", seeds="0-3", runs_root=tmp_path, dry=True)
    lines: list[str] = []

    def take(sweep: sweeps.Sweep, cells: list[sweeps.Cell], asked: dict, before: set[str]) -> str:
        time.sleep(0.1)
        job = len(lines) + 1
        lines.extend(f"{job}_{number} {asked['name']}" for number in range(len(cells)))
        if job > 1:
            raise KeyboardInterrupt
        return str(job)

    monkeypatch.setattr(_slurm, "_submitted", take)
    monkeypatch.setattr(_slurm, "_ask", lambda *words: "\n".join([*lines, "9_0 workbench-other"]))
    asked = sweeps.Slurm(chunk=2)
    both = [threading.Thread(target=_die_of_it, args=(made, asked)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted(sweeps.queued(made).values()) == sorted(cell.path for cell in made.cells)
    assert sorted(sweeps.queued(made)) == ["1_0", "1_1", "3_0", "3_1"]


def _die_of_it(made: sweeps.Sweep, asked: sweeps.Slurm) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        _slurm.submit(made, asked)


def test_what_no_cluster_is_there_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    many = {"grid": {"processes": 4}, "runs_root": tmp_path, "slurm": sweeps.Slurm(gpus=2)}
    with pytest.raises(SettingError, match="processes=4 and is given 2 GPUs"):
        sweeps.sweep("simcse", **many)
    over_nodes = {"grid": {"processes": 4}, "runs_root": tmp_path / "n", "slurm": sweeps.Slurm(options={"nodes": "2"})}
    with pytest.raises(SettingError, match="simcse seed 0 has processes=1, which 2 nodes cannot share equally"):
        sweeps.sweep("rankencoder", **over_nodes)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match="took no jobs"):
        sweeps.sweep("simcse", runs_root=tmp_path, slurm=sweeps.Slurm())
    assert [sweeps.queued(each) for each in sweeps.list_sweeps(tmp_path)] == [{}, {}], "there is nothing to ask for"
    monkeypatch.setattr(sys, "argv", ["workbench", "sweep", "simcse", "--gpus", "1", "--runs", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main()
