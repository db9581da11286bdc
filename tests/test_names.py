"""One name means one thing: a function or class of the top level is defined in one module only."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "workbench"
# Commands are named after the function that they call; each program has its own main.
COMMANDS = PACKAGE / "commands"
SHARED = {"main", "__getattr__", "__dir__"}


def test_a_function_or_class_is_defined_in_one_module_only():
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and path.parent != COMMANDS:
                modules[node.name].append(str(path.relative_to(PACKAGE)))
    assert not {
        name: paths for name, paths in modules.items() if len(paths) > 1 and name not in SHARED
    }
