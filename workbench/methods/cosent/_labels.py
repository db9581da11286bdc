"""Targets of each supervised objective, made of gold: ranks, shares of the scale, two sides, classes, triplets."""

import logging

import numpy as np
import torch
from torch import Tensor

from workbench.data import Pairs, Triples
from workbench.errors import DataError

_LOG = logging.getLogger("workbench")


def require_order(pairs: Pairs) -> None:
    """Raise DataError unless gold has two different labels: equal ones say nothing about similarity."""
    if len(np.unique(pairs.gold)) < 2:
        raise DataError(
            f"{pairs.name}: all {len(pairs)} labels are {pairs.gold[0]:g}; they do not say which pair is closer: "
            "give pairs with at least two different labels"
        )


def rank_labels(pairs: Pairs) -> np.ndarray:
    """Return the rank of each label among the distinct labels: float32 targets must not make two labels equal."""
    return np.unique(pairs.gold, return_inverse=True)[1].reshape(-1)


def scale_labels(pairs: Pairs) -> np.ndarray:
    """Return gold over the top of its scale, in [0, 1]: STS / 5, SICK / 5 (so from 0.2), NLI / 2, as published code."""
    low, high = pairs.scale
    if low < 0 or high <= 0:
        raise DataError(f"{pairs.name}: its scale is {low:g} to {high:g}; this objective needs one from 0 or more")
    return pairs.gold / high


def split_labels(pairs: Pairs, threshold: float | None) -> np.ndarray:
    """Return 1 where gold is above `threshold`, else 0; None: the middle of the scale (STS 2.5, SICK 3, NLI 1).

    Raises DataError if all pairs fall on one side.
    """
    cut = sum(pairs.scale) / 2 if threshold is None else threshold
    similar = (pairs.gold > cut).astype(np.float64)
    if similar.min() == similar.max():
        raise DataError(
            f"{pairs.name}: no gold is {'above' if similar[0] == 0 else 'at or below'} the threshold {cut:g}; "
            f"set threshold between {pairs.gold.min():g} and {pairs.gold.max():g}"
        )
    return similar


def number_classes(pairs: Pairs, graded: str) -> tuple[np.ndarray, int]:
    """Return the number of each label among the labels that occur, and how many there are.

    graded: What to do with labels between whole numbers: "whole" refuses them, "nearest" rounds half up, "floor" cuts.
    """
    whole = {"nearest": np.floor(pairs.gold + 0.5), "floor": np.floor(pairs.gold)}.get(graded, pairs.gold)
    grades = pairs.gold[whole != np.floor(whole)]
    if len(grades):
        raise DataError(
            f"{pairs.name}: gold has grades such as {grades[0]:g}, and softmax needs classes; set softmax_labels to "
            "nearest or floor, or another objective"
        )
    labels, numbers = np.unique(whole, return_inverse=True)
    if len(labels) < 2:
        raise DataError(f"{pairs.name}: all labels fall into class {labels[0]:g}; softmax needs two or more classes")
    return numbers.reshape(-1), len(labels)


def make_triplets(data: Pairs | Triples, threshold: float | None) -> tuple[list[str], list[str], list[str]]:
    """Return anchors, positives and negatives; of pairs, each first sentence with each similar and dissimilar second.

    Raises DataError if no first sentence of the pairs has both.
    """
    if isinstance(data, Triples):
        return data.anchor, data.positive, data.hard_negative
    partners: dict[str, tuple[list[str], list[str]]] = {}
    for first, second, side in zip(data.sentence1, data.sentence2, split_labels(data, threshold), strict=True):
        partners.setdefault(first, ([], []))[0 if side else 1].append(second)
    triplets = [(first, near, far) for first, (nears, fars) in partners.items() for near in nears for far in fars]
    if not triplets:
        raise DataError(
            f"{data.name}: no first sentence has a similar and a dissimilar partner, so there are no triplets; train "
            "on a set of triplets such as nli-simcse, or set another objective"
        )
    anchor, positive, negative = (list(column) for column in zip(*triplets, strict=True))
    return anchor, positive, negative


class OneLabelBatches:
    """Count the batches whose pairs all have one label: nothing to order, so that loss and gradient are 0."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self._seen: list[Tensor] = []
        self._warned = False

    def see(self, labels: Tensor) -> None:
        """Add the labels of a batch; they are read in `observations` only, so that no step waits for the device."""
        self._seen.append((labels == labels[0]).all())

    def observations(self) -> dict[str, float]:
        """Return the number of such batches since the last call, "unpaired_batches"; warn of the first."""
        if not self._seen:
            return {}
        batches, unpaired = len(self._seen), float(torch.stack(self._seen).sum())
        self._seen = []
        if unpaired and not self._warned:
            self._warned = True
            _LOG.warning(
                "%.0f of %d batches held pairs of one label alone: nothing for CoSENT to order, its loss 0; if this is "
                "frequent (column observed_unpaired_batches of the history), raise batch_size (now %d)",
                *(unpaired, batches, self.batch_size),
            )
        return {"unpaired_batches": unpaired}
