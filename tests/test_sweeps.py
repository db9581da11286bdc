"""Which cells a sweep has, and how they are run on this machine. The processes themselves: tests/acceptance."""

import sys
import threading
from pathlib import Path

import pytest

from workbench import sweeps
from workbench.errors import DataError, RunError, SettingError
from workbench.runs import run_path
from workbench.sweeps._plan import cells_of

# A cell that trains nothing: it notes that it ran, and fails for seed 3.
_CELL = """
import os, pathlib, sys, time
path, root, seed = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
path.mkdir(parents=True)
with open(root / "ran.txt", "a") as file:
    print(path.name, os.environ.get("CUDA_VISIBLE_DEVICES"), sep="\t", file=file)
time.sleep(0.05)
(path / "config.json").write_text('{"method": "simcse", "settings": {}}')
if seed == "3":
    sys.exit("no luck with 3")
(path / "notebook.ipynb").write_text("{}")
(path / "metrics.json").write_text("{}")
"""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that take a moment and train nothing."""

    def command(sweep: sweeps.Sweep, cell: sweeps.Cell) -> list[str]:
        return [sys.executable, "-S", "-c", _CELL, str(sweep.path(cell)), str(sweep.root), str(cell.seed)]

    monkeypatch.setattr(sweeps.Sweep, "command", command)


def ran(root: Path) -> list[list[str]]:
    """Return folder and GPUs of each cell that ran."""
    return sorted(line.split("\t") for line in (root / "ran.txt").read_text().splitlines())


def test_every_combination_runs_with_every_seed_and_its_name_says_what_varies():
    known = {"max_steps": 5, "temperature": 0.1, "learning_rate": 3e-4}
    spec = sweeps.read_spec(
        methods={"simcse": {"temperature": [0.05, 0.1]}, "cosent": {}},
        seeds="0-1",
        grid={"learning_rate": [1e-3, 3e-4], "max_steps": 5},
        points=[{"name": "as in the grid", "method": "simcse", "settings": known}],
    )
    cells = cells_of(spec)
    assert len(cells) == len({cell.path for cell in cells}) == 2 * (2 * 2 + 2), "the point is one of the grid"
    assert cells[0].title == "simcse learning_rate=0.001, temperature=0.05 seed 0"
    assert {cell.config.max_steps for cell in cells} == {5}
    assert all(run_path(cell.config, ".").as_posix() == cell.path for cell in cells)


def test_a_run_that_others_learn_from_is_one_cell_in_front_of_them():
    cells = cells_of(sweeps.read_spec(methods=["cosent", "rankencoder", "simcse"], seeds=[0, 1]))
    assert [cell.method for cell in cells[:2]] == ["simcse", "simcse"], "E1 is a run of SimCSE, which is asked for too"
    assert len(cells) == 6
    needs = {cell.path: cell.needs for cell in cells if cell.needs}
    assert set(needs.values()) == {(cells[0].path,), (cells[1].path,)}


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
learning_rate = "3e-4"
"""


def test_a_file_describes_methods_grids_points_and_exclusions(tmp_path: Path):
    (tmp_path / "a.toml").write_text(TOML)
    cells = cells_of(sweeps.read_spec(**sweeps.read_spec_file(tmp_path / "a.toml")))
    assert [cell.title for cell in cells if cell.seed == 1] == [
        "simcse learning_rate=0.001 seed 1",
        "simcse learning_rate=0.0003 seed 1",
        "cosent learning_rate=0.001 seed 1",
        "simcse small seed 1",
    ]


