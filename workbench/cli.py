"""The `workbench` command."""

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from workbench.config import CONFIGS
from workbench.errors import DataError, RunError, SettingError, unknown_name

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
data_app = typer.Typer(no_args_is_help=True, help="The data sets: what there is, whether it is whole, how to get it.")
app.add_typer(data_app, name="data")

Profile = Annotated[str, typer.Option("--profile", help="demo: bundled data, on a laptop; paper: the authors'.")]
Runs = Annotated[Path, typer.Option("--runs", help="The folder of runs.")]


@app.command()
def run(  # noqa: PLR0917 - typer reads the parameters of a command from its signature
    method: Annotated[str, typer.Argument(help=f"One of: {', '.join(CONFIGS)}.")],
    profile: Profile = "demo",
    seed: Annotated[int, typer.Option(help="Every random generator derives from it.")] = 0,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Changes one setting; may be repeated.")
    ] = None,
    runs: Runs = Path("runs"),
    html: Annotated[bool, typer.Option("--html", help="Also write the executed notebook as HTML.")] = False,
) -> None:
    """Run a method's notebook headless. Exit code 0 only when metrics.json was written."""
    from workbench.headless import export_html, run_method
    from workbench.runs import metrics_table

    finished = run_method(method, profile=profile, seed=seed, overrides=overrides_of(setting), runs_root=runs)
    print(metrics_table(finished.metrics()).to_string(index=False, float_format="{:.2f}".format, na_rep=""))
    print(f"run:      {finished.path}")
    notebook = finished.path / "notebook.ipynb"
    if notebook.is_file():
        print(f"notebook: {notebook}")
        if html:
            print(f"html:     {export_html(notebook)}")


@app.command()
def runs(
    root: Annotated[Path, typer.Argument(help="The folder of runs.")] = Path("runs"),
    folder: Annotated[Path | None, typer.Option("--runs", help="The same, as the other commands take it.")] = None,
) -> None:
    """List the runs: settings changed, status, scores x 100."""
    from workbench.runs import SCORE, list_runs

    root = folder or root
    table = list_runs(root)
    if table.empty:
        print(f"no runs under {root}; start one with: workbench run simcse")
        return
    scores = [name for name in table if name.startswith(SCORE)]
    table[scores] = 100 * table[scores]
    print(table.to_string(index=False, float_format="{:.2f}".format, na_rep=""))


@app.command()
def settings(
    method: Annotated[str, typer.Argument(help=f"One of: {', '.join(CONFIGS)}.")], profile: Profile = "demo"
) -> None:
    """List a method's settings: value, unit, meaning, source; and its profiles."""
    if method not in CONFIGS:
        raise SettingError(unknown_name("method", method, CONFIGS, "in this workbench"))
    table = CONFIGS[method].from_parameters(profile).table().drop(columns="changed")
    print(table.to_string(index=False, justify="left", max_colwidth=100))
    print(f"profiles: {', '.join(CONFIGS[method].profiles)}")


@app.command()
def demo(runs: Runs = Path("runs"), seeds: Annotated[int, typer.Option(min=1)] = 3) -> None:
    """SimCSE on the bundled world, a few seeds: Spearman, KCC and NDCG before | after."""
    from workbench.demo import demonstrate

    demonstrate(runs_root=runs, seeds=seeds)


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
) -> None:
    """Read the sets on this machine whole and say what is wrong with them; "hub": not here, see `data fetch`.

    Exit code 1 when a named set cannot be used.
    """
    from workbench.data import check, unusable

    table = check(names)
    print(table.astype({"rows": object}).fillna("").to_string(index=False, justify="left"))  # type: ignore[call-overload]
    if names and len(unusable(table)):
        raise typer.Exit(1)


@data_app.command("fetch")
def fetch_data(
    names: Annotated[list[str], typer.Argument(help="Sets to fetch from the hub.")],
    root: Annotated[
        Path | None,
        typer.Option(help="The local data root to write to; without it, the one that WORKBENCH_DATA names."),
    ] = None,
) -> None:
    """Fetch sets from the hub into a local data root, for machines without a network."""
    from workbench.data import fetch

    folder = root or (Path(os.environ["WORKBENCH_DATA"]) if os.environ.get("WORKBENCH_DATA") else None)
    if folder is None:
        raise SettingError("where to? give --root FOLDER, or set WORKBENCH_DATA")
    for name in names:
        print(fetch(name, folder))


def overrides_of(settings: list[str] | None) -> dict[str, str]:
    """KEY=VALUE texts as a dictionary; the values are read as their settings' types later."""
    found: dict[str, str] = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingError(f"--set {text!r}: give KEY=VALUE, for example --set temperature=0.07")
        if name in found:
            raise SettingError(f"--set {name}: given twice ({found[name]!r} and {value!r}); give it once")
        found[name.strip()] = value.strip()
    return found


def main() -> None:
    """The command; a refusal is one clear text and exit code 2, a failed run exit code 1."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("workbench").setLevel(logging.INFO)
    try:
        app()
    except (SettingError, DataError) as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        sys.exit(2)
    except RunError as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(1)
