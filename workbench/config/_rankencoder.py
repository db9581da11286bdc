"""Settings of RankEncoder."""

from typing import Annotated, Any, ClassVar, Literal

import pydantic
from annotated_types import Ge, Le, Lt, MinLen

from workbench.config._machinery import NonNegative, Positive, Source, Unit
from workbench.config._training import DEMO, ContrastiveConfig, Folder, Pooling, SetName, whole_encoder

# PromptBERT cuts the sentence at 32 tokens and wraps it then: ten more with the template.
_PROMPTBERT = {
    "base": "royokong/unsup-PromptBERT",
    "pooling": "mask",
    "template": 'This sentence of "{sentence}" means [MASK].',
    "second_template": 'This sentence : "{sentence}" means [MASK].',
    "max_tokens": 42,
    "batch_size": 256,
    "learning_rate": 1e-5,
}
# SNCSE fits sentence and template into 32 tokens. Its checkpoint is offered for download only: unpack it into a folder
# of this name, or name your own.
_SNCSE = {
    "base": "sncse-bert-base-uncased",
    "pooling": "mask",
    "template": 'This sentence : " {sentence} " means [MASK] .',
    "second_template": 'This sentence of " {sentence} " means [MASK] .',
    "batch_size": 256,
    "learning_rate": 1e-5,
}
# What two of the three released scripts run instead of eqs. 5 and 6 with tau_u = 0.8.
_WEIGHTED_SUM = {"combination": "sum", "upper": 0.9999, "corpus_size": 10_000, "corpus_seed": 42}


def _own_simcse(profile: str) -> dict[str, str]:
    """E1 is the run of SimCSE of this seed."""
    return {"base": "simcse", "base_profile": profile}


