"""Rank vectors: a sentence as the ranks of a corpus by similarity to it.

Ranks ascend with the score and are averaged over ties. Their direction and start change no product
of two rank vectors."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.losses import full_precision, widest

# Entries of one [sentences, corpus] block: 128 MiB in float32, 256 MiB for its int64 order.
_BLOCK = 2**25


def _require_corpus(size: int) -> None:
    if size < 2:
        raise ValueError(
            f"the corpus has {size} sentence(s); ranks need at least 2, the paper took 100,000"
        )


def _rank_block(scores: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    ranks = _rank_on_cpu(scores) if scores.device.type == "cpu" else _rank_on_device(scores)
    norm = torch.linalg.vector_norm(ranks, dim=1, keepdim=True, dtype=widest(scores)).to(
        scores.dtype
    )
    return ranks.div_(torch.where(norm > 0, norm, 1.0))


def _rank_on_device(scores: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """Return the centred ranks without waiting for the device: in fixed shapes, and with nan for a
    row with nan."""
    ordered = scores.sort(dim=1).values
    below, not_above = (
        torch.searchsorted(ordered, scores, right=ties, out_int32=True) for ties in (False, True)
    )
    return (below + not_above - scores.shape[1]).to(scores.dtype) / 2 + 0 * ordered[:, -1:]


def _rank_on_cpu(scores: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """Return the centred ranks with numpy, whose sort is vectorised: several times faster than
    torch's on a CPU."""
    rows, corpus = scores.shape
    order = torch.from_numpy(np.argsort(scores.numpy(), axis=1))
    ordered = scores.gather(1, order)
    if bool(ordered[:, -1].isnan().any()):  # nan sorts last
        missing = int(scores.isnan().any(dim=1).sum())
        raise ValueError(
            f"scores contain nan in {missing} of {rows} rows: look for the vector that became nan"
        )
    middle = (corpus - 1) / 2
    places = torch.arange(corpus, dtype=scores.dtype) - middle
    ranks = torch.empty_like(scores).scatter_(1, order, places.expand(rows, corpus))
    # Ties are few (two float32 cosines now and then, duplicates): only their runs are visited.
    # Place p of the flattened order is listed when it ties with p + 1; a run of such places is a
    # tie of one item more.
    equal = ordered[:, 1:] == ordered[:, :-1]
    tied = torch.from_numpy(np.flatnonzero(equal.numpy()))  # in an eighth of torch's time
    tied += tied // (corpus - 1)  # from a row's corpus - 1 neighbours to its corpus places
    if len(tied):
        begins = torch.cat([tied.new_ones(1, dtype=torch.bool), tied[1:] != tied[:-1] + 1])
        first = tied[begins]
        size = begins.cumsum(0).bincount()[1:] + 1
        inside = torch.arange(int(size.sum())) - (size.cumsum(0) - size).repeat_interleave(size)
        average = (first % corpus + (size - 1) / 2 - middle).to(scores.dtype)
        place = first.repeat_interleave(size) + inside
        ranks[place // corpus, order.reshape(-1)[place]] = average.repeat_interleave(size)
    return ranks


@full_precision
def rank_vectors(scores: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]:
    """Return g(r) = (r - mean r) / (sqrt(c) * std r) of each row's ranks: RankEncoder eqs. 2 and 3.

    `scores` has the similarity of each of n sentences to each of c corpus sentences. Ranks are
    exact and averaged over ties (the paper's code ranks ties arbitrarily), so u_i . u_j is
    Spearman's correlation of rows i and j. Rows have length 1, sum to 0 and have no gradient; a
    constant row has no order: its vector and its products are 0. Raises ValueError for fewer than
    two corpus sentences, and on a CPU for nan among the scores."""
    _require_corpus(scores.shape[1])
    with torch.no_grad():
        blocks = scores.detach().contiguous().split(max(1, _BLOCK // scores.shape[1]))
        return torch.cat([_rank_block(block) for block in blocks])


class Corpus:
    """The unit rows of a corpus under one encoder; copies of a sentence tie.

    A matrix product may sum equal columns in different orders, and rounding would then rank copies
    of one sentence: all of them take the column of the first. Raises ValueError for fewer than two
    sentences."""

    def __init__(self, rows: Float[Tensor, "c d"]) -> None:
        _require_corpus(len(rows))
        self.rows = rows.detach().to(torch.promote_types(rows.dtype, torch.float32)).contiguous()
        first: dict[bytes, int] = {}
        # Whole rows as keys: for this moment as much memory again as the corpus has.
        places = [
            first.setdefault(row.tobytes(), place)
            for place, row in enumerate(self.rows.cpu().numpy())
        ]
        self.distinct = len(first)
        self._first = (
            torch.tensor(places, device=rows.device) if self.distinct < len(rows) else None
        )

    def __len__(self) -> int:
        return len(self.rows)

    @full_precision
    def lists(self, rows: Float[Tensor, "n width"]) -> Float[Tensor, "n c"]:
        """Return the cosine of each of the unit `rows` with each corpus sentence, bitwise equal for
        copies."""
        scores = rows @ self.rows.T
        return scores if self._first is None else scores[:, self._first]
