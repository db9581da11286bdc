"""The untrained bases on the bundled world, and on the real sets when WORKBENCH_DATA names a local data root.

    python benchmarks/bases.py [--encoder NAME] [--real] [--suites NAME ...] [--fit-limit 20000] [--whitening 16 64]

Prints Spearman x 100 (KCC and NDCG too on the world). Whitening and tf-idf are fitted on training sentences (world or
wiki); "target" means fitted on the evaluated sentences themselves, without their scores, as part of the literature is.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.baselines import load_baseline
from workbench.config import SEVEN_STS, BaselineConfig
from workbench.data import Pairs, load_pairs, load_sentences
from workbench.evaluation import evaluate

POOLINGS = ["cls", "mean", "max", "avg_first_last", "avg_embedding_last"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="world-encoder")
    parser.add_argument("--real", action="store_true", help="the seven STS sets instead of the world")
    parser.add_argument("--suites", nargs="*", help="these sets instead")
    parser.add_argument("--fit-limit", type=int, default=20_000)
    parser.add_argument("--whitening", type=int, nargs="*", default=[16, 64])
    options = parser.parse_args()
    if options.real and "WORKBENCH_DATA" not in os.environ:
        parser.error("--real needs the local data root: set WORKBENCH_DATA")
    names = options.suites or (SEVEN_STS if options.real else ["world-dev", "world-test"])
    suites = {name: load_pairs(name) for name in names}
    sentences = load_sentences("wiki" if options.real else "world", limit=options.fit_limit).sentences
    for place, found in enumerate(rows(options.encoder, sentences, options.whitening, suites)):
        shown = {name: f"{value:.2f}" for name, value in found.items() if name != "base"}
        head = f"{'base':<44} {' '.join(f'{name:>14}' for name in shown)}\n" if place == 0 else ""
        print(f"{head}{found['base']:<44} {' '.join(f'{value:>14}' for value in shown.values())}", flush=True)


def rows(
    encoder: str, sentences: list[str], widths: list[int], suites: dict[str, Pairs]
) -> Iterator[dict[str, object]]:
    """A line of the table a base, as it is measured."""
    for label, base in bases(encoder, sentences, widths):
        yield row(label, base, suites)
    for width in widths:
        yield target_row(encoder, width, suites)


def bases(encoder: str, sentences: list[str], widths: list[int]) -> Iterator[tuple[str, Any]]:
    """Every base by its label, fitted on `sentences`."""

    def base(**settings: object) -> Any:
        return load_baseline(
            BaselineConfig.from_parameters("cls", 0, {"encoder": encoder, "pooling": None} | settings), sentences
        )

    yield "tf-idf", base(kind="tfidf")
    yield "static words, mean", base(kind="static")
    for pooling in POOLINGS:
        yield f"{Path(encoder).name}, {pooling}", base(pooling=pooling)
    for width in widths:
        for pooling in ("avg_first_last", "mean"):
            yield f"whitening {pooling}, k={width}", base(kind="whitening", pooling=pooling, width=width)


def row(label: str, base: Any, suites: dict[str, Pairs]) -> dict[str, object]:
    """One line of the table."""
    found: dict[str, object] = {"base": label}
    for name, values in evaluate(base, suites).metrics.items():
        found[name] = 100 * values["spearman"]
        if name.startswith("world"):
            found |= {f"{measure} {name[6:]}": 100 * values[measure.lower()] for measure in ("KCC", "NDCG")}
    return found


def target_row(encoder: str, width: int, suites: dict[str, Pairs]) -> dict[str, object]:
    """Whitening fitted on each suite's own sentences."""
    label = f"whitening avg_first_last, k={width}, target"
    found: dict[str, object] = {"base": label}
    settings = {"encoder": encoder, "width": width}
    for name, pairs in suites.items():
        own = list(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))
        base = load_baseline(BaselineConfig.from_parameters("whitening", 0, settings), own)
        found |= {key: value for key, value in row(label, base, {name: pairs}).items() if key != "base"}
    if all(name in found for name in SEVEN_STS):
        found["sts-average"] = sum(float(str(found[name])) for name in SEVEN_STS) / len(SEVEN_STS)
    return found


if __name__ == "__main__":
    main()
