"""Processor seconds and memory of TREC run files with long lists: reading, and the first view.

    python benchmarks/trec.py [--queries 200] [--targets 10000] [--systems 3]

The files are written to a temporary folder. "as text" are the same tables with plain texts in place
of categories, as tables from elsewhere have them; the ratio is that of the first views."""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from workbench.systems import read_runs
from workbench.views import RankingExplorer

_TEXTS = ["suite", "query_id", "target_id", "query", "target"]


def write_files(folder: Path, queries: int, targets: int, systems: int) -> tuple[list[Path], Path]:
    """Write runs that retrieve most of a corpus for each query, and 50 judgements for each."""
    draw = np.random.default_rng(0)
    corpus = np.array([f"document-{number:06}" for number in range(targets + targets // 20)])
    paths = []
    for system in range(systems):
        path = folder / f"system-{system}.run"
        with path.open("w", encoding="utf-8") as file:
            for query in range(queries):
                documents = draw.permutation(corpus)[:targets]
                scores = np.sort(draw.standard_normal(targets))[::-1].round(6)
                rows = zip(documents.tolist(), scores.tolist(), strict=True)
                file.writelines(
                    f"query-{query} Q0 {document} {rank} {score} system-{system}\n"
                    for rank, (document, score) in enumerate(rows, 1)
                )
        paths.append(path)
    qrels = folder / "judged.qrels"
    with qrels.open("w", encoding="utf-8") as file:
        for query in range(queries):
            for document in draw.permutation(corpus)[:50].tolist():
                file.write(f"query-{query} 0 {document} {draw.integers(0, 4)}\n")
    return paths, qrels


def measure(title: str, work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result and the processor seconds of some work, and print them."""
    started = time.process_time()
    result = work()
    seconds = time.process_time() - started
    unit = 1024**2 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    print(f"{title:28} {seconds:7.2f} s of processor, {peak:6.0f} MB at most so far", flush=True)
    return result, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--systems", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), options.queries, options.targets, options.systems)
        lines = options.queries * options.targets
        print(f"{options.systems} files of {lines:,} lines", flush=True)
        systems, _ = measure("files to reports", lambda: read_runs(*files))
    for note in systems.notes:
        print(note)
    tables = {name: report.rankings for name, report in systems.first.items()}
    # Figures and widgets are imported once, by whatever is drawn first.
    measure("imports", lambda: RankingExplorer({"a": next(iter(tables.values())).head(50)}))
    _, seconds = measure("first view", lambda: RankingExplorer(tables))
    types: Any = dict.fromkeys(_TEXTS, str)
    as_text = {name: table.astype(types) for name, table in tables.items()}
    _, plain = measure("first view, as text", lambda: RankingExplorer(as_text))
    sizes = []
    for kind in (tables, as_text):
        sizes.append(sum(table.memory_usage(deep=True).sum() for table in kind.values()) / 2**20)
    print(f"as text {plain / seconds:.1f} times as long")
    print(f"tables {sizes[0]:.0f} MB, as text {sizes[1]:.0f} MB")


if __name__ == "__main__":
    main()
