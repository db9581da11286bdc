"""The `workbench` command."""

import io
import json
import logging
import os
import re
import shlex
import shutil
import signal
import string
import sys
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option, Typer

import workbench
from workbench.cli_runs import (
    Notebook,
    Runs,
    Settings,
    Words,
    echo,
    overrides_of,
    print_scores,
    print_table,
    runs_app,
    sweep_app,
    warn_of,
)
from workbench.config import CONFIGS, BaselineConfig
from workbench.errors import RunError, SettingError, WorkbenchError
from workbench.files import PACKAGE, project_path, reraise_os_error
from workbench.printing import LineFormatter, SteadyStream, steady_stdout

app = Typer(no_args_is_help=True, pretty_exceptions_enable=False)
data_app = Typer(no_args_is_help=True, help="List and check datasets, and split your own files.")
app.add_typer(data_app, name="data")
app.add_typer(sweep_app, name="sweep")
app.add_typer(runs_app)

MethodName = Annotated[str, Argument(help=f"One of: {', '.join(CONFIGS)}.")]
Profile = Annotated[str, Option(help="demo: bundled data, on a laptop; paper: the authors'.")]
Columns = Annotated[str, Option(help="ROLE=COLUMN,...; by default guessed from their names.")]
Scale = Annotated[
    tuple[float, float] | None, Option(help="Range of the scores; by default guessed from them.")
]
Kind = StrEnum("Kind", ["sentences", "pairs", "triplets", "labelled"])
Share = Annotated[float, Option(min=0, max=1, help="Share of the queries.")]
LabOptions = Annotated[Words, Option("--with", help="Option for JupyterLab: --with=--port=9000.")]
NoBrowser = Annotated[bool, Option("--no-browser", help="Only print JupyterLab's address.")]


@app.callback(help=__doc__, invoke_without_command=True)
def _options(
    version: Annotated[bool, Option("--version", help="Print version and path.")] = False,
) -> None:
    if version:
        echo(
            f"ranking-workbench {metadata.version('ranking-workbench')}, Python "
            f"{sys.version.split()[0]}, {PACKAGE}"
        )


@app.command()
@steady_stdout()
def run(  # noqa: PLR0917 - typer reads the parameters of a command from its signature
    method: MethodName,
    changes: Annotated[Words, Argument(metavar="[KEY=VALUE]...", help="Same as --set.")] = None,
    profile: Profile = "demo",
    seed: int = 0,
    setting: Settings = None,
    runs: Runs = "runs",
    notebook: Notebook = True,
    html: Annotated[
        bool, Option("--html", help="Also write the executed notebook as a web page.")
    ] = False,
) -> None:
    """Train and evaluate a method, by default by executing its notebook."""
    overrides = overrides_of([*(changes or []), *(setting or [])], runs)
    if html and not notebook:
        raise SettingError("--html needs the notebook; leave out --no-notebook")
    if notebook:
        finished = workbench.run_method(
            method, profile=profile, seed=seed, overrides=overrides, runs_root=runs
        )
    else:
        finished = workbench.run(CONFIGS[method].from_parameters(profile, seed, overrides), runs)
    print_scores(finished)
    if not notebook:  # which prints this itself
        echo(workbench.views.compare_with_start(finished))
    echo(f"result:   {workbench.views.result_line(finished)}")
    echo(f"run:      {finished.path}")
    if (page := finished.path / "notebook.ipynb").is_file():
        echo(f"notebook: {page}")
        if html:
            with reraise_os_error(page.parent):
                echo(f"html:     {workbench.views.export_html(page)}")


@app.command()
@steady_stdout()
def demo(runs: Runs = "runs") -> None:
    """Train SimCSE on bundled data with three seeds; print the scores before and after, and write
    web pages."""
    echo("training SimCSE with three seeds, about a minute each")
    for seed in range(3):
        run("simcse", seed=seed, runs=runs, html=True)
    print_table(
        workbench.views.seed_table(workbench.views.finished_runs(runs, "world-test")).reset_index()
    )
    echo("next: make lab, or workbench lab, and open 00_tour.ipynb")


@app.command()
@steady_stdout()
def evaluate(
    model: Annotated[
        str, Argument(help="A folder, run, hub id, or bundled name such as english-encoder.")
    ],
    suites: Annotated[
        str, Option(help="Datasets or files, separated by commas; by default the profile's.")
    ] = "",
    profile: Annotated[
        str, Option(help="as-it-is, first-last, mean, whitening, static, ...")
    ] = "as-it-is",
    setting: Settings = None,
    runs: Runs = "runs",
) -> None:
    """Evaluate a model without training; the result is listed with the runs."""
    words = [f"encoder={model}", *(setting or [])]
    if suites:
        words.append(f"suites={suites}")
    config = BaselineConfig.from_parameters(profile, 0, overrides_of(words, runs))
    finished = workbench.evaluation.evaluate_model(config, runs)
    print_scores(finished)
    echo(f"run:      {finished.path}")


