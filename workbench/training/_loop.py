"""The loop: step, log, evaluate, save."""

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pandas import DataFrame
from torch import nn

from workbench.data import Pairs
from workbench.encoder import weights_checksum
from workbench.errors import DataError, RunError, first_problem
from workbench.methods import METHODS
from workbench.methods.base import Method, require_kind
from workbench.methods.distributed import max_over_processes, process_count, process_rank
from workbench.printing import LOG, steady_stdout
from workbench.runs import Run, run_path
from workbench.training._launch import fit_in_processes
from workbench.training._listeners import Listener, Progress, open_tracker
from workbench.training._memory import HeapTrimmer
from workbench.training._plan import Plan
from workbench.training._record import Record
from workbench.training._state import State
from workbench.training._step import Recorder, TrainingStep, choose_recorder

_MIN_STEPS = 30  # fewer cause a warning


@steady_stdout()  # a closed pipe or a full disk ends the lines of progress alone
def fit(
    method: Method,
    data: Any,
    dev: Pairs | None = None,
    *,
    run: Run | None = None,
    callbacks: Sequence[Listener] = (),
    quiet: bool = False,
) -> DataFrame:
    """Train `method` on `data` and return the history, one row per logged step.

    Args:
        method: Its encoder is trained in place, and holds the chosen checkpoint at the end.
        data: Training set of the kind that the method reads.
        dev: Scored pairs that choose the checkpoint: the first with the highest Spearman after step
            0, or from step 0 with the setting `keep_start`. If None, the last step is kept.
        run: Receives history, training state and encoder. An unfinished run resumes from its state,
            a finished one is not trained again. If None, nothing is saved.
        callbacks: Called with every finished row of the history, a dict.

    Raises:
        DataError: `dev` cannot choose a checkpoint, or the method cannot train on `data`.
        RunError: The loss is not finite, a training state cannot be read, or the run has other
            settings or began with other inputs.

    Example:
        method = workbench.SimCSE(config)
        sentences = workbench.load_training(config)
        history = workbench.fit(method, sentences, workbench.load_dev(config))
    """
    require_kind(method.config, data)
    inputs = {
        "train": (data.source, data.checksum),
        "encoder": (method.encoder.source, method.starting_weights),
    }
    if dev is not None:
        if len(np.unique(dev.gold)) < 2:
            raise DataError(
                f"{dev.name}: {len(dev.gold)} pair(s) with one and the same gold cannot choose a "
                "checkpoint; use a dev set whose gold differs, in Python dev=None keeps the last "
                "step"
            )
        inputs["dev"] = dev.source, dev.checksum
    if run and run_path(run.config, ".") != run_path(method.config, "."):
        raise RunError(f"{run.path} has other settings than the method; Run.open(method.config)")
    if run and run.facts().get("digest") not in (None, method.config.digest()):
        raise RunError(f"{run.path}: a file of its settings was changed since the run was opened")
    _require_class(method, run)
    is_alone = method.config.num_processes == 1 or torch.distributed.is_initialized()
    # A training in this process records them once its method has taken the data.
    if run and process_rank() == 0 and (run.finished or not is_alone):
        run.record(inputs)
    if run and run.finished:
        LOG.info("%s is finished: its encoder is used as it is", run.path)
    elif not is_alone:
        torch.cuda.empty_cache()  # of what the suites took; the first process has the same GPU
        fit_in_processes(method.config, dev, run, callbacks, quiet=quiet)
    else:
        # Which training sets, for this process.
        mode = torch.get_deterministic_debug_mode()
        deterministic: Any = torch.utils.deterministic
        fills = deterministic.fill_uninitialized_memory
        # It would be hundreds of kernels a step on a GPU, and no result depends on it.
        deterministic.fill_uninitialized_memory = False
        try:
            return _fit_here(method, data, dev, run, callbacks, inputs=inputs, quiet=quiet)
        finally:
            torch.set_deterministic_debug_mode(mode)
            deterministic.fill_uninitialized_memory = fills
    assert run
    method.restore(run.path / "encoder")
    return run.history()


def _require_class(method: Method, run: Run | None) -> None:
    """Raise RunError if another class than the method's began the run, or would be trained.

    A run is named by its settings: those of your own class may be the library's.
    """
    kind = type(method)
    usual = METHODS.get(method.config.method, kind)
    if kind is not usual and method.config.num_processes > 1:
        raise RunError(f"several processes would build {usual}, not {kind}; set num_processes=1")
    if run:
        facts = run.facts()
        has_begun = "train" in facts.get("inputs", {})
        before = facts.get("class", str(usual if has_begun else kind))
        if before != str(kind):
            raise RunError(f"{run.path} is of {before}, not of {kind}; give another runs folder")
        if kind is not usual and process_rank() == 0:
            run.record(**{"class": before})


