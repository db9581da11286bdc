"""The commands about finished and planned runs: runs, show, rm, push, sweep."""

import json
import math
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Exit, Option, Typer
from typer.core import TyperGroup

import workbench
from workbench.config import CONFIGS, RUN_CONFIGS, unique_keys
from workbench.errors import RunError, SettingError
from workbench.files import reraise_os_error
from workbench.printing import printable, steady_stdout

Words = list[str] | None
Runs = Annotated[str, Option("--runs", help="The folder of runs.")]
Settings = Annotated[Words, Option("--set", metavar="KEY=VALUE", help="Change a setting.")]
RunName = Annotated[
    str, Argument(metavar="RUN", help="A run: its folder, or the beginning of its name.")
]
Notebook = Annotated[
    bool, Option("--notebook/--no-notebook", help="Execute the method's notebook.")
]
# The name of a run that is not the end of a path.
_RUN = re.compile(rf"(?<![\w./-])(?:(?:{'|'.join(RUN_CONFIGS)})/)?[0-9a-f]{{8}}-s\d+(?![\w./-])")
runs_app = Typer()


def echo(text: object, *, err: bool = False) -> None:
    """Print a text without control characters."""
    typer.echo(printable(text), err=err)


def overrides_of(settings: Sequence[str], runs_root: str = "runs") -> dict[str, str]:
    """Return texts KEY=VALUE as a dictionary; names of runs under `runs_root` become their folders.

    Raises SettingError for a text of another form, and RunError for a run that does not exist.
    """
    pairs = []
    for text in settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise SettingError(f"{text!r} is not KEY=VALUE, such as temperature=0.07")
        pairs.append(
            (
                name,
                _RUN.sub(lambda run: str(workbench.runs.find_run(run[0], runs_root).path), value),
            )
        )
    return unique_keys(pairs)


