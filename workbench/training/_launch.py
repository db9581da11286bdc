"""Train a run in several processes, which torchrun starts."""

import json
import subprocess
import sys
from collections import deque
from collections.abc import Sequence

import torch

from workbench.config import TrainingConfig
from workbench.data import Pairs
from workbench.errors import RunError
from workbench.runs import Run
from workbench.training._listeners import Listener, Row

# Precedes a row of the history as JSON; the ASCII record separator, as in RFC 7464.
_ROW_MARK = "\x1e"


def fit_in_processes(
    config: TrainingConfig,
    dev: Pairs | None,
    run: Run | None,
    callbacks: Sequence[Listener],
    *,
    quiet: bool,
) -> None:
    """Train `run` in as many new processes of this machine as its setting says.

    They load the data themselves. Raises RunError without a run or a dev set, and with the last
    lines of output if a process fails.
    """
    if run is None or dev is None:
        raise RunError(
            "several processes load their data themselves: pass run and dev, or set num_processes=1"
        )
    if run.facts().get("trained"):  # by processes that the user started with torchrun
        return
    gpus = torch.accelerator.device_count()
    if config.device != "cpu" and 0 < gpus < config.num_processes:
        raise RunError(
            f"num_processes={config.num_processes}, but this machine has {gpus} GPU(s); set "
            f"num_processes={gpus}, or device=cpu"
        )
    # Enough for a traceback, which is the reason of most failures, and torchrun's words on it.
    last_lines = deque(maxlen=60)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr=127.0.0.1",  # the name of a machine need not resolve
        f"--nproc-per-node={config.num_processes}",
        "-m",
        "workbench.training",
        str(run.path),
    ]
    run.release()  # to the first of the processes
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,  # see `checkout_commit`
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as launched:
        try:
            for output in launched.stdout or ():
                # Another process may have begun the line, for example with a warning.
                line, mark, row = output.partition(_ROW_MARK)
                if mark:
                    for callback in callbacks:
                        callback(json.loads(row))
                if line:
                    last_lines.append(line.removesuffix("\n"))
                    if not quiet:
                        print(last_lines[-1], flush=True)
        except BaseException:
            launched.terminate()
            raise
    if launched.returncode:
        output = "\n".join(last_lines)
        raise RunError(f"training ended with exit code {launched.returncode}:\n{output}")
    run.acquire()


def send_row(row: Row) -> None:
    """Send a row of the history to the process that called `fit_in_processes`."""
    # One write, also where python is unbuffered: another process may write between two.
    print(f"{_ROW_MARK}{json.dumps(row)}\n", end="", flush=True)
