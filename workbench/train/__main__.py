"""One of several training processes: `torchrun -m workbench.train RUN`, as `fit` starts them."""

import logging
import os
import sys

import torch

from workbench.config import TrainingConfig
from workbench.data import load_dev, load_training
from workbench.errors import RunError
from workbench.files import lock_run
from workbench.methods import METHODS
from workbench.processes import end_process, process_rank, tell_row
from workbench.runs import Run
from workbench.train import fit


def main(path: str) -> None:
    """Trains the run in the directory `path`, as one of the processes that torchrun started."""
    try:
        run = Run(path)
    except RunError as error:
        raise SystemExit(str(error)) from None
    os.environ.pop("JPY_SESSION_NAME", None)  # lines of progress, which the notebook's process passes on, and no bar
    config = run.config
    if not isinstance(config, TrainingConfig):
        raise SystemExit(f"{run.path} is of an encoder that is evaluated as it is; nothing is trained in it")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 < config.processes:
        raise SystemExit(f"{run.path} has processes={config.processes} and 1 was started; start it by torchrun")
    on_gpu = torch.cuda.is_available() and config.device != "cpu"
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    # The process that started these holds the run; should it die, these go on, and nobody else may join them.
    lock = lock_run(run.path, ".processes.lock") if process_rank() == 0 else None
    method = METHODS[config.method](config)
    fit(method, load_training(config), load_dev(config), run=run, callbacks=[tell_row])
    if lock is not None:
        lock.release()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(sys.argv[1])
    end_process()
