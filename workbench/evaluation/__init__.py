"""Evaluation: embeddings to correlations, accuracies, per-pair scores and rankings.

The names are listed in __init__.pyi and loaded when first used: ranking tables need no torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
