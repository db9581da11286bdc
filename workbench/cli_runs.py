"""The commands about finished and planned runs: runs, show, rm, sweep."""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from workbench.config import CONFIGS, RECORDED
from workbench.errors import RunError, SettingError, printable

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs import Run

Runs = Annotated[str, typer.Option("--runs", help="The folder of runs.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run: its folder, or the beginning of its name.")]
# The name of a run that is not the end of a path.
_RUN = re.compile(rf"(?<![\w./-])(?:(?:{'|'.join(RECORDED)})/)?[0-9a-f]{{8}}-s\d+(?![\w./-])")

runs_app = typer.Typer()


def overrides_of(settings: Sequence[str], runs_root: str = "") -> dict[str, str]:
    """Return texts KEY=VALUE as a dictionary; names of runs under `runs_root` become folders. Raises SettingError."""
    overrides: dict[str, str] = {}
    for text in insert_folders(settings, runs_root) if runs_root else settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or name in overrides:
            problem = "is given twice" if name in overrides else "is not KEY=VALUE, such as temperature=0.07"
            raise SettingError(f"--set {text!r} {problem}")
        overrides[name] = value
    return overrides


def insert_folders(words: Sequence[str], root: str) -> list[str]:
    """Replace names of runs under `root` by their folders, in arguments such as `teachers=simcse/1a2b3c4d-s0`.

    Raises RunError for a name that no run has.
    """
    from workbench.runs import find_run

    return [_RUN.sub(lambda name: str(find_run(name[0], root).path), word) for word in words]


def echo(text: object) -> None:
    """Print a text without control characters, such as a terminal's escape sequences."""
    print(printable(text))


