"""Compare Spearman of Encoder and SentenceTransformer on the seven STS sets.

    WORKBENCH_DATA=<folder> python benchmarks/parity.py

The checkpoint is all-MiniLM-L6-v2. STS12-16 are scored over all subsets together ("all"), STS-B and
SICK-R on test. A difference above 0.05 points (x 100) is an error."""

import sys

import numpy as np
import sentence_transformers
from minilm import MISSING, find_minilm

from workbench.config import SEVEN_STS
from workbench.data import load_pairs
from workbench.encoder import Encoder
from workbench.errors import DataError
from workbench.metrics import spearman


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each pair of rows."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / norms


def main() -> None:
    """Print a line for each set; exit with an error if a difference is above 0.05 points."""
    folder = find_minilm()
    if folder is None:
        print(f"skipped: {MISSING}")
        return
    try:
        sets = {name: load_pairs(name) for name in SEVEN_STS}
    except DataError as error:
        print(f"skipped, because it needs the real sets: {error}")
        return
    ours = Encoder.from_pretrained(folder)
    theirs = sentence_transformers.SentenceTransformer(str(folder))
    differences = []
    print(f"{'set':12}{'pairs':>7}{'SentenceTransformer':>22}{'Encoder':>10}{'difference':>12}")
    for name, pairs in sets.items():
        scores = [
            100
            * spearman(
                pairs.gold,
                cosines(np.asarray(encode(pairs.sentence1)), np.asarray(encode(pairs.sentence2))),
            )
            for encode in (theirs.encode, ours.encode)
        ]
        differences.append(abs(scores[1] - scores[0]))
        print(
            f"{name:12}{len(pairs):>7}{scores[0]:>22.3f}{scores[1]:>10.3f}"
            f"{scores[1] - scores[0]:>12.4f}",
            flush=True,
        )
    worst = np.max(differences)  # nan if a score is
    print(f"largest difference {worst:.4f} points; Encoder in {ours.precision} on {ours.device}")
    sys.exit(not worst <= 0.05)


if __name__ == "__main__":
    main()
