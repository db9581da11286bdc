"""Token rows of many sentences, compactly kept, and batches of them by falling length."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class TokenRows:
    """The ids of n sentences end to end: four bytes a token, so that 10^6 sentences fit."""

    flat: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def gather(cls, chunks: Iterable[list[list[int]]]) -> "TokenRows":
        """From lists of ids, a chunk at a time."""
        flats: list[np.ndarray] = [np.empty(0, np.int32)]
        lengths: list[int] = []
        for rows in chunks:
            flats.append(np.fromiter(chain.from_iterable(rows), np.int32))
            lengths.extend(map(len, rows))
        counts = np.asarray(lengths, np.int64)
        return cls(np.concatenate(flats), np.cumsum(counts) - counts, counts)

    def batch(
        self, index: np.ndarray, *, padding: int, multiple: int = 1, most: int | None = None
    ) -> dict[str, Int[Tensor, "n l"]]:
        """The rows of `index`, padded on the right to the longest of them, rounded up to a `multiple`.

        most: the width that is never passed by rounding: a backbone has no positions beyond its last.
        """
        lengths = self.lengths[index]
        longest = int(lengths.max())
        width = -(-longest // multiple) * multiple
        if most is not None:
            width = max(longest, min(width, most))
        mask = np.arange(width) < lengths[:, None]
        ids = np.full(mask.shape, padding, np.int64)
        # Row by row, the True cells of the mask are the tokens in order.
        ids[mask] = np.concatenate([self.flat[self.starts[i] : self.starts[i] + self.lengths[i]] for i in index])
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


def falling_batches(lengths: np.ndarray, *, rows: int, tokens: int | None) -> Iterator[np.ndarray]:
    """Indices by falling length, so that rows of one batch are about equally long and a lack of memory shows at once.

    rows: sentences a batch at most. tokens: padded tokens a batch at most (but always one sentence); None: no limit.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        size = rows if tokens is None else max(1, min(rows, tokens // longest))
        yield order[start : start + size]
        start += size
