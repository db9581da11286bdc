"""The terms of RankCSE: consistency of the two views, and the ranking of the teachers."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from workbench import losses
from workbench.config import RankCSEConfig
from workbench.files import Facts
from workbench.losses import Scalar, SquareScores
from workbench.methods.base import ContrastiveMethod, Inputs, Terms, named_loss
from workbench.methods.distributed import gather_rows
from workbench.printing import LOG
from workbench.teachers import AnyTeacher, cached_embeddings, load_teacher

# Above these shares of a list its first target is all that counts, or no target counts more.
_ONE_HOT = 0.75
_FLAT = 0.9

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

    def prepare(self, sentences: list[str]) -> None:
        """Embed the sentences with every teacher that the loss reads.

        Embeddings come from the cache if possible.
        """
        self.embeddings = []  # of each teacher, a row per training sentence
        self.inputs: Inputs = {}
        for name in self.config.teachers if self.config.gamma else []:
            teacher = self.load_teacher(name)  # not kept: training needs its embeddings alone
            self.inputs[f"teacher {name}"] = (teacher.source, teacher.checksum)
            # Without dropout, so once for the whole training.
            self.embeddings.append(cached_embeddings(teacher, sentences, folder=self.config.cache))
        if self.has_soft_targets:
            self._warn_of_extremes(len(sentences))

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
        return [torch.from_numpy(of_teacher[index]) for of_teacher in self.embeddings]

    def teacher_scores(self, taken: list[Tensor]) -> SquareScores:
        """Return S^T in float32, of all processes' sentences; symmetric, its diagonal is 1."""
        return self._mean_scores([gather_rows(rows.float()) for rows in taken])

    def _mean_scores(self, embeddings: list[Tensor]) -> SquareScores:
        # RankCSE sec. 4.4 averages similarities and not vectors, so teachers may have any width.
        weighted = [
            alpha * losses.cosine_matrix(vectors, vectors)
            for alpha, vectors in zip(self.config.weights, embeddings, strict=True)
        ]
        return torch.stack(weighted).sum(dim=0)

    @property
    def has_soft_targets(self) -> bool:
        """Whether the loss reads a softmax of the teachers' scores."""
        return bool(self.config.gamma) and self.config.ranking == "listnet"

    def sharpness(self, teacher: SquareScores) -> dict[str, Scalar]:
        """Return what a list of targets says beyond its first place, as means over the lists.

        first_target_share: The largest target, of a sum of 1. effective_targets: e to the entropy
        of the targets; 1 if the first has all, the length of the list if all are equal.
        """
        values = self._loss_values()
        if values["exclude_positive"]:
            positive = torch.eye(len(teacher), dtype=torch.bool, device=teacher.device)
            teacher = teacher.masked_fill(positive, -torch.inf)
        targets = losses.top_one(teacher, temperature=values["teacher_temperature"])
        entropy = -torch.xlogy(targets, targets).sum(dim=1)
        return {
            "first_target_share": targets.amax(dim=1).mean(),
            "effective_targets": entropy.exp().mean(),
        }

    def _warn_of_extremes(self, count: int) -> None:
        """Warn if the teachers' softmax is one-hot or flat, before anything is trained."""
        size = min(self.config.batch_size, count)
        values = self._loss_values()
        length = size - values["exclude_positive"]
        # From everywhere: neighbours in a file are often of one text.
        rows = np.linspace(0, count - 1, size).astype(int).tolist()
        teacher = self._mean_scores([taken.float() for taken in self.take(rows)])
        sharpness = self.sharpness(teacher)
        share = float(sharpness["first_target_share"])
        effective = float(sharpness["effective_targets"])
        tau = values["teacher_temperature"]
        is_public_code = self.config.temperatures == "community"
        setting = "student_temperature" if is_public_code else "teacher_temperature"
        if share > _ONE_HOT:
            LOG.warning(
                "%s %g: the first target has %.0f%% of a teacher's list, so the order of the "
                "others is hardly taught; raise it, or set ranking=mse and gamma=100",
                setting,
                tau,
                100 * share,
            )
        elif effective > _FLAT * length:
            LOG.warning(
                "%s %g: a teacher's lists are flat, %.0f of %d targets count alike; lower it",
                setting,
                tau,
                effective,
                length,
            )

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
        student = scores if config.lists_after_mlp else below_head
        terms = {}
        if config.info_nce:
            terms["info_nce"] = losses.info_nce(scores, temperature=tau_1)
        if config.beta:
            is_js = config.consistency == "js"
            consistency = losses.js_consistency if is_js else losses.entropy_consistency
            compared = scores if config.compares_after_mlp else below_head
            terms["consistency"] = config.beta * consistency(compared, temperature=tau_1)
        if config.gamma:
            teacher = self.teacher_scores(taken)
            terms[config.ranking] = config.gamma * self.ranking_loss(student, teacher)
            if self.has_soft_targets:
                method.observe(**self.sharpness(teacher))
            if method.head:
                # The history gets the losses of the place that is not trained, to compare.
                below = below_head.detach()
                other = below if config.lists_after_mlp else scores.detach()
                place = "below" if config.lists_after_mlp else "above"
                of_other = {f"{config.ranking}_{place}": self.ranking_loss(other, teacher)}
                method.observe(info_nce_below=losses.info_nce(below, temperature=tau_1), **of_other)
        return terms

    def ranking_loss(self, student: SquareScores, teacher: SquareScores) -> Scalar:
        """Return rank(S, S^T) of RankCSE eq. 3: ListNet (eq. 4), ListMLE (eq. 5) or another loss.

        The setting `ranking` names the function of `losses`, which gets those values that it takes.
        """
        name = _LOSSES.get(self.config.ranking, self.config.ranking)
        return named_loss(name, self._loss_values(), student, teacher)

    def _loss_values(self) -> Facts:
        """Return the values of the arguments that listwise losses may take."""
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
        return {
            "temperature": student_tau,
            "student_temperature": student_tau,
            "teacher_temperature": teacher_tau,
            "scale": config.cosent_scale,
            "exclude_positive": is_dropped,
        }

    def reads_head(self) -> bool:
        """Return whether a term reads the scores after the train-only layer."""
        config = self.config
        ranking = config.lists_after_mlp and config.gamma
        consistency = config.compares_after_mlp and config.beta
        return bool(config.info_nce or ranking or consistency)
