"""Documents agree with the code: commands resolve, named functions and files exist."""

import csv
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from workbench.commands.options import overrides_of
from workbench.config import (
    BUNDLED_MODELS,
    CONFIGS,
    SEVEN_STS,
    BaselineConfig,
    CoSENTConfig,
    TrainingConfig,
)
from workbench.data import TRANSFER, dataset_names, load_pairs, split
from workbench.data._catalogue import CATALOGUE
from workbench.data._check import write_split
from workbench.files import OWN_FILES

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    [*PROJECT.glob("docs/*.md"), PROJECT / "README.md", PROJECT / "data" / "README.md"]
)
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
LOOP = re.compile(r"for (\w+) in ([^;`]+); do (workbench run [^;`]+); done")


def commands(text: str) -> list[str]:
    """Return the commands in a text; a shell loop gives one command per iteration, in order."""
    turns = [
        c.replace(f"${name}", value)
        for name, values, c in LOOP.findall(text)
        for value in values.split()
    ]
    found = [*turns, *re.findall(r"workbench run [a-z][^`\n|#]*", LOOP.sub("", text))]
    return [" ".join(command.split()) for command in found]


COMMANDS = sorted(set(commands(TEXT)))


def parse(command: str) -> dict:
    words = shlex.split(command)[2:]
    parsed: dict = {"method": words.pop(0), "profile": "demo", "seed": "0", "set": []}
    while words:
        option = words.pop(0)
        if option == "--html":
            continue
        if not option.startswith("-"):
            parsed["set"].append(option)
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


def resolved(command: str) -> TrainingConfig:
    parsed = parse(command)
    seed = 0 if "N" in parsed["seed"] else int(parsed["seed"])
    return CONFIGS[parsed["method"]].from_parameters(
        parsed["profile"], seed, overrides_of(parsed["set"])
    )


EVALUATES = sorted(set(re.findall(r"`(workbench evaluate [^`]+)`", TEXT)))


def evaluated(command: str, names: Mapping[str, str]) -> BaselineConfig:
    """Return the settings of a `workbench evaluate`; `names` maps placeholders to names."""
    _, _, model, *rest = (names.get(word, word) for word in shlex.split(command))
    options = [(rest[i], rest[i + 1]) for i in range(0, len(rest), 2)]
    given = {"encoder": model} | {name[2:]: value for name, value in options if name == "--suites"}
    given |= overrides_of([value for name, value in options if name == "--set"])
    return BaselineConfig.from_parameters(dict(options).get("--profile", "as-it-is"), 0, given)


@pytest.mark.parametrize("command", EVALUATES)
def test_every_evaluation_of_the_documents_resolves(command: str):
    suites = evaluated(command, dict.fromkeys(("MODEL", "RUN", "FOLDER"), "world-encoder")).suites
    assert {*suites} <= {*dataset_names(), *TRANSFER}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_documents_resolves(command: str):
    config = resolved(command)
    known = {*dataset_names(), *TRANSFER}
    for name in (config.train, *config.dev.split("+"), *config.suites):
        assert name in known or name.endswith(OWN_FILES), f"{command}: no data set {name!r}"


@pytest.mark.parametrize(
    ("paper", "tables", "tasks"),
    [
        ("rankcse", ("2", "4", "5"), {"average"}),
        ("compcse", ("1", "2", "3", "4", "5", "6"), {"average", "STS-B dev"}),
    ],
)
def test_every_published_value_of_a_method_has_its_command(
    paper: str, tables: tuple[str, ...], tasks: set[str]
):
    name = {"rankcse": "RankCSE", "compcse": "CompCSE"}[paper]
    with (PROJECT / "data" / "published" / f"{paper}.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["table"] in [f"{name} table {number}" for number in tables]
        ]
    own = [
        row
        for row in rows
        if row["task"] in tasks and (row["method"].startswith(name) or row["task"] != "average")
    ]
    lines = (PROJECT / "docs" / "reproducing.md").read_text(encoding="utf-8").splitlines()
    expected = {line.split(" | ")[3] for line in lines if f"| `workbench run {paper} " in line}
    # One value per command, or a test value and its dev value.
    alone = {
        value
        for cell in expected
        if (value := re.fullmatch(r"([\d.]+)?(?:, )?(?:dev ([\d.]+))?", cell))
    }
    missing = [
        row
        for row in own
        if row["value"] not in {text for value in alone for text in value.groups()}
    ]
    assert len(own) > 20
    assert not missing


