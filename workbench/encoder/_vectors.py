"""Vectors from any `encode`: one checked row for each distinct sentence, and rows of length 1."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from workbench.errors import EncoderError

Encode = Callable[[list[str]], Any]  # sentences -> a row of each


def unit_rows(
    encode: Encode, sentence1: Sequence[str], sentence2: Sequence[str]
) -> tuple[ndarray, ndarray]:
    """Return both sides of pairs as float64 [n, d] rows of length 1.

    Each distinct sentence is embedded once. A zero vector stays zero: its cosine with everything
    is 0, as in the published evaluation. Rows of an encoder whose similarity is the dot product
    stay as they are. Raises EncoderError unless `encode` returns one row of finite numbers per
    sentence.
    """
    owner = getattr(encode, "__self__", None)
    is_dot = getattr(owner, "similarity_name", "cosine") == "dot"
    plain = partial(encode, **({"normalize_embeddings": False} if is_dot else {}))
    vectors, (first, second) = distinct_vectors(plain, sentence1, sentence2)
    if not is_dot:
        # The largest coordinate first: the square of 1e200 would be infinite, that of 1e-200 zero.
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
        vectors = vectors / np.where(largest == 0, 1.0, largest)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.where(lengths == 0, 1.0, lengths)
    return vectors[first], vectors[second]


def distinct_vectors(encode: Encode, *lists: Sequence[str]) -> tuple[ndarray, list[list[int]]]:
    """Return a float64 row for each distinct sentence of all lists, and each list's row numbers.

    Raises EncoderError unless `encode` returns one row of finite numbers per sentence.
    """
    distinct, rows = number_sentences(*lists)
    # Once per distinct sentence, because `encode` may be a user's function without a cache.
    vectors = finite_array(encode(distinct), "encode")
    if vectors.ndim != 2 or len(vectors) != len(distinct) or not vectors.shape[1]:
        raise EncoderError(
            f"encode returned shape {vectors.shape} for {len(distinct)} sentences instead "
            "of one row each"
        )
    return vectors, rows


def number_sentences(*lists: Iterable[str]) -> tuple[list[str], list[list[int]]]:
    """Return the distinct sentences of all lists, and each list as numbers of these."""
    numbers = {}
    rows = [
        [numbers.setdefault(sentence, len(numbers)) for sentence in sentences]
        for sentences in lists
    ]
    return list(numbers), rows


def require_finite(rows: Tensor, source: str, content: str) -> None:
    """Raise EncoderError that names the first row, `content`, which is not finite."""
    broken = (~rows.isfinite()).nonzero()
    if len(broken):
        raise EncoderError(
            f"{source}: the {content} {broken[0, 0]} is not finite; its weights are broken"
        )


def finite_array(values: Any, source: str) -> ndarray:
    """Return the numbers that `source` ("encode" or "score") returned as one float64 array.

    values: a tensor, an array, a list, a list of tensors or a sparse matrix. Raises EncoderError
    unless they are finite numbers.
    """
    if isinstance(values, (list, tuple)) and values and isinstance(values[0], Tensor):
        values = torch.stack(values)
    if isinstance(values, Tensor):
        values = values.detach().cpu().to_dense().double()  # numpy has no bf16
    # Of scipy's sparse matrices, as TfidfVectorizer's.
    if dense := getattr(values, "toarray", None):
        values = dense()
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError) as problem:
        raise EncoderError(f"{source} returned no table of numbers ({problem})") from None
    if not np.isfinite(array).all():
        raise EncoderError(f"{source} returned nan or infinity; the encoder is broken or diverged")
    return array
