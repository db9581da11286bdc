"""One of several training processes: `torchrun -m workbench.training RUN`, as `fit` starts them."""

import logging
import os
import sys
from datetime import timedelta

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from workbench.config import TrainingConfig
from workbench.data import load_dev, load_training
from workbench.methods import METHODS
from workbench.runs import Run, lock_run
from workbench.training import fit
from workbench.training._launch import send_row


@record  # torchrun then ends with the traceback of the process that failed
def train_run(path: str) -> None:
    """Train the run in the folder `path`, as one of the processes that torchrun started."""
    run = Run(path)
    config = run.config
    assert isinstance(config, TrainingConfig)
    on_gpu = torch.cuda.is_available() and config.device != "cpu"
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # The first process measures dev alone, which may take longer than NCCL's ten minutes.
    backend = "nccl" if on_gpu else "gloo"
    torch.distributed.init_process_group(backend, timeout=timedelta(days=1))
    # The process that started these has released the run: if it dies, these continue, and no other
    # may join them. The name keeps the lock until the end.
    _lock = lock_run(run.path) if torch.distributed.get_rank() == 0 else None
    fit(
        METHODS[config.method](config),
        load_training(config),
        load_dev(config),
        run=run,
        callbacks=[send_row],
    )
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    train_run(sys.argv[1])
