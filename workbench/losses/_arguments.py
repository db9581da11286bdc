"""Precision and checks of the arguments that the losses share."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

P = ParamSpec("P")
Scalar = Float[Tensor, ""]
AnyShape = Float[Tensor, "..."]  # compared with that of another argument in the function
AnyNumbers = Shaped[Tensor, "..."]  # the same; they may be integers or booleans
Scores = Float[Tensor, "n m"]  # a list of m scores in each row
PairScores = Float[Tensor, " n"]  # a score of each pair
SquareScores = Float[Tensor, "n n"]  # of the sentences of a batch with one another
Embeddings = Float[Tensor, "n d"]  # a vector in each row
Vectors = Float[Tensor, "*n d"]  # the same, or one vector
_HALF = (torch.float16, torch.bfloat16)


def widen(value: Any) -> Any:
    """Convert a tensor of half precision to float32; return anything else as it is."""
    return value.float() if isinstance(value, Tensor) and value.dtype in _HALF else value


def full_precision(function: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Compute a function in float32 at least: half inputs are widened and autocast is off inside.

    A temperature of 0.05 turns bfloat16's step of 0.004 near 1 into 0.08 of a logit, enough to
    reorder a list."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        positional = [widen(argument) for argument in args]
        named = {name: widen(argument) for name, argument in kwargs.items()}
        device = next(
            (a.device.type for a in (*positional, *named.values()) if isinstance(a, Tensor)), "cpu"
        )
        # Some devices have no autocast, such as meta, on which tests/test_device.py runs.
        if not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)):
            return function(*positional, **named)  # pyright: ignore[reportCallIssue]
        with torch.autocast(device, enabled=False):
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


def tied_ranks(values: Tensor) -> Tensor:
    """Return the rank of each number in its row, from 0 for the lowest; ties share the mean.

    All shapes are fixed, so that nothing waits for the device."""
    ordered = values.sort().values
    below = torch.searchsorted(ordered, values, out_int32=True)
    not_above = torch.searchsorted(ordered, values, right=True, out_int32=True)
    # The ranks of a tie are below, ..., not_above - 1.
    return (below + not_above - 1).to(values.dtype) / 2


def widest(tensor: Tensor) -> torch.dtype:
    """Return the most precise floating-point type of the tensor's device."""
    # Apple's GPUs have no float64.
    return torch.float32 if tensor.device.type == "mps" else torch.float64
