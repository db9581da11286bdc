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
    device."""
    if precision not in ("auto", "fp32", *HALF):
        raise EncoderError(f"precision is {precision!r}; choose 'auto', 'fp32', 'bf16' or 'fp16'")
    if device == "auto":
        device = (
            "cuda"
            if torch.cuda.is_available()
            else "mps"
            if torch.backends.mps.is_available()
            else "cpu"
        )
    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError):  # of torch without cuda, of cuda without a card
        raise EncoderError(
            f"device {device!r} is not available here; choose 'auto' or 'cpu'"
        ) from None
    place, is_fast = torch.device(device), False
    if precision != "auto":
        return place, precision
    if place.type == "cuda":
        is_fast = torch.cuda.is_bf16_supported(including_emulation=False)
    elif place.type == "cpu":
        is_fast = any(
            torch.cpu.get_capabilities().get(name, False) for name in ("amx_bf16", "avx512_bf16")
        )
    return place, "bf16" if is_fast else "fp32"
