"""The cells of a sweep and their execution on this machine. tests/acceptance tests the processes
themselves."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner
from written_runs import write_run

from workbench import sweeps
from workbench.commands.app import app
from workbench.commands.options import overrides_of
from workbench.commands.sweeps import read_words, start
from workbench.config import SimCSEConfig
from workbench.errors import DataError, RunError, SettingError
from workbench.runs import lock_run, run_path
from workbench.sweeps._processes import _OF_JOB, submit

# A cell that trains nothing: it waits for the same cell of another sweep, notes that it ran, and
# fails for seed 3.
_CELL = """
import fcntl, os, pathlib, sys, time
path, root, seed = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
assert "WORKBENCH_CELL" in os.environ
lock = open(root / f"{path.name}.lock", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
if (path / "metrics.json").exists():
    sys.exit()
path.mkdir(parents=True)
with open(root / "ran.txt", "a") as file:
    print(path.name, os.environ.get("CUDA_VISIBLE_DEVICES"), sep="\t", file=file)
time.sleep(0.05)
(path / "config.json").write_text('{"method": "simcse", "settings": {"seed": %s}}' % seed)
if seed == "3":
    sys.exit("no luck with 3")
(path / "notebook.ipynb").write_text("{}")
(path / "metrics.json").write_text("{}")
"""
# A cell that ignores Ctrl-C.
_HANG = """
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(os.getpid(), "hangs", flush=True)
time.sleep(600)
"""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let cells take a moment and train nothing."""
    use_cell(monkeypatch, _CELL)


def use_cell(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let cells run this code."""

    def command(sweep: sweeps.Sweep, cell: sweeps.Cell) -> list[str]:
        words = [sweep.root / cell.path, sweep.root, cell.seed]
        return [sys.executable, "-S", "-c", code, *map(str, words)]

    monkeypatch.setattr(sweeps.Sweep, "command", command)


def wait_until(holds: Callable[[], object]) -> bool:
    """Return whether something holds within a minute."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False


def wait_for_text(file: Path, text: str) -> None:
    """Wait until a file contains a text."""
    assert wait_until(lambda: text in file.read_text()), file.read_text()


def ran(root: Path) -> list[list[str]]:
    """Return folder and GPUs of each executed cell."""
    return sorted(line.split("\t") for line in (root / "ran.txt").read_text().splitlines())


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., list[sweeps.Cell]]:
    return lambda *methods, **given: (
        sweeps.sweep(*methods, **given, runs_root=tmp_path, dry=True).cells
    )


def test_every_combination_runs_with_every_seed_and_its_name_says_what_varies(
    plan: Callable[..., list[sweeps.Cell]],
):
    methods = {"simcse": {"temperature": [0.05, 0.1]}, "cosent": {}}
    cells = plan(methods, seeds="0-1", grid={"learning_rate": [1e-3, 3e-4], "max_steps": 5})
    assert len(cells) == len({cell.path for cell in cells}) == 2 * (2 * 2 + 2)
    assert cells[0].title == "simcse learning_rate=0.001, temperature=0.05 seed 0"
    assert {cell.config.max_steps for cell in cells} == {5}
    assert all(run_path(cell.config, ".").as_posix() == cell.path for cell in cells)


def test_each_stage_waits_for_all_that_it_needs(tmp_path: Path):
    grid = {"rankencoder": {"base": "rankencoder"}}
    made = sweeps.sweep(grid, seeds=[0], runs_root=tmp_path, dry=True)
    stages = [[cell.method for cell in stage] for stage in made.missing_stages()]
    assert stages == [["simcse"], ["rankencoder"], ["rankencoder"]]


def test_a_run_that_others_learn_from_is_one_cell_in_front_of_them(
    plan: Callable[..., list[sweeps.Cell]],
):
    # E1 is a run of SimCSE, also in the sweep.
    cells = plan(["rankencoder", "simcse"], seeds=[0, 1])
    assert [cell.title for cell in cells[:2]] == ["simcse seed 0", "rankencoder seed 0"]
    assert len(cells) == 4
    assert [cell.needs for cell in cells] == [(), (cells[0].path,), (), (cells[2].path,)]


def test_a_file_describes_methods_grids_and_exclusions_with_values_as_in_the_grid(
    tmp_path: Path, plan: Callable[..., list[sweeps.Cell]]
):
    (tmp_path / "a.toml").write_text(
        'methods = ["simcse", "cosent"]\nseeds = "0-1"\n[grid]\nlearning_rate = [1e-3, 3e-4]\n'
        '[[without]]\nmethod = "cosent"\nlearning_rate = 3e-4\n'
    )
    cells = plan(**sweeps.read_sweep_file(tmp_path / "a.toml"))
    assert [cell.title for cell in cells if cell.seed == 1] == [
        "simcse learning_rate=0.001 seed 1",
        "simcse learning_rate=0.0003 seed 1",
        "cosent learning_rate=0.001 seed 1",
    ]
    for text, problem in (
        ("sedes: 0-1", "sedes: Extra inputs .*; expected methods, seeds"),
        ("grid: 5", "grid: Input should be a valid dictionary .got '5'"),
    ):
        (tmp_path / "a.yaml").write_text(text)
        with pytest.raises(SettingError, match=problem):
            sweeps.read_sweep_file(tmp_path / "a.yaml")
    teachers = {"teachers": [["world-teacher"], ["world-encoder"]]}
    (left,) = plan(
        "rankcse",
        seeds=1,
        grid=teachers,
        without={"method": "rankcse", "teachers": ["world-teacher"]},
    )
    assert left.overrides == {"teachers": ["world-encoder"]}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"methods": ["simcse", "cosent"], "grid": {"temperature": [1]}},
            "no setting 'temperature' in cosent",
        ),
        ({"methods": ["simcse"], "seeds": "0-999999999"}, "at most"),
        (
            {"methods": ["simcse"], "seeds": "0-999", "grid": {"temperature": [0.1] * 1000}},
            "at most",
        ),
        ({"methods": ["simcse"], "seeds": "0,x"}, "'0,x' cannot be read"),
        (
            {"methods": ["simcse"], "without": [{"temprature": 1}]},
            "temprature.* excludes no cell",
        ),
        ({}, "sweep is empty"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_written(tmp_path: Path, given: dict, words: str):
    with pytest.raises(SettingError, match=words):
        sweeps.sweep(**given, runs_root=tmp_path / "runs")
    with pytest.raises(DataError, match="world-train holds pairs"):
        sweeps.sweep(
            "simcse", grid={"train": ["world", "world-train"]}, runs_root=tmp_path / "runs"
        )
    assert not (tmp_path / "runs").exists()


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
        "simcse seed 3": "unfinished",
        "rankencoder seed 2": "finished",
        "rankencoder seed 3": "waiting",
    }
    assert "failed   simcse seed 3: exit code 1" in printed
    assert "no luck with 3" in made.log(made.cells[2]).read_text()
    assert len(ran(tmp_path)) == 3
    (tmp_path / made.cells[0].path / "config.json").write_text("{")
    damaged = made.table().set_index("cell").loc["simcse seed 2"]
    assert damaged["state"] == "unreadable"
    assert "config.json" in damaged["failure"]


