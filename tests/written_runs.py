"""Finished runs whose scores are gold plus noise, written as by a training."""

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pandas as pd
import pytest
from forking import python

from workbench import metrics
from workbench.config import BaselineConfig, TrainingConfig
from workbench.data import Pairs, load_pairs
from workbench.evaluation import per_query_metrics, ranking_table
from workbench.runs import Run

SUITE = "world-dev"
_HOLD = """
import sys
from pathlib import Path
from workbench.runs import lock_run
lock = lock_run(Path(sys.argv[1]), *sys.argv[2:])
print("held", flush=True)
sys.stdin.read()
"""


def after_a_timeout(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Call `act` once this process has waited for a lock in vain."""
    acquire = filelock.BaseFileLock.acquire
    waiting = [act]

    def try_lock(self: Any, *words: Any, **options: Any) -> Any:
        try:
            return acquire(self, *words, **options)
        except filelock.Timeout:
            while waiting:
                waiting.pop()()
            raise

    patch.setattr(filelock.BaseFileLock, "acquire", try_lock)


def hold_lock(path: Path, *which: str) -> subprocess.Popen[str]:
    """Start a process that holds a lock of `lock_run` until `communicate`; return once it does."""
    command = [python("looks"), "-c", _HOLD, str(path), *which]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def first_pairs(count: int) -> Pairs:
    pairs = load_pairs(SUITE)
    columns = {
        name: getattr(pairs, name)[:count] for name in ("sentence1", "sentence2", "gold", "pair_id")
    }
    return dataclasses.replace(pairs, **columns)


PAIRS = first_pairs(210)


def write_run(
    root: Path, config: TrainingConfig | BaselineConfig, noise: float, *, pairs: int | None = None
) -> Run:
    """Write a finished run with scores of gold plus noise, more noise before training."""
    run = Run.open(config, root)
    draw = np.random.default_rng([config.seed, round(100 * noise)])
    gold = PAIRS.gold[:pairs]
    for stage, amount in (("before", noise + 3), ("", noise)):
        predicted = PAIRS.gold + amount * draw.standard_normal(len(PAIRS.gold))
        rankings = ranking_table(PAIRS, predicted, SUITE)
        queries = per_query_metrics(rankings)
        half = ["odd" if number % 2 else "even" for number in range(len(gold))]
        subsets = {
            name: {
                "spearman": metrics.spearman(gold[start::2], predicted[: len(gold)][start::2]),
                "n": len(gold) // 2,
            }
            for start, name in enumerate(["even", "odd"])
        }
        value = {
            "spearman": metrics.spearman(gold, predicted[: len(gold)]),
            "n": len(gold),
            "kcc": queries["kcc"].mean(),
            "ndcg": queries["ndcg"].mean(),
            "queries": len(queries),
            "subsets": subsets,
        }
        scores = {"suite": SUITE, "subset": half, "pair_id": PAIRS.pair_id[:pairs], "gold": gold}
        run.write_evaluation(
            {SUITE: value},
            pd.DataFrame({**scores, "predicted": predicted[: len(gold)]}),
            rankings,
            stage,
        )
    return run
