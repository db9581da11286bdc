"""The device of an encoder and the precision of its matrix products."""

import os

import torch

from workbench.errors import EncoderError

# cuBLAS reads this at its first product, which may come long before training asks for a fixed order of sums.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str) -> torch.device:
    """Return the named device; "auto" is cuda, mps or cpu, the first that is available."""
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")


def choose_precision(precision: str, device: torch.device) -> str:
    """Return `precision`; "auto" is "bf16" if the hardware multiplies it without emulation, otherwise "fp32"."""
    if precision not in ("auto", "fp32", *HALF):
        raise EncoderError(f"precision is {precision!r}; choose 'auto', 'fp32', 'bf16' or 'fp16'")
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    fast = [torch.cpu.get_capabilities().get(name, False) for name in ("amx_bf16", "avx512_bf16")]
    return "bf16" if device.type == "cpu" and any(fast) else "fp32"
