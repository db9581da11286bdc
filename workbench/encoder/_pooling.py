"""From the hidden states of the tokens to one vector per sentence. Padding never takes part."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.checkpoints import EncodingSpec
from workbench.config import Pooling
from workbench.encoder._tokens import TokenIds, token_ids
from workbench.errors import EncoderError
from workbench.losses import Embeddings, widen

# avg_first_last averages layer 1 and the last layer (60.73 on STS for BERT-base);
# avg_embedding_last averages the embedding layer and the last, which the printed "first-last avg."
# of 56.70 was made with (SimCSE issues 133 and 285).
FIRST_LAYER = {"avg_first_last": 1, "avg_embedding_last": 0}


def pool(
    hidden_states: Sequence[Float[Tensor, "n l d"]], chosen: Bool[Tensor, "n l"], pooling: Pooling
) -> Embeddings:
    """Return one vector per sentence, in float32 or wider, not normalised.

    hidden_states: the embedding layer's output and each layer's; a mean of two layers reads two,
        others the last. "pooler" is "cls" here: the layer above belongs to the backbone.
    chosen: the tokens that take part: all but padding; for "mask" only the [MASK] of the template.
    """
    # Half precision is widened: sums over tokens are not taken in 8 or 11 bits.
    last = hidden_states[-1]
    if pooling in ("cls", "pooler"):
        return widen(last[:, 0])
    if pooling == "last":
        columns = torch.arange(chosen.shape[1], device=chosen.device)
        places = (chosen * columns).amax(dim=1)
        return widen(last[torch.arange(len(last), device=last.device), places])
    if pooling == "max":
        lowest = torch.finfo(last.dtype).min
        return widen(last.masked_fill(~chosen.unsqueeze(-1), lowest).amax(dim=1))
    # What is left is a mean over tokens.
    if pooling not in ("mean", *FIRST_LAYER, "mask"):
        raise EncoderError(f"pool() has no branch for pooling {pooling!r}")
    states = widen(last)
    if pooling in FIRST_LAYER:
        first = widen(hidden_states[FIRST_LAYER[pooling]])
        states = (first + states) / 2
    weights = chosen.to(states.dtype)
    # A batched product instead of a masked copy of all states: several times cheaper on a CPU.
    sums = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
    return sums / weights.sum(dim=1, keepdim=True)


_SLOT = "{sentence}"
_MASK = "[MASK]"


class Template:
    """A template such as 'This sentence of "{sentence}" means [MASK].' for a tokenizer."""

    def __init__(self, spec: EncodingSpec, tokenizer: Any) -> None:
        text = spec.template
        if text is None or text.count(_SLOT) != 1 or text.count(_MASK) != 1:
            raise EncoderError(
                f"pooling 'mask' needs a template with one {_SLOT} and one {_MASK}, such as "
                f"'This sentence of \"{_SLOT}\" means {_MASK}.'; got {text!r}; of the "
                "methods RankEncoder alone has the setting template: others set another pooling"
            )
        if tokenizer.mask_token is None:
            raise EncoderError("pooling 'mask' reads the [MASK] token, and this tokenizer has none")
        self._spec = spec
        self._tokenizer = tokenizer
        self._before, self._after = text.replace(_MASK, tokenizer.mask_token).split(_SLOT)
        self._mask_last = text.index(_MASK) > text.index(_SLOT)
        # In tokens, without a sentence, special ones included.
        self.length = len(self.wrap([""])[0])

    def wrap(self, sentences: list[str]) -> TokenIds:
        """Return the token ids of the template around each sentence."""
        return self._ids([self._spec.add_full_stop(sentence) for sentence in sentences])

    def cut(self, sentence: str, limit: int) -> list[int]:
        """Return the token ids of the whole template around a sentence, `limit` at most."""
        if self.length >= limit:
            raise EncoderError(
                f"the template alone has {self.length} tokens; raise the length of training "
                f"(train_length, in settings max_seq_length) above that, it is {limit}"
            )
        # PromptBERT cuts the text of the sentence, not the ids, so that the template stays whole.
        # A text that is cut may have other tokens, so this is repeated until it fits.
        sentence = self._spec.add_full_stop(sentence)
        [ids] = self._ids([sentence])
        while (excess := len(ids) - limit) > 0:
            spans = self._tokenizer(
                sentence, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )["offset_mapping"]
            end, _ = spans[max(0, len(spans) - excess)]
            sentence = sentence[:end].rstrip()
            [ids] = self._ids([sentence])
        return ids

    def _ids(self, sentences: list[str]) -> TokenIds:
        texts = [self._before + sentence + self._after for sentence in sentences]
        return token_ids(self._tokenizer, texts)

    def mask_position(self, ids: Int[Tensor, "n l"]) -> Bool[Tensor, "n l"]:
        """Return True at the template's own mask, even if the sentence contains mask tokens too."""
        masks = ids == self._tokenizer.mask_token_id
        if self._mask_last:  # count from the right
            return masks & (masks.flip(1).cumsum(1).flip(1) == 1)
        return masks & (masks.cumsum(1) == 1)
