"""The commands for a class: make, slides, share, board."""

import io
import signal
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from typer import Argument, Option, Typer

import workbench
from workbench.commands.options import Page, Words
from workbench.commands.output import echo, print_table
from workbench.errors import SettingError
from workbench.files import reraise_os_error
from workbench.lessons import collect_pages, find_lesson, make_lesson, room_addresses

class_app = Typer(no_args_is_help=True, help="Give a lesson with the notebooks.")
Audience = Literal["students", "teachers"]
LESSON = ("00_tour", "10_simcse")


@class_app.command("make")
def make_lessons(
    folder: Annotated[Path, Argument(help="Existing notebooks there stay.")],
    lessons: Annotated[Words, Argument(help="By default 00_tour and 10_simcse.")] = None,
    audience: Annotated[
        Audience, Option("--for", help="Students get no solutions and sign their answers.")
    ] = "students",
    nbgrader: Annotated[
        bool, Option("--nbgrader", help="Exercises become cells of nbgrader.")
    ] = False,
    executed: Annotated[bool, Option("--executed", help="Also write executed pages.")] = False,
) -> None:
    """Write the notebooks of a lesson for students or for teachers."""
    from workbench.execution import execute_lesson  # which loads pandas

    is_for_teachers = audience == "teachers"
    with reraise_os_error(folder, "another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for lesson in lessons or LESSON:
            find_lesson(lesson)  # an unknown one is refused before the first is written
        for lesson in lessons or LESSON:
            path = folder / f"{lesson}.ipynb"
            echo(make_lesson(path, for_teachers=is_for_teachers, nbgrader=nbgrader))
            if executed:
                echo(execute_lesson(path))


@class_app.command("slides")
def slides(
    notebooks: Annotated[list[str], Argument(help="Names such as 10_simcse, or files.")],
    to: Annotated[Path, Option(help="The folder.")] = Path(),
    audience: Annotated[
        Audience, Option("--for", help="Those for teachers have the solutions, folded.")
    ] = "students",
    handout: Annotated[bool, Option("--handout", help="Also a handout of two pages each.")] = False,
) -> None:
    """Write slides of notebooks, each as one page that needs no network.

    In a checkout those of a bundled notebook have the figures of its executed copy.
    """
    from workbench.views import write_handout, write_slides

    is_for_teachers = audience == "teachers"
    sources = [_find_notebook(name) for name in notebooks]
    if len({source.stem for source in sources}) < len(sources):
        raise SettingError("two notebooks have one name; rename one, or give --to for each")
    with reraise_os_error(to, "another folder"):
        to.mkdir(parents=True, exist_ok=True)
        for source in sources:
            path = to / f"{source.stem}-slides.html"
            echo(f"written: {write_slides(source, path, for_teachers=is_for_teachers)}")
            if handout:
                echo(f"written: {write_handout(source, to / f'{source.stem}-handout.html')}")


def _find_notebook(name: str) -> Path:
    """Return your own notebook, or the bundled one of this name, executed if such a copy exists."""
    own = Path(name)
    if own.is_file():
        return own
    bundled = find_lesson(name)
    executed = bundled.parent.parent / "docs" / "gallery" / bundled.name
    return executed if executed.is_file() else bundled


@class_app.command("share")
def share(
    pages: Annotated[
        list[Path] | None, Argument(help="Files, or folders of .html and .ipynb.")
    ] = None,
    port: Annotated[int, Option(min=1, max=65535)] = 8000,
) -> None:
    """Serve pages and notebooks to the phones in the room, without the internet, until Ctrl+C.

    Each address is printed with a QR code; it opens an index, with that code for the projector.
    Unless ask.html is given, a page is added in which everyone can rank, and see two encoders rank.
    """
    import segno
    from tornado.ioloop import IOLoop
    from tornado.web import Application, StaticFileHandler

    from workbench.views._style import render
    from workbench.views.export import write_page

    codes = {address: segno.make_qr(address) for address in room_addresses(port)}
    # Copies in a folder of their own: nothing else can be asked for.
    with TemporaryDirectory() as root:
        collect_pages(pages or [], Path(root))
        names = sorted(path.name for path in Path(root).iterdir())
        write_page(Path(root) / ".index.html", render("share.html", codes=codes, names=names))
        try:
            Application(
                [("/(.*)", StaticFileHandler, {"path": root, "default_filename": ".index.html"})]
            ).listen(port)
        except OSError as error:
            raise SettingError(f"port {port}: {error.strerror}; give another --port") from error
        for address, code in codes.items():
            drawing = io.StringIO()
            code.terminal(drawing, compact=True)
            echo(f"{drawing.getvalue()}{address}")
        if not codes:
            echo("This machine is in no network: join one, or open a phone's hotspot.")
        # It is the end that was meant, and no interruption. A closed terminal ends it, too, and the
        # copies go with it; Windows has no signal for that.
        for end in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            signal.signal(end, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            echo("Ctrl+C ends it.")
            IOLoop.current().start()


@class_app.command("board")
def print_board(
    folder: Annotated[Path, Argument(help="Contains a folder for each student.")],
    suite: Annotated[str, Option(help="The suite of the runs.")] = "world-test",
    method: Annotated[str, Option(help="That of the runs; default: the most frequent.")] = "",
    html: Page = None,
) -> None:
    """Print who has answered which exercise, and the runs of a class with the usual settings."""
    board = workbench.views.read_board(folder, suite, method)
    for table in (board.answers, board.runs):
        if len(table):
            print_table(table)
            echo("")
    for exercise, name, answer in board.wrong.to_numpy():
        echo(f"{exercise}, {name}:\n{answer}\n")
    for note in board.notes:
        echo(note)
    if html:
        with reraise_os_error(html, "another file"):
            echo(f"page: {workbench.views.board_page(html, board)}")
