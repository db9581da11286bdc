"""RankEncoder's similarity at test (eq. 7), around anything that embeds sentences, and as one embedding."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.data import Pairs
from workbench.losses import full_precision
from workbench.ranks import Corpus, corpus_covariance, rank_vectors

_ENTRIES = 2**25  # of one block of rank vectors: 128 MiB


class RankMixture:
    """sim(x, y) = lambda z_x . z_y + (1 - lambda) cos(e_x, e_y), z the rank vectors under the same encoder (eq. 7).

    weight 1 is the paper's "RankEncoder_E" of eq. 2, without training; weight 0 the plain cosine.

    Args:
        embed: (sentences, batch size) -> unit rows, such as an encoder's `encode`. The corpus is embedded here, once.
        corpus: Distinct sentences, at least 2.
        weight: lambda_inf, 0 to 1.
        similarity: "exact", or "gaussian": see `encode` and `score`.
        batch_size: Sentences a batch while the corpus is embedded.
        device: Where sentences are ranked.
    """

    def __init__(
        self,
        embed: Callable[[list[str], int], Tensor],
        corpus: Sequence[str],
        *,
        weight: float,
        similarity: Literal["exact", "gaussian"] = "exact",
        batch_size: int = 64,
        device: torch.device | str = "cpu",
    ) -> None:
        if not 0 <= weight <= 1:
            raise ValueError(f"weight is {weight}; it is the share of the rank similarity, 0 to 1")
        self.embed, self.weight = embed, weight
        self.corpus = Corpus(embed(list(corpus), batch_size).to(device))
        self.root = _square_root(self.corpus) if similarity == "gaussian" else None

    def encode(self, sentences: Sequence[str], batch_size: int = 64) -> Float[Tensor, "*n w"]:
        """Unit rows [sqrt(1 - lambda) e ; sqrt(lambda) z], float32, on the CPU: their dot product is the similarity.

        "exact": z has a number a corpus sentence; a thousand sentences against 100,000 take 400 MB.
        "gaussian": z is C^(1/2) e at length 1, d wide, whose products are the correlation r of two similarity lists.
        The closed form (6 / pi) asin(r / 2) itself is a dot product of no finite vector; r has the same order and is
        at most 0.0181 away, so the mixture is within 0.0181 lambda of what `score` gives.
        """
        if isinstance(sentences, str):
            return self.encode([sentences], batch_size)[0]
        vectors = self.embed(list(sentences), batch_size)
        width = vectors.shape[1]
        result = torch.empty(len(vectors), width + self._rank_width)
        torch.mul(vectors, math.sqrt(1 - self.weight), out=result[:, :width])
        step = self._block
        for start in range(0, len(vectors), step):
            part = self.rank_part(vectors[start : start + step].to(self.corpus.rows.device)).cpu()
            torch.mul(part, math.sqrt(self.weight), out=result[start : start + step, width:])
        return result

    def score(self, sentence1: Sequence[str], sentence2: Sequence[str], batch_size: int = 64) -> np.ndarray:
        """The similarity of each pair as eq. 7 has it; never more in memory than a few blocks of rank vectors."""
        cosine, ranked = self.parts(sentence1, sentence2, batch_size)
        return self.weight * ranked + (1 - self.weight) * cosine

    def parts(
        self, sentence1: Sequence[str], sentence2: Sequence[str], batch_size: int = 64
    ) -> tuple[np.ndarray, np.ndarray]:
        """The cosine and the rank similarity of each pair, for any weight."""
        distinct = list(dict.fromkeys([*sentence1, *sentence2]))
        place = {sentence: row for row, sentence in enumerate(distinct)}
        vectors = self.embed(distinct, batch_size).to(self.corpus.rows.device)
        index = torch.tensor([[place[s] for s in side] for side in (sentence1, sentence2)], dtype=torch.long)
        # Pairs in their order, at most a block of sentences at a time: the pairs of one query share it.
        blocks = [self._pair_parts(vectors, pairs) for pairs in index.split(max(1, self._block // 2), dim=1)]
        cosine, ranked = (torch.cat(part).double().cpu().numpy() for part in zip(*blocks, strict=True))
        return cosine, ranked

    def _pair_parts(self, vectors: Float[Tensor, "n d"], pairs: Int[Tensor, "2 p"]) -> tuple[Tensor, Tensor]:
        rows, index = torch.unique(pairs, return_inverse=True)
        z = self.rank_part(vectors[rows])
        ranked = (z[index[0]] * z[index[1]]).sum(dim=1)
        if self.root is not None:
            ranked = 6 / math.pi * torch.asin(ranked.clamp(-1, 1) / 2)
        return (vectors[pairs[0]] * vectors[pairs[1]]).sum(dim=1), ranked

    @full_precision
    def rank_part(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n z"]:
        """z of unit rows: rank vectors, or C^(1/2) e at length 1 where the similarity is the closed form."""
        if self.root is None:
            return rank_vectors(self.corpus.lists(vectors))
        spread = vectors @ self.root
        length = spread.norm(dim=1, keepdim=True)
        return spread / torch.where(length > 0, length, 1.0)

    @property
    def _rank_width(self) -> int:
        return len(self.corpus) if self.root is None else len(self.root)

    @property
    def _block(self) -> int:
        return max(1, _ENTRIES // self._rank_width)


def shared_neighbours(
    lists1: Float[Tensor, "n c"], lists2: Float[Tensor, "n c"], *, nearest: int = 100
) -> Int[Tensor, " n"]:
    """How many of the `nearest` corpus sentences of a pair's two sentences are the same (RankEncoder fig. 6)."""
    if not 1 <= nearest <= lists1.shape[1]:
        raise ValueError(f"nearest is {nearest}; the corpus holds {lists1.shape[1]} sentences")
    marks = [torch.zeros_like(lists, dtype=torch.bool) for lists in (lists1, lists2)]
    for mark, lists in zip(marks, (lists1, lists2), strict=True):
        mark.scatter_(1, lists.topk(nearest, dim=1).indices, True)
    return (marks[0] & marks[1]).sum(dim=1)


def neighbour_table(mixture: RankMixture, pairs: Pairs, *, nearest: int = 100) -> pd.DataFrame:
    """cosine | ranked | shared | gold: of each pair both similarities and the neighbours that its sentences share.

    nearest: corpus sentences that count as neighbours; of a small corpus at most a tenth do.
    """
    cosine, ranked = mixture.parts(pairs.sentence1, pairs.sentence2)
    place = {text: row for row, text in enumerate(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))}
    seen = mixture.corpus.lists(mixture.embed(list(place), 64).to(mixture.corpus.rows.device)).cpu()
    sides = (seen[[place[text] for text in side]] for side in (pairs.sentence1, pairs.sentence2))
    shared = shared_neighbours(*sides, nearest=min(nearest, len(mixture.corpus) // 10 + 1))
    return pd.DataFrame({"cosine": cosine, "ranked": ranked, "shared": shared.numpy(), "gold": pairs.gold})


def _square_root(corpus: Corpus) -> Float[Tensor, "d d"]:
    """The symmetric root of the corpus' covariance C: (C^(1/2) a) . (C^(1/2) b) = a' C b."""
    values, vectors = torch.linalg.eigh(corpus_covariance(corpus.rows).double().cpu())
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    return root.float().to(corpus.rows.device)
