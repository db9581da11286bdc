"""Train a run in several processes, which torchrun starts."""

import collections
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from workbench.data import Pairs, load_dev, load_training
from workbench.errors import RunError
from workbench.methods.protocol import Method
from workbench.runs import Run
from workbench.train._listeners import Listener, Row

_ROW_MARK = "\x1e"  # precedes a row of the history as JSON; the ASCII record separator, as in RFC 7464


def fit_in_processes(
    method: Method, data: Any, dev: Pairs | None, run: Run | None, callbacks: Sequence[Listener], *, quiet: bool
) -> None:
    """Train `run` in as many fresh processes as its setting says, which load its data themselves.

    A notebook that has used CUDA cannot fork. In a Slurm job of several nodes the processes are spread over them.
    Raises RunError if the data are not those of the settings, or with the last lines of output if a process fails.
    """
    config = method.config
    named = (load_training(config).checksum, load_dev(config).checksum)
    if run is None or dev is None or (data.checksum, dev.checksum) != named:
        raise RunError(
            "several processes load their data themselves: pass a run, and the training and dev sets that the settings "
            f"name ({config.train!r}, {config.dev!r}), or set num_processes=1"
        )
    if run.facts().get("trained"):  # by processes that somebody started on machines of their own
        return
    last_lines: collections.deque[str] = collections.deque(maxlen=30)
    command = [*_torchrun(config.num_processes), "-m", "workbench.train", str(run.path)]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    run.release()  # to the first of the processes
    with subprocess.Popen(command, text=True, errors="replace", **streams) as launched:
        try:
            for output in launched.stdout or ():
                # Another process may have begun the line: a bar, or a warning without an end.
                line, mark, row = output.partition(_ROW_MARK)
                for callback in callbacks if mark else ():
                    callback(json.loads(row))
                if line:
                    last_lines.append(line.removesuffix("\n"))
                    print("" if quiet else f"{last_lines[-1]}\n", end="", flush=True)
        except BaseException:
            launched.terminate()
            raise
    if launched.returncode:
        problem = f"training in {config.num_processes} processes ended with exit code {launched.returncode}"
        raise RunError("\n".join([f"{problem}:", *last_lines]))
    run.acquire()


def send_row(row: Row) -> None:
    """Send a row of the history to the process that called `fit_in_processes`."""
    print(f"{_ROW_MARK}{json.dumps(row)}", flush=True)


def _torchrun(processes: int) -> list[str]:
    """Return torchrun's command for this machine, or for all nodes of the Slurm job of this process."""
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
    if nodes == 1:
        return [*torchrun, "--standalone", f"--nproc-per-node={processes}"]
    if processes % nodes:
        raise RunError(
            f"num_processes={processes} cannot be shared equally by the {nodes} nodes of this Slurm job; set "
            "a multiple of nodes, or request another number of nodes (--nodes)"
        )
    with socket.socket() as probe:
        probe.bind(("", 0))
        meeting = f"{platform.node()}:{probe.getsockname()[1]}"
    # --overlap: this process may be a step of the job itself, and hold what the new step needs.
    spread = ["srun", "--overlap", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    shares = [f"--nnodes={nodes}", f"--nproc-per-node={processes // nodes}"]
    rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={meeting}", f"--rdzv-id={os.environ['SLURM_JOB_ID']}"]
    return [*spread, *torchrun, *shares, *rendezvous]
