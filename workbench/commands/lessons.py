"""The commands for a class: share, slides."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Argument, Typer

from workbench.commands.output import echo
from workbench.errors import SettingError

class_app = Typer(help="Slides, handouts and pages for a class.")


@class_app.command()
def share(
    pages: Annotated[list[Path] | None, Argument(help="Files, or folders of files *.html.")] = None,
    port: int = 8000,
) -> None:
    """Serve pages to the phones in the room, without the internet, until Ctrl+C.

    Each address is printed with a QR code; it opens an index, with that code for the projector. The
    page that ranks what is typed, by english-encoder and word overlap, is among the pages unless
    one of them is ask.html.
    """
    import psutil
    import segno
    from tornado.ioloop import IOLoop
    from tornado.web import Application, StaticFileHandler

    from workbench.views import Ask
    from workbench.views._style import read_part, render
    from workbench.views.export import write_page

    # Of copies in a folder of their own: nothing else can be asked for, and no folder is listed.
    with TemporaryDirectory() as root:
        folder = Path(root)
        for page in pages or []:
            for file in page.glob("*.html") if page.is_dir() else [page]:
                # Two pages of one name are refused.
                with (folder / file.name).open("xb") as copy:
                    copy.write(file.read_bytes())
        ask = folder / "ask.html"
        if not ask.exists():
            query, *targets = read_part("question.txt").splitlines()
            Ask(["english-encoder", "word-overlap"], query, targets).to_html(ask, encoder=True)
        values = {"folder": folder, "port": port, "psutil": psutil, "segno": segno}
        write_page(folder / "index.html", render("share.html", **values))
        try:
            Application(
                [("/(.*)", StaticFileHandler, {"path": root, "default_filename": "index.html"})]
            ).listen(port)
        except OSError as error:
            raise SettingError(f"port {port}: {error.strerror}; give another --port") from error
        echo(render("share.txt", **values))
        IOLoop.current().start()


@class_app.command()
def slides(notebooks: list[Path], to: Path = Path(), handout: bool = False) -> None:
    """Write slides of notebooks into a folder, and with --handout two pages to be printed, too."""
    from workbench.views import write_handout, write_slides

    for notebook in notebooks:
        echo(write_slides(notebook, to / f"{notebook.stem}.html"))
        if handout:
            echo(write_handout(notebook, to / f"{notebook.stem}-handout.html"))
