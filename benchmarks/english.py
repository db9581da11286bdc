"""Train the methods on real English from one start with one budget; report the STS scores.

    WORKBENCH_DATA=DIR python benchmarks/english.py START [--runs runs] [--seeds 3] [--only CompCSE ...] [--finished]
    WORKBENCH_DATA=DIR python benchmarks/english.py START --rates 1e-5 3e-5 1e-4      # only dev of SimCSE, seed 0

START is a folder written by data/build/detuned.py. Dev (STS-B) selects learning rate and checkpoint; the test sets are
evaluated once. KCC, NDCG and the Spearman of the similar third (pairs whose gold is above 0.67 of its range) are
averages over the seven sets; alignment and uniformity are measured on dev at the selected checkpoint. "Agreement" is
Spearman's correlation with the cosines of all-MiniLM-L6-v2 on STS-B dev: a gain in it may only recover tuning that
detuning left in START. "Beyond" is the partial rank correlation with gold on STS-B dev that controls for those cosines.
"Against SimCSE" is the difference of the averages of the seven sets, paired by seed, with the standard error of the
mean; a second table contains it by seed.
--finished: report finished runs, train nothing. --pooling cls: the pooling of the methods' papers.
"""

import argparse
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from methods import fill_placeholder, trained_run
from minilm import minilm

from workbench import METHODS, Encoder, evaluate, load_pairs
from workbench.config import CONFIGS, SEVEN_STS, TrainingConfig
from workbench.methods import Method
from workbench.metrics import similar_third, spearman
from workbench.runs import Run, is_finished, run_path