def print_table(table: "pd.DataFrame") -> None:
    """Print a table as aligned text, on a terminal with its cells cut to its width."""
    shown: Any = table.astype(object).where(table.notna(), "")
    width = max(16, shutil.get_terminal_size().columns // table.shape[1]) if sys.stdout.isatty() else None
    echo(shown.to_string(index=False, float_format="{:.2f}".format, max_colwidth=width))


def print_scores(run: "Run") -> None:
    """Print the scores of a finished run, and those of its start."""
    from workbench.runs import metrics_table

    if run.has("before"):
        print("before training:")
        print_table(metrics_table(run.metrics("before")))
        print("after:")
    print_table(metrics_table(run.metrics()))


@runs_app.command("runs")
def print_runs(
    filters: Annotated[list[str] | None, typer.Argument(help="Filters: a method, KEY=VALUE, 'seed<3'.")] = None,
    runs: Runs = "runs",
    sort: Annotated[str, typer.Option(help="A column, suite or setting; with - in front: descending.")] = "",
    columns: Annotated[str, typer.Option(help="Columns, suites or settings, separated by commas.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per run.")] = False,
) -> None:
    """List runs: changed settings, status, scores x 100, start and duration."""
    from workbench.runs import list_runs, split_common_settings

    where = [f"method={word}" if word in CONFIGS else word for word in filters or []]
    wanted = [name.strip() for name in columns.split(",") if name.strip()]
    table: Any = list_runs(runs, where, sort=sort, columns=wanted)
    if as_json:
        echo(json.dumps(json.loads(table.to_json(orient="records")), indent=1, ensure_ascii=False))
    elif table.empty:
        echo(f"No runs under {runs}{' with ' + ' '.join(where) if where else ''}. Start one: workbench run simcse")
    elif wanted:
        print_table(table)
    else:
        readable = table["profile"].notna()  # the settings of a broken run are unknown
        texts = [", ".join(filter(None, both)) for both in table.loc[readable, ["profile", "changed"]].to_numpy()]
        common, table.loc[readable, "changed"] = split_common_settings(texts)
        if common:
            echo(f"all: {common}")
        table["started"] = table["started"].astype("string").str.slice(0, 16)
        print_table(table.drop(columns=["profile", "seed", "digest"]))


@runs_app.command()
def show(name: RunName, runs: Runs = "runs") -> None:
    """Show one run: settings, state, scores, inputs, and the runs that learned from it."""
    from workbench.runs import find_run, needed_by, read_row

    run = find_run(name, runs)
    facts, row = run.facts(), read_row(run.path)
    echo(f"{run.path}: {row['status']}\n  {run.config.method}, profile {run.config.profile}, seed {run.config.seed}")
    facts |= {"changed": row["changed"], "version": facts.get("versions", {}).get("ranking-workbench")}
    for fact in ("changed", "failure", "started", "ended", "seconds", "host", "device", "version", "git_commit"):
        if facts.get(fact):
            echo(f"  {fact:<13} {facts[fact]}")
    for role, used in facts.get("inputs", {}).items():
        echo(f"  input {role:<7} {used['source']}")
    if run.finished:
        print_scores(run)
    for other in needed_by(runs).get(run.path.resolve(), []):
        echo(f"  needed by: {other}")


@runs_app.command("rm")
def remove(
    names: Annotated[list[str], typer.Argument(help="Runs: folders, beginnings of names, or filters as for `runs`.")],
    runs: Runs = "runs",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove runs after asking; never one that another remaining run learned from or evaluated."""
    from workbench.runs import choose_runs, remove_runs

    chosen = choose_runs(names, runs)
    echo("\n".join(str(run.path) for run in chosen))
    if not yes:
        typer.confirm(f"remove {len(chosen)} run(s)?", abort=True)
        if [run.path for run in choose_runs(names, runs)] != [run.path for run in chosen]:
            raise RunError("the list of runs has changed since the question; nothing was removed, ask again")
    remove_runs(chosen, runs)
    print(f"removed {len(chosen)} run(s)")


class _StartByDefault(TyperGroup):
    """Read `workbench sweep WORDS` as `workbench sweep start WORDS`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args if not args or args[0] in (*self.commands, "--help") else ["start", *args])


_HELP = """Run the missing cells (runs) of methods x settings x seeds. The same command continues an interrupted sweep.

workbench sweep simcse cosent --seeds 0-4 learning_rate=3e-4,1e-3 simcse.temperature=0.05,0.07

workbench sweep grid.toml --slurm --partition gpu --gpus 1 --minutes 240
"""
sweep_app = typer.Typer(cls=_StartByDefault, no_args_is_help=True, help=_HELP)
SweepName = Annotated[str, typer.Argument(help="A sweep, or the beginning of its name.")]


@sweep_app.command()
def start(  # noqa: PLR0917
    what: Annotated[list[str], typer.Argument(help="Methods and [METHOD.]KEY=V1,V2; or a .toml or .yaml file.")],
    seeds: Annotated[str, typer.Option(help="Such as 0-4 or 0,2; by default 0.")] = "",
    profile: Annotated[str, typer.Option(help="Profile of every method; by default demo.")] = "",
    jobs: Annotated[int, typer.Option(min=0, help="Cells at a time; by default one per GPU or 1; on Slurm all.")] = 0,
    runs: Runs = "runs",
    name: Annotated[str, typer.Option(help="Name of the sweep; by default made from its contents.")] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Only list the cells.")] = False,
    notebook: Annotated[bool, typer.Option("--notebook/--no-notebook", help="Execute each cell's notebook.")] = True,
    slurm: Annotated[bool, typer.Option("--slurm", help="Submit the cells to a Slurm cluster.")] = False,
    partition: Annotated[str | None, typer.Option(help="Slurm: partition of the jobs.")] = None,
    gpus: Annotated[int, typer.Option(min=0, help="Slurm: GPUs per cell.")] = 0,
    cpus: Annotated[int | None, typer.Option(min=1, help="Slurm: cores per cell.")] = None,
    memory: Annotated[float | None, typer.Option(min=0, help="Slurm: memory per cell, in GB.")] = None,
    minutes: Annotated[int, typer.Option(help="Slurm: time limit of one start of a cell.")] = 60,
    sbatch: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Slurm: any option of sbatch.")] = None,
) -> None:
    """Run the missing cells (`start` may be omitted). Exit code 0 if every cell is finished or submitted."""
    from workbench import sweeps

    if not slurm and (partition or gpus or cpus or memory or sbatch):
        raise SettingError("resources of a cell (--partition, --gpus, --cpus, --memory, --sbatch) need --slurm")
    options: dict[str, Any] = {"seeds": seeds, "profile": profile}
    contents = read_words(insert_folders(what, runs)) | {name: value for name, value in options.items() if value}
    cluster = sweeps.Slurm(partition, gpus, cpus, memory, minutes, overrides_of(sbatch or [])) if slurm else None
    made = sweeps.sweep(**contents, runs_root=runs, name=name, jobs=jobs, dry=plan, slurm=cluster, notebook=notebook)
    if cluster and not plan:
        print(f"their states: workbench sweep status {made.name} --runs {runs}")
        return
    table = made.table()
    print_cells(table)
    if not plan:
        echo(f"{made.folder}: {sweeps.summarize(table)}")
        raise typer.Exit(int({*table["state"]} != {"finished"}))


@sweep_app.command()
def status(name: SweepName = "", runs: Runs = "runs") -> None:
    """List all sweeps, or the cells of one: finished, running, unfinished, waiting, or failed and why."""
    from workbench import sweeps

    chosen = [sweeps.find_sweep(name, runs)] if name else sweeps.list_sweeps(runs)
    if not chosen:
        print(f"No sweeps under {runs}. Start one: workbench sweep simcse --seeds 0-4")
    for each in chosen:
        table = each.table()
        if name:
            print_cells(table)
        echo(f"{each.name}: {sweeps.summarize(table)}")
    if name and (jobs := sweeps.queued(chosen[0])):
        print(f"in Slurm's queue: {', '.join(sorted(jobs))}")


@sweep_app.command()
def cancel(name: SweepName, runs: Runs = "runs") -> None:
    """Remove a sweep's jobs from Slurm; the same `sweep` continues it. (A local sweep ends with Ctrl-C.)"""
    from workbench import sweeps

    print(f"{sweeps.cancel(sweeps.find_sweep(name, runs))} jobs cancelled")


def read_words(words: list[str]) -> dict[str, Any]:
    """Return the contents of a sweep from the name of its file, or from methods, KEY=V1,V2 and METHOD.KEY=V1,V2.

    Values are YAML: suites=[a,b],[a] are two lists.
    """
    import yaml

    from workbench.sweeps import read_sweep_file

    if len(words) == 1 and words[0].endswith((".toml", ".yaml", ".yml")):
        return read_sweep_file(Path(words[0]))
    methods: dict[str, dict[str, Any]] = {word: {} for word in words if "=" not in word}
    grid: dict[str, Any] = {}
    for name, values in overrides_of([word for word in words if "=" in word]).items():
        method, _, key = name.rpartition(".")
        if method and method not in methods:
            raise SettingError(f"{name}: {method} is not among the methods; name it too")
        try:
            methods.get(method, grid)[key] = yaml.safe_load(f"[{values}]")
        except yaml.YAMLError:
            raise SettingError(f"{name}: cannot read {values!r}; put a text with commas in quotes") from None
    return {"methods": methods, "grid": grid}


def print_cells(table: "pd.DataFrame") -> None:
    """Print the state and title of each cell, and why it failed."""
    for row in table.to_dict("records"):
        seconds = f" ({row['seconds']:.0f} s)" if row["seconds"] >= 0 else ""
        echo(f"  {row['state']:<10} {row['cell']}{seconds}")
        if row["failure"]:
            echo(textwrap.indent(f"{row['failure']}\nrun: {row['path']}", " " * 13))
