"""What is settled before an encoder works: sentences, device, precision, pooling; refused in clear words."""

import logging
import os
from typing import Literal, cast, get_args

import torch

# cuBLAS reads this once, at its first product, which may come long before training asks for a fixed order of sums.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

from workbench.encoder._checkpoint import Checkpoint
from workbench.encoder.pooling import POOLINGS, Pooling
from workbench.errors import EncoderError
from workbench.published import reading_of

logger = logging.getLogger(__name__)

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


def choose_pooling(checkpoint: Checkpoint, asked: str | None) -> Pooling:
    """The pooling asked for, else the one that the checkpoint names, else "cls"; a difference of the two is logged."""
    if asked not in (None, *POOLINGS):
        raise EncoderError(f"pooling is {asked!r}; it is one of {', '.join(POOLINGS)}")
    if asked is not None:
        if checkpoint.pooling not in (None, asked) or checkpoint.foreign:
            stored = ", ".join([checkpoint.pooling or "", *checkpoint.foreign]).strip(", ")
            logger.warning(
                "%s was saved with %s; pooling %r was asked for and is used", checkpoint.source, stored, asked
            )
        return cast(Pooling, asked)
    if checkpoint.foreign:
        raise EncoderError(
            f"{checkpoint.source} was saved with {', '.join(checkpoint.foreign)}, which an Encoder does not have (a "
            f"cross-encoder scores pairs alone); give pooling= one of {', '.join(POOLINGS)} to use its backbone alone"
        )
    if checkpoint.pooling not in (None, *POOLINGS):
        raise EncoderError(
            f"{checkpoint.source} names the pooling {checkpoint.pooling!r}; known are {', '.join(POOLINGS)}"
        )
    if checkpoint.pooling is None:
        _require_cls(checkpoint)
    return cast(Pooling, checkpoint.pooling or "cls")


def _require_cls(checkpoint: Checkpoint) -> None:
    """Refuses to read at [CLS], for want of a pooling, what is published with another."""
    reading = reading_of(checkpoint.name)
    if reading is not None and reading.pooling != "cls":
        raise EncoderError(
            f"{checkpoint.name} is published with pooling {reading.pooling!r} and the template {reading.template!r}: "
            "load_teacher or load_base read it so; or give pooling= and template= yourself"
        )
