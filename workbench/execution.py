"""Run a method: by one call in this process, or by executing its notebook with papermill."""

import os
import re
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from workbench.checkpoints import find_checkpoint
from workbench.config import CONFIGS, TrainingConfig
from workbench.data import (
    check,
    kinds_of,
    load_dev,
    load_suites,
    load_training,
    own_columns,
    require_columns,
    unusable,
)
from workbench.errors import DataError, RunError, SettingError
from workbench.files import OWN_FILES, project_path, user_path
from workbench.printing import LOG, steady_stdout
from workbench.runs import AnyPath, Facts, Run, finished_run, lock_run, root_of_needed

# Environment of a kernel. cuBLAS reads its setting at its first product, too late to be set in a
# notebook.
_KERNEL = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "JUPYTER_PREFER_ENV_PATH": "1",  # not a kernel python3 of another environment
    "PLOTLY_RENDERER": "plotly_mimetype",
    "TQDM_DISABLE": "1",
}
# The tag of cells that train a second encoder, to learn from. It is nbclient's own: papermill and
# nbconvert skip such cells too, and a live notebook runs them.
_LESSON = "skip-execution"


def run(config: TrainingConfig, runs_root: AnyPath = "runs", *, quiet: bool = False) -> Run:
    """Train and evaluate the run of `config` in this process and return it.

    A finished run is returned as it is; an interrupted one goes on from its last state.

    Args:
        config: Settings of the run; runs that it learns from are trained first.
        runs_root: The folder of runs.
        quiet: Print no progress.

    Raises:
        SettingError, DataError, EncoderError: Before training, if it could not use its settings.
        RunError: Another process is working on this run, or training failed.

    Example:
        config = workbench.SimCSEConfig.from_parameters("demo", 0, {"max_steps": 50})
        finished = workbench.run(config, "runs")
        finished.metrics()["world-test"]["spearman"]
    """
    if finished := finished_run(config, runs_root):
        return finished
    check_settings(config)
    root = str(root_of_needed(config, runs_root))
    for needed in config.runs_needed:
        run(needed, root, quiet=quiet)
        config = config.model_copy(update={"base_root": root})
    # These load torch, which takes seconds: a finished run or a refusal does not wait for it.
    from workbench.evaluation import evaluate
    from workbench.methods import METHODS
    from workbench.training import fit

    current = Run.open(config, runs_root)
    with current.record_end():
        suites = load_suites(config)
        method = METHODS[config.method](config)
        start = method if method.pairwise else method.encoder
        evaluate(start, suites, run=current, stage="before")
        fit(method, load_training(config), load_dev(config), run=current, quiet=quiet)
        # Last, because the metrics of this stage are what marks the run as finished.
        evaluate(method, suites, run=current)
    return current


def run_notebook(
    method: str,
    *,
    profile: str = "demo",
    seed: int = 0,
    overrides: Facts | None = None,
    runs_root: AnyPath = "runs",
) -> Run:
    """Execute a method's notebook by papermill and return its run, which contains the notebook.

    A run that is finished and has its notebook is returned as it is.

    Raises:
        SettingError, DataError, EncoderError: Before a kernel starts.
        RunError: The notebook fails; its executed part stays in the run's folder, as
            notebook.failed.ipynb.
        BusyError: Another process works on this run, or executes its notebook.

    Example:
        workbench.run_notebook("simcse", seed=1, overrides={"temperature": 0.07})
    """
    config = CONFIGS[method].from_parameters(profile, seed, overrides)
    root = user_path(runs_root).resolve()
    notebook = notebook_of(config.method)
    if finished := finished_run(config, root):
        path = finished.path
        # A cell of the notebook may have failed after the run was finished.
        if (path / "notebook.ipynb").is_file():
            LOG.info(
                '%s is finished and used as it is; to run it again: workbench rm "%s"', path, path
            )
            return finished
    check_settings(config)
    parameters = {
        "profile": profile,
        "seed": config.seed,
        # As the settings read them: a relative path must also be valid in the kernel's own folder.
        "overrides": config.overrides,
        "runs_root": str(root),
    }
    current = Run.open(config, root)  # which refuses a run that another process works on
    current.release()  # to the kernel
    executed = current.path / "notebook.ipynb"
    # The lock of the run is free before the kernel takes it, and once the run is finished.
    lock = lock_run(current.path, executed.name, ".notebook.lock")
    try:
        if executed.is_file() and current.finished:  # by another process meanwhile
            return current
        LOG.info(
            "running %s; history, scores and executed notebook: %s", notebook.name, current.path
        )
        with current.record_end():
            _execute_notebook(notebook, executed, parameters)
            if not current.finished:  # such as by sys.exit(0), or without its last cells
                raise RunError(f"{notebook.name} ended before its evaluation; restore its cells")
    finally:
        lock.release(force=True)
    return current


