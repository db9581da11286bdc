"""Evaluate the untrained baselines on the bundled world, or on the real STS sets (--real).

    python experiments/bases.py [--encoder NAME] [--real] [--suites NAME ...] [--fit-limit 20000]
    [--whitening 16 64]

Prints Spearman x 100 (on the world also KCC and NDCG). Whitening and tf-idf are fitted on training
sentences: those of the world if all sets are of it, otherwise Wikipedia. "target": fitted on the
evaluated sentences without their scores, as in part of the literature. The real sets need
WORKBENCH_DATA, the folder with the local data."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.config import SEVEN_STS, BaselineConfig
from workbench.data import Pairs, load_pairs, load_sentences
from workbench.evaluation import evaluate, load_baseline

POOLINGS = ["cls", "mean", "max", "avg_first_last", "avg_embedding_last"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", default="world-encoder")
    parser.add_argument(
        "--real", action="store_true", help="evaluate on the seven STS sets instead of the world"
    )
    parser.add_argument("--suites", nargs="*", help="evaluate on these sets instead")
    parser.add_argument("--fit-limit", type=int, default=20_000)
    parser.add_argument("--whitening", type=int, nargs="*", default=[16, 64])
    options = parser.parse_args()
    if options.real and "WORKBENCH_DATA" not in os.environ:
        parser.error("--real needs local data: set WORKBENCH_DATA to its folder")
    names = options.suites or (SEVEN_STS if options.real else ["world-dev", "world-test"])
    suites = {name: load_pairs(name) for name in names}
    # The words of the world are no English, and the other way round.
    is_world = all(name.startswith("world") for name in names)
    fitted_on = "world" if is_world else "wiki"
    sentences = load_sentences(fitted_on, limit=options.fit_limit).sentences
    for place, scores in enumerate(rows(options.encoder, sentences, options.whitening, suites)):
        shown = {name: f"{value:.2f}" for name, value in scores.items() if name != "baseline"}
        head = (
            f"{'baseline':<44} {' '.join(f'{name:>14}' for name in shown)}\n" if place == 0 else ""
        )
        print(
            f"{head}{scores['baseline']:<44} "
            f"{' '.join(f'{value:>14}' for value in shown.values())}",
            flush=True,
        )


def rows(
    encoder: str, sentences: list[str], widths: list[int], suites: dict[str, Pairs]
) -> Iterator[dict[str, object]]:
    """Yield the row of the table for each baseline."""
    for label, baseline in baselines(encoder, sentences, widths):
        yield score_row(label, baseline, suites)
    for width in widths:
        yield target_row(encoder, width, suites)


def baselines(encoder: str, sentences: list[str], widths: list[int]) -> Iterator[tuple[str, Any]]:
    """Yield label and baseline, fitted on `sentences`."""

    def fitted(**settings: object) -> Any:
        return load_baseline(
            BaselineConfig.from_parameters(
                "cls", 0, {"encoder": encoder, "pooling": None} | settings
            ),
            sentences,
        )

    yield "tf-idf", fitted(kind="tfidf")
    yield "static words, mean", fitted(kind="static")
    for pooling in POOLINGS:
        yield f"{Path(encoder).name}, {pooling}", fitted(pooling=pooling)
    for width in widths:
        for pooling in ("avg_first_last", "mean"):
            yield (
                f"whitening {pooling}, k={width}",
                fitted(kind="whitening", pooling=pooling, width=width),
            )


def score_row(label: str, baseline: Any, suites: dict[str, Pairs]) -> dict[str, object]:
    """Return the label and the scores of a baseline, x 100."""
    row: dict[str, object] = {"baseline": label}
    for name, values in evaluate(baseline, suites).metrics.items():
        row[name] = 100 * values["spearman"]
        if name.startswith("world"):
            row |= {
                f"{measure} {name[6:]}": 100 * values[measure.lower()]
                for measure in ("KCC", "NDCG")
            }
    return row


def target_row(encoder: str, width: int, suites: dict[str, Pairs]) -> dict[str, object]:
    """Return the row of whitening fitted on the sentences of each evaluated suite."""
    label = f"whitening avg_first_last, k={width}, target"
    row: dict[str, object] = {"baseline": label}
    settings = {"encoder": encoder, "width": width}
    for name, pairs in suites.items():
        sentences = list(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))
        baseline = load_baseline(
            BaselineConfig.from_parameters("whitening", 0, settings), sentences
        )
        row |= score_row(label, baseline, {name: pairs})
    if all(name in row for name in SEVEN_STS):
        row["sts-average"] = sum(float(str(row[name])) for name in SEVEN_STS) / len(SEVEN_STS)
    return row


if __name__ == "__main__":
    main()
