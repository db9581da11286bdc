"""The commands for a class: class make, class board."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

import workbench
from workbench.commands.options import Words
from workbench.commands.output import echo, print_table
from workbench.files import reraise_os_error
from workbench.lessons import make_lesson

class_app = Typer(no_args_is_help=True, help="Give a lesson with the notebooks.")
Audience = StrEnum("Audience", ["students", "teachers"])


@class_app.command("make")
def make_lessons(
    folder: Annotated[Path, Argument(help="Existing notebooks there stay.")],
    lessons: Annotated[Words, Argument(help="By default 00_tour and 10_simcse.")] = None,
    audience: Annotated[
        Audience, Option("--for", help="Students get no solutions and sign their answers.")
    ] = Audience.students,
    nbgrader: Annotated[
        bool, Option("--nbgrader", help="Exercises become cells of nbgrader.")
    ] = False,
    executed: Annotated[bool, Option("--executed", help="Also write executed pages.")] = False,
) -> None:
    """Write the notebooks of a lesson for students or for teachers."""
    from workbench.execution import execute_lesson  # which loads pandas

    changes = {"all", str(audience)}
    if nbgrader:
        changes |= {"nbgrader", f"nbgrader-{audience}"}
    with reraise_os_error(folder, "another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for lesson in lessons or ["00_tour", "10_simcse"]:
            path = folder / f"{lesson}.ipynb"
            echo(make_lesson(path, changes))
            if executed:
                echo(execute_lesson(path))


@class_app.command("board")
def print_board(
    folder: Annotated[Path, Argument(help="Contains a folder for each student.")],
    suite: Annotated[str, Option(help="The suite of the runs.")] = "world-test",
    html: Annotated[Path | None, Option(help="Write a page.")] = None,
) -> None:
    """Print who has answered which exercise, and the scores of all runs of a class."""
    with reraise_os_error(folder, "a folder that exists"):
        board = workbench.views.read_board(folder, suite)
    for table in (board.answers, board.runs):
        print_table(table)
        echo("")
    for note in board.notes:
        echo(note)
    if html:
        with reraise_os_error(html, "another file"):
            echo(f"page: {workbench.views.board_page(html, board)}")
