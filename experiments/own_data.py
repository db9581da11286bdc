"""Train english-encoder on a few pairs of a user; measure gains and losses by set.

    WORKBENCH_DATA=DIR python experiments/own_data.py OUT.csv [--recipes new learning_rate=1e-4]
    [--rows 60 500 5000]

N rows of the train set of STS-B or SICK represent the user's file and are split as by `workbench
data split`. CoSENT trains on the pairs of the train part and SimCSE on their sentences, both from
english-encoder with the profile demo. A recipe is "new" (the defaults of the profile for such a
start), "old" (the settings of the profile for the bundled world), or the settings that differ from
new. Prints Spearman x 100 of the start and the gain of each recipe, on the test part of the file
("own") and on the sets of --suites."""

import argparse
import tempfile
from functools import cache
from pathlib import Path

import pandas as pd
import torch

from workbench import METHODS, Encoder, evaluate, fit
from workbench.config import CONFIGS
from workbench.data import Pairs, Sentences, load_pairs, split, write_split

CASE = ["set", "rows", "method", "recipe", "seed"]
OLD = {
    "cosent": "learning_rate=1e-3,eval_steps=50",
    "simcse": "learning_rate=1e-3,eval_steps=25,dropout=0",
}


def own_parts(name: str, rows: int) -> dict[str, Pairs]:
    """Return train, dev and test part of a draw of `rows` rows of a train set."""
    return split(load_pairs(f"{name}-train", limit=rows))


@cache
def start_score(name: str, rows: int, suite: str) -> float:
    """Return the Spearman of english-encoder on a suite, or on the test part if it is "own"."""
    data = own_parts(name, rows)["test"] if suite == "own" else load_pairs(suite)
    return evaluate(Encoder.from_pretrained("english-encoder"), {suite: data}).metrics[suite][
        "spearman"
    ]


def measure(case: tuple[str, int, str, str, int], suites: list[str]) -> pd.DataFrame:
    """Train once and return a row per suite."""
    name, rows, method, recipe, seed = case
    parts = own_parts(name, rows)
    text = {"new": "", "old": OLD[method]}.get(recipe, recipe)
    changes = dict(part.split("=") for part in text.split(",") if part)
    if method == "simcse":
        changes["pooling"] = "mean"
    with tempfile.TemporaryDirectory() as folder:
        train, dev, _ = map(str, write_split(parts, Path(folder)))
        # What a rate does to the encoder is measured, so the start may not be kept and no training
        # ends early.
        whole = {"keep_start": False, "stop_below_start": None}
        config = CONFIGS[method].from_parameters(
            "demo",
            seed,
            {"encoder": "english-encoder", "train": train, "dev": dev} | whole | changes,
        )
        trained, data = METHODS[method](config), parts["train"]
        if method == "simcse":
            texts = list(dict.fromkeys([*data.sentence1, *data.sentence2]))
            data = Sentences(data.name, texts, data.source, data.checksum)
        fit(trained, data, parts["dev"], quiet=True)
    after = evaluate(
        trained, {"own": parts["test"], **{suite: load_pairs(suite) for suite in suites}}
    ).metrics
    measurements = [
        (*case, suite, 100 * start_score(name, rows, suite), 100 * values["spearman"])
        for suite, values in after.items()
    ]
    return pd.DataFrame(measurements, columns=[*CASE, "suite", "start", "after"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "out", type=Path, help="CSV of all measurements; those already in it are skipped"
    )
    parser.add_argument("--sets", nargs="+", default=["stsb", "sick"])
    parser.add_argument("--rows", nargs="+", type=int, default=[60, 500, 5000])
    parser.add_argument("--methods", nargs="+", default=["cosent", "simcse"])
    parser.add_argument("--recipes", nargs="+", default=["old", "new"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--suites", nargs="+", default=["stsb-test", "sick-test"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    previous = (
        pd.read_csv(options.out, keep_default_na=False)
        if options.out.is_file()
        else pd.DataFrame(columns=CASE)
    )
    if len(previous) and not set(options.suites) <= set(previous["suite"]):
        raise SystemExit(f"{options.out} has other suites: give another file")
    done = set(previous[CASE].itertuples(index=False, name=None))
    grid = [options.sets, options.rows, options.methods, options.recipes, options.seeds]
    for case in pd.MultiIndex.from_product(grid):
        if case not in done:
            scores = measure(case, options.suites)
            scores.to_csv(options.out, mode="a", header=not options.out.is_file(), index=False)
    table = pd.read_csv(options.out, keep_default_na=False)
    table["gain"] = table["after"] - table["start"]
    means = (
        table.groupby([*CASE[:-1], "suite"], sort=False)[["start", "gain"]].mean().unstack("suite")
    )
    print(means.round(1).to_string())


if __name__ == "__main__":
    main()