def execute_lesson(notebook: Path) -> str:
    """Write an executed copy of a notebook as a page next to it, and return what was done.

    An existing page is kept, and so is a notebook that was executed and has no page, until it is
    removed. Its runs are removed afterwards. Raises RunError if a cell fails.
    """
    from workbench.views import export_html  # with widgets, which a run does without

    page = notebook.with_suffix(".html")
    # In the same folder: the page is moved in one step, and what fails is kept.
    executed = notebook.with_suffix(".executed.ipynb")
    for path in (page, executed):
        if path.exists():
            return f"kept: {path}"
    with TemporaryDirectory() as folder:
        has_runs = "runs_root = " in notebook.read_text("utf-8")
        _execute_notebook(notebook, executed, {"runs_root": folder} if has_runs else {})
    export_html(executed).replace(page)
    executed.unlink()
    return f"written: {page}"


def notebook_of(method: str) -> Path:
    """Return the path of a method's notebook, `notebooks/NN_<method>.ipynb`.

    Raises SettingError if it has none.
    """
    pattern = f"[0-9][0-9]_{method}.ipynb"
    paths = list(project_path("notebooks").glob(pattern))
    if len(paths) != 1:
        raise SettingError(
            f"{method} has {len(paths)} notebooks {pattern} instead of one; run it "
            "without one: --no-notebook, in Python workbench.run or sweep(..., notebook=False)"
        )
    return paths[0]


def check_settings(config: TrainingConfig) -> None:
    """Raise an error for datasets and encoders that training could not use.

    Encoders are fetched from the hub, datasets are not.

    Raises:
        DataError: A dataset is missing, broken or of another kind.
        SettingError: A revision is not that of an encoder, or a pooling does not fit.
        EncoderError: An encoder is missing or broken.
    """
    if any(name.endswith(OWN_FILES) for name in config.dev_sets[:-1]):
        raise SettingError(f"dev: {config.dev}: several sets are of the catalogue, a file is alone")
    require_columns(config)
    problems = []
    columns_of = {}
    for setting, (names, kinds) in config.data_sets.items():
        for name in names:
            columns_of[name] = own_columns(name, config.columns)
            available = kinds_of(name, columns_of[name])
            if {*available}.isdisjoint(kinds):
                needed = " or ".join(kinds)
                problems.append(
                    f"{setting}: {name} holds {available[0]}; {config.method} needs {needed} there"
                )
    for name in sorted(columns_of):
        problems += unusable(check([name], columns=columns_of[name]))
    if problems:
        raise DataError("\n".join(problems))
    names = [config.train, *config.dev_sets, *config.suites]
    if shared := {name for name in names if names.count(name) > 1}:
        LOG.warning(
            "%s is used twice among train, dev and suites: its scores are no test",
            ", ".join(sorted(shared)),
        )
    for name in config.revisions.keys() - {*config.checkpoints}:
        raise SettingError(
            f"revisions: {name!r} is not an encoder of these settings; correct or remove it"
        )
    if config.report_to and not find_spec(config.report_to):
        raise SettingError(f"report_to: {config.report_to} is not installed; pip install it")
    for name in dict.fromkeys(config.checkpoints):
        checkpoint = find_checkpoint(name, config.revisions.get(name))
        if name == config.encoder:
            config.require_pooling(checkpoint.own_pooling)
            if checkpoint.kind != "transformer":
                checkpoint.spec(config.pooling)  # which refuses it


@steady_stdout()
def _execute_notebook(notebook: Path, output: Path, parameters: Facts) -> None:
    """Execute a notebook with parameters into `output`, without its lessons.

    If a cell fails, what was executed is written next to it, as NAME.failed.ipynb: a notebook with
    its own name is whole. Raises RunError.
    """
    import papermill

    failure = None
    # Renamed to `output` at the end: Ctrl-C leaves the notebook of an earlier execution there.
    running = output.with_name(f".{output.name}")
    running.unlink(missing_ok=True)  # of an execution that was killed
    # The kernel does not work for the notebook that may be calling this.
    environment = {**_KERNEL, **os.environ, "JPY_SESSION_NAME": ""}
    try:
        with mock.patch.dict(os.environ, environment):
            execute = partial(
                papermill.execute_notebook,
                # It would fill in what is in braces.
                *[re.sub("[{}]", r"\g<0>\g<0>", str(path)) for path in (notebook, running)],
                parameters,
                kernel_name="python3",
                progress_bar=False,
                start_timeout=120,
                log_output=True,
                stdout_file=sys.stdout,  # warnings and progress of the kernel
                # Not that loopback is not encrypted.
                extra_arguments=["--IPKernelApp.log_level=50"],
                skip_cells_with_tag=_LESSON,
            )
            try:
                execute()
            except RuntimeError as error:
                # A kernel never started: another one, started at the same time, took its port.
                if type(error) is not RuntimeError:
                    raise
                execute()
    except Exception as error:  # of a cell, a kernel that died or never started, a full disk
        problem = error
        if isinstance(error, papermill.PapermillExecutionError):
            problem = f"{error.ename}: {error.evalue}"
        output = output.with_suffix(".failed.ipynb")
        failure = RunError(f"{notebook.name} failed: {problem}\nthe executed notebook: {output}")
    if running.is_file():
        running.replace(output)
    if failure:
        raise failure
