"""Every command of the documents, executed with small stand-ins: the method's notebook, cell by cell, in one process.

    python tests/rehearsal.py                all commands (minutes); exit 1 when one of them fails
    python tests/rehearsal.py --chosen       a command for each value of the settings that decide what runs
    python tests/rehearsal.py --notebooks DIR --out FILE

What runs is what would run at full size: the real settings of the profile, but for the length of training and the size
of a batch. What is measured means nothing.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
# The settings that decide which cells and branches of a notebook run, and how its encoders are made.
DECIDES: dict[str, tuple[str, ...]] = {
    "simcse": ("encoder",),
    "rankcse": ("encoder", "ranking", "beta", "gamma", "info_nce", "consistency", "teachers"),
    "compcse": ("encoder", "compose", "aggregation", "subsampling", "parts", "subvector"),
    "cosent": ("encoder", "train", "model", "objective", "pooling", "interaction_scale"),
    "rankencoder": ("encoder", "base", "combination", "start", "similarity", "inference_weight", "lower", "suites"),
}
SHORT: dict[str, Any] = {"max_steps": 2, "eval_steps": 1, "batch_size": 8, "device": "cpu", "precision": "fp32"}


def documented() -> list[tuple[str, Any]]:
    """(command, its settings) of every command of the documents, each command once."""
    from test_docs import COMMANDS, resolved

    return [(command, resolved(command)) for command in COMMANDS]


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


def overrides_in(config: Any) -> dict[str, Any]:
    """What the command changed in its profile, and the short training on top."""
    table = config.table()
    changed = {name: getattr(config, name) for name in table.loc[table["changed"], "setting"]}
    short = SHORT | ({"corpus_size": 32} if config.method == "rankencoder" else {})
    return changed | {name: value for name, value in short.items() if name in type(config).model_fields}


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
        for way in ("_repr_mimebundle_", "_repr_html_"):
            if hasattr(value, way) and not isinstance(value, type):
                getattr(value, way)()
        repr(value)


def rehearse(commands: Sequence[tuple[str, Any]], folder: Path, notebooks: Path) -> list[dict[str, Any]]:
    """Runs the commands, and then the notebooks that look at finished runs over what they left; a row each."""
    from stand_ins import data_root, encoders_of, hub_cache, sets_of

    hub_cache(folder / "home", sorted(set().union(*(encoders_of(config) for _, config in commands))))
    data_root(folder / "data", sorted(set().union(*(sets_of(config) for _, config in commands))))
    runs, rows = folder / "runs", []
    for command, config in commands:
        (path,) = notebooks.glob(f"[0-9][0-9]_{config.method}.ipynb")
        values = {"profile": config.profile, "seed": config.seed, "overrides": overrides_in(config)}
        rows.append(_row(command, path, values | {"runs_root": str(runs)}))
    for path in sorted(notebooks.glob("2[0-9]_*.ipynb")):
        for suite in ("sts-average", "stsb-test") if path.stem == "20_compare" else ("stsb-test",):
            values = {"runs_root": str(runs), "suite": suite, "samples": 20}
            rows.append(_row(f"{path.stem} on {suite}", path, values))
    return rows


def _row(name: str, path: Path, parameters: dict[str, Any]) -> dict[str, Any]:
    started = time.process_time()
    failed = run_cells(path, parameters)
    row = {"command": name, "failed": failed, "cpu": round(time.process_time() - started, 2)}
    print(f"{row['cpu']:6.1f} s  {failed or 'well'}  {name}", file=sys.stderr, flush=True)
    return row


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
        rows = rehearse(chosen(commands) if given.chosen else commands, Path(folder), given.notebooks.resolve())
    failed = [row for row in rows if row["failed"]]
    print(f"{len(rows)} rehearsed, {len(failed)} failed, {sum(row['cpu'] for row in rows):.0f} s of one processor")
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return bool(failed)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    sys.exit(main())
