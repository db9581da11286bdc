"""How long the live views take in the kernel: to open, for a keystroke, for the next query, on thousands of pairs.

Run with: python benchmarks/explorer.py. A search finds in the order that is there; ordering the queries again for each
letter is what it is held against. Processor time, so that a busy machine counts little.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import Pairs
from workbench.look import PairExplorer, RankingExplorer
from workbench.rankings import COLUMNS


def rankings(queries: int, targets: int, seed: int) -> pd.DataFrame:
    """A ranking table of `queries` with `targets` each, scores drawn."""
    draw = np.random.default_rng(seed)
    number, place = np.divmod(np.arange(queries * targets), targets)
    table = pd.DataFrame({"query_id": [f"q{n}" for n in number], "target_id": [f"p{n}" for n in range(len(number))]})
    table = table.assign(suite="drawn", query=[f"query {n} of many" for n in number])
    table["target"] = [f"target {p} of query {n}" for n, p in zip(number, place, strict=True)]
    table["gold"], table["score"] = 5 - 5 * place / targets, draw.random(len(number))
    table["rank"] = table.groupby("query_id")["score"].rank(ascending=False)
    return table.loc[:, list(COLUMNS)]


def seconds(call: Callable[[], object]) -> float:
    """Of the fastest of five."""
    times = []
    for _ in range(5):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def pairs(count: int) -> Pairs:
    """Pairs of sentences of a few words, gold drawn."""
    draw = np.random.default_rng(0)
    sides = [[f"sentence {number} of the {side} side" for number in range(count)] for side in ("first", "second")]
    names = [f"p{number}" for number in range(count)]
    return Pairs("drawn", *sides, draw.integers(0, 6, count) / 1.0, None, names, (0, 5), source="drawn", checksum="0")


def printed(what: str, opened: Callable[[], Any]) -> None:
    """Opens a view and prints what the reader waits for."""
    start = time.process_time()
    view = opened()
    first = time.process_time() - start
    letters, rows = iter("1234567890" * 100), iter(range(1000))
    typed = seconds(lambda: view._told(None, {"search": next(letters)}, None))
    view._told(None, {"search": ""}, None)
    following = seconds(lambda: view._told(None, {"chosen": view.listed()[next(rows)]}, None))
    print(f"{what}: opened in {first:.2f} s, a keystroke {typed:.3f} s, the next {following:.3f} s")


def main() -> None:
    """Prints all."""
    tables = {label: rankings(1000, 10, seed) for seed, label in enumerate("abcdef")}
    printed("1,000 queries of 10 targets, 6 labels", lambda: RankingExplorer(tables))
    many = {label: rankings(300, 2000, seed) for seed, label in enumerate("ab")}
    printed("300 queries of 2,000 targets, 2 labels", lambda: RankingExplorer(many))
    for count in (10_000, 100_000):
        data, draw = pairs(count), np.random.default_rng(1)
        scores = {label: draw.random(count) for label in "abcdef"}
        printed(f"{count:,} pairs, 6 labels", lambda data=data, scores=scores: PairExplorer(scores, data))


if __name__ == "__main__":
    main()
