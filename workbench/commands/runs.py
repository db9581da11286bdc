"""The commands about finished runs: runs, show, power, rm, export, push."""

import json
from shlex import quote
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option, Typer

import workbench
from workbench.commands.options import RunName, Runs, Words
from workbench.commands.output import echo, print_scores, print_table, warn_of
from workbench.config import RUN_CONFIGS, read_value
from workbench.errors import RunError
from workbench.files import fill_template

runs_app = Typer()
# Of other tools; `systems` has a function `write_FORMAT` for each.
Format = Literal["mteb", "trec"]


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
    """List runs: changed settings, status, scores x 100, start, seconds of the last start.

    `start` is the score before training, on the average of the seven sets or on the first suite of
    the run.
    """
    where = [f"method={word}" if word in RUN_CONFIGS else word for word in filters or []]
    wanted = read_value(columns, list)
    table: Any = workbench.list_runs(runs, where, sort=sort, columns=wanted)
    if as_json:
        records = json.loads(table.to_json(orient="records"))
        echo(json.dumps(records, indent=1))
    elif table.empty:
        hint = f"No runs under {runs}. Start one: workbench run simcse --runs {quote(runs)}"
        echo(f"No such runs under {runs}." if where else hint)
    elif wanted:
        print_table(table)
    else:
        # Settings that all runs share are printed once; those of a broken run are unknown.
        known = table[["profile", "changed"]].dropna().astype(str)
        texts = (known["profile"] + ", " + known["changed"]).str.removesuffix(", ")
        common, table.loc[texts.index, "changed"] = workbench.runs.split_common_settings(texts)
        if common:
            echo(f"all: {common}")
        print_table(table.drop(columns=["profile", "seed", "digest"]))


@runs_app.command()
def show(name: RunName, runs: Runs = "runs") -> None:
    """Show one run: settings, state, scores, inputs, and the runs that learned from it."""
    run = workbench.runs.find_run(name, runs)
    recorded = run.facts()
    facts = recorded | workbench.runs.read_row(run.path)
    for role, used in recorded.get("inputs", {}).items():
        facts[f"input {role}"] = used["source"]
    facts["version"] = recorded.get("versions", {}).get("ranking-workbench")
    dependents = workbench.runs.needed_by(runs)
    facts["needed by"] = ", ".join(map(str, dependents.get(run.path.resolve(), [])))
    for fact, value in facts.items():
        # No list or dictionary.
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
) -> None:
    """Print the smallest detectable difference of a suite by numbers of pairs and seeds.

    A difference is one of Spearman (or accuracy) x 100. It is computed from finished runs: two
    seeds or more of two settings, or of one, which is compared with its start.
    """
    compared = workbench.views.compare_runs(
        workbench.views.finished_runs(runs, suite), suite, baseline
    )
    rows = compared.table.dropna(subset="difference")
    if rows.empty:
        raise RunError(
            f"no finished runs to compare on {suite} under {runs} (equal scores, of one seed too, "
            "have no Spearman); make some, with its sets in suites=: workbench sweep simcse "
            f"--seeds 0-2 --runs {quote(runs)}"
        )
    for row in rows.to_dict("records"):
        echo(fill_template("commands/power.txt", row=row, baseline=compared.baseline))
        if row["paired_seeds"] >= 2:
            print_table((100 * workbench.views.smallest_differences(row)).reset_index())


@runs_app.command("rm")
def remove(
    names: Annotated[
        list[str],
        Argument(help="Folders or beginnings of names, or filters such as method=simcse."),
    ],
    runs: Runs = "runs",
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove runs after asking; never one that another remaining run learned from or evaluated."""
    chosen = workbench.runs.choose_runs(names, runs)
    paths = [run.path for run in chosen]
    echo("\n".join(map(str, paths)))
    if not yes:
        typer.confirm(f"remove {len(chosen)} run(s)?", abort=True)
        # A run may have begun, or finished, while the question waited for its answer.
        again = workbench.runs.choose_runs(names, runs)
        if [run.path for run in again] != paths:
            raise RunError(
                "the list of runs has changed since the question; nothing was removed, ask again"
            )
    workbench.runs.remove_runs(chosen, runs)
    echo(f"removed {len(chosen)} run(s)")


@runs_app.command()
def export(
    name: RunName,
    folder: Annotated[str, Argument(help="Where to write; created if it is missing.")],
    to: Annotated[Format, Option(help="The format.")],
    runs: Runs = "runs",
) -> None:
    """Write the scores of a finished run in the format of another tool."""
    write = getattr(workbench.systems, f"write_{to}")
    for path in write(workbench.runs.find_run(name, runs), folder):
        echo(f"written: {path}")


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