class RankEncoderConfig(ContrastiveConfig):
    """RankEncoder; the defaults are the paper's settings with the published SimCSE of BERT-base as E1.

    The paper repeats each trial from the base on (table 4), so its own profiles have E1 trained anew for each seed.
    """

    method: ClassVar[str] = "rankencoder"
    outside_digest: ClassVar[frozenset[str]] = ContrastiveConfig.outside_digest | {"cache", "base_root"}
    profiles: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": _own_simcse("paper"),
        "paper-promptbert": _PROMPTBERT,
        "paper-sncse": _SNCSE,
        # The paper has BERT-base alone; these follow SimCSE's own settings, as sec. 4.3 says it follows its base.
        "paper-bert-large": {
            "encoder": "bert-large-uncased",
            **_own_simcse("paper-bert-large"),
            "learning_rate": 1e-5,
        },
        "paper-roberta-base": {
            "encoder": "roberta-base",
            **_own_simcse("paper-roberta-base"),
            "batch_size": 512,
            "learning_rate": 1e-5,
        },
        "paper-roberta-large": {
            "encoder": "roberta-large",
            **_own_simcse("paper-roberta-large"),
            "batch_size": 512,
            "learning_rate": 3e-5,
        },
        "scripts-simcse": _WEIGHTED_SUM,
        "scripts-promptbert": {**_PROMPTBERT, "corpus_size": 10_000, "corpus_seed": 42},
        "scripts-sncse": {**_SNCSE, **_WEIGHTED_SUM, "batch_size": 128, "precision": "fp32"},
        "demo": {**DEMO, "base": "simcse", "corpus_size": 10_000, "combination": "sum", "rank_weight": 100.0},
    }

    base: Annotated[str, MinLen(1), Source("RankEncoder sec. 4.1")] = "princeton-nlp/unsup-simcse-bert-base-uncased"
    """E1, whose rank vectors are the targets: folder of a finished run, other folder, bundled name, hub id, or the
    name of a method: its run of base_profile and of this seed"""
    base_profile: str = "demo"
    """profile of E1's run when base names a method"""
    base_root: Folder | None = None
    """folder of runs in which a base that is named by its method is looked for"""
    base_pooling: Pooling | None = None
    """pooling of E1; none: what its files or its name say"""
    base_template: str | None = None
    """template of E1 for pooling mask; none: what its files or its name say"""
    base_max_tokens: Annotated[int | None, Ge(3), Unit("tokens")] = 32
    """E1 reads training and corpus sentences up to here, specials included; none: whole"""
    start: Annotated[Literal["backbone", "base"], Source("RankEncoder footnote 2")] = "backbone"
    """where E2 starts: the setting encoder, or E1 itself (slightly worse in the paper)"""
    corpus: SetName | None = None
    """sentences that are ranked: a catalogue name or a file; none: those of the training set"""
    corpus_size: Annotated[int, Ge(2), Unit("sentences"), Source("RankEncoder sec. 4.1")] = 100_000
    """n: so many distinct sentences are drawn"""
    corpus_seed: Annotated[int, Ge(0), Lt(2**31)] = 0
    """seed of that draw; the run's own seed does not change the corpus"""
    similarity: Annotated[Literal["exact", "gaussian"], Source("RankEncoder eqs. 2, 3")] = "exact"
    """similarity of rank vectors: exact ranks, or the closed form from the corpus' covariance (ours)"""
    ranks: Literal["step", "stored"] = "step"
    """exact training targets: ranked batch by batch, or all training sentences once before the first step, kept in
    memory in half precision (2 bytes a training sentence and corpus sentence)"""
    combination: Annotated[Literal["max", "sum"], Source("RankEncoder eq. 5")] = "max"
    """of the two losses; sum: what the released scripts for SimCSE and SNCSE run"""
    rank_weight: Annotated[NonNegative, Source("RankEncoder sec. 4.3")] = 0.05
    """lambda_train, weight of the rank loss"""
    lower: Annotated[float | None, Ge(-1), Le(1), Source("RankEncoder sec. 4.3")] = 0.5
    """tau_l: pairs below this rank similarity are left out; none: no bound"""
    upper: Annotated[float | None, Ge(-1), Le(1), Source("RankEncoder sec. 4.3")] = 0.8
    """tau_u: pairs above it are left out; none: no bound"""
    inference_weight: Annotated[float, Ge(0), Le(1), Source("RankEncoder sec. 4.3")] = 0.1
    """lambda_inf: share of the rank similarity at test"""
    temperature: Annotated[Positive, Source("SimCSE eq. 4; RankEncoder eq. 1")] = 0.05
    """tau of the contrastive loss; divides the cosines"""
    template: Annotated[str | None, Source("PromptBERT sec. 4")] = None
    """for pooling mask: what E2 reads at test and as first view"""
    second_template: Annotated[str | None, Source("PromptBERT sec. 4")] = None
    """for pooling mask: the second view; none: the first one's template again"""
    cache: Folder | None = None
    """folder of E1's cached embeddings; none: WORKBENCH_CACHE, else the user's cache"""

    @property
    def dropout_views(self) -> bool:
        """Whether dropout alone makes the two views of a sentence differ: unless they have two templates."""
        return self.second_template in (None, self.template)

    @property
    def data_sets(self) -> dict[str, tuple[list[str], tuple[str, ...]]]:
        """With the corpus, where it is a set of its own."""
        return super().data_sets | ({} if self.corpus is None else {"corpus": ([self.corpus], ("sentences",))})

    @property
    def checkpoints(self) -> list[str]:
        """What E2 starts from and E1; a run of a method is looked for, and made, by the notebook."""
        start = [self.encoder] if self.start == "backbone" else []
        return start if _names_method(self.base) else [*start, self.base]

    @property
    def runs_needed(self) -> list[tuple[str, str]]:
        """E1, where `base` names a method."""
        return [(self.base, self.base_profile)] if _names_method(self.base) else []

    def require_pooling(self, saved: Pooling | None) -> None:
        """Raises SettingError as of every training; a start at E1 is read as E1 is, whatever the setting says."""
        if self.start == "backbone":
            super().require_pooling(saved)

    @pydantic.field_validator("base")
    @classmethod
    def _named_from_the_root(cls, base: str) -> str:
        return base if _names_method(base) else whole_encoder(base)

    @pydantic.model_validator(mode="after")
    def _bounds_and_templates(self) -> "RankEncoderConfig":
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(f"lower {self.lower} is above upper {self.upper}; no pair lies between: swap them")
        if (self.pooling == "mask") != (self.template is not None):
            raise ValueError(
                f"pooling {self.pooling!r} with template {self.template!r}: pooling 'mask' needs a template such as "
                "'This sentence of \"{sentence}\" means [MASK].', every other pooling has none"
            )
        if self.second_template is not None and self.template is None:
            raise ValueError("second_template is of the second view of pooling 'mask'; give template as well")
        return self


def _names_method(name: str) -> bool:
    """Whether `name` is that of a method of this workbench, and so of a kind of run."""
    from workbench.config import CONFIGS

    return name in CONFIGS
