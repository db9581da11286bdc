"""Dropout whose mask costs little on a CPU: 16 random bits an element instead of a float draw each."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "workbench_cheap_dropout"
_LEVELS = 1 << 16


def cheap_dropout(x: Tensor, rate: float) -> Tensor:
    """x with each element zeroed with probability `rate` and the others scaled so that the expectation is x.

    The rate is rounded to a multiple of 2^-16 (0.1 becomes 0.100006), and the scale is that of the rounded rate, so the
    expectation is exact. Bits come from torch's default generator: the same seed gives the same mask.
    """
    threshold = round(rate * _LEVELS)
    if threshold <= 0:
        return x
    if threshold >= _LEVELS:
        return x * 0.0
    # random_() alone leaves the sign bit 0, which would halve the values of every fourth element; this is the full range.
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)
    keep = torch.empty(x.shape, dtype=x.dtype)
    torch.ge(
        bits, threshold - _LEVELS // 2, out=keep
    )  # written as floats at once: a bool mask costs four times as much
    return x * keep.mul_(_LEVELS / (_LEVELS - threshold))


class CheapDropout(nn.Dropout):
    """nn.Dropout with the cheap mask while training on a CPU; elsewhere, and in eval, exactly nn.Dropout."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0.0 or input.device.type != "cpu":
            return super().forward(input)
        return cheap_dropout(input, self.p)


def cheap_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """softmax(q k^T s + mask) v with cheap dropout of the weights; without dropout, transformers' sdpa itself."""
    special = options.get("position_bias") is not None or getattr(module, "num_key_value_groups", 1) > 1
    if dropout == 0.0 or query.device.type != "cpu" or special or getattr(module, "is_causal", False):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    scores = torch.matmul(query * (scaling or query.size(-1) ** -0.5), key.transpose(2, 3))
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = cheap_dropout(functional.softmax(scores, dim=-1), dropout)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), None


def fast_dropout(module: nn.Module) -> nn.Module:
    """Makes dropout cheap in `module`, in place, and returns it: every nn.Dropout, and the attention of a backbone.

    Eval mode, other devices and the state dict stay bit for bit as they were. Attention is replaced where it is
    transformers' sdpa; other implementations are left alone, correct and no faster.
    """
    AttentionInterface.register(ATTENTION, cheap_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Dropout:
                setattr(parent, name, CheapDropout(child.p, child.inplace).train(child.training))
        config = getattr(parent, "config", None)
        if getattr(config, "_attn_implementation", None) == "sdpa" and hasattr(parent, "set_attn_implementation"):
            parent.set_attn_implementation(ATTENTION)
    return module
