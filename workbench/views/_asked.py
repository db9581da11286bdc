"""Encoders of the live views, loaded on first use; each sentence is encoded once."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import EncoderError
from workbench.runs import Run

ENCODER = "english-encoder"  # what is asked where nothing else is given
_BATCH = 64  # sentences between two words of how far it is, and between two looks at what is typed meanwhile
_KEPT = 4096  # sentences whose vectors are known besides as many as were ever asked at once


class Vectors:
    """Unit rows of sentences under one encoder, which is loaded on first use; each sentence is encoded once.

    In fp32, so that all views show the same cosine, and its parts add up to it.
    """

    def __init__(self, label: str, given: Any) -> None:
        self.label, self.given = label, given
        self._known: dict[str, np.ndarray] = {}  # what was asked last stands last
        self._largest = 0

    @cached_property
    def encode(self) -> Callable[[list[str]], Any]:
        """Sentences -> vectors. Raises EncoderError where the encoder cannot be read."""
        return encode_of(self.label, self.given)

    def reading(self, sentences: Sequence[str]) -> Iterator[str]:
        """Encodes a batch at each step, before which it says how far it is."""
        from workbench.methods.protocol import unit_rows  # torch, which only who asks needs

        wanted = dict.fromkeys(sentences)
        self._largest = max(self._largest, len(wanted))
        rest = [sentence for sentence in wanted if sentence not in self._known]
        for start in range(0, len(rest), _BATCH):
            yield f"{self.label} reads: {start:,} of {len(rest):,} sentences"
            part = rest[start : start + _BATCH]
            self._known.update(zip(part, unit_rows(self.encode, part, [])[0], strict=True))

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """[n, d], float64."""
        for _ in self.reading(sentences):
            pass
        rows = {sentence: self._known.pop(sentence) for sentence in dict.fromkeys(sentences)}
        self._known |= rows
        for oldest in list(self._known)[: -(_KEPT + self._largest)]:  # a corpus stays, however large, while one types
            del self._known[oldest]
        return np.stack([rows[sentence] for sentence in sentences])


def encode_of(label: str, given: Any) -> Callable[[list[str]], Any]:
    """Return the function from sentences to vectors of a name, folder, run or encoder; in fp32 of an `Encoder`."""
    from workbench.encoder import Encoder

    found = given.path / "encoder" if isinstance(given, Run) else given
    found = found.load() if isinstance(found, Untrained) else found
    if isinstance(found, str | Path):
        found = Encoder.from_pretrained(found)
    found = getattr(found, "encode", found)
    if not callable(found):
        raise EncoderError(f"{label!r} is a {type(given).__name__}; give a name, a folder, a Run or an Encoder")
    owner = getattr(found, "__self__", None)
    if not isinstance(owner, Encoder) or owner.precision == "fp32":
        return found
    exact = copy(owner)  # of the same weights; the given one stays as it is
    exact.precision = "fp32"
    return getattr(exact, str(found.__name__))  # `encode`, or another of its methods that was given


@dataclass(frozen=True)
class Untrained:
    """The encoder that the run in a folder began with, or was evaluated for."""

    path: Path

    def load(self) -> Any:
        """Return the `Encoder`, loaded with the settings of the run."""
        from workbench.encoder import Encoder

        config: Any = Run(self.path).config
        template, revisions = getattr(config, "template", None), getattr(config, "revisions", {})
        revision = revisions.get(config.encoder) or getattr(config, "revision", None)
        return Encoder.from_pretrained(config.encoder, config.pooling, template=template, revision=revision)
