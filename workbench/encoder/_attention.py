"""Attention without padding on a GPU, and cheap dropout on a CPU.

In training on a CPU only attention computes padding.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from workbench.encoder._hardware import to_device
from workbench.files import Facts

ATTENTION = "workbench_cheap_dropout"
# Architectures that take the tokens of all sentences as one long row: positions are given, kwargs
# reach attention.
PACKABLE = ("bert", "roberta", "xlm-roberta")
_LEVELS = 1 << 16
_Heads = Float[Tensor, "t heads w"]  # of all tokens, as one row


@dataclass(frozen=True)
class Packing:
    """Places of t tokens in a padded grid of n sentences and l columns.

    mask: True at tokens, False at padding.
    kept: place of each token in the flat grid.
    position: column of each token.
    """

    mask: Bool[Tensor, "n l"]
    kept: Int[Tensor, "t"]
    position: Int[Tensor, "t"]

    @classmethod
    def of_mask(cls, mask: Int[Tensor, "n l"]) -> "Packing":
        """Return the places for attention that computes padding."""
        kept = mask.flatten().nonzero().squeeze(1)
        return cls(mask.bool(), kept, kept % mask.shape[1])

    def pack(self, grid: Tensor) -> Tensor:
        """Reshape [n, l, ...] to [t, ...]."""
        return grid.flatten(0, 1).index_select(0, self.kept)

    def unpack(self, tokens: Tensor) -> Tensor:
        """Reshape [t, ...] to [n, l, ...], with 0 at padding."""
        # The gradient of index_copy is a selection, without atomic sums.
        grid = tokens.new_zeros(self.mask.numel(), *tokens.shape[1:])
        return grid.index_copy(0, self.kept, tokens).unflatten(0, self.mask.shape)

    def unpack_heads(self, part: Tensor) -> Tensor:
        """Reshape [1, heads, t, w] to [n, heads, l, w]."""
        return self.unpack(part.squeeze(0).transpose(0, 1)).transpose(1, 2)


@dataclass(frozen=True)
class Unpadded(Packing):
    """Places for attention without padding.

    bounds: where each sentence begins, and the end of the last.
    longest: the tokens of the longest sentence.
    """

    bounds: Int[Tensor, "n_and_1"]
    longest: int

    @classmethod
    def of(cls, lengths: Sequence[int], columns: int, device: torch.device) -> "Unpadded":
        """Return the places on the device."""
        # On the CPU: sizes that depend on values would be read back from the device.
        mask = np.arange(columns) < np.asarray(lengths)[:, None]
        kept = np.flatnonzero(mask)
        bounds = np.cumsum([0, *lengths], dtype=np.int32)
        places = [torch.from_numpy(one) for one in (kept, kept % columns, bounds)]
        # The mask stays on the CPU: only its shape is read.
        return cls(torch.from_numpy(mask), *to_device(places, device), longest=max(lengths))


def attends_unpadded(device: torch.device, width: int) -> bool:
    """Return whether `unpadded_attention` runs on a device for heads of this width.

    Its kernels need CUDA and compute capability 8.0.
    """
    return (
        device.type == "cuda"
        and torch.version.cuda is not None
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and width % 8 == 0
        and width <= 256
        and not torch.compiler.is_compiling()  # the number of tokens is another one in every batch
    )


def unpadded_attention(  # noqa: PLR0917 - it continues the list of query, key and value
    query: _Heads,
    key: _Heads,
    value: _Heads,
    packing: Unpadded,
    dropout: float,
    scale: float | None,
) -> _Heads:
    """Compute softmax(q k^T s) v of each sentence by itself, with dropout of the weights."""
    # `torch.nn.attention.varlen` calls the same kernel in half precision, but has no dropout.
    # Both kernels take the places of the queries, then those of the keys.
    options = (packing.bounds, packing.bounds, packing.longest, packing.longest, dropout)
    aten = torch.ops.aten
    if query.dtype == torch.float32:
        rows = [part.unsqueeze(0) for part in (query, key, value)]
        states = aten._efficient_attention_forward(*rows, None, *options, 0, True, scale=scale)[0]
        return states.squeeze(0)
    return aten._flash_attention_forward(query, key, value, *options, False, False, scale=scale)[0]


def cheap_dropout(x: Tensor, rate: float) -> Tensor:
    """Zero each element of x with probability `rate`; scale the others to the same expectation.

    The rate is rounded to a multiple of 2^-16 (0.1 becomes 0.100006), and the scale is that of the
    rounded rate, so the expectation is exact. Bits come from torch's default generator: the same
    seed gives the same mask.
    """
    threshold = round(rate * _LEVELS)
    if threshold <= 0:
        return x
    if threshold >= _LEVELS:
        return x * 0.0
    count = x.numel()
    # Four elements share a random word of 64 bits. Plain random_() leaves the sign bit 0, so that
    # every fourth element would have 15 bits; this is the full range.
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[:count].view(x.shape)
    keep = torch.empty(x.shape, dtype=x.dtype)
    # Floats at once: multiplying by a bool mask costs four times as much.
    torch.ge(bits, threshold - _LEVELS // 2, out=keep)
    scale = _LEVELS / (_LEVELS - threshold)
    return x * keep.mul_(scale)


class CheapDropout(nn.Dropout):
    """nn.Dropout with the cheap mask in training on a CPU, and exactly nn.Dropout otherwise."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0.0 or input.device.type != "cpu":
            return super().forward(input)
        return cheap_dropout(input, self.p)


