"""Random choices that only depend on a seed: equal in every process, platform and Python
version."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Random choices from `random.Random.random()` only, the one method whose sequence Python
    guarantees."""

    def __init__(self, *key: object) -> None:
        self.random = random.Random(int(digest(*key), 16)).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        target = self.random() * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            target -= weight
            if target < 0:
                return item
        return items[-1]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` items from different positions, in random order."""
        left = list(items)
        return [left.pop(int(self.random() * len(left))) for _ in range(count)]


def digest(*key: object) -> str:
    """Return a hexadecimal digest of the text of `key`; unlike hash(), equal in every process."""
    return hashlib.sha256("\x1f".join(map(str, key)).encode()).hexdigest()[:16]
