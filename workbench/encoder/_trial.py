"""Try a backbone when it is loaded: does it read plain text, how much of it, and does padding take part."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.errors import EncoderError

# Kinds that need no trial, because tests/test_encoder_trial.py has tried each: they take as many tokens as their
# table of positions or their configuration says, and padding changes no state of another token.
TRIED = frozenset(
    "albert bert bert-generation camembert data2vec-text deberta deberta-v2 distilbert electra ernie eurobert "
    "flaubert gemma3_text jina_embeddings_v3 llama longformer megatron-bert mistral modernbert mpnet nomic_bert "
    "qwen2 qwen3 rembert roberta roberta-prelayernorm roformer splinter squeezebert xlm-roberta xlm-roberta-xl "
    "xlnet xmod".split()
)
_FEW, _MANY = 8, 1024  # tokens of a trial; some kinds change their attention beyond a few hundred
_TOLERANCE = 1e-3  # of the largest state; rounding is 1e-6 of it


@dataclass(frozen=True)
class Trial:
    """What a trial found: the positions of tokens, None if no table of them was read, and if padding takes part."""

    positions: range | None
    reads_padding: bool


class _PositionLookups(TorchDispatchMode):
    """Find the embedding table in which the tokens of a row are looked up one after the other, and where they begin."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        self.positions: range | None = None

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operation is torch.ops.aten.embedding.default:
            table, index = args[:2]
            is_per_token = index.numel() == self.length and index.shape[-1] == self.length
            if is_per_token and bool((index.flatten().diff() == 1).all()):
                self.positions = range(int(index.min()), len(table))
        return operation(*args, **(kwargs or {}))


def try_backbone(backbone: Any, short: list[int], padding: int, limit: int, *, name: str, is_causal: bool) -> Trial:
    """Compute the states of short and long rows of tokens, alone and padded.

    short: the ids of a text of one word. limit: the most tokens, if the trial finds no table of positions. is_causal:
    a token sees only those before it, so padding on the right takes no part. Raises EncoderError, which names the
    encoder, for a backbone that cannot read such rows, or reads one row differently each time.
    """

    def states(*rows: list[int]) -> Float[Tensor, "n l d"]:
        return _states(backbone, rows, padding, name)

    few = _lengthen(short, _FEW)
    lookups = _PositionLookups(len(few))
    with lookups:
        states(few)
    positions = lookups.positions
    most = min(limit if positions is None else len(positions), _MANY)
    alone = states(short)
    reads_padding = not _is_close(states(short, few)[:1], alone)
    if is_causal:
        return Trial(positions, reads_padding)

    many = _lengthen(short, max(most, len(few)))
    mixed = states(short, many)
    reads_padding |= not _is_close(mixed[:1], alone)
    if not (_is_close(states(many), mixed[1:]) and _is_close(states(short, short)[1:], alone)):
        raise EncoderError(f"{name} gives a text other states in each call; give an encoder that is deterministic")
    return Trial(positions, reads_padding)


def _lengthen(row: list[int], length: int) -> list[int]:
    """Return the row with one of its tokens repeated up to this length, and the special ones where they were."""
    middle = len(row) // 2
    return [*row[:middle], *[row[middle]] * (length - len(row)), *row[middle:]]


def _states(backbone: Any, rows: Any, padding: int, name: str) -> Tensor:
    """Return the state of each token of padded rows, [n, l, d]."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows])
    mask = torch.tensor([[column < len(row) for column in range(width)] for row in rows]).long()
    problem = f"{name} is no encoder of plain text of {width} tokens"
    remedy = f"give one of the BERT, RoBERTa, MPNet, ... kinds; if SentenceTransformer loads it: st:{name}"
    try:
        with torch.no_grad():
            output = backbone(input_ids=ids, attention_mask=mask)
    except Exception as error:  # each kind fails in its own way
        raise EncoderError(f"{problem} ({one_line(error)}); {remedy}") from error
    states = getattr(output, "last_hidden_state", None)
    wanted = (*ids.shape, getattr(backbone.config, "hidden_size", None))
    if not isinstance(states, Tensor) or tuple(states.shape) != wanted:
        shape = "none" if states is None else tuple(states.shape)
        raise EncoderError(f"{problem}: it should return states {wanted}, and returns {shape}; {remedy}")
    return states


def _is_close(states: Tensor, expected: Tensor) -> bool:
    """Return whether the states are those expected up to rounding, as far as these go."""
    difference = (states[:, : expected.shape[1]] - expected).abs()
    is_other = difference > _TOLERANCE * expected.abs().max()
    return not bool(is_other.any())  # states that are nan are no matter of this trial


def one_line(error: Exception) -> str:
    """Return the type and the beginning of an error's text, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}"
