"""CompCSE (Chanchani and Huang 2023): a sentence's positive is composed of the vectors of its own parts."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.config import CompCSEConfig, TrainingConfig
from workbench.data import Sentences
from workbench.encoder import TokenRows
from workbench.errors import DataError, SettingError
from workbench.files import file_checksum
from workbench.losses import COMPOSITIONS, compose, cosine_matrix, info_nce
from workbench.methods.protocol import Batch, ContrastiveMethod, gathered_views, training_sentences
from workbench.methods.splitting import Spans, read_spans, split_words, subsample
from workbench.processes import gather_rows

_LOG = logging.getLogger("workbench")


class CompCSE(ContrastiveMethod):
    """l_i = -log softmax_j(cos(z_i, z_j+) / tau)[i] with z+ = aggregate(z', z'') of sentence i's parts (CompCSE eq. 1).

    Order: pool each text, aggregate, tanh layer, first d0 coordinates, cosine. That is figure 1 and the published code;
    the text of section 3 puts the layer before the aggregation, which is the setting mlp="before".
    """

    config_class: ClassVar[type[TrainingConfig]] = CompCSEConfig
    config: CompCSEConfig

    def __init__(self, config: CompCSEConfig) -> None:
        super().__init__(config)
        width = self.encoder.width
        if config.subvector is not None and config.subvector > width:
            raise SettingError(
                f"subvector: got {config.subvector}, but vectors of {config.encoder} have {width} coordinates; give "
                f"1 to {width}, or none for all"
            )
        self.projection = _Projection(width, config) if self.reads_projection() else None
        # Which of a row's texts (0: the anchor, then its parts) make each side of the loss.
        whole, parts = [0], list(range(1, config.parts + 1))
        self.sides: tuple[list[int], list[int]] = {
            "positive": (whole, parts),
            "anchor": (parts, whole),
            "both": (parts, parts),
            "none": (whole, whole),
        }[config.compose]

    def reads_projection(self) -> bool:
        """Whether parts are composed by a layer of its own, which the loss then reads."""
        return self.config.compose != "none" and self.config.aggregation not in COMPOSITIONS

    def prepare(self, data: Any) -> None:
        """Cuts the sentences, adds what is subsampled, tokenises all. Raises DataError with fewer than two texts."""
        self.read_texts(data)

    def read_texts(self, data: Any) -> list[str]:
        """What `prepare` does; returns each row's whole text."""
        config, given = self.config, training_sentences(self, data)
        subsampled = self._subsampled(data)
        sentences = given if config.keep_sentences else []
        self.counts = {"sentences": len(sentences), "subsampled": len(subsampled)}
        self.counts["shorter than parts"] = sum(len(s.split()) < config.parts for s in sentences)
        if len(sentences) + len(subsampled) < 2:
            raise DataError(f"{data.name}: {self.counts}; CompCSE needs at least 2 texts, for there to be negatives")
        _LOG.info("CompCSE trains on %s", ", ".join(f"{count} {name}" for name, count in self.counts.items()))
        self.rows = self._tokenized(sentences, subsampled)
        return [*sentences, *(spans.anchor for spans in subsampled)]

    def inputs(self) -> dict[str, tuple[str, str]]:
        spans = self.config.spans
        return {} if spans is None else {"spans": (f"file {spans}", file_checksum(Path(spans)))}

    def examples(self, data: Sentences) -> int:
        return len(self.rows) // (1 + self.config.parts)

    def collate(self, rows: Sequence[int]) -> Batch:
        first = np.asarray(rows) * (1 + self.config.parts)
        texts = np.concatenate([first + slot for side in self.sides for slot in side])
        return {"tokens": self.rows.batch(texts)}

    def views(self, batch: Batch) -> tuple[Float[Tensor, "n d0"], Float[Tensor, "n d0"]]:
        """z and z+ of all processes' sentences, from one forward pass over all texts, cut to d0 coordinates."""
        return self.both_sides(self.embed(batch["tokens"]), self.head)

    def both_sides(
        self, vectors: Float[Tensor, "texts d"], head: nn.Module | None
    ) -> tuple[Float[Tensor, "n d0"], Float[Tensor, "n d0"]]:
        """z and z+ under `head`, out of the vectors of all texts."""
        texts, anchor = vectors.chunk(sum(map(len, self.sides))), len(self.sides[0])
        if self.config.compose == "none":
            sides = gathered_views(vectors, head)
        else:
            sides = [self._side(texts[:anchor], head), self._side(texts[anchor:], head)]
        return sides[0][:, : self.config.subvector], sides[1][:, : self.config.subvector]

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        terms = self.guess_words(batch["tokens"])
        anchor, positive = self.views(batch)
        return terms | {"info_nce": info_nce(cosine_matrix(anchor, positive), temperature=self.config.temperature)}

    def _side(self, vectors: Sequence[Float[Tensor, "n d"]], head: nn.Module | None) -> Float[Tensor, "all d"]:
        """One side of the loss: the vectors of its texts, through layer and aggregation in the order asked for."""
        before = self.config.mlp == "before"
        if head is not None and before:
            vectors = [head(vector) for vector in vectors]
        if len(vectors) == 1:
            one = vectors[0]
        else:
            one = self.projection(vectors) if self.projection else compose(vectors, self.config.aggregation)
        return gather_rows(one if head is None or before else head(one))

    def _subsampled(self, data: Sentences) -> list[Spans]:
        config = self.config
        if config.subsampling == "none":
            return []
        if config.spans is not None:
            return read_spans(config.spans, data.sentences)
        spans = subsample(data.sentences, config.subsampling, config.subsuming_depth)
        if not spans:
            raise DataError(
                f"{data.name}: no sentence has two clauses to subsample ({config.subsampling}); set "
                "subsampling=none, or give spans of your own (subsampling=spans, spans=FILE)"
            )
        return spans

    def _tokenized(self, sentences: list[str], subsampled: list[Spans]) -> TokenRows:
        """The tokens of every row's anchor and parts, one after the other."""
        config = self.config
        spans = chain.from_iterable((found.anchor, *found.parts) for found in subsampled)
        if config.partition == "tokens":
            return _in_runs(self.encoder.bare_rows(chain(sentences, spans)), len(sentences), config)
        halved = chain.from_iterable((text, *split_words(text, config.parts)) for text in sentences)
        return self.encoder.token_rows(chain(halved, spans))


def _in_runs(rows: TokenRows, sentences: int, config: CompCSEConfig) -> TokenRows:
    """Each of the first `sentences` rows and its runs of tokens (as in `split_words`), then the rest; all cut.

    A run is no copy: it points into the sentence's own tokens, and the special tokens are put around it in the batch.
    """
    starts, lengths = rows.starts[:sentences, None], rows.lengths[:sentences, None]
    bounds = lengths * np.arange(config.parts + 1) // config.parts
    sizes = np.diff(bounds)
    empty = sizes == 0  # fewer tokens than parts: such a run is all of them
    runs = np.hstack([starts, starts + np.where(empty, 0, bounds[:, :-1])])
    sizes = np.hstack([lengths, np.where(empty, lengths, sizes)])
    room = config.max_tokens - len(rows.before) - len(rows.after)
    return replace(
        rows,
        starts=np.concatenate([runs.ravel(), rows.starts[sentences:]]),
        lengths=np.minimum(np.concatenate([sizes.ravel(), rows.lengths[sentences:]]), room),
    )


class _Projection(nn.Module):
    """W [u; v] or W [u; v; |u - v|], back to the width of one part (CompCSE table 3 gives no formula; no bias)."""

    def __init__(self, width: int, config: CompCSEConfig) -> None:
        super().__init__()
        self.difference = config.aggregation == "concat_difference_project"
        self.linear = nn.Linear((3 if self.difference else config.parts) * width, width, bias=False)
        nn.init.normal_(self.linear.weight, std=0.02)

    def forward(self, parts: Sequence[Float[Tensor, "n d"]]) -> Float[Tensor, "n d"]:
        features = [*parts, (parts[0] - parts[1]).abs()] if self.difference else list(parts)
        return self.linear(torch.cat(features, dim=1))
