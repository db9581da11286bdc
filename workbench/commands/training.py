"""The commands that train and evaluate: run, demo, evaluate, settings."""

from typing import Annotated

from typer import Argument, Option, Typer

import workbench
from workbench.commands.options import (
    Columns,
    MethodName,
    Notebook,
    Runs,
    Settings,
    Words,
    overrides_of,
)
from workbench.commands.output import echo, print_scores, print_table
from workbench.config import CONFIGS, BaselineConfig
from workbench.errors import SettingError
from workbench.files import reraise_os_error
from workbench.printing import steady_stdout

training_app = Typer()
Profile = Annotated[str, Option(help="demo: bundled data, on a laptop; paper: the authors'.")]


@training_app.command()
@steady_stdout()
def run(  # noqa: PLR0917 - typer reads the parameters of a command from its signature
    method: MethodName,
    changes: Annotated[Words, Argument(metavar="[KEY=VALUE]...", help="Same as --set.")] = None,
    profile: Profile = "demo",
    seed: int = 0,
    setting: Settings = None,
    columns: Columns = "",
    runs: Runs = "runs",
    notebook: Notebook = True,
    html: Annotated[
        bool, Option("--html", help="Also write the executed notebook as a web page.")
    ] = False,
) -> None:
    """Train and evaluate a method, by default by executing its notebook."""
    overrides = overrides_of([*(changes or []), *(setting or [])], runs, columns)
    # Refused before training, not after it.
    if html and not notebook:
        raise SettingError("--html needs the notebook; leave out --no-notebook")
    if notebook:
        finished = workbench.run_notebook(
            method, profile=profile, seed=seed, overrides=overrides, runs_root=runs
        )
    else:
        finished = workbench.run(CONFIGS[method].from_parameters(profile, seed, overrides), runs)
    print_scores(finished)
    if not notebook:  # the notebook prints this itself
        echo(workbench.views.compare_with_start(finished))
    echo(f"result:   {workbench.views.result_line(finished)}")
    echo(f"run:      {finished.path}")
    page = finished.path / "notebook.ipynb"
    if not page.is_file():
        return
    echo(f"notebook: {page}")
    if html:
        with reraise_os_error(page.parent):
            echo(f"html:     {workbench.views.export_html(page)}")


@training_app.command()
@steady_stdout()
def demo(runs: Runs = "runs") -> None:
    """Train SimCSE with three seeds; print the scores before and after, and write web pages."""
    echo("training SimCSE with three seeds, about a minute each")
    for seed in range(3):
        run("simcse", seed=seed, runs=runs, html=True)
    finished = workbench.views.finished_runs(runs, "world-test")
    print_table(workbench.views.seed_table(finished).reset_index())
    echo("next: make lab, or workbench lab, and open 00_tour.ipynb")


@training_app.command()
@steady_stdout()
def evaluate(  # noqa: PLR0917
    model: Annotated[
        str, Argument(help="A folder, run, hub id, or bundled name such as english-encoder.")
    ],
    suites: Annotated[
        str, Option(help="Datasets or files, separated by commas; by default the profile's.")
    ] = "",
    profile: Annotated[
        str, Option(help=f"A baseline: {', '.join(BaselineConfig.profiles)}.")
    ] = "as-it-is",
    setting: Settings = None,
    columns: Columns = "",
    runs: Runs = "runs",
) -> None:
    """Evaluate a model without training; the result is listed with the runs."""
    # As settings, so that the name of a run becomes its folder and --set may change the rest.
    words = [f"encoder={model}", *(setting or [])]
    if suites:
        words.append(f"suites={suites}")
    config = BaselineConfig.from_parameters(profile, 0, overrides_of(words, runs, columns))
    finished = workbench.evaluation.evaluate_model(config, runs)
    print_scores(finished)
    echo(f"run:      {finished.path}")


@training_app.command()
def settings(method: MethodName, profile: Profile = "demo") -> None:
    """List a method's settings, their values, meanings and sources, and its profiles."""
    config = CONFIGS[method].from_parameters(profile)
    for row in config.table().to_dict("records"):
        echo("{setting} = {value} {unit}\n    {meaning} ({allowed}; {source})".format(**row))
    echo(f"profiles: {', '.join(config.profiles)}")
