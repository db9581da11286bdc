"""Settings of CoSENT and of the supervised losses that its paper compares."""

from typing import Annotated, Literal

import pydantic

from workbench.config._settings import Cosine, Cut, Positive, Value
from workbench.config._training import (
    AtLeastTwo,
    Kinds,
    Pooling,
    SetName,
    Suites,
    SupervisedConfig,
)


class CoSENTConfig(SupervisedConfig):
    """CoSENT and its baselines; the defaults are the published settings of supervised training."""

    method = "cosent"
    added = SupervisedConfig.added | {"rank_temperature"}

    architecture: Annotated[Literal["bi-encoder", "cross-encoder"], Value] = "bi-encoder"
    """bi-encoder: cosine of two sentence vectors; cross-encoder: a score of both sentences together
    (interaction) [CoSENT fig. 2]"""
    objective: Literal[
        "cosent", "mse", "softmax", "contrastive", "triplet", "cross_entropy", "pearson", "rank_kl"
    ] = "cosent"
    """the loss; cross_entropy needs architecture=cross-encoder, all others but cosent the other;
    pearson follows the values of gold, rank_kl their ranks [CoSENT eqs. 2, 4-6, 10, 11; Pcc-tuning;
    CoDiEmb]"""
    scale: Positive = 20.0
    """lambda, multiplies score differences [CoSENT sec. IV-C]"""
    rank_temperature: Positive = 0.05
    """rank_kl: tau; divides the cosines and the ranks of gold"""
    interaction_scale: Literal["paper", "code"] = "paper"
    """lambda of a cross-encoder; paper: scale, as in eq. 11; code: 1, as in both published codes
    [CoSENT eq. 11]"""
    epsilon: Cosine = 0.0
    """contrastive: the cosine to which dissimilar pairs decrease; paper's form: at least 0
    [CoSENT sec. V-H]"""
    contrastive_form: Literal["paper", "hinge"] = "paper"
    """loss of a dissimilar pair; paper: max(epsilon, cos)^2; hinge: max(0, cos - epsilon)^2, as in
    published code [CoSENT eq. 2]"""
    threshold: float | None = None
    """contrastive and triplet: pairs with gold above it are similar; none: the middle of the range
    [CoSENT code]"""
    margin: Positive = 1.0
    """triplet: epsilon, by how much the negative must be farther [SBERT sec. 3]"""
    softmax_labels: Literal["whole", "nearest", "floor"] = "whole"
    """softmax: classes of graded gold; whole: an error, nearest: rounded, floor: cut off as in
    published code [CoSENT sec. V-B]"""
    softmax_bias: bool = False
    """softmax: a bias in addition to W, as in sentence-transformers [CoSENT eq. 5]"""

    max_seq_length: Cut = 512
    """(tokens) training sentences (cross-encoder: both together) are cut at this length [CoSENT
    code]"""
    train: SetName = "stsb-train"
    """training pairs (triplet: triplets too): a name or a file [CoSENT tab. II]"""
    suites: Suites = ["stsb-test"]
    """scored pairs reported at the end [CoSENT tab. IV]"""
    batch_size: AtLeastTwo = 16
    """(pairs) pairs per step, over all processes [CoSENT sec. IV-C]"""

    @property
    def train_kinds(self) -> Kinds:
        return ("pairs", "triplets") if self.objective == "triplet" else ("pairs",)

    def require_pooling(self, own: Pooling | None) -> None:
        if self.architecture == "bi-encoder":  # a cross-encoder does not pool
            super().require_pooling(own)

    @pydantic.model_validator(mode="after")
    def _architecture_has_objective(self) -> "CoSENTConfig":
        is_cross_encoder = self.architecture == "cross-encoder"
        needs_cross_encoder = self.objective == "cross_entropy"
        if self.objective != "cosent" and is_cross_encoder != needs_cross_encoder:
            raise ValueError(
                f"objective {self.objective!r} needs another architecture than "
                f"{self.architecture!r}"
            )
        return self
