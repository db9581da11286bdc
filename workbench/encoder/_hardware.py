"""The device of an encoder, and the precision in which it is trained."""

import os

import torch

from workbench.errors import EncoderError

# cuBLAS reads this at its first product, which may come long before training asks for a fixed order
# of sums.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_hardware(device: str, precision: str) -> tuple[torch.device, str]:
    """Return the device and the precision of training steps.

    Device "auto" is the first of cuda, mps and cpu that is available. Precision "auto" is "bf16" if
    that device multiplies it fast, otherwise "fp32"; `encode` then computes in "fp32" on every
    device.
    """
    if precision not in ("auto", "fp32", *HALF):
        raise EncoderError(f"precision is {precision!r}; choose 'auto', 'fp32', 'bf16' or 'fp16'")
    if device == "auto":
        device = "mps" if torch.backends.mps.is_available() else "cpu"
        device = "cuda" if torch.cuda.is_available() else device
    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError):  # of torch without cuda, of cuda without a card
        raise EncoderError(
            f"device {device!r} is not available here; choose 'auto' or 'cpu'"
        ) from None
    place = torch.device(device)
    if precision == "auto":
        precision = "bf16" if _is_bf16_fast(place.type) else "fp32"
    return place, precision


def _is_bf16_fast(kind: str) -> bool:
    """Return whether products of bf16 run on units of their own, not emulated."""
    if kind == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    names = ("amx_bf16", "avx512_bf16")
    return kind == "cpu" and any(capabilities.get(name, False) for name in names)
