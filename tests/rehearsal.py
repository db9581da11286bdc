"""Every command of the documents, executed with small stand-ins: the method's notebook, cell by cell, in one process.

    make rehearsal                           all commands, offline, from a clean cache; exit 1 when one of them fails
    python tests/rehearsal.py --chosen       a command for each value of the settings that decide what runs
    python tests/rehearsal.py --method NAME --notebooks DIR --out FILE    the trainings of one method alone

It ends in a table: command, exit, seconds, first error; and in the time of all. What runs is what would run at full
size: the real settings of the profile, but for the length of training and the sizes of batch and corpus. What is
measured means nothing.
"""

import argparse
import ast
import contextlib
import errno
import io
import json
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.cli import main as main_of_the_command
from workbench.config import SEVEN_STS
from workbench.data import TRANSFER
from workbench.files import OWN_FILES

PROJECT = Path(__file__).resolve().parent.parent
# The settings that decide which cells and branches of a notebook run, and how its encoders are made.
DECIDES: dict[str, tuple[str, ...]] = {
    "simcse": ("encoder", "mlm_weight"),
    "rankcse": ("encoder", "ranking", "beta", "gamma", "info_nce", "consistency", "teachers"),
    "compcse": ("encoder", "compose", "aggregation", "subsampling", "parts", "subvector"),
    "cosent": ("encoder", "train", "model", "objective", "pooling", "interaction_scale"),
    "mixed": ("encoder", "compose", "gamma", "rank_lists", "rank_weight", "cosent", "inference_weight"),
    "rankencoder": (
        "encoder",
        "base",
        "combination",
        "start",
        "similarity",
        "inference_weight",
        "lower",
        "suites",
        "mlm_weight",
    ),
}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, one's share of it, what a file may hold
SHORT: dict[str, Any] = {"max_steps": 2, "eval_steps": 2, "train_limit": 64, "batch_size": 8}
SHORT |= {"device": "cpu", "precision": "fp32"}


def documented() -> list[tuple[str, Any]]:
    """(command, its settings) of every command of the documents, each once, but for those with files of one's own."""
    from test_docs import COMMANDS, resolved

    return [(command, resolved(command)) for command in COMMANDS if not any(name in command for name in OWN_FILES)]


def deciding(config: Any, name: str) -> str:
    """The value of a setting as far as it decides: any d0 is one, and of an encoder its family, not its size."""
    value = str(getattr(config, name))
    if name == "subvector":
        return "some" if config.subvector else "none"
    return (
        next((kind for kind in ("chinese", "roberta", "bert") if kind in value), value) if name == "encoder" else value
    )


