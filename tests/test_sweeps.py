"""Which cells a sweep has, and how they are run on this machine. The processes themselves: tests/acceptance."""

import sys
import threading
from pathlib import Path

import pytest

from workbench import sweeps
from workbench.config import CONFIGS
from workbench.errors import DataError, RunError, SettingError
from workbench.runs import run_path
from workbench.sweeps._local import GPUs, visible_gpus
from workbench.sweeps._plan import cells_of

# A cell that trains nothing: it notes that it ran, and fails for seed 3.
_CELL = """
import pathlib, sys, time
path, root, seed = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
path.mkdir(parents=True)
with open(root / "ran.txt", "a") as file:
    print(path.name, file=file)
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


def ran(root: Path) -> list[str]:
    return sorted((root / "ran.txt").read_text().splitlines())


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
        ({"methods": ["simcse", "cosent"], "grid": {"temperature": [1]}}, r"METHOD\.NAME"),
        ({"methods": ["simcse"], "grid": {"temperature": [0.1, -1]}}, "greater than 0"),
        ({"methods": ["simcse"], "seeds": "4-0"}, "0-2,7"),
        ({"methods": ["simcse"], "seeds": "0-999999999"}, "at most"),
        ({"methods": ["simcse"], "seeds": "0-999", "grid": {"temperature": [0.1] * 1000}}, "at most"),
        ({"methods": ["simcse"], "sedes": [0]}, "sedes"),
        ({"methods": ["simcse"], "without": [{"method": "simcse", "temprature": 1}]}, "did you mean 'temperature'"),
        ({"methods": ["simcse"], "without": [{"temperature": 7}]}, "leaves nothing out"),
        ({"methods": ["simcse"], "without": [{"method": "simcse"}]}, "sweep is empty"),
        ({}, "sweep is empty"),
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
    assert shared == {"suites": [["a", "b"], ["a"]], "mlp": [True, False]}
    assert own == {"cosent": {"scale": [20]}}
    with pytest.raises(SettingError, match="repeated"):
        sweeps.typed_grid(["mlp=true", "mlp=false"])


@pytest.mark.usefixtures("stand_in")
def test_each_cell_runs_once_and_a_failure_stops_only_the_cells_that_need_it(
    tmp_path: Path, capsys: pytest.CaptureFixture
):
    made = sweeps.sweep(["rankencoder"], seeds="2-3", runs_root=tmp_path, jobs=2)
    printed = capsys.readouterr().out
    assert "4 cells: 4 waiting" in printed
    assert "left out rankencoder seed 3" in printed
    assert dict(zip(made.table()["cell"], made.table()["state"], strict=True)) == {
        "simcse seed 2": "finished",
        "simcse seed 3": "failed",
        "rankencoder seed 2": "finished",
        "rankencoder seed 3": "waiting",
    }
    assert "exit code 1" in made.table()["failure"][1]
    assert "no luck with 3" in made.log(made.cells[1]).read_text()
    assert len(ran(tmp_path)) == 3


@pytest.mark.usefixtures("stand_in")
def test_two_sweeps_at_once_run_no_cell_twice(tmp_path: Path):
    given = {"seeds": "4-7", "runs_root": tmp_path, "jobs": 2}
    other = threading.Thread(target=sweeps.sweep, args=("simcse",), kwargs=given)
    sweeps.sweep("simcse", **given, dry=True)
    made = sweeps.sweep("simcse", **given)
    other.start()
    other.join()
    assert ran(tmp_path) == sorted(Path(cell.path).name for cell in made.cells)


def test_cells_wait_for_as_many_gpus_as_they_have_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 7")
    assert visible_gpus() == ["4", "7"]
    kinds = ({"processes": 1}, {"processes": 2, "device": "cpu"}, {"processes": 2})
    one, on_cpu, two = (cells_of(sweeps.read_spec(methods=["simcse"], grid=grid))[0] for grid in kinds)
    gpus = GPUs(visible_gpus())
    held = threading.Event()

    def take_both() -> None:
        with gpus.taken(two) as taken:
            assert taken == ["7", "4"]
            held.set()

    with gpus.taken(one) as first, gpus.taken(on_cpu) as none:
        assert (first, none) == (["4"], [])
        waiting = threading.Thread(target=take_both)
        waiting.start()
        assert not held.wait(0.1)
    assert held.wait(10)
    waiting.join()
    with pytest.raises(SettingError, match="processes=4"):
        sweeps.sweep("simcse", grid={"processes": 4}, runs_root=tmp_path)
