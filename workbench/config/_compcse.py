"""Settings of CompCSE."""

from typing import Annotated, Literal

import pydantic
from annotated_types import Ge, Le

from workbench.config._settings import Count, Positive
from workbench.config._training import ContrastiveConfig, LocalPath

Compose = Literal["positive", "anchor", "both", "none"]


class CompCSEConfig(ContrastiveConfig):
    """CompCSE; the defaults are the published settings of BERT-base."""

    method = "compcse"

    temperature: Positive = 0.05
    """[CompCSE eq. 1; value: SimCSE's]"""
    compose: Compose = "positive"
    """which sides of a pair are composed of parts; none: two dropout views, as SimCSE [CompCSE
    table 4; none: table 2, SimCSE]"""
    aggregation: Literal[
        "avg", "sum", "concat_halves", "concat_project", "concat_difference_project"
    ] = "avg"
    """how the parts' vectors become one [CompCSE table 3]"""
    partition: Literal["words", "tokens"] = "words"
    """units between which sentences are cut: whitespace words (our choice; characters of scripts
    without spaces), or the tokenizer's tokens [CompCSE sec. 3]"""
    parts: Annotated[int, Ge(2), Le(4)] = 2
    """(parts) pieces a sentence is cut into [CompCSE table 5]"""
    subsampling: Literal["none", "adjacent", "overlapping", "subsuming", "spans"] = "none"
    """further training texts made of a sentence's clauses [CompCSE sec. 3, table 2]"""
    subsuming_depth: Annotated[int, Ge(2), Le(3)] = 2
    """2: a sentence and its halves; 3: its halves and quarters [CompCSE's code]"""
    spans: LocalPath | None = None
    """a .tsv file of spans, for subsampling=spans"""
    keep_sentences: bool = True
    """the whole sentences stay in the training set in addition to the subsampled texts [CompCSE
    sec. 3 (expand)]"""
    mlp: Literal["after", "before", "none"] = "after"
    """position of the tanh layer of training, after or before aggregation; dropped at test [CompCSE
    fig. 1, its code; sec. 3: before]"""
    subvector: Count | None = 256
    """(coordinates) d0: number of first coordinates that the loss reads; none: all [CompCSE table 6
    (after DirectCLR)]"""

    @property
    def dropout_views(self) -> bool:
        return self.compose == "none" and super().dropout_views

    @pydantic.model_validator(mode="after")
    def _fits(self) -> "CompCSEConfig":
        aggregation = self.aggregation
        subsampling = self.subsampling
        has_two = aggregation in ("concat_halves", "concat_difference_project")
        if self.parts != 2 and (has_two or subsampling != "none"):
            raise ValueError(
                f"aggregation {aggregation!r} with subsampling {subsampling!r} needs parts=2"
            )
        if (subsampling == "spans") != (self.spans is not None):
            raise ValueError(
                f"subsampling is {subsampling!r} and spans is {self.spans!r}; each needs the other"
            )
        return self