def chosen(commands: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """As few of the commands as show every value of every deciding setting at least once, method by method.

    Two commands that differ in the value of one of these settings may run other cells; every such value stands in some
    chosen command. Greedy: the command that shows most of what has not been shown comes next.
    """

    def shown(config: Any) -> set[tuple[str, str, str]]:
        return {(config.method, name, deciding(config, name)) for name in DECIDES[config.method]}

    missing = set().union(*(shown(config) for _, config in commands))
    taken: list[tuple[str, Any]] = []
    while missing:
        command, config = max(commands, key=lambda item: len(shown(item[1]) & missing))
        taken.append((command, config))
        missing -= shown(config)
    return taken


def overrides_in(config: Any, *, average: bool) -> dict[str, Any]:
    """What the command changed in its profile, and the short training on top; with or without all sets of the average.

    Without: one in which a sentence has a pair, and one in which some have five; the others are made as that is.
    """
    short = SHORT | ({"corpus_size": 32} if config.method == "rankencoder" else {})
    if set(TRANSFER) <= set(config.suites):  # one of each protocol: the others are cut into folds as CR is
        short["suites"] = [name for name in config.suites if name not in ("mr", "subj", "mpqa")]
    if set(SEVEN_STS) <= set(config.suites) and not average:
        short["suites"] = [
            name for name in config.suites if name not in SEVEN_STS or name in ("sick-test", "stsb-test")
        ]
    return config.changed() | {name: value for name, value in short.items() if name in type(config).model_fields}


def run_cells(notebook: Path, parameters: dict[str, Any]) -> str:
    """Runs the cells in this process and shows each cell's last value as a notebook would; "", or what went wrong."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                _run_cell("".join(cell["source"]), space)
        except Exception as problem:
            line = traceback.extract_tb(problem.__traceback__)[-1]
            where = f"{Path(line.filename).name}:{line.lineno}"
            return f"cell {number}: {type(problem).__name__}: {str(problem)[:300]} ({where})"
        if "parameters" in cell["metadata"].get("tags", []):
            space |= parameters
    return ""


def _run_cell(source: str, space: dict[str, Any]) -> None:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), space)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), space)
        # A figure of plotly shows itself by its bundle; as HTML it is plotly.js, 4 MB, each time.
        ways = ("_repr_mimebundle_",) if hasattr(value, "_ipython_display_") else ("_repr_mimebundle_", "_repr_html_")
        for way in ways:
            if hasattr(value, way) and not isinstance(value, type):
                getattr(value, way)()
        repr(value)


def rehearse(
    commands: Sequence[tuple[str, Any]], standing: Sequence[str], folder: Path, notebooks: Path, *, whole: bool = True
) -> Iterator[dict[str, Any]]:
    """Runs the commands; then, where `standing` has what stands in the documents and trains nothing, the notebooks that
    look at finished runs over what is left, and those; a row each.

    whole: every command with all sets of the average; else a method's first alone.
    """
    from workbench.evaluation import _transfer

    _transfer.FOLDS = 2  # each of ten, a choice among ten others within it, does what the others do
    _stand_ins(commands, standing, folder)
    runs = folder / "runs"
    methods = set()
    for command, config in commands:
        average = whole or config.method not in methods
        methods.add(config.method)
        (path,) = notebooks.glob(f"[0-9][0-9]_{config.method}.ipynb")
        values = {"profile": config.profile, "seed": config.seed, "overrides": overrides_in(config, average=average)}
        yield _row(command, lambda path=path, values=values: run_cells(path, values | {"runs_root": str(runs)}))
    for path in sorted(notebooks.glob("2[0-9]_*.ipynb")) if standing else ():
        for suite in ("sts-average", "stsb-test") if path.stem == "20_compare" else ("stsb-test",):
            values = {"runs_root": str(runs), "suite": suite, "samples": 20}
            yield _row(f"{path.stem} on {suite}", lambda path=path, values=values: run_cells(path, values))
    made = next((path.parent for path in sorted(runs.glob("*/*/metrics.json"))), "world-encoder")
    for command in standing:
        yield _row(command, lambda command=command: run_command(_filled(command, str(made)), folder))


def _stand_ins(commands: Sequence[tuple[str, Any]], standing: Sequence[str], folder: Path) -> None:
    """Checkpoints and data under the names that the commands say, and README's file of one's own."""
    from stand_ins import data_root, encoders_of, hub_cache, sets_of
    from test_docs import evaluated

    names = dict.fromkeys(("FOLDER", "MODEL", "RUN"), "bert-base-uncased")
    bases = [evaluated(command, names) for command in standing if command.startswith("workbench evaluate")]
    configs = [config for _, config in commands]
    hub_cache(folder / "home", sorted({base.encoder for base in bases}.union(*map(encoders_of, configs))))
    data_root(folder / "data", sorted(set().union(*map(sets_of, [*configs, *bases]))))
    # Eight queries of three pairs.
    lines = [f"query {n // 3} of mine,target {n} of mine,{n % 3}" for n in range(24)]
    (folder / "mine.csv").write_text("\n".join(["sentence1,sentence2,score", *lines]) + "\n", encoding="utf-8")


def _filled(command: str, run: str) -> str:
    """A command with a name in place of what stands for one."""
    names = {"FOLDER": "bert-base-uncased", "MODEL": "bert-base-uncased", "RUN": run, "runs/simcse/DIGEST-s0": run}
    return " ".join(names.get(word, word) for word in command.split())


def looking(text: str) -> list[str]:
    """A text's commands that train nothing: looking at runs, settings and data, and evaluating what is there."""
    block = "\n".join(
        [*re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL), *re.findall(r"`(workbench evaluate [^`]*)`", text)]
    )
    found = [line.split("#")[0].strip() for line in block.splitlines() if line.startswith("workbench ")]
    # What stands between bars are several commands; `fetch` is of the network.
    turns = [f"{line.split(' | ')[0].rsplit(' ', 1)[0]} {last}" for line in found for last in line.split(" | ")[1:]]
    turns += [line.split(" | ")[0] for line in found]
    known = re.compile(r"workbench (runs|settings|data|evaluate|push)\b")
    return [turn for turn in turns if known.match(turn) and "fetch" not in turn]


