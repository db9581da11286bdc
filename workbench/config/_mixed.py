"""Settings of the methods' terms in one loss."""

from typing import Literal

import pydantic

from workbench.config._compcse import CompCSEConfig, Compose
from workbench.config._rankcse import RankCSEConfig
from workbench.config._rankencoder import RankEncoderConfig
from workbench.config._settings import Count, NonNegative, Share
from workbench.config._training import Kinds, Positives


class MixedConfig(CompCSEConfig, RankCSEConfig, RankEncoderConfig):
    """Loss terms of CompCSE, RankCSE, RankEncoder and CoSENT together.

    With the defaults it is SimCSE. It is of no paper: its "paper" profiles are SimCSE's settings of
    the papers' backbones.
    """

    method = "mixed"
    added = RankCSEConfig.added | {"positives", "crop_share"}

    positives: Positives = "dropout"
    """the two views of a sentence without compose; crop: two random runs of its words; not
    positive, which is of lists [SimCSE table 1]"""
    crop_share: Share = 0.5
    """crop: the least share of the words in a run [SimCSE table 1]"""
    compose: Compose = "none"
    subvector: Count | None = None
    beta: NonNegative = 0.0
    gamma: NonNegative = 0.0
    """weight of the distillation of the teachers' lists (RankCSE) with the loss `ranking`"""
    rank_lists: NonNegative = 0.0
    """weight of the same loss with lists of rank similarities under E1 in place of the teachers'"""
    rank_weight: NonNegative = 0.0
    """weight of the squared distance to the rank similarities under E1 (RankEncoder)"""
    combination: Literal["max", "sum"] = "sum"
    """of infoNCE and the squared distance to rank similarities; max: RankEncoder eq. 5"""
    inference_weight: Share = 0.0
    """[RankEncoder eq. 7]"""
    cosent: NonNegative = 0.0
    """weight of CoSENT over the pairs of a batch, scale cosent_scale; needs scored pairs to train
    on"""

    @property
    def uses_e1(self) -> bool:
        """Whether training or test needs E1 and a corpus."""
        return bool(self.rank_lists or self.rank_weight or self.inference_weight)

    @property
    def uses_scores(self) -> bool:
        """Whether a term reads the scores between the two views of a batch."""
        return bool(super().has_terms or self.rank_lists or self.rank_weight)

    @property
    def has_terms(self) -> bool:
        return self.uses_scores or bool(self.cosent)

    @property
    def train_kinds(self) -> Kinds:
        """The kinds of training set: scored pairs if CoSENT reads gold, otherwise sentences.

        With pairs, the lists of other terms are of the sentences of both sides."""
        return ("pairs",) if self.cosent else ("sentences",)

    @property
    def reads_e1(self) -> bool:
        return self.uses_e1 or self.start == "base"

    @property
    def dropout_views(self) -> bool:
        return (self.positives == "dropout" or self.crop_share == 1) and super().dropout_views

    @pydantic.model_validator(mode="after")
    def _terms_fit(self) -> "MixedConfig":
        if self.pooling == "mask":
            raise ValueError(
                "pooling 'mask' needs whole sentences in a template; choose another pooling"
            )
        if self.positives == "crop" and (self.compose != "none" or self.cosent):
            raise ValueError(
                "positives=crop gives both views of a sentence, but compose is "
                f"{self.compose!r} and cosent {self.cosent:g}; set compose=none and cosent=0"
            )
        if self.combination == "max" and not (self.info_nce and self.rank_weight):
            raise ValueError(
                "combination 'max' needs info_nce and rank_weight; set both, or combination=sum"
            )
        if self.cosent and (self.compose not in ("none", "positive") or self.subsampling != "none"):
            raise ValueError(
                "cosent reads whole sentences; set compose=none or positive, and subsampling=none"
            )
        return self
