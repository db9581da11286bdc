"""Guessing masked words, added to a contrastive loss where the papers report transfer tasks."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from workbench.encoder import Encoder
from workbench.errors import EncoderError
from workbench.losses import full_precision

CHOSEN, MASKED, RANDOM = 0.15, 0.8, 0.1  # of all words; of the chosen ones (BERT sec. 3.1)


class MaskedWords(nn.Module):
    """The cross-entropy of chosen words given the others, under the checkpoint's own head (BERT sec. 3.1).

    Of the tokens that are not special, 15% are chosen for each text; of these 80% become [MASK], 10% a random word, and
    10% stay. The head's word vectors are no longer tied to the embeddings, as in SimCSE's published code.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        tokenizer = encoder.tokenizer
        if encoder.template is not None:
            raise EncoderError("mlm_weight with a template would mask the template's words; set another pooling")
        self.head = encoder.word_head()
        self.mask_id, self.vocabulary = tokenizer.mask_token_id, len(tokenizer)
        self.special = torch.tensor(tokenizer.all_special_ids)

    def mask(self, tokens: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return `tokens` with chosen words replaced, the mask "chosen" [n, l] and the original "words" [n, l].

        Drawn on the CPU from torch's generator, on any device: the same seed masks the same words.
        """
        words = tokens["input_ids"].cpu()
        chosen = (torch.rand(words.shape) < CHOSEN) & ~torch.isin(words, self.special)
        fate, drawn = torch.rand(words.shape), torch.randint(self.vocabulary, words.shape)
        ids = torch.where(chosen & (fate < MASKED), self.mask_id, words)
        ids = torch.where(chosen & (fate >= MASKED) & (fate < MASKED + RANDOM), drawn, ids)
        added = {"input_ids": ids, "chosen": chosen, "words": words}
        return tokens | {name: values.to(tokens["input_ids"].device) for name, values in added.items()}

    def forward(self, states: Float[Tensor, "n l d"], batch: dict[str, Any]) -> Float[Tensor, "1 2"]:
        """Return the sum of the chosen words' losses, and their number."""
        return _summed_losses(self.head(states[batch["chosen"]]), batch["words"][batch["chosen"]])


@full_precision
def _summed_losses(logits: Float[Tensor, "m v"], words: Int[Tensor, " m"]) -> Float[Tensor, "1 2"]:
    loss = functional.cross_entropy(logits, words, reduction="sum")
    return torch.stack([loss, loss.new_tensor(len(words))])[None]
