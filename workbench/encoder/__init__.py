"""Sentence encoders: backbone, tokenizer and pooling; read and written as AutoModel and SentenceTransformer do."""

from workbench.encoder.checkpoint import BUNDLED, EncoderError
from workbench.encoder.cross import CrossEncoder
from workbench.encoder.dropout import fast_dropout
from workbench.encoder.model import Encoder
from workbench.encoder.pooling import POOLINGS, Pooling

__all__ = ["BUNDLED", "POOLINGS", "CrossEncoder", "Encoder", "EncoderError", "Pooling", "fast_dropout"]
