"""The tokens of a padded batch end to end, so that no layer but attention computes on padding."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Architectures that take the tokens of all sentences as one long row: positions are given, kwargs reach attention.
PACKABLE = ("bert", "roberta", "xlm-roberta")


@dataclass(frozen=True)
class Packing:
    """Where each of t tokens stands in a padded grid of n sentences and l columns.

    kept: the place in the flat grid of each token. source: the token at each place; at padding token 0, unread.
    position: the column of each token. bias: added to attention scores, very negative at padding.
    """

    rows: int
    kept: Int[Tensor, "t"]
    source: Int[Tensor, "places"]
    position: Int[Tensor, "t"]
    bias: Float[Tensor, "n 1 1 l"]

    @classmethod
    def of(cls, mask: Int[Tensor, "n l"]) -> "Packing":
        """The packing of an attention mask; every sentence has at least one token."""
        kept = mask.flatten().nonzero().squeeze(1)
        source = torch.zeros(mask.numel(), dtype=torch.long)
        source[kept] = torch.arange(len(kept))
        bias = torch.zeros(mask.shape).masked_fill_(mask == 0, torch.finfo(torch.float32).min)
        return cls(mask.shape[0], kept, source, kept % mask.shape[1], bias[:, None, None])

    def pack(self, grid: Tensor) -> Tensor:
        """[n, l, ...] to [t, ...]."""
        return grid.flatten(0, 1).index_select(0, self.kept)

    def unpack(self, tokens: Tensor) -> Tensor:
        """[t, ...] to [n, l, ...]."""
        return tokens.index_select(0, self.source).unflatten(0, (self.rows, -1))
