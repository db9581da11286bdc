"""Each way of installing works: without extras, and with each of them, in fresh environments.

The wheel and the packages that it asks for are installed by pip from its index, without what this
environment has. Only torch and the libraries of CUDA are links to this environment's, because they
have 0.2 to 5 GB. The environment of an extra contains the one without extras, so that pip adds what
the extra asks for."""

import ast
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_installation import build_wheel
from written_runs import SUITE, write_run

from workbench.config import SimCSEConfig

PROJECT = Path(__file__).resolve().parent.parent
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Distributions of modules with another name.
DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "pyyaml"}
NEEDED_BYTES = 2 * 10**9


def required(*extras: str) -> set[str]:
    lists = [
        DECLARED["dependencies"],
        *(DECLARED["optional-dependencies"][extra] for extra in extras),
    ]
    return {canonicalize_name(Requirement(line).name) for each in lists for line in each}


@functools.cache
def imported_modules() -> set[str]:
    """Return the modules of other distributions that the library imports, also those within
    functions."""
    found = set()
    for path in (PROJECT / "workbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"workbench"}


def distribution_of(module: str) -> str:
    return canonicalize_name(DISTRIBUTIONS.get(module, module))


def test_every_module_that_is_imported_is_of_a_declared_package():
    assert {distribution_of(module) for module in imported_modules()} <= required(
        "train", "lab", "slurm", "st", "retrieval"
    )


def test_the_remedy_for_a_missing_module_installs_every_module():
    # These have errors of their own.
    loaded = imported_modules() - {"sentence_transformers", "ir_measures"}
    assert {distribution_of(module) for module in loaded} <= required("train", "lab", "slurm")


class Environment(NamedTuple):
    """A virtual environment, whose commands run in a folder with a few finished runs."""

    python: Path
    work: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        # Of the tests and of their environment.
        own = ("PYTHON", "WORKBENCH_", "JUPYTER_", "VIRTUAL_ENV")
        outside = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        # But not the user's folders.
        for name in ("WORKBENCH_CACHE", "JUPYTER_CONFIG_DIR"):
            outside[name] = os.environ[name]
        command = [str(self.python), *words]
        return subprocess.run(
            command, cwd=self.work, env=outside, capture_output=True, text=True, check=False
        )

    def workbench(self, *commands: str) -> list[str]:
        """Return what each command prints; all succeed."""
        done = self._commands(commands)
        for command, (code, output, errors) in zip(commands, done, strict=True):
            assert code == 0, f"{command}: {output[-2000:]}{errors[-2000:]}"
        return [output for _, output, _ in done]

    def errors(self, *commands: str) -> list[str]:
        """Return the last line that each command prints; all are refused."""
        done = self._commands(commands)
        for command, (code, output, errors) in zip(commands, done, strict=True):
            assert code == 2, f"{command}: {output[-2000:]}{errors[-2000:]}"
            assert "Traceback" not in errors
        return [errors.splitlines()[-1] for _, _, errors in done]

    def _commands(self, commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
        """Run commands in one process; return exit code, output and errors of each."""
        done = self.run("-c", ONE_PROCESS, *commands)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return json.loads(done.stdout)


# Loading the libraries takes longer than most commands, the more so from source.
ONE_PROCESS = """
import contextlib, glob, io, itertools, json, logging, shlex, sys
from workbench.commands.app import main

told, done = sys.argv[1:], []
for command in told:
    words = [sorted(glob.glob(word)) or [word] for word in shlex.split(command)]  # as a shell
    sys.argv = ["workbench", *itertools.chain(*words)]
    logging.root.handlers.clear()  # it would write to the errors of the command before
    code = 0
    with (
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    done.append((code, output.getvalue(), errors.getvalue()))
print(json.dumps(done))
"""


def pip_install(python: Path, *what: str) -> None:
    options = ["--quiet", "--no-compile", "--disable-pip-version-check", "--timeout", "30"]
    options += ["--no-user"]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, *what]
    # Packages of a user's PYTHONPATH would count as installed.
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stderr[-3000:]


def create(
    folder: Path, wheel: Path, work: Path, extra: str = "", light: Path | None = None
) -> Environment:
    """Create an environment with the wheel and an extra, in one with `light` site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    if light:
        (site / "light.pth").write_text(f"{light}\n", encoding="utf-8")
    if extra == "train":
        link_torch(site)
    pip_install(
        python,
        "--constraint",
        str(PROJECT / "constraints.txt"),
        f"{wheel}[{extra}]" if extra else str(wheel),
    )
    return Environment(python, work)


def link_torch(site: Path) -> None:
    """Link torch and the libraries of CUDA that it asks for, but nothing else that it asks for."""
    names = {Requirement(line).name for line in metadata.requires("torch") or []}
    of_cuda = {name for name in names if name.startswith(("nvidia", "triton", "cuda"))}
    for name in ("torch", *of_cuda):
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:  # of another platform
            continue
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(metadata.distribution(name).locate_file(top))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built wheel; skip the test if nothing can be installed."""
    folder = tmp_path_factory.mktemp("wheel")
    if sys.platform == "win32":
        pytest.skip("links to torch need a system with links")
    if (free := shutil.disk_usage(folder).free) < NEEDED_BYTES:
        pytest.skip(
            f"fresh environments need {NEEDED_BYTES:,} bytes in {folder}, which has {free:,}"
        )
    probe = [
        "download",
        "--no-deps",
        "--timeout",
        "10",
        "--retries",
        "0",
        "--dest",
        str(folder / "probe"),
    ]
    command = [sys.executable, "-m", "pip", *probe, "--no-cache-dir", "lazy-loader==0.6"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip has no index of packages here: {done.stderr.strip().splitlines()[-1:]}")
    return build_wheel(folder)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with finished runs of two settings and two seeds in runs/."""
    folder = tmp_path_factory.mktemp("a user's folder")
    for seed in (0, 1):
        write_run(folder / "runs", SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
        write_run(
            folder / "runs", SimCSEConfig.from_parameters("demo", seed, {"temperature": 0.2}), 3.0
        )
    return folder


@pytest.fixture(scope="module")
def light(wheel: Path, work: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment without extras."""
    return create(tmp_path_factory.mktemp("light") / "venv", wheel, work)


@pytest.fixture
def with_extra(
    light: Environment, wheel: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> Environment:
    """Return an environment with the extra that the test names."""
    (site,) = light.python.parent.parent.glob("lib/python*/site-packages")
    return create(tmp_path / "venv", wheel, light.work, request.param, site)


LOOK = f"""
import sys
from workbench import Run, list_runs, views
assert len(list_runs("runs")) == 4
runs = views.finished_runs("runs", {SUITE!r})
print(views.seed_table(runs), views.compare_runs(runs, {SUITE!r}, samples=50).verdicts())
views.compare_systems("runs", [{SUITE!r}], samples=50)
first, *_, last = map(Run, runs["path"])
tables = {{"first": first, "last": last}}
assert "slope chart" in views.most_changed(tables).data
assert views.PairExplorer(tables, {SUITE!r}).to_html("pairs.html").stat().st_size > 10_000
for widget in (views.RunPicker(runs, {SUITE!r}), views.RankingExplorer(tables)):
    assert widget._repr_mimebundle_()
views.score_intervals(views.compare_runs(runs, {SUITE!r}, samples=50))
assert not {{"torch", "transformers"}} & sys.modules.keys()
"""


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_without_extras_runs_are_listed_compared_and_looked_at(light: Environment):
    one = next((light.work / "runs/simcse").iterdir()).name
    expected = {
        "--version": str(light.python.parent.parent),
        "--help": "sweep",
        "runs": "finished",
        f"show {one}": "before training:",
        f"power {SUITE}": "standard deviation",
        "settings rankcse": "teacher_temperature",
        "data check world-test": "bundled",
        "data list": "world-train",
        "sweep simcse --seeds 2-3 --plan --runs others": "2 cells",
        "notebooks copies": "",
    }
    for command, output in zip(expected, light.workbench(*expected), strict=True):
        assert expected[command] in output, command
        assert command != "runs" or output.count("finished") == 4
    assert (light.work / "copies" / "00_tour.ipynb").is_file()
    looked = light.run("-c", LOOK)
    assert looked.returncode == 0, looked.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_without_extras_every_other_command_names_the_extra_that_it_needs(light: Environment):
    (light.work / "mine.parquet").write_bytes(b"PAR1")
    pushed = f"push {next((light.work / 'runs/simcse').iterdir()).name} me/mine --dry-run"
    needs = {
        "run simcse --runs others": "train,lab",
        "run simcse --runs others --no-notebook": "train",
        "evaluate english-encoder --runs others": "train",
        "look": "train,lab",
        "look --html page.html": "train",
        "lab": "train,lab",
        "data check mine.parquet": "train",
        pushed: "train",
        "sweep simcse --slurm --runs others": "train,slurm",
    }
    for (command, extras), error in zip(needs.items(), light.errors(*needs), strict=True):
        remedy = f'pip install "ranking-workbench[{extras}]"'
        assert error.endswith(remedy), command


def documented(page: str) -> list[list[str]]:
    """Return the arguments of every command in the code blocks of a page."""
    lines = (PROJECT / "docs" / page).read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line.startswith("workbench ")]
    return [shlex.split(command, comments=True)[1:] for command in commands]


TICKETS = "\ufeffid;question;answer;grade\r\n" + "".join(
    f'{row};"My {thing}; it fails";The {"sea" if row % 4 else thing} '
    f"fails.;{4 if row % 4 == 0 else 1 + row % 3}\r\n"
    for row, thing in enumerate(["printer"] * 4 + ["laptop"] * 4 + ["door"] * 4 + ["lamp"] * 4)
)

SENTENCES = "".join(
    f"The {thing} in the {place} was {state}.\n"
    for thing in ["printer", "laptop", "door", "lamp", "window"]
    for place in ["office", "kitchen", "cellar", "hall"]
    for state in ["broken", "repaired", "replaced"]
)
PUBLIC_TEACHER = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("with_extra", ["train"], indirect=True)
def test_with_train_a_csv_becomes_an_encoder_by_the_documented_commands(
    with_extra: Environment, small_files: dict[str, str], tmp_path: Path
):
    (tmp_path / "tickets.csv").write_bytes(TICKETS.encode())
    (tmp_path / "mine.txt").write_text(SENTENCES, encoding="utf-8")
    small = ["max_steps=2", "eval_steps=2", "device=cpu", "--no-notebook"]
    more = {"run": small, "look": ["--html", "page.html"]}
    commands = []
    for name, *words in documented("own-data.md"):
        line = shlex.join([name, *words, *more.get(name, [])])
        # The hub is not needed: a bundled encoder takes the place of the public teacher.
        line = line.replace(PUBLIC_TEACHER, "english-encoder")
        line = line.replace("ladders-all", small_files["suites"])
        commands.append(re.sub(r"runs/cosent/\S+", "runs/cosent/*", line))
    printed = "".join(with_extra._replace(work=tmp_path).workbench(*commands))
    assert "sentence1 = question, sentence2 = answer, score = grade, scale 1 to 4" in printed
    assert "parts/tickets-train.tsv.gz" in printed
    before, _, after = printed.partition("before training:")[2].partition("after:")
    assert "tickets-test" in before
    assert "tickets-test" in after
    assert "The sea fails." in (tmp_path / "page.html").read_text(encoding="utf-8")
    (config,) = (tmp_path / "runs").glob("cosent/*/config.json")
    assert str(PROJECT) not in config.read_text()


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("with_extra", ["lab"], indirect=True)
def test_with_lab_alone_a_notebook_compares_finished_runs(with_extra: Environment):
    usage, _ = with_extra.workbench("lab --help", "notebooks copies")
    assert "JupyterLab" in usage
    parameters = f"-p runs_root runs -p suite {SUITE} -p samples 50 --no-progress-bar"
    notebooks = ["copies/20_compare.ipynb", "out.ipynb"]
    done = with_extra.run("-m", "papermill", *notebooks, *parameters.split())
    assert done.returncode == 0, done.stderr[-3000:]
    code = "import jupyterlab.labapp, pathlib, workbench\n"
    code += "print(workbench.views.export_html(pathlib.Path('out.ipynb')))"
    exported = with_extra.run("-c", code)
    assert exported.stdout.strip().endswith("out.html"), exported.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("with_extra", ["slurm"], indirect=True)
def test_with_slurm_a_sweep_is_submitted_and_refused_where_there_is_no_slurm(
    with_extra: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sweep = "sweep simcse --seeds 5-6 --slurm"
    [plan] = with_extra.workbench(f"{sweep} --plan --runs others")
    assert "2 cells" in plan
    # No other PATH, as this machine may belong to a cluster.
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    refused = with_extra.run("-m", "workbench", *sweep.split(), "--runs", "refused")
    assert refused.returncode == 1, refused.stderr
    assert 'Slurm refused the 2 jobs of a stage: Could not detect "srun"' in refused.stderr
    called = tmp_path / "called"
    scripts = {
        "srun": "",  # which is only looked for
        "sbatch": f'echo "$@" >> {shlex.quote(str(called))}\necho Submitted batch job 7\n',
    }
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}")
        (programs / name).chmod(0o755)
    done = with_extra.run("-m", "workbench", *sweep.split(), "--runs", "others")
    assert done.returncode == 0, done.stderr
    assert "2 cells submitted to Slurm" in done.stdout
    [submitted] = called.read_text().splitlines()
    assert "--array=0-1" in Path(submitted).read_text()
