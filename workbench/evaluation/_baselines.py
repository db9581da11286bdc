"""Untrained baselines of the papers.

BERT-flow is not implemented; data/published has its numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from workbench.encoder import Encoder
from workbench.errors import DataError
from workbench.losses import Embeddings
from workbench.words import words_of


class Whitened:
    """Pooled vectors of an encoder, whitened by PCA (BERT-whitening sec. 3), in float64.

    sentences: those that the PCA is fitted on.
    width: directions kept, by falling variance; None: every direction in which the vectors vary.
    """

    def __init__(
        self, encoder: Encoder, sentences: Sequence[str], *, width: int | None = None
    ) -> None:
        from sklearn.decomposition import PCA

        self.encoder = encoder
        vectors = encoder.encode(sentences, normalize_embeddings=False).double().numpy()
        self.pca = PCA(whiten=True, svd_solver="covariance_eigh").fit(vectors)
        variances = self.pca.explained_variance_
        # LayerNorm fixes the mean of the coordinates, so one direction has rounding errors only.
        directions = int((variances > 1e-10 * variances[0]).sum())
        self.width = width or directions
        if not 0 < self.width <= directions:
            raise DataError(
                f"width is {width}, but {len(vectors)} vectors vary in {directions} directions only"
            )

    def encode(self, sentences: list[str], batch_size: int = 64) -> Embeddings:
        pooled = self.encoder.encode(sentences, batch_size, normalize_embeddings=False)
        vectors = torch.from_numpy(self.pca.transform(pooled.double().numpy()))
        return functional.normalize(vectors[:, : self.width], dim=1).float()


class StaticWords:
    """The mean of the backbone's word embeddings, without special tokens or any layer."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.table = encoder.backbone.get_input_embeddings().weight.detach().float().cpu()

    def encode(self, sentences: list[str], batch_size: int = 64) -> Embeddings:
        rows = self.encoder.bare_rows(sentences)
        tokens = torch.from_numpy(rows.flat).long()
        starts = torch.from_numpy(rows.starts)
        means = functional.embedding_bag(tokens, self.table, starts, mode="mean")
        return functional.normalize(means, dim=1)


class TfIdf:
    """Word counts, weighted by log((1 + n) / (1 + df)) + 1.

    df of the n sentences that it is fitted on have the word; scikit-learn's smoothed idf.
    `encode` is dense, as wide as the vocabulary: use `score` for large suites.
    """

    def __init__(self, sentences: Sequence[str], *, words: int | None = None) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        # scikit-learn's own words have two letters or more, and no marks.
        self._vectorizer: Any = TfidfVectorizer(
            analyzer=words_of,  # pyright: ignore[reportArgumentType] - a function is allowed
            max_features=words,
        )
        try:
            self._vectorizer.fit(sentences)
        except ValueError as problem:
            raise DataError(f"tf-idf of {len(sentences)} sentences: {problem}") from None

    def encode(self, sentences: list[str], batch_size: int = 64) -> Embeddings:
        return torch.from_numpy(self._vectorizer.transform(sentences).toarray()).float()

    def score(self, sentence1: list[str], sentence2: list[str]) -> np.ndarray:
        """Return the cosine of each pair, without dense vectors."""
        first = self._vectorizer.transform(sentence1)
        second = self._vectorizer.transform(sentence2)
        return np.asarray(first.multiply(second).sum(axis=1)).ravel()
