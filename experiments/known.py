"""Evaluate public encoders on the seven STS sets; print our numbers beside the published ones.

    export WORKBENCH_DATA=DIR
    python experiments/known.py all-MiniLM-L6-v2=FOLDER all-mpnet-base-v2=FOLDER

FOLDER may also be a hub id. The tables of docs/results.md and README.md are written from
data/known.csv: Spearman x 100 of the workbench's vectors and of SentenceTransformer's in fp32, and
the numbers of the model cards, which were computed with mteb. STS12 to STS16 are scored over all
subsets together; "SICK-R" is the test part, as SimCSE and the papers here score it, "SICK-R, all
pairs" train, trial and test together, as mteb does."""

import argparse
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from claims import fill
from sentence_transformers import SentenceTransformer

from workbench import Encoder
from workbench.config import SEVEN_STS
from workbench.data import load_pairs
from workbench.files import project_path, write_text
from workbench.metrics import spearman

RESULTS = project_path("data") / "known.csv"
PROJECT = project_path("data").parent
NAMES = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
ALL_OF_SICK = "SICK-R, all pairs"
CARD = "its model card (mteb)"
# From the front matter of the model cards, which mteb wrote; sets that a card lacks are left out.
PUBLISHED = {
    "all-MiniLM-L6-v2": {
        "STS12": 72.369,
        "STS13": 80.603,
        "STS14": 75.589,
        "STS15": 85.390,
        "STS16": 78.989,
        ALL_OF_SICK: 77.582,
    },
    "all-mpnet-base-v2": {
        "STS13": 83.485,
        "STS14": 78.000,
        "STS15": 85.663,
        "STS16": 80.030,
        "STS-B": 83.422,
    },
}


def read_sets() -> dict[str, tuple[list[str], list[str], np.ndarray]]:
    """Return both sentences and gold of the pairs of each set."""
    sets = {}
    for name, suite in zip(NAMES, SEVEN_STS, strict=True):
        pairs = load_pairs(suite)
        sets[name] = (pairs.sentence1, pairs.sentence2, pairs.gold)
    parts = [load_pairs(f"sick-{part}") for part in ("train", "trial", "test")]
    first = [text for part in parts for text in part.sentence1]
    second = [text for part in parts for text in part.sentence2]
    sets[ALL_OF_SICK] = (first, second, np.concatenate([part.gold for part in parts]))
    return sets


def scores_of(
    encode: Callable[[list[str]], object],
    sets: dict[str, tuple[list[str], list[str], np.ndarray]],
) -> dict[str, float]:
    """Return Spearman x 100 of the cosines on each set, and the average of the seven.

    Each distinct sentence is encoded once: SICK's pairs share theirs, and all of SICK contains its
    test part."""
    distinct = list(dict.fromkeys(text for *sides, _ in sets.values() for text in chain(*sides)))
    place = {text: row for row, text in enumerate(distinct)}
    vectors = np.asarray(encode(distinct), np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = {}
    for name, (first, second, gold) in sets.items():
        left, right = (vectors[[place[text] for text in side]] for side in (first, second))
        scores[name] = 100 * spearman(gold, (left * right).sum(axis=1))
    return scores | {"average": float(np.mean([scores[name] for name in NAMES]))}


def write_tables() -> None:
    """Write the table into docs/results.md, and the columns that everybody has into README.md."""
    table = pd.read_csv(RESULTS)
    is_first = table["numbers"].isin(["the workbench", CARD])
    write(PROJECT / "docs" / "results.md", table, [*NAMES, "average", ALL_OF_SICK])
    write(PROJECT / "README.md", table[is_first], [*NAMES, ALL_OF_SICK])


def write(page: Path, table: pd.DataFrame, columns: list[str]) -> None:
    """Write rows and columns between the marks of a page."""
    lines = [
        "| encoder | numbers of | " + " | ".join(columns) + " |",
        "|" + "---|" * (2 + len(columns)),
    ]
    for row in table.to_dict("records"):
        cells = ["" if pd.isna(row[name]) else f"{row[name]:.2f}" for name in columns]
        lines.append(f"| {row['encoder']} | {row['numbers']} | " + " | ".join(cells) + " |")
    write_text(page, fill(page, {"known": "\n".join(lines) + "\n"}))


def record(encoder: str, numbers: str, scores: dict[str, float]) -> None:
    """Put a row into data/known.csv, in the place of the one of the same encoder and source."""
    table = pd.DataFrame([{"encoder": encoder, "numbers": numbers} | scores])
    print(table.round(3).to_string(), flush=True)
    if RESULTS.is_file():
        others = pd.read_csv(RESULTS)
        is_same = (others["encoder"] == encoder) & (others["numbers"] == numbers)
        place = int(is_same.argmax()) if is_same.any() else len(others)
        others = others[~is_same]
        table = pd.concat([others[:place], table, others[place:]], ignore_index=True)
    write_text(RESULTS, table.round(5).to_csv(index=False))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoders", nargs="*", metavar="NAME=FOLDER")
    options = parser.parse_args()
    if wrong := [text for text in options.encoders if "=" not in text]:
        parser.error(f"{wrong[0]}: write NAME=FOLDER")
    sets = read_sets() if options.encoders else {}
    for text in options.encoders:
        name, _, folder = text.partition("=")
        record(name, "the workbench", scores_of(Encoder.from_pretrained(folder).encode, sets))
        theirs = SentenceTransformer(folder)
        record(name, "sentence-transformers", scores_of(theirs.encode, sets))
        if name in PUBLISHED:
            record(name, CARD, PUBLISHED[name])
    write_tables()


if __name__ == "__main__":
    main()
