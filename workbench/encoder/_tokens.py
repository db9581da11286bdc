"""Sentences as token numbers: made by the tokenizer on all its threads, kept four bytes a token, padded on demand."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from workbench.errors import EncoderError

_LOG = logging.getLogger("workbench")
_NAMED: ContextVar[str] = ContextVar("named", default="")
_CHUNK = 2048  # sentences tokenised at a time: enough for every thread, few enough to stay in the cache
_GROWTH = 1.125  # a store that is full grows by an eighth: what it holds too much is at most that


@dataclass(frozen=True)
class TokenRows:
    """The tokens of n sentences end to end: row i is flat[starts[i] : starts[i] + lengths[i]]; rows may overlap.

    padding: the id of the padding token. before, after: special tokens that a batch puts around each row, where the
    rows hold none.
    """

    flat: Int[np.ndarray, " tokens"]
    starts: Int[np.ndarray, " n"]
    lengths: Int[np.ndarray, " n"]
    padding: int
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @classmethod
    def gather(cls, chunks: Iterable[list[list[int]]], *, padding: int) -> "TokenRows":
        """From lists of ids, a chunk at a time."""
        flat, used = np.empty(0, np.int32), 0
        counts = [np.empty(0, np.int64)]
        for rows in chunks:
            counts.append(np.fromiter(map(len, rows), np.int64, len(rows)))
            ends = used + int(counts[-1].sum())
            if ends > len(flat):
                # In place: nothing is held twice, as it would be while many arrays are put together.
                flat.resize(max(ends, int(_GROWTH * len(flat))), refcheck=False)
            flat[used:ends] = np.fromiter(chain.from_iterable(rows), np.int32, ends - used)
            used = ends
        flat.resize(used, refcheck=False)
        lengths = np.concatenate(counts)
        return cls(flat, np.cumsum(lengths) - lengths, lengths, padding)

    @classmethod
    def joined(cls, stores: Sequence["TokenRows"]) -> "TokenRows":
        """The rows of several stores of one tokenizer, one after the other."""
        first, offsets = stores[0], np.cumsum([0, *(len(store.flat) for store in stores)])
        return replace(
            first,
            flat=np.concatenate([store.flat for store in stores]),
            starts=np.concatenate([store.starts + offset for store, offset in zip(stores, offsets, strict=False)]),
            lengths=np.concatenate([store.lengths for store in stores]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def batch(
        self, rows: Sequence[int] | np.ndarray, *, multiple: int = 1, most: int | None = None
    ) -> dict[str, Int[Tensor, "n l"]]:
        """These rows, padded on the right to the longest of them, rounded up to a `multiple`.

        most: the width that is never passed by rounding: a backbone has no positions beyond its last.
        """
        index = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[index] + len(self.before) + len(self.after)
        longest = int(lengths.max())
        width = -(-longest // multiple) * multiple
        if most is not None:
            width = max(longest, min(width, most))
        mask = np.arange(width) < lengths[:, None]
        ids = np.full(mask.shape, self.padding, np.int64)
        # Row by row, the True cells of the mask are the tokens in order.
        starts, ends = self.starts[index], self.starts[index] + self.lengths[index]
        pieces = [self.flat[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        if self.before or self.after:
            pieces = [part for piece in pieces for part in (self.before, piece, self.after)]
        ids[mask] = np.concatenate(pieces)
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


def falling_batches(lengths: np.ndarray, *, rows: int, tokens: int | None) -> Iterator[np.ndarray]:
    """Indices by falling length, so that rows of one batch are about equally long and a lack of memory shows at once.

    rows: sentences a batch at most. tokens: padded tokens a batch at most (but always one sentence); None: no limit.
    Raises EncoderError for `rows` that are no number of sentences.
    """
    if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
        raise EncoderError(f"batch_size is {rows!r}; it is a whole number, at least 1")
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        size = rows if tokens is None else max(1, min(rows, tokens // longest))
        yield order[start : start + size]
        start += size


def checked_sentences(sentences: Iterable[Any], *, first: int = 0) -> list[str]:
    """The sentences as a list; an empty one becomes a space, as in SimCSE. EncoderError names what is no sentence.

    first: the number of the first one, for that name.
    """
    if isinstance(sentences, str):
        raise EncoderError(f"one string was given ({sentences[:40]!r}); give a list of sentences: [sentence]")
    if not isinstance(sentences, Iterable):
        raise EncoderError(f"{sentences!r} of type {type(sentences).__name__} was given; give a list of sentences")
    texts = list(sentences)
    for i, text in enumerate(texts, first):
        if not isinstance(text, str):
            raise EncoderError(f"sentence {i} is {text!r} of type {type(text).__name__}; every sentence is a str")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise EncoderError(
                f"sentence {i} is no text that can be written ({error}): it holds half of a character; read its file "
                "as UTF-8, or replace such halves: text.encode('utf-8', 'replace').decode()"
            ) from None
    return [text or " " for text in texts]


def checked_chunks(sentences: Iterable[Any]) -> Iterator[list[str]]:
    """The same a chunk at a time, for sentences that are made on the way."""
    if isinstance(sentences, str) or not isinstance(sentences, Iterable):
        checked_sentences(sentences)  # raises
    rest, first = iter(sentences), 0
    while chunk := list(islice(rest, _CHUNK)):
        yield checked_sentences(chunk, first=first)
        first += len(chunk)


def cut_chunks(
    texts: Sequence[str], ids_of_chunk: Callable[[list[str], int | None], list[list[int]]], limit: int
) -> Iterator[list[list[int]]]:
    """The ids of all texts, a chunk at a time, cut at `limit` tokens; then one warning says how many were.

    ids_of_chunk: (texts, limit or None for whole) -> the ids of each.
    """
    cut = 0
    for chunk in checked_chunks(texts):
        ids = ids_of_chunk(chunk, None)
        long = [i for i, row in enumerate(ids) if len(row) > limit]
        if long:
            for i, row in zip(long, ids_of_chunk([chunk[i] for i in long], limit), strict=True):
                ids[i] = row
        cut += len(long)
        yield ids
    if cut:
        _LOG.warning(
            "%s%d of %d distinct sentences are longer than %d tokens and were cut", _NAMED.get(), cut, len(texts), limit
        )


@contextmanager
def naming(texts: str) -> Iterator[None]:
    """What is encoded within is called so where a warning is about it."""
    before = _NAMED.set(f"{texts}: ")
    try:
        yield
    finally:
        _NAMED.reset(before)


def ids_of(tokenizer: Any, texts: list[str], limit: int | None = None, *, special: bool = True) -> list[list[int]]:
    """The ids that the tokenizer's own call gives each text: cut at `limit` tokens (None: whole).

    special: with special tokens around, which count towards the limit.
    The work is spread over threads unless TOKENIZERS_PARALLELISM forbids it.
    """
    if not _is_plain(tokenizer):
        return tokenizer(
            texts,
            add_special_tokens=special,
            truncation=limit is not None,
            max_length=limit,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # the length warning: encode counts and says it once itself
        )["input_ids"]
    # What the call does, without the offsets, masks and strings that it makes of every token.
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.encode_special_tokens = tokenizer.split_special_tokens
    if limit is None:
        backend.no_truncation()
    else:
        backend.enable_truncation(limit)
    return [row.ids for row in backend.encode_batch_fast(texts, add_special_tokens=special)]


def _is_plain(tokenizer: Any) -> bool:
    """Whether a call is no more than one of the tokenizers library; a kind with its own call keeps that."""
    kind = type(tokenizer)
    inherited: list[tuple[str, type]] = [
        ("__call__", PreTrainedTokenizerBase),
        ("_encode_plus", PreTrainedTokenizerFast),
    ]
    return isinstance(tokenizer, PreTrainedTokenizerFast) and all(
        getattr(kind, name, None) is getattr(base, name, None) for name, base in inherited
    )


def special_tokens(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that the tokenizer puts before and behind the tokens of one text."""
    [alone], [whole] = ids_of(tokenizer, ["a"], special=False), ids_of(tokenizer, ["a"])
    place = next(i for i in range(len(whole)) if whole[i : i + len(alone)] == alone)
    return tuple(whole[:place]), tuple(whole[place + len(alone) :])
