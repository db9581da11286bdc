"""The `workbench` command."""

import logging
import os
import subprocess
import sys
import textwrap
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from workbench.cli_runs import Runs, metrics_text, runs_app, sweep_app, with_folders
from workbench.config import CONFIGS
from workbench.errors import RunError, SettingError, WorkbenchError, printable, unknown_name
from workbench.files import PACKAGE
from workbench.installation import DISTRIBUTION, copy_notebooks, missing_extra, require_modules

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs import Run

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
data_app = typer.Typer(no_args_is_help=True, help="The data sets: what there is, whether it is whole, how to get it.")
app.add_typer(data_app, name="data")
app.add_typer(sweep_app, name="sweep")
app.add_typer(runs_app)

Profile = Annotated[str, typer.Option("--profile", help="demo: bundled data, on a laptop; paper: the authors'.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Changes one setting; may be repeated.")
]
Columns = Annotated[str, typer.Option(help="ROLE=COLUMN,...: what the columns mean; else guessed by their names.")]
Scale = Annotated[tuple[float, float] | None, typer.Option(help="The range of gold; else guessed from it.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"{DISTRIBUTION} {metadata.version(DISTRIBUTION)}, Python {sys.version.split()[0]}, {PACKAGE}")
        raise typer.Exit


@app.callback(help=__doc__)
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Version and place, then end.")
    ] = False,
) -> None:
    pass


@app.command()
def run(  # noqa: PLR0917 - typer reads the parameters of a command from its signature
    method: Annotated[str, typer.Argument(help=f"One of: {', '.join(CONFIGS)}.")],
    changes: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="As --set KEY=VALUE.")] = None,
    profile: Profile = "demo",
    seed: Annotated[int, typer.Option(help="Every random generator derives from it.")] = 0,
    setting: Changes = None,
    runs: Runs = "runs",
    notebook: Annotated[
        bool,
        typer.Option("--notebook/--no-notebook", help="Execute the method's notebook, or only train and evaluate."),
    ] = True,
    html: Annotated[bool, typer.Option("--html", help="Also write the executed notebook as HTML.")] = False,
) -> None:
    """Train and evaluate a method by executing its notebook. Exit code 0 only if metrics.json was written."""
    from workbench import execution
    from workbench.notebook_page import export_html
    from workbench.views import compare_with_start

    overrides = overrides_of(with_folders([*(changes or []), *(setting or [])], runs))
    if notebook:
        finished = execution.run_method(method, profile=profile, seed=seed, overrides=overrides, runs_root=runs)
    else:
        finished = execution.run(CONFIGS[method].from_parameters(profile, seed, overrides), runs)
    for stage, title in {"before": "before training", "": "after"}.items():
        if finished.has(stage):
            print(f"{title}:\n{metrics_text(finished, stage)}")
    if not notebook:  # which prints this itself
        print(compare_with_start(finished))
    print(f"run:      {finished.path}")
    page = finished.path / "notebook.ipynb"
    if page.is_file():
        print(f"notebook: {page}")
        if html:
            print(f"html:     {export_html(page)}")


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="A folder, a run, a hub id, or a bundled name such as english-encoder.")],
    suites: Annotated[str, typer.Option(help="Sets of scored pairs and transfer tasks, between commas.")] = "",
    profile: Annotated[
        str, typer.Option(help="as-it-is, or a base of the papers: first-last, mean, whitening, static, ...")
    ] = "as-it-is",
    setting: Changes = None,
    runs: Runs = "runs",
    *,
    mteb: Annotated[str, typer.Option(help="Also write the results there in the format of the library mteb.")] = "",
) -> None:
    """Evaluate a model as it is, and keep what is found beside the runs. Without --suites: the seven STS sets."""
    from workbench.config import BaseConfig
    from workbench.evaluation import evaluate_model, to_mteb

    require_modules(*(["mteb"] if mteb else []))  # before hours are spent on what comes first
    model, *changes = with_folders([model, *(setting or [])], runs)
    given = {"encoder": model} | ({"suites": suites} if suites else {})
    config = BaseConfig.from_parameters(profile, 0, given | overrides_of(changes))
    run = evaluate_model(config, runs)
    print(metrics_text(run))
    print(f"run:      {run.path}")
    for file in to_mteb(run, mteb) if mteb else ():
        print(f"mteb:     {file}")


