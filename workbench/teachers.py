"""Frozen encoders by name: a finished run, a folder, a bundled name or a hub id, each with its own pooling."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.cache import cached_embeddings
from workbench.encoder import POOLINGS, Encoder, EncoderError
from workbench.encoder.checkpoint import find_checkpoint

# PromptBERT's templates at test; SNCSE uses the same two.
_BERT_TEMPLATE = 'This sentence of "{sentence}" means [MASK].'
_ROBERTA_TEMPLATE = "This sentence : '{sentence}' means [MASK]."
_PROMPTED = re.compile(r"promptbert|promptroberta|sncse")
# Published checkpoints that are read at [CLS], without the layer that training put on it.
_CLS = re.compile(r"simcse|diffcse|rankcse|compositional|world-(encoder|teacher)$")


class TeacherError(ValueError):
    """A frozen encoder that is not there or does not say how to read it; the text says what to do."""


@dataclass(frozen=True)
class Teacher:
    """A frozen encoder that reads with its own tokenizer and pooling.

    name: as its user named it. prompted: it reads a template, and a sentence in it ends in a full stop.
    """

    name: str
    encoder: Encoder
    prompted: bool = False

    def embeddings(
        self, sentences: Sequence[str], *, folder: str | Path | None = None, batch_size: int = 64
    ) -> np.ndarray:
        """Unit rows [n, width of this teacher], float16 on disk, from the cache when they are there."""
        texts = [_ended(text) for text in sentences] if self.prompted else sentences
        try:
            return cached_embeddings(self.encoder, texts, folder=folder, batch_size=batch_size)
        except EncoderError as error:
            raise TeacherError(f"teacher {self.name!r}: {error}") from error


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
        TeacherError: It is missing, broken, an unfinished run, or says nothing of its pooling.
    """
    where = _run_encoder(name)
    try:
        checkpoint = find_checkpoint(where, revision)
        if pooling is None and checkpoint.pooling is None and not checkpoint.foreign:
            pooling = _known_pooling(name)
        mask = (pooling or checkpoint.pooling) == "mask"
        encoder = Encoder.from_pretrained(
            where,
            pooling=pooling,
            template=(template or checkpoint.template or _known_template(name)) if mask else None,
            revision=revision,
            precision=precision,
            device=device,
        )
    except EncoderError as error:
        raise TeacherError(f"teacher {name!r}: {error}") from error
    if max_tokens is not None:
        encoder.limit = min(encoder.limit, max_tokens + _template_tokens(encoder))
    return Teacher(name, encoder.requires_grad_(False), prompted=mask)


def _run_encoder(name: str) -> str:
    """The encoder's folder when `name` is the folder of a finished run; any other name as it is."""
    folder = Path(name).expanduser()
    try:
        is_run = "settings" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return name  # no run; what it is instead, and whether it is whole, find_checkpoint says
    if not is_run:
        return name
    if not (folder / "metrics.json").is_file():
        raise TeacherError(
            f"teacher {name!r} is a run that is not finished, so its encoder may still change: run it to its end, or "
            f"name {folder / 'encoder'} to take the best checkpoint so far"
        )
    return str(folder / "encoder")


def _known_pooling(name: str) -> str:
    known = Path(name).name.lower()
    if _PROMPTED.search(known):
        return "mask"
    if _CLS.search(known):
        return "cls"
    raise TeacherError(
        f"teacher {name!r} does not say how its tokens become one vector (no modules.json, and no name known here); "
        f'set its pooling: teacher_pooling={{"{name}": "cls"}}, or one of {", ".join(POOLINGS)}'
    )


def _known_template(name: str) -> str | None:
    known = Path(name).name.lower()
    if not _PROMPTED.search(known):
        return None  # the encoder refuses pooling "mask" without a template, and says how one looks
    return _ROBERTA_TEMPLATE if "roberta" in known else _BERT_TEMPLATE


def _template_tokens(encoder: Encoder) -> int:
    """Tokens of the template beside those that any sentence has: PromptBERT cuts the sentence, then wraps it."""
    if encoder.template is None:
        return 0
    empty = encoder.template.replace("{sentence}", "").replace("[MASK]", encoder.tokenizer.mask_token)
    return len(encoder.tokenizer(empty)["input_ids"]) - encoder.tokenizer.num_special_tokens_to_add()


def _ended(text: str) -> str:
    """The sentence with a full stop when it ends in no punctuation: PromptBERT's template expects one."""
    return text if text.rstrip().endswith((".", "?", "!", '"', "'")) else f"{text.rstrip()}."
