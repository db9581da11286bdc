"""RankEncoder (Seonwoo et al. 2023): a sentence is described by how it ranks a corpus."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from workbench.config import RankEncoderConfig
from workbench.losses import cosine_matrix, info_nce
from workbench.methods.base import Batch, Inputs, Terms, gathered_views, training_sentences
from workbench.methods.rank_method import RankMethod


class RankEncoder(RankMethod):
    """l = max(lambda_train l_r, l_cl) (RankEncoder eqs. 5, 6), or with combination=sum their sum.

    l_r is the mean of (u_i . u_j - cos(E2(x_i), E2(x_j)))^2 over kept pairs. u_i is the rank vector
    of x_i under the frozen E1, without dropout; cos is of two dropout views of E2, as in l_cl,
    which is SimCSE's loss, or, with pooling "mask", that of PromptBERT's two templates."""

    config_class = RankEncoderConfig
    config: RankEncoderConfig

    def prepare(self, data: Any) -> None:
        sentences = training_sentences(self, data, templates=True)
        self.prepare_ranks(data, sentences)
        # Both views have the same tokens, unless a second template has its own, which come after.
        second = self.config.second_template
        self.tokens = self.encoder.token_rows(sentences, second_template=second)
        if second:
            self.view_starts = (0, len(sentences))

    def inputs(self) -> Inputs:
        return self.ranks.inputs

    def collate(self, rows: Sequence[int]) -> Batch:
        return super().collate(rows) | {"base": self.ranks.targets.take(rows)}

    def loss_terms(self, vectors: Tensor, batch: Batch) -> Terms:
        scores = cosine_matrix(*gathered_views(vectors, self.head))
        contrastive = info_nce(scores, temperature=self.config.temperature)
        target = self.ranks.targets.similarities(batch["base"]).to(scores.device)
        return self.ranks.terms(self, contrastive, scores, target)
