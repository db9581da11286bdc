"""A user's small files, settings that train on them in a moment, and the command line."""

import csv
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forking import python

from .make_losses import SAME

PROJECT = Path(__file__).resolve().parents[2]
METHOD_NAMES = ["simcse", "rankcse", "cosent", "compcse", "rankencoder", "mixed", "lists"]


def write_pairs(file: Path, first: list[str], second: list[str]) -> Path:
    """Write scored pairs as CSV; the score is the number of words that both sentences have."""
    with file.open("w", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(["sentence1", "sentence2", "score"])
        rows.writerows(
            [a, b, len({*a.split()} & {*b.split()})] for a, b in zip(first, second, strict=True)
        )
    return file


@pytest.fixture(scope="session")
def files(tiny_sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Return paths of a user's files: sentences, and scored pairs for training, dev and test."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "sentences.txt").write_text("\n".join(tiny_sentences) + "\n")
    queries, rest = [one for one in tiny_sentences[:6] for _ in range(5)], tiny_sentences[6:]
    return SimpleNamespace(
        folder=folder,
        sentences=folder / "sentences.txt",
        train=write_pairs(folder / "pairs.csv", queries, rest[:30]),
        dev=write_pairs(folder / "dev.csv", queries, rest[10:40]),
        test=write_pairs(folder / "mine.csv", queries, rest[20:50]),
    )


@pytest.fixture(scope="session")
def settings(spread_encoder: Path, files: SimpleNamespace) -> Callable[..., dict[str, Any]]:
    """Return a function (method, overrides) -> settings for twelve steps on the user's files."""
    cache, start = str(files.folder / "cache"), str(spread_encoder)
    ranked = (
        {"teachers": [start], "cache": cache},
        {"base": start, "corpus_size": 40, "lower": None, "upper": None},
    )
    more: dict[str, dict[str, Any]] = {
        "rankcse": ranked[0],
        "rankencoder": {**ranked[1], "cache": cache},
    }
    more |= {
        "mixed": {**ranked[0], **ranked[1]},
        "cosent": {"train": str(files.train), "pooling": "cls"},
    }
    more["lists"] = more["cosent"]

    def of(method: str, **others: Any) -> dict[str, Any]:
        small = {
            "encoder": start,
            "train": str(files.sentences),
            "dev": str(files.dev),
            "suites": [str(files.test)],
        }
        small |= {
            "batch_size": 6,
            "max_steps": 12,
            "eval_steps": 3,
            "save_steps": 4,
            "log_steps": 1,
        }
        return small | {"learning_rate": 1e-3} | SAME | more.get(method, {}) | others

    return of


@pytest.fixture(scope="session")
def train(settings: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """Return a function (method, runs, overrides) -> finished run, computed in this process."""
    from workbench import CONFIGS, METHODS, Run, evaluate, fit, load_dev, load_suites, load_training

    def finished(method: str, runs: Path, seed: int = 0, **others: Any) -> Run:
        config = CONFIGS[method].from_parameters("demo", seed, settings(method, **others))
        run, model = Run.open(config, runs), METHODS[method](config)
        fit(model, load_training(config), dev=load_dev(config), run=run, quiet=True)
        evaluate(model, load_suites(config), run=run)
        return run

    return finished


@pytest.fixture(scope="session")
def workbench(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs `python -m workbench`, in `cwd` or in an empty folder."""
    empty = tmp_path_factory.mktemp("elsewhere")

    def call(*words: object, cwd: Path = empty, **options: Any) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(PROJECT), "COLUMNS": "200"}
        # A fork of a process with torch loaded.
        command = [python(), "-m", "workbench", *map(str, words)]
        return subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            **options,
        )

    return call


@pytest.fixture(scope="session")
def words() -> Callable[[dict[str, Any]], list[str]]:
    """Return settings as arguments KEY=VALUE of a command."""

    def text(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value)

    return lambda settings: [f"{name}={text(value)}" for name, value in settings.items()]
