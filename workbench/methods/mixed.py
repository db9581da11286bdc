"""The terms of the other methods in one loss, over the same sentences, views and scores; no paper has it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from workbench.config import MixedConfig
from workbench.data import Pairs, Sentences
from workbench.losses import cosent, cosine_matrix
from workbench.losses.distributed import gather_rows
from workbench.methods.base import Batch, gathered_views, require_kind
from workbench.methods.compcse import CompCSE
from workbench.methods.cosent import rank_labels, require_order
from workbench.methods.rankcse import RankCSE
from workbench.methods.rankencoder import RankEncoder


class Mixed(CompCSE, RankCSE, RankEncoder):
    """L = infoNCE + beta consistency + gamma rank(S, S^T) + delta rank(S, U) + lambda mean (S - U)^2 + c CoSENT.

    S(i)_j = cos(z_i, z_j+) is CompCSE's: z+ is composed of the sentence's parts, or is its other dropout view. S^T are
    the lists of RankCSE's teachers, U RankEncoder's rank similarities under E1, exact or in closed form; at test the
    similarity may be RankEncoder's mixture. CoSENT compares the cosines of pairs with gold; the other terms then make
    their lists of both sides' sentences. With only one method's terms, the loss is that method's, on a CPU bit for bit.
    """

    config_class = MixedConfig
    config: MixedConfig

    def reads_head(self) -> bool:
        return super().reads_head() and self.config.listed

    def reads_projection(self) -> bool:
        return super().reads_projection() and self.config.listed

    def prepare(self, data: Any) -> None:
        self.gold: Tensor | None = None
        if self.config.cosent:
            require_kind(data, Pairs, "cosent above 0 trains on scored pairs")
            require_order(data)
            self.gold = torch.from_numpy(rank_labels(data).astype(np.float32))
            data = Sentences(data.name, [*data.sentence1, *data.sentence2], data.source, data.checksum)
        texts = self.read_texts(data)
        self.read_teachers(texts)
        if self.config.ranked:
            self.read_ranks(data, texts)

    def inputs(self) -> dict[str, tuple[str, str]]:
        return CompCSE.inputs(self) | RankCSE.inputs(self) | RankEncoder.inputs(self)

    def examples(self, data: Any) -> int:
        """Return the number of sentences and subsampled texts, or of pairs if CoSENT reads gold."""
        return super().examples(data) if self.gold is None else len(self.gold)

    def collate(self, rows: Sequence[int]) -> Batch:
        batch: Batch = {}
        if self.gold is not None:
            batch["gold"] = self.gold[list(rows)]
            sides = np.add.outer([0, len(self.gold)], rows)  # one side after the other, as CoSENT alone has them
            if not self.config.listed:
                return batch | {"tokens": self.token_batch(self.rows, sides.ravel() * (1 + self.config.parts))}
            rows = sides.T.ravel().tolist()  # a pair's together: several processes have them in this order too
        if self.config.ranked:
            batch["base"] = self.targets.take(rows)
        return batch | super().collate(rows) | {"teachers": self.teacher_rows(rows)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        self._drop_mixture()  # this step changes the weights
        terms = self.guess_words(batch["tokens"])
        vectors = self.embed(batch["tokens"])
        if self.config.listed:
            terms |= self._terms_of_lists(vectors, batch)
        if self.config.cosent:
            gold = gather_rows(batch["gold"].to(vectors.device)[:, None]).squeeze(1)
            if self.config.listed:  # a pair's two sentences are together, and the whole ones come first
                whole = vectors.chunk(sum(map(len, self.view_texts)))[0]
                sides = [gather_rows(whole[side::2].contiguous()) for side in (0, 1)]
            else:
                sides = gathered_views(vectors)
            cosines = cosine_similarity(*sides, dim=1)
            self.observe(unpaired_batches=(gold == gold[0]).all())
            terms["cosent_gold"] = self.config.cosent * cosent(cosines, gold, scale=self.config.cosent_scale)
        return terms

    def _terms_of_lists(self, vectors: Float[Tensor, "texts d"], batch: Batch) -> dict[str, Tensor]:
        """Return the terms that read the scores of one view with the other."""
        config = self.config
        scores = cosine_matrix(*self.composed_views(vectors, self.head))
        plain = cosine_matrix(*self.composed_views(vectors, None))
        terms = self.list_terms(scores, plain, batch)
        if not (config.rank_weight or config.rank_lists):
            return terms
        target = self.targets.similarities(batch["base"]).to(scores.device)
        if config.rank_lists:
            lists = scores if config.lists_after_mlp else plain
            terms["rank_lists"] = config.rank_lists * self.ranking_loss(lists, target)
        if config.rank_weight:  # RankEncoder reads the scores of infoNCE
            terms |= self.rank_terms(terms.pop("info_nce", scores.new_zeros(())), scores, target)
        return terms

    def save(self, folder: str | Path, *, card: dict[str, Any] | None = None) -> None:
        """Save the encoder, with the corpus if the rank similarity has a share at test."""
        (super().save if self.config.inference_weight else super(RankEncoder, self).save)(folder, card=card)

    def restore(self, folder: str | Path) -> None:
        (super().restore if self.config.inference_weight else super(RankEncoder, self).restore)(folder)