_OWN = {"teachers": ["<SimCSE>"]}
_MINILM = {"teachers": [str(minilm())]}
_COMPOSED = {"compose": "positive", "gamma": 1.0, "beta": 1.0}
_SUPERVISED = {"train": "stsb-train", "dev": "stsb-dev", "train_limit": "none"}
_SICK = _SUPERVISED | {"train": "sick-train", "dev": "sick-trial"}  # dev is SICK too
_NLI = _SUPERVISED | {"train": "cad-snli-train"}
_LISTMLE = {"ranking": "listmle", "student_temperature": 0.05}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "SimCSE": ("simcse", {}),
    "CompCSE": ("compcse", {"subvector": None}),
    "RankCSE, ListNet, taught by its SimCSE": ("rankcse", _OWN),
    "RankCSE without its ranking loss": ("rankcse", _OWN | {"gamma": 0.0}),
    "RankCSE, softer ListNet (tau_2 0.1, tau_3 0.05), taught by its SimCSE": (
        "rankcse",
        _OWN | {"student_temperature": 0.1, "teacher_temperature": 0.05},
    ),
    "RankCSE, ListMLE, taught by its SimCSE": ("rankcse", _OWN | _LISTMLE),
    "RankCSE, CoSENT on lists, taught by its SimCSE": ("rankcse", _OWN | {"ranking": "cosent"}),
    "RankCSE, ListNet, taught by two SimCSE": ("rankcse", {"teachers": ["<SimCSE>", "<another SimCSE>"]}),
    "RankCSE, ListNet, taught by all-MiniLM-L6-v2": ("rankcse", _MINILM),
    "RankEncoder, the paper's max with lambda 0.05": ("rankencoder", {"base": "<SimCSE>", "corpus_size": 10_000}),
    "RankEncoder, summed with weight 100": (
        "rankencoder",
        {"base": "<SimCSE>", "corpus_size": 10_000, "combination": "sum", "rank_weight": 100.0},
    ),
    **{
        f"RankEncoder as printed, corpus of {size:,} out of all Wikipedia sentences": (
            "rankencoder",
            {"base": "<SimCSE>", "corpus": "wiki", "corpus_size": size},
        )
        for size in (10_000, 100_000)
    },
    "mixed: CompCSE's positives, RankCSE's lists of its SimCSE": ("mixed", _COMPOSED | _OWN),
    "mixed: CompCSE's positives, RankCSE's lists of all-MiniLM-L6-v2": ("mixed", _COMPOSED | _MINILM),
    "mixed: CompCSE's positives, rank similarities of its SimCSE": (
        "mixed",
        {"compose": "positive", "base": "<SimCSE>", "corpus_size": 10_000, "rank_weight": 100.0},
    ),
    "CoSENT, supervised on STS-B": ("cosent", _SUPERVISED),
    "MSE, supervised on STS-B": ("cosent", _SUPERVISED | {"objective": "mse"}),
    "CoSENT, supervised on SICK": ("cosent", _SICK),
    "MSE, supervised on SICK": ("cosent", _SICK | {"objective": "mse"}),
    "CoSENT, supervised on NLI (CAD-SNLI)": ("cosent", _NLI),
    "softmax, supervised on NLI (CAD-SNLI)": ("cosent", _NLI | {"objective": "softmax"}),
    "MSE, supervised on NLI (CAD-SNLI)": ("cosent", _NLI | {"objective": "mse"}),
}
COLUMNS = [
    "dev",
    "STS-B",
    "average of seven",
    "similar third",
    "KCC",
    "NDCG",
    "alignment",
    "uniformity",
    "agreement",
    "beyond",
    "seconds",
]
BUDGET = {
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
    parser.add_argument("--only", nargs="*", help="only rows whose label begins with one of these")
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--pooling", default="mean", choices=["mean", "cls"])
    parser.add_argument("--finished", action="store_true", help="report finished runs, train nothing")
    parser.add_argument("--rates", type=float, nargs="*", help="only print SimCSE's dev score at each learning rate")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for rate in options.rates or []:
        run = trained_run(settings("simcse", 0, options, learning_rate=rate, suites=["stsb-dev"]), options.runs)
        print(f"SimCSE at {rate:g}: dev {100 * run.history()['dev_spearman'].max():.2f}", flush=True)
    if not options.rates:
        table(options)


def table(options: argparse.Namespace) -> None:
    """Print a row of a Markdown table for each method, and the differences to SimCSE by seed."""
    minilm_cosines = cosines(Encoder.from_pretrained(minilm()).encode)
    start = Encoder.from_pretrained(options.start, pooling=options.pooling)
    report = evaluate(start.encode, {name: load_pairs(name) for name in SEVEN_STS})
    print(f"| | seeds | {' | '.join(COLUMNS)} | against SimCSE |\n|---|---|{'---|' * len(COLUMNS)}---|")
    simcse = {seed: run_of("simcse", {}, seed, options) for seed in range(options.seeds)}
    averages = {seed: sts_columns(run.metrics())["average of seven"] for seed, run in simcse.items() if run is not None}
    if simcse[0] is not None:
        columns = (
            sts_columns(report.metrics)
            | similar_column(report.scores)
            | dev_columns(simcse[0].history().iloc[0], start.encode, minilm_cosines)
        )
        print(f"| the start | |{cells([columns])} |", flush=True)
    gains: dict[str, dict[int, float]] = {}
    for label, (method, changed) in ROWS.items():
        if options.only and not label.startswith(tuple(options.only)):
            continue
        runs = {seed: run_of(method, changed, seed, options) for seed in range(options.seeds)}
        rows = {seed: run_columns(run, minilm_cosines) for seed, run in runs.items() if run is not None}
        if rows:
            against = {seed: row["average of seven"] - averages[seed] for seed, row in rows.items() if seed in averages}
            gains[label] = against
            print(f"| {label} | {len(rows)} |{cells([*rows.values()])} {gain([*against.values()])} |", flush=True)
    print_gains_by_seed(gains, list(averages))


def print_gains_by_seed(gains: dict[str, dict[int, float]], seeds: list[int]) -> None:
    """Print the difference of each row to SimCSE, per seed."""
    print(f"\n| against SimCSE, by seed | {' | '.join(map(str, seeds))} | |\n|---|{'---|' * len(seeds)}---|")
    for label, row in gains.items():
        each = "".join(f" {row[seed]:+.1f} |" if seed in row else " |" for seed in seeds)
        print(f"| {label} |{each} {gain([*row.values()])} |")


def run_of(method: str, changed: dict[str, Any], seed: int, options: argparse.Namespace) -> Run | None:
    """Return the trained run of a row; None if it is unfinished and --finished is set."""
    names = {"<SimCSE>": seed, "<another SimCSE>": (seed + 1) % max(2, options.seeds)}
    for name, of in names.items():
        if name in str(changed):
            simcse = run_of("simcse", {}, of, options)
            if simcse is None:
                return None
            changed = {key: fill_placeholder(value, str(simcse.path), name) for key, value in changed.items()}
    config = settings(method, seed, options, learning_rate=options.rate, **changed)
    if options.finished and not is_finished(run_path(config, options.runs)):
        return None
    return trained_run(config, options.runs)


def settings(method: str, seed: int, options: argparse.Namespace, **changes: Any) -> TrainingConfig:
    """Return the method's paper settings with this budget and start."""
    start = {"encoder": str(options.start), "pooling": options.pooling}
    return CONFIGS[method].from_parameters("paper", seed, {**start, **BUDGET, **changes})


def restore(run: Run) -> Method:
    """Return the method of a run with the encoder selected on dev."""
    method = METHODS[run.config.method](run.config)
    method.restore(run.path / "encoder")
    return method.eval()


def cosines(encode: Callable[[list[str]], torch.Tensor]) -> np.ndarray:
    """Return the cosines of the pairs of STS-B dev."""
    dev = load_pairs("stsb-dev")
    return (encode(dev.sentence1) * encode(dev.sentence2)).sum(dim=1).numpy()


def run_columns(run: Run, minilm_cosines: np.ndarray) -> dict[str, float]:
    """Return the columns of a run; the seconds include the evaluations on dev."""
    history = run.history()
    selected = history.loc[history["dev_spearman"].iloc[1:].idxmax()]
    columns = sts_columns(run.metrics()) | similar_column(run.scores())
    columns |= dev_columns(selected, restore(run).encode_plain, minilm_cosines)
    return columns | {"seconds": float(history["seconds"].max())}


def sts_columns(metrics: dict[str, Any]) -> dict[str, float]:
    """Return the columns measured on the test sets, x 100."""
    average = metrics["sts-average"]
    columns = {"STS-B": metrics["stsb-test"]["spearman"], "average of seven": average["spearman"]}
    return {name: 100 * value for name, value in (columns | {"KCC": average["kcc"], "NDCG": average["ndcg"]}).items()}


@cache
def score_range(name: str) -> tuple[float, float]:
    """Return the score range of a set; it is read once for all runs."""
    return load_pairs(name).score_range


def similar_column(scores: pd.DataFrame) -> dict[str, float]:
    """Return the average Spearman of the similar third of the seven sets, x 100."""
    values = []
    for name in SEVEN_STS:
        pairs = scores[scores["suite"] == name]
        close = pairs[similar_third(pairs["gold"], score_range(name))]
        values.append(100 * spearman(np.asarray(close["gold"]), np.asarray(close["predicted"])))
    return {"similar third": float(np.mean(values))}


def dev_columns(measured: Any, encode: Any, minilm_cosines: np.ndarray) -> dict[str, float]:
    """Return the columns measured on dev, from a row of the history and all-MiniLM's cosines."""
    gold, ours = load_pairs("stsb-dev").gold, cosines(encode)
    quality, agreement = spearman(gold, ours), spearman(minilm_cosines, ours)
    reference = spearman(gold, minilm_cosines)
    beyond = (quality - agreement * reference) / ((1 - agreement**2) * (1 - reference**2)) ** 0.5
    columns = {"dev": 100 * float(measured["dev_spearman"]), "agreement": 100 * agreement, "beyond": 100 * beyond}
    shape = {name: float(measured[f"dev_{name}"]) for name in ("alignment", "uniformity")}
    return columns | shape | {"seconds": float(measured["seconds"])}


def cells(rows: list[dict[str, float]]) -> str:
    """Format each column as mean and standard deviation over the seeds."""
    return "".join(f" {cell(name, [row[name] for row in rows])} |" for name in COLUMNS)


def gain(differences: list[float]) -> str:
    """Format the mean of the differences with its standard error."""
    if len(differences) < 2:
        return "".join(f"{difference:+.1f}" for difference in differences)
    return f"{np.mean(differences):+.1f} ± {np.std(differences, ddof=1) / len(differences) ** 0.5:.1f}"


def cell(name: str, values: list[float]) -> str:
    digits = {"seconds": 0, "alignment": 3, "uniformity": 2}.get(name, 1)
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"


if __name__ == "__main__":
    main()
