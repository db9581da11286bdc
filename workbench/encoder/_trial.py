"""Try a backbone at loading: does it read plain text, how much, and does padding take part."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.errors import EncoderError

# Kinds that need no trial at loading, because tests/test_encoder_trial.py has tried each. They take
# as many tokens as their table of positions or their configuration says, and padding changes no
# state of another token.
_TRIED = """
albert bert bert-generation camembert data2vec-text deberta deberta-v2 distilbert electra ernie
eurobert flaubert gemma3_text jina_embeddings_v3 longformer megatron-bert modernbert mpnet nomic_bert
rembert roberta roberta-prelayernorm roformer splinter squeezebert xlm-roberta xlm-roberta-xl xlnet
xmod
"""
TRIED = frozenset(_TRIED.split())
USE_OTHER = "give one of the BERT, RoBERTa, MPNet, ... kinds; if SentenceTransformer loads it, as st:"
_FEW, _MANY = 8, 1024  # tokens of a trial; some kinds attend otherwise beyond a few hundred
_TOLERANCE = 1e-3  # of the largest state; rounding is 1e-6 of it


class _PositionLookups(TorchDispatchMode):
    """Find the table in which a row of tokens looks up its positions, one after the other."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length, self.positions = length, range(0)

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operation is torch.ops.aten.embedding.default:
            table, index = args[:2]
            if index.numel() == self.length and bool((index.flatten().diff() == 1).all()):
                self.positions = range(int(index.min()), len(table))
        return operation(*args, **(kwargs or {}))


def try_backbone(backbone: Any, name: str, short: list[int], padding: int, limit: int) -> tuple[range, bool]:
    """Return the positions that tokens can have, and whether padding changes the states of tokens.

    short: the token ids of a word. padding: the id of padding. limit: the most tokens, unless
    positions are looked up in a table. Raises EncoderError for a backbone that cannot read tokens
    alone, or reads them otherwise each time.
    """

    def states(*rows: list[int]) -> Tensor:
        width = max(map(len, rows))
        ids = torch.tensor([row + [padding] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        try:
            with torch.no_grad():
                found = backbone(input_ids=ids, attention_mask=mask).last_hidden_state
                return found.reshape(*ids.shape, backbone.config.hidden_size)
        except Exception as error:  # each kind fails in its own way
            problem = f"{name} does not encode plain text of {width} tokens ({short_reason(error)})"
            raise EncoderError(f"{problem}; {USE_OTHER}{name}") from error

    def lengthen(length: int) -> list[int]:
        middle = len(short) // 2
        return short[:middle] + short[middle : middle + 1] * (length - len(short)) + short[middle:]

    with _PositionLookups(_FEW) as lookups:
        states(lengthen(_FEW))
    positions = lookups.positions or range(limit)
    long = lengthen(min(len(positions), _MANY))
    alone = states(short)
    few = states(short, lengthen(_FEW))
    many = states(short, long)
    if _differs(states(long), many[1:]):
        raise EncoderError(f"{name} encodes a text otherwise each time, by random numbers; {USE_OTHER}{name}")
    return positions, _differs(few[:1], alone) or _differs(many[:1], alone)


def _differs(states: Tensor, expected: Tensor) -> bool:
    """Return whether states are not those expected, by more than rounding; nan is no matter of a trial."""
    difference = (states[:, : expected.shape[1]] - expected).abs()
    return bool((difference > _TOLERANCE * expected.abs().max()).any())


def short_reason(error: Exception) -> str:
    """Return the type of an error and the beginning of its text, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
