"""Notebooks without a browser: papermill behind a check of every name."""

import ast
import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.config import CONFIGS, TrainingConfig
from workbench.data import check, kind_of, unusable
from workbench.errors import DataError, EncoderError, RunError, SettingError, unknown_name
from workbench.files import explained, lock_run
from workbench.paths import project_path
from workbench.runs import Run, is_finished, run_path

_LOG = logging.getLogger("workbench")

_MATHS = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<line>[^$\n]+?)\$", re.DOTALL)
# nbconvert's page loads require.js and MathJax from a network; nothing in ours uses them.
_FROM_ELSEWHERE = re.compile(r'<script src="https://[^"]*">\s*</script>')
_START_TIMEOUT = 120  # seconds for a kernel to answer; a cell itself may take as long as it needs


def run_method(
    method: str,
    *,
    profile: str = "demo",
    seed: int = 0,
    overrides: dict[str, Any] | None = None,
    runs_root: str | Path = "runs",
) -> Run:
    """Runs a method's notebook headless and returns its finished run; a run that is already finished is returned as is.

    Every setting and every data set is checked before a kernel starts. The executed notebook lies in the run's
    directory, also when it failed, to be looked at. Raises SettingError, DataError, RunError.
    """
    if method not in CONFIGS:
        raise SettingError(unknown_name("method", method, CONFIGS, "in this workbench"))
    config = CONFIGS[method].from_parameters(profile, seed, overrides)
    root = Path(runs_root).expanduser().resolve()
    path = run_path(config, root)
    _check_data(config)
    if is_finished(path):
        run = Run(path)
        if _ran_through(path / "notebook.ipynb"):
            _LOG.info("%s is finished and used as it is; remove the folder to run it again", path)
            return run
        # Finished in a live notebook, or a cell after the evaluation failed: it is shown again, nothing is trained.
    _check_models(config)
    # As the settings understood them: a folder named from here is found from the notebook's own directory too.
    read = {name: value for name, value in config.model_dump(mode="json").items() if name in (overrides or {})}
    parameters = {"profile": profile, "seed": config.seed, "overrides": read, "runs_root": str(root)}
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
        lock = lock_run(path, ".headless.lock")  # before the notebook of a run in progress would be written over
    try:
        run = Run.create(config, root)  # it is listed from now on; the kernel, which takes a while to start, takes it
        run.release()
        _LOG.info("running %s; log, scores and executed notebook: %s", notebook_of(method).name, path)
        execute(notebook_of(method), path / "notebook.ipynb", parameters)
    finally:
        lock.release()
    if not run.finished:
        raise RunError(f"the notebook ended, but {path} has no metrics.json; look at {path / 'notebook.ipynb'}")
    return run


def notebook_of(method: str) -> Path:
    """The notebook of a method: the one whose name ends in the method's."""
    found = sorted(project_path("notebooks").glob(f"[0-9][0-9]_{method}.ipynb"))
    if len(found) != 1:
        raise RunError(f"notebooks/ should hold one notebook NN_{method}.ipynb; it holds {len(found)}")
    return found[0]


def _ran_through(notebook: Path) -> bool:
    """Whether papermill executed all of this notebook without an error."""
    try:
        facts = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["papermill"]
    except (OSError, ValueError, KeyError):
        return False
    return bool(facts.get("end_time")) and not facts.get("exception")


def _check_data(config: TrainingConfig) -> None:
    """Raises DataError when a set that the run needs cannot be used; what only the hub has is not asked for."""
    wanted = {"train": ([config.train], config.train_kinds), "dev": ([config.dev], ("pairs",))}
    wanted |= {"suites": (config.suites, ("pairs",))}
    problems = [
        f"{setting}: {name} holds {kind}; {config.method} takes {' or '.join(kinds)} there"
        for setting, (names, kinds) in wanted.items()
        for name in names
        if (kind := kind_of(name)) not in kinds
    ]
    found = unusable(check(dict.fromkeys([config.train, config.dev, *config.suites])))
    problems += [f"{name}: {problem}" for name, problem in found.items()]
    if problems:
        raise DataError("\n".join(problems))


def _check_models(config: TrainingConfig) -> None:
    """Raises SettingError when an encoder that the run loads is not there; those of the hub are fetched now."""
    from workbench.encoder._checkpoint import find_checkpoint

    for name in config.checkpoints:
        try:
            find_checkpoint(name, config.revisions.get(name))
        except EncoderError as problem:
            raise SettingError(str(problem)) from None


