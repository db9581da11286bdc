"""Train every method on English and show by relation of the ladders which targets it ranks right.

    export WORKBENCH_DATA=DIR
    python experiments/phenomena.py START [--runs runs-phenomena] [--seeds 0 1 2 3 4]

START is the folder of a start in English, such as english-450 (docs/results.md). Every method has
the budget of experiments/english.py: 6,400 Wikipedia sentences, 100 steps of 64, at most 24 tokens,
mean pooling, rate 1e-4; CoSENT and the lists train on the pairs of STS-B and the queries of SICK
instead. Dev (STS-B) selects the checkpoint. Finished runs are reused. Prints the table of
`views.phenomena` and its sentences."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from english import BUDGET
from methods import fill_placeholder, trained_run

from workbench import views
from workbench.config import CONFIGS
from workbench.runs import Run
from workbench.views.run_tables import kept_checkpoint

TEACHER = "english-encoder"  # the encoder that the start was made of
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("simcse", {}),
    ("compcse", {"subvector": None}),
    ("rankcse", {"teachers": ["<SimCSE>"], "lists_after_mlp": False}),
    ("rankcse", {"teachers": [TEACHER], "lists_after_mlp": False}),
    ("rankencoder", {"base": "<SimCSE>", "corpus_size": 6400}),
    ("mixed", {"compose": "positive", "gamma": 1.0, "beta": 1.0, "teachers": [TEACHER]}),
    ("cosent", {"train": "stsb-train", "dev": "stsb-dev", "train_limit": None}),
    (
        "lists",
        {
            "train": "sick-train",
            "dev": "stsb-dev",
            "train_limit": None,
            "batch_size": 8,
            "epochs": 2.0,
        },
    ),
]


def run_of(method: str, changes: dict[str, Any], seed: int, options: argparse.Namespace) -> Run:
    """Return the trained run of a row."""
    changes = fill_placeholder(changes, partial(run_of, "simcse", {}, seed, options))
    start = {
        "encoder": str(options.start),
        "pooling": "mean",
        "learning_rate": 1e-4,
        "suites": ["ladders-all"],
    }
    return trained_run(
        CONFIGS[method].from_parameters("paper", seed, BUDGET | start | changes), options.runs
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("start", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs-phenomena"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    # The table below has all runs of a folder: those of another start have a folder of their own.
    options.runs /= "-".join(options.start.resolve().parts[-2:])
    torch.set_num_threads(1)
    for seed in options.seeds:
        for method, changes in ROWS:
            run = run_of(method, changes, seed, options)
            dev = kept_checkpoint(run.history())["dev_spearman"]
            print(f"{method} {changes}, seed {seed}: dev {100 * dev:.1f}", flush=True)
    found = views.phenomena(views.finished_runs(options.runs, "ladders-all"))
    print(found.table.to_string(), *found.sentences, sep="\n")


if __name__ == "__main__":
    main()
