"""Compare losses within the lists of queries with CoSENT over the batch and with MSE on values.

    WORKBENCH_DATA=DIR python experiments/lists.py OUT.csv [--sets world sick] [--seeds 0 1 2 3 4]

world: world-encoder trains on the bundled world. sick: english-encoder trains on lists made of
    SICK's pairs by shared sentences. Every pair belongs to one query, every recipe sees the same
    pairs for 150 steps: 8 queries with all their targets per step, or as many pairs at random. The
    settings of the grids below are chosen on dev (Spearman, seed 0, condition all). Conditions: all
    queries; 100 or 30 of them, drawn with the seed; and rescaled, in which the gold of each query,
    scaled to 0 to 1, is raised to its own power between 1/4 and 4.

Prints means over the seeds on test and the differences from CoSENT over the batch with 95%
intervals over seeds, and first, as a positive control of each list loss, the NDCG of 30 queries of
the world before and after 300 steps on them."""

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from workbench import METHODS, Encoder, evaluate, fit
from workbench.config import CONFIGS
from workbench.data import Pairs, load_pairs
from workbench.metrics import FEWEST_TARGETS, seed_interval

STEPS, QUERIES = 150, 8
SETS = {
    "world": ("world-encoder", "world-train", "world-dev", "world-test", [1e-4, 3e-4, 1e-3, 3e-3]),
    "sick": ("english-encoder", "sick-train", "sick-trial", "sick-test", [3e-5, 1e-4, 3e-4, 1e-3]),
}
TAUS = {"temperature": [0.05, 0.2]}
BATCH = {
    "cosent over batch": ({"objective": "cosent"}, {"scale": [20.0, 5.0]}),
    "mse": ({"objective": "mse"}, {}),
}
LISTS = {
    "listnet": ({"ranking": "listnet"}, TAUS | {"gold_temperature": [0.1, 0.3]}),
    **{name: ({"ranking": name}, TAUS) for name in ("listmle", "cosent")},
    "approx_ndcg": (
        {"ranking": "approx_ndcg"},
        {"temperature": [0.003, 0.01, 0.05, 0.2], "gain": ["exponential", "linear"]},
    ),
}
RECIPES = {name: ("cosent", *recipe) for name, recipe in BATCH.items()}
RECIPES |= {f"{name} in lists": ("lists", *recipe) for name, recipe in LISTS.items()}
CONDITIONS = ("all", "100", "30", "rescaled")
CASE = ["set", "recipe", "condition", "seed", "settings"]
METRICS = ["spearman", "kcc", "ndcg"]


def lists_of(name: str) -> tuple[Pairs, np.ndarray]:
    """Return the pairs of a set with the query first, each in the list of one query only, and the
    number of that."""
    data = load_pairs(name)
    rows: list[int] = []
    queries: list[str] = []
    for group in data.groups():
        free = [row for row in group.pairs.tolist() if row not in set(rows)]
        if len(free) >= FEWEST_TARGETS and np.ptp(data.gold[free]):
            rows += free
            queries += [group.query] * len(free)
    targets = [
        data.sentence2[row] if data.sentence1[row] == query else data.sentence1[row]
        for row, query in zip(rows, queries, strict=True)
    ]
    kept = Pairs.from_lists(
        queries, targets, data.gold[rows].tolist(), name=name, scale=data.score_range
    )
    return kept, np.unique(queries, return_inverse=True)[1]


def under(data: Pairs, number: np.ndarray, condition: str, seed: int) -> Pairs:
    """Return the training pairs of a condition."""
    draw = np.random.default_rng(seed)
    low, high = data.score_range
    if condition == "rescaled":
        power = 4 ** draw.uniform(-1, 1, number.max() + 1)
        return replace(
            data, gold=low + (high - low) * ((data.gold - low) / (high - low)) ** power[number]
        )
    if condition == "all":
        return data
    rows = np.flatnonzero(np.isin(number, draw.permutation(number.max() + 1)[: int(condition)]))
    columns = ([side[row] for row in rows] for side in data.texts)
    return Pairs.from_lists(
        *columns, data.gold[rows].tolist(), name=data.name, scale=data.score_range
    )


