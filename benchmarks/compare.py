"""Processor seconds of `views.compare_systems` on many finished runs.

    python benchmarks/compare.py [--runs 300] [--suites 8] [--pairs 1000]

The runs are written to a temporary folder: gold plus noise, no training."""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from workbench import metrics
from workbench.config import SimCSEConfig
from workbench.runs import Run
from workbench.systems import ALPHA
from workbench.views import compare_systems

SEEDS = 5


def write_runs(root: Path, runs: int, suites: int, pairs: int) -> None:
    """Write finished runs of settings with five seeds each; all scored the same pairs."""
    draw = np.random.default_rng(0)
    gold = np.round(5 * draw.random((suites, pairs)), 1)
    for number in range(runs):
        temperature = 0.01 + 0.01 * (number // SEEDS)
        overrides = {"temperature": round(temperature, 2)}
        run = Run.open(SimCSEConfig.from_parameters("demo", number % SEEDS, overrides), root)
        tables, values = [], {}
        for suite in range(suites):
            predicted = gold[suite] + (1 + temperature) * draw.standard_normal(pairs)
            name = f"suite-{suite}"
            values[name] = {"spearman": metrics.spearman(gold[suite], predicted), "n": pairs}
            columns = {
                "suite": name,
                "subset": "",
                "pair_id": [f"{name}-{i}" for i in range(pairs)],
            }
            tables.append(pd.DataFrame({**columns, "gold": gold[suite], "predicted": predicted}))
        rankings = pd.DataFrame(columns=["suite", "query_id", "target_id"])
        run.write_evaluation(values, pd.concat(tables), rankings)
        run.release()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--suites", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        write_runs(root, options.runs, options.suites, options.pairs)
        print(f"{options.runs} runs, {options.suites} suites of {options.pairs} pairs", flush=True)
        for samples in (200, 1000):
            started = time.process_time()
            compared = compare_systems(root, samples=samples)
            seconds = time.process_time() - started
            clear = (compared.table["adjusted"] < ALPHA).sum()
            tests = compared.table["adjusted"].notna().sum()
            print(
                f"{samples} resamples: {seconds:.1f} s of processor, {tests} tests, {clear} clear"
            )


if __name__ == "__main__":
    main()
