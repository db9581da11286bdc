"""The unsupervised methods on real English, from one start with one budget: dev, the seven STS sets, what came back.

    WORKBENCH_DATA=DIR python benchmarks/english.py START [--runs runs] [--seeds 3] [--only CompCSE ...]
    WORKBENCH_DATA=DIR python benchmarks/english.py START --rates 1e-5 3e-5 1e-4      # dev of SimCSE alone, seed 0

START is a folder that data/build/washed.py made. Dev (STS-B) chooses rate and checkpoint, the test sets are read once.
"Agreement" is Spearman's correlation with the cosines of all-MiniLM-L6-v2 on the pairs of STS-B dev: what a method adds
to it may be the tuning that washing left in START, and not new.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from methods import filled, finished
from minilm import minilm

from workbench import METHODS, Encoder, evaluate, load_pairs
from workbench.config import CONFIGS, SEVEN_STS, TrainingConfig
from workbench.methods import Method
from workbench.metrics import seed_spread, spearman
from workbench.runs import Run

_OWN = {"teachers": ["<SimCSE>"]}
_LISTMLE = {"ranking": "listmle", "student_temperature": 0.05}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "SimCSE": ("simcse", {}),
    "CompCSE": ("compcse", {"subvector": None}),
    "RankCSE, ListNet, taught by its SimCSE": ("rankcse", _OWN),
    "RankCSE, ListMLE, taught by its SimCSE": ("rankcse", _OWN | _LISTMLE),
    "RankCSE, ListNet, taught by all-MiniLM-L6-v2": ("rankcse", {"teachers": [str(minilm())]}),
    "RankEncoder, the paper's max with lambda 0.05": ("rankencoder", {"base": "<SimCSE>", "corpus_size": 10_000}),
    "RankEncoder, summed with weight 100": (
        "rankencoder",
        {"base": "<SimCSE>", "corpus_size": 10_000, "combination": "sum", "rank_weight": 100.0},
    ),
}
BUDGET = {
    "pooling": "mean",
    "train": "wiki",
    "train_limit": 6400,
    "max_tokens": 24,
    "batch_size": 64,
    "epochs": 1.0,
    "eval_steps": 25,
    "suites": SEVEN_STS,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("start", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="rows by their beginning")
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--rates", type=float, nargs="*", help="only SimCSE's dev with each of these rates")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for rate in options.rates or []:
        run = finished(settings("simcse", 0, options.start, learning_rate=rate, suites=["stsb-dev"]), options.runs)
        print(f"SimCSE at {rate:g}: dev {100 * run.history()['dev_spearman'].max():.2f}", flush=True)
    if not options.rates:
        table(options)


def table(options: argparse.Namespace) -> None:
    """Prints a row of a Markdown table a method as it is finished; a difference to the start is one of its seed."""
    taught = cosines(Encoder.from_pretrained(minilm()).encode)
    start = Encoder.from_pretrained(options.start, pooling="mean")
    report = evaluate(start.encode, {name: load_pairs(name) for name in SEVEN_STS})
    print("| | dev | STS-B | average of seven | agreement | seconds |\n|---|---|---|---|---|---|")
    print(f"| the start |{cells([[*scores(start.encode, report.metrics, taught), 0.0]])}", flush=True)
    for label, (method, changed) in ROWS.items():
        if options.only and not label.startswith(tuple(options.only)):
            continue
        found = []
        for seed in range(options.seeds):
            simcse = finished(settings("simcse", seed, options.start, learning_rate=options.rate), options.runs)
            own = {key: filled(value, str(simcse.path)) for key, value in changed.items()}
            config = settings(method, seed, options.start, learning_rate=options.rate, **own)
            run = finished(config, options.runs)
            found.append([*scores(restored(run).encode, run.metrics(), taught), seconds(run)])
        print(f"| {label} |{cells(found)}", flush=True)


def settings(method: str, seed: int, start: Path, **own: Any) -> TrainingConfig:
    """The paper's settings with this budget from this start."""
    return CONFIGS[method].from_parameters("paper", seed, {"encoder": str(start), **BUDGET, **own})


def restored(run: Run) -> Method:
    """The method of a run with the encoder that dev chose."""
    method = METHODS[run.config.method](run.config)
    method.restore(run.path / "encoder")
    return method.eval()


def cosines(encode: Callable[[list[str]], torch.Tensor]) -> np.ndarray:
    """Of the pairs of STS-B dev."""
    dev = load_pairs("stsb-dev")
    return (encode(dev.sentence1) * encode(dev.sentence2)).sum(dim=1).numpy()


def scores(encode: Any, metrics: dict[str, Any], taught: np.ndarray) -> list[float]:
    """x 100: dev, STS-B test, the average of the seven, agreement with the cosines `taught`."""
    ours = cosines(encode)
    tests = [metrics[name]["spearman"] for name in SEVEN_STS]
    dev = spearman(load_pairs("stsb-dev").gold, ours)
    return [100 * value for value in (dev, metrics["stsb-test"]["spearman"], np.mean(tests), spearman(taught, ours))]


def seconds(run: Run) -> float:
    """Of the training alone, with its measurements of dev."""
    return float(pd.Series(run.history()["seconds"]).max())


def cells(rows: list[list[float]]) -> str:
    """The columns of several seeds as mean and spread."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    return "".join(f" {seed_spread(one) if len(rows) > 1 else f'{one[0]:.1f}'} |" for one in columns)


if __name__ == "__main__":
    main()