with (PROJECT / "data" / "published" / "cosent.csv").open(encoding="utf-8", newline="") as table:
    TASKS = {row["suite"]: row["task"] for row in csv.DictReader(table)}
BACKBONES = {
    "bert-base-uncased": "BERT-base",
    "bert-large-uncased": "BERT-large",
    "bert-base-chinese": "BERT-base",
}
BACKBONES |= {"roberta-base": "RoBERTa-base", "roberta-large": "RoBERTa-large"}
BACKBONES |= {"hfl/chinese-roberta-wwm-ext": "RoBERTa-base"}


def published_name(config: CoSENTConfig, table: str) -> str:
    """Return the name that the published tables use for a run of these settings."""
    if config.architecture == "cross-encoder":
        return {"cosent": "interaction CoSENT", "cross_entropy": "interaction CE"}[config.objective]
    transfer = "nli" in config.train and config.suites != ["allnli-test"]
    pooling = {"mean": "Mean", "cls": "CLS", "max": "Max", "avg_first_last": "first-last"}[
        config.pooling
    ]
    if table in ("VIII", "IX"):
        return f"CoSENT{'-NLI' if transfer else ''} {pooling}"
    if transfer:
        return {"cosent": "CoSENT-NLI", "softmax": "SBERT-NLI"}[config.objective]
    contrastive = f"SBERT contrastive epsilon={config.epsilon:g}"
    names = {
        "cosent": "CoSENT",
        "mse": "SBERT MSE",
        "softmax": "SBERT softmax",
        "contrastive": contrastive,
    }
    return names[config.objective]


def test_every_command_of_cosent_means_the_published_value_beside_it():
    with (PROJECT / "data" / "published" / "cosent.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            (r["table"].split()[-1], r["model"], r["method"], r["task"], r["value"])
            for r in csv.DictReader(file)
        ]
    published = {row[:4]: row[4] for row in rows}
    named = set()
    for line in (PROJECT / "docs" / "reproducing.md").read_text(encoding="utf-8").splitlines():
        found = re.search(r"\(table ([IVX]+).*workbench run cosent", line)
        if found is None:
            continue
        _, command, _, expected, *_ = line.split(" | ")
        runs = [
            config
            for turn in commands(command)
            if isinstance(config := resolved(turn), CoSENTConfig)
        ]
        keys = [
            (found[1], BACKBONES[config.encoder], published_name(config, found[1]), task)
            for config in runs
            for task in (
                ["average"]
                if config.suites == SEVEN_STS
                else [TASKS[suite] for suite in config.suites]
            )
        ]
        assert [published[key] for key in keys] == expected.split(" / "), line
        named |= set(keys)
    # Of table III the averages; of others the values, not their averages; table V is of transfer
    # tasks, X is judged; mean pooling in VIII is IV again. What the paper quotes has no command.
    trained = {
        key
        for key in published
        if key[2].startswith(("CoSENT", "SBERT", "interaction")) and key[0] not in ("V", "X")
    }
    trained -= {key for key in trained if key[3] == "row average" or key[2] == "CoSENT Mean"}
    trained -= {key for key in trained if key[0] == "III" and key[3] != "average"}
    assert len(trained) > 200
    assert trained <= named


