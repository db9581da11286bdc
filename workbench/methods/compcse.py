"""CompCSE (Chanchani and Huang 2023): a sentence's positive is composed of the vectors of its own parts."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.config import CompCSEConfig, TrainingConfig
from workbench.data import Sentences
from workbench.distributed import gather_rows
from workbench.encoder import Encoder
from workbench.encoder.batches import TokenRows
from workbench.errors import SettingError
from workbench.losses import COMPOSITIONS, compose, cosine_matrix, info_nce
from workbench.methods.protocol import Batch, Method, MLPHead, require_plain_sentences
from workbench.splitting import Spans, cut, read_spans, split_words, subsample

_LOG = logging.getLogger("workbench")
_CHUNK = 10_000  # sentences tokenised at a time


class CompCSE(Method):
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
        self.head = MLPHead(width) if config.mlp != "none" else None
        projects = config.compose != "none" and config.aggregation not in COMPOSITIONS
        self.projection = _Projection(width, config) if projects else None
        # Which of a row's texts (0: the anchor, then its parts) make each side of the loss.
        whole, parts = [0], list(range(1, config.parts + 1))
        self.sides: tuple[list[int], list[int]] = {
            "positive": (whole, parts),
            "anchor": (parts, whole),
            "both": (parts, parts),
            "none": (whole, whole),
        }[config.compose]

    def prepare(self, data: Any) -> None:
        """Cuts the sentences, adds what is subsampled, tokenises all. Raises ValueError with fewer than two texts."""
        require_plain_sentences(self, data)
        config = self.config
        subsampled = self._subsampled(data)
        sentences = data.sentences if config.keep_sentences else []
        self.counts = {"sentences": len(sentences), "subsampled": len(subsampled)}
        self.counts["shorter than parts"] = sum(len(s.split()) < config.parts for s in sentences)
        if len(sentences) + len(subsampled) < 2:
            raise ValueError(f"{data.name}: {self.counts}; CompCSE needs at least 2 texts, for there to be negatives")
        _LOG.info("CompCSE trains on %s", ", ".join(f"{count} {name}" for name, count in self.counts.items()))
        self.rows = TokenRows.gather(self._token_chunks(sentences, subsampled))

    def inputs(self) -> dict[str, tuple[str, str]]:
        spans = self.config.spans
        return (
            {} if spans is None else {"spans": (f"file {spans}", hashlib.sha256(Path(spans).read_bytes()).hexdigest())}
        )

    def examples(self, data: Sentences) -> int:
        return len(self.rows.lengths) // (1 + self.config.parts)

    def collate(self, rows: Sequence[int]) -> Batch:
        first = np.asarray(rows) * (1 + self.config.parts)
        texts = np.concatenate([first + slot for side in self.sides for slot in side])
        return {"tokens": self.rows.batch(texts, padding=self.encoder.tokenizer.pad_token_id)}

    def views(self, batch: Batch) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
        """z and z+, from one forward pass over all texts, of all processes' sentences, cut to d0 coordinates."""
        vectors = self.encoder(batch["tokens"]).chunk(sum(map(len, self.sides)))
        anchor = len(self.sides[0])
        return self._side(vectors[:anchor]), self._side(vectors[anchor:])

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        anchor, positive = self.views(batch)
        return {"info_nce": info_nce(cosine_matrix(anchor, positive), temperature=self.config.temperature)}

    def _side(self, vectors: Sequence[Float[Tensor, "n d"]]) -> Float[Tensor, "all d0"]:
        """One side of the loss: the vectors of its texts, through layer and aggregation in the order asked for."""
        if self.head is not None and self.config.mlp == "before":
            vectors = [self.head(vector) for vector in vectors]
        one = vectors[0] if len(vectors) == 1 else self._aggregate(vectors)
        if self.head is not None and self.config.mlp == "after":
            one = self.head(one)
        return gather_rows(one[:, : self.config.subvector])

    def _aggregate(self, parts: Sequence[Float[Tensor, "n d"]]) -> Float[Tensor, "n d"]:
        if self.projection is not None:
            return self.projection(parts)
        return compose(parts, self.config.aggregation)

    def _subsampled(self, data: Sentences) -> list[Spans]:
        config = self.config
        if config.subsampling == "none":
            return []
        if config.spans is not None:
            return read_spans(config.spans, data.sentences)
        spans = subsample(data.sentences, config.subsampling, config.subsuming_depth)
        if not spans:
            raise ValueError(
                f"{data.name}: no sentence has two clauses to subsample ({config.subsampling}); set "
                "subsampling=none, or give spans of your own (subsampling=spans, spans=FILE)"
            )
        return spans

    def _token_chunks(self, sentences: list[str], subsampled: list[Spans]) -> Iterator[list[list[int]]]:
        """The tokens of every row's anchor and parts, one after the other."""
        config, tokens = self.config, _Tokens(self.encoder)
        for start in range(0, len(sentences), _CHUNK):
            chunk = sentences[start : start + _CHUNK]
            if config.partition == "tokens":
                yield [row for ids in tokens.plain(chunk) for row in map(tokens.closed, [ids, *cut(ids, config.parts)])]
            else:
                yield tokens.whole([text for s in chunk for text in (s, *split_words(s, config.parts))])
        for start in range(0, len(subsampled), _CHUNK):
            yield tokens.whole([text for s in subsampled[start : start + _CHUNK] for text in (s.anchor, *s.parts)])


class _Tokens:
    """Texts as token numbers, with the tokenizer's special tokens around, cut at the encoder's training limit."""

    def __init__(self, encoder: Encoder) -> None:
        self._tokenizer, self._limit = encoder.tokenizer, encoder.max_tokens
        probe = self.plain(["a"])[0]
        around = self._tokenizer("a")["input_ids"]
        place = next(i for i in range(len(around)) if around[i : i + len(probe)] == probe)
        self._before, self._after = around[:place], around[place + len(probe) :]

    def whole(self, texts: list[str]) -> list[list[int]]:
        """Each text as the encoder reads it; an empty one is read as a space, as in SimCSE."""
        texts = [text or " " for text in texts]
        return self._tokenizer(texts, truncation=True, max_length=self._limit, return_attention_mask=False)["input_ids"]

    def plain(self, texts: list[str]) -> list[list[int]]:
        """The tokens of each text alone, uncut."""
        return self._tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]

    def closed(self, ids: Sequence[int]) -> list[int]:
        """Tokens with the special tokens around, cut as a whole sentence would be."""
        return [*self._before, *ids[: self._limit - len(self._before) - len(self._after)], *self._after]


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