@pytest.mark.usefixtures("stand_in")
def test_two_sweeps_at_once_finish_every_cell(tmp_path: Path, capsys: pytest.CaptureFixture):
    given = {"seeds": "4-7", "runs_root": tmp_path, "jobs": 2}
    other = threading.Thread(target=sweeps.sweep, args=("simcse",), kwargs=given)
    other.start()
    made = sweeps.sweep("simcse", **given)
    other.join()
    assert [name for name, _ in ran(tmp_path)] == sorted(
        Path(cell.path).name for cell in made.cells
    )
    assert "failed" not in capsys.readouterr().out


# The command of a cell, which prints that it tries to take the lock of the notebook.
_TRIES = """
import filelock, os, sys
from workbench.__main__ import main
acquire = filelock.BaseFileLock.acquire

def try_lock(self, *args, **options):
    if self.lock_file.endswith(".notebook.lock"):
        print(os.getpid(), "tries", flush=True)
    return acquire(self, *args, **options)

filelock.BaseFileLock.acquire = try_lock
main()
"""


def test_a_cell_waits_for_the_notebook_of_another_sweep_and_ends_with_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = sweeps.sweep("simcse", runs_root=tmp_path, dry=True)
    [cell] = made.cells
    path = write_run(tmp_path, cell.config, 1.0).path
    lock = lock_run(path, "notebook.ipynb", ".notebook.lock")
    words = made.command(cell)[3:]
    monkeypatch.setattr(sweeps.Sweep, "command", lambda *_: [sys.executable, "-c", _TRIES, *words])
    waiting, stopped = (made.start(cell) for _ in range(2))
    for process in (waiting, stopped):
        wait_for_text(made.log(cell), f"{process.pid} tries")
    stopped.communicate()
    assert stopped.returncode == 130
    assert waiting.poll() is None
    (path / "notebook.ipynb").write_text("of the other sweep")
    lock.release()
    assert waiting.wait(60) == 0, made.log(cell).read_text()
    assert (path / "notebook.ipynb").read_text() == "of the other sweep"


