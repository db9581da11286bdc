"""How many seeds or pairs a difference takes, by bisection of the smallest difference that is detected."""

from bisect import bisect_left
from collections.abc import Callable

from workbench.metrics.significance import smallest_difference

_MOST_PAIRS = 10**6  # times the pairs at hand


def needed_seeds(difference: float, std: float, pairs_std: float = 0.0, *, most: int = 100) -> int | None:
    """Return the fewest seeds that detect a true difference, or None if more than `most`.

    The deviations and the probability are those of `smallest_difference`.
    """

    def is_enough(seeds: int) -> bool:
        return smallest_difference(std, seeds, pairs_std=pairs_std) <= difference

    return _first(is_enough, range(2, most + 1))


def needed_pairs(difference: float, std: float, pairs_std: float, pairs: int, *, seeds: int) -> int | None:
    """Return the fewest pairs with which `seeds` seeds detect a true difference, or None if no number does.

    pairs_std: Over the `pairs` at hand; it falls with the root of their number.
    """

    def is_enough(number: int) -> bool:
        deviation = pairs_std * (pairs / number) ** 0.5
        return smallest_difference(std, seeds, pairs_std=deviation) <= difference

    return _first(is_enough, range(1, _MOST_PAIRS * pairs + 1))


def _first(is_enough: Callable[[int], bool], numbers: range) -> int | None:
    """Return the first number that is enough, as all after it are; None if none is."""
    place = bisect_left(numbers, True, key=is_enough)
    return numbers[place] if place < len(numbers) else None
