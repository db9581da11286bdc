"""The texts of CompCSE, and views composed of the vectors of a sentence's parts."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.config import CompCSEConfig
from workbench.data import Sentences
from workbench.encoder import (
    Encoder,
    Rows,
    TokenRows,
    sentence_chunks,
    special_tokens,
    token_ids,
)
from workbench.errors import DataError, SettingError
from workbench.files import file_checksum
from workbench.losses import COMPOSITIONS, Embeddings, compose
from workbench.methods.base import Inputs, gathered_views
from workbench.methods.distributed import gather_rows
from workbench.methods.splitting import Spans, read_spans, split_evenly, split_words, subsample

TextVectors = Float[Tensor, "texts d"]  # of the texts of a batch, as `token_places` orders them


class Composition:
    """z and z+ = aggregate(z', z'') of the sentences of a batch (CompCSE eq. 1).

    Order: pool each text, aggregate, tanh layer, first d0 coordinates. That is figure 1 and the
    published code; the text of section 3 puts the layer before the aggregation, which is the
    setting mlp="before".

    is_read: Whether a loss term reads the views; otherwise `projection` is None, because training
    in several processes refuses a layer without gradient.
    """

    def __init__(self, config: CompCSEConfig, encoder: Encoder, *, is_read: bool = True) -> None:
        width = encoder.dimension
        if config.subvector and config.subvector > width:
            raise SettingError(
                f"subvector is {config.subvector}, but vectors of {config.encoder} have {width} "
                f"coordinates; set 1 to {width}, or none for all"
            )
        self.config = config
        self.encoder = encoder
        # avg, sum and concat_halves have no weights (CompCSE table 3).
        is_projected = (
            is_read and config.compose != "none" and config.aggregation not in COMPOSITIONS
        )
        self.projection = Projection(width, config) if is_projected else None
        self.texts_per_row = 1 + config.parts  # the anchor, then its parts
        whole = [0]
        parts = range(1, self.texts_per_row)
        anchor = parts if config.compose in ("anchor", "both") else whole
        positive = parts if config.compose in ("positive", "both") else whole
        # Indices of a row's texts that form each view.
        self.view_texts = (anchor, positive)

    def inputs(self) -> Inputs:
        """Return source and sha256 of the file of spans, if the settings name one."""
        spans = self.config.spans
        if not spans:
            return {}
        return {"spans": (f"file {spans}", file_checksum(Path(spans)))}

    def prepare(self, data: Sentences, sentences: list[str]) -> list[str]:
        """Tokenise the sentences, if they are kept, and subsampled texts.

        Returns the whole text of each row.
        """
        spans = self._subsample(data)
        # CompCSE sec. 3 calls it "expand" if the whole sentences stay.
        if not self.config.keep_sentences:
            sentences = []
        if len(sentences) + len(spans) < 2:
            raise DataError(
                f"{data.name}: only {len(spans)} text is subsampled; CompCSE needs at least 2 "
                "texts: give more sentences, or set keep_sentences=true"
            )
        self.tokens = self._tokenize(sentences, spans)
        return [*sentences, *(span.anchor for span in spans)]

    def __len__(self) -> int:
        """Return the number of sentences and subsampled texts."""
        return len(self.tokens) // self.texts_per_row

    def whole_texts(self, rows: Rows) -> np.ndarray:
        """Return the places of these rows' whole texts among `tokens`."""
        return np.asarray(rows) * self.texts_per_row

    def token_places(self, rows: Sequence[int]) -> np.ndarray:
        """Return the places of all texts of these rows' views, text by text."""
        # Text by text, so that a chunk of the batch's vectors is one text of every row.
        first = self.whole_texts(rows)
        return np.concatenate([first + text for view in self.view_texts for text in view])

    def split(self, vectors: TextVectors) -> list[Embeddings]:
        """Return one [n, d] for each text of the anchor, then for each text of the positive."""
        return list(vectors.chunk(sum(map(len, self.view_texts))))

    def views(
        self, vectors: TextVectors, head: nn.Module | None
    ) -> tuple[Float[Tensor, "n d0"], Float[Tensor, "n d0"]]:
        """Return z and z+ of all processes' sentences under `head`, cut to d0 coordinates."""
        if self.config.compose == "none":
            # One call of the layer for both views, as in SimCSE: two calls would round otherwise,
            # and `mixed` is SimCSE bit for bit.
            anchor, positive = gathered_views(vectors, head)
        else:
            texts = self.split(vectors)
            in_anchor = len(self.view_texts[0])
            anchor = self._compose(texts[:in_anchor], head)
            positive = self._compose(texts[in_anchor:], head)
        # After the layer, as in the published code.
        d0 = self.config.subvector
        return anchor[:, :d0], positive[:, :d0]

    def _compose(
        self, vectors: Sequence[Embeddings], head: nn.Module | None
    ) -> Float[Tensor, "all d"]:
        """Return one view from its texts' vectors; layer and aggregation in the order of `mlp`."""
        is_before = self.config.mlp == "before"
        if head and is_before:
            vectors = [head(of_text) for of_text in vectors]
        if len(vectors) == 1:
            composed = vectors[0]
        elif self.projection:
            composed = self.projection(vectors)
        else:
            composed = compose(vectors, self.config.aggregation)
        if head and not is_before:
            composed = head(composed)
        return gather_rows(composed)

    def _subsample(self, data: Sentences) -> list[Spans]:
        config = self.config
        if config.subsampling == "none":
            return []
        if config.spans:
            return read_spans(config.spans, data.sentences)
        spans = subsample(data.sentences, config.subsampling, config.subsuming_depth)
        if not spans:
            raise DataError(
                f"{data.name}: no sentence has two clauses to subsample ({config.subsampling}); "
                "set subsampling=none, or subsampling=spans and spans=FILE"
            )
        return spans

    def _tokenize(self, sentences: list[str], spans: list[Spans]) -> TokenRows:
        """Return the tokens of every row's anchor and parts, one after the other."""
        config = self.config
        of_spans = chain.from_iterable((span.anchor, *span.parts) for span in spans)
        # The paper says tokens; its published files are cut between words.
        if config.partition == "tokens":
            rows = chain(self._split_tokens(sentences, config.parts), self._split_tokens(of_spans))
            return TokenRows.gather(rows, self.encoder.tokenizer.pad_token_id)
        of_sentences = chain.from_iterable(
            (text, *split_words(text, config.parts)) for text in sentences
        )
        return self.encoder.token_rows(chain(of_sentences, of_spans))

    def _split_tokens(self, texts: Iterable[str], parts: int = 0) -> Iterator[list[list[int]]]:
        """Yield the token ids of each text and of its parts, which are runs of its tokens."""
        tokenizer = self.encoder.tokenizer
        first, after = special_tokens(tokenizer)
        [prompt] = token_ids(tokenizer, [self.encoder.spec.prompt], special=False)
        before = [*first, *prompt]
        room = self.config.max_seq_length - len(after)
        for chunk in sentence_chunks(texts):
            bare = token_ids(tokenizer, chunk, special=False)
            runs = chain.from_iterable((ids, *split_evenly(ids, parts)) for ids in bare)
            # A long sentence is split whole and its parts are cut afterwards: cutting first would
            # lose the end of the last part only.
            yield [[*[*before, *run][:room], *after] for run in runs]


class Projection(nn.Module):
    """W [u; v] or W [u; v; |u - v|], back to the width of one part.

    CompCSE table 3 gives no formula; that there is no bias is our choice.
    """

    def __init__(self, width: int, config: CompCSEConfig) -> None:
        super().__init__()
        self.has_difference = config.aggregation == "concat_difference_project"
        inputs = 3 if self.has_difference else config.parts
        self.linear = nn.Linear(inputs * width, width, bias=False)
        # The paper has no initialisation of this layer; BERT's, as for the tanh layer.
        nn.init.normal_(self.linear.weight, std=0.02)

    def forward(self, parts: Sequence[Embeddings]) -> Embeddings:
        features = list(parts)
        if self.has_difference:
            features.append((parts[0] - parts[1]).abs())
        return self.linear(torch.cat(features, dim=1))
