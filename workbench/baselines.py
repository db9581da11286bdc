"""What papers compare with: nothing is trained. Each has an `encode` for `evaluate`.

BERT-flow, the other post-processing that papers quote, is not built: its published numbers stand in data/published.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from workbench.config import BaseConfig
from workbench.data import load_sentences
from workbench.encoder import Encoder, Reading, find_checkpoint, prompted

# Of the largest variance: less is rounding. A LayerNorm leaves one direction without variance in cls and mean pooling.
_NO_VARIANCE = 1e-10


class Base(Protocol):
    """Anything that embeds sentences."""

    def encode(self, sentences: list[str], batch_size: int = 64) -> Float[Tensor, "n d"]:
        """Unit rows, float32, on the CPU, in the order given; a row of zeros where nothing of a sentence is known."""
        ...


def load_base(config: BaseConfig, sentences: Sequence[str] | None = None) -> Base:
    """The base of `config`; `sentences` to fit on in place of `config.fit_on` (whitening, tfidf), e.g. the evaluated.

    Raises EncoderError, DataError or ValueError with the cause.
    """
    if config.kind == "tfidf":
        return TfIdf(_fit_sentences(config, sentences), words=config.words)
    encoder = _load_encoder(config)
    if config.kind == "static":
        return StaticWords(encoder)
    if config.kind == "whitening":
        return Whitened(encoder, _fit_sentences(config, sentences), width=config.width)
    return encoder


@dataclass(frozen=True)
class Whitening:
    """x -> (x - mean) kernel, with kernel = the first k columns of U Lambda^-1/2 (BERT-whitening sec. 3).

    U Lambda U' is the covariance of the vectors that it was fitted on, by falling variance, so that those vectors have
    mean 0 and the identity as covariance afterwards.
    """

    mean: np.ndarray
    kernel: np.ndarray

    @classmethod
    def fit(cls, vectors: np.ndarray, width: int | None = None) -> "Whitening":
        """From vectors [n, d], in float64; width None keeps every direction in which they vary.

        Raises ValueError with fewer than two vectors, or when they vary in fewer than `width` directions.
        """
        if vectors.ndim != 2 or len(vectors) < 2:
            raise ValueError(f"vectors have shape {vectors.shape}; whitening needs [n, d] with n at least 2")
        wide = np.asarray(vectors, dtype=np.float64)
        mean = wide.mean(axis=0)
        variances, directions = np.linalg.eigh(np.cov(wide, rowvar=False).reshape(wide.shape[1], -1))
        variances, directions = variances[::-1], directions[:, ::-1]
        known = int((variances > _NO_VARIANCE * max(variances[0], np.finfo(np.float64).tiny)).sum())
        if known < (width or 1):
            raise ValueError(
                f"{len(wide)} vectors of {wide.shape[1]} coordinates vary in {known} directions, and width is {width}; "
                f"give a width of at most {known}, or more different sentences"
            )
        kept = slice(0, known if width is None else width)
        return cls(mean, directions[:, kept] / np.sqrt(variances[kept]))

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """[n, d] -> [n, k], float64."""
        return (np.asarray(vectors, dtype=np.float64) - self.mean) @ self.kernel


class Whitened:
    """The pooled vectors of an encoder, not normalised, whitened by the statistics of some sentences."""

    def __init__(self, encoder: Encoder, sentences: Sequence[str], *, width: int | None = None) -> None:
        self.encoder = encoder
        self.whitening = Whitening.fit(encoder.vectors(sentences).numpy(), width)

    def encode(self, sentences: list[str], batch_size: int = 64) -> Float[Tensor, "n d"]:
        vectors = self.whitening(self.encoder.vectors(sentences, batch_size).numpy())
        return functional.normalize(torch.from_numpy(vectors), dim=1).float()


class StaticWords:
    """The mean of the backbone's word embeddings over a sentence's tokens, special ones left out; no layer is run.

    A floor of the kind of averaged GloVe vectors, from the same checkpoint as what it is compared with.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.vectors = encoder.backbone.get_input_embeddings().weight.detach().float().cpu()

    def encode(self, sentences: list[str], batch_size: int = 64) -> Float[Tensor, "n d"]:
        rows = self.encoder.bare_rows(sentences)
        tokens, starts = torch.from_numpy(rows.flat).long(), torch.from_numpy(rows.starts)
        return functional.normalize(functional.embedding_bag(tokens, self.vectors, starts, mode="mean"), dim=1)


class TfIdf:
    """Counts of words, each weighted by log((1 + n) / (1 + sentences with it)) + 1 over the sentences fitted on.

    Words not seen there are unknown. `encode` is dense, of the width of the vocabulary: for large suites use `score`.
    """

    def __init__(self, sentences: Sequence[str], *, words: int | None = None) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer: Any = TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", max_features=words)
        try:
            self._vectorizer.fit(sentences)
        except ValueError as error:
            raise ValueError(f"tf-idf cannot be fitted on {len(sentences)} sentences: {error}") from error

    def encode(self, sentences: list[str], batch_size: int = 64) -> Float[Tensor, "n d"]:
        if not sentences:
            return torch.empty(0, len(self._vectorizer.vocabulary_))
        return torch.from_numpy(self._vectorizer.transform(sentences).toarray()).float()

    def score(self, sentence1: list[str], sentence2: list[str]) -> np.ndarray:
        """The cosine of each pair, without dense vectors."""
        first, second = self._vectorizer.transform(sentence1), self._vectorizer.transform(sentence2)
        return np.asarray(first.multiply(second).sum(axis=1), dtype=np.float64).ravel()


def _load_encoder(config: BaseConfig) -> Encoder:
    """The encoder, read as the settings say, else as its files or its name do, else at [CLS]."""
    checkpoint = find_checkpoint(config.encoder, config.revision)
    if config.kind == "static":
        reading = Reading("mean")  # no layer is run
    elif config.template is not None:
        reading = prompted(config.template)
    else:
        reading = checkpoint.read(config.pooling) or Reading("cls")
    # Whitening divides by the small variances, so that rounding to 8 bits would be what it enlarges.
    precision = "fp32" if config.kind == "whitening" and config.precision == "auto" else config.precision
    return Encoder.load(checkpoint, reading, precision=precision, device=config.device)


def _fit_sentences(config: BaseConfig, sentences: Sequence[str] | None) -> Sequence[str]:
    if sentences is not None:
        return sentences
    return load_sentences(config.fit_on, limit=config.fit_limit).sentences
