"""Pairs as ranking tasks: a sentence in several pairs is a query, its partners are the targets (RankCSE app. G)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

FEWEST_TARGETS = 4  # of a query: more than three, RankCSE app. G


def similar_third(gold: ArrayLike, scale: tuple[float, float]) -> np.ndarray:
    """Which pairs are of the similar third: gold [n] above 0.67 of the way up its scale (RankEncoder figure 5)."""
    low, high = scale
    return np.asarray(gold) > low + 0.67 * (high - low)


@dataclass(frozen=True, eq=False)
class RankingGroup:
    """One query with its targets, in the order of the pairs; its length is their number, iteration gives the targets.

    pairs holds the index of each target's pair, so `predicted[group.pairs]` are the targets' scores.
    """

    query: str
    targets: tuple[str, ...]
    pairs: np.ndarray
    gold: np.ndarray

    def __len__(self) -> int:
        return len(self.targets)

    def __iter__(self) -> Iterator[str]:
        return iter(self.targets)


def ranking_groups(
    sentence1: Sequence[str],
    sentence2: Sequence[str],
    gold: ArrayLike,
    *,
    more_than: int = FEWEST_TARGETS - 1,
    either_side: bool = True,
) -> dict[str, RankingGroup]:
    """Every sentence in more than three pairs, as a query with its partners: RankCSE app. G.

    A sentence counts on whichever side it stands, a pair of a sentence with itself once; pairs given twice stay two
    targets. STS-B test has 19 such queries (12 if only first sentences count): quote the number beside any mean.

    Args:
        sentence1: First sentences.
        sentence2: Second sentences.
        gold: Label of each pair.
        more_than: A query has more targets than this.
        either_side: False: only first sentences are queries.

    Returns:
        query -> RankingGroup, in order of first appearance; empty when no sentence has enough partners.

    Raises:
        ValueError: Unequal lengths, or more_than below 0.
    """
    labels = np.asarray(gold, dtype=np.float64)
    if not len(sentence1) == len(sentence2) == len(labels):
        raise ValueError(
            f"{len(sentence1)} and {len(sentence2)} sentences for {len(labels)} labels; give one each a pair"
        )
    if more_than < 0:
        raise ValueError(f"more_than is {more_than}; give the number of pairs that is not yet enough, 0 or more")
    members: dict[str, list[tuple[int, str]]] = {}
    for index, (first, second) in enumerate(zip(sentence1, sentence2, strict=True)):
        members.setdefault(first, []).append((index, second))
        if either_side and first != second:
            members.setdefault(second, []).append((index, first))
    groups = {}
    for query, partners in members.items():
        if len(partners) > more_than:
            pairs = np.array([index for index, _ in partners])
            groups[query] = RankingGroup(query, tuple(target for _, target in partners), pairs, labels[pairs])
    return groups
