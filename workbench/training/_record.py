"""The history of a training and its best encoder."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from workbench.data import Pairs
from workbench.errors import RunError
from workbench.evaluation import dev_values
from workbench.files import atomic_write, reraise_os_error
from workbench.methods.base import Method
from workbench.methods.distributed import process_rank
from workbench.metrics import ranking_groups
from workbench.runs import read_stored_table, short_value
from workbench.training._listeners import Listener, Row

_LOG = logging.getLogger("workbench")
# Queries of dev whose rankings are kept, and their targets, which a chart has room for.
_WATCHED, _MOST_TARGETS = 4, 20
# Evaluations of dev in a row that end training: one or two can be a dip that a run recovers from.
_FAR_BELOW = 3


@dataclass
class Record:
    """History and best encoder of a training, in `folder`; only the first of several processes
    measures and writes."""

    method: Method
    dev: Pairs | None
    folder: Path
    rows: list[Row]
    listeners: Sequence[Listener]

    def __post_init__(self) -> None:
        dev, folder, rows = self.dev, self.folder, self.rows
        groups = (
            [] if dev is None else ranking_groups(dev.sentence1, dev.sentence2, dev.gold).values()
        )
        shown = [
            group for group in groups if len(group.pairs) <= _MOST_TARGETS and np.ptp(group.gold)
        ]
        watched = folder / "watched.csv"
        self._watched = shown[:_WATCHED]
        self._scores = []
        # A continued training keeps what was measured before its last state.
        if rows and watched.is_file():
            earlier: Any = read_stored_table(watched)
            self._scores.append(earlier[earlier["step"] <= rows[-1]["step"]])
        elif rows:  # the file was deleted, which a message proposes for one that cannot be read
            self._watched = []
        self._sums: dict[str, Tensor] = {}
        self._steps = 0
        self._started = time.perf_counter() - (rows[-1]["seconds"] if rows else 0.0)
        self._first = 0 if self.method.config.keep_start else 1  # the first step that may be kept
        if self._measured(self._first) and not (folder / "encoder").is_dir():
            raise RunError(
                f"{folder / 'encoder'} is missing, the best encoder so far; put it back, or delete "
                f"{folder / 'checkpoint'} to train again from the start of this run"
            )

    def _measured(self, first: int) -> list[float]:
        """Return every dev Spearman so far, from the step `first` on; -inf if scores were all
        equal."""
        values = [
            row["dev_spearman"]
            for row in self.rows
            if row["step"] >= first and "dev_spearman" in row
        ]
        return [-inf if isnan(value) else value for value in values]

    def reason_to_stop(self) -> str:
        """Return why training ends before its last step, "" if it goes on; the history alone
        decides it."""
        config = self.method.config
        measured = self._measured(self._first)
        if config.patience and measured:
            waited = len(measured) - 1 - measured.index(max(measured))
            if waited >= config.patience:
                return f"dev has not risen in {waited} evaluations"
        start, *later = self._measured(0) or [-inf]
        falls = [100 * (start - value) for value in later[-_FAR_BELOW:]]
        limit = config.stop_below_start
        if limit is not None and len(falls) == _FAR_BELOW and min(falls) > limit:
            return f"dev is {falls[-1]:.1f} points below its start of {100 * start:.1f}"
        return ""

    def add(self, terms: dict[str, Tensor]) -> None:
        """Add the loss terms of one step, on their device: reading them every step would wait for
        it."""
        for name, value in terms.items():
            self._sums[name] = self._sums.get(name, 0) + value.detach()
        self._steps += 1

    def losses(self, step: int) -> dict[str, float]:
        """Return the mean loss, terms and observations since the last call; RunError if one is not
        finite."""
        terms = {name: float(value) / self._steps for name, value in self._sums.items()}
        if not all(map(isfinite, terms.values())):
            rate = self.method.config.learning_rate
            raise RunError(
                f"the loss is not finite at step {step} ({terms}); lower learning_rate={rate:g}"
            )
        self._sums = {}
        self._steps = 0
        observed = {f"observed_{name}": value for name, value in self.method.observations().items()}
        return {"loss": sum(terms.values())} | terms | observed

    def evaluate(self, step: int) -> dict[str, float]:
        """Return the values of dev; save the encoder if the step may be kept and its Spearman is
        the greatest."""
        if self.dev is None or process_rank() != 0:
            return {}
        with self.method.encoder.encode_as_in_training():
            values, scores = dev_values(self.method, self.dev)
        self._watch(step, scores)
        spearman = values["dev_spearman"]
        best = max(self._measured(self._first), default=-inf)
        if isnan(spearman) and -inf not in self._measured(0):  # once
            _LOG.warning(
                "step %d: all scores on %s are equal, so dev cannot choose a checkpoint",
                step,
                self.dev.name,
            )
        if step >= self._first and (best == -inf or spearman > best):
            start = (self._measured(0) or [spearman])[0]
            comparison = " It is worse than its start:" if spearman < start else ""
            self.save_encoder(
                f"{comparison} Spearman x 100 on {self.dev.name} is "
                f"{100 * spearman:.2f}, before training "
                f"{100 * start:.2f}."
            )
        return values

    def _watch(self, step: int, scores: np.ndarray) -> None:
        """Keep the scores of the watched queries in watched.csv, written whole like history.csv."""
        for group in self._watched:
            facts = {
                "step": step,
                "query": group.query,
                "target": group.targets,
                "gold": group.gold,
            }
            self._scores.append(pd.DataFrame(facts | {"score": scores[group.pairs]}))
        if self._scores:
            self._write_table("watched.csv", pd.concat(self._scores))

    def write(self, row: Row) -> None:
        """Add a finished row and pass it to the listeners."""
        self.rows.append(row | {"seconds": round(time.perf_counter() - self._started, 3)})
        if "dev_spearman" in row:
            self.flush()
        for listener in self.listeners if process_rank() == 0 else ():
            listener(dict(self.rows[-1]))

    def flush(self) -> None:
        """Write history.csv."""
        if process_rank() == 0:
            self._write_table("history.csv", pd.DataFrame(self.rows))

    def _write_table(self, name: str, table: pd.DataFrame) -> None:
        # Whole and renamed into place, so that a kill never leaves half a line.
        path = self.folder / name
        with reraise_os_error(path), atomic_write(path) as file:
            table.to_csv(file, index=False)

    def save_encoder(self, note: str = "") -> None:
        """Save the encoder as it is now, with a card that ends in the note."""
        config, method = self.method.config, type(self.method).__name__
        card = {
            "title": f"{method} on {short_value(config.train)}, seed {config.seed}",
            "description": f"{method} from {short_value(config.encoder)}, settings "
            f"{config.digest()}.{note}",
            "base_model": config.encoder,
            "datasets": [config.train],
            "tags": [config.method],
        }
        self.method.save(self.folder / "encoder", card=card)
