"""The `workbench` command."""

import io
import logging
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from workbench.commands.compare import compare_app
from workbench.commands.data import data_app
from workbench.commands.lessons import class_app
from workbench.commands.notebooks import notebooks_app
from workbench.commands.output import echo
from workbench.commands.runs import runs_app
from workbench.commands.sweeps import sweep_app
from workbench.commands.training import training_app
from workbench.errors import SettingError, WorkbenchError
from workbench.files import PACKAGE
from workbench.printing import LOG, LineFormatter, SteadyStream

# What to install -> the modules that it brings.
_EXTRAS = {
    '"ranking-workbench[train]"': "datasets huggingface_hub jaxtyping joblib pyarrow "
    "safetensors sklearn tokenizers torch transformers",
    '"ranking-workbench[train,lab]"': "jupyterlab latex2mathml nbconvert nbformat papermill "
    "psutil segno tornado",
    '"ranking-workbench[train,slurm]"': "submitit",
}
app = Typer(no_args_is_help=True, pretty_exceptions_enable=False)
# In the order of --help.
app.add_typer(training_app)
app.add_typer(notebooks_app)
app.add_typer(class_app, name="class")
app.add_typer(compare_app)
app.add_typer(data_app, name="data")
app.add_typer(sweep_app, name="sweep")
app.add_typer(runs_app)


@app.callback(help=__doc__, invoke_without_command=True)
def _options(
    version: Annotated[bool, Option("--version", help="Print version and path.")] = False,
) -> None:
    if version:
        ours = metadata.version("ranking-workbench")
        python = sys.version.split()[0]
        echo(f"ranking-workbench {ours}, Python {python}, {PACKAGE}")


def main() -> None:
    """Run the command; exit code 2: input refused, 1: a run failed, 75: a run is busy elsewhere."""
    sys.stdout = sys.stdout or io.StringIO()  # closed by >&-
    sys.stderr = sys.stderr and SteadyStream(sys.stderr)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file on Windows may lack ✓ or a Greek letter
        sys.stdout.reconfigure(errors="backslashreplace")
    logging.basicConfig(level=logging.WARNING)
    logging.root.handlers[0].setFormatter(LineFormatter())
    # Our messages are part of the output; those of libraries are not.
    LOG.setLevel(logging.INFO)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs each retry twice
    code = 2
    try:
        for name in (str(Path.cwd()), *sys.argv):
            # A run records names as UTF-8; other bytes of a path would fail after training.
            if name != name.encode(errors="replace").decode():
                raise SettingError(f"{name}: not UTF-8; rename the file or folder")
        app()
    except WorkbenchError as error:
        problem = str(error)
        code = error.exit_code
    except ModuleNotFoundError as error:
        extras = (extra for extra, modules in _EXTRAS.items() if error.name in modules.split())
        problem = f"{error}; install it with: pip install {next(extras, error.name)}"
    except OSError as error:
        place = error.filename or "the output or the current folder"
        problem = (
            f"{place}: {error.strerror or error}; give a path that can be read and written, "
            "or free some space"
        )
    echo(f"error: {problem}", err=True)
    sys.exit(code)
