"""One training step: forward, loss, backward, clipping, update; a GPU can replay it as a graph."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from workbench.encoder import PACKABLE, pinned, to_device
from workbench.errors import RunError
from workbench.methods.base import Batch, Method, Terms
from workbench.methods.distributed import process_count
from workbench.printing import LOG
from workbench.training._plan import Plan
from workbench.training._state import State

# Kernels choose their workspaces in the first steps, which must not happen in a recording.
_EAGER_STEPS = 2
MOST_SIGNATURES = 8
# Of a history, beside the loss terms. `dev_values` has the last three.
_COLUMNS = "step epoch learning_rate loss seconds dev_spearman dev_alignment dev_uniformity"


class Outcome(NamedTuple):
    """Results of a step, on the device: loss terms, and observations for the history."""

    terms: Terms
    observed: dict[str, Tensor]


Compute = Callable[[], Outcome]


class Recorder:
    """Makes replays of steps; on a device without graphs the replay is the computation itself."""

    def __call__(self, compute: Compute) -> Compute:
        """Return the replay of a computation, which reads and writes the same memory each time.

        Nothing is computed before the replay is called.
        """
        return compute

    def stream(self) -> AbstractContextManager:
        """Return the context in which every step runs, replayed or not."""
        return nullcontext()


class GraphRecorder(Recorder):
    """Records kernels as a CUDA graph, which launches all of them with one call."""

    def __init__(self, device: torch.device) -> None:
        self._stream: Any = torch.cuda.Stream(device)
        # Graphs are replayed one after another, so that they may share their memory.
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Compute) -> Compute:
        graph = torch.cuda.CUDAGraph()
        # Other threads, such as that of pinned memory, may use the device during the recording.
        with torch.cuda.graph(
            graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
        ):
            outcome = compute()

        def replay() -> Outcome:
            graph.replay()
            return outcome

        return replay

    @contextmanager
    def stream(self) -> Iterator[None]:
        # A recording needs a stream of its own; the device still works in the order of the calls.
        outer = torch.cuda.current_stream()
        self._stream.wait_stream(outer)
        with torch.cuda.stream(self._stream):
            yield
        outer.wait_stream(self._stream)


@dataclass
class TrainingStep:
    """Takes the steps of a training.

    With a recorder, every batch is copied into buffers of its signature: names, shapes and dtypes
    of its tensors. The first steps of a signature run as they are, the next one is recorded, and
    all others replay it: one launch in place of one for each kernel. A signature beyond
    `MOST_SIGNATURES` is never recorded.
    """

    method: Method  # makes the batches
    model: nn.Module  # returns their loss terms: the method, or what shares it among processes
    plan: Plan  # rows, learning rate and seed of each step
    state: State  # optimizer, and scaler of losses
    recorder: Recorder | None = None  # None: every step runs as it is

    def __post_init__(self) -> None:
        self._taken = Counter()  # signature -> steps
        self._replays = {}  # signature -> the batch that a recorded step reads, and its replay
        self._has_warned = False

    def __call__(self, step: int) -> Terms:
        """Take a step and return its loss terms. Nothing here waits for the device."""
        torch.manual_seed(self.plan.seed(step))  # of crops, masked words and dropout masks
        batch = self.method.collate(self.plan.rows(step))
        if self.recorder is None:
            self._set_rate(step)
            return self._compute(to_device(batch, self.method.encoder.device))
        with self.recorder.stream():
            self._set_rate(step)
            return self._compute_static(batch, self.recorder)

    def _compute_static(self, batch: Batch, recorder: Recorder) -> Terms:
        """Compute as `_compute` does, by the replay of the batch's signature if there is one."""
        signature = signature_of(batch)
        self._taken[signature] += 1
        if signature in self._replays:
            buffers, replay = self._replays[signature]
            _copy_into(buffers, batch)
        else:
            buffers = to_device(batch, self.method.encoder.device)
            if not self._is_to_record(signature):
                return self._compute(buffers)
            replay = recorder(lambda: self._compute_apart(buffers))
            self._replays[signature] = buffers, replay
        outcome = replay()
        # The next replay writes into the same memory.
        for name, value in outcome.observed.items():
            self.method.observe(**{name: value.clone()})
        return {name: value.clone() for name, value in outcome.terms.items()}

    def _is_to_record(self, signature: Any) -> bool:
        if self._taken[signature] <= _EAGER_STEPS:
            return False
        if len(self._replays) < MOST_SIGNATURES:
            return True
        if not self._has_warned:
            self._has_warned = True
            LOG.warning(
                "batches have more than %d shapes: those of a further shape are not replayed",
                MOST_SIGNATURES,
            )
        return False

    def _set_rate(self, step: int) -> None:
        rate = self.plan.rate(step)
        for group in self.state.optimizer.param_groups:
            # A recorded update reads the rate from the device.
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _compute(self, batch: Batch) -> Terms:
        """Compute the loss terms of a batch on the device, and update the weights."""
        optimizer = self.state.optimizer
        scaler = self.state.scaler  # of losses in fp16; in other precisions it does nothing
        with self.method.encoder.autocast():
            terms = self.model(batch)
        _require_terms(terms)
        loss = torch.stack(list(terms.values())).sum()
        scaler.scale(loss).backward()
        # Gradients are clipped at their own size, not at that of the scaled loss.
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(self.method.parameters(), self.method.config.max_grad_norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return terms

    def _compute_apart(self, batch: Batch) -> Outcome:
        """Compute as `_compute` does; return observations instead of keeping them."""
        with self.method.observed_apart() as observed:
            terms = self._compute(batch)
        return Outcome(
            {name: value.detach() for name, value in terms.items()},
            {name: values[0] for name, values in observed.items()},
        )


def _require_terms(terms: Any) -> None:
    """Raise RunError unless these are loss terms that a history can have."""
    if not isinstance(terms, dict) or any(term.ndim for term in terms.values()):
        raise RunError("forward returns the weighted loss terms of a batch: {name: scalar tensor}")
    if taken := terms.keys() & _COLUMNS.split():
        raise RunError(f"rename the loss term {min(taken)!r}: a history has such a column")


def choose_recorder(method: Method) -> tuple[Recorder | None, str]:
    """Return the recorder of a training, None without one, and how its steps run, in words."""
    config = method.config
    encoder = method.encoder
    if not config.cuda_graphs:
        return None, "launched one by one"
    hindrances = {
        "fp16 was not tried": encoder.training_precision == "fp16",
        "there are several processes": process_count() > 1,  # perhaps of torchrun
        "batches are read in chunks": config.mini_batch_size or config.mini_batch_tokens,
        # Others copy from the CPU, or wait for the device, in their forward pass.
        "only BERT and RoBERTa are recorded": encoder.backbone.config.model_type not in PACKABLE,
    }
    for hindrance, holds in hindrances.items():
        if holds:
            LOG.warning("cuda_graphs has no effect: %s", hindrance)
            return None, f"launched one by one, as {hindrance}"
    if encoder.device.type != "cuda":
        return Recorder(), f"computed from buffers, as {encoder.device.type} has no graphs"
    return GraphRecorder(encoder.device), "replayed as CUDA graphs"


def _copy_into(buffers: Any, batch: Any) -> None:
    """Copy the tensors of a batch into those of another one of its signature."""
    if isinstance(buffers, Tensor):
        buffers.copy_(pinned(batch, buffers.device), non_blocking=not buffers.is_mps)
    elif isinstance(buffers, dict):
        _copy_into([*buffers.values()], [*batch.values()])
    elif isinstance(buffers, list):  # which `to_device` also makes of a tuple
        for buffer, part in zip(buffers, batch, strict=True):
            _copy_into(buffer, part)


def signature_of(batch: Any) -> Any:
    """Return names, shapes and dtypes of the tensors of a batch, and everything else as it is.

    A recorded step is right for every batch of the same signature.
    """
    if isinstance(batch, Tensor):
        return tuple(batch.shape), batch.dtype
    if isinstance(batch, dict):
        return signature_of([*batch.items()])
    if isinstance(batch, (list, tuple)):
        return tuple(signature_of(part) for part in batch)
    return batch
