"""How a checkpoint turns a sentence into a vector: as its user asks, else as its files say, else as it was published.

Weights on the hub carry no pooling, and a wrong one costs twenty points without an error: the table below knows names.
"""

import logging
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from workbench.config import Pooling
from workbench.errors import EncoderError

_LOG = logging.getLogger("workbench")

POOLINGS: tuple[str, ...] = get_args(Pooling)


@dataclass(frozen=True)
class Reading:
    """How sentences are read.

    pooling: of POOLINGS. template: for pooling "mask", and no other. full_stop: put behind a sentence that ends in none
    of `endings`. caution: how what can be read here differs from what was published; "" where it does not.
    """

    pooling: Pooling = "cls"
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
    (r"simcse|diffcse|rankcse|compositional|world-(encoder|teacher)$", Reading("cls")),
)


def published_reading(name: str | Path) -> Reading | None:
    """How the checkpoint called `name` (hub id or folder) is read; None where the name says nothing.

    In a path only the last part counts, or, in a hub cache (models--owner--name/snapshots/...), the repository's name.
    """
    parts = Path(name).parts
    cached = [part for part in parts if part.startswith("models--")]
    known = (cached[-1].rpartition("--")[2] if cached else parts[-1] if parts else "").lower()
    return next((reading for pattern, reading in READINGS if re.search(pattern, known)), None)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint found on this machine.

    name: as asked for. source: what it turned out to be, for the record. root: its folder; folder: where in it config,
    weights and tokenizer lie. stored: what its files say of pooling and template, None where they say nothing.
    foreign: parts that an Encoder does not support: modules, default prompt or similarity of a SentenceTransformer, a
        classifier's head. max_seq_length, lower_case: a SentenceTransformer's limit in tokens and its lower-casing.
    """

    name: str
    source: str
    root: Path
    folder: Path
    stored: Reading | None = None
    foreign: tuple[str, ...] = ()
    max_seq_length: int | None = None
    lower_case: bool = False

    def read(self, pooling: str | None = None, template: str | None = None) -> Reading | None:
        """How it is read: as asked for, else as its files say, else as it was published; None where nobody knows.

        A pooling other than that of its files is logged, and so is a caution.
        Raises EncoderError for an unknown pooling, a template without pooling "mask", and a part that no Encoder has.
        """
        if pooling not in (None, *POOLINGS):
            raise EncoderError(f"pooling is {pooling!r}; it is one of {', '.join(POOLINGS)}")
        if self.foreign and pooling is None:
            raise EncoderError(
                f"{self.name} was saved with {', '.join(self.foreign)}, which an Encoder does not support; set pooling "
                f"to one of {', '.join(POOLINGS)} to use its backbone without that"
            )
        known = [reading for reading in (self.stored, published_reading(self.name)) if reading is not None]
        if pooling is None:
            found = next(iter(known), None)
        else:
            if self.foreign or (self.stored is not None and self.stored.pooling != pooling):
                saved = ", ".join([*([self.stored.pooling] if self.stored else []), *self.foreign])
                _LOG.warning("%s was saved with %s; pooling %r was asked for and is used", self.name, saved, pooling)
            found = next((reading for reading in known if reading.pooling == pooling), Reading(pooling))  # type: ignore[arg-type]
        if template is not None:
            if found is None or found.pooling != "mask":
                raise EncoderError(
                    f"{self.name}: a template is of pooling 'mask'; give pooling='mask' as well, or no template"
                )
            found = replace(found, template=template)
        if found is not None and found.caution:
            _LOG.warning("%s: %s", self.name, found.caution)
        return found
