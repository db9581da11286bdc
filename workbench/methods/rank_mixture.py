"""RankEncoder's similarity of rank vectors (eq. 4), and at test (eq. 7).

For any function that embeds sentences.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from workbench.data import Pairs
from workbench.encoder import number_sentences, sentence_sides
from workbench.losses import (
    Embeddings,
    Scores,
    Vectors,
    corpus_covariance,
    full_precision,
    gaussian_rank_similarity,
    widest,
)
from workbench.methods.rank_vectors import Corpus, rank_vectors
from workbench.metrics import spearman_by_subset, uniformity

_BLOCK_NUMBERS = 2**25  # of one block of rank vectors: 128 MiB
_PIECE = 4096  # corpus sentences whose products are summed in the tensors' own precision
Embed = Callable[[list[str], int], Tensor]  # sentences and their number in a batch -> vectors


@full_precision
def rank_similarity(
    a: Embeddings,
    b: Float[Tensor, "m width"],
    corpus: Float[Tensor, "c width_of_corpus"],
    *,
    how: str = "exact",
) -> Scores:
    """Return u_i . u_j of RankEncoder eq. 4.

    It is Spearman's correlation of how two sentences order the corpus.

    "gaussian" is the closed form of `gaussian_rank_similarity`: differentiable, and close if
    similarity lists are close to Gaussian (about 0.01 on average on real sentences). "exact" has no
    gradient, and keeps the [n, c] and [m, c] rank vectors in memory.

    `a`, `b` and `corpus` are unit rows; copies in the corpus tie. The result is [n, m] in [-1, 1],
    larger is closer, and 0 for a sentence to which all of the corpus is equally similar. Raises
    ValueError for fewer than two corpus sentences, an unknown `how`, and for nan among the
    vectors with "exact" on a CPU.
    """
    rows = Corpus(corpus)
    if how == "gaussian":
        return gaussian_rank_similarity(a, b, corpus_covariance(rows.rows))
    if how != "exact":
        raise ValueError(f"how is {how!r}; choose 'exact' or 'gaussian'")
    # Of unit length after centring, so that a product of two is Spearman's correlation.
    u = rank_vectors(rows.lists(a))
    v = u if a is b else rank_vectors(rows.lists(b))
    # Summed over the corpus in pieces: float32 is off by 2e-6 at 100,000 sentences, so by 1e-7.
    total = u.new_zeros(len(u), len(v), dtype=widest(u))
    for left, right in zip(u.split(_PIECE, dim=1), v.split(_PIECE, dim=1), strict=True):
        total += left @ right.T
    return total.to(u.dtype).clamp(-1, 1)


class RankMixture:
    """sim(x, y) = lambda z_x . z_y + (1 - lambda) cos(e_x, e_y) (RankEncoder eq. 7).

    z are the rank vectors under the same encoder.

    `weight` is lambda_inf: 1 is the paper's "RankEncoder_E" of eq. 2, without training, 0 the plain
    cosine. `embed` maps (sentences, batch size) to unit rows; the corpus (distinct sentences, at
    least 2) is embedded once. Sentences are ranked on `device`; for `similarity` see `encode` and
    `score`.
    """

    def __init__(
        self,
        embed: Embed,
        corpus: Sequence[str],
        *,
        weight: float,
        similarity: Literal["exact", "gaussian"] = "exact",
        batch_size: int = 64,
        device: torch.device | str = "cpu",
    ) -> None:
        self.embed = embed
        self.weight = weight
        self.batch_size = batch_size
        self.corpus = Corpus(embed(list(corpus), batch_size).to(device))
        self.root = None
        if similarity == "gaussian":
            # The symmetric root of the covariance C: (C^(1/2) a) . (C^(1/2) b) = a' C b.
            covariance = corpus_covariance(self.corpus.rows)
            values, vectors = torch.linalg.eigh(covariance.cpu().double())
            root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
            self.root = root.float().to(self.corpus.rows.device)
        # Rank vectors are as wide as the corpus: 100,000 sentences leave 335 rows in a block.
        width = len(self.corpus if self.root is None else self.root)
        self._block_rows = max(1, _BLOCK_NUMBERS // width)

    def encode(self, sentences: Sequence[str], batch_size: int = 64) -> Vectors:
        """Return unit rows [sqrt(1 - lambda) e ; sqrt(lambda) z] (float32, CPU).

        Their dot product is the similarity.

        "exact": z has one number per corpus sentence; a thousand sentences against 100,000 take 400
        MB. "gaussian": z is C^(1/2) e at length 1, d wide, whose products are the correlation r of
        two similarity lists. The closed form (6 / pi) asin(r / 2) itself is a dot product of no
        finite vector; r has the same order and is at most 0.0181 away, so the mixture is within
        0.0181 lambda of the result of `score`.
        """
        if isinstance(sentences, str):
            return self.encode([sentences], batch_size)[0]
        vectors = self.embed(list(sentences), batch_size)
        device = self.corpus.rows.device
        blocks = []
        for rows in vectors.split(self._block_rows):
            ranks = self.rank_part(rows.to(device)).cpu()
            parts = [math.sqrt(1 - self.weight) * rows, math.sqrt(self.weight) * ranks]
            blocks.append(torch.cat(parts, dim=1))
        return torch.cat(blocks)

    def score(self, sentence1: Sequence[str], sentence2: Sequence[str]) -> ndarray:
        """Return eq. 7 for each pair, with at most a few blocks of rank vectors in memory."""
        cosine, ranked = self.parts(sentence1, sentence2)
        return self.weight * ranked + (1 - self.weight) * cosine

    def parts(self, sentence1: Sequence[str], sentence2: Sequence[str]) -> Float[ndarray, "2 n"]:
        """Return cosine and rank similarity of each pair, for any weight."""
        # A query of many pairs is embedded and ranked once.
        distinct, sides = number_sentences(*sentence_sides(sentence1, sentence2))
        index = torch.tensor(sides, dtype=torch.long)
        vectors = self.embed(distinct, self.batch_size).to(self.corpus.rows.device)
        # Pairs in their order, at most a block of sentences at a time: the pairs of one query share
        # it.
        pairs_at_a_time = max(1, self._block_rows // 2)
        blocks = [self._pair_parts(vectors, pairs) for pairs in index.split(pairs_at_a_time, dim=1)]
        parts = torch.cat(blocks, dim=1)
        return parts.cpu().double().numpy()

    def try_weights(
        self, pairs: Pairs, weights: Sequence[float] = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
    ) -> pd.Series:
        """Return lambda_inf -> Spearman of eq. 7 on the dev pairs; `idxmax()` is the best.

        The pairs are ranked once.

        The weight of the mixture stays: set `inference_weight`, or build a mixture with the other
        weight.
        """
        cosine, ranked = self.parts(pairs.sentence1, pairs.sentence2)
        scores = (weight * ranked + (1 - weight) * cosine for weight in weights)
        values = [
            spearman_by_subset(pairs.gold, score, pairs.subset, how=pairs.how) for score in scores
        ]
        return pd.Series(values, pd.Index(weights, name="lambda_inf"), name=pairs.name)

    def _pair_parts(self, vectors: Embeddings, pairs: Int[Tensor, "2 p"]) -> Float[Tensor, "2 p"]:
        # A sentence of many pairs has one rank part, which is dear.
        rows, index = torch.unique(pairs, return_inverse=True)
        z1, z2 = self.rank_part(vectors[rows])[index]
        ranked = (z1 * z2).sum(dim=1)
        if self.root is not None:
            ranked = 6 / math.pi * torch.asin(ranked.clamp(-1, 1) / 2)
        v1, v2 = vectors[pairs]
        cosine = (v1 * v2).sum(dim=1)
        return torch.stack([cosine, ranked])

    @full_precision
    def rank_part(self, vectors: Embeddings) -> Float[Tensor, "n z"]:
        """Return z of unit rows: rank vectors, or for the closed form C^(1/2) e at length 1."""
        if self.root is None:
            return rank_vectors(self.corpus.lists(vectors))
        spread = vectors @ self.root
        # A sentence to which all of the corpus is equally similar has no rank vector: it stays 0.
        length = spread.norm(dim=1, keepdim=True)
        return spread / torch.where(length > 0, length, 1.0)


def rank_premise(
    embed: Embed,
    corpus: Sequence[str],
    sentences: Sequence[str],
    pairs: Pairs,
    *,
    device: torch.device | str = "cpu",
) -> pd.DataFrame:
    """Measure, before training, whether E1's rank vectors order pairs better than its cosine.

    The test is Spearman of eq. 2 on scored `pairs`. Uniformity, by which the paper explains the
    gain (RankEncoder sec. 5.5, table 2), does not predict it.

    The table has embeddings | rank vectors, and `attrs["caption"]` is the conclusion. Of the
    sentences (distinct; a thousand are enough), with exact ranks by the corpus (10,000 take a
    minute): uniformity. Of scored pairs: Spearman x 100 of the cosine and of eq. 2.
    """
    mixture = RankMixture(embed, corpus, weight=1.0, device=device)
    vectors = embed(list(sentences), 64).to(device)
    ranks = mixture.rank_part(vectors)
    measured = {"uniformity": [uniformity(vectors.cpu()), uniformity(ranks.cpu())]}
    parts = mixture.parts(pairs.sentence1, pairs.sentence2)
    measured[f"Spearman x 100, {pairs.name}"] = [
        100 * spearman_by_subset(pairs.gold, score, pairs.subset, how=pairs.how) for score in parts
    ]
    table = pd.DataFrame.from_dict(measured, orient="index", columns=["embeddings", "rank vectors"])
    by_cosine, by_ranks = table.iloc[-1]
    table.attrs["caption"] = (
        f"On {pairs.name} eq. 2 is {by_ranks - by_cosine:+.1f} points from the cosine."
    )
    return table
