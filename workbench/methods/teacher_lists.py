"""The terms of RankCSE: consistency of the two views, and the ranking of the teachers."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench import losses
from workbench.config import RankCSEConfig
from workbench.losses import Scalar, SquareScores
from workbench.methods.base import ContrastiveMethod, Inputs, Terms
from workbench.methods.distributed import gather_rows
from workbench.teachers import AnyTeacher, cached_embeddings, load_teacher

# Value of `ranking` -> its loss, where another loss has that name.
_LOSSES = {"cosent": "cosent_lists", "mse": "list_mse", "correlation": "list_correlation"}


class TeacherLists:
    """InfoNCE, consistency and ranking distillation of RankCSE eq. 6, for scores of two views.

    Scores are matrices S(i)_j = cos(f(x_i), f(x_j)') of the sentences of a batch; S^T = sum_k
    alpha_k S_k are the teachers', without dropout. Only similarities are compared, so a teacher
    may have any vocabulary and any width.
    """

    def __init__(self, config: RankCSEConfig) -> None:
        self.config = config
        self.embeddings: list[np.ndarray] = []  # of each teacher, a row per training sentence
        self.inputs: Inputs = {}

    def prepare(self, sentences: list[str]) -> None:
        """Embed the sentences with every teacher that the loss reads.

        Embeddings come from the cache if possible.
        """
        self.embeddings = []
        self.inputs = {}
        for name in self.config.teachers if self.config.gamma else []:
            teacher = self.load_teacher(name)  # not kept: training needs its embeddings alone
            self.inputs[f"teacher {name}"] = (teacher.source, teacher.checksum)
            # Without dropout, so once for the whole training.
            embeddings = cached_embeddings(teacher, sentences, folder=self.config.cache)
            self.embeddings.append(embeddings)

    def load_teacher(self, name: str) -> AnyTeacher:
        """Load the teacher called `name`, read as the settings say."""
        config = self.config
        return load_teacher(
            name,
            max_seq_length=config.teacher_max_seq_length,
            pooling=config.teacher_pooling.get(name),
            template=config.teacher_template.get(name),
            revision=config.revisions.get(name),
            precision=config.precision,
            device=config.device,
        )

    def take(self, rows: Sequence[int]) -> list[Tensor]:
        """Return the embeddings of these sentences under each teacher."""
        index = np.asarray(rows)
        return [torch.from_numpy(np.array(of_teacher[index])) for of_teacher in self.embeddings]

    def teacher_scores(self, taken: list[Tensor]) -> SquareScores:
        """Return S^T in float32, of all processes' sentences; symmetric, its diagonal is 1."""
        weighted = []
        for alpha, rows in zip(self.config.weights, taken, strict=True):
            vectors = gather_rows(rows.float())
            # RankCSE sec. 4.4 averages similarities and not vectors, so teachers may have any
            # width.
            weighted.append(alpha * losses.cosine_matrix(vectors, vectors))
        return torch.stack(weighted).sum(dim=0)

    def terms(
        self,
        method: ContrastiveMethod,
        scores: SquareScores,
        below_head: SquareScores,
        taken: list[Tensor],
    ) -> Terms:
        """Return infoNCE, consistency and ranking loss, weighted; terms of weight 0 are left out.

        scores: Above the train-only layer, which infoNCE reads. below_head: Below it. The settings
        say which of them the other two terms read. taken: The batch's part of the teachers, of
        `take`.
        """
        config = self.config
        tau_1 = config.temperature
        ranking_after_mlp, consistency_after_mlp = config.after_mlp
        student = scores if ranking_after_mlp else below_head
        terms: Terms = {}
        if config.info_nce:
            terms["info_nce"] = losses.info_nce(scores, temperature=tau_1)
        if config.beta:
            is_js = config.consistency == "js"
            consistency = losses.js_consistency if is_js else losses.entropy_consistency
            compared = scores if consistency_after_mlp else below_head
            terms["consistency"] = config.beta * consistency(compared, temperature=tau_1)
        if config.gamma:
            teacher = self.teacher_scores(taken)
            terms[config.ranking] = config.gamma * self.ranking_loss(student, teacher)
            if method.head:
                # The history gets the losses of the place that is not trained, to compare.
                below = below_head.detach()
                other = below if ranking_after_mlp else scores.detach()
                place = "below" if ranking_after_mlp else "above"
                of_other = {f"{config.ranking}_{place}": self.ranking_loss(other, teacher)}
                method.observe(info_nce_below=losses.info_nce(below, temperature=tau_1), **of_other)
        return terms

    def ranking_loss(self, student: SquareScores, teacher: SquareScores) -> Scalar:
        """Return rank(S, S^T) of RankCSE eq. 3: ListNet (eq. 4), ListMLE (eq. 5) or another loss.

        The setting `ranking` names the function of `losses`, which gets those of the values below
        that it takes.
        """
        config = self.config
        student_tau = config.student_temperature
        teacher_tau = config.teacher_temperature
        # The public code passes tau_1 to the student and tau_2 to the teacher.
        if config.temperatures == "community":
            student_tau = config.temperature
            teacher_tau = config.student_temperature
        # The paper's footnote 1 drops a sentence from its own list; eq. 5 (ListMLE) keeps it.
        is_dropped = config.positive == "dropped"
        if config.positive == "paper":
            is_dropped = config.ranking != "listmle"
        values = {
            "temperature": student_tau,
            "student_temperature": student_tau,
            "teacher_temperature": teacher_tau,
            "scale": config.cosent_scale,
            "exclude_positive": is_dropped,
        }
        loss: Any = getattr(losses, _LOSSES.get(config.ranking, config.ranking))
        # So that a new listwise loss is a function and a value of `ranking`, and no branch here.
        accepted = inspect.signature(loss).parameters.keys() & values.keys()
        return loss(student, teacher, **{argument: values[argument] for argument in accepted})

    def reads_head(self) -> bool:
        """Return whether a term reads the scores after the train-only layer."""
        config = self.config
        ranking_after_mlp, consistency_after_mlp = config.after_mlp
        ranking = ranking_after_mlp and config.gamma
        consistency = consistency_after_mlp and config.beta
        return bool(config.info_nce or ranking or consistency)
