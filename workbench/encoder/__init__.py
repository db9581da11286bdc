"""Sentence encoders: backbone, tokenizer and reading; read and written as AutoModel and SentenceTransformer do.

Names (they stand in __init__.pyi) are loaded when first touched: looking for a checkpoint never loads torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
