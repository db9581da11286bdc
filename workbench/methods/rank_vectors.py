"""Rank vectors: a sentence as the ranks of a corpus by similarity to it.

Ranks ascend with the score and are averaged over ties. Their direction and start change no product
of two rank vectors."""

import torch
from jaxtyping import Float
from torch import Tensor

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
    """Return the centred ranks by scipy, which on a CPU is twice as fast as torch.

    Raises:
        ValueError: A score is nan.
    """
    from scipy.stats import rankdata  # which takes a second to import

    if missing := int(scores.isnan().any(dim=1).sum()):
        raise ValueError(
            f"scores contain nan in {missing} of {len(scores)} rows: look for the vector that "
            "became nan"
        )
    middle = (scores.shape[1] + 1) / 2
    ranks = rankdata(scores.numpy(), axis=1) - middle
    return torch.from_numpy(ranks).to(scores.dtype)


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
        first = {}  # row -> its first place
        # Whole rows as keys: for this moment as much memory again as the corpus has.
        columns = [
            first.setdefault(row.tobytes(), place)
            for place, row in enumerate(self.rows.cpu().numpy())
        ]
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