@app.command()
def settings(
    method: Annotated[str, typer.Argument(help=f"One of: {', '.join(CONFIGS)}.")], profile: Profile = "demo"
) -> None:
    """List a method's settings: value, unit, meaning, source; and its profiles."""
    config = CONFIGS[method].from_parameters(profile)
    table = Table("setting", "value", "meaning, what is allowed, source", box=None, padding=(0, 2, 0, 0))
    for row in config.table().to_dict("records"):
        cells = row["setting"], f"{row['value']} {row['unit']}", f"{row['meaning']} ({row['allowed']}; {row['source']})"
        table.add_row(*(Text(cell.strip(), overflow="fold") for cell in cells))
    Console(width=100).print(table)
    print(textwrap.fill(f"profiles: {', '.join(config.profiles)}", 100, break_on_hyphens=False))


@app.command()
def demo(runs: Runs = "runs", seeds: Annotated[int, typer.Option(min=1)] = 3) -> None:
    """SimCSE on the bundled world, a few seeds: Spearman, KCC and NDCG before | after."""
    from workbench.execution import run_method
    from workbench.notebook_page import export_html

    finished: list[Run] = []
    for seed in range(seeds):
        started = time.perf_counter()
        finished.append(run_method("simcse", profile="demo", seed=seed, runs_root=runs))
        page = export_html(finished[-1].path / "notebook.ipynb")
        print(f"\nseed {seed}: {time.perf_counter() - started:.0f} s; {page}", flush=True)
        print(compare_stages(finished[-1:]).to_string(index=False), flush=True)
    if seeds > 1:
        print(f"\nover {seeds} seeds, mean ± standard deviation:")
        print(compare_stages(finished).to_string(index=False))
    path = finished[0].path
    print(f"\nexecuted notebook: {path / 'notebook.ipynb'}\nas a web page:     {path / 'notebook.html'}")


def compare_stages(runs: "list[Run]") -> "pd.DataFrame":
    """Return suite, metric, before, after, gain x 100; of several runs mean ± standard deviation."""
    import pandas as pd

    from workbench.metrics import seed_spread
    from workbench.runs import metrics_table

    tables = {}
    for stage, title in {"before": "before", "": "after"}.items():
        each = [metrics_table(run.metrics(stage)).set_index("suite") for run in runs]
        scores = [table.reindex(columns=["Spearman", "KCC", "NDCG"]).stack().dropna() for table in each]
        tables[title] = pd.DataFrame(scores)
    tables["gain"] = tables["after"] - tables["before"]
    columns = {title: [str(seed_spread(values)) for _, values in table.items()] for title, table in tables.items()}
    return pd.DataFrame(columns, index=tables["after"].columns).rename_axis(["suite", "metric"]).reset_index()


@app.command()
def push(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A finished run: its folder, or how its name begins.")],
    repo_id: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="On the hub; made where it is not there.")],
    private: Annotated[bool, typer.Option("--private")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files and send nothing.")] = False,
    license_: Annotated[str, typer.Option("--license", help="As the hub names it, such as mit.")] = "",
    *,
    runs: Runs = "runs",
) -> None:
    """Publish a run's encoder on the Hugging Face hub, with a card of its scores."""
    from workbench.runs import find_run

    files = find_run(name, runs).push_to_hub(repo_id, private=private, dry_run=dry_run, license=license_)
    print(f"{'would send' if dry_run else 'sent'} to {repo_id}:", *files, sep="\n  ")


@app.command()
def notebooks(folder: Annotated[Path, typer.Argument(help="Where to; notebooks that are there stay.")]) -> None:
    """Copy the notebooks into a folder of your own."""
    made = copy_notebooks(folder)
    print(f"{len(made)} notebooks copied to {folder}; start them with: workbench lab {folder}")


@app.command()
def lab(
    folder: Annotated[Path, typer.Argument(help="Notebooks that it lacks are copied there.")] = Path("notebooks"),
    passed: Annotated[
        list[str] | None, typer.Option("--with", metavar="OPTION", help="For JupyterLab, as in --with=--allow-root.")
    ] = None,
) -> None:
    """JupyterLab on the notebooks, at the tour; runs lie beside their folder, in runs/."""
    require_modules("jupyterlab")
    copy_notebooks(folder)
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(
        filter(None, [os.environ.get("JUPYTER_CONFIG_PATH"), str(PACKAGE / "lab")])
    )
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.resolve().parent}"]
    command.append(f"--LabApp.default_url=/lab/tree/{folder.resolve().name}/00_tour.ipynb")
    command += passed or []
    if sys.platform == "win32":  # where execv neither waits for what it starts nor quotes a path with spaces
        raise typer.Exit(subprocess.call(command))
    os.execv(sys.executable, command)


