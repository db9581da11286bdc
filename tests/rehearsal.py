"""Execute every command of the documents with small stand-ins for checkpoints and data, cell by cell in one process.

    make rehearsal                           all commands, offline, from a clean cache; exit 1 if one fails
    python tests/rehearsal.py --chosen       one command for each value of the settings that choose a branch

The settings are those of the real profiles, except for the length of training and the sizes of batch and corpus.
The scores mean nothing. The last lines are a table of commands, seconds and errors.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.cli import main as command_line
from workbench.config import SEVEN_STS
from workbench.data import TRANSFER
from workbench.files import OWN_FILES

PROJECT = Path(__file__).resolve().parent.parent
# Settings that choose which cells and branches of a notebook run, and how its encoders are made.
BRANCHING: dict[str, tuple[str, ...]] = {
    "simcse": ("mlm_weight",),
    "rankcse": ("ranking", "info_nce", "consistency", "teachers"),
    "compcse": ("compose", "aggregation"),
    "cosent": ("architecture", "objective", "interaction_scale"),
    "mixed": ("compose", "cosent"),
    "rankencoder": ("combination", "start", "similarity", "inference_weight"),
}
SHORT: dict[str, Any] = {"max_steps": 2, "eval_steps": 2, "train_limit": 64, "batch_size": 8}
SHORT |= {"device": "cpu", "precision": "fp32"}


def training_commands() -> list[tuple[str, Any]]:
    """Return (command, settings) for each `workbench run` of the documents that needs no file of the reader's own."""
    from test_docs import COMMANDS, resolved

    return [(command, resolved(command)) for command in COMMANDS if not any(name in command for name in OWN_FILES)]


def branch(config: Any, name: str) -> str:
    """Return what chooses the branch: the number of teachers, otherwise the setting's value."""
    value = getattr(config, name)
    return str(len(value) if name == "teachers" else value)


