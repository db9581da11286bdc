"""Settings of models that are evaluated as they are: an encoder, or a baseline of the papers."""

from typing import Literal

import pydantic

from workbench.config._settings import Count, FileColumns, Settings
from workbench.config._training import (
    SEVEN_STS,
    AtLeastTwo,
    DataSets,
    EncoderName,
    Pooling,
    SetName,
    Suites,
)


class BaselineConfig(Settings):
    """A pooling of a pretrained encoder, its whitening, its static word embeddings, or tf-idf."""

    method = "base"

    profile: str = "as-it-is"
    kind: Literal["pooling", "whitening", "static", "tfidf"] = "pooling"
    """the embedding: pooled hidden states, the same whitened, word embeddings, or word counts"""
    encoder: EncoderName = "bert-base-uncased"
    """bundled name, local folder (of a finished run: its encoder) or hub id; tfidf has none"""
    pooling: Pooling | None = None
    """how token states become one vector; none: that of the checkpoint or of its published name,
    otherwise cls"""
    template: str | None = None
    """for pooling mask: the text around a sentence, with {sentence} and [MASK]; none: the
    checkpoint's [PromptBERT sec. 4]"""
    width: Count | None = None
    """(coordinates) k: coordinates kept by whitening; none: all in which the sentences vary
    [BERT-whitening: 256 base, 384 large]"""
    fit_on: SetName = "wiki1m"
    """sentences on which whitening and tfidf are fitted: a catalogue name or a file"""
    fit_limit: AtLeastTwo | None = 100_000
    """(sentences) size of a seeded sample of them; none: all"""
    words: Count | None = None
    """(words) most frequent words kept by tfidf; none: all"""
    revision: str | None = None
    """git revision of a hub id"""
    suites: Suites = SEVEN_STS
    """evaluation sets: scored pairs, and transfer tasks (mr, cr, subj, mpqa, sst2, trec, mrpc)"""
    columns: FileColumns = {}
    """role -> column of your own files, such as sentence1=left,score=grade; a file takes those that
    it has and guesses the others"""
    classifier: Literal["sklearn", "senteval"] = "sklearn"
    """of transfer tasks: scikit-learn's logistic regression, or SentEval's own, as in published
    accuracies"""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: fp32, so that scores are those of other libraries; whitening itself is float64"""

    @property
    def data_sets(self) -> DataSets:
        """Setting -> the datasets that it names and that are read, and the kinds it accepts."""
        sets: DataSets = {"suites": (self.suites, ("pairs", "transfer tasks"))}
        if self.kind in ("whitening", "tfidf"):
            sets["fit_on"] = ([self.fit_on], ("sentences",))
        return sets

    @pydantic.model_validator(mode="after")
    def _fits(self) -> "BaselineConfig":
        owners = {
            "width": ("kind", "whitening"),
            "template": ("pooling", "mask"),
            "words": ("kind", "tfidf"),
        }
        for name, (owner, value) in owners.items():
            chosen = getattr(self, owner)
            if getattr(self, name) is not None and chosen != value:
                raise ValueError(f"{name} belongs to {owner} {value!r}, and {owner} is {chosen!r}")
        return self
