"""Train, compare and inspect sentence encoders that preserve similarity rankings.

The public names are listed in __init__.pyi and loaded when first used, so that reading finished
runs never loads torch."""

import os
import sys

import lazy_loader

# Read once, when torch is loaded.
if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    # A waiting OpenMP thread spins for about 0.2 ms and then sleeps; longer would take the core
    # from others.
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
