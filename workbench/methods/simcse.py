"""SimCSE (Gao, Yao and Chen 2021): positives are dropout views, or entailed sentences."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from workbench.config import SimCSEConfig
from workbench.losses import cosine_matrix, info_nce
from workbench.methods.base import (
    Batch,
    ContrastiveMethod,
    Terms,
    gathered_views,
    training_sentences,
)


class SimCSE(ContrastiveMethod):
    """l_i = -log softmax_j(cos(z_i, z'_j) / tau)[i] (SimCSE eq. 4).

    z and z' are two dropout views of sentence i, or with positives=crop two random runs of its
    words (table 1 has crops as positives).

    Supervised, z' are first the positives and then the hard negatives of all anchors z in the batch
    (eq. 5).
    """

    config_class = SimCSEConfig
    config: SimCSEConfig

    def prepare(self, data: Any) -> None:
        if self.config.supervised:
            self.tokens = self.encoder.token_rows(chain(*data.texts))
            self.view_starts = (0, len(data), 2 * len(data))
            return
        self.sentences = training_sentences(self, data)
        if self.config.positives == "dropout":
            self.tokens = self.encoder.token_rows(self.sentences)

    def collate(self, rows: Sequence[int]) -> Batch:
        if self.config.positives == "dropout":
            return super().collate(rows)
        return {"tokens": self.crop_batch(rows, self.config.crop_share)}

    def loss_terms(self, vectors: Tensor, batch: Batch) -> Terms:
        anchors, *others = gathered_views(vectors, self.head, count=len(self.view_starts))
        # Hard negatives are further columns: negatives of every anchor.
        scores = cosine_matrix(anchors, torch.cat(others))
        return {"info_nce": info_nce(scores, temperature=self.config.temperature)}
