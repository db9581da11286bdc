"""The command that compares systems: compare."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

import workbench
from workbench.commands.options import Columns, Page, Runs, Words, overrides_of
from workbench.commands.output import echo, print_table
from workbench.errors import SettingError
from workbench.files import reraise_os_error, write_text

compare_app = Typer()


@compare_app.command()
def compare(
    systems: Annotated[
        list[str],
        Argument(
            help="Encoders, runs, labels, folders of runs, files of scores; the first is "
            "the baseline."
        ),
    ],
    on: Annotated[
        Words, Option(help="A dataset, a file of pairs or of judgements; once for each.")
    ] = None,
    *,
    columns: Columns = "",
    baseline: Annotated[str, Option(help="A system; by default the first.")] = "",
    html: Page = None,
    latex: Annotated[Path | None, Option(help="Write tables for a paper.")] = None,
    csv: Annotated[Path | None, Option(help="Write the numbers.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    runs: Runs = "runs",
) -> None:
    """Compare systems on scored pairs or rankings: which is better, and is that a difference?

    Prints for each suite the scores with their intervals, differences from the baseline, paired
    tests after Holm's correction, and the smallest detectable difference.
    """
    # Refused before an encoder is loaded, which may take minutes.
    sources = {Path(name).resolve() for name in [*systems, *(on or [])]}
    for path in filter(None, [html, latex, csv]):
        place = path.resolve()
        # In a folder of scores it would be one of the scores.
        if not place.parent.is_dir() or not sources.isdisjoint([place, place.parent]):
            raise SettingError(
                f"{path} cannot be written: give a file in a folder that exists, where neither the "
                "file nor its folder is a source"
            )
    names = [overrides_of([f"encoder={name}"], runs)["encoder"] for name in systems]
    roles = workbench.config.parse_columns(columns)
    compared = workbench.views.compare_systems(
        names, on or [], runs_root=runs, columns=roles, baseline=baseline
    )
    if html:
        with reraise_os_error(html, "another file"):
            workbench.views.comparison_page(html, compared)
    if latex:
        with reraise_os_error(latex, "another file"):
            write_text(latex, compared.to_latex())
    if csv:
        with reraise_os_error(csv, "another file"):
            write_text(csv, compared.table.to_csv(index=False))
    if as_json:
        echo(compared.to_json())
        return
    for suite, texts in compared.tables():
        echo(suite)
        print_table(texts)
        echo("")
    for sentence in [*compared.verdicts(), *compared.notes, compared.caption]:
        echo(sentence)
