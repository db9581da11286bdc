"""Settings of RankEncoder."""

from typing import Annotated, Literal

import pydantic
from annotated_types import MinLen

from workbench.config._settings import (
    Cosine,
    Cut,
    NonNegative,
    Positive,
    Seed,
    Share,
)
from workbench.config._training import (
    AtLeastTwo,
    ContrastiveConfig,
    DataSets,
    LocalPath,
    Pooling,
    SetName,
    TrainingConfig,
    whole_encoder,
)


class RankEncoderConfig(ContrastiveConfig):
    """RankEncoder; the defaults are the paper's, with the published SimCSE of BERT-base as E1."""

    method = "rankencoder"

    base: Annotated[str, MinLen(1)] = "princeton-nlp/unsup-simcse-bert-base-uncased"
    """E1, whose rank vectors are the targets: folder of a run or encoder, bundled name, hub id, or
    name of a method [RankEncoder sec. 4.1]"""
    base_profile: str = "demo"
    """profile of E1's run, with this seed, when base names a method"""
    base_root: LocalPath | None = None
    """folder of runs that contains E1's run when base names a method"""
    base_pooling: Pooling | None = None
    """pooling of E1; none: that of its files or name"""
    base_template: str | None = None
    """template of E1 for pooling mask; none: that of its files or name"""
    base_max_seq_length: Cut | None = 32
    """(tokens) E1 cuts training and corpus sentences here, specials included; none: never; st: and
    static encoders read as their own files say"""
    start: Literal["backbone", "base"] = "backbone"
    """start of E2: the setting encoder, or E1, read as E1 is: encoder, pooling and template have no
    effect then (slightly worse in the paper) [RankEncoder footnote 2]"""
    corpus: SetName | None = None
    """sentences that are ranked: a catalogue name or a file; none: those of the training set"""
    corpus_size: AtLeastTwo = 100_000
    """(sentences) n: number of distinct sentences that are drawn [RankEncoder sec. 4.1]"""
    corpus_seed: Seed = 0
    """seed of that draw; the run's own seed does not change the corpus"""
    similarity: Literal["exact", "gaussian"] = "exact"
    """similarity of rank vectors: exact ranks, or the closed form from the corpus' covariance
    (ours) [RankEncoder eqs. 2, 3]"""
    ranks: Literal["step", "stored"] = "step"
    """exact targets are computed for each batch, or stored before the first step (2 bytes x
    training x corpus size); of the exact similarity only"""
    combination: Literal["max", "sum"] = "max"
    """of the two losses; sum: as in the released scripts for SimCSE and SNCSE [RankEncoder eq.
    5]"""
    rank_weight: NonNegative = 0.05
    """lambda_train, weight of the rank loss [RankEncoder sec. 4.3]"""
    lower: Cosine | None = 0.5
    """tau_l: pairs below this rank similarity are left out; none: no bound [RankEncoder sec.
    4.3]"""
    upper: Cosine | None = 0.8
    """tau_u: pairs above it are left out; none: no bound [RankEncoder sec. 4.3]"""
    inference_weight: Share = 0.1
    """lambda_inf: share of the rank similarity at test [RankEncoder sec. 4.3]"""
    temperature: Positive = 0.05
    """[SimCSE eq. 4; RankEncoder eq. 1]"""
    template: str | None = None
    """for pooling mask: the template of E2 at test and of the first view [PromptBERT sec. 4]"""
    second_template: str | None = None
    """for pooling mask: the template of the second view; none: the same [PromptBERT sec. 4]"""
    cache: LocalPath | None = None
    """folder of E1's cached embeddings; none: WORKBENCH_CACHE, or the user's cache"""

    @property
    def dropout_views(self) -> bool:
        return self.second_template in (None, self.template)

    @property
    def data_sets(self) -> DataSets:
        sets = super().data_sets
        if self.corpus is not None:
            sets["corpus"] = ([self.corpus], ("sentences",))
        return sets

    @property
    def reads_e1(self) -> bool:
        """Whether E1 and its corpus are needed."""
        return True

    @property
    def checkpoints(self) -> list[str]:
        start = super().checkpoints if self.start == "backbone" else []
        reads_base = self.reads_e1 and _settings_of(self.base) is None
        return [*start, self.base] if reads_base else start

    @property
    def runs_needed(self) -> list[TrainingConfig]:
        base = _settings_of(self.base) if self.reads_e1 else None
        return [base.from_parameters(self.base_profile, self.seed)] if base else []

    def require_pooling(self, own: Pooling | None) -> None:
        if self.start == "backbone":  # E1 keeps its own pooling
            super().require_pooling(own)

    @pydantic.field_validator("base")
    @classmethod
    def _named_from_the_root(cls, base: str) -> str:
        return base if _settings_of(base) else whole_encoder(base)

    @pydantic.model_validator(mode="after")
    def _bounds_and_templates_fit(self) -> "RankEncoderConfig":
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(
                f"lower {self.lower} is above upper {self.upper}; no pair is between them"
            )
        is_mask = self.pooling == "mask"
        if is_mask != bool(self.template) or (self.second_template and not is_mask):
            raise ValueError(
                f"pooling {self.pooling!r} with template {self.template!r}: 'mask' needs one, and "
                "no other pooling has one or a second_template"
            )
        return self


def _settings_of(name: str) -> type[TrainingConfig] | None:
    """Return the settings' class of the method of this name, None for any other name."""
    from workbench.config import CONFIGS

    return CONFIGS.get(name)
