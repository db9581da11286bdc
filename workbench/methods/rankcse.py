"""RankCSE (Liu et al. 2023): a student that ranks the sentences of its batch as its teachers do."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from workbench.config import RankCSEConfig
from workbench.encoder import has_no_dropout
from workbench.losses import cosine_matrix
from workbench.methods.base import (
    Batch,
    ContrastiveMethod,
    Inputs,
    Terms,
    gathered_views,
    training_sentences,
)
from workbench.methods.teacher_lists import TeacherLists


class RankCSE(ContrastiveMethod):
    """L = infoNCE(tau_1) + beta consistency(tau_1) + gamma rank(S, S^T) (RankCSE eq. 6).

    Each term is a mean over the batch. S(i)_j = cos(f(x_i), f(x_j)') are the student's lists, of
    two dropout views; S^T are the teachers' (see `TeacherLists`).
    """

    config_class = RankCSEConfig
    config: RankCSEConfig

    def __init__(self, config: RankCSEConfig) -> None:
        # Made first, because it knows whether a term reads the train-only layer.
        lists = TeacherLists(config)
        super().__init__(config, head_is_read=lists.reads_head())
        self.teacher_lists = lists

    def prepare(self, data: Any) -> None:
        sentences = training_sentences(self, data)
        self.teacher_lists.prepare(sentences)
        self.tokens = self.encoder.token_rows(sentences)
        # Without dropout both views of a sentence are one vector, which is computed once.
        if has_no_dropout(self.encoder.backbone.config) and not self.words:
            self.view_starts = (0,)

    def inputs(self) -> Inputs:
        return self.teacher_lists.inputs

    def collate(self, rows: Sequence[int]) -> Batch:
        return super().collate(rows) | {"teachers": self.teacher_lists.take(rows)}

    def loss_terms(self, vectors: Tensor, batch: Batch) -> Terms:
        if len(self.view_starts) == 1:
            vectors = torch.cat([vectors, vectors])
        scores = cosine_matrix(*gathered_views(vectors, self.head))
        below_head = cosine_matrix(*gathered_views(vectors))
        return self.teacher_lists.terms(self, scores, below_head, batch["teachers"])
