"""Compare systems: encoders, runs, and scores from elsewhere in one table with tests.

A system is whatever scores pairs or ranks targets. None of this needs torch, except to score with
an encoder.

The names are listed in __init__.pyi and loaded when first used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
