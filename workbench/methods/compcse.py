"""CompCSE (Chanchani and Huang 2023): a positive composed of a sentence's parts."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from workbench.config import CompCSEConfig
from workbench.losses import cosine_matrix, info_nce
from workbench.methods.base import Batch, ContrastiveMethod, Inputs, Terms, training_sentences
from workbench.methods.composition import Composition


class CompCSE(ContrastiveMethod):
    """l_i = -log softmax_j(cos(z_i, z_j+) / tau)[i] (CompCSE eq. 1).

    z and z+ are the two views that `Composition` makes of a sentence and its parts.
    """

    config_class = CompCSEConfig
    config: CompCSEConfig

    def __init__(self, config: CompCSEConfig) -> None:
        super().__init__(config)
        self.composition = Composition(config, self.encoder)
        self.projection = self.composition.projection  # so that its weights are trained and saved

    def prepare(self, data: Any) -> None:
        self.composition.prepare(data, training_sentences(self, data))

    def inputs(self) -> Inputs:
        return self.composition.inputs()

    def examples(self, data: Any) -> int:
        """Return the number of sentences and subsampled texts."""
        return len(self.composition)

    def collate(self, rows: Sequence[int]) -> Batch:
        texts = self.composition.token_places(rows)
        return {"tokens": self.token_batch(self.composition.tokens, texts)}

    def loss_terms(self, vectors: Tensor, batch: Batch) -> Terms:
        scores = cosine_matrix(*self.composition.views(vectors, self.head))
        return {"info_nce": info_nce(scores, temperature=self.config.temperature)}