def measure(
    case: tuple[str, str, str, int, str], lists: tuple[Pairs, np.ndarray]
) -> dict[str, Any]:
    """Train once; return the metrics on dev and test."""
    name, recipe, condition, seed, settings = case
    encoder, _, dev, test, _ = SETS[name]
    method, changes, _ = RECIPES[recipe]
    data = under(*lists, condition, seed)
    size = QUERIES if method == "lists" else round(QUERIES * len(lists[0]) / (lists[1].max() + 1))
    options = changes | dict(part.split("=") for part in settings.split(","))
    options |= {
        "encoder": encoder,
        "batch_size": size,
        "max_steps": STEPS,
        "eval_steps": 25,
        "pooling": "mean",
    }
    trained = METHODS[method](CONFIGS[method].from_parameters("demo", seed, options))
    fit(trained, data, load_pairs(dev), quiet=True)
    scores = evaluate(trained, {part: load_pairs(part) for part in (dev, test)}).metrics
    found = {f"dev_{metric}": 100 * scores[dev][metric] for metric in METRICS}
    return (
        dict(zip(CASE, case, strict=True))
        | found
        | {metric: 100 * scores[test][metric] for metric in METRICS}
    )


def print_tables(table: pd.DataFrame, name: str) -> None:
    encoder, train, _, test, _ = SETS[name]
    start = evaluate(
        Encoder.from_pretrained(encoder, pooling="mean"), {test: load_pairs(test)}
    ).metrics[test]
    data, number = lists_of(train)
    print(
        f"\n{test}, {encoder} trained on {number.max() + 1} queries of {train} with "
        f"{len(data)} targets"
    )
    print("start: " + ", ".join(f"{metric} {100 * start[metric]:.1f}" for metric in METRICS))
    for condition, group in table.groupby("condition", sort=False):
        print(
            f"\n{condition}: {group['seed'].nunique()} seeds, difference from CoSENT "
            "over the batch [95%]"
        )
        wide = group.pivot(index="seed", columns="recipe", values=METRICS)
        for recipe in RECIPES:
            texts = [f"{recipe:22}"]
            for metric in METRICS:
                values = wide[metric][recipe]
                gap = seed_interval((values - wide[metric]["cosent over batch"]).tolist())
                texts.append(
                    f"{metric} {values.mean():5.1f} {gap.value:+5.1f} [{gap.low:+.1f}, "
                    f"{gap.high:+.1f}]"
                )
            print("  ".join(texts))


def print_control() -> None:
    data = under(*lists_of("world-train"), "30", 0)
    for ranking in LISTS:
        changes = {"ranking": ranking, "max_steps": 2 * STEPS, "batch_size": QUERIES}
        changes |= (
            {"temperature": 0.05}
            if ranking != "approx_ndcg"
            else {"temperature": 0.01, "gain": "linear"}
        )
        method = METHODS["lists"](CONFIGS["lists"].from_parameters("demo", 0, changes))
        before = evaluate(method, {"train": data}).metrics["train"]["ndcg"]
        fit(method, data, quiet=True)
        after = evaluate(method, {"train": data}).metrics["train"]["ndcg"]
        print(
            f"control, {ranking}: NDCG of 30 training queries {100 * before:.1f}, after "
            f"300 steps {100 * after:.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "out", type=Path, help="CSV of all measurements; those already in it are skipped"
    )
    parser.add_argument("--sets", nargs="+", default=[*SETS], choices=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = {}
    if options.out.is_file():
        done = {
            tuple(row[name] for name in CASE): row
            for row in pd.read_csv(options.out, dtype={"condition": str}).to_dict("records")
        }
    print_control()
    for name in options.sets:
        lists = lists_of(SETS[name][1])

        def result(*case: Any, lists: tuple[Pairs, np.ndarray] = lists) -> dict[str, Any]:
            if case not in done:
                done[case] = measure(case, lists)
                pd.DataFrame([done[case]]).to_csv(
                    options.out, mode="a", header=not options.out.is_file(), index=False
                )
            return done[case]

        rows = []
        for recipe, (_, _, more) in RECIPES.items():
            grid = {"learning_rate": SETS[name][4], **more}
            cells = (zip(grid, values, strict=True) for values in product(*grid.values()))
            tried = [",".join(f"{setting}={value}" for setting, value in cell) for cell in cells]
            best = max(
                tried, key=lambda settings: result(name, recipe, "all", 0, settings)["dev_spearman"]
            )
            print(f"{name}, {recipe}: {best} chosen of {len(tried)} on dev", flush=True)
            rows += [
                result(name, recipe, part, seed, best)
                for part in CONDITIONS
                for seed in options.seeds
            ]
        print_tables(pd.DataFrame(rows), name)


if __name__ == "__main__":
    main()
