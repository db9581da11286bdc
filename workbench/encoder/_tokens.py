"""Sentences as token ids, stored in four bytes each and padded on demand."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from pandas import DataFrame
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast

from workbench.errors import EncoderError
from workbench.files import Facts

# Sentences tokenised at a time: enough for every thread, few enough to stay in the cache.
_CHUNK = 2048
Rows = Sequence[int] | ndarray  # places of sentences
TokenIds = list[list[int]]  # of each text


@dataclass(frozen=True)
class TokenRows:
    """The tokens of n sentences end to end: row i is flat[starts[i] : starts[i] + lengths[i]].

    padding: the id of the padding token.
    """

    flat: Int[ndarray, " tokens"]
    starts: Int[ndarray, " n"]
    lengths: Int[ndarray, " n"]
    padding: int

    @classmethod
    def gather(cls, chunks: Iterable[TokenIds], padding: int) -> "TokenRows":
        pieces = [np.empty(0, np.int32)]
        counts = []
        for rows in chunks:
            counts += map(len, rows)
            pieces.append(np.fromiter(chain.from_iterable(rows), np.int32))
        lengths = np.array(counts, dtype=np.int64)
        starts = lengths.cumsum() - lengths
        return cls(np.concatenate(pieces), starts, lengths, padding)

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, rows: Rows, *, multiple: int = 1, most: int | None = None) -> Facts:
        """Return input_ids, attention_mask [n, l] and lengths (a list), padded on the right.

        l is a multiple of `multiple`, but at most `most`.
        """
        index = np.asarray(rows, dtype=np.int64)
        starts = self.starts[index]
        lengths = self.lengths[index]
        # Plain integers slice faster than those of numpy.
        spans = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        pieces = [self.flat[start:end] for start, end in spans]
        longest = lengths.max()
        width = -(-longest // multiple) * multiple
        if most:
            width = max(longest, min(width, most))
        mask = np.arange(width) < lengths[:, None]
        ids = np.full(mask.shape, self.padding, np.int64)
        # Row by row, the True cells of the mask are the tokens in order.
        ids[mask] = np.concatenate(pieces)
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask).long(),
            "lengths": lengths.tolist(),
        }


def apply_by_length(compute: Callable[..., Tensor], batch: dict[str, Tensor]) -> Tensor:
    """Return `compute` of the rows of each length, without padding, in the order of the batch."""
    lengths = batch["attention_mask"].sum(dim=1)
    result_of = {}  # row -> tensor
    for length in lengths.unique().tolist():
        rows = (lengths == length).nonzero().squeeze(1)
        alike = {name: column[rows, :length] for name, column in batch.items()}
        result_of |= zip(rows.tolist(), compute(**alike), strict=True)
    return pad_sequence([result_of[row] for row in range(len(lengths))], batch_first=True)


def sentence_chunks(sentences: Iterable[Any]) -> Iterator[list[str]]:
    """Yield the sentences in lists of at most 2,048; an empty one becomes a space, as in SimCSE.

    Raises EncoderError for one string instead of a list, and for a sentence that is no string, such
    as nan.
    """
    texts = sentence_list(sentences)
    for start in range(0, len(texts), _CHUNK):
        yield [text or " " for text in texts[start : start + _CHUNK]]


def sentence_list(sentences: Any) -> list[str]:
    """Return sentences as a list.

    Raises EncoderError for one string or a table in place of a list, and for what is no string.
    """
    # The elements of a table or a dictionary would be the names of its columns.
    if isinstance(sentences, str | Mapping | DataFrame):
        raise EncoderError(
            f"expected a list of sentences, got {type(sentences).__name__} "
            f"{str(sentences)[:40]!r}; of a table give one column"
        )
    texts = list(sentences)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise EncoderError(
                f"sentence {number} is {text!r:.80} of type {type(text).__name__}, not a string"
            )
    return texts


def sentence_sides(*sentences: Any) -> list[list[str]]:
    """Return both sides of pairs as lists; EncoderError unless they have one length."""
    sides = list(map(sentence_list, sentences))
    first, second = map(len, sides)
    if first != second:
        raise EncoderError(f"{first} first and {second} second sentences are no pairs")
    return sides


def token_ids(tokenizer: Any, texts: list[str], *, special: bool = True) -> TokenIds:
    """Return the ids of each text, whole, as a call of the tokenizer would.

    special: with special tokens.
    """
    # A tokenizer with a call of its own may change the text or the ids.
    for name in ("__call__", "_encode_plus"):
        if getattr(type(tokenizer), name, None) is not getattr(PreTrainedTokenizerFast, name):
            return tokenizer(texts, add_special_tokens=special, verbose=False)["input_ids"]
    # The same without the offsets, masks and strings that the call makes of every token
    # (benchmarks/encode.py).
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    backend.encode_special_tokens = tokenizer.split_special_tokens
    return [row.ids for row in backend.encode_batch_fast(texts, add_special_tokens=special)]


def special_tokens(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special tokens that the tokenizer adds before and after the tokens of a text."""
    # Found by comparison: a tokenizer's post-processor has no names for the two sides.
    [alone] = token_ids(tokenizer, ["a"], special=False)
    [whole] = token_ids(tokenizer, ["a"])
    size = len(alone)
    start = next(start for start in range(len(whole)) if whole[start : start + size] == alone)
    return tuple(whole[:start]), tuple(whole[start + size :])
