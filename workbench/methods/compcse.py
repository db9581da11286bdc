"""CompCSE (Chanchani and Huang 2023): a sentence's positive is composed of the vectors of its own parts."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.config import CompCSEConfig
from workbench.data import Sentences
from workbench.encoder import TokenRows
from workbench.errors import DataError, SettingError
from workbench.files import file_checksum
from workbench.losses import COMPOSITIONS, compose, cosine_matrix, info_nce
from workbench.losses.distributed import gather_rows
from workbench.methods.base import Batch, ContrastiveMethod, gathered_views, training_sentences
from workbench.methods.splitting import Spans, read_spans, split_words, subsample


class CompCSE(ContrastiveMethod):
    """l_i = -log softmax_j(cos(z_i, z_j+) / tau)[i] with z+ = aggregate(z', z'') of sentence i's parts (CompCSE eq. 1).

    Order: pool each text, aggregate, tanh layer, first d0 coordinates, cosine. That is figure 1 and the published code;
    the text of section 3 puts the layer before the aggregation, which is the setting mlp="before".
    """

    config_class = CompCSEConfig
    config: CompCSEConfig

    def __init__(self, config: CompCSEConfig) -> None:
        super().__init__(config)
        width = self.encoder.dimension
        if config.subvector is not None and config.subvector > width:
            problem = f"subvector is {config.subvector}, but vectors of {config.encoder} have {width} coordinates"
            raise SettingError(f"{problem}; set 1 to {width}, or none for all")
        self.projection = _Projection(width, config) if self.reads_projection() else None
        # Indices of the texts (0 = anchor, then its parts) that form each view.
        whole, parts = [0], list(range(1, config.parts + 1))
        anchor = parts if config.compose in ("anchor", "both") else whole
        positive = parts if config.compose in ("positive", "both") else whole
        self.view_texts = (anchor, positive)

    def reads_projection(self) -> bool:
        """Return whether parts are composed by a train-only layer that a loss term reads."""
        return self.config.compose != "none" and self.config.aggregation not in COMPOSITIONS

    def prepare(self, data: Any) -> None:
        self.read_texts(data)

    def read_texts(self, data: Any) -> list[str]:
        """Split the sentences, add subsampled texts, tokenise all; return the whole text of each row."""
        sentences, spans = training_sentences(self, data), self._subsample(data)
        if not self.config.keep_sentences:
            sentences = []
        if len(sentences) + len(spans) < 2:
            raise DataError(f"{data.name}: only {len(spans)} text is subsampled; CompCSE needs at least 2 texts")
        self.rows = self._tokenize(sentences, spans)
        return [*sentences, *(span.anchor for span in spans)]

    def inputs(self) -> dict[str, tuple[str, str]]:
        spans = self.config.spans
        return {} if spans is None else {"spans": (f"file {spans}", file_checksum(Path(spans)))}

    def examples(self, data: Any) -> int:
        """Return the number of sentences and subsampled texts."""
        return len(self.rows) // (1 + self.config.parts)

    def collate(self, rows: Sequence[int]) -> Batch:
        first = np.asarray(rows) * (1 + self.config.parts)
        texts = np.concatenate([first + text for view in self.view_texts for text in view])
        return {"tokens": self.token_batch(self.rows, texts)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        terms = self.guess_words(batch["tokens"])
        anchor, positive = self.composed_views(self.embed(batch["tokens"]), self.head)
        return terms | {"info_nce": info_nce(cosine_matrix(anchor, positive), temperature=self.config.temperature)}

    def composed_views(
        self, vectors: Float[Tensor, "texts d"], head: nn.Module | None
    ) -> tuple[Float[Tensor, "n d0"], Float[Tensor, "n d0"]]:
        """Return z and z+ of all processes' sentences under `head`, cut to d0 coordinates."""
        if self.config.compose == "none":
            first, second = gathered_views(vectors, head)
        else:
            texts, split = vectors.chunk(sum(map(len, self.view_texts))), len(self.view_texts[0])
            first, second = self._compose(texts[:split], head), self._compose(texts[split:], head)
        return first[:, : self.config.subvector], second[:, : self.config.subvector]

    def _compose(self, vectors: Sequence[Float[Tensor, "n d"]], head: nn.Module | None) -> Float[Tensor, "all d"]:
        """Return one view from the vectors of its texts, through layer and aggregation in the order of `mlp`."""
        before = self.config.mlp == "before"
        if head is not None and before:
            vectors = [head(vector) for vector in vectors]
        one = vectors[0]
        if len(vectors) > 1:
            one = self.projection(vectors) if self.projection else compose(vectors, self.config.aggregation)
        return gather_rows(one if head is None or before else head(one))

    def _subsample(self, data: Sentences) -> list[Spans]:
        config = self.config
        if config.subsampling == "none":
            return []
        if config.spans is not None:
            return read_spans(config.spans, data.sentences)
        spans = subsample(data.sentences, config.subsampling, config.subsuming_depth)
        if not spans:
            problem = f"{data.name}: no sentence has two clauses to subsample ({config.subsampling})"
            raise DataError(f"{problem}; set subsampling=none, or subsampling=spans and spans=FILE")
        return spans

    def _tokenize(self, sentences: list[str], spans: list[Spans]) -> TokenRows:
        """Return the tokens of every row's anchor and parts, one after the other."""
        config = self.config
        texts = chain.from_iterable((span.anchor, *span.parts) for span in spans)
        if config.partition == "tokens":
            return _split_tokens(self.encoder.bare_rows(chain(sentences, texts)), len(sentences), config)
        halved = chain.from_iterable((text, *split_words(text, config.parts)) for text in sentences)
        return self.encoder.token_rows(chain(halved, texts))


def _split_tokens(rows: TokenRows, sentences: int, config: CompCSEConfig) -> TokenRows:
    """Return each of the first `sentences` rows with its parts (runs of tokens, as in `split_words`), then the rest.

    A part is no copy: it points into the sentence's own tokens; the special tokens are added in the batch.
    """
    starts, lengths = rows.starts[:sentences, None], rows.lengths[:sentences, None]
    bounds = lengths * np.arange(config.parts + 1) // config.parts
    sizes = np.diff(bounds)
    empty = sizes == 0  # fewer tokens than parts: such a part is all of them
    runs = np.hstack([starts, starts + np.where(empty, 0, bounds[:, :-1])])
    sizes = np.hstack([lengths, np.where(empty, lengths, sizes)])
    room = config.max_seq_length - len(rows.before) - len(rows.after)
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
