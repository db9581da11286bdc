"""Settings of what is evaluated as it is: an encoder that lies somewhere, and the bases that papers compare with."""

from typing import Annotated, Any, ClassVar, Literal

import pydantic
from annotated_types import Ge

from workbench.config._machinery import Count, Settings, Source, Unit
from workbench.config._training import SEVEN_STS, EncoderName, Pooling, SetName, Suites

_DEMO: dict[str, Any] = {"encoder": "world-encoder", "fit_on": "world", "suites": ["world-test"]}


class BaseConfig(Settings):
    """A pooling of a pretrained encoder, its whitening, its static word embeddings, or tf-idf."""

    method: ClassVar[str] = "base"
    profiles: ClassVar[dict[str, dict[str, Any]]] = {
        "as-it-is": {},
        "first-last": {"pooling": "first_last"},
        "embedding-last": {"pooling": "embedding_last"},
        "cls": {"pooling": "cls"},
        "mean": {"pooling": "mean"},
        "prompt": {"pooling": "mask", "template": 'This sentence : "{sentence}" means [MASK].'},
        "whitening": {"kind": "whitening", "pooling": "first_last", "width": 256},
        "whitening-large": {
            "kind": "whitening",
            "encoder": "bert-large-uncased",
            "pooling": "first_last",
            "width": 384,
        },
        "static": {"kind": "static"},
        "tfidf": {"kind": "tfidf"},
        "demo": {**_DEMO, "kind": "pooling", "pooling": "cls"},
        "demo-whitening": {**_DEMO, "kind": "whitening", "pooling": "first_last", "width": 64},
        "demo-static": {**_DEMO, "kind": "static"},
        "demo-tfidf": {**_DEMO, "kind": "tfidf"},
    }

    profile: str = "as-it-is"
    """which set of values the settings start from"""
    kind: Literal["pooling", "whitening", "static", "tfidf"] = "pooling"
    """what the embedding is: pooled hidden states, those whitened, word embeddings, or word counts"""
    encoder: EncoderName = "bert-base-uncased"
    """bundled name, local folder (of a finished run: its encoder) or hub id; tfidf has none"""
    pooling: Pooling | None = None
    """how token states become one vector; none: as the checkpoint or its published name says"""
    template: Annotated[str | None, Source("PromptBERT sec. 4")] = None
    """for pooling mask: the text around a sentence, with {sentence} and [MASK]; none: the checkpoint's, or that of its
    published name"""
    width: Annotated[Count | None, Unit("coordinates"), Source("BERT-whitening: 256 base, 384 large")] = None
    """k: coordinates kept by whitening; none: every direction in which the sentences vary"""
    fit_on: SetName = "wiki1m"
    """sentences that whitening and tfidf are fitted on: a catalogue name or a file"""
    fit_limit: Annotated[int | None, Ge(2), Unit("sentences")] = 100_000
    """a seeded sample of so many; none: all"""
    words: Annotated[Count | None, Unit("words")] = None
    """tfidf keeps the so many most frequent words; none: all"""
    revision: str | None = None
    """git revision of a hub id"""
    suites: Suites = SEVEN_STS
    """what it is evaluated on: scored pairs, and transfer tasks (mr, cr, subj, mpqa, sst2, trec, mrpc)"""
    classifier: Literal["sklearn", "senteval"] = "sklearn"
    """of transfer tasks: scikit-learn's logistic regression, or SentEval's own, of which published accuracies are"""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """as in training; whitening itself is float64"""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """where to compute; auto takes the best there is"""

    @property
    def runs_needed(self) -> list[tuple[str, str]]:
        """The trainings that must come first: none by name."""
        return []

    @pydantic.model_validator(mode="after")
    def _fits(self) -> "BaseConfig":
        owners = {"width": ("kind", "whitening"), "template": ("pooling", "mask"), "words": ("kind", "tfidf")}
        for name, (owner, wanted) in owners.items():
            if getattr(self, name) is not None and (given := getattr(self, owner)) != wanted:
                raise ValueError(f"{name} belongs to {owner} {wanted!r}, and {owner} is {given!r}; leave {name} out")
        return self
