"""From the hidden states of the tokens to one vector a sentence. Padding never takes part."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.encoder._reading import Pooling

# first_last averages layer 1 and the last layer (60.73 on STS for BERT-base); embedding_last averages the embedding
# layer and the last, which is what the printed "first-last avg." of 56.70 was made with (SimCSE issues 133 and 285).
FIRST_LAYER = {"first_last": 1, "embedding_last": 0}
MEANS = ("mean", *FIRST_LAYER)  # the poolings that are a mean over all tokens


def pool(
    hidden_states: Sequence[Float[Tensor, "n l d"]], chosen: Bool[Tensor, "n l"], pooling: Pooling
) -> Float[Tensor, "n d"]:
    """One vector a sentence, in float32 or wider, not normalised.

    hidden_states: the embedding layer's output and each layer's; only the last is read by "cls", "mean", "max", "mask".
    chosen: the tokens that take part: all that are not padding; for "mask" the [MASK] of the template alone.
    """
    last = hidden_states[-1]
    if pooling == "cls":
        return _widened(last[:, 0])
    if pooling == "max":
        return _widened(last.masked_fill(~chosen.unsqueeze(-1), torch.finfo(last.dtype).min).amax(dim=1))
    return masked_mean(averaged_states(hidden_states, pooling), chosen)


def averaged_states(hidden_states: Sequence[Float[Tensor, "n l d"]], pooling: Pooling) -> Float[Tensor, "n l d"]:
    """The states whose mean over tokens is the vector of a sentence, for a pooling that takes one."""
    last = _widened(hidden_states[-1])
    return (_widened(hidden_states[FIRST_LAYER[pooling]]) + last) / 2 if pooling in FIRST_LAYER else last


def masked_mean(states: Float[Tensor, "n l d"], chosen: Bool[Tensor, "n l"]) -> Float[Tensor, "n d"]:
    """The mean over the chosen tokens of each row; every row has at least one."""
    weights = chosen.to(states.dtype)
    # A batched product instead of a masked copy of all states: several times cheaper on a CPU.
    return torch.bmm(weights.unsqueeze(1), states).squeeze(1) / weights.sum(dim=1, keepdim=True)


def _widened(states: Tensor) -> Tensor:
    """float32 for half precision: sums over tokens and all that follows them are not taken in 8 or 11 bits."""
    return states.float() if states.dtype in (torch.bfloat16, torch.float16) else states
