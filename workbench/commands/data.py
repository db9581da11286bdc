"""The commands about data: data list, data check, data split, data pairs."""

import logging
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Exit, Option, Typer

import workbench
from workbench.commands.options import Columns, Words
from workbench.commands.output import echo, print_table
from workbench.printing import LOG

data_app = Typer(no_args_is_help=True, help="List and check datasets, and split your own files.")
Scale = Annotated[
    tuple[float, float] | None, Option(help="Lowest and highest score, as 0 5; by default guessed.")
]
Kind = Literal["sentences", "pairs", "triplets", "labelled"]
Share = Annotated[float, Option(min=0, max=1, help="Share of the queries.")]


@data_app.command("list")
def list_data(kind: Annotated[Kind | None, Option(help="List only this kind.")] = None) -> None:
    """List every dataset with its kind, source and licence."""
    import pandas as pd

    names = workbench.data.dataset_names(kind)
    columns = "name kind title rows scale source licence"
    print_table(pd.DataFrame(map(workbench.data.describe, names))[columns.split()])


@data_app.command("check")
def check_data(
    names: Annotated[Words, Argument(help="Datasets or files; by default every dataset.")] = None,
    columns: Columns = "",
    scale: Scale = None,
) -> None:
    """Read whole datasets and report their problems, and how your own files are read.

    Status "hub": not on this machine. Exit code 1 if a named dataset cannot be used.
    """
    # The report contains what was guessed, which loading would log too.
    LOG.setLevel(logging.WARNING)
    roles = workbench.config.parse_columns(columns)
    table = workbench.data.check(names, columns=roles, scale=scale)
    print_table(table.drop(columns="problem"))
    for problem in filter(None, table["problem"]):
        echo(problem)
    sets = {
        name: workbench.data.load_data(name, columns=roles, scale=scale)
        for name in table.loc[table["status"] == "own file", "name"]
    }
    print_reports(sets)
    # With several files it is not clear which of them is to be trained on.
    if len(sets) == 1:
        options = ["--columns", columns] if columns else []
        if scale:
            options += ["--scale", *map(str, scale)]
        [(name, data)] = sets.items()
        lines = workbench.data.training_commands(name, data, options=shlex.join(options))
        echo("\n" + "\n  ".join(lines))
    if names and workbench.data.unusable(table):
        raise Exit(1)


@data_app.command("split")
def split_data(  # noqa: PLR0917
    file: Annotated[str, Argument(help="A dataset or your own file.")],
    folder: Annotated[Path, Argument(help="Folder for the parts, each a .tsv.gz.")],
    dev: Share = 0.1,
    test: Share = 0.1,
    seed: int = 0,
    columns: Columns = "",
    scale: Scale = None,
) -> None:
    """Split a file by query (first sentence) into train, dev and test."""
    roles = workbench.config.parse_columns(columns)
    data = workbench.data.load_data(file, columns=roles, scale=scale)
    parts = workbench.data.split(data, dev=dev, test=test, seed=seed)
    files = workbench.data.write_split(parts, folder)
    print_reports(dict(zip(files, parts.values(), strict=True)))


@data_app.command("pairs")
def draw_pairs(
    file: Annotated[str, Argument(help="Your own file of sentences.")],
    folder: Annotated[Path, Argument(help="Folder for the pairs, a .tsv.gz.")],
    teacher: Annotated[str, Option(help="Encoder: a bundled name, a folder or a hub id.")],
    seed: int = 0,
    columns: Columns = "",
) -> None:
    """Draw near and distant pairs of unlabelled sentences; the teacher's cosines are the scores."""
    from workbench.teachers import load_teacher, teacher_pairs

    roles = workbench.config.parse_columns(columns)
    sentences = workbench.data.load_sentences(file, columns=roles)
    drawn = teacher_pairs(load_teacher(teacher), sentences, seed=seed)
    (path,) = workbench.data.write_split({"pairs": drawn}, folder)
    print_reports({path: drawn})


def print_reports(sets: dict[Any, Any]) -> None:
    """Print facts about each dataset by name, and a warning of what two of them share."""
    for name, data in sets.items():
        echo("\n  ".join([f"\n{name}", *workbench.data.report(data)]))
    for line in workbench.data.overlaps(sets):
        echo(f"\nwarning: {line}")
