"""Settings of CoSENT and of the supervised losses that its paper compares."""

from typing import Annotated, Any, Literal

import pydantic
from annotated_types import Ge, Le

from workbench.config._machinery import Also, Positive, Source, Unit, Value
from workbench.config._training import SEVEN_STS, Pooling, SetName, Suites, SupervisedConfig

Architecture = Annotated[Literal["bi-encoder", "cross-encoder"], Value]
Objective = Literal["cosent", "mse", "softmax", "contrastive", "triplet", "cross_entropy"]

_CHINESE = "bert-base-chinese"
_CHINESE_STS = [f"zh-{name}-test" for name in ("atec", "bq", "lcqmc", "pawsx", "stsb")]
# Trained on natural language inference, not on similarity: CoSENT tables III, V and IX, and the top half of VI.
_NLI: dict[str, Any] = {"pooling": "avg_first_last", "max_seq_length": 128, "batch_size": 64, "epochs": 1.0}
_DEMO: dict[str, Any] = {"max_seq_length": 32, "softmax_labels": "nearest", "epochs": 3.0, "learning_rate": 1e-3}
_DEMO |= {"pooling": "mean"}  # the name of its encoder says cls


def _trained_on(name: str, dev: str = "dev", **more: Any) -> dict[str, Any]:
    """Return settings for one dataset; without other settings, those of CoSENT tables IV, VI, VII and VIII."""
    return {"train": f"{name}-train", "dev": f"{name}-{dev}", "suites": [f"{name}-test"], "eval_steps": 1000, **more}


_ENGLISH_NLI = _trained_on("allnli", suites=SEVEN_STS, **_NLI)
_CHINESE_NLI = _trained_on("zh-nli", suites=_CHINESE_STS, encoder=_CHINESE, **_NLI)


class CoSENTConfig(SupervisedConfig):
    """CoSENT and its baselines; the defaults are the published settings of supervised training."""

    method = "cosent"
    profiles = {
        "paper": _ENGLISH_NLI,
        "paper-bert-large": {**_ENGLISH_NLI, "encoder": "bert-large-uncased"},
        "paper-roberta-base": {**_ENGLISH_NLI, "encoder": "roberta-base", "pooling": "cls"},
        "paper-roberta-large": {**_ENGLISH_NLI, "encoder": "roberta-large", "pooling": "cls"},
        "paper-stsb": _trained_on("stsb", eval_steps=360),
        "paper-sick": _trained_on("sick", dev="trial", eval_steps=282),
        "paper-paws": _trained_on("paws"),
        # SentEval's MRPC has no development part; the training part takes its place.
        "paper-mrpc": _trained_on("mrpc", dev="train", eval_steps=255),
        "paper-nli": _trained_on("allnli"),
        "paper-zh-nli": _CHINESE_NLI,
        "paper-zh-nli-roberta": {**_CHINESE_NLI, "encoder": "hfl/chinese-roberta-wwm-ext", "pooling": "cls"},
        "paper-zh-atec": _trained_on("zh-atec", encoder=_CHINESE),
        "paper-zh-bq": _trained_on("zh-bq", encoder=_CHINESE),
        "paper-zh-lcqmc": _trained_on("zh-lcqmc", encoder=_CHINESE),
        "paper-zh-pawsx": _trained_on("zh-pawsx", encoder=_CHINESE),
        "paper-zh-stsb": _trained_on("zh-stsb", encoder=_CHINESE, eval_steps=327),
        "demo": _trained_on("world", encoder="world-encoder", batch_size=32, eval_steps=50, save_steps=100, **_DEMO),
    }

    architecture: Annotated[Architecture, Source("CoSENT fig. 2"), Also("model")] = "bi-encoder"
    """bi-encoder: cosine of two sentence vectors; cross-encoder: a score of both sentences together (interaction)"""
    objective: Annotated[Objective, Source("CoSENT eqs. 2, 4-6, 10, 11")] = "cosent"
    """the loss; cross_entropy needs architecture=cross-encoder; mse, softmax, contrastive and triplet the other"""
    scale: Annotated[Positive, Source("CoSENT sec. IV-C")] = 20.0
    """lambda, multiplies score differences"""
    interaction_scale: Annotated[Literal["paper", "code"], Source("CoSENT eq. 11")] = "paper"
    """lambda of a cross-encoder; paper: scale, as in eq. 11; code: 1, as in both published codes"""
    epsilon: Annotated[float, Ge(-1), Le(1), Source("CoSENT sec. V-H")] = 0.0
    """contrastive: the cosine above which a dissimilar pair has a loss"""
    contrastive_form: Annotated[Literal["paper", "hinge"], Source("CoSENT eq. 2")] = "paper"
    """loss of a dissimilar pair; paper: max(epsilon, cos)^2; hinge: max(0, cos - epsilon)^2, as in published code"""
    threshold: Annotated[float | None, Source("CoSENT code")] = None
    """contrastive and triplet: pairs with gold above it are similar; none: the middle of the range"""
    margin: Annotated[Positive, Source("SBERT sec. 3.1")] = 1.0
    """triplet: epsilon, by how much the negative must be farther"""
    softmax_labels: Annotated[Literal["whole", "nearest", "floor"], Source("CoSENT sec. V-B")] = "whole"
    """softmax: classes of graded gold; whole: an error, nearest: rounded, floor: cut off as in published code"""
    softmax_bias: Annotated[bool, Source("CoSENT eq. 5")] = False
    """softmax: a bias in addition to W, as in sentence-transformers"""

    max_seq_length: Annotated[int, Ge(3), Unit("tokens"), Source("CoSENT code")] = 512
    """training sentences (cross-encoder: both together) are cut at this length"""
    train: Annotated[SetName, Source("CoSENT tab. II")] = "stsb-train"
    """training pairs (triplet: triplets too): a name or a file"""
    suites: Annotated[Suites, Source("CoSENT tab. IV")] = ["stsb-test"]
    """scored pairs reported at the end"""
    batch_size: Annotated[int, Ge(2), Unit("pairs"), Source("CoSENT sec. IV-C")] = 16
    """pairs per step, over all processes"""

    @property
    def train_kinds(self) -> tuple[str, ...]:
        return ("pairs", "triplets") if self.objective == "triplet" else ("pairs",)

    def require_pooling(self, own: Pooling | None) -> None:
        if self.architecture == "bi-encoder":  # a cross-encoder does not pool
            super().require_pooling(own)

    @pydantic.model_validator(mode="after")
    def _architecture_has_objective(self) -> "CoSENTConfig":
        if self.objective != "cosent" and (self.architecture == "cross-encoder") != (self.objective == "cross_entropy"):
            raise ValueError(f"objective {self.objective!r} needs another architecture than {self.architecture!r}")
        return self
