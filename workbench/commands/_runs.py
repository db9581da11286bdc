"""`workbench runs`, `show`, `rm`."""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.config import CONFIGS
from workbench.errors import RunError, printable

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs import Run

runs_app = typer.Typer()
Runs = Annotated[str, typer.Option("--runs", help="The folder of runs.")]
Names = Annotated[
    list[str], typer.Argument(help="Runs: a folder, or how its name begins; or filters, as of `workbench runs`.")
]
# As the table has them, in whatever is given to a setting; a number is none.
_BEGUN = rf"(?:{'|'.join(CONFIGS)}|base)/[0-9a-f]{{2,7}}"  # with its method the first digits are enough
_NAME = re.compile(rf"(?<![\w./-])(?!\d+\b(?!-s))(?:{_BEGUN}|(\w+/)?[0-9a-f]{{8}}(-s\d+)?)(?![\w./-])")


def with_folders(words: Sequence[str], root: str) -> list[str]:
    """The words of a command with the folder of each run under `root` in the place of its name.

    Raises RunError for a name of none; what is there as a path stays, and so do revisions, which look alike.
    """
    from workbench.runs import find_run

    def folder(found: re.Match[str]) -> str:
        return found[0] if Path(found[0]).exists() else str(find_run(found[0], root).path)

    return [word if "revisions" in word.partition("=")[0] else _NAME.sub(folder, word) for word in words]