def print_table(table: Any) -> None:
    """Print a table as aligned text, on a terminal with its cells cut to its width."""
    width = (
        max(16, shutil.get_terminal_size().columns // table.shape[1])
        if sys.stdout.isatty()
        else None
    )
    shown = table.astype(object).where(table.notna(), "")
    echo(shown.to_string(index=False, float_format="{:.2f}".format, max_colwidth=width))
    if caption := table.attrs.get("caption"):
        echo(caption)


def print_scores(run: Any) -> None:
    """Print the scores of a run: those of its start, if it was trained, and those of its end, if it
    is finished."""
    for stage, title in (
        ("before", "before training:"),
        ("", "after:" if run.has("before") else "scores:"),
    ):
        if run.has(stage):
            echo(title)
            print_table(workbench.metrics.metrics_table(run.metrics(stage)))


def warn_of(folder: Path) -> str:
    """Return and print a warning if the encoder of a run, in its folder or `encoder/`, did not
    gain."""
    path = folder.parent if folder.name == "encoder" else folder
    if not (workbench.runs.is_finished(path) and (path / "encoder").is_dir()):
        return ""
    read_or_warn = workbench.views.read_or_warn
    warning = read_or_warn(path, workbench.views.warning_of) or ""
    if read_or_warn(path, workbench.views.finished.is_its_start):
        warning = "its start: no step of its training was better on dev"
    if warning:
        echo(f"warning: {path} is {warning}", err=True)
    return warning


@runs_app.command("runs")
def print_runs(
    filters: Annotated[Words, Argument(help="Filters: a method, KEY=VALUE, 'seed<3'.")] = None,
    runs: Runs = "runs",
    sort: Annotated[
        str, Option(help="A column, suite or setting; with - in front: descending.")
    ] = "",
    columns: Annotated[
        str,
        Option(
            help="Columns, suites, SUITE:start, SUITE:kcc, SUITE:ndcg or settings, with commas."
        ),
    ] = "",
    as_json: Annotated[bool, Option("--json", help="Print JSON, one object per run.")] = False,
) -> None:
    """List runs: changed settings, status, scores x 100, when they began and how long they took.

    `start` is the score before training, on the average of the seven sets or on the first suite of
    the run."""
    where = [f"method={word}" if word in CONFIGS else word for word in filters or []]
    wanted = [name.strip() for name in columns.split(",") if name.strip()]
    table: Any = workbench.list_runs(runs, where, sort=sort, columns=wanted)
    if as_json:
        echo(json.dumps(json.loads(table.to_json(orient="records")), indent=1, ensure_ascii=False))
    elif table.empty:
        echo(f"No {'such ' if where else ''}runs under {runs}. Start one: workbench run simcse")
    elif wanted:
        print_table(table)
    else:
        readable = table["profile"].notna()  # the settings of a broken run are unknown
        texts = [
            ", ".join(filter(None, both))
            for both in table.loc[readable, ["profile", "changed"]].to_numpy()
        ]
        common, table.loc[readable, "changed"] = workbench.runs.split_common_settings(texts)
        if common:
            echo(f"all: {common}")
        table["started"] = table["started"].astype("string").str.slice(0, 16)
        print_table(table.drop(columns=["profile", "seed", "digest"]))


@runs_app.command()
def show(name: RunName, runs: Runs = "runs") -> None:
    """Show one run: settings, state, scores, inputs, and the runs that learned from it."""
    run = workbench.runs.find_run(name, runs)
    facts = run.facts() | workbench.runs.read_row(run.path)
    for role, used in facts.get("inputs", {}).items():
        facts[f"input {role}"] = used["source"]
    facts["given"] = ", ".join(facts.get("given", []))  # also those that equal their default
    facts["version"] = facts.get("versions", {}).get("ranking-workbench")
    facts["needed by"] = ", ".join(
        map(str, workbench.runs.needed_by(runs).get(run.path.resolve(), []))
    )
    for fact, value in facts.items():
        if isinstance(value, str | int | float) and value != "":
            echo(f"{fact:<13} {value}")
    print_scores(run)


@runs_app.command("power")
def print_power(
    suite: Annotated[str, Argument(help="A suite of finished runs.")],
    runs: Runs = "runs",
    baseline: Annotated[
        str, Option(help="A label of runs, or before; by default SimCSE or the first.")
    ] = "",
    difference: Annotated[
        float, Option(help="Also print what a difference x 100 of this size takes.")
    ] = 0,
    html: Annotated[Path | None, Option(help="Also write the curve as a page.")] = None,
) -> None:
    """Print the smallest difference of Spearman (or accuracy) x 100 that a suite can show by pairs
    and seeds.

    It is computed from finished runs: two seeds or more of two settings, or of one, which is
    compared with its start."""
    if not 0 <= difference <= 200:
        raise SettingError(
            f"--difference {difference}: expected a number of points, above 0 and at most 200"
        )
    finished = workbench.views.finished_runs(runs, suite)
    table: Any = workbench.views.smallest_differences(finished, suite, baseline)
    if table.empty:
        raise RunError(
            f"no finished runs to compare on {suite} under {runs}; make some: workbench "
            "sweep simcse --seeds 0-2"
        )
    for (label, against), group in table.groupby(["label", "against"], sort=False):
        # Of all pairs.
        seed_std, pairs_std, pairs = group[["seed_std", "pairs_std", "pairs"]].iloc[len(group) // 2]
        if math.isnan(seed_std):
            echo(
                f"{label} against {against}: one seed says nothing about other seeds; "
                "train a second"
            )
            continue
        trained = (finished["label"] == label).sum()
        echo(
            f"{label} against {against}: standard deviation over {trained} seeds "
            f"{100 * seed_std:.2f}, over pairs "
            f"{100 * pairs_std:.2f}; smallest difference x 100 that is shown with "
            "probability 0.8 at level 0.05, by "
            "pairs (rows) and seeds:"
        )
        print_table(
            (100 * group.pivot(index="pairs", columns="seeds", values="smallest")).reset_index()
        )
        if difference:
            needed = _needed(difference / 100, seed_std, pairs_std, int(pairs))
            echo(f"a difference of {difference:g} x 100 is shown by {needed}")
    if html:
        with reraise_os_error(html, "another --html FILE"):
            workbench.views.power_curve(table).write_html(html)


def _needed(difference: float, seed_std: float, pairs_std: float, pairs: int) -> str:
    """Say how many seeds a difference takes on these pairs, or how many pairs with 10 seeds."""
    if seeds := workbench.metrics.needed_seeds(difference, seed_std, pairs_std, most=100):
        return f"{seeds} seeds on {pairs} pairs"
    more = (
        workbench.metrics.needed_pairs(difference, seed_std, pairs_std, pairs, seeds=10)
        or "no number of"
    )
    return f"{more} pairs with 10 seeds; 100 seeds on {pairs} pairs are not enough"


@runs_app.command("rm")
def remove(
    names: Annotated[
        list[str], Argument(help="Runs: folders, beginnings of names, or filters as for `runs`.")
    ],
    runs: Runs = "runs",
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove runs after asking; never one that another remaining run learned from or evaluated."""
    chosen = workbench.runs.choose_runs(names, runs)
    echo("\n".join(str(run.path) for run in chosen))
    if not yes:
        typer.confirm(f"remove {len(chosen)} run(s)?", abort=True)
        if [run.path for run in workbench.runs.choose_runs(names, runs)] != [
            run.path for run in chosen
        ]:
            raise RunError(
                "the list of runs has changed since the question; nothing was removed, ask again"
            )
    workbench.runs.remove_runs(chosen, runs)
    echo(f"removed {len(chosen)} run(s)")


@runs_app.command()
def push(
    name: RunName,
    repo_id: Annotated[
        str, Argument(metavar="OWNER/NAME", help="A repository; created if it is missing.")
    ],
    private: Annotated[bool, Option("--private")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print card and files; send nothing.")
    ] = False,
    license_: Annotated[str, Option("--license", help="As the hub names it, such as mit.")] = "",
    *,
    runs: Runs = "runs",
) -> None:
    """Publish a run's encoder on the Hugging Face hub, with a card of its scores."""
    run = workbench.runs.find_run(name, runs)
    warning = warn_of(run.path)
    note = f"This encoder is {warning}." if warning else ""
    files = workbench.encoder.push_run(
        run, repo_id, private=private, dry_run=dry_run, license=license_, note=note
    )
    echo(files.card)
    echo(f"{'would send' if dry_run else 'sent'} to {repo_id}, in bytes:")
    for file, size in files.items():
        echo(f"{size:>15,} {file}")
    for file in files.left_out:
        echo(f"left out, not written by save: {file}")


class Sweeps(TyperGroup):
    """Run the missing cells (runs) of methods x settings x seeds. The same command continues an
    interrupted sweep.

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
        int, Option(min=0, help="Cells at a time; by default one per GPU or 1; on Slurm all.")
    ] = 0,
    runs: Runs = "runs",
    name: Annotated[str, Option(help="Name of the sweep; by default made from its contents.")] = "",
    plan: Annotated[bool, Option("--plan", help="Only list the cells.")] = False,
    notebook: Notebook = True,
    slurm: Annotated[bool, Option("--slurm", help="Submit the cells to a Slurm cluster.")] = False,
    partition: Annotated[str | None, Option(help="Slurm: partition of the jobs.")] = None,
    gpus: Annotated[int, Option(help="Slurm: GPUs per cell.")] = 0,
    cpus: Annotated[int | None, Option(help="Slurm: cores per cell.")] = None,
    memory: Annotated[float | None, Option(help="Slurm: memory per cell, in GB.")] = None,
    minutes: Annotated[int, Option(min=3, help="Slurm: time limit of one start of a cell.")] = 60,
    sbatch: Annotated[
        Words, Option(metavar="NAME=VALUE", help="Slurm: any option of sbatch.")
    ] = None,
) -> None:
    """Run the missing cells (`start` may be omitted). Exit code 0 if every cell is finished or
    submitted."""
    if not slurm and (partition or gpus or cpus or memory or sbatch):
        raise SettingError(
            "resources of a cell (--partition, --gpus, --cpus, --memory, --sbatch) need --slurm"
        )
    contents = read_words(what, runs)
    if seeds:
        contents["seeds"] = seeds
    if profile:
        contents["profile"] = profile
    if slurm:
        options = overrides_of(sbatch or [])
        contents["slurm"] = workbench.sweeps.Slurm(partition, gpus, cpus, memory, minutes, options)
    made = workbench.sweep(
        **contents, runs_root=runs, name=name, jobs=jobs, dry=plan, notebook=notebook
    )
    states = print_cells(made)
    if not plan and not slurm and states != {"finished"}:
        raise Exit(1)


@sweep_app.command()
def status(name: SweepName = "", runs: Runs = "runs") -> None:
    """List all sweeps, or the cells of one: finished, running, unfinished, waiting, or failed and
    why."""
    if not name:
        lines = [each.summary() for each in workbench.sweeps.list_sweeps(runs)]
        echo(
            "\n".join(lines)
            or f"No sweeps under {runs}. Start one: workbench sweep simcse --seeds 0-4"
        )
    else:
        chosen = workbench.sweeps.find_sweep(name, runs)
        print_cells(chosen)
        if jobs := workbench.sweeps.queued(chosen):
            echo(f"in Slurm's queue: {', '.join(sorted(jobs))}")


@sweep_app.command()
def cancel(name: SweepName, runs: Runs = "runs") -> None:
    """Remove a sweep's jobs from Slurm; the same `sweep` continues it. (A local sweep ends with
    Ctrl-C.)"""
    echo(f"{workbench.sweeps.cancel(workbench.sweeps.find_sweep(name, runs))} jobs cancelled")


def read_words(words: list[str], runs_root: str) -> dict[str, Any]:
    """Return the contents of a sweep from the name of its file, or from methods, KEY=V1,V2 and
    METHOD.KEY=V1,V2.

    Values are separated as in YAML and read as by `workbench run`: suites=[a,b],[a] are two lists.
    """
    import yaml

    if len(words) == 1 and words[0].endswith(workbench.sweeps.SWEEP_FILES):
        return workbench.sweeps.read_sweep_file(Path(words[0]))
    grids = {word: {} for word in ["", *words] if "=" not in word}
    for name, values in overrides_of([word for word in words if "=" in word], runs_root).items():
        method, _, key = name.rpartition(".")
        try:
            grids[method][key] = workbench.sweeps.load_yaml(f"[{values}]")
        except (KeyError, yaml.YAMLError):
            raise SettingError(
                f"{name}={values} cannot be read; add METHOD to the methods; put a text "
                "with commas in quotes"
            ) from None
    return {"grid": grids.pop(""), "methods": grids}


def print_cells(sweep: Any) -> set[str]:
    """Print the state and title of each cell, and why it failed, and the folder of the sweep;
    return the states."""
    rows = sweep.table().to_dict("records")
    for row in rows:
        seconds = f" ({row['seconds']:.0f} s)" if row["seconds"] >= 0 else ""
        failure = f"\n    {row['failure']}\n    run: {row['path']}" if row["failure"] else ""
        echo(f"  {row['state']:<10} {row['cell']}{seconds}{failure}")
    echo(f"{sweep.summary()}, in {sweep.folder}")
    return {row["state"] for row in rows}
