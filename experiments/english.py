"""Train the methods on real English from one start with one budget, and record every run in
data/results.csv.

    export WORKBENCH_DATA=DIR
    python experiments/english.py START --name NAME [--pooling cls] [--seeds 0 1 2] [--only CompCSE]
    python experiments/english.py START --rates 3e-5 1e-4 3e-4      # dev of SimCSE, seed 0

START is a folder written by data/build/detuned.py, or world-encoder for the demo of the bundled
world. Dev (STS-B) selects learning rate and checkpoint; the test sets are evaluated once. The
better teacher is all-MiniLM-L6-v2, in the world world-teacher; rows that a larger SimCSE teaches
need --larger, its start. A recorded row is not trained again, so that the command can be continued
anywhere (a --name of your own records rows of your own); experiments/claims.py writes the tables of
docs/results.md from the file. Its columns: Spearman x 100 of dev, of each test set, their average,
and the average of the similar thirds (gold above 0.67 of its range); alignment and uniformity;
"agreement", the correlation with the cosines of all-MiniLM-L6-v2 on dev (a gain in it may only
recover tuning that detuning left in START); "beyond", the partial correlation with gold with those
cosines held fixed; for SimCSE and RankEncoder the averages by cosine, by rank vectors alone (eq.
2), by eq. 7 with a share of 0.1 and with the share that dev chooses; "resampled", the average under
200 resamples of the pairs, which are the same for every run."""

import argparse
import sys
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from filelock import FileLock
from methods import fill_placeholder, trained_run

from workbench import METHODS, Encoder, evaluate, load_dev, load_pairs, load_training
from workbench.config import CONFIGS, SEVEN_STS, TrainingConfig
from workbench.files import project_path, write_text
from workbench.methods.rank_mixture import RankMixture
from workbench.methods.rankencoder import RankEncoder
from workbench.metrics import alignment, bootstrap_values, similar_third, spearman, uniformity
from workbench.runs import Run
from workbench.views.run_tables import kept_checkpoint

# The checkpoint is also that of timings.
sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))
from minilm import minilm

