"""The command `sweep`: start, status, cancel."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from typer import Argument, Exit, Option, Typer
from typer.core import TyperGroup

import workbench
from workbench.commands.options import Columns, Notebook, Runs, Words, overrides_of
from workbench.commands.output import echo
from workbench.errors import RunError, SettingError
from workbench.files import Facts, fill_template
from workbench.printing import steady_stdout


class Sweeps(TyperGroup):
    """Run the missing cells (runs) of methods x settings x seeds.

    The same command continues an interrupted sweep.

    workbench sweep simcse cosent --seeds 0-4 learning_rate=3e-4,1e-3 simcse.temperature=0.05,0.07

    workbench sweep grid.toml --slurm --partition gpu --gpus 1 --minutes 240
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read `workbench sweep WORDS` as `workbench sweep start WORDS`."""
        if args and args[0] not in (*self.commands, "--help"):
            args = ["start", *args]
        return super().parse_args(ctx, args)


sweep_app = Typer(cls=Sweeps, no_args_is_help=True, help=Sweeps.__doc__)
SweepName = Annotated[str, Argument(help="A sweep, or the beginning of its name.")]


@sweep_app.command()
@steady_stdout()
def start(  # noqa: PLR0917
    what: Annotated[
        list[str], Argument(help="Methods and [METHOD.]KEY=V1,V2; or a file: .toml, .yaml, .json.")
    ],
    seeds: Annotated[str, Option(help="Such as 0-4 or 0,2; by default 0.")] = "",
    profile: Annotated[str, Option(help="Profile of every method; by default demo.")] = "",
    jobs: Annotated[
        int,
        Option(
            min=0,
            help="Cells at a time, with GPUs at most as many as they take, as by default.",
        ),
    ] = 0,
    columns: Columns = "",
    runs: Runs = "runs",
    name: Annotated[str, Option(help="Name of the sweep; by default made from its contents.")] = "",
    plan: Annotated[bool, Option("--plan", help="Check and list the cells, and run none.")] = False,
    notebook: Notebook = True,
    slurm: Annotated[bool, Option("--slurm", help="Submit the cells to a Slurm cluster.")] = False,
    partition: Annotated[str | None, Option(help="Slurm: partition of the jobs.")] = None,
    gpus: Annotated[int, Option(help="Slurm: GPUs per cell.")] = 0,
    cpus: Annotated[int | None, Option(help="Slurm: cores per cell.")] = None,
    memory: Annotated[float | None, Option(help="Slurm: memory per cell, in GB.")] = None,
    minutes: Annotated[int, Option(min=3, help="Slurm: time limit of one start of a cell.")] = 60,
    sbatch: Annotated[
        Words,
        Option(metavar="NAME=VALUE", help="Slurm: any option of sbatch; a flag is NAME=true."),
    ] = None,
) -> None:
    """Run the missing cells (`start` may be omitted).

    Exit code 0 if every cell is finished or submitted.
    """
    # Without a value in sbatch's own words: --sbatch exclusive=true is its --exclusive.
    options = {name: value == "true" or value for name, value in overrides_of(sbatch or []).items()}
    resources = workbench.sweeps.Slurm(partition, gpus, cpus, memory, minutes, options)
    if not slurm and resources != workbench.sweeps.Slurm():
        raise SettingError(
            "resources of a cell (--partition, --gpus, --cpus, --memory, --minutes, --sbatch) need "
            "--slurm"
        )
    contents = read_words(what, runs, columns)
    # An option replaces the entry of a sweep's file.
    if seeds:
        contents["seeds"] = seeds
    if profile:
        contents["profile"] = profile
    if columns:
        contents["grid"] = contents.get("grid", {}) | {"columns": columns}
    if slurm:
        contents["slurm"] = resources
    made = workbench.sweep(
        **contents, runs_root=runs, name=name, jobs=jobs, dry=plan, notebook=notebook
    )
    states = print_cells(made)
    if not plan and not slurm and states != {"finished"}:
        raise Exit(1)


@sweep_app.command()
def status(name: SweepName = "", runs: Runs = "runs") -> None:
    """List all sweeps, or the cells of one.

    A cell is finished, running, unfinished, waiting, or failed and why.
    """
    if not name:
        lines = [each.summary() for each in workbench.sweeps.list_sweeps(runs)]
        hint = (
            f"No sweeps under {runs}. Start one: workbench sweep simcse --seeds 0-4 "
            f"--runs {quote(runs)}"
        )
        echo("\n".join(lines) or hint)
        return
    chosen = workbench.sweeps.find_sweep(name, runs)
    print_cells(chosen)
    try:
        jobs = workbench.sweeps.queued(chosen)
    except RunError as problem:  # such as on a laptop to which the runs were copied
        echo(f"Slurm's queue is not known here: {problem}")
        return
    if jobs:
        echo(f"in Slurm's queue: {', '.join(sorted(jobs))}")


@sweep_app.command()
def cancel(name: SweepName, runs: Runs = "runs") -> None:
    """Remove a sweep's jobs from Slurm; the same `sweep` continues it.

    (A local sweep ends with Ctrl-C.)
    """
    count = workbench.sweeps.cancel(workbench.sweeps.find_sweep(name, runs))
    echo(f"{count} jobs cancelled")


def read_words(words: list[str], runs_root: str, columns: str = "") -> Facts:
    """Return the contents of a sweep from its file, or from methods and [METHOD.]KEY=V1,V2.

    Values are separated as in YAML and read as by `workbench run`: suites=[a,b],[a] are two lists.
    """
    import yaml

    # A file describes the whole sweep; more words next to it are read as methods and refused.
    if len(words) == 1 and words[0].endswith(workbench.sweeps.SWEEP_FILES):
        return workbench.sweeps.read_sweep_file(Path(words[0]))
    settings = [word for word in words if "=" in word]
    grids = {word: {} for word in words if word not in settings}
    grids[""] = {}  # the settings of every method: nothing is in front of their dot
    for name, values in overrides_of(settings, runs_root, columns).items():
        method, _, key = name.rpartition(".")
        try:
            grids[method][key] = workbench.sweeps.load_yaml(
                # One choice of columns has commas itself.
                f"- {values}" if key == "columns" else f"[{values}]"
            )
        except (KeyError, yaml.YAMLError):
            raise SettingError(
                f"{name}={values} cannot be read; what is in front of the dot must be "
                "among the methods; put a text with commas in quotes"
            ) from None
    return {"grid": grids.pop(""), "methods": grids}


def print_cells(sweep: Any) -> set[str]:
    """Print each cell, why it failed, and the sweep's folder; return the states of the cells."""
    table = sweep.table()
    # The seconds are nan until a cell has ended.
    echo(fill_template("commands/cells.txt", rows=table.to_dict("records"), sweep=sweep))
    return {*table["state"]}
