"""Settings of RankCSE."""

from typing import Annotated, Any, Literal

import pydantic
from annotated_types import Ge, MinLen

from workbench.config._machinery import Also, Fraction, NonNegative, Positive, Source, Unit
from workbench.config._training import DEMO, BatchSize, ContrastiveConfig, EncoderName, Folder, Pooling

_BERT_TEACHERS = ["princeton-nlp/unsup-simcse-bert-base-uncased", "princeton-nlp/unsup-simcse-bert-large-uncased"]
_ROBERTA_TEACHERS = ["princeton-nlp/unsup-simcse-roberta-base", "princeton-nlp/unsup-simcse-roberta-large"]
Ranking = Literal["listnet", "listmle", "cosent"]


def _table_9(encoder: str, ranking: str, rate: float, tau_2: float = 0.025, tau_3: float = 0.0125) -> dict[str, Any]:
    """Return a column of RankCSE table 9; only ListNet uses tau_3."""
    teachers = _ROBERTA_TEACHERS if encoder.startswith("roberta") else _BERT_TEACHERS
    values = {"encoder": encoder, "ranking": ranking, "learning_rate": rate, "teachers": teachers}
    return {**values, "student_temperature": tau_2, "teacher_temperature": tau_3}


class RankCSEConfig(ContrastiveConfig):
    """RankCSE; the defaults are the paper's settings of BERT-base with ListNet (tables 2 and 9)."""

    method = "rankcse"
    added = ContrastiveConfig.added | {"consistency_after_mlp"}
    profiles = {
        "paper": _table_9("bert-base-uncased", "listnet", 3e-5, 0.025, 0.0125),
        "paper-listmle": _table_9("bert-base-uncased", "listmle", 2e-5, 0.05),
        "paper-bert-large": _table_9("bert-large-uncased", "listnet", 3e-5, 0.05, 0.025),
        "paper-bert-large-listmle": _table_9("bert-large-uncased", "listmle", 2e-5, 0.05),
        "paper-roberta-base": _table_9("roberta-base", "listnet", 2e-5, 0.05, 0.025),
        "paper-roberta-base-listmle": _table_9("roberta-base", "listmle", 3e-5, 0.05),
        "paper-roberta-large": _table_9("roberta-large", "listnet", 3e-5, 0.025, 0.0125),
        "paper-roberta-large-listmle": _table_9("roberta-large", "listmle", 3e-5, 0.025),
        # CoSENT table III: "the original settings of RankCSE" with CoSENT in the place of the ranking loss.
        "paper-cosent": _table_9("bert-base-uncased", "cosent", 2e-5),
        # The script of the public re-implementation.
        "community": {
            **_table_9("bert-base-uncased", "listmle", 3e-5, 0.05),
            "teachers": ["voidism/diffcse-bert-base-uncased-sts", _BERT_TEACHERS[1]],
            "teacher_weights": [0.33, 0.67],
            "consistency": "entropy",
            "temperatures": "community",
            "lists_after_mlp": True,
            "epochs": 1,
            "warmup": 0.0,
        },
        # The world's dev shows no clear difference between above and below the layer (docs/results.md).
        "demo": {**DEMO, "teachers": ["world-teacher"], "batch_size": 64, "lists_after_mlp": True},
    }

    batch_size: Annotated[BatchSize, Source("RankCSE table 9")] = 128
    epochs: Annotated[Positive, Unit("epochs"), Source("RankCSE app. A")] = 4.0
    warmup: Annotated[Fraction, Source("RankCSE app. A")] = 0.05
    temperature: Annotated[Positive, Source("RankCSE table 9")] = 0.05
    """tau_1 of infoNCE and of the consistency; divides the cosines"""
    lists_after_mlp: bool = False
    """the student's lists are made of the vectors of infoNCE; false: of those before the tanh layer, better on dev"""
    consistency_after_mlp: bool | None = None
    """the same of the lists that the consistency compares; none: the lists of the ranking loss"""
    info_nce: Annotated[bool, Source("RankCSE table 4")] = True
    """the contrastive term"""
    beta: Annotated[NonNegative, Source("RankCSE app. A")] = 1.0
    """weight of the consistency of the two views"""
    consistency: Annotated[Literal["js", "entropy"], Source("RankCSE eq. 2")] = "js"
    """loss between the two views' lists; entropy: what the public code computes instead of eq. 2"""
    gamma: Annotated[NonNegative, Source("RankCSE app. A")] = 1.0
    """weight of the ranking distillation"""
    ranking: Annotated[Ranking, Source("RankCSE eqs. 4, 5; CoSENT table III")] = "listnet"
    """the loss that distils the teacher's lists"""
    positive: Annotated[Literal["paper", "kept", "dropped"], Source("RankCSE eq. 5, footnote 1")] = "paper"
    """whether a sentence is in its own list; paper: ListMLE keeps it, the others drop it"""
    student_temperature: Annotated[Positive, Source("RankCSE table 9")] = 0.025
    """tau_2 of the student's lists; divides the cosines"""
    teacher_temperature: Annotated[Positive, Source("RankCSE table 9")] = 0.0125
    """tau_3 of the teacher's lists, ListNet only; divides the cosines"""
    temperatures: Annotated[Literal["paper", "community"], Source("RankCSE eqs. 4, 5")] = "paper"
    """community: as in the public code, tau_1 for the student's lists and tau_2 for the teacher's"""
    cosent_scale: Annotated[Positive, Source("CoSENT sec. IV-C")] = 20.0
    """lambda of CoSENT on lists; multiplies the cosines"""
    teachers: Annotated[list[EncoderName], MinLen(1), Source("RankCSE app. A")] = _BERT_TEACHERS
    """frozen encoders whose lists are distilled: folders of finished runs, other folders, bundled names, hub ids"""
    teacher_weights: Annotated[list[float] | None, Source("RankCSE sec. 4.4, app. A")] = None
    """shares of the teachers in S^T, sum 1; none: 1 for one, alpha = 1/3 and 2/3 for two, equal for more"""
    teacher_pooling: dict[EncoderName, Pooling] = {}
    """teacher -> pooling, instead of that of its files or name"""
    teacher_template: dict[EncoderName, str] = {}
    """teacher -> template, for pooling mask"""
    teacher_max_seq_length: Annotated[int | None, Ge(3), Unit("tokens"), Also("teacher_max_tokens")] = 32
    """teachers cut sentences here, specials included, as the student does; none: never"""
    cache: Folder | None = None
    """folder of cached teacher embeddings; none: WORKBENCH_CACHE, or the user's cache"""

    @property
    def after_mlp(self) -> tuple[bool, bool]:
        """Whether the ranking loss's lists, and those of the consistency, are read after the train-only layer."""
        after = self.lists_after_mlp
        return after, after if self.consistency_after_mlp is None else self.consistency_after_mlp

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
            raise ValueError(f"teacher_weights {weights}: give one share >= 0 per teacher, with sum 1")
        for name in ("teacher_pooling", "teacher_template"):
            if unknown := sorted(set(getattr(self, name)) - set(self.teachers)):
                raise ValueError(f"{name}: {unknown[0]!r} is not one of the teachers {', '.join(self.teachers)}")
        if not self.has_terms:
            raise ValueError(
                "info_nce is false and all weights (beta, gamma, ...) are 0; set one, there is no loss"
            )
        return self
