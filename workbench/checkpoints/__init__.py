"""Find a checkpoint by name, without torch.

Only safetensors are read, and no code of a checkpoint is executed.
data/checkpoints.toml has the pooling of published checkpoints by name, which the hub does not.

The names are listed in __init__.pyi and loaded when first used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
