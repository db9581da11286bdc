"""Precision and checks of the arguments that the losses share."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import torch
from jaxtyping import Float
from torch import Tensor

Loss = Float[Tensor, ""]
Scores = Float[Tensor, " n"]
Lists = Float[Tensor, "n m"]  # a list per row
SameShape = Float[Tensor, "..."]  # as another argument: the function compares the two

P = ParamSpec("P")
_HALF = (torch.float16, torch.bfloat16)


def full_precision(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Compute a function in float32 at least: half inputs are widened and autocast is off inside.

    A temperature of 0.05 turns bfloat16's step of 0.004 near 1 into 0.08 of a logit, enough to
    reorder a list."""

    def widen(argument: object) -> object:
        return (
            argument.float()
            if isinstance(argument, Tensor) and argument.dtype in _HALF
            else argument
        )

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        positional = [widen(argument) for argument in args]
        named = {name: widen(argument) for name, argument in kwargs.items()}
        tensors = [each for each in (*positional, *named.values()) if isinstance(each, Tensor)]
        with torch.autocast(tensors[0].device.type, enabled=False):
            return function(*positional, **named)  # pyright: ignore[reportCallIssue]

    return wrapper


def require_same_shape(first: Tensor, second: Tensor, names: str) -> None:
    """Raise ValueError unless two arguments have one shape.

    Broadcasting would give another loss without an error.
    """
    if first.shape != second.shape:
        raise ValueError(
            f"{names} have shapes {tuple(first.shape)} and {tuple(second.shape)}; they "
            "must be equal"
        )


def require_pairs(scores: Tensor, gold: Tensor) -> None:
    """Raise unless `scores` and `gold` are vectors of equal length, not empty."""
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(
            f"scores have shape {tuple(scores.shape)}; they must be a vector that is not empty"
        )
    require_same_shape(scores, gold, "scores and gold")


def widest(tensor: Tensor) -> torch.dtype:
    """Return the most precise floating-point type of the tensor's device."""
    # Apple's GPUs have no float64.
    return torch.float32 if tensor.device.type == "mps" else torch.float64
