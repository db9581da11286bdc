"""Encoders that are asked: found by what names them, loaded when they are needed, each sentence encoded once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import EncoderError
from workbench.runs import Run

_BATCH = 256  # sentences between two words of how far it is


class Rows:
    """Unit rows of sentences under one encoder, each encoded once."""

    def __init__(self, label: str, encode: Callable[[list[str]], Any]) -> None:
        self._label, self._encode = label, encode
        self._known: dict[str, np.ndarray] = {}

    def __call__(self, sentences: Sequence[str], say: Callable[[str], None]) -> np.ndarray:
        """[n, d], float64; `say` hears how far it is where there is much to encode."""
        from workbench.methods.protocol import unit_rows  # torch, which only who asks needs

        lacking = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._known]
        for start in range(0, len(lacking), _BATCH):
            if len(lacking) > _BATCH:
                say(f"{self._label} reads: {start:,} of {len(lacking):,} sentences")
            part = lacking[start : start + _BATCH]
            self._known.update(zip(part, unit_rows(self._encode, part, [])[0], strict=True))
        return np.stack([self._known[sentence] for sentence in sentences])


def encode_of(label: str, given: Any) -> Callable[[list[str]], Any]:
    """Sentences -> vectors, of whatever can be asked."""
    from workbench.encoder import Encoder

    found = given.path / "encoder" if isinstance(given, Run) else given
    found = found.load() if isinstance(found, Untrained) else found
    if isinstance(found, str | Path):
        found = Encoder.from_pretrained(found)
    found = getattr(found, "encode", found)
    if not callable(found):
        raise EncoderError(f"{label!r} is a {type(given).__name__}; give a name, a folder, a Run or an Encoder")
    return found


@dataclass(frozen=True)
class Untrained:
    """The encoder that a run began with."""

    run: Run

    def load(self) -> Any:
        """The `Encoder`, read as the run read it."""
        from workbench.encoder import Encoder

        config: Any = self.run.config
        template = getattr(config, "template", None)
        return Encoder.from_pretrained(
            config.encoder, config.pooling, template=template, revision=config.revisions.get(config.encoder)
        )