def choose(commands: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return few of the commands (greedy) that still cover every value of every branching setting."""

    def covers(config: Any) -> set[tuple[str, str, str]]:
        return {(config.method, name, branch(config, name)) for name in BRANCHING[config.method]}

    missing = set().union(*(covers(config) for _, config in commands))
    taken: list[tuple[str, Any]] = []
    while missing:
        taken.append(max(commands, key=lambda item: len(covers(item[1]) & missing)))
        missing -= covers(taken[-1][1])
    return taken


def short_overrides(config: Any, *, all_sets: bool) -> dict[str, Any]:
    """Return the command's changes to its profile plus a short training; without `all_sets`, two of the seven sets."""
    short = SHORT | ({"corpus_size": 32} if config.method == "rankencoder" else {})
    skipped = set(TRANSFER) - {"cr", "trec"} if set(TRANSFER) <= set(config.suites) else set()  # folds; a test set
    if set(SEVEN_STS) <= set(config.suites) and not all_sets:
        skipped |= set(SEVEN_STS) - {"sick-test", "stsb-test"}
    if skipped:
        short["suites"] = [name for name in config.suites if name not in skipped]
    return config.changed() | {name: value for name, value in short.items() if name in type(config).model_fields}


def run_notebook(notebook: Path, parameters: dict[str, Any]) -> str:
    """Run the cells in this process and render each cell's last value; return "" or the first error."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                run_cell("".join(cell["source"]), space)
        except Exception as problem:
            line = traceback.extract_tb(problem.__traceback__)[-1]
            where = f"{Path(line.filename).name}:{line.lineno}"
            return f"cell {number}: {type(problem).__name__}: {str(problem)[:300]} ({where})"
        if "parameters" in cell["metadata"].get("tags", []):
            space |= parameters
    return ""


def run_cell(source: str, space: dict[str, Any]) -> None:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), space)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
        # A plotly figure renders by its bundle; as HTML it would be plotly.js, 4 MB, each time.
        kinds = ("_repr_mimebundle_",) if hasattr(value, "_ipython_display_") else ("_repr_mimebundle_", "_repr_html_")
        for kind in kinds:
            if hasattr(value, kind) and not isinstance(value, type):
                getattr(value, kind)()
        repr(value)


def other_commands(text: str) -> list[str]:
    """Return the commands of a text that train nothing: lists, settings, data, and evaluations."""
    blocks = [
        *re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL),
        *re.findall(r"`(workbench evaluate [^`]*)`", text),
    ]
    lines = [line.split("#")[0].strip() for line in "\n".join(blocks).splitlines() if line.startswith("workbench ")]
    several = [f"{line.split(' | ')[0].rsplit(' ', 1)[0]} {last}" for line in lines for last in line.split(" | ")[1:]]
    known = re.compile(r"workbench (runs|settings|data|evaluate|push)\b")
    return [line for line in [*several, *(line.split(" | ")[0] for line in lines)] if known.match(line)]


def run_command(command: str, folder: Path) -> str:
    """Run a shell command in `folder`, in this process; return "" or the last line of its error."""
    errors = io.StringIO()
    sys.argv = command.split()
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            command_line()
    except SystemExit as end:
        return (errors.getvalue().strip().splitlines() or [f"exit {end.code}"])[-1] if end.code else ""
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def write_stand_ins(commands: Sequence[tuple[str, Any]], others: Sequence[str], folder: Path) -> None:
    """Write checkpoints and data under the names in the commands, and the README's own file."""
    from stand_ins import data_root, encoders_of, hub_cache, sets_of
    from test_docs import evaluated

    names = dict.fromkeys(("FOLDER", "MODEL", "RUN"), "bert-base-uncased")
    bases = [evaluated(command, names) for command in others if command.startswith("workbench evaluate")]
    configs = [config for _, config in commands]
    hub_cache(folder / "home", sorted({base.encoder for base in bases}.union(*map(encoders_of, configs))))
    data_root(folder / "data", sorted(set().union(*map(sets_of, [*configs, *bases]))))
    lines = [f"query {n // 3} of mine,target {n} of mine,{n % 3}" for n in range(24)]  # eight queries of three pairs
    (folder / "mine.csv").write_text("\n".join(["sentence1,sentence2,score", *lines]) + "\n", encoding="utf-8")


def rehearse(
    commands: Sequence[tuple[str, Any]], others: Sequence[str], folder: Path, *, all_sets: bool
) -> Iterator[dict[str, Any]]:
    """Run the trainings, the notebooks that read finished runs, and the other commands; yield a row for each.

    all_sets: evaluate every training on all sets of the average, otherwise only the first of each method.
    """
    from workbench.evaluation import _transfer

    _transfer.FOLDS = 2  # ten folds execute the same code
    write_stand_ins(commands, others, folder)
    runs, notebooks = folder / "runs", PROJECT / "notebooks"
    methods = set()
    for command, config in commands:
        overrides = short_overrides(config, all_sets=all_sets or config.method not in methods)
        methods.add(config.method)
        (path,) = notebooks.glob(f"[0-9][0-9]_{config.method}.ipynb")
        values = {"profile": config.profile, "seed": config.seed, "overrides": overrides, "runs_root": str(runs)}
        yield timed(command, lambda path=path, values=values: run_notebook(path, values))
    for path in sorted(notebooks.glob("2[0-9]_*.ipynb")):
        for suite in ("sts-average", "stsb-test") if path.stem == "20_compare" else ("stsb-test",):
            values = {"runs_root": str(runs), "suite": suite, "samples": 20}
            yield timed(f"{path.stem} on {suite}", lambda path=path, values=values: run_notebook(path, values))
    run = str(next((path.parent for path in sorted(runs.glob("*/*/metrics.json"))), "world-encoder"))
    names = {"FOLDER": "bert-base-uncased", "MODEL": "bert-base-uncased", "RUN": run, "runs/simcse/DIGEST-s0": run}
    for command in others:
        words = " ".join(names.get(word, word) for word in command.split())
        yield timed(command, lambda words=words: run_command(words, folder))


def timed(command: str, work: Callable[[], str]) -> dict[str, Any]:
    started = time.perf_counter()
    row = {"command": command, "error": work(), "seconds": round(time.perf_counter() - started, 1)}
    print(f"{row['seconds']:6.1f} s  {row['error'] or 'passed'}  {command}", file=sys.stderr, flush=True)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chosen", action="store_true")
    chosen = parser.parse_args().chosen
    with tempfile.TemporaryDirectory() as folder:
        # Before any library reads them.
        os.environ |= {"HF_HOME": f"{folder}/home", "HF_HUB_OFFLINE": "1", "WORKBENCH_DATA": f"{folder}/data"}
        os.environ |= {"WORKBENCH_CACHE": f"{folder}/cache", "PLOTLY_RENDERER": "plotly_mimetype"}
        commands = choose(training_commands()) if chosen else training_commands()
        pages = ["README.md"] if chosen else ["README.md", "docs/reproducing.md"]
        others = [line for name in pages for line in other_commands((PROJECT / name).read_text(encoding="utf-8"))]
        rows = list(rehearse(commands, others, Path(folder), all_sets=not chosen))
    failed = [row for row in rows if row["error"]]
    print(*(f"{row['command']}: {row['error']}" for row in failed), sep="\n")
    print(f"{len(rows)} rehearsed, {len(failed)} failed, {sum(row['seconds'] for row in rows):.0f} s")
    return bool(failed)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    sys.exit(main())
