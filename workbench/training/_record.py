"""The history of a training and its best encoder."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from workbench.config import CONFIGS
from workbench.data import Pairs
from workbench.errors import EncoderError, RunError
from workbench.evaluation import dev_values
from workbench.files import reraise_os_error, write_text
from workbench.methods.base import Method, Terms
from workbench.methods.distributed import process_rank
from workbench.printing import LOG
from workbench.runs import read_stored_table, short_value
from workbench.training._listeners import Listener, Row

# Queries of dev whose rankings are kept, and their targets, which a chart has room for.
_WATCHED, _MOST_TARGETS = 4, 20
# Evaluations of dev in a row that end training: one or two can be a dip that a run recovers from.
_FAR_BELOW = 3


@dataclass
class Record:
    """History and best encoder of a training, in `folder`.

    Of several processes only the first measures and writes.
    """

    method: Method
    dev: Pairs | None
    folder: Path
    rows: list[Row]
    listeners: Sequence[Listener]

    def __post_init__(self) -> None:
        self._watched = []
        self._scores = []
        self._sums: Terms = {}
        self._steps = 0
        self._started = time.perf_counter()
        self._first = 0 if self.method.config.keep_start else 1  # the first step that may be kept
        watched = self.folder / "watched.csv"
        # A training that goes on without the file, which a message proposes to delete if it cannot
        # be read, does not begin it in the middle.
        if self.dev is not None and (not self.rows or watched.is_file()):
            fitting = [each for each in self.dev.groups() if len(each.pairs) <= _MOST_TARGETS]
            ordered = [each for each in fitting if np.ptp(each.gold)]  # not all of one gold
            self._watched = ordered[:_WATCHED]
        if self.rows:
            last = self.rows[-1]
            self._started -= last["seconds"]
            if watched.is_file():
                # What was measured after the last state is measured again.
                earlier = read_stored_table(watched)
                self._scores.append(earlier[earlier["step"] <= last["step"]])
        encoder = self.folder / "encoder"
        if self._measured(self._first) and not encoder.is_dir():
            raise RunError(
                f"{encoder} is missing, the best encoder so far; put it back, or delete "
                f"{self.folder / 'checkpoint'} to train again from the start of this run"
            )

    def _measured(self, first: int) -> list[float]:
        """Return every dev Spearman so far, from the step `first` on; -inf if it is undefined.

        It is if all scores are equal.
        """
        measured = [
            row["dev_spearman"]
            for row in self.rows
            if row["step"] >= first and "dev_spearman" in row
        ]
        return [-inf if isnan(value) else value for value in measured]

    def reason_to_stop(self) -> str:
        """Return why training ends before its last step, "" if it goes on."""
        # The history alone decides, so that a resumed training ends at the same step.
        config = self.method.config
        may_be_kept = self._measured(self._first)
        if config.patience and may_be_kept:
            best = may_be_kept.index(max(may_be_kept))
            waited = len(may_be_kept) - 1 - best
            if waited >= config.patience:
                return f"dev has not risen in {waited} evaluations"
        limit = config.stop_below_start
        measured = self._measured(0)
        if limit is None or len(measured) <= _FAR_BELOW:
            return ""
        start = measured[0]
        falls = [100 * (start - value) for value in measured[-_FAR_BELOW:]]
        if min(falls) > limit:
            return f"dev is {falls[-1]:.1f} points below its start of {100 * start:.1f}"
        return ""

    def add(self, terms: Terms) -> None:
        """Add the loss terms of one step."""
        # They stay on their device: reading them would wait for it at every step.
        for name, value in terms.items():
            self._sums[name] = self._sums.get(name, 0) + value.detach()
        self._steps += 1

    def losses(self, step: int) -> dict[str, float]:
        """Return the means of loss, terms and observations since the last call.

        Raises RunError if the loss is not finite.
        """
        terms = {name: float(value) / self._steps for name, value in self._sums.items()}
        loss = sum(terms.values())
        if not isfinite(loss):
            rate = self.method.config.learning_rate
            raise RunError(
                f"the loss is not finite at step {step} ({terms}); lower learning_rate={rate:g}"
            )
        self._sums = {}
        self._steps = 0
        observed = self.method.observations().items()
        return {"loss": loss, **terms, **{f"observed_{name}": value for name, value in observed}}

    def evaluate(self, step: int) -> dict[str, float]:
        """Return the values of dev; save the encoder if its Spearman is the greatest so far."""
        if self.dev is None or process_rank() != 0:
            return {}
        try:
            with self.method.encoder.encode_as_in_training():
                values, scores = dev_values(self.method, self.dev)
        except EncoderError as problem:
            if step == 0:  # the encoder came so
                raise
            rate = self.method.config.learning_rate
            raise RunError(
                f"training diverged: dev cannot be scored at step {step}, as vectors or scores are "
                f"not finite; lower learning_rate={rate:g}"
            ) from problem
        self._watch(step, scores)
        spearman = values["dev_spearman"]
        earlier = self._measured(0)
        best = max(self._measured(self._first), default=-inf)
        if isnan(spearman) and -inf not in earlier:  # once
            LOG.warning(
                "step %d: all scores on %s are equal, so dev cannot choose a checkpoint",
                step,
                self.dev.name,
            )
        # Of equal steps the first is kept. One without a Spearman is kept until another has one: a
        # finished training always has an encoder.
        if step >= self._first and (best == -inf or spearman > best):
            start = earlier[0] if earlier else spearman
            comparison = " It is worse than its start:" if spearman < start else ""
            self.save_encoder(
                f"{comparison} Spearman x 100 on {self.dev.name} is {100 * spearman:.2f}, before "
                f"training {100 * start:.2f}."
            )
        return values

    def _watch(self, step: int, scores: np.ndarray) -> None:
        """Keep the scores of the watched queries in watched.csv."""
        for group in self._watched:
            columns = {
                "step": step,
                "query": group.query,
                "target": group.targets,
                "gold": group.gold,
                "score": scores[group.pairs],
            }
            self._scores.append(DataFrame(columns))
        if self._scores:
            # One table: thousands of small ones take seconds to join.
            self._scores = [pd.concat(self._scores)]
            self._write_table("watched.csv", self._scores[0])

    def write(self, row: Row) -> None:
        """Add a finished row and pass it to the listeners."""
        row["seconds"] = round(time.perf_counter() - self._started, 3)
        self.rows.append(row)
        if "dev_spearman" in row:  # seldom enough, and what a view of a running training shows
            self.flush()
        if process_rank() == 0:
            for listener in self.listeners:
                listener(dict(row))

    def flush(self) -> None:
        """Write history.csv."""
        if process_rank() == 0:
            self._write_table("history.csv", DataFrame(self.rows))

    def _write_table(self, name: str, table: DataFrame) -> None:
        # Written whole and renamed into place, so that a kill never leaves half a line.
        path = self.folder / name
        with reraise_os_error(path):
            write_text(path, table.to_csv(index=False))

    def save_encoder(self, note: str = "") -> None:
        """Save the encoder as it is now, with a card that ends in the note."""
        config: Any = self.method.config
        method = type(self.method).__name__
        # RankEncoder may start from E1, its `base`.
        start = config.base if getattr(config, "start", "") == "base" else config.encoder
        card = {
            "title": f"{method} on {short_value(config.train)}, seed {config.seed}",
            "description": (
                f"{method} from {short_value(start)}, settings {config.digest()}.{note}"
            ),
            "base_model": None if start in CONFIGS else start,
            "datasets": [config.train],
            "tags": [config.method],
        }
        self.method.save(self.folder / "encoder", card=card)
