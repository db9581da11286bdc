"""Teach an encoder with unlabelled sentences of one domain, as docs/own-data.md proposes.

    export WORKBENCH_DATA=DIR
    python experiments/own_sentences.py DOMAIN ENCODER TEACHER [--seeds 0 1 2] [--set lr=2e-4]

DOMAIN is captions or news. The profile distillation of RankCSE trains on 6,400 sentences without
labels; none is in one of the tests. Prints Spearman x 100 of the start and of every seed: on the
parts of STS12 to STS16 from the domain (mean over the parts), on SICK, and the KCC of the ladders.
"""

import argparse
from pathlib import Path

import pandas as pd
import torch
from better import write_unlabelled
from methods import trained_run

from workbench import Encoder, evaluate
from workbench.config import RankCSEConfig
from workbench.metrics import spearman

SOURCES = {"captions": ["flickr8k"], "news": ["mrpc-train", "mrpc-test"]}
# Domain -> set, and its parts.
PARTS = {
    "captions": {"sts12-test": ["MSRvid"], "sts14-test": ["images"], "sts15-test": ["images"]},
    "news": {
        "sts12-test": ["MSRpar", "SMTnews"],
        "sts13-test": ["headlines"],
        "sts14-test": ["deft-news", "headlines"],
        "sts15-test": ["headlines"],
        "sts16-test": ["headlines"],
    },
}
MOST = 6_400


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("domain", choices=list(PARTS))
    parser.add_argument("encoder")
    parser.add_argument("teacher")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--runs", type=Path, default=Path("runs-own"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    suites = [*PARTS[options.domain], "sick-test", "ladders-all"]
    start = evaluate(Encoder.from_pretrained(options.encoder).encode, suites)
    print("start", columns(options.domain, start.scores, start.metrics), flush=True)
    sources = {options.domain: (MOST, SOURCES[options.domain])}
    file = write_unlabelled(sources, options.runs / f"{options.domain}.txt")
    settings = {
        "encoder": options.encoder,
        "teachers": [options.teacher],
        "train": file,
        "dev": "stsb-dev+sick-trial",
        "suites": suites,
    }
    settings |= dict(text.split("=", 1) for text in options.set)
    for seed in options.seeds:
        run = trained_run(
            RankCSEConfig.from_parameters("distillation", seed, settings), options.runs
        )
        print(f"seed {seed}", columns(options.domain, run.scores(), run.metrics()), flush=True)


def columns(domain: str, scores: pd.DataFrame, metrics: dict[str, dict[str, float]]) -> str:
    """Return the scores on the domain, SICK and the ladders as text."""
    of_parts = []
    for suite, names in PARTS[domain].items():
        for name in names:
            part = scores[(scores["suite"] == suite) & (scores["subset"] == name)]
            of_parts.append(spearman(part["gold"].to_numpy(), part["predicted"].to_numpy()))
    own = 100 * sum(of_parts) / len(of_parts)
    sick = 100 * metrics["sick-test"]["spearman"]
    ladders = 100 * metrics["ladders-all"]["kcc"]
    return f"{domain} {own:.2f}, SICK {sick:.2f}, ladders {ladders:.2f}"


if __name__ == "__main__":
    main()
