"""Pairs as ranking tasks: a sentence in several pairs is a query, its partners are the targets (RankCSE app. G)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

FEWEST_TARGETS = 4  # of a query: more than three, RankCSE app. G


def similar_third(gold: ArrayLike, scale: tuple[float, float]) -> np.ndarray:
    """Return the mask of the similar third: gold [n] above 0.67 of the way up its scale (RankEncoder figure 5)."""
    low, high = scale
    return np.asarray(gold) > low + 0.67 * (high - low)


@dataclass(frozen=True, eq=False)
class RankingGroup:
    """One query with its targets, in the order of the pairs; `len` counts the targets, iteration yields them.

    pairs: the index of each target's pair, so that `predicted[group.pairs]` are the targets' scores. gold: [targets].
    """

    query: str
    targets: tuple[str, ...]
    pairs: np.ndarray
    gold: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)

    def __iter__(self) -> Iterator[str]:
        return iter(self.targets)


def ranking_groups(sentence1: Sequence[str], sentence2: Sequence[str], gold: ArrayLike) -> dict[str, RankingGroup]:
    """Return query -> RankingGroup of every sentence in more than three pairs, in order of first appearance.

    A sentence counts on both sides, a pair of a sentence with itself once; repeated pairs are separate targets. STS-B
    test has 19 such queries: quote the number together with any mean (RankCSE app. G).
    """
    labels = np.asarray(gold, dtype=np.float64)
    members: dict[str, list[tuple[int, str]]] = {}
    for index, (first, second, _) in enumerate(zip(sentence1, sentence2, labels, strict=True)):
        members.setdefault(first, []).append((index, second))
        if first != second:
            members.setdefault(second, []).append((index, first))
    groups = {}
    for query, partners in members.items():
        if len(partners) >= FEWEST_TARGETS:
            pairs = np.array([index for index, _ in partners])
            groups[query] = RankingGroup(query, tuple(target for _, target in partners), pairs, labels[pairs])
    return groups
