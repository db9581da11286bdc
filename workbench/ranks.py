"""Rank vectors: a sentence as the ranks of a corpus in its eyes, exact and in closed form.

Ranks ascend with the score and are averaged over ties. Their direction and start change no product of two rank vectors.
"""

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.losses import full_precision

SIMILARITIES = ("exact", "gaussian")
_BLOCK = 2**25  # entries of one [sentences, corpus] block: 128 MiB in float32, 256 MiB for its int64 order

_PIECE = 4096  # corpus sentences whose products are summed in the tensors' own precision


def _require_corpus(size: int) -> None:
    if size < 2:
        raise ValueError(f"the corpus holds {size} sentence(s); ranks need at least 2, the paper took 100,000")


def _require_width(rows: Tensor, corpus: Tensor) -> None:
    if rows.ndim != 2 or corpus.ndim != 2 or rows.shape[1] != corpus.shape[1]:
        raise ValueError(
            f"sentences {tuple(rows.shape)} and corpus {tuple(corpus.shape)} differ in width; "
            "embed the corpus with the encoder that embeds the sentences"
        )


def _widest(tensor: Tensor) -> torch.dtype:
    """What sums are kept in: float64, but for Apple's GPUs, which have none."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


_SPARE = 28  # bits of a float64's mantissa below half a unit of the last place of any float32


def _ascending(scores: Float[Tensor, "n c"]) -> tuple[Int[Tensor, "n c"], Float[Tensor, "n c"]]:
    """Columns of each row by ascending score, and the scores in that order."""
    if scores.device.type != "cpu":
        order = scores.argsort(dim=1)
    elif scores.dtype == torch.float32 and scores.shape[1] <= 2**_SPARE and np.isfinite(scores.numpy()).all():
        # A sort of values is over twice as fast as an argsort: each value carries its column in bits that a float32
        # leaves free in a float64, too low to reorder unequal values, and rounded away again by the way back.
        keys = scores.numpy().astype(np.float64)
        columns = keys.view(np.int64)
        columns |= np.arange(scores.shape[1])
        keys.sort(axis=1)
        ordered = torch.from_numpy(keys.astype(np.float32))
        columns &= 2**_SPARE - 1
        return torch.from_numpy(columns), ordered
    else:
        order = torch.from_numpy(np.argsort(scores.numpy(), axis=1))  # vectorised: several times faster than torch's
    return order, scores.gather(1, order)


def _rank_block(scores: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    rows, corpus = scores.shape
    order, ordered = _ascending(scores)
    if bool(ordered[:, -1].isnan().any()):  # nan sorts last: no pass over all scores is needed to find it
        missing = int(scores.isnan().any(dim=1).sum())
        raise ValueError(
            f"scores hold nan in {missing} of {rows} rows; nan has no rank: look for the vector that became nan"
        )
    middle = (corpus - 1) / 2
    places = torch.arange(corpus, device=scores.device, dtype=scores.dtype) - middle
    ranks = torch.empty_like(scores).scatter_(1, order, places.expand(rows, corpus))
    squares = torch.full((rows,), corpus * (corpus**2 - 1) / 12, dtype=_widest(scores), device=scores.device)
    # Ties are few (two float32 cosines now and then, duplicates): only their runs are visited. Place p of the flattened
    # order is listed when it ties with p + 1; a run of such places is a tie of one item more.
    if ordered.device.type == "cpu":  # numpy finds them in an eighth of torch's time
        tied = torch.from_numpy(np.flatnonzero(ordered.numpy()[:, 1:] == ordered.numpy()[:, :-1]))
    else:
        tied = (ordered[:, 1:] == ordered[:, :-1]).view(-1).nonzero().squeeze(1)
    tied += tied // (corpus - 1)  # from a row's corpus - 1 neighbours to its corpus places
    if len(tied):
        begins = torch.cat([tied.new_ones(1, dtype=torch.bool), tied[1:] != tied[:-1] + 1])
        first = tied[begins]
        size = begins.cumsum(0).bincount()[1:] + 1
        inside = torch.arange(int(size.sum()), device=scores.device) - (size.cumsum(0) - size).repeat_interleave(size)
        average = (first % corpus + (size - 1) / 2 - middle).to(scores.dtype)
        place = first.repeat_interleave(size) + inside
        ranks[place // corpus, order.reshape(-1)[place]] = average.repeat_interleave(size)
        squares.index_add_(0, first // corpus, -(size**3 - size).to(squares.dtype) / 12)
    norm = squares.sqrt().to(scores.dtype)[:, None]
    return ranks.div_(torch.where(norm > 0, norm, 1.0))


@full_precision
def rank_vectors(scores: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """g(r) = (r - mean r) / (sqrt(c) * std r) of each row's ranks: RankEncoder eqs. 2 and 3.

    Ranks are exact and averaged over ties (the paper's code ranks ties arbitrarily), so u_i . u_j is Spearman's
    correlation of rows i and j. A row that is the same throughout has no order: its vector and its products are 0.

    Args:
        scores: [n, c], similarity of each of n sentences to each of c corpus sentences.

    Returns:
        [n, c], rows of length 1 (or 0, above) that sum to 0; without gradient.

    Raises:
        ValueError: Fewer than two corpus sentences, or nan among the scores.
    """
    if scores.ndim != 2:
        raise ValueError(f"scores have shape {tuple(scores.shape)}; give a matrix [sentences, corpus]")
    _require_corpus(scores.shape[1])
    with torch.no_grad():
        blocks = scores.detach().contiguous().split(max(1, _BLOCK // scores.shape[1]))
        return torch.cat([_rank_block(block) for block in blocks])


class Corpus:
    """The corpus as one encoder sees it: unit rows, of which copies tie.

    A matrix product may sum equal columns in different orders, and rounding would then rank copies of one sentence:
    all of them take the column of the first.

    Args:
        rows: [c, d], c >= 2, without gradient from here on. Ranked where they lie.

    Raises:
        ValueError: Fewer than two sentences.
    """

    def __init__(self, rows: Float[Tensor, "c d"]) -> None:
        _require_corpus(len(rows))
        self.rows = rows.detach().to(torch.promote_types(rows.dtype, torch.float32)).contiguous()
        first: dict[bytes, int] = {}
        # Whole rows as keys: for this moment as much memory again as the corpus has.
        places = [first.setdefault(row.tobytes(), place) for place, row in enumerate(self.rows.cpu().numpy())]
        self.distinct = len(first)
        self._first = torch.tensor(places, device=rows.device) if self.distinct < len(rows) else None

    def __len__(self) -> int:
        return len(self.rows)

    @full_precision
    def lists(self, rows: Float[Tensor, "n width"]) -> Float[Tensor, "n c"]:
        """Cosine of each of the unit `rows` with each corpus sentence, equal bit by bit for copies.

        Raises:
            ValueError: Another width than the corpus'.
        """
        _require_width(rows, self.rows)
        scores = rows @ self.rows.T
        return scores if self._first is None else scores[:, self._first]


def _products(u: Tensor, v: Tensor) -> Tensor:
    """u @ v.T, summed over the corpus in pieces: float32 throughout is off by 2e-6 at 100,000 sentences, so by 1e-7."""
    total = torch.zeros(len(u), len(v), dtype=_widest(u), device=u.device)
    for left, right in zip(u.split(_PIECE, dim=1), v.split(_PIECE, dim=1), strict=True):
        total += left @ right.T
    return total.to(u.dtype)


@full_precision
def rank_similarity(
    a: Float[Tensor, "n d"],
    b: Float[Tensor, "m width"],
    corpus: Float[Tensor, "c width_of_corpus"],
    *,
    how: str = "exact",
) -> Float[Tensor, "n m"]:
    """u_i . u_j of RankEncoder eq. 4: Spearman's correlation of how two sentences order the corpus.

    "gaussian" is the closed form of `gaussian_rank_similarity`: no pass over the corpus but for its covariance; near
    where similarity lists are close to Gaussian (about 0.01 on average on real sentences), and differentiable.

    Args:
        a: [n, d], unit rows.
        b: [m, d], unit rows.
        corpus: [c, d], unit rows, c >= 2. Copies tie.
        how: "exact" or "gaussian".

    Returns:
        [n, m] in [-1, 1]; larger is closer; 0 where a sentence sees all of the corpus as equally far.
        "exact" has no gradient. Memory stays near one gibibyte beside the result, whatever n, m and c up to 2^25.

    Raises:
        ValueError: Widths differ, fewer than two corpus sentences, an unknown `how`, or nan among the vectors.
    """
    if how not in SIMILARITIES:
        raise ValueError(f"how is {how!r}; choose one of {', '.join(SIMILARITIES)}")
    _require_width(a, corpus)
    _require_width(b, corpus)
    if how == "gaussian":
        return gaussian_rank_similarity(a, b, corpus_covariance(corpus))
    seen = Corpus(corpus)
    with torch.no_grad():
        size = max(1, _BLOCK // len(seen))
        kept = rank_vectors(seen.lists(b)) if len(b) <= size else None
        own = kept if a is b else None
        similarities = []
        for block in a.split(size):
            u = rank_vectors(seen.lists(block)) if own is None else own
            others = [kept] if kept is not None else (rank_vectors(seen.lists(v)) for v in b.split(size))
            similarities.append(torch.cat([_products(u, other) for other in others], dim=1))
        return torch.cat(similarities).clamp(-1, 1)


@full_precision
def corpus_covariance(corpus: Float[Tensor, "c d"]) -> Float[Tensor, "d d"]:
    """Covariance of the corpus' vectors, divided by c: all that the closed form needs to know of it.

    Exactly 0 for a corpus of copies of one sentence.

    Args:
        corpus: [c, d], c >= 2.

    Returns:
        [d, d], symmetric.

    Raises:
        ValueError: Fewer than two corpus sentences.
    """
    _require_corpus(len(corpus))
    origin = corpus[:1]  # covariance does not move with the origin; from one of them, copies are exactly 0
    total = torch.zeros(corpus.shape[1], dtype=_widest(corpus), device=corpus.device)
    for block in corpus.split(_PIECE):
        total += (block - origin).sum(dim=0)
    mean = (total / len(corpus)).to(corpus.dtype)
    covariance = torch.zeros(corpus.shape[1], corpus.shape[1], dtype=_widest(corpus), device=corpus.device)
    for block in corpus.split(_PIECE):
        centred = block - origin - mean
        covariance += centred.T @ centred
    return (covariance / len(corpus)).to(corpus.dtype)


@full_precision
def gaussian_rank_similarity(
    a: Float[Tensor, "n d"], b: Float[Tensor, "m d"], covariance: Float[Tensor, "d d"]
) -> Float[Tensor, "n m"]:
    """(6 / pi) asin(r_ij / 2), r_ij = a_i' C b_j / sqrt(a_i' C a_i * b_j' C b_j): rank similarity in closed form.

    r_ij is the Pearson correlation of the lists a_i . x and b_j . x over the corpus' x. Where the two lists are jointly
    Gaussian, their Spearman correlation is (6 / pi) asin(r_ij / 2) in the limit of a large corpus.

    Args:
        a: [n, d]; lengths do not matter.
        b: [m, d].
        covariance: C of `corpus_covariance`.

    Returns:
        [n, m] in [-1, 1], differentiable; 0 where a sentence sees no spread in the corpus.
    """

    def deviation(rows: Tensor) -> Tensor:
        variance = ((rows @ covariance) * rows).sum(dim=1)
        return torch.where(variance > 0, variance, math.inf).sqrt()  # without spread: divided by infinity, hence 0

    correlation = (a @ covariance @ b.T) / deviation(a)[:, None] / deviation(b)
    return 6 / math.pi * torch.asin(correlation.clamp(-1, 1) / 2)
