"""Notebooks without a browser: papermill behind a check of every name."""

import ast
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.config import CONFIGS, TrainingConfig
from workbench.data import check, data_revisions, kinds_of, unusable
from workbench.errors import DataError, EncoderError, RunError, SettingError, unknown_name
from workbench.files import deaf, explained, lock_run, project_path
from workbench.installation import require_modules
from workbench.order import explain_order
from workbench.runs import (
    Run,
    failure_of,
    folder_of_runs,
    forget_failure,
    is_finished,
    note_failure,
    run_path,
)

_LOG = logging.getLogger("workbench")

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
    config = CONFIGS[method].from_parameters(profile, seed, overrides)
    require_modules("torch", "transformers", "papermill", "ipykernel")
    root = folder_of_runs(runs_root).resolve()
    path = run_path(config, root)
    _check_data(config)
    _check_places(config)
    if is_shown(path):
        _LOG.info("%s is finished and used as it is; to run it again: workbench rm %s", path, path)
        return Run(path)
    # Finished in a live notebook, or a cell after the evaluation failed: it is shown again, nothing is trained.
    _check_models(config)
    # As the settings understood them: a folder named from here is found from the notebook's own directory too.
    read = {name: value for name, value in config.model_dump(mode="json").items() if name in (overrides or {})}
    parameters = {"profile": profile, "seed": config.seed, "overrides": read, "runs_root": str(root)}
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
        lock = lock_run(path, ".headless.lock")  # before the notebook of a run in progress would be written over
    try:
        if not is_shown(path):  # another process may have come to its end since
            _run_notebook(config, path, parameters)
    finally:
        lock.release()
    return Run(path)


def _run_notebook(config: TrainingConfig, path: Path, parameters: dict[str, Any]) -> None:
    """Runs the notebook of the run in `path`; RunError where it fails or leaves no result, kept beside the run too."""
    started = time.monotonic()
    run = Run.create(config, parameters["runs_root"])  # listed from now on; the kernel, slow to start, takes it
    run.release()
    trained_before = run.finished
    notebook = notebook_of(config.method)
    _LOG.info("running %s; history, scores and executed notebook: %s", notebook.name, path)
    try:
        execute(notebook, path / "notebook.ipynb", parameters)
        _require_finished(run)
    except RunError as failure:
        with contextlib.suppress(RunError):  # a full disk is said already
            note_failure(path, str(failure))
        raise
    forget_failure(path)
    if not trained_before:
        run.record(seconds=round(time.monotonic() - started, 1))


def _require_finished(run: Run) -> None:
    if not run.finished:
        raise RunError(f"the notebook ended, but {run.path} has no metrics.json; look at {run.path / 'notebook.ipynb'}")


def is_shown(path: Path) -> bool:
    """Whether the run in `path` is finished and its notebook was executed to the end."""
    return is_finished(path) and failure_of(path) is None and _ran_through(path / "notebook.ipynb")


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


def check_settings(config: TrainingConfig) -> None:
    """Raises SettingError or DataError for a set, an encoder, a device or a folder that the run could not use."""
    _check_data(config)
    _check_places(config)
    _check_models(config)


def _trained_on(kind: str) -> str:
    """Which methods are, for a refusal."""
    methods = [name for name, settings in CONFIGS.items() if kind in settings.from_parameters().train_kinds]
    return f" ({kind} are what {' and '.join(methods)} train{'s' * (len(methods) == 1)} on)" if methods else ""


def _check_data(config: TrainingConfig) -> None:
    """Raises DataError when a set that the run needs cannot be used; what only the hub has is not asked for."""
    data_revisions(config)
    wanted = config.data_sets
    problems = [
        f"{setting}: {name} holds {found[0]}; {config.method} takes {' or '.join(kinds)} there"
        + (_trained_on(found[0]) if setting == "train" else "")
        for setting, (names, kinds) in wanted.items()
        for name in names
        if not {*(found := kinds_of(name))} & {*kinds}
    ]
    broken = unusable(check(dict.fromkeys(name for names, _ in wanted.values() for name in names)))
    problems += [f"{name}: {problem}" for name, problem in broken.items()]
    if problems:
        raise DataError("\n".join(problems))
    if shared := {config.train} & {config.dev, *config.suites} | {config.dev} & {*config.suites}:
        _LOG.warning("%s is named twice among train, dev and suites: its scores are no test", ", ".join(shared))