HELD = """
import real_slurm
real_slurm.PROGRAMS, real_slurm.Slurm.start = (), lambda self: self._begin("sleep", "60")
with real_slurm.slurm() as cluster:
    print(cluster.running[0].pid, cluster.folder, flush=True)
    cluster.running[0].wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")
def test_a_killed_test_run_ends_its_slurm():
    with subprocess.Popen(
        [sys.executable, "-c", HELD], cwd=Path(__file__).parent, stdout=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        number, folder = run.stdout.readline().decode().rstrip("\n").split(" ", 1)
        # A process that begins has no command for a moment; one that is dead and that nobody
        # has waited for has none at all.
        command = Path(f"/proc/{number}/cmdline")
        try:
            began = wait_until(command.read_bytes)
        finally:
            run.kill()
    assert began
    assert wait_until(lambda: not Path(folder).exists())
    assert wait_until(lambda: not (command.exists() and command.read_bytes()))


def test_after_ctrl_c_a_cell_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sweeps.Sweep, "command", lambda *_: [sys.executable, "-S", "-c", _HANG])
    monkeypatch.setattr("workbench.sweeps._processes._UNTIL_ENDED", 0.1)
    made = sweeps.sweep("simcse", runs_root=tmp_path, dry=True)
    log = made.log(made.cells[0])
    log.touch()

    def interrupt() -> None:
        wait_for_text(log, "hangs")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        sweeps.sweep("simcse", runs_root=tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text().split()[0]), 0)


def test_each_cell_has_as_many_gpus_as_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # The first cell ends when the second has begun, so that they run at once.
    waits = """
end = time.monotonic() + 60
while len((root / "ran.txt").read_text().splitlines()) < 2 and time.monotonic() < end:
    time.sleep(0.02)