@app.command()
def settings(method: MethodName, profile: Profile = "demo") -> None:
    """List a method's settings, their values, meanings and sources, and its profiles."""
    config = CONFIGS[method].from_parameters(profile)
    for row in config.table().to_dict("records"):
        echo("{setting} = {value} {unit}\n    {meaning} ({allowed}; {source})".format(**row))
    echo(f"profiles: {', '.join(config.profiles)}")


@app.command()
def notebooks(folder: Annotated[Path, Argument(help="Existing notebooks there stay.")]) -> None:
    """Copy the notebooks into a folder of your own."""
    with reraise_os_error(folder, "another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        for path in project_path("notebooks").glob("*.ipynb"):
            if not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)


@app.command()
def lab(
    folder: Annotated[Path, Argument(help="Missing notebooks are copied to it.")] = Path(
        "my-notebooks"
    ),
    options: LabOptions = None,
    no_browser: NoBrowser = False,
) -> None:
    """Open JupyterLab on the notebooks; their runs are in runs/ next to the folder."""
    notebooks(folder)
    open_lab(
        folder.resolve() / "00_tour.ipynb", folder.resolve().parent, options, no_browser=no_browser
    )


@app.command()
def look(  # noqa: PLR0917
    models: Annotated[Words, Argument(help="Folders, runs, hub ids, bundled names.")] = None,
    on: Annotated[
        str, Option(help="Your file or a dataset; by default stsb-test or ladders-all.")
    ] = "",
    name: Annotated[Words, Option(help="Name of a model in the views; once for each.")] = None,
    html: Annotated[
        Path | None, Option(help="Write the pairs as a page, and open nothing.")
    ] = None,
    notebook: Annotated[
        Path | None, Option(help="Write the notebook here, and open nothing.")
    ] = None,
    runs: Runs = "runs",
    options: LabOptions = None,
    no_browser: NoBrowser = False,
) -> None:
    """Look at how encoders, by default english-encoder and word overlap, rank scored pairs and your
    own sentences."""
    from workbench.checkpoints import find_checkpoint
    from workbench.views.encoders import WORDS, label_encoders

    output = html or notebook or Path("look.ipynb")
    is_wanted = output.suffix == (".html" if html else ".ipynb") and not (html and notebook)
    if not (is_wanted and output.absolute().parent.is_dir()):
        raise SettingError(
            "give either --html FILE.html or --notebook FILE.ipynb, in a folder that "
            f"exists, not {output}"
        )
    on = on or ("stsb-test" if workbench.data.checksum_here("stsb-test") else "ladders-all")
    pairs = workbench.data.load_pairs(on)
    given = models or ["english-encoder", WORDS]
    sources = [overrides_of([f"encoder={model}"], runs)["encoder"] for model in given]
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
        explorer = workbench.views.PairExplorer(encoders, on)
        with reraise_os_error(html, "another --html FILE"):
            echo(f"page: {explorer.to_html(html)}")
        return
    own_name = re.sub(r"[^\w.]+", "-", " ".join(["look", *encoders, pairs.name]))[:80]
    path = (notebook or Path(f"{own_name}.ipynb")).resolve()
    with reraise_os_error(path, "another --notebook FILE"):
        write_look(path, encoders, on, pairs)
    echo(f"notebook: {path}")
    if not notebook:
        open_lab(path, path.parent, options, no_browser=no_browser)


def write_look(path: Path, encoders: dict[str, str], on: str, pairs: Any) -> None:
    """Write the notebook of `look`, or keep it; SettingError if it exists and looks at other
    encoders or data."""
    import nbformat

    def near(name: str) -> str:
        return os.path.relpath(name, path.parent) if Path(name).exists() else name

    values = {
        "encoders": {name: near(encoder) for name, encoder in encoders.items()},
        "on": near(on),
        "query": pairs.sentence1[0],
        "targets": list(dict.fromkeys(pairs.sentence2))[:6],
    }
    texts = {
        name: json.dumps(value, indent=4, ensure_ascii=False) for name, value in values.items()
    }
    page = nbformat.read(PACKAGE / "lab" / "look.json", 4)
    for cell in page.cells:
        template = string.Template(cell.source)
        cell.source = template.substitute(texts, names=", ".join(encoders), pairs=pairs.name)
    if not path.exists():
        nbformat.write(page, path)
    elif page.cells[1].source not in [cell.source for cell in nbformat.read(path, 4).cells]:
        raise SettingError(
            f"{path} looks at other encoders or data; rename it, or choose another --notebook"
        )


