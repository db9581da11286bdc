"""Arguments and options that several commands have, and how their words are read."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import workbench
from workbench.config import CONFIGS, RUN_CONFIGS, parse_pairs

Words = list[str] | None
MethodName = Annotated[str, Argument(help=f"One of: {', '.join(CONFIGS)}.")]
RunName = Annotated[
    str, Argument(metavar="RUN", help="A run: its folder, or the beginning of its name.")
]
Runs = Annotated[str, Option("--runs", help="The folder of runs.")]
Columns = Annotated[
    str,
    Option("--columns", help="ROLE=COLUMN,... of your own files; by default guessed from them."),
]
Page = Annotated[Path | None, Option(help="Write a page.")]
Settings = Annotated[Words, Option("--set", metavar="KEY=VALUE", help="Change a setting.")]
Notebook = Annotated[
    bool, Option("--notebook/--no-notebook", help="Execute the method's notebook.")
]
# The name of a run that is not part of a path or a label: a path of the user, or of an encoder on
# the hub, stays as it was written.
_RUN = re.compile(
    rf"(?<![\w./\\-])(?<!\w )(?:(?:{'|'.join(RUN_CONFIGS)})/)?[0-9a-f]{{8}}-s\d+(?![\w./\\-])"
)


def overrides_of(
    settings: Sequence[str], runs_root: str = "runs", columns: str = ""
) -> dict[str, str]:
    """Return texts KEY=VALUE as a dictionary; names of runs become their folders.

    columns: That of `--columns`, which is the setting of this name.

    Raises:
        SettingError: A text has another form, or a key is given twice.
        RunError: There is no such run under `runs_root`.
    """

    def folder_of(name):
        return workbench.runs.find_run(name[0], runs_root).path.as_posix()

    texts = [_RUN.sub(folder_of, text) for text in settings]
    if columns:
        texts.append(f"columns={columns}")
    return parse_pairs(texts, "KEY=VALUE without spaces, such as seed=1, of sbatch mem=8G")
