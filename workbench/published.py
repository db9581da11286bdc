"""How published checkpoints are read: pooling, template and the end of a sentence, known from their names.

Their files do not say it: weights on the hub carry no pooling, and a wrong one costs twenty points without an error.
"""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Reading:
    """How a checkpoint turns a sentence into a vector.

    pooling: of POOLINGS. template: for pooling "mask". full_stop: put behind a sentence that ends in none of
    `endings`. caution: how what can be read here differs from what was published; "" where it does not.
    """

    pooling: str
    template: str | None = None
    full_stop: str = ""
    endings: str = ""
    caution: str = ""

    def finished(self, sentence: str) -> str:
        """The sentence as the checkpoint's authors fed it to the template: with a full stop."""
        text = sentence.rstrip()
        return f"{text}{self.full_stop}" if self.full_stop and text and text[-1] not in self.endings else sentence


def prompted(template: str, caution: str = "") -> Reading:
    """The [MASK] of `template` around a sentence that is ended as PromptBERT ends it."""
    return Reading("mask", template, ".", ".?\"'", caution)


_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_CLS = Reading("cls")
_SUPERVISED_PROMPT = (
    "supervised PromptBERT passes the [MASK] state through a further layer and subtracts that of the empty template; "
    "here the [MASK] state alone is read"
)

# Pattern of the name, lower case -> reading; the first that is found anywhere in the name counts.
# PromptBERT's and SNCSE's templates and full stops are those of their released evaluation code.
READINGS: tuple[tuple[str, Reading], ...] = (
    (r"unsup-?_?promptroberta", prompted("This sentence : ' {sentence} ' means [MASK].")),
    (r"unsup-?_?promptbert", prompted('This sentence of "{sentence}" means [MASK].')),
    (r"promptroberta", prompted("This sentence : ' {sentence} ' means [MASK].", _SUPERVISED_PROMPT)),
    (r"promptbert", prompted('This sentence of "{sentence}" means [MASK].', _SUPERVISED_PROMPT)),
    (r"sncse", Reading("mask", 'This sentence : " {sentence} " means [MASK] .', " .", _PUNCTUATION)),
    (
        r"(?<!un)sup-simcse",
        Reading("cls", caution="supervised SimCSE keeps its tanh layer at test; here [CLS] is read in front of it"),
    ),
    (r"simcse|diffcse|rankcse|compositional|world-(encoder|teacher)$", _CLS),
)


def reading_of(name: str | Path) -> Reading | None:
    """How the checkpoint called `name` (hub id or folder) is read; None where the name says nothing.

    In a path only the last part counts, or, in a hub cache (models--owner--name/snapshots/...), the repository's name.
    """
    parts = Path(name).parts
    cached = [part for part in parts if part.startswith("models--")]
    known = (cached[-1].rpartition("--")[2] if cached else parts[-1] if parts else "").lower()
    return next((reading for pattern, reading in READINGS if re.search(pattern, known)), None)
