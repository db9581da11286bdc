"""How vectors become scores: cosines, rank similarity, and composition of parts."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.losses._arguments import Embeddings, Scores, full_precision, widest

_PIECE = 4096  # corpus sentences whose products are summed in the tensors' own precision
COMPOSITIONS = ("avg", "sum", "concat_halves")


def _unit_rows(vectors: Embeddings) -> Embeddings:
    # The largest entry of a row becomes 1 first: squares neither overflow nor vanish, the norm is
    # at least 1, and a row of zeros stays zero with a bounded gradient. A cosine does not change
    # with scale, so the peak needs no gradient.
    peak = vectors.detach().abs().amax(dim=1, keepdim=True)
    scaled = vectors / torch.where(peak > 0, peak, 1.0)
    return scaled / torch.linalg.vector_norm(scaled, dim=1, keepdim=True).clamp_min(1.0)


@full_precision
def cosine_matrix(a: Embeddings, b: Float[Tensor, "m d"]) -> Scores:
    """Return the cosine of every row of `a` with every row of `b`.

    It is phi(f(x_i), f(x_j)') of RankCSE eq. 1.

    The result is [n, m], in [-1, 1] up to rounding; larger is closer. A zero row has no direction;
    its cosines are 0.
    """
    return _unit_rows(a) @ _unit_rows(b).T


@full_precision
def corpus_covariance(corpus: Embeddings) -> Float[Tensor, "d d"]:
    """Return the covariance of the corpus' vectors, divided by c.

    It is exactly 0 for copies of one sentence.
    """
    # Covariance does not move with the origin; from one of them, copies are exactly 0.
    origin = corpus[:1]
    width = corpus.shape[1]
    total = origin.new_zeros(width, dtype=widest(corpus))
    # Two passes, mean and then squares: one pass would subtract large numbers of nearly equal size.
    for block in corpus.split(_PIECE):
        total += (block - origin).sum(dim=0)
    mean = (total / len(corpus)).to(corpus.dtype)
    covariance = origin.new_zeros(width, width, dtype=widest(corpus))
    for block in corpus.split(_PIECE):
        centred = block - origin - mean
        covariance += centred.T @ centred
    return (covariance / len(corpus)).to(corpus.dtype)


@full_precision
def gaussian_rank_similarity(
    a: Embeddings, b: Float[Tensor, "m d"], covariance: Float[Tensor, "d d"]
) -> Scores:
    """Return (6 / pi) asin(r_ij / 2), the closed form of rank similarity.

    r_ij = a_i' C b_j / sqrt(a_i' C a_i * b_j' C b_j).

    r_ij is the Pearson correlation of the lists a_i . x and b_j . x over the corpus' x. If the two
    lists are jointly Gaussian, their Spearman correlation is (6 / pi) asin(r_ij / 2) in the limit
    of a large corpus. The lengths of `a` and `b` do not matter; C is that of `corpus_covariance`.
    The result is in [-1, 1], differentiable, and 0 for a sentence to which all of the corpus is
    equally similar.
    """

    def deviation(rows: Tensor) -> Tensor:
        variance = ((rows @ covariance) * rows).sum(dim=1)
        # Without spread: divided by infinity, hence 0.
        return torch.where(variance > 0, variance, math.inf).sqrt()

    correlation = (a @ covariance @ b.T) / deviation(a)[:, None] / deviation(b)
    return 6 / math.pi * torch.asin(correlation.clamp(-1, 1) / 2)


def compose(parts: Sequence[Embeddings], how: str) -> Embeddings:
    """Combine the vectors of a sentence's parts: aggregate(z', z'') of CompCSE sec. 3, table 3.

    `parts` has one [n, d] for each part, left to right. `how` is "avg", "sum", or "concat_halves":
    the first d // 2 coordinates of the left part, the rest of the right one. The precision stays: a
    layer follows."""
    if how == "concat_halves":
        left, right = parts
        half = left.shape[1] // 2
        return torch.cat([left[:, :half], right[:, half:]], dim=1)
    return {"avg": torch.mean, "sum": torch.sum}[how](torch.stack(list(parts)), dim=0)