"""
    cell = _CELL.replace("time.sleep(0.05)\n", waits)
    assert cell != _CELL
    use_cell(monkeypatch, cell)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 7")
    ones = sweeps.sweep("simcse", grid={"max_steps": [5, 7]}, runs_root=tmp_path)
    two = sweeps.sweep("simcse", grid={"max_steps": 6, "processes": 2}, runs_root=tmp_path)
    on_cpu = sweeps.sweep("simcse", grid={"max_steps": 8, "device": "cpu"}, runs_root=tmp_path)
    devices = dict(ran(tmp_path))
    assert sorted(devices[Path(cell.path).name] for cell in ones.cells) == ["4", "7"]
    assert devices[Path(two.cells[0].path).name] in ("4,7", "7,4")
    assert devices[Path(on_cpu.cells[0].path).name] == "4, 7"
    with pytest.raises(SettingError, match="num_processes=4"):
        sweeps.sweep("simcse", grid={"processes": 4}, runs_root=tmp_path)


def test_a_folder_of_runs_that_cannot_be_written_to_is_named(tmp_path: Path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(RunError, match="cannot write under "):
        sweeps.sweep("simcse", runs_root=tmp_path / "runs")


def planned(words: list[str], root: Path) -> list[sweeps.Cell]:
    """Return the cells of a command `workbench sweep`."""
    return sweeps.sweep(**read_words(words, str(root)), runs_root=root, dry=True).cells


@pytest.mark.parametrize(
    ("words", "twice"),
    [
        (["simcse", "learning_rate=1e-3,2e-3", "lr=5e-3"], "learning_rate is given twice"),
        (["simcse", "learning_rate=1e-3,2e-3", "simcse.lr=5e-3"], "learning_rate is given twice"),
        (["simcse", "lr=1e-3", "simcse.lr=5e-3"], "learning_rate is given twice"),
        (["simcse", "simcse.lr=1e-3", "simcse.learning-rate=5e-3"], "learning_rate is given twice"),
        (["simcse", "lr=1e-3", "lr=5e-3"], "is given twice"),
        (["rankcse", "revisions={a/b: x, a/b: y}"], "a/b is given twice"),
    ],
)
def test_a_setting_that_is_given_twice_is_refused(words: list[str], twice: str, tmp_path: Path):
    with pytest.raises(SettingError, match=twice):
        planned(words, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("yaml", "methods: simcse\ngrid:\n  learning_rate: [1e-3, 2e-3]\n  lr: 5e-3\n"),
        ("yaml", "methods: simcse\ngrid:\n  lr: [1e-3, 2e-3]\n  lr: 5e-3\n"),
        ("yaml", "methods: {simcse: {lr: 1e-3}, simcse: {lr: 2e-3}}\n"),
        ("yml", "grid: {lr: 1e-3}\nmethods: {simcse: {learning-rate: 2e-3}}\n"),
        ("json", '{"methods": "simcse", "grid": {"lr": 1e-3, "lr": 2e-3}}'),
        ("json", '{"methods": "simcse", "grid": {"lr": 1e-3, "learning_rate": 2e-3}}'),
        ("toml", 'methods = "simcse"\n[grid]\nlr = 1e-3\nlearning_rate = 2e-3\n'),
    ],
)
def test_a_file_that_gives_a_setting_twice_is_refused(ending: str, text: str, tmp_path: Path):
    file = tmp_path / f"grid.{ending}"
    file.write_text(text)
    with pytest.raises(SettingError, match="is given twice"):
        planned([str(file)], tmp_path)


# A word of a command line or a plain value of YAML -> the setting, or None if it is refused.
READ = [
    ("max_steps=010", 10),
    ("max_steps=1_000", 1000),
    ("max_steps=1:30", None),
    ("max_steps=0x10", None),
    ("max_steps=true", None),
    ("max_steps=none", "none"),
    ("max_steps=null", "none"),
    ("learning_rate=1e-4", 1e-4),
    ("learning_rate=1", 1.0),
    ("learning_rate=.inf", None),
    ("mlp=off", False),
    ("mlp=yes", True),
    ("train=2024-01-01", "2024-01-01"),
    ("train=on", "on"),
    ("train=007", "007"),
    ("suites=world-dev", ["world-dev"]),
    ("suites=[world-dev, world-test]", ["world-dev", "world-test"]),
]


@pytest.mark.parametrize(("word", "value"), READ)
def test_a_run_a_sweep_its_file_and_a_notebook_read_a_value_alike(word: str, value: object):
    name, _, text = word.partition("=")
    by_sweep = read_words(["simcse", word], ".")["grid"][name]
    by_file = sweeps.load_yaml(f"{name}: {text}")[name]
    ways = [overrides_of([word])[name], *by_sweep, by_file]
    for given in ways:
        if value is None:
            with pytest.raises(SettingError, match=f"{name}: "):
                SimCSEConfig.from_parameters("demo", 0, {name: given})
        else:
            read = getattr(SimCSEConfig.from_parameters("demo", 0, {name: given}), name)
            assert read == (None if value == "none" else value)
    assert len(by_sweep) == 1


def test_a_tracker_that_is_not_installed_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("workbench.execution.find_spec", {"tensorboard": True}.get)
    assert len(planned(["simcse", "report_to=tensorboard"], tmp_path)) == 1
    with pytest.raises(SettingError, match="report_to: wandb is not installed; pip install it"):
        planned(["simcse", "report_to=wandb"], tmp_path)


def test_lists_quotes_and_objects_in_a_word_are_values(tmp_path: Path):
    grid = read_words(
        ["simcse", "suites=[a,b],[c]", "train='a,b.txt',c.txt", "revisions={a/b: '01', c/d: 1e5}"],
        ".",
    )["grid"]
    assert grid["suites"] == [["a", "b"], ["c"]]
    assert grid["train"] == ["a,b.txt", "c.txt"]
    assert grid["revisions"] == [{"a/b": "01", "c/d": "1e5"}]
    # A choice of columns has commas.
    for text in ("a=l'original,b=c", "'a=l,b=c'", '"a=l,b=c"'):
        chosen = read_words(["cosent", f"columns={text}"], ".")["grid"]
        assert chosen["columns"] == [text.strip("'\"")]
    with pytest.raises(SettingError, match="columns is given twice"):
        read_words(["cosent", "columns=b=c"], ".", "b=d")
    for word in ("suites=[a", "train='a", "cosent.lr=1", "max_steps="):
        with pytest.raises(SettingError, match=word.partition("=")[0]):
            planned(["simcse", word], tmp_path)


def test_conditions_of_without_are_read_as_settings(tmp_path: Path):
    file = tmp_path / "grid.yaml"
    grid = "methods: {simcse: , cosent: ~}\nseeds: [0, 1]\ngrid: &g\n  lr: [1e-3, 3e-4]\n"
    file.write_text(
        f"{grid}without:\n  - {{method: cosent, learning_rate: 0.001}}\n  - {{seed: 1, "
        f"lr: 0.0003}}\n"
    )
    assert [
        (cell.method, cell.seed, cell.config.learning_rate)
        for cell in planned([str(file)], tmp_path)
    ] == [
        ("simcse", 0, 1e-3),
        ("simcse", 1, 1e-3),
        ("simcse", 0, 3e-4),
        ("cosent", 0, 3e-4),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read .*; expected methods, "),
        ("[1, 2]", "cannot be read .*; expected methods, "),
        ("methods: [3", "cannot be read .*; expected methods, "),
        ("[" * 600, "cannot be read .*; expected methods, "),
        ("methods:", "methods: .* .got None"),
        ("methods: [[simcse]]", "methods: .* .got "),
        ("methods: {simcse: 5}", "methods: .* .got "),
        ("methods: 3", "no method '3'"),
        ("methods: simcse\nseeds: x", "seeds='x' cannot be read"),
        ("methods: simcse\nseeds: {a: b}", "seeds: .* .got "),
        ("methods: simcse\nseeds: [x]", "seeds: .* .got "),
        ("methods: simcse\nprofile: [demo]", "profile: .* .got "),
        ("methods: simcse\ngrid: [lr]", "grid: .* .got "),
        ("methods: simcse\ngrid: {lr: {a: b}}", "learning_rate: "),
        ("methods: simcse\ngrid: {lr: []}", "learning_rate has no values"),
        ("methods: simcse\nwithout: 5", "without: .* .got '5'"),
        ("methods: simcse\nwithout: [5]", "without: .* .got "),
        ("methods: simcse\njobs: 2", "jobs: Extra inputs .*; expected methods, "),
        ("methods: simcse\nsettings: [1]", "settings: Extra inputs .*; expected methods, "),
    ],
)
def test_a_wrong_type_in_a_file_is_one_line_that_names_the_key(
    text: str, words: str, tmp_path: Path
):
    file = tmp_path / "grid.yaml"
    file.write_text(text)
    with pytest.raises(SettingError, match=words) as refusal:
        planned([str(file)], tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_file_of_json_is_read_as_json(tmp_path: Path):
    file = tmp_path / "grid.json"
    file.write_text(
        '{\n\t"methods": ["simcse"],\n\t"grid": {"train": ["\\ud83d\\ude00.txt", "a\\/b.txt"]}}'
    )
    assert sweeps.read_sweep_file(file)["grid"] == {"train": ["\N{GRINNING FACE}.txt", "a/b.txt"]}


@pytest.mark.parametrize(
    "name", ["..", ".", "a/b", "/a", ".hidden", "-x", " ", "a\0b", "a\nb", "\x1b[31m", "x" * 300]
)
def test_a_name_that_is_no_plain_folder_is_refused(name: str, tmp_path: Path):
    with pytest.raises(SettingError, match="a sweep's name"):
        sweeps.sweep("simcse", name=name, runs_root=tmp_path / "runs", dry=True)
    assert not (tmp_path / "runs").exists()


def test_a_setting_whose_values_are_one_run_has_one_value(plan: Callable[..., list[sweeps.Cell]]):
    with pytest.raises(SettingError, match="cuda_graphs changes no result"):
        plan("simcse", grid={"cuda_graphs": [False, True]})
    [cell] = plan("simcse", grid={"cuda_graphs": [True]})
    assert cell.overrides == {"cuda_graphs": True}


def test_combinations_that_are_refused_can_be_left_out(plan: Callable[..., list[sweeps.Cell]]):
    grid = {"lower": [0.0, 0.6], "upper": [0.5, 0.8]}
    with pytest.raises(SettingError, match="lower"):
        plan("rankencoder", grid=grid)
    cells = plan("rankencoder", grid=grid, without={"lower": 0.6, "upper": 0.5})
    bounds = [(cell.config.lower, cell.config.upper) for cell in cells if cell.needs]
    assert bounds == [(0.0, 0.5), (0.0, 0.8), (0.6, 0.8)]
    sizes = {"batch-size": [8, 16]}  # as on the command line
    (left,) = plan("simcse", grid=sizes, without={"batch-size": 8})
    assert left.config.batch_size == 16


def test_a_run_that_is_learned_from_in_another_folder_is_no_cell(
    tmp_path: Path, plan: Callable[..., list[sweeps.Cell]]
):
    [cell] = plan("rankencoder", grid={"base_root": str(tmp_path / "shared")})
    assert (cell.method, cell.needs) == ("rankencoder", ())


def test_looking_at_a_plan_changes_no_cell_that_waits_in_a_queue(tmp_path: Path):
    planned = sweeps.sweep("simcse", runs_root=tmp_path, dry=True, notebook=False)
    again = sweeps.sweep("simcse", runs_root=tmp_path, dry=True)
    assert again.folder == planned.folder
    assert "--no-notebook" in again.command(again.cells[0])


def test_every_choice_of_columns_is_checked(tmp_path: Path):
    (tmp_path / "a.csv").write_text("one,two,near\na,b,1\nc,d,2\n")
    same = {"train": str(tmp_path / "a.csv"), "dev": "ladders-all", "suites": [["ladders-all"]]}
    for choices in (["NOT", "near"], ["near", "NOT"]):
        columns = [f"sentence1=one,sentence2=two,score={name}" for name in choices]
        with pytest.raises(DataError, match="no column 'NOT' in your files"):
            sweeps.sweep("cosent", grid=same | {"columns": columns}, runs_root=tmp_path, dry=True)


def test_a_job_that_submits_others_hands_them_nothing_of_its_own():
    own = ("SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SLURM_GPUS_PER_NODE", "SBATCH_TIMELIMIT")
    kept = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SBATCH_ACCOUNT", "HOME")
    assert [name for name in (*own, *kept) if _OF_JOB.match(name)] == [*own]


def test_a_path_that_slurm_would_read_as_a_pattern_is_refused(tmp_path: Path):
    made = sweeps.sweep("simcse", runs_root=tmp_path / "5%train", dry=True)
    with pytest.raises(SettingError, match=r"Slurm reads % and .* choose other --runs"):
        submit(made, sweeps.Slurm(), at_once=0)


def test_after_cancel_the_same_cells_are_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = sweeps.sweep("simcse", seeds="0-1", runs_root=tmp_path, dry=True)
    jobs = {f"7_{place}": cell.path for place, cell in enumerate(made.cells)}
    others = {"9": made.cells[0].path}
    (made.folder / "slurm.json").write_text(json.dumps(jobs | others))
    called = []

    def call(*command: str) -> str:
        called.append(command)
        # squeue lists a cancelled job until it has ended, and may have given a number again.
        own = f"{made.folder}/slurm/submission_file_1.sh"
        return f"7_0 {own}\n7_1 {own}\n8 {own}\n9 /home/else/7_0.sh\n"

    monkeypatch.setattr("workbench.sweeps._processes._call", call)
    assert sweeps.queued(made) == jobs
    # Jobs of another user of the folder count too.
    assert "--me" not in called[0]
    assert sweeps.cancel(made) == 2
    assert called[-1] == ("scancel", "7_0", "7_1")
    assert sweeps.queued(made) == {}


def test_the_status_of_copied_runs_is_printed_where_there_is_no_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = sweeps.sweep("simcse", seeds="0-1", runs_root=tmp_path, dry=True)
    (made.folder / "slurm.json").write_text(json.dumps({"7_0": made.cells[0].path}))
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["sweep", "status", made.name, "--runs", str(tmp_path)]
    printed = CliRunner().invoke(app, words, catch_exceptions=False)
    assert printed.exit_code == 0
    assert "2 waiting" in printed.stdout
    assert "Slurm's queue is not known here: " in printed.stdout


def test_flags_of_sbatch_are_true(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    given = []
    monkeypatch.setattr("workbench.sweep", lambda **contents: given.append(contents) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        start(["simcse"], slurm=True, sbatch=["exclusive=true", "account=mine"], runs=str(tmp_path))
    assert given[0]["slurm"] == sweeps.Slurm(options={"exclusive": True, "account": "mine"})


def test_a_sweep_of_a_version_without_titles_is_read_and_goes_on(tmp_path: Path):
    command = ["sweep", "simcse", "max_steps=2", "--seeds", "0", "--name", "old", "--plan"]
    command += ["--runs", str(tmp_path), "--no-notebook"]
    runner = CliRunner()
    assert runner.invoke(app, command).exit_code == 0
    [file] = tmp_path.glob("sweeps/old/sweep.json")
    written = json.loads(file.read_text(encoding="utf-8"))
    for cell in written["cells"]:
        cell["name"] = cell.pop("title")
    file.write_text(json.dumps(written), encoding="utf-8")
    assert len(sweeps.Sweep(file.parent).cells) == 1
    again = runner.invoke(app, command)
    assert again.exit_code == 0, again.output
