"""The wheel works outside a checkout; what is missing, or in the way, is one line."""

import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest

from workbench import installation
from workbench.files import PACKAGE
from workbench.installation import copy_notebooks, missing_extra, namesake

PROJECT = Path(__file__).resolve().parent.parent


def test_a_module_that_an_extra_brings_is_named_with_its_extra():
    assert missing_extra("torch") == "this needs torch, which is not installed: pip install 'ranking-workbench[train]'"
    assert "[lab]" in str(missing_extra("papermill.exceptions"))
    assert "[train]" in str(missing_extra("huggingface_hub"))
    assert missing_extra("numpy") is None
    assert missing_extra(None) is None


@pytest.mark.parametrize(("module", "extra"), [("torch", "train"), ("papermill", "lab")])
def test_a_missing_extra_is_one_line(module: str, extra: str, tmp_path: Path):
    code = f"import sys; sys.modules[{module!r}] = None; sys.argv = ['workbench', 'run', 'simcse']\n"
    code += "from workbench.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"pip install 'ranking-workbench[{extra}]'" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_another_projects_package_in_the_same_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert namesake() is None
    facts = tmp_path / "workbench-0.8.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: workbench\nVersion: 0.8.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert namesake() is None  # elsewhere on the path: nothing is mixed
    monkeypatch.setattr(installation, "PACKAGE", tmp_path / "workbench")
    assert "pip uninstall workbench" in str(namesake())


def test_notebooks_are_copied_and_those_that_are_there_stay(tmp_path: Path):
    mine = tmp_path / "deep" / "00_tour.ipynb"
    mine.parent.mkdir()
    mine.write_text("mine")
    copied = [path.name for path in copy_notebooks(mine.parent)]
    assert mine.read_text() == "mine"
    assert sorted([*copied, mine.name]) == sorted(path.name for path in PROJECT.glob("notebooks/*.ipynb"))


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment_outside_the_checkout(tmp_path: Path):
    """Its dependencies are those of this environment, on the path behind the wheel; all else is the wheel's own."""

    def call(*command: str | Path) -> str:
        done = subprocess.run([*command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # nbconvert's page templates are data of its own installation, which is not the fresh one.
    environment = {**os.environ, "PYTHONPATH": "", "JUPYTER_PATH": str(Path(sys.prefix, "share", "jupyter"))}
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, PROJECT]
    call(*map(str, build))
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (wheel,) = tmp_path.glob("*.whl")
    call(sys.executable, "-m", "pip", "-q", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    libraries = Path(str(metadata.distribution("numpy").locate_file("")))
    (site / "libraries.pth").write_text(f"{libraries}\n")  # its .pth files, and so an editable checkout, do not count
    command = tmp_path / "env" / "bin" / "workbench"
    assert str(site / "workbench") in call(command, "--version")
    assert "10 notebooks copied" in call(command, "notebooks", "mine")
    small = ["max_steps=2", "eval_steps=2", "train_limit=200", "device=cpu"]
    shown = call(command, "run", "simcse", *small, "--html")
    (page,) = (tmp_path / "runs").glob("simcse/*/notebook.html")
    assert page.stat().st_size > 100_000
    assert "world-test" in shown
    assert "finished" in call(command, "runs")
    assert str(PACKAGE) not in (page.parent / "config.json").read_text()
