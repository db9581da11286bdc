"""The commands that open notebooks: notebooks, lab, look."""

import json
import os
import re
import shutil
import signal
import string
from contextlib import suppress
from pathlib import Path
from statistics import mode
from typing import Annotated, Any
from urllib.parse import quote

from typer import Argument, Option, Typer

import workbench
from workbench.commands.options import Columns, Runs, Words, overrides_of
from workbench.commands.output import echo, warn_of
from workbench.errors import SettingError
from workbench.files import PACKAGE, atomic_path, project_path, reraise_os_error

notebooks_app = Typer()
LabOptions = Annotated[
    Words,
    Option("--with", help="Option for JupyterLab: --with=--port=9000, or --with=--no-browser."),
]


@notebooks_app.command()
def notebooks(folder: Annotated[Path, Argument(help="Existing notebooks there stay.")]) -> None:
    """Copy the notebooks into a folder of your own."""
    with reraise_os_error(folder, "another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for path in project_path("notebooks").glob("*.ipynb"):
            copy = folder / path.name
            if not copy.exists():
                with atomic_path(copy) as new:
                    shutil.copyfile(path, new)


@notebooks_app.command()
def lab(
    folder: Annotated[Path, Argument(help="Missing notebooks are copied to it.")] = Path(
        "my-notebooks"
    ),
    options: LabOptions = None,
) -> None:
    """Open JupyterLab on the notebooks; their runs are in runs/ next to the folder."""
    notebooks(folder)
    folder = folder.resolve()
    open_lab(folder / "00_tour.ipynb", folder.parent, options)


@notebooks_app.command()
def look(  # noqa: PLR0917
    models: Annotated[
        Words, Argument(help="Folders, runs, hub ids, bundled names, word-overlap.")
    ] = None,
    on: Annotated[
        str, Option(help="Your file or a dataset; by default stsb-test or ladders-all.")
    ] = "",
    columns: Columns = "",
    name: Annotated[Words, Option(help="Name of a model in the views; once for each.")] = None,
    html: Annotated[
        Path | None, Option(help="Write the pairs as a page, and open nothing.")
    ] = None,
    runs: Runs = "runs",
    options: LabOptions = None,
) -> None:
    """Look at how encoders rank scored pairs and your own sentences.

    The default encoders are english-encoder and word overlap.
    """
    from workbench import systems
    from workbench.checkpoints import find_checkpoint
    from workbench.views.encoders import WORDS, label_encoders

    # Refused before an encoder is loaded, which may take minutes.
    if html and not (html.suffix == ".html" and html.absolute().parent.is_dir()):
        raise SettingError(f"give --html FILE.html in a folder that exists, not {html}")
    on = on or workbench.data.default_suite()
    roles = workbench.config.parse_columns(columns)
    pairs = workbench.data.load_pairs(on, columns=roles)
    models = models or ["english-encoder", WORDS]
    sources = [overrides_of([f"encoder={model}"], runs)["encoder"] for model in models]
    for source in {*sources} - {WORDS}:
        find_checkpoint(source)
        warn_of(Path(source))
    labels = name or [*label_encoders(sources)]
    if not len(labels) == len({*labels}) == len(sources):
        raise SettingError(
            f"{len(sources)} models need as many different names, not "
            f"{', '.join(labels)}; give --name"
        )
    encoders = dict(zip(labels, sources, strict=True))
    if html:
        # An encoder takes seconds to minutes.
        echo(f"scores of {len(pairs):,} pairs by {', '.join(encoders)}")
        scored = workbench.views.score_encoders(encoders, [on], columns=roles)
        compared = systems.compare_scores(systems.join_systems(scored.values()))
        explorer = workbench.views.PairExplorer(compared.scores.first, pairs)
        head = workbench.views.comparison_html(compared)
        with reraise_os_error(html, "another --html FILE"):
            echo(f"page: {explorer.to_html(html, head=head)}")
        return
    title = " ".join(["look", *encoders, pairs.name])
    path = Path(re.sub(r"[^\w.]+", "-", title)[:80] + ".ipynb").resolve()
    with reraise_os_error(path, "the command in another folder"):
        write_look(path, encoders, on, pairs, roles)
    echo(f"notebook: {path}")
    open_lab(path, path.parent, options)


def write_look(
    path: Path, encoders: dict[str, str], on: str, pairs: Any, columns: dict[str, str]
) -> None:
    """Write the notebook of `look`, or keep an existing one of the same encoders and data.

    Raises SettingError if the existing one was written for others.
    """
    import nbformat

    # Gold is shown for the targets of one query, so that with the most of them is the best example.
    query = mode(pairs.sentence1)
    both = zip(pairs.sentence1, pairs.sentence2, strict=True)
    targets = [second for first, second in both if first == query]
    if len(targets) == 1:
        targets = pairs.sentence2
    values = {
        "encoders": encoders,
        "on": on,
        "query": query,
        "targets": list(dict.fromkeys(targets))[:6],
    }
    texts = {
        "names": ", ".join(encoders),
        "pairs": pairs.name,
        "columns": f", columns={columns}" if columns else "",
    }
    for name, value in values.items():
        texts[name] = json.dumps(value, indent=4, ensure_ascii=False)
    page = nbformat.read(PACKAGE / "lab" / "look.json", 4)
    for cell in page.cells:
        cell.source = string.Template(cell.source).substitute(texts)
    if not path.exists():
        with atomic_path(path) as new:
            nbformat.write(page, new)
        return
    # The cell with encoders and data; every other cell is the user's to change.
    with suppress(ValueError, AttributeError):  # the file is no notebook
        if page.cells[1].source in [cell.source for cell in nbformat.read(path, 4).cells]:
            return
    raise SettingError(
        f"{path} was written for other encoders or data, or is no notebook; rename it, or give "
        "another --name"
    )


def open_lab(notebook: Path, root: Path, options: Words) -> None:
    """Start JupyterLab on the folder `root`, which contains the notebook that it opens."""
    from jupyterlab.labapp import LabApp

    paths = [os.environ.get("JUPYTER_CONFIG_PATH"), str(PACKAGE / "lab")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    os.environ.pop("PYTHONSAFEPATH", None)  # a notebook may start scripts of its folder
    # JupyterLab ends its kernels itself.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    page = quote(notebook.relative_to(root).as_posix())
    words = [f"--ServerApp.root_dir={root}", f"--LabApp.default_url=/lab/tree/{page}"]
    LabApp.launch_instance(words + (options or []))