_OWN = {"teachers": ["<SimCSE>"]}
_TWO = {"teachers": ["<SimCSE>", "<another SimCSE>"]}
# Shares 1/3 and 2/3, as in the paper's main setting.
_LARGER = {"teachers": ["<SimCSE>", "<larger SimCSE>"]}
_BETTER = {"teachers": ["<better>"]}
_COMPOSED = {"compose": "positive", "gamma": 1.0, "beta": 1.0}
_SUPERVISED = {"train": "stsb-train", "dev": "stsb-dev", "train_limit": "none"}
_SICK = _SUPERVISED | {"train": "sick-train", "dev": "sick-trial"}  # dev is SICK too
_RANKINGS = {
    "ListNet": {},
    "ListMLE": {"ranking": "listmle", "student_temperature": 0.05},
    "CoSENT on lists": {"ranking": "cosent"},
}
# Where RankCSE reads the student's lists, and those of its consistency: above the train-only layer
# or below it.
PLACES: dict[str, dict[str, Any]] = {
    "lists above": {"lists_after_mlp": True},
    "lists below": {"lists_after_mlp": False},
    "lists below, consistency above": {"lists_after_mlp": False, "consistency_after_mlp": True},
}
_BELOW = PLACES["lists below"]  # without a ranking loss it is the place of the consistency
_SCHEDULE = {"epochs": 4.0, "batch_size": 128}  # RankCSE app. A
_E1 = {"base": "<SimCSE>", "corpus_size": 10_000}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "SimCSE": ("simcse", {}),
    "CompCSE": ("compcse", {"subvector": None}),
    **{
        f"RankCSE, {ranking}, taught by its SimCSE, {place}": ("rankcse", _OWN | changes | where)
        for ranking, changes in _RANKINGS.items()
        for place, where in PLACES.items()
    },
    **{
        f"RankCSE without its ranking loss, consistency {place}": (
            "rankcse",
            _OWN | _BELOW | {"gamma": 0.0, "consistency_after_mlp": place == "above"},
        )
        for place in ("above", "below")
    },
    **{
        f"{method}, {teacher}, {place}": (name, settings | lists | where)
        for method, name, settings in (
            ("RankCSE, ListNet", "rankcse", {}),
            ("mixed, CompCSE's positives and ListNet", "mixed", _COMPOSED),
        )
        for teacher, lists in (
            ("taught by two SimCSE", _TWO),
            ("taught by a better teacher", _BETTER),
            ("taught by its SimCSE", _OWN),
        )
        for place, where in PLACES.items()
        if (name, lists) not in (("mixed", _TWO), ("rankcse", _OWN))
    },
    "SimCSE, 4 epochs of 128": ("simcse", _SCHEDULE),
    "RankCSE without its ranking loss, 4 epochs of 128": (
        "rankcse",
        _SCHEDULE | _OWN | _BELOW | {"gamma": 0.0},
    ),
    **{
        f"RankCSE, ListNet, 4 epochs of 128, taught by {teacher}, {place}": (
            "rankcse",
            _SCHEDULE | lists | where,
        )
        for teacher, lists in (("its SimCSE", _OWN), ("its SimCSE and a larger one", _LARGER))
        for place, where in PLACES.items()
    },
    "SimCSE, its rank vectors": ("simcse", {}),
    "RankEncoder, the paper's max with lambda 0.05": ("rankencoder", _E1),
    "RankEncoder, max with lambda 0.002": ("rankencoder", _E1 | {"rank_weight": 0.002}),
    "RankEncoder, summed with weight 100": (
        "rankencoder",
        _E1 | {"combination": "sum", "rank_weight": 100.0},
    ),
    "mixed, CompCSE's positives and rank similarities of its SimCSE": (
        "mixed",
        _E1 | {"compose": "positive", "rank_weight": 100.0},
    ),
    "CoSENT, supervised on STS-B": ("cosent", _SUPERVISED),
    "MSE, supervised on STS-B": ("cosent", _SUPERVISED | {"objective": "mse"}),
    "CoSENT, supervised on SICK": ("cosent", _SICK),
    "MSE, supervised on SICK": ("cosent", _SICK | {"objective": "mse"}),
}
BUDGET = {
    "train": "wiki",
    "train_limit": 6400,
    "max_tokens": 24,
    "batch_size": 64,
    "epochs": 1.0,
    "eval_steps": 25,
    "dev": "stsb-dev",  # also of methods whose profiles choose on two sets
    "suites": SEVEN_STS,
}
RESULTS = project_path("data") / "results.csv"
KEY = ["start", "pooling", "row", "seed"]
DRAWS = 200


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("start", type=Path)
    parser.add_argument("--name", help="of the start in the results; default: its last two folders")
    parser.add_argument(
        "--larger",
        type=Path,
        help="a larger start, whose SimCSE is a teacher of the paper's main setting",
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument(
        "--only", nargs="*", help="only rows with one of these labels or beginnings"
    )
    parser.add_argument("--rate", type=float, help="default: 1e-4")
    parser.add_argument("--pooling", choices=["mean", "cls"], help="default: mean")
    parser.add_argument(
        "--rates", type=float, nargs="*", help="only print SimCSE's dev score at each learning rate"
    )
    parser.add_argument("--list", action="store_true", help="only print the labels of the rows")
    options = parser.parse_args()
    options.name = options.name or "-".join(options.start.resolve().parts[-2:])
    torch.set_num_threads(1)
    is_world = str(options.start) == "world-encoder"
    if is_world and (options.rate or options.pooling):
        parser.error("world-encoder is trained by the demo's profiles; leave out --rate, --pooling")
    options.rate = options.rate or 1e-4
    options.pooling = options.pooling or ("cls" if is_world else "mean")
    chosen = [
        label
        for label, (_, changes) in ROWS.items()
        if not options.only or any(is_meant(label, name) for name in options.only)
        if options.larger or _LARGER["teachers"][1] not in str(changes)
    ]
    for name in options.only or []:
        if not any(is_meant(label, name) for label in chosen):
            needs = "; it needs --larger" if any(is_meant(label, name) for label in ROWS) else ""
            parser.error(f"--only {name!r}: no row of this name{needs}; --list prints them")
    if options.list:
        print(*chosen, sep="\n")
    elif options.rates:
        for rate in options.rates:
            run = trained_run(
                settings("simcse", 0, options, learning_rate=rate, suites=["stsb-dev"]),
                options.runs,
            )
            dev = kept_checkpoint(run.history())["dev_spearman"]
            print(f"SimCSE at {rate:g}: dev {100 * dev:.2f}", flush=True)
    else:
        # Rows are paired with SimCSE's, which must have been trained at the same rate.
        rate = settings("simcse", 0, options).learning_rate
        simcse = {"start": options.name, "pooling": options.pooling, "row": "SimCSE"}
        recorded = (find_row(RESULTS, simcse) or {}).get("rate", np.nan)
        if recorded != rate and not np.isnan(recorded):
            parser.error(f"SimCSE of {options.name} is recorded with --rate {recorded:g}")
        record_start(options)
        for seed in options.seeds:
            for label in chosen:
                record_row(label, seed, options)


def is_meant(label: str, name: str) -> bool:
    """Return whether `name` is this label or, if it is no row's, the beginning of this label."""
    return label == name or (name not in ROWS and label.startswith(name))


def record_start(options: argparse.Namespace) -> None:
    """Measure the start as it is, once."""
    key = {"start": options.name, "pooling": options.pooling, "row": "the start", "seed": 0}
    if is_recorded(key):
        return
    encoder = Encoder.from_pretrained(options.start, pooling=options.pooling)
    config = settings("simcse", 0, options)
    record(
        key
        | values_of(evaluate(encoder.encode, config.suites).scores)
        | dev_columns(encoder.encode, config.dev)
    )


def record_row(label: str, seed: int, options: argparse.Namespace) -> None:
    """Train a row with a seed and record it, unless it is recorded."""
    key = {"start": options.name, "pooling": options.pooling, "row": label, "seed": seed}
    if is_recorded(key):
        return
    method, changes = ROWS[label]
    run = run_of(method, changes, seed, options)
    history, model, config = run.history(), restore(run), run.config
    best = kept_checkpoint(history)
    values = values_of(run.scores()) | dev_columns(model.encode_plain, config.dev)
    values |= {
        "rate": config.learning_rate,
        "step": int(best["step"]),
        "seconds": float(history["seconds"].max()),
    }
    if isinstance(model, RankEncoder) and config.rank_weight:
        values |= parts_of(model.mixture(), config)
    elif "rank vectors" in label:
        # E1 around which RankEncoder trains, without that training; ranks over all sentences of the
        # training, of which RankEncoder draws 10,000 in the world.
        corpus = list(dict.fromkeys(load_training(config).sentences))
        values |= parts_of(RankMixture(model.encode_plain, corpus, weight=0.1), config)
    record(key | values | {"precision": run.facts().get("precision"), "run": run.path.name})


def run_of(method: str, changes: dict[str, Any], seed: int, options: argparse.Namespace) -> Run:
    """Return the trained run of a row."""
    larger = argparse.Namespace(**vars(options) | {"start": options.larger})
    teachers = {
        "<SimCSE>": (seed, options),
        "<another SimCSE>": ((seed + 1) % 5, options),
        "<larger SimCSE>": (seed, larger),
    }
    for name, trained_on in teachers.items():
        changes = fill_placeholder(changes, partial(run_of, "simcse", {}, *trained_on), name)
    if changes.get("teachers") == ["<better>"]:
        is_world = str(options.start) == "world-encoder"
        changes = changes | {"teachers": ["world-teacher" if is_world else str(minilm())]}
    return trained_run(settings(method, seed, options, **changes), options.runs)


def settings(method: str, seed: int, options: argparse.Namespace, **changes: Any) -> TrainingConfig:
    """Return the method's paper settings with this budget and start, or those of the bundled
    world's demo."""
    if str(options.start) == "world-encoder":
        return CONFIGS[method].from_parameters("demo", seed, changes)
    start = {
        "encoder": str(options.start),
        "pooling": options.pooling,
        "learning_rate": options.rate,
    }
    return CONFIGS[method].from_parameters("paper", seed, {**start, **BUDGET, **changes})


def restore(run: Run) -> Any:
    """Return the method of a run with the encoder selected on dev."""
    method = METHODS[run.config.method](run.config)
    method.restore(run.path / "encoder")
    return method.eval()


def values_of(scores: pd.DataFrame) -> dict[str, Any]:
    """Return Spearman x 100 of each test set, of their average and similar thirds, and the
    average's resamples."""
    values: dict[str, Any] = {}
    thirds = []
    for name, pairs in scores.groupby("suite", sort=False):
        gold, predicted = pairs["gold"].to_numpy(), pairs["predicted"].to_numpy()
        values[str(name).removesuffix("-test")] = 100 * spearman(gold, predicted)
        near = similar_third(gold, score_range(str(name)))
        thirds.append(100 * spearman(gold[near], predicted[near]))
    average, third = float(np.mean([*values.values()])), float(np.mean(thirds))
    sets = scores["suite"].tolist()
    resampled = 100 * bootstrap_values(
        scores["gold"], scores["predicted"], sets=sets, samples=DRAWS
    )
    texts = " ".join(f"{value:.2f}" for value in resampled)
    return values | {"average": average, "similar third": third, "resampled": texts}


@cache
def score_range(name: str) -> tuple[float, float]:
    """Return the score range of a set; it is read once for all runs."""
    return load_pairs(name).score_range


def dev_columns(encode: Any, name: str) -> dict[str, float]:
    """Return the columns of dev: Spearman x 100, alignment and uniformity; on STS-B agreement with
    all-MiniLM, too."""
    dev = load_pairs(name)
    first, second = (encode(side).numpy() for side in (dev.sentence1, dev.sentence2))
    cosines = (first * second).sum(axis=1)
    low, high = dev.score_range
    close = dev.gold > low + 0.8 * (high - low)
    shape = {
        "alignment": alignment(first[close], second[close]),
        "uniformity": uniformity(np.vstack([first, second])),
    }
    quality = spearman(dev.gold, cosines)
    values = {"dev": 100 * quality} | shape
    if name != "stsb-dev":
        return values
    reference = minilm_cosines()
    agreement, own = spearman(reference, cosines), spearman(dev.gold, reference)
    beyond = (quality - agreement * own) / ((1 - agreement**2) * (1 - own**2)) ** 0.5
    return values | {"agreement": 100 * agreement, "beyond": 100 * beyond}


@cache
def minilm_cosines() -> np.ndarray:
    """Return all-MiniLM's cosines of the pairs of STS-B dev."""
    dev, encode = load_pairs("stsb-dev"), Encoder.from_pretrained(minilm()).encode
    return (encode(dev.sentence1) * encode(dev.sentence2)).sum(dim=1).numpy()


def parts_of(mixture: RankMixture, config: TrainingConfig) -> dict[str, float]:
    """Return the averages of the tests by cosine, eq. 2 and eq. 7, and of eq. 7 with the share that
    dev chooses."""
    chosen = float(mixture.try_weights(load_dev(config)).idxmax())
    sums = dict.fromkeys(("cosine", "eq. 2", "eq. 7", "eq. 7 chosen"), 0.0)
    for name in config.suites:
        pairs = load_pairs(name)
        cosine, ranked = mixture.parts(pairs.sentence1, pairs.sentence2)
        for column, weight in zip(sums, (0.0, 1.0, 0.1, chosen), strict=True):
            sums[column] += (
                100
                * spearman(pairs.gold, weight * ranked + (1 - weight) * cosine)
                / len(config.suites)
            )
    return sums | {"share": chosen}


def is_recorded(key: dict[str, Any]) -> bool:
    """Return whether the results contain a row of these start, pooling, label and seed."""
    return find_row(RESULTS, key) is not None


def find_row(results: Path, key: dict[str, Any]) -> dict[str, Any] | None:
    """Return the first row of a file of results with these values, or None."""
    if not results.is_file():
        return None
    # A name may look like a number.
    names = {name: str for name, value in key.items() if isinstance(value, str)}
    table = pd.read_csv(results, dtype=names)
    is_meant = np.logical_and.reduce([table[name] == value for name, value in key.items()])
    rows: list[dict[str, Any]] = table[is_meant].to_dict("records")
    return rows[0] if rows else None


def add_row(results: Path, row: dict[str, Any], key: Iterable[str]) -> None:
    """Add a row to a file of results, which other processes may extend at the same time.

    Nothing is added if another process has recorded a row of the same key meanwhile. The resamples
    are its last column.
    """
    with FileLock(results.with_suffix(".lock")):
        if find_row(results, {name: row[name] for name in key}) is not None:
            return
        table = pd.DataFrame([row])
        if results.is_file():
            table = pd.concat([pd.read_csv(results), table], ignore_index=True)
        columns = sorted(table.columns, key=lambda name: name == "resampled")
        write_text(results, table[columns].to_csv(index=False))


def record(row: dict[str, Any]) -> None:
    """Add a row to the results, its numbers rounded, and print it."""
    numbers = {
        name: round(value, 4) if isinstance(value, float) and name != "rate" else value
        for name, value in row.items()
    }
    add_row(RESULTS, numbers, KEY)
    shown = {name: numbers.get(name) for name in ("dev", "average", "cosine", "eq. 2")}
    print(*(row[name] for name in KEY), shown, flush=True)


if __name__ == "__main__":
    main()
