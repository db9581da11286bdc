"""RankCSE (Liu et al. 2023): a student that ranks the sentences of its batch as its teachers rank them."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.config import RankCSEConfig, TrainingConfig
from workbench.encoder import Encoder, weights_checksum
from workbench.losses import (
    cosent_lists,
    cosine_matrix,
    entropy_consistency,
    info_nce,
    js_consistency,
    listmle,
    listnet,
)
from workbench.methods.protocol import (
    Batch,
    ContrastiveMethod,
    gathered_views,
    training_sentences,
)
from workbench.processes import gather_rows
from workbench.teachers import cached_embeddings, load_teacher


class RankCSE(ContrastiveMethod):
    """L = infoNCE(tau_1) + beta consistency(tau_1) + gamma rank(S, S^T) (RankCSE eq. 6), means over the batch.

    S(i)_j = cos(f(x_i), f(x_j)') are the student's lists, of two dropout views; S^T = sum_k alpha_k S_k are the
    teachers', without dropout. Only similarities are compared, so a teacher may have any vocabulary and any width.
    """

    config_class: ClassVar[type[TrainingConfig]] = RankCSEConfig
    config: RankCSEConfig

    def __init__(self, config: RankCSEConfig) -> None:
        super().__init__(config)
        self.teachers: list[np.ndarray] = []
        self._read: dict[str, tuple[str, str]] = {}

    def reads_head(self) -> bool:
        return super().reads_head() and (self.config.info_nce or self.config.lists_after_mlp)

    def prepare(self, data: Any) -> None:
        """Tokenises the sentences and embeds them with every teacher, each once, from the cache where it can.

        Raises DataError with fewer than two sentences, EncoderError for a teacher that is missing or broken.
        """
        sentences = training_sentences(self, data)
        self.read_teachers(sentences)
        self.tokens = self.encoder.token_rows(sentences)

    def read_teachers(self, sentences: list[str]) -> None:
        """The embeddings of the sentences under every teacher whose lists count."""
        self.teachers, self._read = [], {}
        for name in self.config.teachers if self.config.gamma else []:
            # A teacher is let go once the sentences are embedded: that is all that training needs of it.
            teacher = self.load_teacher(name)
            self._read[f"teacher {name}"] = (teacher.source, weights_checksum(teacher))
            self.teachers.append(cached_embeddings(teacher, sentences, folder=self.config.cache))

    def inputs(self) -> dict[str, tuple[str, str]]:
        return self._read

    def load_teacher(self, name: str) -> Encoder:
        """The teacher called `name` as the settings want it read."""
        config = self.config
        return load_teacher(
            name,
            pooling=config.teacher_pooling.get(name),
            template=config.teacher_template.get(name),
            max_tokens=config.teacher_max_tokens,
            revision=config.revisions.get(name),
            precision=config.precision,
            device=config.device,
        )

    def collate(self, rows: Sequence[int]) -> Batch:
        """Two copies of the tokens and, a teacher each, the rows of its embeddings."""
        return {"tokens": self.tokens.batch([*rows, *rows]), "teachers": self.teacher_rows(np.asarray(rows))}

    def teacher_rows(self, index: np.ndarray) -> list[Tensor]:
        """What a batch carries of its sentences: their rows of each teacher's embeddings."""
        return [torch.from_numpy(np.array(found[index])) for found in self.teachers]

    def teacher_lists(self, batch: Batch) -> Float[Tensor, "n n"]:
        """S^T = sum_k alpha_k S_k in float32, of all processes' sentences; symmetric, its diagonal 1."""
        weights = self.config.weights
        vectors = [gather_rows(found.float()) for found in batch["teachers"]]
        return torch.stack([w * cosine_matrix(v, v) for w, v in zip(weights, vectors, strict=True)]).sum(dim=0)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        words = self.guess_words(batch["tokens"])
        vectors = self.embed(batch["tokens"])
        scores = cosine_matrix(*gathered_views(vectors, self.head))
        lists = scores if self.config.lists_after_mlp else cosine_matrix(*gathered_views(vectors))
        return words | self.list_terms(scores, lists, batch)

    def list_terms(self, scores: Float[Tensor, "n n"], lists: Float[Tensor, "n n"], batch: Batch) -> dict[str, Tensor]:
        """The three terms: of the scores that infoNCE sees and of the student's lists."""
        config = self.config
        terms: dict[str, Tensor] = {}
        if config.info_nce:
            terms["info_nce"] = info_nce(scores, temperature=config.temperature)
        if config.beta:
            compared = js_consistency if config.consistency == "js" else entropy_consistency
            terms["consistency"] = config.beta * compared(lists, temperature=config.temperature)
        if config.gamma:
            terms[config.ranking] = config.gamma * self.ranking_loss(lists, self.teacher_lists(batch))
        return terms

    def ranking_loss(self, student: Float[Tensor, "n n"], teacher: Float[Tensor, "n n"]) -> Float[Tensor, ""]:
        """rank(S, S^T) of RankCSE eq. 3: ListNet (eq. 4), ListMLE (eq. 5) or CoSENT on lists."""
        config = self.config
        dropped = config.drops_positive
        if config.ranking == "cosent":
            return cosent_lists(student, teacher, scale=config.cosent_scale, exclude_positive=dropped)
        student_temperature, teacher_temperature = config.list_temperatures
        if config.ranking == "listmle":
            return listmle(student, teacher, temperature=student_temperature, exclude_positive=dropped)
        return listnet(
            student,
            teacher,
            student_temperature=student_temperature,
            teacher_temperature=teacher_temperature,
            exclude_positive=dropped,
        )
