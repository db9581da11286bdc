"""Guessing masked words, added to a contrastive loss where the papers report transfer tasks."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from workbench.encoder import Encoder, load_mlm_head
from workbench.errors import EncoderError
from workbench.files import Facts
from workbench.losses import full_precision

_NOT_CHOSEN = -100
_BUCKET = 128  # a count of chosen words is rounded up to its multiple
CHOSEN, MASKED, RANDOM = 0.15, 0.8, 0.1  # of all words; of the chosen ones (BERT sec. 3.1)


class MaskedLanguageModel(nn.Module):
    """The cross-entropy of chosen words given the others (BERT sec. 3.1).

    It is computed under the checkpoint's own head.

    Of the tokens that are not special, 15% are chosen for each text; of these 80% become [MASK],
    10% a random word, and 10% stay. The head's word vectors are no longer tied to the embeddings,
    as in SimCSE's published code.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        tokenizer = encoder.tokenizer
        if encoder.template:
            raise EncoderError(
                "mlm_weight with a template would mask the template's words; set another pooling"
            )
        self.head = load_mlm_head(encoder.checkpoint)
        self.mask_id = tokenizer.mask_token_id
        self.vocabulary = len(tokenizer)
        self.special = torch.tensor(tokenizer.all_special_ids)

    def mask(self, words: Int[Tensor, "n l"], *, static: bool = False) -> Facts:
        """Replace chosen words, and say which.

        Returns "masked", the ids with chosen words replaced; "chosen" [n, l]; and "counts", how
        many in each row, or with `static` one number for the batch, rounded up to few values.

        Drawn from torch's generator for a batch on the CPU: the same seed masks the same words for
        any device.
        """
        # Each position is drawn on its own: a short sentence may have no chosen word.
        chosen = (torch.rand(words.shape) < CHOSEN) & ~torch.isin(words, self.special)
        fate = torch.rand(words.shape)
        drawn = torch.randint(self.vocabulary, words.shape)
        ids = torch.where(chosen & (fate < MASKED + RANDOM), drawn, words)
        ids = torch.where(chosen & (fate < MASKED), self.mask_id, ids)
        counts = chosen.sum(dim=1).tolist()
        if static:
            rounded = math.ceil(sum(counts) / _BUCKET) * _BUCKET
            counts = [min(rounded, chosen.numel())]
        return {"masked": ids, "chosen": chosen, "counts": counts}

    def forward(self, read: Callable[[Facts], Tensor], batch: Facts) -> Float[Tensor, "1 2"]:
        """Return the sum of the chosen words' losses, and their number.

        `read` returns the states of tokens.
        """
        states = read(batch | {"input_ids": batch["masked"]})
        # Their number is known on the CPU, so that nothing waits for the device to count them.
        count = sum(batch["counts"])
        order = batch["chosen"].flatten().byte().argsort(descending=True, stable=True)
        index = order[:count]
        logits = self.head(states.flatten(0, 1)[index])
        # A rounded count also takes words that were not chosen: they have no loss.
        chosen = batch["chosen"].flatten()[index]
        words = batch["input_ids"].flatten()[index]
        return _summed_losses(logits, torch.where(chosen, words, _NOT_CHOSEN))


@full_precision
def _summed_losses(logits: Float[Tensor, "m v"], words: Int[Tensor, " m"]) -> Float[Tensor, "1 2"]:
    loss = functional.cross_entropy(logits, words, reduction="sum", ignore_index=_NOT_CHOSEN)
    count = (words != _NOT_CHOSEN).sum()
    return torch.stack([loss, count.to(loss.dtype)])[None]