def open_lab(notebook: Path, root: Path, options: Words, *, no_browser: bool) -> None:
    """Start JupyterLab on the folder `root`, which contains the notebook that it opens."""
    from jupyterlab.labapp import LabApp

    paths = [os.environ.get("JUPYTER_CONFIG_PATH"), str(PACKAGE / "lab")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # JupyterLab ends its kernels itself
    page = f"/lab/tree/{notebook.relative_to(root).as_posix()}"
    given = [f"--ServerApp.root_dir={root}", f"--LabApp.default_url={page}", *(options or [])]
    LabApp.launch_instance([*given, *(["--no-browser"] if no_browser else [])])


@data_app.command("list")
def list_data(kind: Annotated[Kind | None, Option(help="List only this kind.")] = None) -> None:
    """List every dataset with its kind, source and licence."""
    import pandas as pd

    sets: Any = pd.DataFrame(
        [workbench.data.describe(name) for name in workbench.data.dataset_names(kind)]
    )
    print_table(sets[["name", "kind", "title", "rows", "scale", "source", "licence"]])


@data_app.command("check")
def check_data(
    names: Annotated[Words, Argument(help="Datasets or files; by default every dataset.")] = None,
    columns: Columns = "",
    scale: Scale = None,
) -> None:
    """Read whole datasets and report their problems, and how your own files are read.

    Status "hub": not on this machine. Exit code 1 if a named dataset cannot be used.
    """
    logging.getLogger("workbench").setLevel(logging.WARNING)  # the report contains what was guessed
    options = {"columns": workbench.data.parse_columns(columns), "scale": scale}
    table: Any = workbench.data.check(names, **options)
    print_table(table.drop(columns="problem"))
    for row in table[table["problem"] != ""].to_dict("records"):
        echo(
            row["problem"]
            if row["problem"].startswith(row["name"])
            else f"{row['name']}: {row['problem']}"
        )
    own: Any = table[table["status"] == "own file"]
    print_reports({name: workbench.data.load_data(name, **options) for name in own["name"]})
    if len(own) == 1:
        chosen = ["--columns", columns] if columns else []
        chosen += ["--scale", *map(str, scale)] if scale else []
        lines = workbench.data.training_commands(
            *own[["name", "kind"]].iloc[0], options=shlex.join(chosen)
        )
        echo("\n" + "\n  ".join(lines))
    if names and workbench.data.unusable(table):
        raise Exit(1)


@data_app.command("split")
def split_data(  # noqa: PLR0917
    file: Annotated[str, Argument(help="Your own file.")],
    folder: Annotated[Path, Argument(help="Folder for the parts, each a .tsv.gz.")],
    dev: Share = 0.1,
    test: Share = 0.1,
    seed: int = 0,
    columns: Columns = "",
    scale: Scale = None,
) -> None:
    """Split a file by query (first sentence) into train, dev and test."""
    data = workbench.data.load_data(
        file, columns=workbench.data.parse_columns(columns), scale=scale
    )
    parts = workbench.data.split(data, dev=dev, test=test, seed=seed)
    print_reports(dict(zip(workbench.data.write_split(parts, folder), parts.values(), strict=True)))


def print_reports(sets: dict[Any, Any]) -> None:
    """Print facts about each data set by name, and what two of them share."""
    for name, data in sets.items():
        echo("\n  ".join([f"\n{name}", *workbench.data.report(data)]))
    for line in workbench.data.overlaps(sets):
        echo(f"\nwarning: {line}")


def main() -> None:
    """Run the command. Exit code 2 for input that is refused, 1 for a run that failed or is in
    use."""
    sys.stdout = sys.stdout or io.StringIO()  # closed by >&-
    sys.stderr = sys.stderr and SteadyStream(sys.stderr)
    logging.basicConfig(level=logging.WARNING)
    logging.root.handlers[0].setFormatter(LineFormatter())
    logging.getLogger("workbench").setLevel(logging.INFO)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs each retry twice
    code = 2
    try:
        for name in (str(Path.cwd()), *sys.argv):
            if name != name.encode(errors="replace").decode():  # a run records names as UTF-8
                raise SettingError(f"{name}: not UTF-8; rename the file or folder")
        app()
    except WorkbenchError as error:
        problem = str(error)
        code = 1 if isinstance(error, RunError) else 2
    except ModuleNotFoundError as error:
        problem = (
            f"{error}; install it, or what every command uses: pip install "
            '"ranking-workbench[train,lab,slurm]"'
        )
    except OSError as error:
        where = error.filename or "the output or the current folder"
        problem = (
            f"{where}: {error.strerror or error}; give a path that can be read and written, "
            "or free some space"
        )
    echo(f"error: {problem}", err=True)
    sys.exit(code)
