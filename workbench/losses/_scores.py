"""How vectors become scores: cosine matrices, and the composition of several parts' vectors into one."""

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
def cosine_matrix(a: Float[Tensor, "n d"], b: Float[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    """Return the cosine of every row of `a` with every row of `b`: phi(f(x_i), f(x_j)') of RankCSE eq. 1.

    The result is [n, m], in [-1, 1] up to rounding; larger is closer. A zero row has no direction; its cosines are 0.
    """
    return _unit_rows(a) @ _unit_rows(b).T


def compose(parts: Sequence[Float[Tensor, "n d"]], how: str) -> Float[Tensor, "n d"]:
    """Combine the vectors of a sentence's parts: aggregate(z', z'') of CompCSE sec. 3, table 3.

    `parts` has one [n, d] for each part, left to right. `how` is "avg", "sum", or "concat_halves": the first d // 2
    coordinates of the left part, the rest of the right one. The precision is that of the input, as the layer that
    follows needs it.
    """
    if how == "concat_halves":
        left, right = parts
        half = left.shape[1] // 2
        return torch.cat([left[:, :half], right[:, half:]], dim=1)
    return {"avg": torch.mean, "sum": torch.sum}[how](torch.stack(list(parts)), dim=0)