def cheap_attention(  # noqa: PLR0917 - the signature is transformers' interface
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packing: Packing | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Compute softmax(q k^T s + bias) v, on a CPU with cheap dropout of the weights.

    query, key, value: [n, heads, l, head width], or [1, heads, t, head width] with a `packing`.
    Without packing in eval, on other devices and for other attention than BERT's, this is
    transformers' sdpa itself.
    """
    if isinstance(packing, Unpadded):
        query, key, value = (part.squeeze(0).transpose(0, 1) for part in (query, key, value))
        return unpadded_attention(query, key, value, packing, dropout, scaling).unsqueeze(0), None
    if not packing and not _is_cheaper(module, query, options):
        options |= {"dropout": dropout, "scaling": scaling}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    # The backward pass of torch's fused attention would take half of a small BERT's step.
    if packing:
        query, key, value = map(packing.unpack_heads, (query, key, value))
        attention_mask = packing.mask[:, None, None]
    scale = scaling or query.size(-1) ** -0.5
    scores = torch.matmul(query * scale, key.transpose(2, 3))
    if attention_mask is not None:  # True where attention is allowed
        bias = torch.zeros(attention_mask.shape, dtype=scores.dtype)
        scores = scores + bias.masked_fill_(~attention_mask, torch.finfo(scores.dtype).min)
    weights = functional.softmax(scores, dim=-1)
    states = torch.matmul(cheap_dropout(weights, dropout), value).transpose(1, 2)
    if not packing:
        return states.contiguous(), None
    return packing.pack(states).unsqueeze(0), None


def _is_cheaper(module: Any, query: Tensor, options: Facts) -> bool:
    """Return whether this is a training step on a CPU with attention as plain as BERT's."""
    # sdpa would repeat the keys of groups, and add positions or a causal mask.
    return (
        module.training
        and query.device.type == "cpu"
        and getattr(module, "num_key_value_groups", 1) <= 1
        and not getattr(module, "is_causal", True)
        and options.get("position_bias") is None
    )


def unread_mask(**options: Any) -> Tensor | None:
    """Return transformers' mask; in training a device is not asked whether there is padding."""
    padding = options["attention_mask"]
    # The answer would make the CPU wait for the device in every step.
    if padding is not None and padding.device.type != "cpu" and torch.is_grad_enabled():
        options["allow_is_bidirectional_skip"] = False
    return sdpa_mask(**options)


def fast_dropout(module: nn.Module) -> nn.Module:
    """Make every nn.Dropout and sdpa attention of `module` cheaper in training; return `module`.

    On a CPU eval mode stays bit for bit the same, everywhere the state dict. A training step on a
    GPU passes attention a mask even if nothing is padded, so torch may choose another kernel, which
    rounds differently: docs/gpu.md.
    """
    AttentionInterface.register(ATTENTION, cheap_attention)
    AttentionMaskInterface.register(ATTENTION, unread_mask)
    parent: Any
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Dropout:  # a subclass may drop otherwise
                setattr(parent, name, CheapDropout(child.p, child.inplace).train(child.training))
        is_model = isinstance(parent, PreTrainedModel)
        if is_model and parent.config._attn_implementation == "sdpa":
            parent.set_attn_implementation(ATTENTION)
    return module


@contextmanager
def eval_mode(module: nn.Module) -> Iterator[None]:
    """Switch to eval mode; afterwards each submodule has its own flag back.

    One that is frozen in eval on purpose stays so.
    """
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
