"""Sentence encoders: backbone, tokenizer and reading; read and written as AutoModel and SentenceTransformer do.

Names that need torch are loaded when first touched: looking for a checkpoint never loads it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from workbench.encoder._checkpoint import BUNDLED, Checkpoint, find_checkpoint
from workbench.encoder._reading import POOLINGS, READINGS, Pooling, Reading, prompted, published_reading
from workbench.errors import EncoderError

if TYPE_CHECKING:
    from workbench.encoder._cross import CrossEncoder
    from workbench.encoder._dropout import fast_dropout
    from workbench.encoder._model import Encoder
    from workbench.encoder._saving import replacing
    from workbench.encoder._tokens import TokenRows

__all__ = [
    "BUNDLED",
    "POOLINGS",
    "READINGS",
    "Checkpoint",
    "CrossEncoder",
    "Encoder",
    "EncoderError",
    "Pooling",
    "Reading",
    "TokenRows",
    "fast_dropout",
    "find_checkpoint",
    "prompted",
    "published_reading",
    "replacing",
]

_PLACES = {
    "CrossEncoder": "_cross",
    "Encoder": "_model",
    "TokenRows": "_tokens",
    "fast_dropout": "_dropout",
    "replacing": "_saving",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'workbench.encoder' has no attribute {name!r}")
    return getattr(importlib.import_module(f"workbench.encoder.{_PLACES[name]}"), name)
