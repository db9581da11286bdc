"""The history of a training and its best encoder."""

import logging
import math
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from torch import Tensor

from workbench.data import Pairs
from workbench.distributed import process_rank
from workbench.errors import RunError
from workbench.evaluation import dev_values
from workbench.files import atomic_write, reraise_os_error
from workbench.methods.protocol import Method
from workbench.train._listeners import Listener, Row

_LOG = logging.getLogger("workbench")
_SECONDS_BETWEEN_WRITES = 1.0  # of history.csv


class Record:
    """History and best encoder of a training, in `folder`; of several processes the first measures and writes.

    rows: One per logged step, with the values known of it. listeners: Called with each finished row.
    """

    def __init__(
        self, method: Method, dev: Pairs | None, folder: Path, rows: list[Row], listeners: Sequence[Listener]
    ) -> None:
        self.method, self.dev, self.folder, self.rows, self.listeners = method, dev, folder, rows, listeners
        self._sums: dict[str, Tensor] = {}
        self._steps = 0
        self._started = time.perf_counter() - (rows[-1]["seconds"] if rows else 0.0)
        self._written = -math.inf
        if self._measured and not (folder / "encoder").is_dir():
            raise RunError(
                f"{folder / 'encoder'} is missing, the best encoder of this run so far; put it back, or delete "
                f"{folder / 'checkpoint'} to train again from the start of this run"
            )

    @property
    def _measured(self) -> list[float]:
        """Every dev Spearman so far except that of step 0, which is not chosen."""
        return [row["dev_spearman"] for row in self.rows if row["step"] > 0 and "dev_spearman" in row]

    def is_out_of_patience(self) -> bool:
        """Return whether dev has not risen for as many evaluations as the setting `patience` allows."""
        patience, measured = self.method.config.patience, self._measured
        finite = [value for value in measured if math.isfinite(value)]
        best = measured.index(max(finite)) + 1 if finite else 0  # counted in evaluations
        return patience is not None and len(measured) - best >= patience

    def add(self, terms: dict[str, Tensor]) -> None:
        """Add the loss terms of one step, on their device: reading them every step would wait for it."""
        for name, value in terms.items():
            self._sums[name] = self._sums[name] + value.detach() if name in self._sums else value.detach()
        self._steps += 1

    def losses(self, step: int) -> dict[str, float]:
        """Return the mean loss, terms and observations since the last call; RunError if one is not finite."""
        terms = {name: float(value) / self._steps for name, value in self._sums.items()}
        if not all(map(math.isfinite, terms.values())):
            raise RunError(
                f"the loss is not finite at step {step} ({terms}); lower learning_rate (now "
                f"{self.method.config.learning_rate}), raise the temperature, or look for broken data"
            )
        self._sums, self._steps = {}, 0
        observed = {f"observed_{name}": value for name, value in self.method.observations().items()}
        return {"loss": sum(terms.values())} | (terms if len(terms) > 1 or "loss" not in terms else {}) | observed

    def evaluate(self, step: int) -> dict[str, float]:
        """Return the values of dev, and save the encoder if its Spearman is greater than all after step 0."""
        if self.dev is None or process_rank() != 0:
            return {}
        values = dev_values(self.method, self.dev)
        spearman, before = values["dev_spearman"], [value for value in self._measured if math.isfinite(value)]
        if math.isnan(spearman) and not any(math.isnan(row.get("dev_spearman", 0.0)) for row in self.rows):
            _LOG.warning(
                "step %d: all scores on %s are equal, so dev cannot choose a checkpoint; lower learning_rate (now %g)",
                *(step, self.dev.name, self.method.config.learning_rate),
            )
        if step > 0 and (not before or spearman > max(before)):
            self.save_encoder({self.dev.name: spearman})
        return values

    def write(self, row: Row) -> None:
        """Add a finished row and pass it to the listeners."""
        self.rows.append(row | {"seconds": round(time.perf_counter() - self._started, 3)})
        if process_rank() != 0:
            return
        if time.monotonic() - self._written > _SECONDS_BETWEEN_WRITES:
            self.flush()
        for listener in self.listeners:
            listener(dict(self.rows[-1]))

    def flush(self) -> None:
        """Write history.csv, whole and renamed into place, so that a kill never leaves half a line."""
        path = self.folder / "history.csv"
        with reraise_os_error(path), atomic_write(path) as file:
            pd.DataFrame(self.rows).to_csv(file, index=False)
        self._written = time.monotonic()

    def save_encoder(self, results: dict[str, float]) -> None:
        """Save the encoder as it is now, with a card of these results."""
        config, method = self.method.config, type(self.method).__name__
        card = {
            "title": f"{method} on {config.train}, seed {config.seed}",
            "description": f"{method} from {config.encoder}, settings {config.digest()}.",
            "base_model": config.encoder,
            "datasets": [config.train],
            "tags": [config.method],
            "results": {f"Spearman x 100 on {name}": round(100 * value, 2) for name, value in results.items()},
        }
        self.method.save(self.folder / "encoder", card=card)
