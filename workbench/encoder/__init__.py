"""Sentence encoders: backbone, tokenizer and pooling; read and written as AutoModel and SentenceTransformer do.

Names are loaded when first touched, so that looking for a checkpoint never loads torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from workbench.encoder._checkpoint import BUNDLED, checkpoint_checksum, find_checkpoint
from workbench.errors import EncoderError

if TYPE_CHECKING:
    from workbench.encoder._tokens import TokenRows
    from workbench.encoder.cross import CrossEncoder
    from workbench.encoder.dropout import fast_dropout
    from workbench.encoder.model import Encoder
    from workbench.encoder.pooling import POOLINGS, Pooling

__all__ = [
    "BUNDLED",
    "POOLINGS",
    "CrossEncoder",
    "Encoder",
    "EncoderError",
    "Pooling",
    "TokenRows",
    "checkpoint_checksum",
    "fast_dropout",
    "find_checkpoint",
]

_PLACES = {
    "CrossEncoder": "cross",
    "fast_dropout": "dropout",
    "Encoder": "model",
    "POOLINGS": "pooling",
    "Pooling": "pooling",
    "TokenRows": "_tokens",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'workbench.encoder' has no attribute {name!r}")
    return getattr(importlib.import_module(f"workbench.encoder.{_PLACES[name]}"), name)
