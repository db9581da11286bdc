"""The device of an encoder, and the precision in which it is trained."""

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from workbench.errors import EncoderError, first_problem

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
        torch.ones(1, device=device)
    # Torch without cuda, or without kernels for this card; no card, or a full one.
    except (AssertionError, RuntimeError) as error:
        raise EncoderError(
            f"device {device!r} cannot be used ({first_problem(error)}); choose 'cpu', or free it"
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
    return kind == "cpu" and any(map(capabilities.get, ("amx_bf16", "avx512_bf16")))


def to_device(batch: Any, device: torch.device) -> Any:
    """Return a batch with its tensors on the device; other parts stay as they are.

    They are copied from pinned memory, while the device goes on computing. MPS alone waits: it
    would read memory that may be released by then (pytorch issue 189690).
    """
    if isinstance(batch, Tensor):
        return pinned(batch, device).to(device, non_blocking=device.type != "mps")
    if isinstance(batch, Mapping):
        return {name: to_device(part, device) for name, part in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [to_device(part, device) for part in batch]
    return batch


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the CPU in memory from which a GPU copies without a wait."""
    return tensor.pin_memory() if device.type == "cuda" else tensor
