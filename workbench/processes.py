"""Several processes as one: who they are, rows gathered with their gradient, and how they are started and ended."""

import collections
import ctypes
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

import torch
import torch.distributed
from jaxtyping import Float
from torch import Tensor

from workbench.errors import RunError

_ROW = "\x1e"  # begins a line that is a row of the history as JSON; the ASCII record separator, as in RFC 7464


def process_count() -> int:
    """Processes that train together; 1 outside torchrun."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def process_rank() -> int:
    """This process's number, from 0."""
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def wait_for_all() -> None:
    """Returns when every process has come this far."""
    if process_count() > 1:
        torch.distributed.barrier()


def first_says(answer: bool, device: torch.device) -> bool:
    """The first process's `answer`, on every process."""
    if process_count() == 1:
        return answer
    told = torch.tensor(float(answer), device=device)
    torch.distributed.broadcast(told, src=0)
    return bool(told)


def gather_rows(rows: Float[Tensor, "n d"]) -> Float[Tensor, "all d"]:
    """The rows of all processes, in the order of their ranks, on every process, with gradient.

    Every process then computes the same loss of the whole batch. The backward pass sums the gradients of all
    processes' losses and DistributedDataParallel averages the parameters' gradients, so that the two factors cancel
    and each parameter gets the gradient that one process would have computed on the whole batch.
    Every process must bring the same number of rows.
    """
    return rows if process_count() == 1 else _GatherRows.apply(rows)


class _GatherRows(torch.autograd.Function):
    """all_gather whose backward sums over the processes: torch deprecates its own, and the successor is private."""

    @staticmethod
    def forward(context: Any, rows: Tensor) -> Tensor:
        context.rows, rows = len(rows), rows.contiguous()
        gathered = [torch.empty_like(rows) for _ in range(process_count())]
        torch.distributed.all_gather(gathered, rows)
        return torch.cat(gathered)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        summed = gradient.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(summed)
        start = process_rank() * context.rows
        return summed[start : start + context.rows]


def run_processes(
    module: str, argument: str, processes: int, *, on_row: Callable[[dict[str, Any]], None], quiet: bool
) -> None:
    """Runs `python -m module argument` in fresh processes: a notebook that has touched CUDA cannot fork.

    In a Slurm job of several nodes they are spread evenly over these. What they print is printed unless `quiet`; rows
    that `tell_row` sends are given to `on_row`. Raises RunError with their last lines when they end in a failure, and
    where the nodes cannot share them.
    """
    launcher = _launcher(processes)
    last_lines: collections.deque[str] = collections.deque(maxlen=30)
    with subprocess.Popen(
        [*launcher, "-m", module, argument],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as started:
        try:
            for whole in started.stdout or ():
                # Another process may have begun the line: a bar, or a warning, without an end.
                line, begun, row = whole.partition(_ROW)
                if begun:
                    on_row(json.loads(row))
                if not line:
                    continue
                line = line.removesuffix("\n") + "\n"
                last_lines.append(line)
                if not quiet:
                    print(line, end="", flush=True)
        except BaseException:
            started.terminate()
            raise
    if started.returncode:
        what = f"training in {processes} processes ended with exit code {started.returncode}"
        raise RunError(f"{what}:\n{''.join(last_lines)}")


def _launcher(processes: int) -> list[str]:
    """torchrun on this machine, or on every node of the Slurm job that this process is part of."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
    if nodes == 1:
        return [*torchrun, "--standalone", f"--nproc-per-node={processes}"]
    if processes % nodes:
        raise RunError(
            f"processes={processes} cannot be shared equally by the {nodes} nodes of this Slurm job; give a multiple "
            "of nodes, or a job of other nodes (--nodes)"
        )
    with socket.socket() as probe:
        probe.bind(("", 0))
        meeting = f"{platform.node()}:{probe.getsockname()[1]}"
    # --overlap: this process may be a step of the job itself, and hold what the new step needs.
    spread = ["srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    shares = [f"--nnodes={nodes}", f"--nproc-per-node={processes // nodes}"]
    rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={meeting}", f"--rdzv-id={os.environ['SLURM_JOB_ID']}"]
    return [*spread, *torchrun, *shares, *rendezvous]


def tell_row(row: dict[str, Any]) -> None:
    """Sends a row of the history to the process that called `run_processes`."""
    print(f"{_ROW}{json.dumps(row)}", flush=True)


def end_process() -> NoReturn:
    """Ends one of several processes with success, at once: in an orderly exit gloo's threads abort it now and then.

    About one exit in thirty, all work done, is else counted as a failure ("terminate called without an active ...").
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def give_memory_back() -> None:
    """Hands what was freed back to the system: of batches of ever other lengths glibc keeps as much as is in use."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
