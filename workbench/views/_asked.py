"""Encoders of the live views, loaded on first use."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import EncoderError
from workbench.runs import Run

ENCODER = "english-encoder"  # the encoder if no other is given


class Vectors:
    """Unit vectors of sentences under one encoder, which is loaded on first use; each sentence is encoded once.

    In fp32, so that all views show the same cosine, and its parts add up to it.
    """

    def __init__(self, label: str, source: Any) -> None:
        self.label, self.source = label, source
        self._rows: dict[str, np.ndarray] = {}

    @cached_property
    def encode(self) -> Callable[[list[str]], Any]:
        """Return the function from sentences to vectors; EncoderError if the encoder cannot be read."""
        from workbench.encoder import Encoder

        encoder = self.source.path / "encoder" if isinstance(self.source, Run) else self.source
        encoder = encoder.load() if isinstance(encoder, Untrained) else encoder
        if isinstance(encoder, str | Path):
            encoder = Encoder.from_pretrained(encoder)
        encode = getattr(encoder, "encode", encoder)
        if not callable(encode):
            kind = type(self.source).__name__
            raise EncoderError(f"{self.label!r} is a {kind}; give a name, a folder, a Run or an Encoder")
        owner = getattr(encode, "__self__", None)
        if not isinstance(owner, Encoder) or owner.precision == "fp32":
            return encode
        exact = copy(owner)  # of the same weights; the given one stays as it is
        exact.precision = "fp32"
        return getattr(exact, str(encode.__name__))  # `encode`, or another of its methods that was given

    def __call__(self, sentences: Sequence[str]) -> np.ndarray:
        """Return [n, d], float64."""
        from workbench.methods.base import unit_rows

        if new := [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._rows]:
            self._rows.update(zip(new, unit_rows(self.encode, new, [])[0], strict=True))
        return np.stack([self._rows[sentence] for sentence in sentences])


def open_encoders(encoders: Mapping[str, Any]) -> dict[str, Vectors]:
    """Return the vectors of each label."""
    return {str(label): Vectors(str(label), source) for label, source in encoders.items()}


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
