"""Run a method: by one call in this process, or by executing its notebook with papermill."""

import logging
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

from workbench.checkpoints import find_checkpoint
from workbench.config import CONFIGS, TrainingConfig
from workbench.data import check, data_revisions, kinds_of, unusable
from workbench.errors import DataError, EncoderError, RunError, SettingError, unknown_name
from workbench.files import atomic_path, project_path
from workbench.installation import require_modules
from workbench.runs import Run, is_finished, run_path

_LOG = logging.getLogger("workbench")
# Environment of a kernel. cuBLAS reads its setting at its first product, too late to be set in a notebook.
_KERNEL = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "PLOTLY_RENDERER": "plotly_mimetype",
    "TQDM_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def run(config: TrainingConfig, runs_root: str | Path = "runs", *, quiet: bool = False) -> Run:
    """Train and evaluate the run of `config` in this process and return it; a finished run is returned as it is.

    Args:
        config: All settings, e.g. `SimCSEConfig.from_profile("demo", seed=3)`.
        runs_root: Folder of runs; an interrupted run there goes on from its last state.
        quiet: Print no progress.

    Raises:
        SettingError, DataError, EncoderError: Before training, for settings or files that cannot be used.
        RunError: Another process is working on this run, or training failed.
    """
    from workbench.data import load_dev, load_suites, load_training
    from workbench.evaluation import evaluate
    from workbench.methods import METHODS
    from workbench.train import fit

    if is_finished(run_path(config, runs_root)):
        return Run(run_path(config, runs_root))
    check_settings(config)
    if hasattr(config, "base_root"):  # where a run that this one learns from is looked for
        config = config.model_copy(update={"base_root": str(runs_root)})
    for method, profile in config.runs_needed:
        run(CONFIGS[method].from_parameters(profile, config.seed), runs_root, quiet=quiet)
    current = Run.create(config, runs_root)
    started = time.monotonic()
    try:
        suites = load_suites(config)
        method = METHODS[config.method](config)
        evaluate(method if method.pairwise else method.encoder, suites, run=current, stage="before")
        fit(method, load_training(config), load_dev(config), run=current, quiet=quiet)
        evaluate(method, suites, run=current)
        current.record(seconds=round(time.monotonic() - started, 1))
    except Exception as problem:
        with suppress(RunError):  # the disk is full
            current.record(failure=f"{type(problem).__name__}: {problem}")
        raise
    finally:
        current.release()
    return current


def run_method(
    method: str,
    *,
    profile: str = "demo",
    seed: int = 0,
    overrides: dict[str, Any] | None = None,
    runs_root: str | Path = "runs",
) -> Run:
    """Execute a method's notebook by papermill and return its finished run; the executed notebook is the record.

    A run that is finished and has its notebook is returned as it is. Settings and data are checked before a kernel
    starts. The notebook is kept in the run's folder, also after a failure. Raises SettingError, DataError, RunError.
    """
    config = CONFIGS[method].from_parameters(profile, seed, overrides)
    require_modules("torch", "transformers", "papermill", "ipykernel")
    root = Path(runs_root).expanduser().resolve()
    path = run_path(config, root)
    if is_executed(path):
        _LOG.info("%s is finished and used as it is; to run it again: workbench rm %s", path, path)
        return Run(path)
    check_settings(config)
    # As the settings read them: a relative path given here must also be found from the kernel's own folder.
    names = {config.setting_name(name) for name in overrides or {}}
    read = {name: value for name, value in config.model_dump(mode="json").items() if name in names}
    current = Run.create(config, root)  # which refuses a run that another process works on
    current.release()  # to the kernel
    started, was_finished, notebook = time.monotonic(), current.finished, notebook_of(config.method)
    _LOG.info("running %s; history, scores and executed notebook: %s", notebook.name, path)
    try:
        parameters = {"profile": profile, "seed": config.seed, "overrides": read, "runs_root": str(root)}
        execute(notebook, path / "notebook.ipynb", parameters)
        if not current.finished:
            raise RunError(f"{notebook.name} ended without writing {path / 'metrics.json'}")  # noqa: TRY301
    except RunError as failure:
        with suppress(RunError):  # another process has taken the run meanwhile, or the disk is full
            current.acquire()
            current.record(failure=str(failure))
            current.release()
        raise
    current.record(failure=None, **({} if was_finished else {"seconds": round(time.monotonic() - started, 1)}))
    return current


def is_executed(path: Path) -> bool:
    """Return whether the run in `path` is finished and its notebook was executed to the end."""
    return is_finished(path) and (path / "notebook.ipynb").is_file() and not Run(path).facts().get("failure")


def notebook_of(method: str) -> Path:
    """Return the path of a method's notebook, `notebooks/NN_<method>.ipynb`."""
    (path,) = project_path("notebooks").glob(f"[0-9][0-9]_{method}.ipynb")
    return path


