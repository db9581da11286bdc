"""How many seeds or pairs a difference takes.

Found by bisection of the smallest difference that is detected.
"""

from bisect import bisect_left

from workbench.metrics.significance import smallest_difference


def needed_seeds(difference: float, std: float, pairs_std: float, *, most: int) -> int | None:
    """Return the fewest seeds that detect a true difference, or None if more than `most`.

    The deviations and the probability are those of `smallest_difference`.
    """
    numbers = range(2, most + 1)
    place = bisect_left(
        numbers,
        -difference,  # bisection needs an ascending order
        key=lambda seeds: -smallest_difference(std, seeds, pairs_std=pairs_std),
    )
    return numbers[place] if place < len(numbers) else None


def needed_pairs(
    difference: float, std: float, pairs_std: float, pairs: int, *, seeds: int
) -> int | None:
    """Return the fewest pairs with which `seeds` seeds detect a true difference, or None.

    pairs_std: Over the `pairs` at hand; it falls with the root of their number. None: not even a
    million times as many pairs are enough.
    """
    numbers = range(1, 10**6 * pairs + 1)

    def negative(number: int) -> float:
        return -smallest_difference(std, seeds, pairs_std=pairs_std * (pairs / number) ** 0.5)

    place = bisect_left(numbers, -difference, key=negative)
    return numbers[place] if place < len(numbers) else None


def needed_sample(difference: float, std: float, pairs_std: float, pairs: int) -> str:
    """Return a sentence: the seeds that detect a difference, or the pairs if 100 seeds do not.

    The arguments are those of `needed_pairs`; the sentence has the difference x 100.
    """
    points = f"a difference of {100 * difference:g} {'point' if difference == 0.01 else 'points'}"
    if seeds := needed_seeds(difference, std, pairs_std, most=100):
        return f"With {pairs} pairs, {seeds} seeds detect {points}."
    if more := needed_pairs(difference, std, pairs_std, pairs, seeds=10):
        return f"With 10 seeds, {more} pairs detect {points}; {pairs} with 100 seeds do not."
    return f"With 10 seeds, no number of pairs detects {points}."
