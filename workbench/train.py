"""Training: one loop around a method. What a step computes is a function of the seed and the step's number.

So a training state is the weights, AdamW's moments and that number, in one file, and a killed run goes on bit for bit.
"""

import contextlib
import functools
import logging
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from workbench.config import TrainingConfig
from workbench.data import Pairs, Sentences, load_dev, load_training
from workbench.encoder._hardware import HALF
from workbench.errors import DataError, EncoderError, RunError
from workbench.files import lock_run
from workbench.methods import METHODS
from workbench.methods.protocol import Method, weights_checksum
from workbench.processes import (
    end_process,
    first_says,
    process_count,
    process_rank,
    run_processes,
    tell_row,
    wait_for_all,
)
from workbench.record import Listener, Record, Row, State, listening, require_tracker
from workbench.runs import Run

_LOG = logging.getLogger("workbench")


def fit(
    method: Method,
    data: Any,
    dev: Pairs | None = None,
    *,
    run: Run | None = None,
    callbacks: Sequence[Listener] = (),
    quiet: bool = False,
) -> pd.DataFrame:
    """Trains `method` on `data` and leaves its best dev checkpoint in it. Returns the history, a row a logged step.

    `dev`: scored pairs whose Spearman chooses the checkpoint (strictly greater wins; the start itself is measured at
    step 0 but not chosen); None: the last step is kept. `run`: where history, training state and the encoder are kept;
    an unfinished run goes on from its state, a finished one is not trained again. None: nothing is kept.
    `callbacks`: each is called with every finished row of the history (a dict). `quiet`: no bar, no line of progress.
    Raises RunError when the loss is not finite or a state cannot be read, DataError on a `dev` that cannot choose,
    ValueError on data that the method cannot train on.
    """
    sets = {"train": data} if dev is None else {"train": data, "dev": dev}
    _note(run, {role: (found.source, found.checksum) for role, found in sets.items()})
    _note(run, {"encoder": (method.encoder.source, method.starting_weights)})
    if run is not None and run.finished:
        _LOG.info("%s is finished: its encoder is used as it is", run.path)
        method.restore(run.path / "encoder")
        return run.history()
    _require_trainable(method, data, dev)
    require_tracker(method.config)
    train = _fit_in_processes if method.config.processes > 1 and process_count() == 1 else _fit_here
    return train(method, data, dev, run, callbacks=callbacks, quiet=quiet)


def _fit_here(
    method: Method, data: Any, dev: Pairs | None, run: Run | None, *, callbacks: Sequence[Listener], quiet: bool
) -> pd.DataFrame:
    """Trains in this process, which may be one of several."""
    if method.encoder.device.type == "cuda":
        # The order of sums is otherwise free there, and the same seed would give other numbers; where an operation has
        # no fixed order, torch warns. TF32 is left to torch's default, which is off for matrix products.
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(method.config.seed)  # of weights that `prepare` draws
    method.prepare(data)
    method.to(method.encoder.device)  # with the layers that training adds
    method.observations()  # what an interrupted training of this method left is no part of this one
    _note(run, method.inputs())
    plan = Plan(method.config, method.examples(data), process_count(), process_rank())
    plan.require_batches()
    with tempfile.TemporaryDirectory() as scratch:
        folder = run.path if run is not None else Path(scratch)
        state = State(folder / "checkpoint" / "state.safetensors", method)
        step, rows = state.load()
        if run is not None and step == 0 and weights_checksum(method.encoder) != method.starting_weights:
            raise RunError("this method has been trained already: build it again, so that the run starts at its start")
        if run is not None and plan.rank == 0:
            facts = {"device": _device_name(method), "precision": method.encoder.precision}
            run.record(**facts, threads=torch.get_num_threads(), trained=False)
        tracked = None if run is None else run.path
        with listening(method.config, (step, plan.steps), tracked, callbacks, quiet=quiet) as listeners:
            record = Record(method, dev, folder, rows, listeners)
            _train(method, plan, record, state, step, keep_state=run is not None)
        wait_for_all()  # the first process may still be writing
        if dev is not None:
            method.restore(folder / "encoder")
        elif run is not None and plan.rank == 0:
            record.keep_encoder({})
        if run is not None and plan.rank == 0:
            run.record(trained=True)
        method.eval()
        return record.table()


