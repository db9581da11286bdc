"""Runs on disk: the folder of one run, and the list of all.

The names are listed in __init__.pyi and loaded when first used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