def run_command(command: str, folder: Path) -> str:
    """Runs a command of the shell in `folder`, in this process; "", or the last line that it complained in."""
    said = io.StringIO()
    sys.argv = command.split()
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            main_of_the_command()
    except SystemExit as end:
        return (said.getvalue().strip().splitlines() or [f"exit {end.code}"])[-1] if end.code else ""
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return ""


def _row(name: str, work: Callable[[], str]) -> dict[str, Any]:
    started = time.perf_counter(), sum(os.times()[:4])
    failed = work()
    seconds, cpu = time.perf_counter() - started[0], sum(os.times()[:4]) - started[1]  # and of what it started
    row = {"command": name, "exit": int(bool(failed)), "seconds": round(seconds, 1), "cpu": round(cpu, 2)}
    print(f"{seconds:6.1f} s  {failed or 'well'}  {name}", file=sys.stderr, flush=True)
    return row | {"failed": failed}


def collected(rows: Iterable[dict[str, Any]], folder: Path) -> tuple[list[dict[str, Any]], str]:
    """The rows, and why they end early: "" or that there is no space left, after which everything would fail."""
    found: list[dict[str, Any]] = []
    full = f"no space left under {folder}: {{}} commands ended before that; free some, or give TMPDIR=FOLDER"
    try:
        for row in rows:
            if _full(row["failed"]):
                return found, full.format(len(found))
            found.append(row)
    except Exception as problem:  # safetensors has an error of its own
        if not _full(str(problem)):
            raise
        return found, full.format(len(found))
    return found, ""


def _full(said: str) -> bool:
    return any(os.strerror(number) in said for number in FULL)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """command | exit | seconds | first error."""
    width = max((len(row["command"]) for row in rows), default=7)
    lines = [f"{'command':<{width}}  exit  seconds  first error"]
    lines += [
        f"{row['command']:<{width}}  {row['exit']:>4}  {row['seconds']:>7.1f}  {row['failed']}".rstrip() for row in rows
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chosen", action="store_true")
    parser.add_argument("--method", default="")
    parser.add_argument("--notebooks", type=Path, default=PROJECT / "notebooks")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Before any library reads them.
        os.environ |= {"HF_HOME": f"{folder}/home", "HF_HUB_OFFLINE": "1", "WORKBENCH_DATA": f"{folder}/data"}
        os.environ |= {"WORKBENCH_CACHE": f"{folder}/cache", "PLOTLY_RENDERER": "plotly_mimetype"}
        commands = [found for found in documented() if given.method in ("", found[1].method)]
        commands = chosen(commands) if given.chosen else commands
        pages = ["README.md"] if given.chosen else ["README.md", "docs/reproducing.md"]
        pages = [] if given.method else pages
        standing = [found for name in pages for found in looking((PROJECT / name).read_text(encoding="utf-8"))]
        rehearsed = rehearse(commands, standing, Path(folder), given.notebooks.resolve(), whole=not given.chosen)
        rows, full = collected(rehearsed, Path(folder))
    print(table(rows))
    failed, seconds = sum(row["exit"] for row in rows), sum(row["seconds"] for row in rows)
    print(
        f"{len(rows)} rehearsed, {failed} failed, {seconds:.0f} s, {sum(row['cpu'] for row in rows):.0f} s of processor"
    )
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if full:
        print(full, file=sys.stderr)
    return bool(failed or full)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    sys.exit(main())
