"""Prompted sentences: the embedding is the hidden state at the [MASK] of a template (PromptBERT)."""

from typing import Any

from jaxtyping import Bool, Int
from torch import Tensor

from workbench.encoder._reading import Reading
from workbench.encoder._tokens import ids_of
from workbench.errors import EncoderError

_SLOT = "{sentence}"
_MASK = "[MASK]"


class Template:
    """A template such as 'This sentence of "{sentence}" means [MASK].', with the mask token of a tokenizer."""

    def __init__(self, reading: Reading, tokenizer: Any) -> None:
        text = reading.template
        if text is None or text.count(_SLOT) != 1 or text.count(_MASK) != 1:
            raise EncoderError(
                f"pooling 'mask' needs a template with one {_SLOT} and one {_MASK}, such as "
                f"'This sentence of \"{_SLOT}\" means {_MASK}.'; given: {text!r}"
            )
        self._reading, self._tokenizer = reading, tokenizer
        self._before, self._after = text.replace(_MASK, tokenizer.mask_token).split(_SLOT)
        self._mask_last = text.index(_MASK) > text.index(_SLOT)

    @property
    def own_tokens(self) -> int:
        """How many tokens the template has without a sentence, special ones included."""
        return len(self._ids(""))

    def ids(self, sentences: list[str], limit: int | None) -> list[list[int]]:
        """The ids of the template around each sentence, which is ended as read; cut at `limit`, None: not cut."""
        around = [self._before + self._reading.finished(sentence) + self._after for sentence in sentences]
        found = ids_of(self._tokenizer, around)
        return [
            row if limit is None or len(row) <= limit else self._cut(sentence, limit)
            for row, sentence in zip(found, sentences, strict=True)
        ]

    def _cut(self, sentence: str, limit: int) -> list[int]:
        """The ids of the template around a sentence, ended and then cut so that all has at most `limit` tokens.

        The template itself is never cut; PromptBERT cuts the sentence first too.
        """
        if self.own_tokens >= limit:
            raise EncoderError(
                f"the template alone has {self.own_tokens} tokens; raise max_tokens above that, it is {limit}"
            )
        sentence = self._reading.finished(sentence)
        ids = self._ids(sentence)
        while (excess := len(ids) - limit) > 0:
            pieces = self._tokenizer(sentence, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            spans = pieces["offset_mapping"]
            sentence = sentence[: spans[max(0, len(spans) - excess)][0]].rstrip()
            ids = self._ids(sentence)
        return ids

    def mask_position(self, ids: Int[Tensor, "n l"]) -> Bool[Tensor, "n l"]:
        """True at the template's own mask in each row, even when the sentence holds mask tokens too."""
        found = ids == self._tokenizer.mask_token_id
        if self._mask_last:
            return found & (found.flip(1).cumsum(1).flip(1) == 1)
        return found & (found.cumsum(1) == 1)

    def _ids(self, sentence: str) -> list[int]:
        return ids_of(self._tokenizer, [self._before + sentence + self._after])[0]
