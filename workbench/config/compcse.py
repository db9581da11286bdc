"""Settings of CompCSE."""

from typing import Any, ClassVar, Literal

import pydantic

from workbench.config.machinery import setting
from workbench.config.training import DEMO_DATA, TrainingConfig, whole_path

_ROBERTA: dict[str, Any] = {"aggregation": "concat_halves", "subvector": None}


class CompCSEConfig(TrainingConfig):
    """CompCSE; the defaults are the published settings of BERT-base."""

    method: ClassVar[str] = "compcse"
    profiles: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "paper-bert-large": {
            "encoder": "bert-large-uncased",
            "learning_rate": 1e-5,
            "subvector": None,
            "subsampling": "subsuming",
        },
        "paper-roberta-base": {"encoder": "roberta-base", **_ROBERTA},
        "paper-roberta-large": {"encoder": "roberta-large", "learning_rate": 1e-5, **_ROBERTA},
        # Table 2's row "w/ composition", the start of tables 3 to 5: all coordinates, nothing subsampled.
        "paper-composition": {"subvector": None},
        # Table 2's and figure 3's baseline: the same run without composition.
        "paper-simcse": {"compose": "none", "subvector": None},
        "demo": {
            **DEMO_DATA,
            "subvector": None,
            "learning_rate": 1e-3,
            "max_steps": 200,
            "eval_steps": 25,
            "save_steps": 50,
        },
    }

    temperature: float = setting(
        0.05, "tau of the infoNCE softmax; divides the cosines", source="CompCSE eq. 1; value: SimCSE's", gt=0
    )
    compose: Literal["positive", "anchor", "both", "none"] = setting(
        "positive",
        "what is composed of the parts; none: two dropout views, as SimCSE",
        source="CompCSE table 4; none: table 2, SimCSE",
    )
    aggregation: Literal["avg", "sum", "concat_halves", "concat_project", "concat_difference_project"] = setting(
        "avg", "how the parts' vectors become one", source="CompCSE table 3"
    )
    partition: Literal["words", "tokens"] = setting(
        "words",
        "what sentences are cut between: whitespace words, or the tokenizer's tokens",
        source="CompCSE sec. 3 says tokens, its files hold texts",
    )
    parts: int = setting(2, "pieces a sentence is cut into", unit="parts", source="CompCSE table 5", ge=2, le=4)
    subsampling: Literal["none", "adjacent", "overlapping", "subsuming", "spans"] = setting(
        "none", "further training texts made of a sentence's clauses", source="CompCSE sec. 3, table 2"
    )
    subsuming_depth: int = setting(
        2, "2: a sentence and its halves; 3: its halves and quarters", source="CompCSE's code", ge=2, le=3
    )
    spans: str | None = setting(None, "a .tsv file of your own spans, for subsampling=spans")
    keep_sentences: bool = setting(
        True, "the whole sentences stay in the training set beside what is subsampled", source="CompCSE sec. 3 (expand)"
    )
    mlp: Literal["after", "before", "none"] = setting(
        "after",
        "where the tanh layer of training stands: after or before aggregation; dropped at test",
        source="CompCSE fig. 1 and its code; sec. 3 says before",
    )
    subvector: int | None = setting(
        256,
        "d0: the loss reads the first so many coordinates; none: all",
        unit="coordinates",
        source="CompCSE table 6 (after DirectCLR)",
        ge=1,
    )

    @pydantic.field_validator("spans")
    @classmethod
    def _from_the_root(cls, spans: str | None) -> str | None:
        return None if spans is None else whole_path(spans)

    @pydantic.model_validator(mode="after")
    def _fits(self) -> "CompCSEConfig":
        two_sided = ("concat_halves", "concat_difference_project")
        if self.parts != 2 and self.aggregation in two_sided:
            raise ValueError(
                f"aggregation {self.aggregation!r} joins a left and a right part; set parts=2 (now {self.parts}), or "
                "aggregation avg, sum or concat_project"
            )
        if self.parts != 2 and self.subsampling != "none":
            raise ValueError(f"subsampling gives a left and a right span; set parts=2 (now {self.parts})")
        if (self.subsampling == "spans") != (self.spans is not None):
            raise ValueError(
                f"subsampling is {self.subsampling!r} and spans is {self.spans!r}; give spans=FILE with "
                "subsampling=spans, and neither without the other"
            )
        if self.subsampling == "none" and not self.keep_sentences:
            raise ValueError(
                "keep_sentences=false without subsampling leaves nothing to train on; choose a subsampling"
            )
        return self
