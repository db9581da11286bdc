"""How vectors become scores: cosine matrices, and one vector out of the vectors of several parts."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.losses._arguments import full_precision

COMPOSITIONS = ("avg", "sum", "concat_halves")


def _unit_rows(vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    # The largest entry of a row becomes 1 first: squares neither overflow nor vanish, the norm is at least 1, and a row
    # of zeros stays zero with a bounded gradient. A cosine does not change with scale, so the peak needs no gradient.
    peak = vectors.detach().abs().amax(dim=1, keepdim=True)
    scaled = vectors / torch.where(peak > 0, peak, 1.0)
    return scaled / torch.linalg.vector_norm(scaled, dim=1, keepdim=True).clamp_min(1.0)


@full_precision
def cosine_matrix(a: Float[Tensor, "n d"], b: Float[Tensor, "m width"]) -> Float[Tensor, "n m"]:
    """Cosine of every row of `a` with every row of `b`: phi(f(x_i), f(x_j)') of RankCSE eq. 1.

    A row of zeros has no direction; its cosines are 0.

    Args:
        a: [n, d], any length.
        b: [m, d], any length.

    Returns:
        [n, m] in [-1, 1] up to rounding; larger is closer.

    Raises:
        ValueError: The widths differ, or an argument is no matrix.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(
            f"a and b have shapes {tuple(a.shape)} and {tuple(b.shape)}; give [n, d] and [m, d] of one width"
        )
    return _unit_rows(a) @ _unit_rows(b).T


def compose(parts: Sequence[Float[Tensor, "n d"]], how: str) -> Float[Tensor, "n d"]:
    """One vector out of the vectors of a sentence's parts: aggregate(z', z'') of CompCSE sec. 3, table 3.

    Keeps the precision of its input, as the layer that follows it does.

    Args:
        parts: One [n, d] a part, left to right.
        how: "avg", "sum", or "concat_halves": the first d // 2 coordinates of the left part, the rest of the right one.

    Returns:
        [n, d].

    Raises:
        ValueError: An unknown `how`, no parts, parts of unequal shape, or "concat_halves" of other than two parts.
    """
    if how not in COMPOSITIONS:
        raise ValueError(f"how is {how!r}; choose one of {', '.join(COMPOSITIONS)}")
    shapes = [tuple(part.shape) for part in parts]
    if not shapes or len(set(shapes)) > 1 or len(shapes[0]) != 2:
        raise ValueError(f"parts have shapes {shapes}; give one [n, d] a part, all of one shape")
    if how == "concat_halves":
        if len(parts) != 2:
            raise ValueError(f"concat_halves takes a left and a right part, got {len(parts)}; use avg or sum")
        half = shapes[0][1] // 2
        return torch.cat([parts[0][:, :half], parts[1][:, half:]], dim=1)
    stacked = torch.stack(list(parts))
    return stacked.mean(dim=0) if how == "avg" else stacked.sum(dim=0)
