"""Losses as pure functions, one equation each.

Tensors in, a scalar out, differentiable, never below float32.

Ties, extremes and degenerate batches of one row or more have a defined value. Shapes that would
broadcast are ValueErrors. Values are not checked, because that would wait for the device: data sets
refuse gold that is not finite, encoders such vectors.

The names are listed in __init__.pyi and loaded when first used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
