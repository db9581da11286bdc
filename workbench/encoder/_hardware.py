"""The device an encoder works on and the precision it multiplies in there."""

import os
from typing import Literal, cast, get_args

import torch

# cuBLAS reads this once, at its first product, which may come long before training asks for a fixed order of sums.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

from workbench.errors import EncoderError

Precision = Literal["auto", "fp32", "bf16", "fp16"]
HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(device: str) -> torch.device:
    """The device for "auto" (cuda, mps, cpu in this order) or the one named; EncoderError when it is not there."""
    if device == "auto":
        kind = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device(kind)
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise EncoderError(
            f"device {device!r} cannot be used here ({error}); give 'auto', 'cpu', 'cuda' or 'mps'"
        ) from error
    return chosen


def choose_precision(precision: str, device: torch.device) -> Literal["fp32", "bf16", "fp16"]:
    """What "auto" means on a device: bf16 only where the hardware multiplies it, since emulated it is far slower."""
    if precision not in get_args(Precision):
        raise EncoderError(f"precision is {precision!r}; it is 'auto', 'fp32', 'bf16' or 'fp16'")
    if precision == "fp16" and device.type == "cpu":
        raise EncoderError("precision is 'fp16', which is for GPUs, and the device is the CPU; give 'bf16' or 'fp32'")
    if precision != "auto":
        return cast(Literal["fp32", "bf16", "fp16"], precision)
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    fast = device.type == "cpu" and any(torch.cpu.get_capabilities().get(k, False) for k in ("amx_bf16", "avx512_bf16"))
    return "bf16" if fast else "fp32"
