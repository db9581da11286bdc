"""Ranks and correlations of many draws at once: what is sorted once gives the ranks of every draw by adding up."""

import numpy as np

BLOCK = 20_000  # numbers of a block of draws to rank: twice as quick as ten times as many, which leave the cache


def blocks(samples: int, count: int) -> list[int]:
    """Exchanges of `count` pairs, in blocks of so many: a matrix product each."""
    size = max(1, 10 * BLOCK // max(1, count))
    return [min(size, samples - start) for start in range(0, samples, size)]


def weighted_ranks(places: np.ndarray, times: np.ndarray) -> np.ndarray:
    """[draws, n]: ranks, averaged over ties, of n values at these places [n] of their order, times [draws, n] each."""
    order = np.argsort(places, kind="stable")
    firsts = np.flatnonzero(np.diff(places[order], prepend=-1))
    size = np.add.reduceat(times[:, order], firsts, axis=1)
    return (np.cumsum(size, axis=1) - (size - 1) / 2)[:, places]


def weighted_correlations(a: np.ndarray, b: np.ndarray, times: np.ndarray) -> np.ndarray:
    """[draws]: Pearson's correlation of ranks [draws, n], each entry so often; nan where one side is constant."""
    middle = (times.sum(axis=1, keepdims=True) + 1) / 2
    first, second = a - middle, b - middle
    counted = times * first
    both = np.einsum("dn,dn->d", counted, second)
    spread = np.einsum("dn,dn->d", counted, first) * np.einsum("dn,dn,dn->d", times, second, second)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0, np.clip(both / np.sqrt(spread), -1, 1), np.nan)


def drawn_times(drawn: np.ndarray, count: int) -> np.ndarray:
    """[draws, count]: how often each of `count` pairs counts in draws [draws, n] of them."""
    places = drawn + count * np.arange(len(drawn))[:, None]
    return np.bincount(places.ravel(), minlength=len(drawn) * count).reshape(-1, count).astype(np.float64)
