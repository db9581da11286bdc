"""The plan of a training: a function of the settings, the step and the process alone."""

import functools
import math
from dataclasses import dataclass

import numpy as np

from workbench.config import TrainingConfig
from workbench.errors import RunError


@dataclass(frozen=True)
class Plan:
    """Rows, learning rate and seed of each step, from the settings and the step's number.

    Steps are counted from 0. Nothing is drawn from a state that a resumed training would lack.
    """

    config: TrainingConfig
    examples: int  # of the prepared training set
    world: int = 1  # number of processes
    rank: int = 0  # this process

    def __post_init__(self) -> None:
        if self.config.batch_size % self.world:
            raise RunError(
                f"batch_size {self.config.batch_size} is not a multiple of the {self.world} "
                "processes that run; start torchrun with a number that divides it"
            )
        if self.world > 1 and self.examples < self.config.batch_size:
            raise RunError(
                f"{self.examples} examples do not fill one batch of "
                f"{self.config.batch_size} for several processes; "
                "lower batch_size or set num_processes=1"
            )

    @property
    def epoch_steps(self) -> int:
        """Batches per epoch."""
        size = self.config.batch_size
        if self.world > 1:  # they gather equal shares, so a last batch that is not full is left out
            return self.examples // size
        return math.ceil(self.examples / size)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.config.max_steps or math.ceil(self.config.epochs * self.epoch_steps)

    def rows(self, step: int) -> list[int]:
        """Return this process's share of the step's examples."""
        epoch, place = divmod(step, self.epoch_steps)
        size = self.config.batch_size
        first = place * size
        order = _epoch_order(self.config.seed, epoch, self.examples)
        batch = order[first : first + size]
        # The first process has the first rows: together they see the batch of one process.
        return batch.reshape(self.world, -1)[self.rank].tolist()

    def rate(self, step: int) -> float:
        """Return the learning rate: linearly up from 0 in the warm-up, then linearly down to 0."""
        peak = self.config.learning_rate
        steps = self.steps
        warmup = math.ceil(self.config.warmup * steps)
        if step < warmup:
            return peak * step / warmup
        return peak * max(0.0, (steps - step) / max(1, steps - warmup))

    def seed(self, step: int) -> int:
        """Return the seed of what a step draws in this process: crops, masked words, dropout."""
        # Hashed: seeds next to each other would give similar streams of numbers.
        sequence = np.random.SeedSequence([self.config.seed, step, self.rank])
        return int(sequence.generate_state(1, np.uint64)[0])

    def is_due(self, step: int, every: int) -> bool:
        """Return whether something done every so many steps, and at the end, is due now."""
        return step % every == 0 or step >= self.steps


@functools.lru_cache(maxsize=1)
def _epoch_order(seed: int, epoch: int, examples: int) -> np.ndarray:
    return np.random.default_rng([seed, epoch]).permutation(examples)
