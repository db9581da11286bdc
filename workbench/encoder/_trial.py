"""Try a backbone at loading: does it read plain text, and does padding take part."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from workbench.checkpoints import USE_ST
from workbench.errors import EncoderError, first_problem

# Kinds that need no trial at loading, because tests/test_encoder_trial.py has tried each. They take
# as many tokens as their table of positions or their configuration says, and padding changes no
# state of another token.
_TRIED = """
albert bert bert-generation camembert data2vec-text deberta deberta-v2 distilbert electra ernie
eurobert flaubert gemma3_text jina_embeddings_v3 longformer megatron-bert modernbert mpnet
nomic_bert rembert roberta roberta-prelayernorm roformer splinter squeezebert xlm-roberta
xlm-roberta-xl xlnet xmod
"""
TRIED = frozenset(_TRIED.split())
_FEW, _MANY = 8, 1024  # tokens of a trial; some kinds attend otherwise beyond a few hundred
_TOLERANCE = 1e-3  # of the largest state; rounding is 1e-6 of it
_SHOWN = 120  # characters of the beginning and of the end of an error of others


def reads_padding(backbone: Any, name: str, short: list[int], padding: int, limit: int) -> bool:
    """Return whether padding changes the states of tokens.

    short: the token ids of a word. padding: the id of padding. limit: the most tokens. Raises
    EncoderError for a backbone that cannot read tokens alone, or reads them otherwise each time.
    """

    def states(*rows: list[int]) -> Tensor:
        batch = [torch.tensor(row) for row in rows]
        ids = pad_sequence(batch, batch_first=True, padding_value=padding)
        mask = pad_sequence([torch.ones_like(row) for row in batch], batch_first=True)
        problem = f"{name} does not encode plain text of {ids.shape[1]} tokens"
        with torch.no_grad(), refuse(problem, USE_ST + name):
            last = backbone(input_ids=ids, attention_mask=mask).last_hidden_state
            return last.reshape(*ids.shape, backbone.config.hidden_size)

    middle = len(short) // 2

    def repeat_to(length: int) -> list[int]:
        """Return a text of so many tokens: the word's middle token again and again."""
        times = length - len(short)
        return [*short[:middle], *short[middle : middle + 1] * times, *short[middle:]]

    few = repeat_to(_FEW)
    many = repeat_to(min(limit, _MANY))
    alone = states(short)
    beside_few = states(short, few)
    beside_many = states(short, many)
    if _differs(states(many), beside_many[1:]):
        raise EncoderError(
            f"{name} encodes a text otherwise each time, by random numbers; {USE_ST}{name}"
        )
    return _differs(beside_few[:1], alone) or _differs(beside_many[:1], alone)


def _differs(states: Tensor, expected: Tensor) -> bool:
    """Return whether states differ from those expected by more than rounding."""
    # A comparison with nan is False: weights that are not finite are named by `encode`.
    difference = (states[:, : expected.shape[1]] - expected).abs()
    return bool((difference > _TOLERANCE * expected.abs().max()).any())


@contextmanager
def refuse(problem: str, remedy: str) -> Iterator[None]:
    """Raise any error of the block as an EncoderError of one line."""
    try:
        yield
    except Exception as error:  # each kind of model fails in its own way
        reason = first_problem(error)
        # The cause may be at the end, behind the long path of a folder.
        if len(reason) > 2 * _SHOWN:
            reason = f"{reason[:_SHOWN]} … {reason[-_SHOWN:]}"
        raise EncoderError(f"{problem}: {type(error).__name__}: {reason}; {remedy}") from error