def _check_models(config: TrainingConfig) -> None:
    """Raises SettingError when an encoder that the run loads is not there, or cannot be read as the settings say.

    Those of the hub are fetched now.
    """
    from workbench.encoder import find_checkpoint

    found = {}
    for name in config.checkpoints:
        try:
            found[name] = find_checkpoint(name, config.revisions.get(name))
        except EncoderError as problem:
            raise SettingError(f"{config.naming(name) or 'encoder'}: {problem}") from None
    start = found.get(config.encoder)
    if start is None:
        return
    config.require_pooling(start.stored and start.stored.pooling)
    positions = json.loads((start.folder / "config.json").read_text(encoding="utf-8")).get("max_position_embeddings")
    limit = min((length for length in (positions, start.max_seq_length) if length and length > 0), default=None)
    if limit and config.max_tokens > limit:
        raise SettingError(f"max_tokens is {config.max_tokens}, but {config.encoder} takes {limit} tokens; lower it")
    reading = start.read("mask", getattr(config, "template", None)) if config.pooling == "mask" else None
    if reading is not None and reading.template is None:
        raise SettingError(
            f"pooling 'mask' reads the [MASK] of a template, and {config.encoder} has none; give another pooling, or "
            "a template where the method has that setting"
        )


def _check_places(config: TrainingConfig) -> None:
    """Raises SettingError for a device that is not there, or a folder that is none."""
    for name in ("base_root", "cache"):
        folder = getattr(config, name, None)
        if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
            raise SettingError(f"{name}: {folder} is a file; give a folder")
    if config.device not in ("auto", "cpu"):
        import torch  # a few seconds, only for whoever names a device; the kernel would say it after as many

        if not (torch.cuda.is_available() if config.device == "cuda" else torch.backends.mps.is_available()):
            raise SettingError(f"device: there is no {config.device} here that torch can use; give 'auto' or 'cpu'")


def execute(notebook: Path, output: Path, parameters: dict[str, Any]) -> None:
    """Executes `notebook` with `parameters` into `output`.

    Raises SettingError for a parameter that the notebook does not declare (papermill would only warn), RunError when a
    cell fails, with the error's own words.
    """
    import papermill
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
                stdout_file=_Told(),  # how far training is
                start_timeout=_START_TIMEOUT,
                # The kernel talks over loopback; its warning that this is not encrypted would open every run's log.
                extra_arguments=["--IPKernelApp.log_level=50"],
            )
        except PapermillException as problem:
            name, value = getattr(problem, "ename", type(problem).__name__), getattr(problem, "evalue", str(problem))
            raise RunError(f"{notebook.name} failed with {name}: {value}\nthe executed notebook: {output}") from None
        except Exception as problem:  # a kernel that died or never started, a full disk, what its sockets say of that
            raise RunError(f"{notebook.name}: the kernel ended: {problem}\nthe executed notebook: {output}") from None


def check_parameters(namespace: dict[str, Any]) -> None:
    """Raises SettingError for a parameter that the running notebook does not declare: `check_parameters(globals())`.

    papermill, called directly, only warns of a name that the notebook's cell of parameters does not assign, and
    `-p sead 3` would train seed 0. It puts what it was given into a cell of its own behind that one, under a comment.
    So this stands in a notebook's first cell of code after the parameters. Without papermill nothing is refused.
    From here on a cell that is run before the one that makes its names says so.
    """
    explain_order()
    cells = list(namespace.get("In", []))
    places = [place for place, source in enumerate(cells) if source.startswith("# Parameters\n")]
    if places:
        known = {name for source in cells[: places[-1]] for name in _assigned(source)}
        for name in _assigned(cells[places[-1]]):
            if known and name not in known:
                raise SettingError(unknown_name("parameter", name, known, "in this notebook"))


def runs_folder(runs_root: str | Path = "../runs") -> str:
    """The whole path of the runs that a notebook's parameter means, wherever its kernel was started.

    "../runs" is seen from the notebook: papermill starts kernels where it was called itself, so of a checkout's own
    notebooks a path that begins with ".." is seen from its folder notebooks/. Any other is seen from where one is.
    """
    path = Path(runs_root).expanduser()
    here = path.resolve()
    notebooks = project_path("notebooks")
    live = "JPY_SESSION_NAME" in os.environ  # a kernel of JupyterLab works in its notebook's own folder
    if live or path.parts[:1] != ("..",) or not (notebooks.parent / "pyproject.toml").is_file():
        return str(here)
    there = (notebooks / path).resolve()
    if here != there and here.is_dir():
        _LOG.warning("runs are those of %s; %s is there too: give a whole path to mean that one", there, here)
    return str(there)


def _assigned(source: str) -> list[str]:
    """The names that a cell of plain assignments sets."""
    return [
        target.id
        for line in ast.parse(source).body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    ]


class _Told:
    """Standard output as papermill writes to it; where its reader has gone, as behind `| head`, the run goes on."""

    def write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            deaf(sys.stdout)
            _LOG.warning("nobody reads the output any more; the run goes on without it")

    def flush(self) -> None:
        """Each write is flushed."""


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