@pytest.mark.parametrize(
    "file", sorted(set(re.findall(r"`((?:tests|notebooks|benchmarks|docs|data)/[\w./-]+)`", TEXT)))
)
def test_every_file_that_the_documents_name_exists(file: str):
    assert (PROJECT / file).exists()


PACKAGES = "losses|metrics|methods|runs|checkpoints|evaluation|views|teaching"
FUNCTIONS = sorted(set(re.findall(rf"`((?:{PACKAGES})(?:\.\w+)+)", TEXT)))


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


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(PROJECT).as_posix()
)
def test_every_link_of_a_document_leads_to_a_file_and_a_heading(document: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        if "://" in target:
            continue
        linked = document.parent / path if path else document
        assert linked.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [
                re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles
            ], target


@pytest.mark.slow
def test_the_site_is_built_without_a_network_and_every_link_in_it_leads_somewhere(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {
        path.relative_to(tmp_path / "site").as_posix(): path
        for path in (tmp_path / "site").rglob("*.html")
    }
    made = {
        *(f"{path.stem}.html" for path in PROJECT.glob("docs/*.md")),
        *(f"methods/{name}.html" for name in CONFIGS),
    }
    assert made <= set(pages)
    for page, name in {"losses": "info_nce", "encoder": "Encoder.encode"}.items():
        text = pages[f"api/{page}.html"].read_text(encoding="utf-8")
        assert re.search(rf'id="workbench\.{page}\.\w+\.{re.escape(name)}"', text)
    ours = {
        name: path.read_text(encoding="utf-8")
        for name, path in pages.items()
        if not name.startswith("notebooks/")
    }
    for name, text in ours.items():
        fetched = re.findall(r"<(?:script|img|link)[^>]*(?:src|href)=\"(https?:[^\"]+)", text)
        assert not fetched, f"{name} fetches {fetched}"
        for target in re.findall(
            r"<(?:a|img|script|link)[^>]* (?:src|href)=\"(?!\w+:|#|/)([^\"#?]+)", text
        ):
            assert (pages[name].parent / target).exists(), f"{name}: {target}"


def test_the_tables_of_results_are_those_of_the_recorded_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PROJECT / "experiments"))
    texts = importlib.import_module("claims").written()
    assert {path: path.read_text(encoding="utf-8") for path in texts} == texts


@pytest.mark.parametrize(
    "figure", sorted(PROJECT.glob("docs/**/*.svg")), ids=lambda path: path.name
)
def test_every_figure_is_well_formed(figure: Path):
    # A browser shows nothing below the first fault.
    assert ElementTree.parse(figure).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(PROJECT).as_posix()
)
def test_no_placeholder_of_a_document_is_swallowed_as_a_tag(document: Path):
    text = document.read_text(encoding="utf-8")
    without_code = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->", "", text, flags=re.DOTALL)
    tags = set(re.findall(r"</?([A-Za-z][^>\s/]*)[^>\n]*>", without_code))
    assert tags <= {"a", "br", "details", "img", "picture", "source", "sub", "summary", "sup"}


def test_the_run_of_the_page_on_own_data_is_that_of_its_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    page = (PROJECT / "docs" / "own-data.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    parts = split(load_pairs(PROJECT / "docs" / "tickets.csv"), dev=0.25, test=0.25)
    write_split(parts, Path("parts"))
    [trained] = [command for command in commands(page) if "epochs=20" in command]
    assert set(re.findall(r"runs/cosent/(\w+)-s0", page)) == {resolved(trained).digest()}


def test_each_bundled_set_and_encoder_has_a_row_in_the_page_of_the_data():
    page = (PROJECT / "data" / "README.md").read_text(encoding="utf-8")
    table = page.partition("## Bundled sets")[2].partition("###")[0]
    names = [name for name, entry in CATALOGUE.items() if entry.bundled]
    names += BUNDLED_MODELS
    assert "world-train" in names
    missing = [name for name in names if f"`{name}`" not in table]
    assert not missing
