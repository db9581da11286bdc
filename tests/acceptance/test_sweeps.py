"""Sweeps through the command line: each cell is trained once, after any interruption, here and on a
Slurm cluster."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from forking import python
from real_slurm import Slurm, slurm

from workbench.config import RankEncoderConfig
from workbench.runs import run_path

RESULTS = ("encoder/model.safetensors", "metrics.json", "scores.csv", "rankings.csv")
STATE = "checkpoint/state.safetensors"  # the last saved state of an unfinished training
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")


def workbench(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a fork of a process that has imported torch."""
    command = [python(), "-m", "workbench", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def list_runs(root: Path) -> list[list[Any]]:
    """Return method, seed, temperature and status of each run."""
    listed = workbench(
        "runs", "--json", "--columns", "method,seed,temperature,status", "--runs", root
    ).stdout
    return [list(row.values()) for row in json.loads(listed)]


def read_results(root: Path) -> dict[str, list[bytes]]:
    """Return weights and scores of each finished run by its folder under `root`."""
    folders = [file.parent for file in root.glob("*/*/metrics.json")]
    return {
        str(folder.relative_to(root)): [(folder / name).read_bytes() for name in RESULTS]
        for folder in folders
    }


def written(root: Path) -> dict[Path, int]:
    """Return the modification time of each result."""
    return {file: file.stat().st_mtime_ns for name in RESULTS for file in root.glob(f"*/*/{name}")}


def list_cells(output: str) -> list[tuple[str, str]]:
    """Return state and title of each cell that `--plan` or `status` lists."""
    rows = [
        line.split(maxsplit=1)
        for line in output.splitlines()
        if line.startswith("  ") and " seed " in line
    ]
    return [(state, title.partition(" (")[0]) for state, title in rows]


def wait_until(condition: Callable[[], object], every: float = 0.05) -> None:
    deadline = time.monotonic() + 500
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(every)


@pytest.fixture(scope="module")
def values(settings: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Return settings of a training of about a second on a user's files."""
    return settings("simcse", max_steps=200, eval_steps=100, save_steps=5)


@pytest.fixture(scope="module")
def simcse(values: dict[str, Any], words: Callable[[dict], list[str]]) -> list[str]:
    """Return the arguments of a command for two seeds of SimCSE."""
    return ["simcse", "--seeds", "0-1", *words(values)]


@pytest.fixture(scope="module")
def swept(
    values: dict[str, Any], files: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the runs of an uninterrupted sweep of four cells from a YAML file, without
    notebooks."""
    folder = tmp_path_factory.mktemp("swept")
    content = {
        "methods": {
            "simcse": {"train": values["train"], "temperature": [0.05, 0.1]},
            "cosent": {"train": str(files.train), "pooling": "cls"},
        },
        "seeds": [0, 1],
        "grid": {name: [value] for name, value in values.items() if name != "train"},
        "without": [
            {"method": "simcse", "temperature": 0.1, "seed": 1},
            {"method": "cosent", "seed": 1},
        ],
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump(content))
    done = workbench(
        "sweep", folder / "grid.yaml", "--jobs", 2, "--no-notebook", "--runs", folder / "runs"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "runs"


@pytest.fixture(scope="module")
def uninterrupted(swept: Path) -> dict[str, list[bytes]]:
    """Return the results of the two cells of `simcse`."""
    rows = json.loads(
        workbench("runs", "simcse", "temperature=0.05", "--json", "--runs", swept).stdout
    )
    names = {str(Path(row["path"]).relative_to(swept)) for row in rows}
    assert len(names) == 2
    return {name: found for name, found in read_results(swept).items() if name in names}


@pytest.mark.slow
def test_a_sweep_from_a_file_trains_each_cell_once_and_to_the_weights_of_a_single_run(
    swept: Path, uninterrupted: dict, simcse: list[str], tmp_path: Path
):
    cells = [["cosent", 0, None], ["simcse", 0, 0.05], ["simcse", 0, 0.1], ["simcse", 1, 0.05]]
    assert sorted(list_runs(swept), key=str) == [[*cell, "finished"] for cell in cells]
    before = written(swept)
    again = workbench(
        "sweep", swept.parent / "grid.yaml", "--jobs", 2, "--no-notebook", "--runs", swept
    )
    assert again.returncode == 0
    assert written(swept) == before

    done = workbench("run", "simcse", "--seed", 1, *simcse[3:], "--no-notebook", "--runs", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    ((name, found),) = read_results(tmp_path).items()
    assert found == uninterrupted[name]


@pytest.mark.slow
@linux
def test_a_killed_sweep_leaves_no_process_and_two_started_at_once_finish_it_with_the_same_results(
    simcse: list[str], uninterrupted: dict, tmp_path: Path
):
    command = [
        sys.executable,
        "-m",
        "workbench",
        "sweep",
        *simcse,
        "--jobs",
        "2",
        "--runs",
        str(tmp_path),
    ]
    with subprocess.Popen(
        command, env={**os.environ, "MARK": str(tmp_path)}, stdout=subprocess.DEVNULL
    ) as sweep:
        wait_until(lambda: list(tmp_path.glob(f"simcse/*/{STATE}")) or sweep.poll() is not None)
        sweep.kill()
    assert sum(status == "finished" for *_, status in list_runs(tmp_path)) < 2
    wait_until(lambda: not processes_with(f"MARK={tmp_path}"))
    interrupted = [state.parents[1] / "history.csv" for state in tmp_path.glob(f"simcse/*/{STATE}")]
    first_steps = {history: history.read_text().splitlines()[:6] for history in interrupted}

    # Their notebooks would be those of every other run.
    command = [python(), *command[1:], "--no-notebook"]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    outputs = [sweep.communicate()[0] for sweep in both]
    assert [sweep.returncode for sweep in both] == [0, 0], outputs
    assert read_results(tmp_path) == uninterrupted
    for history in tmp_path.glob("simcse/*/history.csv"):
        lines = history.read_text().splitlines()
        assert lines[:6] == first_steps.get(history, lines[:6]), "not trained again from the start"
        steps = [int(line.partition(",")[0]) for line in lines[1:]]
        assert steps == sorted(set(steps)), "not trained by two processes"


def processes_with(variable: str) -> list[int]:
    """Return the processes that started with this variable in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.slow
def test_a_cell_that_fails_is_reported_and_stops_no_other_and_is_all_that_is_tried_again(
    values: dict[str, Any], words: Callable[[dict], list[str]], tmp_path: Path
):
    short = {name: value for name, value in values.items() if name != "learning_rate"} | {
        "max_steps": 10
    }
    command = ["sweep", "simcse", *words(short), "learning_rate=1e30,1e-3", "--no-notebook"]
    command += ["--runs", tmp_path]
    planned = workbench(*command, "--plan")
    assert planned.returncode == 0
    pending = {state for state, _ in list_cells(planned.stdout)}
    assert pending.isdisjoint(("finished", "failed", "running"))

    done = workbench(*command)
    assert done.returncode == 1
    assert "1e+30" in done.stdout, "the reason names the value"
    assert sorted(status for *_, status in list_runs(tmp_path)) == ["failed", "finished"]
    assert (
        workbench("sweep", "simcse", "--seeds", "5", "--plan", "--runs", tmp_path).returncode == 0
    )
    every = workbench("sweep", "status", "--runs", tmp_path)
    assert every.returncode == 0
    names = [
        line.partition(":")[0] for line in every.stdout.splitlines() if line.startswith("simcse")
    ]
    listed = [
        list_cells(workbench("sweep", "status", name, "--runs", tmp_path).stdout) for name in names
    ]
    states = sorted([state for state, _ in cells] for cells in listed)
    assert states == sorted([["failed", "finished"], [*pending]])

    before = written(tmp_path)
    assert workbench(*command).returncode == 1
    assert written(tmp_path) == before


def test_a_plan_lists_each_cell_once_and_trains_nothing(tmp_path: Path):
    words = [
        "simcse",
        "cosent",
        "--seeds",
        "0-1",
        "learning_rate=1e-3,3e-4",
        "simcse.temperature=0.05,0.1",
    ]
    done = workbench("sweep", *words, "--plan", "--runs", tmp_path)
    assert done.returncode == 0
    titles = [title for _, title in list_cells(done.stdout)]
    assert len(titles) == len(set(titles)) == 2 * (2 * 2 + 2)
    assert (
        sum("simcse" in title and "0.1" in title and title.endswith("seed 1") for title in titles)
        == 2
    )
    assert list_runs(tmp_path) == []

    (tmp_path / "grid.yaml").write_text(
        "methods: {simcse: {temperature: [0.05, 0.1]}, cosent: {}}\n"
        "seeds: 0-1\n"
        "grid:\n  learning_rate: [0.001, 0.0003]\n"
        "without:\n  - {method: cosent, learning_rate: 0.0003}\n"
    )
    listed = list_cells(
        workbench("sweep", tmp_path / "grid.yaml", "--plan", "--runs", tmp_path).stdout
    )
    assert len(listed) == len(titles) - 2
    assert [title for _, title in listed if "cosent" in title and "0.0003" in title] == []

    learned_from = workbench("sweep", "rankencoder", "simcse", "--plan", "--runs", tmp_path)
    assert [title for _, title in list_cells(learned_from.stdout)] == [
        "simcse seed 0",
        "rankencoder seed 0",
    ]


def test_a_name_belongs_to_one_set_of_cells_and_a_damaged_sweep_hides_no_other(tmp_path: Path):
    for name, seed in (("mine", "0"), ("other", "1")):
        made = workbench(
            "sweep", "simcse", "--seeds", seed, "--name", name, "--plan", "--runs", tmp_path
        )
        assert made.returncode == 0
    refused = workbench(
        "sweep", "simcse", "--seeds", "2", "--name", "mine", "--plan", "--runs", tmp_path
    )
    assert refused.returncode != 0
    assert "mine" in refused.stderr
    shown = workbench("sweep", "status", "mine", "--runs", tmp_path)
    assert [title for _, title in list_cells(shown.stdout)] == ["simcse seed 0"]
    for damage in ("", "[]", '{"cells": [1]}', '{"cells'):
        (tmp_path / "sweeps" / "mine" / "sweep.json").write_text(damage)
        every = workbench("sweep", "status", "--runs", tmp_path)
        assert "Traceback" not in every.stderr
        assert "other: 1" in every.stdout
        assert list_cells(workbench("sweep", "status", "other", "--runs", tmp_path).stdout)


@pytest.mark.parametrize(
    "words",
    [
        ["simsce"],
        ["simcse", "temprature=0.1"],
        ["simcse", "temperature=-1"],
        ["simcse", "--seeds", "4-0"],
        ["a.yaml"],
    ],
)
def test_a_sweep_with_a_mistake_is_refused_before_anything_is_written(
    words: list[str], tmp_path: Path
):
    done = workbench("sweep", *words, "--runs", tmp_path / "runs")
    assert done.returncode != 0
    assert words[-1].rpartition("=")[2] in done.stderr or words[-1].partition("=")[0] in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with slurm() as started:
        yield started


def queued(cluster: Slurm) -> list[str]:
    """Return the job of each pending or running cell."""
    return sorted(cluster.ask("squeue", "--noheader", "--array", "--format=%i").split())


@pytest.mark.slow
def test_cells_on_slurm_that_run_out_of_time_or_are_requeued_end_with_the_same_results(
    cluster: Slurm, simcse: list[str], uninterrupted: dict, tmp_path: Path
):
    command = ["sweep", *simcse, "--slurm", "--cpus", 1, "--runs", tmp_path]
    done = workbench(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = queued(cluster)
    assert len(jobs) == 2
    # The time limit, and preemption.
    interrupts = {0: ["scancel", "--signal=USR2"], 1: ["scontrol", "requeue"]}

    def interrupt() -> bool:
        """Interrupt each cell as soon as it has a state; the other cell may have finished by
        then."""
        for seed in [
            seed for seed in interrupts if list(tmp_path.glob(f"simcse/*-s{seed}/{STATE}"))
        ]:
            cluster.ask(*interrupts.pop(seed), jobs[seed])
        return not interrupts

    wait_until(interrupt)
    assert workbench(*command).returncode == 0
    assert queued(cluster) == jobs, "each cell is in the queue once"
    wait_until(lambda: not queued(cluster), every=0.5)
    details = "".join(cluster.ask("scontrol", "show", "job", job) for job in jobs)
    assert details.count("Restarts=1") == 2
    assert [status for *_, status in list_runs(tmp_path)] == ["finished"] * 2
    assert read_results(tmp_path) == uninterrupted


@pytest.mark.slow
def test_on_slurm_a_cell_whose_need_fails_leaves_the_queue_and_trains_nothing(
    cluster: Slurm, settings: Callable[..., dict[str, Any]], words: Callable, tmp_path: Path
):
    values = settings("rankencoder", base="simcse")
    (needed,) = RankEncoderConfig.from_parameters("demo", 0, values).runs_needed
    in_the_way = run_path(needed, tmp_path)
    in_the_way.parent.mkdir()
    in_the_way.write_text("no folder, so that the cell of SimCSE fails")
    options = ["--slurm", "--no-notebook", "--runs", tmp_path]
    done = workbench("sweep", "rankencoder", *words(values), "--name", "needs", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: not queued(cluster), every=0.5)
    logs = {path.name: path.read_text() for path in (tmp_path / "sweeps/needs").glob("*.log")}
    assert [name.partition("-")[0] for name in logs] == ["simcse"]
    assert "cannot write under" in "".join(logs.values())


@pytest.mark.slow
def test_a_cancelled_sweep_leaves_the_queue_and_is_finished_on_this_machine(
    cluster: Slurm, simcse: list[str], uninterrupted: dict, tmp_path: Path
):
    simcse = [*simcse, "--no-notebook"]
    done = workbench("sweep", *simcse, "--name", "mine", "--slurm", "--jobs", 1, "--runs", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: list(tmp_path.glob(f"simcse/*/{STATE}")))
    assert workbench("sweep", "cancel", "mine", "--runs", tmp_path).returncode == 0
    wait_until(lambda: not queued(cluster), every=0.5)
    status = ["sweep", "status", "mine", "--runs", tmp_path]
    wait_until(lambda: "running" not in dict(list_cells(workbench(*status).stdout)))
    assert "failed" not in dict(list_cells(workbench(*status).stdout))
    assert len(read_results(tmp_path)) < 2
    done = workbench("sweep", *simcse, "--jobs", 2, "--name", "mine", "--runs", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_results(tmp_path) == uninterrupted
