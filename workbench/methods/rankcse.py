"""RankCSE (Liu et al. 2023): a student that ranks the sentences of its batch as its teachers rank them."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench import losses
from workbench.config import RankCSEConfig
from workbench.encoder import FixedEncoder
from workbench.losses.distributed import gather_rows
from workbench.methods.base import Batch, ContrastiveMethod, gathered_views, training_sentences
from workbench.teachers import Teacher, cached_embeddings, load_teacher


class RankCSE(ContrastiveMethod):
    """L = infoNCE(tau_1) + beta consistency(tau_1) + gamma rank(S, S^T) (RankCSE eq. 6), means over the batch.

    S(i)_j = cos(f(x_i), f(x_j)') are the student's lists, of two dropout views; S^T = sum_k alpha_k S_k are the
    teachers', without dropout. Only similarities are compared, so a teacher may have any vocabulary and any width.
    """

    config_class = RankCSEConfig
    config: RankCSEConfig

    def reads_head(self) -> bool:
        config, (lists, compared) = self.config, self.config.layered
        ranked, fitted = (getattr(config, name, 0) for name in ("rank_lists", "rank_weight"))  # of mixed
        read = config.info_nce or fitted or (lists and (config.gamma or ranked)) or (compared and config.beta)
        return super().reads_head() and bool(read)

    def prepare(self, data: Any) -> None:
        sentences = training_sentences(self, data)
        self.read_teachers(sentences)
        self.tokens = self.encoder.token_rows(sentences)

    def read_teachers(self, sentences: list[str]) -> None:
        """Embed the sentences with every teacher that the loss reads, each once, from the cache if possible."""
        self.teachers: list[np.ndarray] = []
        self.teacher_inputs: dict[str, tuple[str, str]] = {}
        for name in self.config.teachers if self.config.gamma else []:
            teacher = self.load_teacher(name)  # not kept: training needs its embeddings alone
            self.teacher_inputs[f"teacher {name}"] = (teacher.source, teacher.checksum)
            self.teachers.append(cached_embeddings(teacher, sentences, folder=self.config.cache))

    def inputs(self) -> dict[str, tuple[str, str]]:
        return self.teacher_inputs

    def load_teacher(self, name: str) -> Teacher | FixedEncoder:
        """Load the teacher called `name`, read as the settings say."""
        config = self.config
        reading = {"pooling": config.teacher_pooling.get(name), "template": config.teacher_template.get(name)}
        options = {"precision": config.precision, "device": config.device, "revision": config.revisions.get(name)}
        return load_teacher(name, max_seq_length=config.teacher_max_seq_length, **reading, **options)

    def collate(self, rows: Sequence[int]) -> Batch:
        return {"tokens": self.token_batch(self.tokens, [*rows, *rows]), "teachers": self.teacher_rows(rows)}

    def teacher_rows(self, rows: Sequence[int]) -> list[Tensor]:
        """Return the embeddings of these sentences under each teacher."""
        return [torch.from_numpy(np.array(embeddings[np.asarray(rows)])) for embeddings in self.teachers]

    def teacher_lists(self, batch: Batch) -> Float[Tensor, "n n"]:
        """S^T = sum_k alpha_k S_k in float32, of all processes' sentences; symmetric, its diagonal 1."""
        weights = self.config.weights
        vectors = [gather_rows(rows.float()) for rows in batch["teachers"]]
        return torch.stack([w * losses.cosine_matrix(v, v) for w, v in zip(weights, vectors, strict=True)]).sum(dim=0)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        terms = self.guess_words(batch["tokens"])
        vectors = self.embed(batch["tokens"])
        scores = losses.cosine_matrix(*gathered_views(vectors, self.head))
        plain = losses.cosine_matrix(*gathered_views(vectors))
        return terms | self.list_terms(scores, plain, batch)

    def list_terms(self, scores: Float[Tensor, "n n"], plain: Float[Tensor, "n n"], batch: Batch) -> dict[str, Tensor]:
        """Return the three terms: infoNCE of the scores; consistency and ranking loss of these or of the `plain` ones.

        `plain` are those before the train-only layer. The history gets the losses of the places that are not minimised.
        """
        config = self.config
        lists, compared = (scores if after else plain for after in config.layered)
        terms: dict[str, Tensor] = {}
        if config.info_nce:
            terms["info_nce"] = losses.info_nce(scores, temperature=config.temperature)
        if config.beta:
            consistency = losses.js_consistency if config.consistency == "js" else losses.entropy_consistency
            terms["consistency"] = config.beta * consistency(compared, temperature=config.temperature)
        if config.gamma:
            teacher = self.teacher_lists(batch)
            terms[config.ranking] = config.gamma * self.ranking_loss(lists, teacher)
            if self.head is not None:
                other, place = (plain.detach(), "below") if config.lists_after_mlp else (scores.detach(), "above")
                self.observe(info_nce_below=losses.info_nce(plain.detach(), temperature=config.temperature))
                self.observe(**{f"{config.ranking}_{place}": self.ranking_loss(other, teacher)})
        return terms

    def ranking_loss(self, student: Float[Tensor, "n n"], teacher: Float[Tensor, "n n"]) -> Float[Tensor, ""]:
        """Return rank(S, S^T) of RankCSE eq. 3: ListNet (eq. 4), ListMLE (eq. 5) or CoSENT.

        The setting `ranking` names the function of `losses`, which gets those of the values below that it takes.
        """
        config = self.config
        tau_2, tau_3 = config.student_temperature, config.teacher_temperature
        if config.temperatures == "community":
            tau_2, tau_3 = config.temperature, config.student_temperature
        dropped = config.positive == "dropped" or (config.positive == "paper" and config.ranking != "listmle")
        values: dict[str, Any] = {"temperature": tau_2, "student_temperature": tau_2, "teacher_temperature": tau_3}
        values |= {"scale": config.cosent_scale, "exclude_positive": dropped}
        loss = losses.cosent_lists if config.ranking == "cosent" else getattr(losses, config.ranking)
        taken = inspect.signature(loss).parameters
        return loss(student, teacher, **{name: value for name, value in values.items() if name in taken})