@runs_app.command("runs")
def list_them(  # noqa: PLR0917 - typer reads the parameters of a command from its signature
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Filters, all of which hold: method=rankcse 'seed<3' status=failed 'world-test>=45', any "
                            "setting; or the folder of runs."),
    ] = None,
    folder: Annotated[str | None, typer.Option("--runs", help="The folder of runs.")] = None,
    sort: Annotated[str, typer.Option(help="A column, suite or setting; with - in front downwards.")] = "",
    columns: Annotated[str, typer.Option(help="Which, with commas: of the same names.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, a dictionary a run.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
) -> None:  # fmt: skip
    """List the runs: settings changed, status, scores x 100, when and how long."""
    from workbench.runs import is_filter, select_runs

    where = [word for word in words or [] if is_filter(word)]
    named = [word for word in words or [] if not is_filter(word)]
    root = folder if folder is not None else named[0] if named else "runs"
    wanted = [name.strip() for name in columns.split(",") if name.strip()]
    table = select_runs(root, where, sort=sort, columns=wanted)
    if as_json:
        rows = json.loads(table.to_json(orient="records") or "[]")
        print(printable(json.dumps(rows, indent=1, ensure_ascii=False)))
    elif as_csv:
        print(printable(table.to_csv(index=False, lineterminator="\n")), end="")
    elif table.empty:
        print(printable(f"no runs under {root}: {table.attrs['why none']}"))
    else:
        if "started" in table:
            table["started"] = table["started"].str.slice(0, 16).str.replace("T", " ")
        if not wanted:
            table = _in_short(table)
        print(aligned(table, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))


def _in_short(table: "pd.DataFrame") -> "pd.DataFrame":
    """The settings that all have in a line of their own; digest and seed as the name that the other commands take."""
    from workbench.runs import told_apart

    known = table[["profile", "changed"]].fillna("")  # of an unreadable run nothing is
    texts = [", ".join(filter(None, both)) for both in known.to_numpy()]
    common, own = told_apart(list(filter(None, texts)))
    if common:
        print(printable(f"all: {common}"))
    each = iter(own)
    table = table.assign(changed=[next(each) if text else "" for text in texts])
    table.insert(1, "run", [Path(path).name for path in table["path"]])
    return table.drop(columns=["profile", "seed", "digest", *([] if any(own) else ["changed"])])


@runs_app.command()
def show(
    name: Annotated[str, typer.Argument(help="A run: its folder, or how its name begins.")], runs: Runs = "runs"
) -> None:
    """Say all of one run: what was changed, how it went, its scores, what it read, who learned from it."""
    from workbench.runs import failure_of, find_run, needed_by

    run = find_run(name, runs)
    facts = run.facts()
    state = "finished" if run.finished else "failed" if failure_of(run.path) else "unfinished"
    print(printable(f"{run.path}: {state}"))
    for label, value in _told(run, facts).items():
        print(printable(f"  {label:<10} {value}"))
    if run.finished:
        print(metrics_text(run))
    for other, what in needed_by(runs).get(run.path.resolve(), {}).items():
        print(printable(f"  {what}: {other}"))


def metrics_text(run: "Run", stage: str = "") -> str:
    """Return the scores of a run as a table to print."""
    from workbench.runs import metrics_table

    table = metrics_table(run.metrics(stage))
    return printable(table.to_string(index=False, float_format="{:.2f}".format, na_rep=""))


def _told(run: "Run", facts: dict[str, Any]) -> dict[str, Any]:
    from workbench.runs import failure_of

    config = run.config
    known = {
        "method": f"{config.method}, profile {config.profile}, seed {config.seed}",
        "changed": ", ".join(f"{name}={value}" for name, value in config.changed().items()),
        "failed": failure_of(run.path),
        **{name: facts.get(name) for name in ("started", "ended")},
        "seconds": f"{facts['seconds']} with what its process loaded" if "seconds" in facts else None,
        **{name: facts.get(name) for name in ("host", "device", "threads")},
        "kept": _kept(run),
        "starts": len(facts.get("earlier_starts", [])) + 1,
        "code": facts.get("git_commit"),
        "read": ", ".join(f"{role} {found['source']}" for role, found in facts.get("inputs", {}).items()),
        "notebook": run.path / "notebook.ipynb" if (run.path / "notebook.ipynb").exists() else None,
    }
    return {label: value for label, value in known.items() if value not in (None, "")}


def _kept(run: "Run") -> str:
    """Which step dev chose, beside what the start had on it; "" where nothing was chosen so."""
    history = run.history() if (run.path / "history.csv").exists() else None
    if history is None or "dev_spearman" not in history or history["dev_spearman"].iloc[1:].isna().all():
        return ""
    best, start = history.loc[history["dev_spearman"].iloc[1:].idxmax()], history["dev_spearman"].iloc[0]
    return f"step {best['step']:.0f}, dev {100 * best['dev_spearman']:.2f} (before training {100 * start:.2f})"


@runs_app.command("rm")
def remove(
    names: Names,
    runs: Runs = "runs",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove runs for good, once you said yes; never one that a run which stays learned from, or evaluated."""
    from workbench.runs import choose_runs, counted, remove_runs, require_removable

    found = choose_runs(names, runs)
    require_removable(found, runs)
    for run in found:
        print(printable(run.path))
    if not yes:
        if not typer.confirm(f"remove {counted(len(found), 'run')}?"):
            print("kept")
            raise typer.Exit(1)
        if [run.path for run in choose_runs(names, runs)] != [run.path for run in found]:
            raise RunError("these are no longer the runs that you were asked about; nothing was removed: ask again")
    remove_runs(found, runs)
    print(f"removed {counted(len(found), 'run')}")


def aligned(table: "pd.DataFrame", width: int | None) -> str:
    """A table as text. In `width` characters long texts end in … and, where that is not enough, columns at the end go.

    Not rich, which takes seconds for a thousand rows.
    """
    columns = {name: [printable(name), *map(_text, table[name])] for name in table}
    sizes = {name: max(map(len, texts)) for name, texts in columns.items()}
    while width is not None and (over := sum(sizes.values()) + 2 * len(sizes) - 2 - width) > 0:
        widest = max(sizes, key=lambda name: sizes[name])
        if sizes[widest] > 24:
            sizes[widest] = max(24, sizes[widest] - over)
        elif len(sizes) > 1:
            sizes.popitem()
        else:
            break
    left = [name for name in sizes if table.dtypes[name].kind not in "if"]
    lines = [
        "  ".join(
            (_cut(columns[name][row], size).ljust if name in left else _cut(columns[name][row], size).rjust)(size)
            for name, size in sizes.items()
        ).rstrip()
        for row in range(len(table) + 1)
    ]
    gone = [name for name in columns if name not in sizes]
    said = f"no room for {', '.join(gone)}: --columns or a wider terminal" if gone else ""
    return "\n".join([*lines, *textwrap.wrap(said, width or 80, break_on_hyphens=False)])


def _text(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 - nan is not itself
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 1 else f"{value:g}"
    return printable(" ".join(str(value).split()))


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
