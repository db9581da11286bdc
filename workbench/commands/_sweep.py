"""`workbench sweep`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from workbench.commands._runs import Runs, with_folders
from workbench.errors import SettingError, printable

_FILES = (".toml", ".yaml", ".yml")
_HELP = """Many runs: methods x settings x seeds, those alone that are missing.

workbench sweep simcse cosent --seeds 0-4 learning_rate=3e-4,1e-3 simcse.temperature=0.05,0.07

workbench sweep grid.toml --jobs 2

workbench sweep grid.toml --slurm --partition gpu --gpus 1 --minutes 240

Started again it goes on, after Ctrl-C or a kill too.
"""


class _StartsByDefault(TyperGroup):
    """`workbench sweep WORDS` is `workbench sweep start WORDS`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["start", *args]
        return super().parse_args(ctx, args)


sweep_app = typer.Typer(cls=_StartsByDefault, no_args_is_help=True, help=_HELP)


@sweep_app.command()
def start(  # noqa: PLR0917 - typer reads the parameters of a command from its signature
    what: Annotated[
        list[str],
        typer.Argument(help="Methods, KEY=V1,V2 or METHOD.KEY=V1,V2; or one .toml or .yaml file that says all of it."),
    ],
    seeds: Annotated[str, typer.Option(help="Such as 0-4 or 0,2; without it what the file says, else 0.")] = "",
    profile: Annotated[str, typer.Option(help="Of every method; without it what the file says, else demo.")] = "",
    jobs: Annotated[
        int,
        typer.Option(min=0, help="Cells at a time, which share cores or GPUs; 0: one a GPU, else one; Slurm: all."),
    ] = 0,
    runs: Runs = "runs",
    name: Annotated[str, typer.Option(help="Of the sweep; without it one is made from what it holds.")] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Only say what there is to run, and how long it takes.")] = False,
    slurm: Annotated[bool, typer.Option("--slurm", help="Put the cells into a Slurm cluster's queue.")] = False,
    partition: Annotated[str, typer.Option(help="Slurm: of a cell.")] = "",
    gpus: Annotated[int, typer.Option(min=0, help="Slurm: of a cell.")] = 0,
    cpus: Annotated[int, typer.Option(min=0, help="Slurm: of a cell.")] = 0,
    memory: Annotated[float, typer.Option(min=0, help="Slurm: of a cell, in GB.")] = 0,
    minutes: Annotated[int, typer.Option(min=0, help="Slurm: of one start of a cell, which then goes on; 60.")] = 0,
    sbatch: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Slurm: any other of sbatch's long options.")
    ] = None,
) -> None:
    """Run what is missing (`start` may be left out). Exit code 0 only when every cell is finished, or in the queue."""
    from workbench import sweeps

    spec = sweeps.read_spec(**_said(with_folders(what, runs)) | _given(seeds=seeds, profile=profile))
    given = _given(partition=partition, gpus=gpus, cpus=cpus, memory=memory, minutes=minutes, options=_options(sbatch))
    if given and not slurm:
        raise SettingError(f"{', '.join(given)}: of a cell on Slurm; give --slurm too")
    asked = sweeps.Slurm(**given) if slurm else None
    found = sweeps.sweep(**dict(spec), runs_root=runs, name=name, jobs=jobs, dry=plan, slurm=asked)
    if plan:
        states = found.table()[["cell", "state"]].to_numpy().tolist()
        print(*(printable(f"  {state:<10} {title}") for title, state in states), sep="\n")
        if any(state != "finished" for _, state in states):
            print(f"without --plan this starts them; their states: workbench sweep status {found.name} --runs {runs}")
    elif slurm:
        print(f"what becomes of them: workbench sweep status {found.name} --runs {runs}")
    elif _tell(found):
        raise typer.Exit(1)


@sweep_app.command()
def status(
    name: Annotated[str, typer.Argument(help="Of a sweep, or how it begins; none: all of them.")] = "",
    runs: Runs = "runs",
) -> None:
    """Say which cells of a sweep are finished, running (and how far), failed (and why)."""
    from workbench import sweeps
    from workbench.runs import counted

    chosen = [sweeps.find_sweep(name, runs)] if name else sweeps.list_sweeps(runs)
    if not chosen:
        print(f"no sweeps under {runs}; start one with: workbench sweep simcse --seeds 0-4")
    for found in chosen:
        table = found.table()
        touched = name or found.begun or any(table["state"] != "waiting")  # its runs may be those of another
        planned = "" if touched else f"; only planned: remove {found.folder} to forget it"
        print(printable(f"{found.name}: {found.counts(table)}{planned}"))
        if name:
            for cell, state, seconds in zip(found.cells, table["state"], table["seconds"], strict=True):
                at = sweeps.tail(found.log(cell)) if state == "running" else ""
                told = f" ({seconds:.0f} s)" if seconds >= 0 else at and f": {at}"  # nan of what no sweep ran
                print(printable(f"  {state:<10} {cell.title}{told}"))
            _tell(found)
            if there := sweeps.queued(found):
                jobs = dict.fromkeys(job.partition("_")[0] for job in there)
                print(f"{counted(len(there), 'cell')} in Slurm's queue, waiting or running: jobs {', '.join(jobs)}")


@sweep_app.command()
def cancel(name: Annotated[str, typer.Argument(help="Of a sweep, or how it begins.")], runs: Runs = "runs") -> None:
    """Take a sweep out of Slurm's queue, what runs of it too; started again it goes on. Here it ends with Ctrl-C."""
    from workbench import sweeps
    from workbench.runs import counted

    found = sweeps.find_sweep(name, runs)
    print(f"{found.name}: {counted(sweeps.cancel(found), 'cell')} taken out of Slurm's queue")


def _said(what: list[str]) -> dict[str, Any]:
    """A sweep's values from the words of a command."""
    from workbench import sweeps

    if any(word.endswith(_FILES) and "=" not in word for word in what):
        if len(what) > 1:
            raise SettingError(f"a sweep's file says all of it: give {what[0]} alone, or methods and KEY=V1,V2")
        return sweeps.read_spec_file(Path(what[0]))
    shared, own = sweeps.typed_grid(word for word in what if "=" in word)
    methods = {word: own.pop(word, {}) for word in what if "=" not in word}
    if own:
        raise SettingError(f"{', '.join(own)} has a grid of its own and is no method of this sweep: name it too")
    return {"methods": methods, "grid": shared}


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value}


def _options(sbatch: list[str] | None) -> dict[str, str]:
    parts = {text: text.removeprefix("--").partition("=") for text in sbatch or []}
    if wrong := [text for text, (name, equals, _) in parts.items() if not (name and equals)]:
        raise SettingError(f"--sbatch {wrong[0]}: give NAME=VALUE, for example --sbatch account=mine")
    return {name: value for name, _, value in parts.values()}


def _tell(found: Any) -> int:
    """Prints how a sweep ended and every failure; returns how many cells are not finished."""
    table = found.table()
    for row in table.loc[table["state"] == "failed"].to_dict("records"):
        print(printable(f"\nfailed: {row['cell']}\n  {row['failure']}\n  run: {row['path']}"))
    print(printable(f"\n{found.folder}: {found.counts(table)}"))
    return int((table["state"] != "finished").sum())
