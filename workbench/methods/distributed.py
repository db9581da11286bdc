"""Training in several processes: rank, count, and gathering rows with their gradient."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, distributed


def process_count() -> int:
    """Return the number of processes that train together; 1 outside torchrun."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def process_rank() -> int:
    """Return the number of this process, from 0."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def max_over_processes(number: int, device: torch.device) -> int:
    """Return the largest `number` of all processes, on every process."""
    if process_count() == 1:
        return number
    largest = torch.tensor(number, device=device)
    distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
    return int(largest)


def gather_rows(rows: Float[Tensor, "n *d"]) -> Float[Tensor, "all *d"]:
    """Return the rows of all processes, on every process, with gradient.

    They are in the order of the ranks.

    Every process passes the same number of rows and computes the same loss of the whole batch. The
    backward pass sums the gradients of all processes' losses and DistributedDataParallel averages
    those of the parameters, so the factors cancel and each parameter gets the gradient of one
    process with the whole batch.
    """
    # One process pays nothing: no copy, and no node in the graph.
    return rows if process_count() == 1 else _GatherRows.apply(rows)


class _GatherRows(torch.autograd.Function):
    """all_gather whose backward pass sums over the processes.

    torch deprecates its own, and the successor is private.
    """

    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        context.rows = len(rows)
        rows = rows.contiguous()
        gathered = [torch.empty_like(rows) for _ in range(process_count())]
        distributed.all_gather(gathered, rows)
        return torch.cat(gathered)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        context: Any, gradient: Tensor
    ) -> Tensor:
        # all_reduce writes into its argument, and autograd may still need this gradient.
        summed = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(summed)
        start = process_rank() * context.rows
        return summed[start : start + context.rows]