@data_app.command("list")
def list_data(
    kind: Annotated[str, typer.Option(help="sentences, pairs, triples or labelled; empty: all.")] = "",
) -> None:
    """Every set by name: what it is, where it comes from, its licence."""
    import pandas as pd

    from workbench.data import dataset_names, describe

    kinds = ("sentences", "pairs", "triples", "labelled")
    if kind and kind not in kinds:
        raise SettingError(unknown_name("kind", kind, kinds, "of data set"))
    table = pd.DataFrame([describe(name) for name in dataset_names(kind or None)])
    print(table[["name", "kind", "title", "rows", "scale", "source", "licence"]].to_string(index=False, justify="left"))  # type: ignore[call-overload]


@data_app.command("check")
def check_data(
    names: Annotated[list[str] | None, typer.Argument(help="Sets, or files of your own; none: every set.")] = None,
    columns: Columns = "",
    scale: Scale = None,
) -> None:
    """Read sets whole and say what is wrong with them; of files of your own, what they would be read as.

    "hub": not on this machine. Exit code 1 when a named set cannot be used.
    """
    from workbench.data import check, load_data, overlaps, parse_columns, report, unusable

    logging.getLogger("workbench").setLevel(logging.WARNING)  # the report contains what was guessed
    options = {"columns": parse_columns(columns), "scale": scale}
    table = check(names, **options)
    own = {name: load_data(name, **options) for name in table["name"][table["found"] == "own file"]}
    shown = table.drop(columns="problem").astype({"rows": object}).fillna("")
    print(shown.to_string(index=False, justify="left"))  # type: ignore[call-overload]
    for name, problem in zip(table["name"], table["problem"], strict=True):
        if problem:
            print(problem if problem.startswith(name) else f"{name}: {problem}")
    for name, data in own.items():
        print("", name, *(f"  {line}" for line in report(data)), sep="\n")
    print("".join(f"\nwarning: {line}" for line in overlaps(own)))
    if names and unusable(table):
        raise typer.Exit(1)


@data_app.command("split")
def split_data(  # noqa: PLR0917
    file: Annotated[str, typer.Argument(help="A file of your own.")],
    folder: Annotated[Path, typer.Argument(help="Where the parts are written, each a .tsv.gz.")],
    dev: Annotated[float, typer.Option(help="Share of the queries, 0: none.")] = 0.1,
    test: Annotated[float, typer.Option(help="Share of the queries, 0: none.")] = 0.1,
    seed: Annotated[int, typer.Option(help="The queries are drawn with it.")] = 0,
    columns: Columns = "",
    scale: Scale = None,
) -> None:
    """Split a file by query (first sentence) into train, dev and test, in columns that every command knows."""
    from workbench.data import load_data, overlaps, parse_columns, report, split, write_split

    data = load_data(file, columns=parse_columns(columns), scale=scale)
    parts = split(data, dev=dev, test=test, seed=seed)
    for path, part in zip(write_split(parts, folder), parts.values(), strict=True):
        print(path, *(f"  {line}" for line in report(part)[1:]), sep="\n")
    print("".join(f"\nwarning: {line}" for line in overlaps(parts)))


def overrides_of(settings: list[str] | None) -> dict[str, str]:
    """KEY=VALUE texts as a dictionary; the values are read as their settings' types later."""
    found: dict[str, str] = {}
    for text in settings or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise SettingError(f"--set {text!r}: give KEY=VALUE, for example --set temperature=0.07")
        if name in found:
            raise SettingError(f"--set {name}: given twice ({found[name]!r} and {value!r}); give it once")
        found[name] = value
    return found


def main() -> None:
    """Run the command. Exit code 2 for input that is refused, 1 for a run that failed."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("workbench").setLevel(logging.INFO)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs each retry twice
    try:
        app()
    except ModuleNotFoundError as missing:
        if (remedy := missing_extra(missing.name)) is None:
            raise
        problem, code = remedy, 2
    except BrokenPipeError:  # the reader has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as refusal:
        problem, code = f"{refusal.strerror}: {str(refusal.filename)[:200]}", 2
    except WorkbenchError as refusal:
        problem, code = refusal, 1 if isinstance(refusal, RunError) else 2
    else:
        return
    print(printable(f"error: {problem}"), file=sys.stderr)
    sys.exit(code)
