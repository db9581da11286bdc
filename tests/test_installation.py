"""The wheel works outside a checkout; what is missing, or in the way, is one line."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv
from contextlib import nullcontext
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
import typer
import yaml
from hub_stand_in import hub
from huggingface_hub import ModelCard
from jupyterlab_server import settings_utils
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from workbench.cli import lab
from workbench.files import PACKAGE

PROJECT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(("module", "extra"), [("torch", "train"), ("papermill", "lab")])
def test_a_missing_extra_is_one_line(module: str, extra: str, tmp_path: Path):
    code = f"import sys; sys.modules[{module!r}] = None; sys.argv = ['workbench', 'run', 'simcse']\n"
    code += "from workbench.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    remedy = f"this needs {module}, which is not installed: pip install 'ranking-workbench[{extra}]'"
    assert done.stderr.splitlines()[-1].endswith(remedy)
    assert "Traceback" not in done.stderr


def test_a_name_that_needs_an_extra_says_so_without_a_chain_of_imports():
    code = """
import sys
class Absent:
    @staticmethod
    def find_spec(name, *_):
        if name == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent)
from workbench import SimCSE
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'ranking-workbench[train]'" in done.stderr.splitlines()[-1]
    assert done.stderr.count("Traceback") == 1
    assert len(done.stderr.splitlines()) < 12


def test_the_conda_file_asks_for_what_the_project_needs():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = yaml.safe_load((PROJECT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    python, _, pip = wanted
    assert SpecifierSet(project["requires-python"]).contains(python.removeprefix("python="))
    options = dict(line.split(maxsplit=1) for line in pip["pip"])
    assert "/cpu" in options["--extra-index-url"]
    folder, _, extras = options["--editable"].rstrip("]").partition("[")
    assert (PROJECT / folder / "pyproject.toml").is_file()
    pins = {Requirement(line).name for line in (PROJECT / options["--constraint"]).read_text().splitlines()}
    needed = [*project["dependencies"], *chain(*(project["optional-dependencies"][one] for one in extras.split(",")))]
    unpinned = {canonicalize_name(Requirement(one).name) for one in needed} - {*map(canonicalize_name, pins)}
    assert not unpinned


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_lab_opens_jupyterlab_at_the_tour_of_a_copy_of_the_notebooks(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    started: list[list[str]] = []
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "")
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    monkeypatch.setattr(subprocess, "call", lambda command: started.append(command) or 0)
    monkeypatch.setattr(sys, "platform", platform)
    mine = tmp_path / "deep" / "mine" / "20_compare.ipynb"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(typer.Exit) if platform == "win32" else nullcontext():
        lab(mine.parent, ["--no-browser"])
    assert mine.read_text() == "mine"
    copied = sorted(path.name for path in mine.parent.iterdir())
    assert copied == sorted(path.name for path in PROJECT.glob("notebooks/*.ipynb"))
    ((*_, root, opened, option),) = started
    assert root == f"--ServerApp.root_dir={tmp_path / 'deep'}"
    assert opened.endswith("/lab/tree/mine/00_tour.ipynb")
    assert option == "--no-browser"
    asked = settings_utils._get_overrides(str(tmp_path))[0]["@jupyterlab/apputils-extension:notification"]
    assert asked == {"fetchNews": "false", "checkForUpdates": False}, "JupyterLab would ask to go online"


def documented(page: str) -> list[list[str]]:
    """The words of every command in the blocks of a page."""
    lines = (PROJECT / "docs" / page).read_text(encoding="utf-8").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("workbench ")]


TICKETS = "\ufeffid;question;answer;grade\r\n" + "".join(
    f'{row};"My {thing}; it fails";The {"sea" if row % 4 else thing} fails.;{4 if row % 4 == 0 else 1 + row % 3}\r\n'
    for row, thing in enumerate(["printer"] * 4 + ["laptop"] * 4 + ["door"] * 4 + ["lamp"] * 4)
)
PULL = """
import sys
from pathlib import Path
import torch
from workbench import Encoder, RunError
mine = Encoder.from_pretrained(sys.argv[1], device="cpu", precision="fp32")
mine.push_to_hub("me/other", card={"license": "mit"})
try:
    mine.push_to_hub("me/third", card={"license": "mitt"})
except RunError as refusal:
    print(refusal)
sentences = ["my printer is on fire", "smoke comes out of the printer"]
for name in ("OWNER/NAME", "me/other"):
    theirs = Encoder.from_pretrained(name, device="cpu", precision="fp32")
    assert theirs.source.startswith("hub:" + name), theirs.source
    assert torch.equal(theirs.encode(sentences), mine.encode(sentences))
"""


@pytest.mark.slow
def test_the_wheel_in_a_fresh_environment_takes_a_csv_to_a_published_encoder(tmp_path: Path):
    """By the documented commands alone, outside the checkout.

    The dependencies are those of this environment, on the path behind the wheel; all else is the wheel's own.
    """

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
    assert (site / "workbench" / "py.typed").is_file()
    assert str(site / "workbench") in call(command, "--version")
    notebooks = len([*PROJECT.glob("notebooks/*.ipynb")])
    assert f"{notebooks} notebooks copied" in call(command, "notebooks", "mine")
    (tmp_path / "tickets.csv").write_bytes(TICKETS.encode())
    shown = []
    for _, *words in documented("own-data.md"):
        small = ["max_steps=2", "eval_steps=2", "device=cpu", "--html"] if words[0] == "run" else []
        shown.append(call(command, *words, *small))
    checked, split, ran, listed = shown
    assert "sentence1 = question, sentence2 = answer, score = grade, scale 1 to 4" in checked
    assert "parts/tickets-train.tsv.gz" in split
    before, _, after = ran.partition("before training:")[2].partition("after:")
    assert "tickets-test" in before
    assert "tickets-test" in after
    assert "finished" in listed
    (page,) = (tmp_path / "runs").glob("cosent/*/notebook.html")
    assert page.stat().st_size > 100_000
    assert str(PACKAGE) not in (page.parent / "config.json").read_text()
    with hub() as (address, repositories):
        login = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HF_TOKEN": "hf_of_nobody"}
        environment |= login | {"HF_HUB_DISABLE_XET": "1"}
        for _, *words in documented("publishing.md"):
            told = call(command, *(re.sub(r"runs/\w+/DIGEST-s0", str(page.parent), word) for word in words))
            assert "model.safetensors" in told
            assert bool(repositories) == ("--dry-run" not in words)
        refused = call(python, "-c", PULL, str(page.parent))
    assert set(repositories) == {"OWNER/NAME", "me/other"}
    assert "me/third was not pushed" in refused
    assert "must be one of [mit" in refused
    card = ModelCard(repositories["OWNER/NAME"]["README.md"].decode())
    results = [(one.dataset_name, one.metric_type) for one in card.data.eval_results or []]
    assert ("tickets-test", "spearman_cosine") in results
    assert (card.data.license, card.data.base_model, card.data.datasets) == ("mit", None, None)
    assert 'SentenceTransformer("OWNER/NAME")' in card.text
    again = [command.with_name("ranking-workbench"), "--version"]
    assert subprocess.run(again, env=environment, capture_output=True, text=True, check=False).returncode == 0
