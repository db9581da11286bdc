"""Where vectors lie on the unit sphere: alignment of close pairs, uniformity of all (Wang and Isola, 2020)."""

import numpy as np
from numpy.typing import ArrayLike

_BLOCK = 1024  # rows whose distances to all others are held at once


def _unit_rows(vectors: ArrayLike, name: str) -> np.ndarray:
    """Rows of length 1, in float64; a row of zeros has no direction and becomes nan."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"{name} has shape {rows.shape}; give a matrix [sentences, width]")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} holds nan or infinity; the encoder is broken or diverged")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, np.nan, lengths)


def alignment(a: ArrayLike, b: ArrayLike) -> float:
    """Mean ||a_i - b_i||^2 over positive pairs, after normalising.

    Args:
        a: [n, d], first sentences of the pairs (in the papers: gold above 4 of 5).
        b: [n, d], second sentences.

    Returns:
        In [0, 4]; smaller is better. nan without pairs, or where a vector is zero and has no direction.

    Raises:
        ValueError: Shapes differ, or nan among the vectors.
    """
    first, second = _unit_rows(a, "a"), _unit_rows(b, "b")
    if first.shape != second.shape:
        raise ValueError(f"a and b have shapes {first.shape} and {second.shape}; give one row a pair in both")
    return float(np.square(first - second).sum(axis=1).mean()) if len(first) else float("nan")


def uniformity(x: ArrayLike) -> float:
    """log of the mean of exp(-2 ||x_i - x_j||^2) over unordered pairs of distinct rows i < j, after normalising.

    Args:
        x: [n, d], all sentences, each once or as often as it occurs.

    Returns:
        In [-8, 0]; smaller is better (evenly spread vectors of high width reach about -4). nan for fewer than two rows,
        or where a vector is zero and has no direction. Memory is linear in n.

    Raises:
        ValueError: x is no matrix, or holds nan.
    """
    rows = _unit_rows(x, "x")
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