def execute(notebook: Path, output: Path, parameters: dict[str, Any]) -> None:
    """Executes `notebook` with `parameters` into `output`.

    Raises SettingError for a parameter that the notebook does not declare (papermill would only warn), RunError when a
    cell fails, with the error's own words.
    """
    import papermill
    from jupyter_client.kernelspec import NoSuchKernel
    from papermill.exceptions import PapermillException

    try:
        plain = json.loads(json.dumps(parameters, allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise SettingError(f"parameters must be plain numbers, text, lists and dictionaries: {problem}") from None
    known = papermill.inspect_notebook(str(notebook))
    for name in plain:
        if name not in known:
            raise SettingError(unknown_name("parameter", name, known, f"in {notebook.name}"))
    with _kernel_environment():
        try:
            papermill.execute_notebook(
                str(notebook),
                str(output),
                parameters=plain,
                kernel_name="python3",
                progress_bar=False,
                log_output=True,  # warnings
                stdout_file=sys.stdout,  # how far training is
                start_timeout=_START_TIMEOUT,
                # The kernel talks over loopback; its warning that this is not encrypted would open every run's log.
                extra_arguments=["--IPKernelApp.log_level=40"],
            )
        except PapermillException as problem:
            name, value = getattr(problem, "ename", type(problem).__name__), getattr(problem, "evalue", str(problem))
            raise RunError(f"{notebook.name} failed with {name}: {value}\nthe executed notebook: {output}") from None
        except (RuntimeError, NoSuchKernel, OSError) as problem:  # a kernel that died or never started, a full disk
            raise RunError(f"{notebook.name}: the kernel ended: {problem}\nthe executed notebook: {output}") from None


def check_parameters(namespace: dict[str, Any]) -> None:
    """Raises SettingError for a parameter that the running notebook does not declare: `check_parameters(globals())`.

    papermill, called directly, only warns of a name that the notebook's cell of parameters does not assign, and
    `-p sead 3` would train seed 0. It puts what it was given into a cell of its own behind that one, under a comment.
    So this stands in a notebook's first cell of code after the parameters. Without papermill it does nothing.
    """
    cells = list(namespace.get("In", []))
    places = [place for place, source in enumerate(cells) if source.startswith("# Parameters\n")]
    if places:
        known = {name for source in cells[: places[-1]] for name in _assigned(source)}
        for name in _assigned(cells[places[-1]]):
            if known and name not in known:
                raise SettingError(unknown_name("parameter", name, known, "in this notebook"))


def _assigned(source: str) -> list[str]:
    """The names that a cell of plain assignments sets."""
    return [
        target.id
        for line in ast.parse(source).body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    ]


def export_html(notebook: Path) -> Path:
    """Writes `notebook` as one HTML file beside it, figures included, to be opened without a network.

    Plotly figures stand in the notebook as data alone, which keeps it small; the script that draws them goes into the
    HTML once. Equations become MathML, which browsers draw themselves.
    """
    import nbformat
    import plotly.io
    from latex2mathml.converter import convert
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    content = nbformat.read(notebook, as_version=4)
    content.metadata.pop("widgets", None)  # what a widget shows stands beside it as HTML
    script: bool = True
    for cell in content.cells:
        if cell.cell_type == "markdown":
            cell.source = _MATHS.sub(
                lambda found: convert(found["block"] or found["line"], display="block" if found["block"] else "inline"),
                cell.source,
            )
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            figure = data.get("application/vnd.plotly.v1+json")
            if figure is not None:
                drawn = plotly.io.from_json(json.dumps({key: figure[key] for key in ("data", "layout")}))
                data.clear()
                data["text/html"] = plotly.io.to_html(drawn, full_html=False, include_plotlyjs=script)
                script = False
    # Tables and figures before the widget's own view, which needs a network to be drawn in a page.
    order = ["text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain"]
    settings = Config({"NbConvertBase": {"display_data_priority": order}})
    exporter = HTMLExporter(config=settings, exclude_input_prompt=True, exclude_output_prompt=True)
    page = _FROM_ELSEWHERE.sub("", exporter.from_notebook_node(content)[0])
    target = notebook.with_suffix(".html")
    with explained(target):
        target.write_text(page, encoding="utf-8")
    return target


@contextlib.contextmanager
def _kernel_environment() -> Iterator[None]:
    """What the kernel inherits: quiet libraries, figures as data."""
    # cuBLAS reads its workspace once, at the first product: too late for the trainer to ask for a fixed order of sums.
    wanted = {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PLOTLY_RENDERER": "plotly_mimetype",
        "TQDM_DISABLE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    before = {name: os.environ.get(name) for name in (*wanted, "JPY_SESSION_NAME")}
    os.environ.update({name: value for name, value in wanted.items() if name not in os.environ})
    os.environ.pop("JPY_SESSION_NAME", None)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
