"""Run a method: by one call in this process, or by executing its notebook with papermill."""

import logging
import os
import sys
from pathlib import Path
from unittest import mock

import workbench
from workbench.checkpoints import find_checkpoint
from workbench.config import CONFIGS, TrainingConfig
from workbench.data import check, kinds_of, unusable
from workbench.errors import DataError, RunError, SettingError
from workbench.files import project_path
from workbench.printing import steady_stdout
from workbench.runs import AnyPath, Facts, Run, finished_run

_LOG = logging.getLogger("workbench")
# Environment of a kernel. cuBLAS reads its setting at its first product, too late to be set in a
# notebook.
_KERNEL = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "PLOTLY_RENDERER": "plotly_mimetype",
    "TQDM_DISABLE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def run(config: TrainingConfig, runs_root: AnyPath = "runs", *, quiet: bool = False) -> Run:
    """Train and evaluate the run of `config` in this process and return it; a finished run is
    returned as it is.

    An interrupted run under `runs_root` goes on from its last state. Raises SettingError, DataError
    or EncoderError before training, and RunError if another process is working on this run, or if
    training failed."""
    if finished := finished_run(config, runs_root):
        return finished
    check_settings(config)
    for needed, profile in config.runs_needed:
        run(CONFIGS[needed].from_parameters(profile, config.seed), runs_root, quiet=quiet)
        config = config.model_copy(update={"base_root": str(runs_root)})
        config.model_fields_set.discard("base_root")  # it was not given
    current = Run.open(config, runs_root)
    with current.record_end():
        suites = workbench.load_suites(config)
        method = workbench.METHODS[config.method](config)
        workbench.evaluate(
            method if method.pairwise else method.encoder, suites, run=current, stage="before"
        )
        workbench.fit(
            method,
            workbench.load_training(config),
            workbench.load_dev(config),
            run=current,
            quiet=quiet,
        )
        workbench.evaluate(method, suites, run=current)
    return current


def run_notebook(
    method: str,
    *,
    profile: str = "demo",
    seed: int = 0,
    overrides: Facts | None = None,
    runs_root: AnyPath = "runs",
) -> Run:
    """Execute a method's notebook by papermill and return its run, which contains the executed
    notebook.

    A run that is finished and has its notebook is returned as it is. Raises SettingError or
    DataError before a kernel starts, and RunError if the notebook fails, which then stays in the
    run's folder."""
    config = CONFIGS[method].from_parameters(profile, seed, overrides)
    root = Path(runs_root).expanduser().resolve()
    notebook = notebook_of(config.method)
    finished = finished_run(config, root)
    if (
        finished
        and (finished.path / "notebook.ipynb").is_file()
        and not finished.facts().get("failure")
    ):
        _LOG.info(
            "%s is finished and used as it is; to run it again: workbench rm %s",
            finished.path,
            finished.path,
        )
        return finished
    check_settings(config)
    # As the settings read them: a relative path must also be valid in the kernel's own folder.
    changed = config.model_dump(mode="json", include=set(map(config.setting_name, overrides or {})))
    parameters = {
        "profile": profile,
        "seed": config.seed,
        "overrides": changed,
        "runs_root": str(root),
    }
    current = Run.open(config, root)  # which refuses a run that another process works on
    current.release()  # to the kernel
    _LOG.info("running %s; history, scores and executed notebook: %s", notebook.name, current.path)
    with current.record_end():
        _execute_notebook(notebook, current.path / "notebook.ipynb", parameters)
    return current


def notebook_of(method: str) -> Path:
    """Return the path of a method's notebook, `notebooks/NN_<method>.ipynb`. Raises SettingError if
    it has none."""
    pattern = f"[0-9][0-9]_{method}.ipynb"
    paths = list(project_path("notebooks").glob(pattern))
    if len(paths) != 1:
        raise SettingError(
            f"{method} has {len(paths)} notebooks {pattern} instead of one; run it "
            "without one: --no-notebook, in "
            "Python workbench.run or sweep(..., notebook=False)"
        )
    return paths[0]


def check_settings(config: TrainingConfig) -> None:
    """Raise DataError, SettingError or EncoderError for data sets and encoders that training could
    not use.

    Encoders are fetched from the hub, data sets are not.
    """
    problems = []
    every = set()
    for setting, (names, kinds) in config.data_sets.items():
        every.update(names)
        for name in names:
            held = kinds_of(name)
            if not {*held} & {*kinds}:
                needed = " or ".join(kinds)
                problems.append(
                    f"{setting}: {name} holds {held[0]}; {config.method} needs {needed} there"
                )
    broken = unusable(check(sorted(every)))
    problems += [
        each if each.startswith(name) else f"{name}: {each}" for name, each in broken.items()
    ]
    if problems:
        raise DataError("\n".join(problems))
    names = [config.train, *config.dev_sets, *config.suites]
    if shared := {name for name in names if names.count(name) > 1}:
        _LOG.warning(
            "%s is used twice among train, dev and suites: its scores are no test",
            ", ".join(shared),
        )
    for name in config.revisions.keys() - {*config.checkpoints}:
        raise SettingError(
            f"revisions: {name!r} is not an encoder of these settings; correct or remove it"
        )
    for name in dict.fromkeys(config.checkpoints):
        checkpoint = find_checkpoint(name, config.revisions.get(name))
        if name == config.encoder:
            config.require_pooling(checkpoint.own_pooling)


@steady_stdout()
def _execute_notebook(notebook: Path, output: Path, parameters: Facts) -> None:
    """Execute `notebook` with `parameters` into `output`, also if a cell fails; then raise
    RunError."""
    import papermill

    failure = None
    running = output.with_name(f".{output.name}")
    running.unlink(missing_ok=True)  # of an execution that was killed
    # The kernel does not work for the notebook that may be calling this.
    environment = {**_KERNEL, **os.environ, "JPY_SESSION_NAME": ""}
    try:
        with mock.patch.dict(os.environ, environment):
            papermill.execute_notebook(
                str(notebook),
                str(running),
                parameters,
                kernel_name="python3",
                progress_bar=False,
                start_timeout=120,
                log_output=True,
                stdout_file=sys.stdout,  # warnings and progress of the kernel
                # Not that loopback is not encrypted.
                extra_arguments=["--IPKernelApp.log_level=50"],
            )
    except Exception as error:  # of a cell, a kernel that died or never started, a full disk
        problem = (
            f"{error.ename}: {error.evalue}"
            if isinstance(error, papermill.PapermillExecutionError)
            else error
        )
        failure = RunError(f"{notebook.name} failed: {problem}\nthe executed notebook: {output}")
    if running.is_file():  # not reached after Ctrl-C, so an earlier notebook stays
        running.replace(output)
    if failure:
        raise failure