@pytest.mark.parametrize("entry", [{"seed": 1, "mlp": "true"}, {"method": "rankcse", "teachers": "world-teacher"}])
def test_an_exclusion_is_read_as_the_grid_is(entry: dict):
    grid = {"learning_rate": ["1e-3", "3e-4"], "teachers": [["world-teacher"], ["world-encoder"]]}
    given = {"methods": ["rankcse"], "grid": grid, "seeds": [1]}
    if "mlp" in entry:
        grid["mlp"] = [True, False]
    every, left = (cells_of(sweeps.read_spec(**given, without=without)) for without in ([], [entry]))
    assert len(left) == len(every) / 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"methods": ["simcse"], "grid": {"temprature": [1]}}, "did you mean 'temperature'"),
        ({"methods": ["simcse", "cosent"], "grid": {"temperature": [1]}}, r"'temperature' in cosent.*METHOD\.NAME"),
        ({"methods": ["simcse"], "seeds": "0-999999999"}, "at most"),
        ({"methods": ["simcse"], "seeds": "0-999", "grid": {"temperature": [0.1] * 1000}}, "at most"),
        ({"methods": ["simcse"], "sedes": [0]}, "sedes"),
        (
            {"methods": ["simcse"], "without": [{"method": "simcse", "temprature": 1}]},
            "temprature.* leaves nothing out",
        ),
        ({"methods": ["simcse"], "without": [{"method": "simcse"}]}, "sweep is empty"),
        ({}, "sweep is empty"),
    ],
)
def test_what_does_not_exist_is_refused_and_nothing_is_made(tmp_path: Path, given: dict, words: str):
    with pytest.raises(SettingError, match=words):
        sweeps.Sweep.create(sweeps.read_spec(**given), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_what_no_cell_could_use_is_refused_before_the_first_cell(tmp_path: Path):
    spec = sweeps.read_spec(methods=["simcse"], grid={"train": ["world", "world-train"]})
    with pytest.raises(DataError, match="world-train holds pairs"):
        sweeps.Sweep.create(spec, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    if Path("/sys/kernel").is_dir():  # in which even root writes nothing
        with pytest.raises(RunError, match="cannot write under /sys/kernel/runs"):
            sweeps.sweep("simcse", runs_root="/sys/kernel/runs")


@pytest.mark.usefixtures("stand_in")
def test_each_cell_runs_once_and_a_failure_stops_only_the_cells_that_need_it(
    tmp_path: Path, capsys: pytest.CaptureFixture
):
    made = sweeps.sweep(["rankencoder"], seeds="2-3", runs_root=tmp_path, jobs=2)
    printed = capsys.readouterr().out
    assert "4 cells: 4 waiting" in printed
    assert "left out rankencoder seed 3" in printed
    table = made.table().set_index("cell")
    assert table["state"].to_dict() == {
        "simcse seed 2": "finished",
        "simcse seed 3": "failed",
        "rankencoder seed 2": "finished",
        "rankencoder seed 3": "waiting",
    }
    assert "exit code 1" in table.loc["simcse seed 3", "failure"]
    assert "no luck with 3" in made.log(made.cells[1]).read_text()
    assert len(ran(tmp_path)) == 3
    (made.path(made.cells[0]) / "config.json").write_text("{")
    damaged = made.table().set_index("cell").loc["simcse seed 2"]
    assert damaged["state"] == "unreadable"
    assert "config.json" in damaged["failure"]


@pytest.mark.usefixtures("stand_in")
def test_two_sweeps_at_once_run_no_cell_twice(tmp_path: Path):
    given = {"seeds": "4-7", "runs_root": tmp_path, "jobs": 2}
    other = threading.Thread(target=sweeps.sweep, args=("simcse",), kwargs=given)
    sweeps.sweep("simcse", **given, dry=True)
    made = sweeps.sweep("simcse", **given)
    other.start()
    other.join()
    assert [name for name, _ in ran(tmp_path)] == sorted(Path(cell.path).name for cell in made.cells)


@pytest.mark.usefixtures("stand_in")
def test_each_cell_has_as_many_gpus_as_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 7")
    points = [
        {"name": name, "method": "simcse", "settings": {"max_steps": steps, "processes": processes}}
        for name, steps, processes in (("one", 5, 1), ("two", 6, 2), ("other", 7, 1))
    ]
    points.append({"name": "on the CPU", "method": "simcse", "settings": {"max_steps": 8, "device": "cpu"}})
    made = sweeps.sweep(points=points, runs_root=tmp_path)
    devices = dict(ran(tmp_path))
    one, two, other, on_cpu = (devices[Path(cell.path).name] for cell in made.cells)
    assert {one, other} <= {"4", "7"}
    assert two in ("4,7", "7,4")
    assert on_cpu == "4, 7"
    with pytest.raises(SettingError, match="num_processes=4"):
        sweeps.sweep("simcse", grid={"processes": 4}, runs_root=tmp_path)
