"""What each objective makes of gold: its order, a share of its scale, two sides, classes, triples."""

import numpy as np

from workbench.data import Pairs, Triples
from workbench.errors import DataError


def require_order(pairs: Pairs) -> None:
    """Raises DataError unless gold holds two different labels: equal ones say nothing about similarity."""
    if len(np.unique(pairs.gold)) < 2:
        raise DataError(
            f"{pairs.name}: all {len(pairs)} labels are {pairs.gold[0]:g}; they do not say which pair is closer: "
            "give pairs with at least two different labels"
        )


def places(pairs: Pairs) -> np.ndarray:
    """The place of each label in their order: float32, in which they travel, must not make two labels equal."""
    return np.unique(pairs.gold, return_inverse=True)[1].reshape(-1)


def shares(pairs: Pairs) -> np.ndarray:
    """Gold over the top of its scale, in [0, 1]: STS / 5, SICK / 5 (so from 0.2), NLI / 2, as published code has it."""
    low, high = pairs.scale
    if low < 0 or high <= 0:
        raise DataError(f"{pairs.name}: its scale is {low:g} to {high:g}; this objective needs one from 0 or more")
    return pairs.gold / high


def sides(pairs: Pairs, threshold: float | None) -> np.ndarray:
    """1 where gold lies above `threshold`, else 0; None: the middle of the scale (STS 2.5, SICK 3, NLI 1, binary 0.5).

    Raises DataError when all pairs fall on one side.
    """
    cut = sum(pairs.scale) / 2 if threshold is None else threshold
    similar = (pairs.gold > cut).astype(np.float64)
    if similar.min() == similar.max():
        raise DataError(
            f"{pairs.name}: no gold lies {'above' if similar[0] == 0 else 'at or below'} the threshold {cut:g}; "
            f"gold runs from {pairs.gold.min():g} to {pairs.gold.max():g}: set threshold between the two"
        )
    return similar


def class_numbers(pairs: Pairs, graded: str) -> tuple[np.ndarray, int]:
    """The place of each label among the labels that occur, and how many those are.

    graded: what becomes of labels between whole numbers: "whole" refuses them, "nearest" rounds half up, "floor" cuts.
    """
    whole = {"nearest": np.floor(pairs.gold + 0.5), "floor": np.floor(pairs.gold)}.get(graded, pairs.gold)
    if not (whole == np.floor(whole)).all():
        raise DataError(
            f"{pairs.name}: gold holds grades such as {pairs.gold[whole != np.floor(whole)][0]:g}, and softmax needs "
            "classes; set softmax_labels to nearest or floor to make whole numbers of them, or take another objective"
        )
    labels, numbers = np.unique(whole, return_inverse=True)
    if len(labels) < 2:
        raise DataError(f"{pairs.name}: all labels fall into class {labels[0]:g}; softmax needs two or more classes")
    return numbers.reshape(-1), len(labels)


def triple_rows(data: Pairs | Triples, threshold: float | None) -> tuple[list[str], list[str], list[str]]:
    """Anchors, positives and negatives: of triples as they are; of scored pairs, each first sentence with each similar
    and each dissimilar second one.

    Raises DataError when no first sentence of the pairs has both.
    """
    if isinstance(data, Triples):
        return data.anchor, data.positive, data.hard_negative
    similar = sides(data, threshold)
    partners: dict[str, tuple[list[str], list[str]]] = {}
    for first, second, side in zip(data.sentence1, data.sentence2, similar, strict=True):
        partners.setdefault(first, ([], []))[0 if side else 1].append(second)
    found = [(first, near, far) for first, (nears, fars) in partners.items() for near in nears for far in fars]
    if not found:
        raise DataError(
            f"{data.name}: no first sentence stands in a similar and in a dissimilar pair, so there are no triples; "
            "give a set of triples such as nli-simcse, or another objective"
        )
    anchor, positive, negative = (list(column) for column in zip(*found, strict=True))
    return anchor, positive, negative
