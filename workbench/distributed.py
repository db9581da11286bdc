"""Several processes as one: rows gathered with their gradient."""

import os
import sys
from typing import NoReturn

import torch
import torch.distributed
from jaxtyping import Float
from torch import Tensor


def process_count() -> int:
    """Processes that train together; 1 outside torchrun."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def process_rank() -> int:
    """This process's number, from 0."""
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def gather_rows(rows: Float[Tensor, "n d"]) -> Float[Tensor, "all d"]:
    """The rows of all processes, in the order of their ranks, on every process, with gradient.

    Every process then computes the same loss of the whole batch. The backward pass sums the gradients of all
    processes' losses and DistributedDataParallel averages the parameters' gradients, so that the two factors cancel
    and each parameter gets the gradient that one process would have computed on the whole batch.
    Every process must bring the same number of rows.
    """
    if process_count() == 1:
        return rows
    import torch.distributed.nn.functional as differentiable

    return torch.cat(list(differentiable.all_gather(rows.contiguous())))


def end_process() -> NoReturn:
    """Ends one of several processes with success, at once: in an orderly exit gloo's threads abort it now and then.

    About one exit in thirty, all work done, is else counted as a failure ("terminate called without an active ...").
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
