"""How long a keystroke of the explorer's search takes on 10,000 pairs, and how quickly a list of thousands opens.

Run with: python benchmarks/explorer.py. A search finds in the order that is there; ordering the queries again for each
letter is what it is held against. Ratios within one run: the times of a machine say little about another's.
"""

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from workbench.look import RankingExplorer, ordered_queries
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
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Prints both."""
    tables = {label: rankings(1000, 10, seed) for seed, label in enumerate("abcdef")}
    explorer = RankingExplorer(tables)
    letters = iter("query 1 query 2 query 3 " * 100)

    def keystroke() -> None:
        explorer.search.value = explorer.search.value[-6:] + next(letters)

    typed = seconds(keystroke)
    again = seconds(lambda: ordered_queries(tables, "disagreement", "a", "f"))
    print(f"10,000 pairs, 6 labels: a keystroke {1000 * typed:.0f} ms; ordering again {again / typed:.0f} times that")
    many = {label: rankings(300, 2000, seed) for seed, label in enumerate("ab")}
    start = time.perf_counter()
    opened = RankingExplorer(many)
    first = time.perf_counter() - start
    following = seconds(lambda: setattr(opened.query, "index", (opened.query.index or 0) + 1))
    print(f"300 queries of 2,000 targets, 2 labels: opened in {first:.1f} s, the next query in {following:.1f} s")


if __name__ == "__main__":
    main()