def check_settings(config: TrainingConfig) -> None:
    """Check the data sets and encoders of `config` before anything is computed. Raises SettingError, DataError."""
    _check_data(config)
    _check_encoders(config)


def _check_data(config: TrainingConfig) -> None:
    """Raise DataError for a set that is missing, broken or of the wrong kind; sets on the hub are not fetched."""
    data_revisions(config)
    problems = [
        f"{setting}: {name} holds {held[0]}; {config.method} needs {' or '.join(kinds)} there"
        for setting, (names, kinds) in config.data_sets.items()
        for name in names
        if not {*(held := kinds_of(name))} & {*kinds}
    ]
    names = dict.fromkeys(name for names, _ in config.data_sets.values() for name in names)
    problems += [f"{name}: {problem}" for name, problem in unusable(check(names)).items()]
    if problems:
        raise DataError("\n".join(problems))
    if shared := {config.train} & {config.dev, *config.suites} | {config.dev} & {*config.suites}:
        _LOG.warning("%s is used twice among train, dev and suites: its scores are no test", ", ".join(shared))


def _check_encoders(config: TrainingConfig) -> None:
    """Raise SettingError for an encoder that is missing or was saved with another pooling; fetch those on the hub."""
    for name in config.checkpoints:
        try:
            checkpoint = find_checkpoint(name, config.revisions.get(name))
        except EncoderError as problem:
            named = (key for key, value in config if name in (value if isinstance(value, list) else [value]))
            raise SettingError(f"{next(named)}: {problem}") from None
        if name == config.encoder:
            config.require_pooling(checkpoint.stored and checkpoint.stored.pooling)


def execute(notebook: Path, output: Path, parameters: dict[str, Any]) -> None:
    """Execute `notebook` with `parameters` into `output`, also if a cell fails; then raise RunError with its words."""
    import papermill
    from papermill.exceptions import PapermillException

    environment = {**_KERNEL, **os.environ}
    environment.pop("JPY_SESSION_NAME", None)  # of a notebook from which this is called
    with tempfile.TemporaryDirectory() as folder:
        running = Path(folder) / notebook.name
        try:
            with mock.patch.dict(os.environ, environment, clear=True):
                papermill.execute_notebook(
                    str(notebook),
                    str(running),
                    parameters=parameters,
                    kernel_name="python3",
                    progress_bar=False,
                    log_output=True,  # warnings of the kernel
                    stdout_file=sys.stdout,  # progress of training
                    start_timeout=120,
                    extra_arguments=["--IPKernelApp.log_level=50"],  # no warning that loopback is not encrypted
                )
        except PapermillException as problem:
            name, value = getattr(problem, "ename", type(problem).__name__), getattr(problem, "evalue", str(problem))
            raise RunError(f"{notebook.name} failed with {name}: {value}\nthe executed notebook: {output}") from None
        except Exception as problem:  # a kernel that died or never started, a full disk
            raise RunError(f"{notebook.name}: the kernel ended: {problem}\nthe executed notebook: {output}") from None
        finally:
            if running.is_file():
                with atomic_path(output) as new:
                    shutil.copyfile(running, new)


def check_parameters(namespace: dict[str, Any]) -> None:
    """Raise SettingError for a papermill parameter that the running notebook does not declare.

    Called as `check_parameters(globals())` in the first cell after the parameters: `papermill -p sead 3` would
    otherwise only warn and train seed 0. Without papermill nothing is checked.
    """
    cells = list(namespace.get("In", []))
    injected = [place for place, source in enumerate(cells) if source.startswith("# Parameters\n")]
    if injected:
        declared = {name for source in cells[: injected[-1]] for name in _assigned_names(source)}
        for name in _assigned_names(cells[injected[-1]]):
            if declared and name not in declared:
                raise SettingError(unknown_name("parameter", name, declared, "in this notebook"))


def _assigned_names(source: str) -> list[str]:
    return re.findall(r"^(\w+) = ", source, re.MULTILINE)


def runs_folder(runs_root: str | Path = "../runs") -> str:
    """Return the absolute path of a notebook's parameter `runs_root`.

    A path that begins with ".." is relative to the notebook's folder. papermill starts kernels in its own working
    directory, so in a checkout it is resolved from notebooks/ there.
    """
    path, notebooks = Path(runs_root).expanduser(), project_path("notebooks")
    is_live = "JPY_SESSION_NAME" in os.environ  # a kernel of JupyterLab works in its notebook's own folder
    if is_live or path.parts[:1] != ("..",) or not (notebooks.parent / "pyproject.toml").is_file():
        return str(path.resolve())
    return str((notebooks / path).resolve())
