"""Rank vectors: a sentence as the ranks of a corpus by similarity to it.

Ranks ascend with the score and are averaged over ties. Their direction and start change no product
of two rank vectors."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from workbench.losses import Embeddings, Scores, full_precision, tied_ranks, widen, widest

# Entries of one [sentences, corpus] block: 128 MiB in float32, 256 MiB for its int64 order.
_BLOCK = 2**25


def _require_corpus(size: int) -> None:
    if size < 2:
        raise ValueError(
            f"the corpus has {size} sentence(s); ranks need at least 2, the paper took 100,000"
        )


def _rank_block(scores: Scores) -> Scores:
    rank = _rank_on_cpu if scores.device.type == "cpu" else _rank_on_device
    ranks = rank(scores)
    norm = torch.linalg.vector_norm(ranks, dim=1, keepdim=True, dtype=widest(scores))
    length = norm.to(scores.dtype)
    return ranks.div_(torch.where(length > 0, length, 1.0))


def _rank_on_device(scores: Scores) -> Scores:
    """Return the centred ranks without waiting for the device.

    A check for nan would wait: a row with nan gets nan ranks instead of an error.
    """
    middle = (scores.shape[1] - 1) / 2
    return tied_ranks(scores) - middle + 0 * scores.amax(dim=1, keepdim=True)


def _rank_on_cpu(scores: Scores) -> Scores:
    """Return the centred ranks, sorted by numpy: several times faster than torch's sort on a CPU.

    Raises:
        ValueError: A score is nan.
    """
    rows, corpus = scores.shape
    order = torch.from_numpy(np.argsort(scores.numpy(), axis=1))
    ordered = scores.gather(1, order)
    if bool(ordered[:, -1].isnan().any()):  # nan sorts last
        missing = int(scores.isnan().any(dim=1).sum())
        raise ValueError(
            f"scores contain nan in {missing} of {rows} rows: look for the vector that became nan"
        )
    middle = (corpus - 1) / 2
    centred = torch.arange(corpus, dtype=scores.dtype) - middle
    ranks = torch.empty_like(scores).scatter_(1, order, centred.expand(rows, corpus))
    # Ties are few (two float32 cosines now and then, duplicates): only their places are visited.
    # Places count through the flattened order; those of a tie follow each other.
    equal = ordered[:, 1:] == ordered[:, :-1]
    follows = functional.pad(equal, (1, 0)).flatten()
    precedes = functional.pad(equal, (0, 1)).flatten()
    tied = torch.from_numpy(np.flatnonzero(follows | precedes))  # in an eighth of torch's time
    tie = (~follows[tied]).cumsum(0) - 1  # the number of the tie of each place
    # Sums of whole numbers, which are exact in float64.
    averages = tie.bincount((tied % corpus).double()) / tie.bincount() - middle
    column = order.flatten()[tied]
    ranks[tied // corpus, column] = averages[tie].to(ranks.dtype)
    return ranks


@full_precision
def rank_vectors(scores: Scores) -> Scores:
    """Return g(r) = (r - mean r) / (sqrt(c) * std r) of each row's ranks: RankEncoder eqs. 2 and 3.

    Ranks are exact and averaged over ties (the paper's code ranks ties arbitrarily), so u_i . u_j
    is Spearman's correlation of rows i and j.

    Args:
        scores: The similarity of each of n sentences to each of c corpus sentences.

    Returns:
        Rows of length 1 that sum to 0, without a gradient; a constant row has no order: its vector
        and its products are 0.

    Raises:
        ValueError: There are fewer than two corpus sentences, or, on a CPU, a score is nan.
    """
    _require_corpus(scores.shape[1])
    with torch.no_grad():
        blocks = scores.detach().contiguous().split(max(1, _BLOCK // scores.shape[1]))
        return torch.cat([_rank_block(block) for block in blocks])


class Corpus:
    """The unit rows of a corpus under one encoder; copies of a sentence tie.

    A matrix product may sum equal columns in different orders, and rounding would then rank copies
    of one sentence: all of them take the column of the first. Raises ValueError for fewer than two
    sentences."""

    def __init__(self, rows: Embeddings) -> None:
        _require_corpus(len(rows))
        self.rows = widen(rows.detach()).contiguous()
        first: dict[bytes, int] = {}
        columns = []
        # Whole rows as keys: for this moment as much memory again as the corpus has.
        for place, row in enumerate(self.rows.cpu().numpy()):
            columns.append(first.setdefault(row.tobytes(), place))
        self.distinct = len(first)
        self._columns = torch.tensor(columns, device=rows.device)

    def __len__(self) -> int:
        return len(self.rows)

    @full_precision
    def lists(self, rows: Float[Tensor, "n width"]) -> Scores:
        """Return the cosines of unit `rows` with the corpus, bitwise equal for copies."""
        scores = rows @ self.rows.T
        # The copy of the whole matrix is made only if it changes something.
        return scores if self.distinct == len(self) else scores[:, self._columns]
