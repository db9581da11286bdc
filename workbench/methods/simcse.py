"""Unsupervised SimCSE (Gao, Yao and Chen 2021): two dropout views of a sentence are each other's positive."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from workbench.config import SimCSEConfig
from workbench.losses import cosine_matrix, info_nce
from workbench.methods.base import Batch, ContrastiveMethod, gathered_views, training_sentences


class SimCSE(ContrastiveMethod):
    """l_i = -log softmax_j(cos(z_i, z'_j) / tau)[i] with z, z' two dropout views of sentence i (SimCSE eq. 4)."""

    config_class = SimCSEConfig
    config: SimCSEConfig

    def prepare(self, data: Any) -> None:
        self.tokens = self.encoder.token_rows(training_sentences(self, data))

    def collate(self, rows: Sequence[int]) -> Batch:
        return {"tokens": self.tokens.batch([*rows, *rows])}  # one forward pass draws each view its own dropout

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        terms = self.guess_words(batch["tokens"])
        first, second = gathered_views(self.embed(batch["tokens"]), self.head)
        return terms | {"info_nce": info_nce(cosine_matrix(first, second), temperature=self.config.temperature)}
