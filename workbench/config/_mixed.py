"""Settings of the methods' terms in one loss."""

from typing import Annotated, Any, ClassVar, Literal

import pydantic
from annotated_types import Ge, Le

from workbench.config._compcse import CompCSEConfig, Compose
from workbench.config._machinery import Count, NonNegative
from workbench.config._rankcse import RankCSEConfig
from workbench.config._rankencoder import RankEncoderConfig
from workbench.config._simcse import SimCSEConfig
from workbench.config._training import DEMO


class MixedConfig(CompCSEConfig, RankCSEConfig, RankEncoderConfig):
    """Terms of CompCSE, RankCSE, RankEncoder and CoSENT together; the defaults leave SimCSE alone.

    No paper has it: its "paper" profiles are SimCSE's settings of the papers' backbones.
    """

    method: ClassVar[str] = "mixed"
    outside_digest: ClassVar[frozenset[str]] = RankCSEConfig.outside_digest | RankEncoderConfig.outside_digest
    profiles: ClassVar[dict[str, dict[str, Any]]] = {
        **SimCSEConfig.profiles,
        "demo": {**DEMO, "compose": "positive", "gamma": 1.0, "teachers": ["world-teacher"]},
    }

    compose: Compose = "none"
    """what is composed of the parts (CompCSE); none: two dropout views are each other's positive"""
    subvector: Count | None = None
    """the losses over lists read the first so many coordinates; none: all"""
    beta: NonNegative = 0.0
    """weight of the two views' consistency (RankCSE)"""
    gamma: NonNegative = 0.0
    """weight of the distillation of the teachers' lists (RankCSE), by the loss that `ranking` names"""
    rank_lists: NonNegative = 0.0
    """weight of the same loss with lists of rank similarities under E1 for those of the teachers"""
    rank_weight: NonNegative = 0.0
    """weight of the squared distance to the rank similarities under E1 (RankEncoder)"""
    combination: Literal["max", "sum"] = "sum"
    """of infoNCE and the squared distance to rank similarities; max: RankEncoder eq. 5"""
    inference_weight: Annotated[float, Ge(0), Le(1)] = 0.0
    """share of the rank similarity at test (RankEncoder eq. 7)"""
    cosent: NonNegative = 0.0
    """weight of CoSENT over the pairs of a batch, scale cosent_scale; needs scored pairs to train on"""

    @property
    def ranked(self) -> bool:
        """Whether E1 and a corpus are needed in training or at test."""
        return bool(self.rank_lists or self.rank_weight or self.inference_weight)

    @property
    def listed(self) -> bool:
        """Whether a term reads the scores of one view of the batch with the other."""
        return bool(self.info_nce or self.beta or self.gamma or self.rank_lists or self.rank_weight)

    @property
    def train_kinds(self) -> tuple[str, ...]:
        """Scored pairs where CoSENT reads gold; the other terms then make their lists of both sides' sentences."""
        return ("pairs",) if self.cosent else ("sentences",)

    @property
    def checkpoints(self) -> list[str]:
        """What training starts from, E1 where ranks count, teachers whose lists do."""
        start = RankEncoderConfig.checkpoints.__get__(self) if self._reads_e1 else [self.encoder]
        return list(dict.fromkeys([*start, *(self.teachers if self.gamma else [])]))

    @property
    def runs_needed(self) -> list[tuple[str, str]]:
        """E1, where it counts and `base` names a method."""
        return super().runs_needed if self._reads_e1 else []

    @property
    def _reads_e1(self) -> bool:
        return self.ranked or self.start == "base"

    @property
    def dropout_views(self) -> bool:
        """Whether dropout alone makes the two views of a sentence differ."""
        return self.listed and super().dropout_views

    @property
    def has_loss(self) -> bool:
        """Whether a term is left."""
        return bool(self.listed or self.cosent)

    @pydantic.model_validator(mode="after")
    def _terms_fit(self) -> "MixedConfig":
        if self.pooling == "mask":
            raise ValueError("pooling 'mask': parts of a sentence stand in no template; choose another pooling")
        if self.combination == "max" and not (self.info_nce and self.rank_weight):
            raise ValueError("combination 'max' is of info_nce and rank_weight; set both, or combination=sum")
        if self.cosent and (self.compose not in ("none", "positive") or self.subsampling != "none"):
            raise ValueError(
                f"cosent reads whole sentences, a row each: compose is {self.compose!r} and subsampling "
                f"{self.subsampling!r}; set compose=none or positive, and subsampling=none"
            )
        return self
