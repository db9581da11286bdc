"""The loop: step, log, evaluate, save."""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from workbench.data import Pairs, Sentences, load_dev, load_training
from workbench.encoder import weights_checksum
from workbench.errors import DataError, EncoderError, RunError
from workbench.files import checkpoint_checksum
from workbench.methods.protocol import Method
from workbench.processes import (
    first_says,
    give_memory_back,
    process_count,
    process_rank,
    run_processes,
    wait_for_all,
)
from workbench.runs import Run
from workbench.train._listeners import Listener, Row, listening, require_tracker
from workbench.train._plan import Plan
from workbench.train._record import Record
from workbench.train._state import State

_LOG = logging.getLogger("workbench")
_FEWEST_STEPS = 30


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
    with deterministic(method.encoder.device):
        history = train(method, data, dev, run, callbacks=callbacks, quiet=quiet)
    give_memory_back()  # a kernel that trains one method after the other grew by half a GB with each
    return history


@contextmanager
def deterministic(device: torch.device) -> Iterator[None]:
    """Use torch's deterministic algorithms on a GPU; restore the caller's choice afterwards."""
    before = torch.get_deterministic_debug_mode()
    if device.type == "cuda":
        # The order of sums is otherwise free there, and the same seed would give other numbers; where an operation has
        # no fixed order, torch warns. TF32 is left to torch's default, which is off for matrix products.
        torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


def _fit_here(
    method: Method, data: Any, dev: Pairs | None, run: Run | None, *, callbacks: Sequence[Listener], quiet: bool
) -> pd.DataFrame:
    """Trains in this process, which may be one of several."""
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
            run.record(**_hardware(method), trained=False)
        tracked = None if run is None else run.path
        if step == 0 and plan.rank == 0:
            _announce(plan, quiet=quiet or dev is None)
        with listening(method.config, (step, plan.steps), tracked, callbacks, quiet=quiet) as listeners:
            record = Record(method, dev, folder, rows, listeners)
            _train(method, plan, record, state, step, keep_state=run is not None)
        wait_for_all()  # the first process may still be writing
        if dev is not None:
            method.restore(folder / "encoder")
        elif run is not None and plan.rank == 0:
            record.keep_encoder({})
        if run is not None and plan.rank == 0:
            run.record(trained=True, files={"encoder": {"sha256": checkpoint_checksum(run.path)}})
        method.eval()
        return record.table()


def _train(method: Method, plan: Plan, record: Record, state: State, step: int, *, keep_state: bool) -> None:
    """Takes the steps after `step`, to the end of the plan or of patience."""
    config = method.config
    model = nn.parallel.DistributedDataParallel(method) if plan.world > 1 else method
    method.train()
    if step == 0 and record.dev is not None:
        record.write({"step": 0} | record.evaluate(0))
    ended = step >= plan.steps or record.out_of_patience()
    while not ended:
        # Step.
        record.add(_step(method, model, plan, state, step))
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
        ended = step >= plan.steps or (evaluates and first_says(record.out_of_patience(), method.encoder.device))

        # Save.
        if plan.rank == 0 and keep_state and (saves or ended):
            record.flush()
            state.save(step, record.rows)
    if plan.rank == 0:
        record.flush()


def _step(method: Method, model: nn.Module, plan: Plan, state: State, step: int) -> dict[str, Tensor]:
    """Takes one step and returns its loss terms. Nothing here waits for the device."""
    optimizer, scaler = state.optimizer, state.scaler
    torch.manual_seed(plan.seed(step))
    for group in optimizer.param_groups:
        group["lr"] = plan.rate(step)
    with method.encoder.autocast():
        terms = model(_moved(method.collate(plan.rows(step)), method.encoder.device))
    scaler.scale(torch.stack(list(terms.values())).sum()).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(method.parameters(), method.config.max_grad_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return terms


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


def _announce(plan: Plan, *, quiet: bool) -> None:
    """Print which rate was chosen, and warn of a training that is too short to learn or to choose a checkpoint."""
    config, times = plan.config, -(-plan.steps // plan.config.eval_steps)
    if config.recipe and not quiet:
        print(config.recipe, flush=True)
    if plan.steps < _FEWEST_STEPS or times < 2:
        _LOG.warning(
            "%d steps with %d evaluation(s) on dev are too few to learn from; raise epochs or max_steps, lower "
            "batch_size (%d) or eval_steps (%d), or add training data",
            plan.steps,
            times,
            config.batch_size,
            config.eval_steps,
        )


def _note(run: Run | None, inputs: dict[str, tuple[str, str]]) -> None:
    """Holds what is read (role -> source and checksum) against what the run began with; one process speaks for all."""
    if run is not None and process_rank() == 0:
        for role, (source, checksum) in inputs.items():
            run.record_input(role, source, checksum)


def _hardware(method: Method) -> dict[str, Any]:
    device = method.encoder.device
    name = f"cuda: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else device.type
    return {"device": name, "precision": method.encoder.precision, "threads": torch.get_num_threads()}


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

    if not run.facts().get("trained"):  # by processes that somebody started on machines of their own
        run_processes("workbench.train", str(run.path), config.processes, on_row=tell, quiet=quiet)
    method.restore(run.path / "encoder")
    return run.history()
