"""The terms of the other methods in one loss, over the same sentences and scores.

No paper has it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from workbench.config import MixedConfig
from workbench.data import Sentences
from workbench.losses import PairScores, Scalar, cosent, cosine_matrix
from workbench.methods.base import (
    Batch,
    Inputs,
    Terms,
    gathered_views,
    rank_labels,
    require_order,
    training_sentences,
)
from workbench.methods.composition import Composition, TextVectors
from workbench.methods.distributed import gather_rows
from workbench.methods.rank_method import RankMethod
from workbench.methods.teacher_lists import TeacherLists


class Mixed(RankMethod):
    """The weighted sum of the loss terms of RankCSE, RankEncoder and CoSENT.

    L = infoNCE + beta consistency + gamma rank(S, S^T) + delta rank(S, U) + lambda l_r + c CoSENT.

    S(i)_j = cos(z_i, z_j+) has CompCSE's views (`Composition`): z+ is composed of the sentence's
    parts, or is its other dropout view or crop. S^T are the lists of RankCSE's teachers
    (`TeacherLists`), U RankEncoder's rank similarities under E1 (`RankDistillation`), l_r = mean (S
    - U)^2 over kept pairs; with combination=max, max(infoNCE, lambda l_r) in place of their sum. At
    test the similarity may be RankEncoder's mixture. CoSENT compares the cosines of pairs with
    gold; the other terms then make their lists of both sides' sentences. With only one method's
    terms, the loss is that method's, on a CPU bit for bit.
    """

    config_class = MixedConfig
    config: MixedConfig

    def __init__(self, config: MixedConfig) -> None:
        lists = TeacherLists(config)
        rank_lists_read_head = config.rank_lists and config.lists_after_mlp
        # A layer that no term reads would get no gradient, which several processes refuse.
        head_is_read = lists.reads_head() or bool(config.rank_weight or rank_lists_read_head)
        super().__init__(
            config, head_is_read=head_is_read, saves_corpus=bool(config.inference_weight)
        )
        self.teacher_lists = lists
        self.composition = Composition(config, self.encoder, is_read=config.uses_scores)
        self.projection = self.composition.projection  # so that its weights are trained and saved
        self.gold = None  # of each pair, if CoSENT reads it

    def prepare(self, data: Any) -> None:
        if self.config.cosent:
            require_order(data)
            # Ranks in place of labels: float32 must not make two labels equal.
            self.gold = torch.tensor(rank_labels(data), dtype=torch.float32)
            sentences = [*data.sentence1, *data.sentence2]
            data = Sentences(data.name, sentences, data.source, data.checksum)
        else:
            sentences = training_sentences(self, data)
        texts = self.composition.prepare(data, sentences)
        self.sentences = texts
        self.teacher_lists.prepare(texts)
        if self.config.uses_e1:
            self.prepare_ranks(data, texts)

    def inputs(self) -> Inputs:
        return self.composition.inputs() | self.teacher_lists.inputs | self.ranks.inputs

    def examples(self, data: Any) -> int:
        """Return the number of sentences and subsampled texts, or of pairs if CoSENT reads gold."""
        return len(self.composition) if self.gold is None else len(self.gold)

    def collate(self, rows: Sequence[int]) -> Batch:
        batch = {}
        if self.gold is not None:
            batch["gold"] = self.gold[list(rows)]
            sides = np.add.outer([0, len(self.gold)], rows)
            if not self.config.uses_scores:
                # One side after the other, as CoSENT alone has them.
                texts = self.composition.whole_texts(sides.ravel())
                return batch | {"tokens": self.token_batch(self.composition.tokens, texts)}
            # A pair's two sentences side by side: the gathered shares of several processes are then
            # in the order of one process.
            rows = sides.T.ravel().tolist()
        if self.config.uses_e1:
            batch["base"] = self.ranks.targets.take(rows)
        batch["teachers"] = self.teacher_lists.take(rows)
        if self.config.positives == "crop":
            batch["tokens"] = self.crop_batch(rows, self.config.crop_share)
        else:
            texts = self.composition.token_places(rows)
            batch["tokens"] = self.token_batch(self.composition.tokens, texts)
        return batch

    def loss_terms(self, vectors: Tensor, batch: Batch) -> Terms:
        terms = self._score_terms(vectors, batch) if self.config.uses_scores else {}
        if self.config.cosent:
            terms["cosent_gold"] = self._cosent_term(vectors, batch["gold"])
        return terms

    def _score_terms(self, vectors: TextVectors, batch: Batch) -> Terms:
        """Return the terms that read the scores of one view with the other."""
        config = self.config
        scores = cosine_matrix(*self.composition.views(vectors, self.head))
        below_head = cosine_matrix(*self.composition.views(vectors, None))
        # infoNCE is among them, since RankCSE's eq. 6 has it.
        terms = self.teacher_lists.terms(self, scores, below_head, batch["teachers"])
        if not (config.rank_weight or config.rank_lists):
            return terms
        target = self.ranks.targets.similarities(batch["base"]).to(scores.device)
        if config.rank_lists:
            student = scores if config.lists_after_mlp else below_head
            terms["rank_lists"] = config.rank_lists * self.teacher_lists.ranking_loss(
                student, target
            )
        if config.rank_weight:
            # Combined with the rank loss by combination=max, otherwise returned beside it.
            contrastive = terms.pop("info_nce", scores.new_zeros(()))
            terms |= self.ranks.terms(self, contrastive, scores, target)
        return terms

    def _cosent_term(self, vectors: TextVectors, labels: PairScores) -> Scalar:
        """Return CoSENT's loss of the two whole sentences of each pair."""
        gold = gather_rows(labels.to(vectors.device))
        if self.config.uses_scores:  # a pair's two sentences are together
            # The anchor is the whole sentence: the settings refuse to compose it with CoSENT.
            whole = self.composition.split(vectors)[0]
            sides = [gather_rows(whole[side::2].contiguous()) for side in (0, 1)]
        else:
            sides = gathered_views(vectors)
        cosines = cosine_similarity(*sides, dim=1)
        # Its pairs are ordered by gold: if all gold is equal, the batch says nothing.
        self.observe(unpaired_batches=(gold == gold[0]).all())
        return self.config.cosent * cosent(cosines, gold, scale=self.config.cosent_scale)
