"""Frozen encoders by name: a finished run, a folder, a bundled name or a hub id, each with its own pooling."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from workbench.cache import cached_embeddings
from workbench.encoder import POOLINGS, Encoder
from workbench.encoder._checkpoint import Checkpoint, find_checkpoint
from workbench.errors import EncoderError
from workbench.published import Reading, reading_of

_LOG = logging.getLogger("workbench")


@dataclass(frozen=True)
class Teacher:
    """A frozen encoder that reads with its own tokenizer and pooling.

    name: as its user named it. reading: how a published one is fed, where its name says so.
    """

    name: str
    encoder: Encoder
    reading: Reading | None = None

    def encode(self, sentences: list[str], batch_size: int = 64) -> Float[Tensor, "n d"]:
        """Unit rows, float32, on the CPU: what the teacher itself scores."""
        return self.encoder.encode(self._fed(sentences), batch_size)

    def embeddings(
        self, sentences: Sequence[str], *, folder: str | Path | None = None, batch_size: int = 64
    ) -> np.ndarray:
        """Unit rows [n, width of this teacher], float16 on disk, from the cache when they are there."""
        try:
            return cached_embeddings(self.encoder, self._fed(sentences), folder=folder, batch_size=batch_size)
        except EncoderError as error:
            raise EncoderError(f"teacher {self.name!r}: {error}") from error

    def _fed(self, sentences: Sequence[str]) -> Sequence[str]:
        """The sentences as a template's authors ended them; for other poolings as they are."""
        if self.reading is None or self.encoder.pooling != "mask":
            return sentences
        return [self.reading.finished(sentence) for sentence in sentences]


def load_teacher(
    name: str,
    *,
    pooling: Any = None,
    template: str | None = None,
    max_tokens: int | None = None,
    revision: str | None = None,
    precision: Any = "auto",
    device: str = "auto",
) -> Teacher:
    """The frozen encoder called `name`, with any vocabulary and any width.

    Its pooling is `pooling`; else what its files say (ours, or a SentenceTransformer's modules.json); else what is
    known of its name: [CLS] for SimCSE, DiffCSE and RankCSE, the [MASK] of a template for PromptBERT and SNCSE.

    Args:
        name: The folder of a finished run, another folder, a bundled name, or a hub id, looked up in this order.
        pooling: Overrules what the checkpoint says.
        template: For pooling "mask"; None takes the checkpoint's, else the published one.
        max_tokens: Sentences are cut here, special tokens included (of a template: in front of it); None: read whole.
        revision: Of a hub id. precision, device: as for Encoder.from_pretrained.

    Raises:
        EncoderError: It is missing, broken, an unfinished run, or says nothing of its pooling.
    """
    try:
        checkpoint = find_checkpoint(name, revision)
        reading = reading_of(name)
        chosen = pooling or _pooling_of(name, checkpoint, reading)
        prompt = template or checkpoint.template or (reading.template if reading else None)
        encoder = Encoder.from_pretrained(
            name,
            pooling=chosen,
            template=prompt if (chosen or checkpoint.pooling) == "mask" else None,
            revision=revision,
            precision=precision,
            device=device,
        )
    except EncoderError as error:
        raise EncoderError(f"teacher {name!r}: {error}") from error
    if max_tokens is not None:
        encoder.limit = min(encoder.limit, max_tokens + _template_tokens(encoder))
    return Teacher(name, encoder.requires_grad_(False), reading)


def _pooling_of(name: str, checkpoint: Checkpoint, reading: Reading | None) -> str | None:
    """What the files say (None: the encoder reads it from them itself), else what is known of the name."""
    if checkpoint.pooling is not None or checkpoint.foreign:
        return None
    if reading is None:
        raise EncoderError(
            f"teacher {name!r} does not say how its tokens become one vector (no modules.json, no name known here); "
            f'set its pooling: teacher_pooling={{"{name}": "cls"}} of RankCSE, base_pooling="cls" of RankEncoder, or '
            f"another of {', '.join(POOLINGS)}"
        )
    if reading.caution:
        _LOG.warning("teacher %s: %s", name, reading.caution)
    return reading.pooling


def _template_tokens(encoder: Encoder) -> int:
    """Tokens of the template beside those that any sentence has: PromptBERT cuts the sentence, then wraps it."""
    if encoder.template is None:
        return 0
    empty = encoder.template.replace("{sentence}", "").replace("[MASK]", encoder.tokenizer.mask_token)
    return len(encoder.tokenizer(empty)["input_ids"]) - encoder.tokenizer.num_special_tokens_to_add()
