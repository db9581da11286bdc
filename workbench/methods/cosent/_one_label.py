"""Batches that CoSENT learns nothing from: counted, and said once."""

import logging

import torch
from torch import Tensor

_LOG = logging.getLogger("workbench")


class OneLabelBatches:
    """Counts the batches whose pairs all have one label: nothing to order, so that loss and gradient are 0."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self._seen: list[Tensor] = []
        self._warned = False

    def see(self, labels: Tensor) -> None:
        """The labels of a batch; looked at only when `observations` asks, so that no device is waited for."""
        self._seen.append((labels == labels[0]).all())

    def observations(self) -> dict[str, float]:
        """unpaired_batches: how many there were since the last call; nothing where no batch was seen."""
        if not self._seen:
            return {}
        batches, unpaired = len(self._seen), float(torch.stack(self._seen).sum())
        self._seen = []
        if unpaired and not self._warned:
            self._warned = True
            _LOG.warning(
                "%.0f of %d batches held pairs of one label alone: nothing for CoSENT to order, its loss 0; if this is "
                "frequent (column observed_unpaired_batches of the history), raise batch_size (now %d)",
                unpaired,
                batches,
                self.batch_size,
            )
        return {"unpaired_batches": unpaired}
