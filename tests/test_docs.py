"""Documents keep their word: commands resolve, named functions and files exist."""

import csv
import importlib
import re
import shlex
from pathlib import Path

import pytest

from workbench.cli import overrides_of
from workbench.config import CONFIGS
from workbench.data import dataset_names

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*PROJECT.glob("docs/*.md"), PROJECT / "README.md", PROJECT / "data" / "README.md"])
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
COMMANDS = sorted({" ".join(found.split()) for found in re.findall(r"workbench run [a-z][^`\n|#]*", TEXT)})


def parse(command: str) -> dict:
    words = shlex.split(command)[2:]
    parsed: dict = {"method": words.pop(0), "profile": "demo", "seed": "0", "set": []}
    while words:
        option = words.pop(0)
        if option == "--html":
            continue
        value = words.pop(0)
        if option == "--set":
            parsed["set"].append(value)
        else:
            assert option in ("--profile", "--seed", "--runs"), f"{command}: {option}"
            parsed[option[2:]] = value
    return parsed


def test_there_are_commands_for_every_method():
    assert {parse(command)["method"] for command in COMMANDS} == set(CONFIGS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_documents_resolves(command: str):
    parsed = parse(command)
    config = CONFIGS[parsed["method"]].from_parameters(
        parsed["profile"], 0 if "N" in parsed["seed"] else int(parsed["seed"]), overrides_of(parsed["set"])
    )
    known = set(dataset_names())
    for name in (config.train, config.dev, *config.suites):
        assert name in known, f"{command}: no data set {name!r}"


@pytest.mark.parametrize(
    ("paper", "tables", "tasks"),
    [("rankcse", ("2", "4", "5"), {"average"}), ("compcse", ("1", "2", "3", "4", "5", "6"), {"average", "STS-B dev"})],
)
def test_every_published_value_of_a_method_has_its_command(paper: str, tables: tuple[str, ...], tasks: set[str]):
    name = {"rankcse": "RankCSE", "compcse": "CompCSE"}[paper]
    with (PROJECT / "data" / "published" / f"{paper}.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] in [f"{name} table {number}" for number in tables]]
    own = [row for row in rows if row["task"] in tasks and (row["method"].startswith(name) or row["task"] != "average")]
    lines = (PROJECT / "docs" / "reproducing.md").read_text(encoding="utf-8").splitlines()
    expected = {line.split(" | ")[3] for line in lines if f"| `workbench run {paper} " in line}
    # A command a value: at most the dev value stands beside a test value.
    alone = {value for cell in expected if (value := re.fullmatch(r"([\d.]+)?(?:, )?(?:dev ([\d.]+))?", cell))}
    missing = [row for row in own if row["value"] not in {text for value in alone for text in value.groups()}]
    assert len(own) > 20
    assert not missing


@pytest.mark.parametrize(
    "file", sorted(set(re.findall(r"`((?:tests|notebooks|benchmarks|docs|data)/[\w./-]+)`", TEXT)))
)
def test_every_file_that_the_documents_name_exists(file: str):
    assert (PROJECT / file).exists()


FUNCTIONS = sorted(
    set(re.findall(r"`((?:losses|metrics|ranks|methods|rankings|runs|splitting|bases)(?:\.\w+)+)", TEXT))
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_the_documents_name_exists(name: str):
    parts = name.split(".")
    if parts[-1] == "py":
        assert (PROJECT / "workbench" / "/".join(parts[:-1])).with_suffix(".py").is_file()
        return
    found: object = importlib.import_module(f"workbench.{parts[0]}")
    for part in parts[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{part}")  # type: ignore[attr-defined]