def _train(method: Method, plan: "Plan", record: Record, state: State, step: int, *, keep_state: bool) -> None:
    """Takes the steps after `step`, to the end of the plan or of patience."""
    config, device, optimizer, scaler = method.config, method.encoder.device, state.optimizer, state.scaler
    model = nn.parallel.DistributedDataParallel(method) if plan.world > 1 else method
    method.train()
    if step == 0 and record.dev is not None:
        record.write({"step": 0} | record.evaluate(0))
    ended = step >= plan.steps or record.out_of_patience()
    while not ended:
        # Step. Nothing here waits for the device.
        torch.manual_seed(plan.seed(step))
        for group in optimizer.param_groups:
            group["lr"] = plan.rate(step)
        with _autocast(method):
            terms = model(_moved(method.collate(plan.rows(step)), device))
        scaler.scale(torch.stack(list(terms.values())).sum()).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(method.parameters(), config.max_grad_norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        record.add(terms)
        step += 1

        # Log.
        evaluates, saves = plan.due(step, config.eval_steps), keep_state and plan.due(step, config.save_steps)
        if not (evaluates or saves or plan.due(step, config.log_steps)):
            continue
        row: Row = {"step": step, "epoch": round(step / plan.epoch_steps, 6), "learning_rate": plan.rate(step)}
        row |= record.losses(step)

        # Evaluate.
        if evaluates:
            row |= record.evaluate(step)
        record.write(row)
        ended = step >= plan.steps or (evaluates and first_says(record.out_of_patience(), device))

        # Save.
        if plan.rank == 0 and keep_state and (saves or ended):
            record.flush()
            state.save(step, record.rows)
    if plan.rank == 0:
        record.flush()


@dataclass(frozen=True)
class Plan:
    """What each step does, from the settings, the step's number (from 0) and the process alone.

    examples: of the prepared training set. world: processes. rank: this process.
    """

    config: TrainingConfig
    examples: int
    world: int = 1
    rank: int = 0

    @property
    def epoch_steps(self) -> int:
        """Batches of an epoch. One that is not full is left out by several processes, which gather equal shares."""
        size = self.config.batch_size
        return self.examples // size if self.world > 1 else -(-self.examples // size)

    @property
    def steps(self) -> int:
        """Steps in all."""
        return self.config.max_steps or math.ceil(self.config.epochs * self.epoch_steps)

    def rows(self, step: int) -> list[int]:
        """This process's share of the step's examples."""
        epoch, place = divmod(step, self.epoch_steps)
        size = self.config.batch_size
        batch = _order(self.config.seed, epoch, self.examples)[place * size : (place + 1) * size]
        return batch.reshape(self.world, -1)[self.rank].tolist()

    def rate(self, step: int) -> float:
        """The learning rate: linearly up from 0 in the warm-up, then linearly down to 0."""
        peak, warmup = self.config.learning_rate, math.ceil(self.config.warmup * self.steps)
        if step < warmup:
            return peak * step / warmup
        return peak * max(0.0, (self.steps - step) / max(1, self.steps - warmup))

    def seed(self, step: int) -> int:
        """Of the step's dropout masks, which each process draws for itself."""
        return int(np.random.SeedSequence([self.config.seed, step, self.rank]).generate_state(1, np.uint64)[0])

    def due(self, step: int, every: int) -> bool:
        """Whether what is done every so many steps, and at the end, is done after `step` steps."""
        return step % every == 0 or step >= self.steps

    def require_batches(self) -> None:
        """Raises RunError where several processes cannot share the batches."""
        size = self.config.batch_size
        if size % self.world:
            raise RunError(
                f"batch_size {size} cannot be shared equally by the {self.world} processes that were started; give a "
                "multiple, or start as many processes as the setting says"
            )
        if self.world > 1 and self.examples < size:
            raise RunError(
                f"{self.examples} examples do not fill one batch of {size}, and several processes take whole batches "
                "only; lower batch_size or set processes=1"
            )


@functools.lru_cache(maxsize=1)
def _order(seed: int, epoch: int, examples: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(examples)


def _autocast(method: Method) -> contextlib.AbstractContextManager:
    dtype = HALF.get(method.encoder.precision)
    return torch.autocast(method.encoder.device.type, dtype=dtype) if dtype else contextlib.nullcontext()


def _moved(batch: Any, device: torch.device) -> Any:
    """A batch on the device, copied from pinned memory while the device goes on computing."""
    if isinstance(batch, Tensor):
        if device.type == "cpu":
            return batch
        return (batch.pin_memory() if device.type == "cuda" else batch).to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {name: _moved(part, device) for name, part in batch.items()}
    return [_moved(part, device) for part in batch] if isinstance(batch, (list, tuple)) else batch


def _require_trainable(method: Method, data: Any, dev: Pairs | None) -> None:
    """Raises where training could only fail or choose by chance."""
    if dev is not None and (len(dev.gold) < 2 or len(np.unique(dev.gold)) < 2):
        what = f"{len(dev.gold)} pair(s)" if len(dev.gold) < 2 else f"{len(dev.gold)} pairs of one and the same gold"
        raise DataError(
            f"{dev.name} holds {what}, so that no checkpoint is better than another; give a dev set whose gold has an "
            "order, or dev=None to keep the last step"
        )
    if isinstance(data, Sentences) and not any(sentence.strip() for sentence in data.sentences):
        raise DataError(f"{data.name} holds {len(data)} blank lines and no sentence; give a file with sentences")
    if not any(bool(parameter.any()) for parameter in method.encoder.parameters()):
        raise EncoderError(
            f"every weight of {method.encoder.source} is 0, so that nothing can be learned; save it again"
        )


def _note(run: Run | None, inputs: dict[str, tuple[str, str]]) -> None:
    """Holds what is read (role -> source and checksum) against what the run began with; one process speaks for all."""
    if run is not None and process_rank() == 0:
        for role, (source, checksum) in inputs.items():
            run.record_input(role, source, checksum)


def _device_name(method: Method) -> str:
    device = method.encoder.device
    return f"cuda: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else device.type


def _fit_in_processes(
    method: Method, data: Any, dev: Pairs | None, run: Run | None, *, callbacks: Sequence[Listener], quiet: bool
) -> pd.DataFrame:
    """Trains in `config.processes` fresh processes."""
    config = method.config
    named = (load_training(config).checksum, load_dev(config).checksum)
    if run is None or dev is None or (data.checksum, dev.checksum) != named:
        raise RunError(
            "several processes load their data themselves: give a run, and the training and dev sets that the settings "
            f"name ({config.train!r}, {config.dev!r}), or set processes=1"
        )

    def tell(row: Row) -> None:
        for callback in callbacks:
            callback(row)

    run_processes("workbench.train", str(run.path), config.processes, on_row=tell, quiet=quiet)
    method.restore(run.path / "encoder")
    return run.history()


def main(path: str) -> None:
    """Trains the run in the directory `path`, as one of the processes that torchrun started."""
    try:
        run = Run(path)
    except RunError as error:
        raise SystemExit(str(error)) from None
    os.environ.pop("JPY_SESSION_NAME", None)  # lines of progress, which the notebook's process passes on, and no bar
    config = run.config
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
