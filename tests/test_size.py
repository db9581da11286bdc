"""The library stays small and readable: syntax nodes in all, and per line of code.

Lines would reward dense code, so the budget counts nodes of the syntax tree, a docstring as two.
`python tests/test_size.py` prints the price list of docs/decisions.md.
"""

import ast
import functools
import io
import re
import tokenize
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
PACKAGE = PROJECT / "workbench"
DECISIONS = PROJECT / "docs" / "decisions.md"

# The budget is raised by the stated price of a feature, never by the density of a line.
MOST_NODES = 94_500
MOST_NODES_PER_LINE = 7.0
LONGEST_LINE = 100
LEAST_REMARKS = 0.05
MOST_PARALLEL_ASSIGNMENTS = 0.010

# Feature -> the modules that would go with it.
FEATURES = {
    "the seven methods": ["methods"],
    "losses": ["losses"],
    "settings": ["config"],
    "data: own files, catalogue, hub": ["data"],
    "encoders: finding, loading, pooling, speed, saving": ["encoder", "checkpoints", "teachers"],
    "training with exact resume": ["training"],
    "runs on disk": ["runs"],
    "sweeps, local and Slurm": ["sweeps"],
    "evaluation, transfer tasks, baselines": ["evaluation"],
    "metrics, intervals, tests, power": ["metrics"],
    "systems: scores from elsewhere": ["systems", "views/system_sources"],
    "comparison of runs": ["views/comparison", "views/run_tables", "views/run_picker"],
    "explorers of rankings and pairs": ["views/explorer", "views/pair_explorer", "views/queries"],
    "Ask, Why, and the page with an encoder": ["views/ask", "views/why", "views/offline"],
    "tables of the papers": ["views/papers"],
    "figures": ["views/figures", "views/_plot"],
    "phenomena": ["views/relations"],
    "teaching, and all for a class": ["teaching", "lessons", "views/board", "commands/lessons"],
    "other views": ["views"],
    "command line": ["commands", "__main__", "printing"],
    "the rest": [""],
}


@functools.cache
def modules() -> dict[str, str]:
    """Return module, such as "views/ask" -> source."""
    paths = sorted(PACKAGE.rglob("*.py"))
    names = [path.relative_to(PACKAGE).with_suffix("").as_posix() for path in paths]
    return {name: path.read_text(encoding="utf-8") for name, path in zip(names, paths, strict=True)}


@functools.cache
def count_nodes(source: str) -> int:
    """Return the nodes of the syntax tree; Load, Store and Del say nothing that is not written."""
    context = (ast.Load, ast.Store, ast.Del)
    return sum(not isinstance(node, context) for node in ast.walk(ast.parse(source)))


def docstring_lines(source: str) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if documented and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    return lines


@functools.cache
def code_and_remarks(source: str) -> tuple[set[int], set[int]]:
    """Return the numbers of the lines with code (no docstrings), and of those with a remark."""
    code: set[int] = set()
    remarks: set[int] = set()
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            remarks.add(token.start[0])
        elif token.type not in layout:
            code |= set(range(token.start[0], token.end[0] + 1))
    return code - docstring_lines(source), remarks


def is_parallel(node: ast.AST) -> bool:
    """Return whether this is an assignment such as `a, b = f(x), []`."""
    if not isinstance(node, ast.Assign):
        return False
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def price_list() -> dict[str, int]:
    """Return feature -> nodes; a module belongs to the first feature that names it."""
    prices = dict.fromkeys(FEATURES, 0)
    for name, source in modules().items():
        feature = next(
            feature
            for feature, owners in FEATURES.items()
            if any(name == owner or name.startswith(f"{owner}/") or not owner for owner in owners)
        )
        prices[feature] += count_nodes(source)
    return prices


def test_the_library_has_at_most_its_budget_of_nodes():
    nodes = sum(count_nodes(source) for source in modules().values())
    assert nodes <= MOST_NODES, "see CONTRIBUTING.md, Small"


def test_a_line_of_code_is_not_dense():
    nodes = sum(count_nodes(source) for source in modules().values())
    lines = sum(len(code_and_remarks(source)[0]) for source in modules().values())
    assert nodes <= MOST_NODES_PER_LINE * lines


def test_lines_fit_beside_each_other_and_remarks_say_why():
    sources = modules()
    too_long = [
        f"{name}:{number}"
        for name, source in sources.items()
        for number, line in enumerate(source.splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert not too_long
    lines = sum(len(source.splitlines()) for source in sources.values())
    remarks = sum(len(code_and_remarks(source)[1]) for source in sources.values())
    assert remarks >= LEAST_REMARKS * lines


def test_unlike_things_are_not_assigned_in_parallel():
    sources = modules().values()
    parallel = sum(is_parallel(node) for source in sources for node in ast.walk(ast.parse(source)))
    lines = sum(len(code_and_remarks(source)[0]) for source in sources)
    assert parallel <= MOST_PARALLEL_ASSIGNMENTS * lines


@pytest.mark.parametrize(
    ("source", "nodes", "code", "remarks"),
    [
        ("a = 1\n", 4, 1, 0),
        ('"""Text."""\n\n# why\na = f(b)  # and this\n', 8, 1, 2),
        ("def f():\n    '''Text.'''\n    return 1\n", 7, 2, 0),
    ],
)
def test_the_counts_are_those_of_small_examples(source: str, nodes: int, code: int, remarks: int):
    assert count_nodes(source) == nodes
    found_code, found_remarks = code_and_remarks(source)
    assert (len(found_code), len(found_remarks)) == (code, remarks)


def test_the_price_list_is_that_of_the_modules():
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", DECISIONS.read_text(encoding="utf-8"), re.M)
    listed = {feature: int(nodes.replace(",", "")) for feature, nodes in rows}
    prices = price_list()
    assert listed.keys() == prices.keys(), "print the list: python tests/test_size.py"
    far = [name for name in prices if abs(prices[name] - listed[name]) > 100 + prices[name] / 10]
    assert not far, "print the list: python tests/test_size.py"


if __name__ == "__main__":
    print("| feature | nodes |\n|---|---:|")
    for each, price in price_list().items():
        print(f"| {each} | {price:,} |")
