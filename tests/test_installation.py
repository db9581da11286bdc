"""The content of the wheel; a missing extra is one line."""

import re
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
import yaml
from jupyterlab_server import settings_utils
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from workbench.commands.app import main
from workbench.commands.notebooks import lab

PROJECT = Path(__file__).resolve().parent.parent


def test_a_missing_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "papermill", None)
    monkeypatch.setattr(sys, "argv", ["workbench", "run", "simcse", "--runs", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main()
    remedy = r'error: .*papermill.*pip install "ranking-workbench\[train,lab\]"$'
    assert re.match(remedy, capsys.readouterr().err.splitlines()[-1])


def test_a_missing_package_that_no_extra_has_is_named_itself(
    monkeypatch: pytest.MonkeyPatch, capsys
):
    def track() -> None:
        raise ModuleNotFoundError("No module named 'wandb'", name="wandb")

    monkeypatch.setattr("workbench.commands.app.app", track)
    with pytest.raises(SystemExit, match="2"):
        main()
    problem = "error: No module named 'wandb'; install it with: pip install wandb\n"
    assert capsys.readouterr().err == problem


def test_the_conda_file_asks_for_what_the_project_needs():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = yaml.safe_load((PROJECT / "environment.yml").read_text(encoding="utf-8"))[
        "dependencies"
    ]
    python, _, pip = wanted
    assert SpecifierSet(project["requires-python"]).contains(python.removeprefix("python="))
    options = dict(line.split(maxsplit=1) for line in pip["pip"])
    assert "/cpu" in options["--extra-index-url"]
    folder, _, extras = options["--editable"].rstrip("]").partition("[")
    assert (PROJECT / folder / "pyproject.toml").is_file()
    lines = (PROJECT / options["--constraint"]).read_text(encoding="utf-8").splitlines()
    pins = {Requirement(line).name for line in lines}
    needed = [
        *project["dependencies"],
        *chain(*(project["optional-dependencies"][one] for one in extras.split(","))),
    ]
    unpinned = {canonicalize_name(Requirement(one).name) for one in needed} - {
        *map(canonicalize_name, pins)
    }
    assert not unpinned


def test_lab_opens_jupyterlab_at_the_tour_of_a_copy_of_the_notebooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    started: list[list[str]] = []
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    monkeypatch.setattr("jupyterlab.labapp.LabApp.launch_instance", started.append)
    mine = tmp_path / "deep" / "mine" / "20_compare.ipynb"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    lab(mine.parent, ["--no-browser"])
    assert mine.read_text() == "mine"
    copied = sorted(path.name for path in mine.parent.iterdir())
    assert copied == sorted(path.name for path in PROJECT.glob("notebooks/*.ipynb"))
    root, page = (
        f"--ServerApp.root_dir={tmp_path / 'deep'}",
        "--LabApp.default_url=/lab/tree/mine/00_tour.ipynb",
    )
    assert started == [[root, page, "--no-browser"]]
    settings = settings_utils._get_overrides(str(tmp_path))[0][
        "@jupyterlab/apputils-extension:notification"
    ]
    assert settings == {"fetchNews": "false", "checkForUpdates": False}, (
        "JupyterLab would ask to go online"
    )


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into a folder and return its path."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    build += ["--directory", str(folder)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_contains_the_library_the_notebooks_and_nothing_else(tmp_path: Path):
    with zipfile.ZipFile(build_wheel(tmp_path / "dist")) as archive:
        archive.extractall(tmp_path / "site")
    site = tmp_path / "site" / "workbench"
    assert (site / "py.typed").is_file()
    assert {*site.parent.iterdir()} == {site, *site.parent.glob("ranking_workbench-*.dist-info")}
    bundled = {path.name for path in (site / "_bundled" / "notebooks").glob("*.ipynb")}
    assert bundled == {path.name for path in PROJECT.glob("notebooks/*.ipynb")}
