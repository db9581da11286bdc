"""Forks that replace fresh processes: they share no state, and none outlives the tests."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import TOGETHER, goes_with
from forking import python, pythons

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere processes of the tests are fresh ones"
)


def test_what_shares_a_slow_start_goes_to_one_process():
    slow = r"(browser|jupyter|light): [A-Z]|(runs|uninterrupted): dict\[str, (Path|Run)\]"
    shares = re.compile(rf"[( ]({slow})|^from (live_lab|real_slurm)", re.MULTILINE)
    tests = Path(__file__).parent
    sharing = [
        path for path in tests.rglob("test_*.py") if shares.search(path.read_text(encoding="utf-8"))
    ]
    assert {path.relative_to(tests).as_posix() for path in sharing} == TOGETHER.keys()
    live, hover = "tests/test_browser.py::test_a", "tests/test_hover.py::test_b[of::two]"
    assert goes_with(live) == goes_with(hover) != goes_with("tests/test_slurm.py::test_c")
    assert (
        len({goes_with("tests/test_runs.py::test_a"), goes_with("tests/test_runs.py::test_b")}) == 2
    )


def test_a_program_may_be_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # A socket's path has 107 characters at most.
    folder = tmp_path / "a folder of Zoë" / ("x" * 150)
    folder.mkdir(parents=True)
    python = tmp_path / "a python" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    monkeypatch.setattr("forking.sys.executable", str(python))
    # A link to an environment's Python is not in it.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    code = "import os; print(os.getcwd())"
    with pythons(folder, bare=True):
        command = [folder / "rest" / "python", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == str(tmp_path), done.stderr


def test_forks_draw_other_random_numbers():
    code = "import random, numpy; print(random.random(), numpy.random.random())"
    drawn = [
        subprocess.run([python("looks"), "-c", code], capture_output=True, text=True).stdout
        for _ in range(2)
    ]
    assert len({number for line in drawn for number in line.split()}) == 4


@pytest.mark.slow
def test_what_still_runs_ends_with_the_process_that_forks_and_who_asks_for_nothing_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "pythons"
    folder.mkdir()
    monkeypatch.setenv("WORKBENCH_PYTHONS", str(folder))
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with pythons(folder, bare=True):
        with socket.socket(socket.AF_UNIX) as silent, contextlib.chdir(folder / "rest"):
            silent.connect("socket")
        asker = subprocess.Popen([python("rest"), "-c", code], stdout=subprocess.PIPE, text=True)
        assert asker.stdout
        with asker.stdout as said:
            process = int(said.readline())
        os.kill(process, 0)
    assert asker.wait() == -9
    assert not folder.exists()

    def is_running() -> bool:
        # One that is dead and that nobody has waited for has no command.
        with contextlib.suppress(OSError):
            return bool(Path(f"/proc/{process}/cmdline").read_bytes())
        return False

    deadline = time.monotonic() + 60
    while is_running():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_test_run_that_is_killed_leaves_no_folder(tmp_path: Path):
    folder = tmp_path / "pythons"
    folder.mkdir()
    code = (
        "import pathlib, sys, time\nfrom forking import pythons\nwith "
        f"pythons(pathlib.Path({str(folder)!r})):"
    )
    code += "\n    print(flush=True)\n    time.sleep(600)"
    run = subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, stdout=subprocess.PIPE
    )
    with run, run.stdout as said:
        assert said.readline()
        run.kill()
    deadline = time.monotonic() + 60
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
