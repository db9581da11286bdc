"""Settings of the bases that papers compare with: embeddings that nothing is trained for."""

from typing import Annotated, Any, ClassVar, Literal

import pydantic
from annotated_types import Ge

from workbench.config._machinery import Count, Settings, Source, Unit
from workbench.config._training import Pooling

_DEMO: dict[str, Any] = {"encoder": "world-encoder", "fit_on": "world"}


class BaseConfig(Settings):
    """A pooling of a pretrained encoder, its whitening, its static word embeddings, or tf-idf."""

    method: ClassVar[str] = "base"
    profiles: ClassVar[dict[str, dict[str, Any]]] = {
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

    kind: Literal["pooling", "whitening", "static", "tfidf"] = "pooling"
    """what the embedding is: pooled hidden states, those whitened, word embeddings, or word counts"""
    encoder: str = "bert-base-uncased"
    """bundled name, local folder or hub id; tfidf has none"""
    pooling: Pooling | None = None
    """how token states become one vector; none: as the checkpoint or its published name says"""
    template: Annotated[str | None, Source("PromptBERT sec. 4")] = None
    """for pooling mask: the text around a sentence, with {sentence} and [MASK]; none: the checkpoint's, or that of its
    published name"""
    width: Annotated[Count | None, Unit("coordinates"), Source("BERT-whitening: 256 base, 384 large")] = None
    """k: coordinates kept by whitening; none: every direction in which the sentences vary"""
    fit_on: str = "wiki1m"
    """sentences that whitening and tfidf are fitted on: a catalogue name or a file"""
    fit_limit: Annotated[int | None, Ge(2), Unit("sentences")] = 100_000
    """a seeded sample of so many; none: all"""
    words: Annotated[Count | None, Unit("words")] = None
    """tfidf keeps the so many most frequent words; none: all"""
    revision: str | None = None
    """git revision of a hub id"""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """as in training; whitening itself is float64"""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """where to compute; auto takes the best there is"""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> "BaseConfig":
        if self.width is not None and self.kind != "whitening":
            raise ValueError(f"width belongs to kind 'whitening', and kind is {self.kind!r}; leave width out")
        if self.template is not None and self.pooling != "mask":
            raise ValueError(f"template belongs to pooling 'mask', and pooling is {self.pooling!r}; leave template out")
        if self.words is not None and self.kind != "tfidf":
            raise ValueError(f"words belongs to kind 'tfidf', and kind is {self.kind!r}; leave words out")
        return self
