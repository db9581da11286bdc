"""Settings of RankCSE."""

from typing import Annotated, Literal

import pydantic
from annotated_types import MinLen

from workbench.config._settings import (
    Cut,
    Fraction,
    NonNegative,
    Positive,
)
from workbench.config._training import (
    AtLeastTwo,
    ContrastiveConfig,
    EncoderName,
    LocalPath,
    Pooling,
)


class RankCSEConfig(ContrastiveConfig):
    """RankCSE; the defaults are the paper's settings of BERT-base with ListNet (tables 2 and 9).

    But for `lists_after_mlp`, which the profiles `paper` set to the likeliest reading of the paper.
    """

    method = "rankcse"
    added = ContrastiveConfig.added | {"consistency_after_mlp"}

    batch_size: AtLeastTwo = 128
    """[RankCSE table 9]"""
    epochs: Positive = 4.0
    """[RankCSE app. A]"""
    warmup: Fraction = 0.05
    """[RankCSE app. A]"""
    temperature: Positive = 0.05
    """tau_1 of infoNCE and of the consistency; divides the cosines [RankCSE table 9]"""
    lists_after_mlp: bool = False
    """the student's lists are made of the vectors of infoNCE, the likeliest reading of the paper;
    false: of those before the tanh layer, better on dev with ListNet and the own SimCSE as teacher,
    not with a better teacher [RankCSE eqs. 1, 4]"""
    consistency_after_mlp: bool | None = None
    """the same choice for the consistency term; none: the lists of the ranking loss"""
    info_nce: bool = True
    """the contrastive term [RankCSE table 4]"""
    beta: NonNegative = 1.0
    """weight of the consistency of the two views [RankCSE app. A]"""
    consistency: Literal["js", "entropy"] = "js"
    """loss between the two views' lists; entropy: what the public code computes instead of eq. 2
    [RankCSE eq. 2]"""
    gamma: NonNegative = 1.0
    """weight of the ranking distillation; of mse about 100, of correlation about 15, whose
    values are smaller [RankCSE app. A]"""
    ranking: Literal["listnet", "listmle", "cosent", "mse", "correlation"] = "listnet"
    """the loss that distils the teacher's lists; mse and correlation are controls, which follow its
    values and not only their order [RankCSE eqs. 4, 5; CoSENT table III]"""
    positive: Literal["paper", "kept", "dropped"] = "paper"
    """whether a sentence is in its own list; paper: ListMLE keeps it, the others drop it [RankCSE
    eq. 5, footnote 1]"""
    student_temperature: Positive = 0.025
    """tau_2 of the student's lists; divides the cosines [RankCSE table 9]"""
    teacher_temperature: Positive = 0.0125
    """tau_3 of the teacher's lists, ListNet only; divides the cosines [RankCSE table 9]"""
    temperatures: Literal["paper", "community"] = "paper"
    """community: as in the public code, tau_1 for the student's lists and tau_2 for the teacher's
    [RankCSE eqs. 4, 5]"""
    cosent_scale: Positive = 20.0
    """lambda of CoSENT on lists; multiplies the cosines [CoSENT sec. IV-C]"""
    teachers: Annotated[list[EncoderName], MinLen(1)] = [
        "princeton-nlp/unsup-simcse-bert-base-uncased",
        "princeton-nlp/unsup-simcse-bert-large-uncased",
    ]
    """frozen encoders whose lists are distilled: folders of finished runs, other folders, bundled
    names, hub ids [RankCSE app. A]"""
    teacher_weights: list[float] | None = None
    """shares of the teachers in S^T, sum 1; none: 1 for one, alpha = 1/3 and 2/3 for two, equal for
    more [RankCSE sec. 4.4, app. A]"""
    teacher_pooling: dict[EncoderName, Pooling] = {}
    """teacher -> pooling, instead of that of its files or name"""
    teacher_template: dict[EncoderName, str] = {}
    """teacher -> template, for pooling mask"""
    teacher_max_seq_length: Cut | None = 32
    """(tokens) teachers cut sentences here, specials included, as the student does; none: never;
    st: and static encoders read as their own files say"""
    cache: LocalPath | None = None
    """folder of cached teacher embeddings; none: WORKBENCH_CACHE, or the user's cache"""

    @property
    def compares_after_mlp(self) -> bool:
        """Whether the lists of the consistency follow the tanh layer."""
        consistency = self.consistency_after_mlp
        return self.lists_after_mlp if consistency is None else consistency

    @property
    def dropout_views(self) -> bool:
        # The teachers' lists need no two different views of a sentence.
        return bool(self.info_nce or self.beta) and super().dropout_views

    @property
    def has_terms(self) -> bool:
        """Whether there is a loss at all."""
        return bool(self.info_nce or self.beta or self.gamma)

    @property
    def checkpoints(self) -> list[str]:
        return [*super().checkpoints, *(self.teachers if self.gamma else [])]

    @property
    def weights(self) -> list[float]:
        """alpha of each teacher: teacher_weights, or the paper's."""
        count = len(self.teachers)
        paper = [1 / 3, 1 - 1 / 3] if count == 2 else [1 / count] * count
        return paper if self.teacher_weights is None else self.teacher_weights

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> "RankCSEConfig":
        weights = self.weights
        if len(weights) != len(self.teachers) or min(weights) < 0 or abs(sum(weights) - 1) > 1e-6:
            raise ValueError(
                f"teacher_weights {weights}: give one share >= 0 per teacher, with sum 1"
            )
        for name in ("teacher_pooling", "teacher_template"):
            for teacher in sorted(set(getattr(self, name)) - set(self.teachers)):
                known = ", ".join(self.teachers)
                raise ValueError(f"{name}: {teacher!r} is not one of the teachers {known}")
        if not self.has_terms:
            raise ValueError(
                "info_nce is false and all weights (beta, gamma, ...) are 0; set one, there is no "
                "loss"
            )
        return self
