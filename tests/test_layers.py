"""The layers of the library, from its import statements."""

import ast
import functools
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "workbench"

# From the ground up: a module imports from the layers under its own, or from its own layer, without
# a circle.
LAYERS = [
    {"errors", "files", "printing", "words"},
    {"config"},
    {"metrics", "losses"},
    {"checkpoints", "data", "runs", "notebook"},
    {"encoder", "teachers"},
    {"methods", "evaluation", "training", "systems"},
    {"views", "look", "teaching"},
    {"execution", "sweeps", "lessons", "commands", "__main__"},
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
NO_TORCH = {
    "errors",
    "files",
    "printing",
    "words",
    "config",
    "metrics",
    "checkpoints",
    "runs",
    "notebook",
    "data",
    "evaluation",
    "systems",
    "views",
    "execution",
    "sweeps",
    "commands",
}


@functools.cache
def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@functools.cache
def imports(path: Path) -> set[str]:
    """Return all modules imported in the file, including inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def owner(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


def test_every_module_has_a_layer():
    assert {owner(name) for name in modules()} - {"__init__"} <= set(LAYER)


def test_modules_import_from_their_own_layer_or_lower_ones_without_a_circle():
    used = {name: set[str]() for name in LAYER}
    for name, path in modules().items():
        if owner(name) != "__init__":
            parts = [imported.split(".") for imported in imports(path)]
            used[owner(name)] |= {
                part[1]
                for part in parts
                if part[0] == "workbench" and part[1:2] and part[1] in LAYER
            }
    wrong = [
        (name, each)
        for name, others in used.items()
        for each in others
        if LAYER[each] > LAYER[name]
    ]
    assert not wrong
    # Or CycleError.
    list(TopologicalSorter({name: others - {name} for name, others in used.items()}).static_order())


def test_methods_do_not_import_each_other():
    shared = {
        "__init__",
        "base",
        "splitting",
        "masked_language",
        "rank_mixture",
        "rank_targets",
    } | {
        "composition",
        "distributed",
        "rank_distillation",
        "rank_method",
        "rank_vectors",
        "teacher_lists",
    }
    shared |= {"mixed"}  # which is all of them together
    ours = {name.split(".")[1] for name in modules() if name.startswith("methods.")} - shared
    wrong = [
        f"{name} imports {imported}"
        for name, path in modules().items()
        if name.startswith("methods.") and name.split(".")[1] in ours
        for imported in imports(path)
        if imported.startswith("workbench.methods.")
        and imported.split(".")[2] in ours - {name.split(".")[1]}
    ]
    assert not wrong


def test_only_live_views_import_widgets():
    names = (
        "_table",
        "ask",
        "explorer",
        "notebooks",
        "page",
        "pair_explorer",
        "papers",
        "relations",
        "run_picker",
        "watched",
    )
    live, widgets = {f"views.{name}" for name in names}, {"anywidget", "ipywidgets", "IPython"}
    found = {
        name
        for name, path in modules().items()
        if {i.split(".")[0] for i in imports(path)} & widgets
    }
    wrong = found - live
    assert not wrong


def test_runs_and_views_load_neither_torch_nor_scipys_statistics_and_runs_no_widgets():
    names = sorted(
        name for name in NO_TORCH if (PACKAGE / f"{name}.py").is_file() or (PACKAGE / name).is_dir()
    )
    # Which --help and a refusal need not.
    code = "import sys, workbench.commands.app\nassert 'pandas' not in sys.modules\n"
    code += "import workbench\nworkbench.list_runs\n"
    code += "from workbench.evaluation import ranking_table\n"
    code += "".join(f"import workbench.{name}\n" for name in names if name != "views")
    code += "assert not {'torch', 'ipywidgets', 'anywidget', 'scipy.stats'} & set(sys.modules)\n"
    code += "import workbench.views\n"
    code += "assert not {'torch', 'scipy.stats', 'sklearn'} & set(sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_imported_from_a_package_is_public_to_type_checkers():
    """Check that re-exports are written `import name as name`, which py.typed requires."""
    own = {}
    for path in PACKAGE.rglob("__init__.py"):
        nodes = [
            node
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ImportFrom)
        ]
        name = ".".join(path.relative_to(PACKAGE.parent).parent.parts)
        own[name] = {
            f"{name}.{item.name}"
            for node in nodes
            for item in node.names
            if item.asname != item.name
        }
    asked = [
        path for folder in (PACKAGE, PACKAGE.parent / "tests") for path in folder.rglob("*.py")
    ]
    wrong = {str(path.name): imports(path) & set().union(*own.values()) for path in asked}
    assert not {name: found for name, found in wrong.items() if found}
