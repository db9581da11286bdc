"""Geometry on the unit sphere: alignment of close pairs, uniformity of all vectors (Wang and Isola, 2020)."""

import numpy as np
from numpy.typing import ArrayLike

_BLOCK = 1024  # rows whose distances to all others are held in memory at once


def _directions(vectors: ArrayLike) -> np.ndarray:
    """Return rows of length 1, in float64; a row of zeros has no direction and becomes nan."""
    rows = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise ValueError("the vectors contain nan or infinity; the encoder is broken or diverged")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, np.nan, lengths)


def alignment(a: ArrayLike, b: ArrayLike) -> float:
    """Return the mean of ||a_i - b_i||^2 over positive pairs, after normalising.

    `a` and `b` are [n, d], the two sides of the pairs (in the papers: those with gold above 4 of 5). The value is in
    [0, 4], smaller is better; nan without pairs, or if a vector is zero.
    """
    first, second = _directions(a), _directions(b)
    if first.shape != second.shape:
        raise ValueError(f"a and b have shapes {first.shape} and {second.shape}; they must be equal")
    return float(np.square(first - second).sum(axis=1).mean()) if len(first) else float("nan")


def uniformity(x: ArrayLike) -> float:
    """Return the log of the mean of exp(-2 ||x_i - x_j||^2) over pairs of rows i < j, after normalising.

    `x` is [n, d]. The value is in [-8, 0], smaller is better (evenly spread vectors of many dimensions reach about -4);
    nan for fewer than two rows, or if a vector is zero.
    """
    rows = _directions(x)
    n = len(rows)
    if n < 2:
        return float("nan")
    total = 0.0
    for start in range(0, n, _BLOCK):
        block = rows[start : start + _BLOCK]
        potential = (4 * block) @ rows[start:].T  # ||x - y||^2 = 2 - 2 x.y for unit rows
        potential -= 4
        np.exp(potential, out=potential)
        total += potential[:, len(block) :].sum() + np.triu(potential[:, : len(block)], k=1).sum()  # its own pairs once
    return float(np.log(total / (n * (n - 1) / 2)))
