"""Evaluate public encoders on the seven STS sets; print our numbers beside the published ones.

    export WORKBENCH_DATA=DIR
    python experiments/known.py all-MiniLM-L6-v2=FOLDER all-mpnet-base-v2=FOLDER

FOLDER may also be a hub id. The tables of docs/results.md and README.md are written from
data/known.csv: Spearman x 100 of the workbench and of SentenceTransformer.similarity in fp32, and
the numbers of the model cards, which were computed with mteb. STS12 to STS16 are scored over all
subsets together; "SICK-R" is the test part, as SimCSE and the papers here score it, "SICK-R, all
pairs" train, trial and test together, as mteb does."""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from claims import fill
from sentence_transformers import SentenceTransformer

from workbench import Encoder
from workbench.config import SEVEN_STS
from workbench.data import load_pairs
from workbench.files import atomic_write, project_path
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
    encode: object, sets: dict[str, tuple[list[str], list[str], np.ndarray]]
) -> dict[str, float]:
    """Return Spearman x 100 of the cosines on each set, and the average of the seven."""
    scores = {}
    for name, (first, second, gold) in sets.items():
        sides = [np.asarray(encode(side), np.float64) for side in (first, second)]  # pyright: ignore
        products = (sides[0] * sides[1]).sum(axis=1)
        lengths = [np.linalg.norm(side, axis=1) for side in sides]
        scores[name] = 100 * spearman(gold, products / (lengths[0] * lengths[1]))
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
    page.write_text(fill(page, {"known": "\n".join(lines) + "\n"}), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoders", nargs="*", metavar="NAME=FOLDER")
    options = parser.parse_args()
    sets = read_sets() if options.encoders else {}
    for text in options.encoders:
        name, _, folder = text.partition("=")
        rows = [("the workbench", scores_of(Encoder.from_pretrained(folder).encode, sets))]
        theirs = SentenceTransformer(str(Path(folder)) if Path(folder).is_dir() else folder)
        rows.append(("sentence-transformers", scores_of(theirs.encode, sets)))
        rows.append((CARD, PUBLISHED.get(name, {})))
        table = pd.DataFrame([{"encoder": name, "numbers": of} | row for of, row in rows])
        if RESULTS.is_file():
            others = pd.read_csv(RESULTS)
            table = pd.concat([others[others["encoder"] != name], table], ignore_index=True)
        with atomic_write(RESULTS) as file:
            table.round(5).to_csv(file, index=False)
        print(table[table["encoder"] == name].round(3).to_string(), flush=True)
    write_tables()


if __name__ == "__main__":
    main()
