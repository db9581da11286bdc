"""What every loss asks of its arguments: full precision, the right shape, a usable setting."""

import math
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import torch
from torch import Tensor

P = ParamSpec("P")
_HALF = (torch.float16, torch.bfloat16)


def full_precision(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """The function, computed in float32 at least: half inputs are widened and autocast is off inside.

    A temperature of 0.05 turns bfloat16's step of 0.004 near 1 into 0.08 of a logit, enough to reorder a list.
    """

    def widened(argument: object) -> object:
        return argument.float() if isinstance(argument, Tensor) and argument.dtype in _HALF else argument

    @wraps(function)
    def computed(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        positional = [widened(argument) for argument in args]
        named = {name: widened(argument) for name, argument in kwargs.items()}
        device = next((a.device.type for a in (*positional, *named.values()) if isinstance(a, Tensor)), "cpu")
        if not torch.is_autocast_enabled(device):
            return function(*positional, **named)  # pyright: ignore[reportCallIssue]
        with torch.autocast(device, enabled=False):
            return function(*positional, **named)  # pyright: ignore[reportCallIssue]

    return computed


def require_positive(value: float, name: str) -> None:
    """Raise unless `value` is a positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value}; it multiplies or divides scores, so give a positive number")


def require_matrix(scores: Tensor, name: str) -> None:
    """Raise unless `scores` is a matrix with at least one row and one column."""
    if scores.ndim != 2 or 0 in scores.shape:
        raise ValueError(
            f"{name} has shape {tuple(scores.shape)}; give a matrix [anchors, candidates], both at least 1"
        )


def require_positives(scores: Tensor, name: str) -> None:
    """Raise unless column i can hold row i's positive for every row."""
    require_matrix(scores, name)
    rows, columns = scores.shape
    if columns < rows:
        raise ValueError(
            f"{name} has {rows} rows but only {columns} columns; column i holds row i's positive, "
            "so give at least as many columns as rows (further columns are further negatives)"
        )


def require_same_shape(first: Tensor, second: Tensor, names: str) -> None:
    """Raise unless two arguments have one shape; nothing is broadcast."""
    if first.shape != second.shape:
        raise ValueError(f"{names} have shapes {tuple(first.shape)} and {tuple(second.shape)}; give one and the same")


def require_pairs(scores: Tensor, gold: Tensor) -> None:
    """Raise unless `scores` and `gold` are two vectors, equally long and not empty, with every gold label known."""
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"scores have shape {tuple(scores.shape)}; give a vector with one score a pair, at least one")
    require_same_shape(scores, gold, "scores and gold")
    require_labels(gold, "gold")


def require_labels(labels: Tensor, name: str) -> None:
    """Raise when a label is nan: it has no place in any order."""
    missing = labels.isnan()
    if bool(missing.any()):
        raise ValueError(
            f"{name} holds nan in {int(missing.sum())} of {labels.numel()} places; every label must be a number: "
            "drop the unlabelled pairs, or find where a teacher's vector became nan"
        )
