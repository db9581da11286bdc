"""RankEncoder's similarity at test (eq. 7), around any encoder and as one embedding."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.encoder import Encoder
from workbench.losses.arguments import full_precision
from workbench.methods.rankencoder.corpus import Corpus
from workbench.ranks import corpus_covariance, rank_vectors

_ENTRIES = 2**25  # of one block of rank vectors: 128 MiB


class RankMixture:
    """sim(x, y) = lambda z_x . z_y + (1 - lambda) cos(e_x, e_y), z the rank vectors under the same encoder (eq. 7).

    weight 1 is the paper's "RankEncoder_E" of eq. 2, without training; weight 0 the plain cosine.

    Args:
        encoder: E; its corpus embeddings are computed here, once, and belong to its weights of this moment.
        corpus: Distinct sentences, at least 2.
        weight: lambda_inf, 0 to 1.
        similarity: "exact", or "gaussian": see `encode` and `score`.
        batch_size: Sentences a batch while encoding.
    """

    def __init__(
        self,
        encoder: Encoder,
        corpus: Sequence[str],
        *,
        weight: float,
        similarity: Literal["exact", "gaussian"] = "exact",
        batch_size: int = 64,
    ) -> None:
        if len(corpus) < 2:
            raise ValueError(f"the corpus holds {len(corpus)} sentence(s); ranks need at least 2")
        if not 0 <= weight <= 1:
            raise ValueError(f"weight is {weight}; it is the share of the rank similarity, 0 to 1")
        self.encoder, self.weight, self.similarity = encoder, weight, similarity
        self.corpus = Corpus(encoder.encode(list(corpus), batch_size).numpy(), encoder.device)
        self.root = _square_root(self.corpus) if similarity == "gaussian" else None

    @property
    def width(self) -> int:
        """Numbers a sentence: the encoder's, and one a corpus sentence ("exact") or as many again ("gaussian")."""
        return self.encoder.width + (self.corpus.size if self.root is None else self.encoder.width)

    def encode(self, sentences: Sequence[str], batch_size: int = 64) -> Float[Tensor, "n w"]:
        """Unit rows [sqrt(1 - lambda) e ; sqrt(lambda) z], float32, on the CPU: their dot product is the similarity.

        "gaussian": z is C^(1/2) e at length 1, d wide, whose products are the correlation r of two similarity lists.
        The closed form (6 / pi) asin(r / 2) itself is a dot product of no finite vector; r has the same order and is
        at most 0.0181 away, so the mixture is within 0.0181 lambda of what `score` gives.
        """
        vectors = self.encoder.encode(list(sentences), batch_size)
        result = torch.empty(len(vectors), self.width)
        torch.mul(vectors, math.sqrt(1 - self.weight), out=result[:, : self.encoder.width])
        for rows in torch.arange(len(vectors)).split(self._block):
            part = self.rank_part(vectors[rows].to(self.corpus.vectors.device)).cpu()
            result[rows[0] : rows[-1] + 1, self.encoder.width :] = part * math.sqrt(self.weight)
        return result

    def score(self, sentence1: Sequence[str], sentence2: Sequence[str], batch_size: int = 64) -> np.ndarray:
        """The similarity of each pair as eq. 7 has it; never more in memory than a block of rank vectors."""
        distinct = list(dict.fromkeys([*sentence1, *sentence2]))
        place = {sentence: row for row, sentence in enumerate(distinct)}
        vectors = self.encoder.encode(distinct, batch_size).to(self.corpus.vectors.device)
        first = torch.tensor([place[s] for s in sentence1], dtype=torch.long)
        second = torch.tensor([place[s] for s in sentence2], dtype=torch.long)
        scores = torch.empty(len(first), dtype=torch.float64)
        for pairs in self._pair_blocks(first, second):
            rows, index = torch.unique(torch.cat([first[pairs], second[pairs]]), return_inverse=True)
            ranked = self.rank_part(vectors[rows])
            left, right = index.chunk(2)
            close = _row_products(ranked[left], ranked[right])
            if self.root is not None:
                close = 6 / math.pi * torch.asin(close.clamp(-1, 1) / 2)
            cosine = _row_products(vectors[first[pairs]], vectors[second[pairs]])
            scores[pairs] = (self.weight * close + (1 - self.weight) * cosine).cpu()
        return scores.numpy()

    @full_precision
    def rank_part(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n z"]:
        """z of unit rows: rank vectors, or C^(1/2) e at length 1 where the similarity is the closed form."""
        if self.root is None:
            return rank_vectors(self.corpus.lists(vectors))
        spread = vectors @ self.root
        length = spread.norm(dim=1, keepdim=True)
        return spread / torch.where(length > 0, length, 1.0)

    @property
    def _block(self) -> int:
        return max(1, _ENTRIES // (self.width - self.encoder.width))

    def _pair_blocks(self, first: Tensor, second: Tensor) -> Iterator[Tensor]:
        """Runs of pairs in their order, each of at most a block of sentences: pairs of one query share them."""
        yield from torch.arange(len(first)).split(max(1, self._block // 2))


def _row_products(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(dim=1).double()


def _square_root(corpus: Corpus) -> Float[Tensor, "d d"]:
    """The symmetric root of the corpus' covariance C: (C^(1/2) a) . (C^(1/2) b) = a' C b."""
    values, vectors = torch.linalg.eigh(corpus_covariance(corpus.embeddings()).double().cpu())
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    return root.float().to(corpus.vectors.device)