def _fit_here(
    method: Method,
    data: Any,
    dev: Pairs | None,
    run: Run | None,
    callbacks: Sequence[Listener],
    *,
    inputs: Any,
    quiet: bool,
) -> DataFrame:
    """Train in this process, which may be one of several."""
    config = method.config
    device = method.encoder.device
    if device.type == "cuda":  # it orders most sums, docs/gpu.md lists the others
        torch.set_deterministic_debug_mode("warn")
    torch.manual_seed(config.seed)  # of weights that `prepare` draws
    method.prepare(data)
    method.to(device)  # with the layers that training adds
    method.observations()  # drops what an interrupted training of this method left
    plan = Plan(config, method.examples(data), process_count(), process_rank())
    prints = plan.rank == 0 and not quiet
    saved_run = run if plan.rank == 0 else None
    if saved_run:
        saved_run.record(inputs | method.inputs())
    with tempfile.TemporaryDirectory() as scratch:
        folder = run.path if run else Path(scratch)
        recorder, steps_run = choose_recorder(method)
        method.has_static_shapes = recorder is not None
        state = State(folder / "checkpoint" / "state.safetensors", method, recorded=bool(recorder))
        step, rows = state.load()
        if run and step == 0 and weights_checksum(method.encoder) != method.starting_weights:
            raise RunError(
                "this method has been trained already: build it again, so that the run starts at "
                "its start"
            )
        if saved_run:
            _record_hardware(saved_run, method, step, steps_run)
        if step == 0 and prints and config.recipe:
            print(config.recipe, flush=True)
        times = math.ceil(plan.steps / config.eval_steps) if dev is not None else 0
        if step == 0 and plan.rank == 0 and (plan.steps < _MIN_STEPS or times == 1):
            LOG.warning(
                "%d steps with %d evaluation(s) on dev are too few to learn from; raise epochs or "
                "max_steps, or lower batch_size or eval_steps",
                plan.steps,
                times,
            )
        with open_tracker(config, saved_run) as trackers:
            progress = [Progress(step, plan.steps)] if prints else []
            record = Record(method, dev, folder, rows, [*progress, *trackers, *callbacks])
            _train(method, plan, record, state, recorder, step, saves_state=bool(saved_run))
        if plan.world > 1:
            torch.distributed.barrier()  # the first process may still be writing
        if dev is not None:
            method.restore(folder / "encoder")
        elif saved_run:
            record.save_encoder()
        last = record.rows[-1]["step"]
        stopped = ""
        if last < plan.steps:
            stopped = f"step {last} of {plan.steps}: {record.reason_to_stop()}"
            if prints:
                print(f"stopped at {stopped}", flush=True)
        if saved_run:
            saved_run.record_training(stopped)
        method.eval()
        history = DataFrame(record.rows)
        history.attrs["keep_start"] = config.keep_start
        return history


def _record_hardware(run: Run, method: Method, step: int, steps_run: str) -> None:
    """Record what a training runs on; keep, with a warning, what it has run on before."""
    device = method.encoder.device
    is_cuda = device.type == "cuda"
    hardware = {
        "device": f"cuda: {torch.cuda.get_device_name(device)}" if is_cuda else device.type,
        "precision": method.encoder.training_precision,
        "threads": torch.get_num_threads(),
        "processes": process_count(),
        "steps_run": steps_run,
    }
    facts = run.facts()
    # Before the first step there are none.
    before = {name: facts[name] for name in hardware if name in facts}
    if step and hardware | before != hardware:
        LOG.warning(
            "%s goes on at step %d with %s, before with %s: not bit for bit the same training",
            run.path,
            step,
            hardware,
            before,
        )
        earlier = facts.get("earlier_hardware", [])
        run.record(earlier_hardware=[*earlier, before | {"last_step": step}])
    run.record(**hardware, trained=False)


def _train(  # noqa: PLR0917 - the parts of one training
    method: Method,
    plan: Plan,
    record: Record,
    state: State,
    recorder: Recorder | None,
    step: int,
    *,
    saves_state: bool,
) -> None:
    """Take the steps after `step`, until the end of the plan or a reason to stop."""
    config = method.config
    # Its forward pass averages the gradients of the processes; weights and names stay those of
    # the method.
    model = method
    if plan.world > 1:
        model = nn.parallel.DistributedDataParallel(
            method,
            # These have weights that no text reaches.
            find_unused_parameters=method.encoder.backbone.config.model_type
            in ("longformer", "squeezebert"),
        )
    method.train()
    if step == 0 and record.dev is not None:
        record.write({"step": 0} | record.evaluate(0))
    take_step = TrainingStep(method, model, plan, state, recorder)
    heap = HeapTrimmer()
    ended = step >= plan.steps or bool(record.reason_to_stop())
    while not ended:
        try:
            losses = take_step(step)
        except torch.OutOfMemoryError as error:
            raise RunError(
                f"step {step + 1} needs more memory than {method.encoder.device} has "
                f"({first_problem(error)}); set mini_batch_size, or a smaller one: the same loss "
                "in less memory"
            ) from None
        record.add(losses)
        step += 1
        heap.after_step()

        evaluates = plan.is_due(step, config.eval_steps)
        saves = saves_state and plan.is_due(step, config.save_steps)
        if not (evaluates or saves or plan.is_due(step, config.logging_steps)):
            continue
        row = {
            "step": step,
            "epoch": round(step / plan.epoch_steps, 6),
            "learning_rate": plan.rate(step),
        }
        row |= record.losses(step)

        # The encoder of this step, then the history, then the state that has the history: a kill
        # between two of them repeats steps, and a state never claims what is not on disk.
        ended = step >= plan.steps
        if evaluates:
            row |= record.evaluate(step)
        record.write(row)
        if evaluates:
            # Dev was measured by the first process alone, and all must end at the same step.
            stops = int(bool(record.reason_to_stop()))
            ended |= bool(max_over_processes(stops, method.encoder.device))
        if saves_state and (saves or ended):
            record.flush()
            state.save(step, record.rows)
    record.flush()
