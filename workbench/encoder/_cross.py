"""The cross-encoder: two sentences read together, one score; it has no vector of a sentence."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from workbench.encoder._model import Encoder
from workbench.encoder._saving import Card, save_checkpoint, write_card
from workbench.encoder._tokens import apply_by_length, sentence_sides
from workbench.encoder._vectors import require_finite
from workbench.errors import EncoderError
from workbench.losses import PairScores


class CrossEncoder(Encoder):
    """A sequence classifier of transformers with one output, the similarity of a pair.

    It is saved so that AutoModelForSequenceClassification and the CrossEncoder of
    sentence-transformers read the same score. A head that the checkpoint lacks is initialised
    randomly; pooling and template are not used.
    """

    _is_classifier = True

    def tokenize_pairs(
        self, sentence1: Sequence[str], sentence2: Sequence[str]
    ) -> dict[str, Tensor]:
        """Return both sentences in one row, padded; the longer one is cut at `train_length`."""
        rows = self._pair_tokens(list(sentence1), list(sentence2), self.train_length)
        return dict(self.tokenizer.pad(rows, return_tensors="pt"))

    def forward(self, batch: Mapping[str, Tensor]) -> PairScores:
        """Return the score of each pair, the classifier's single logit, with gradient.

        A larger score means more similar.
        """
        inputs = {name: rows.to(self.device) for name, rows in batch.items()}
        if self.reads_padding:
            logits = apply_by_length(lambda **rows: self.backbone(**rows).logits, inputs)
        else:
            logits = self.backbone(**inputs).logits
        return logits.squeeze(-1)

    def score(
        self, sentence1: Iterable[str], sentence2: Iterable[str], batch_size: int = 64
    ) -> np.ndarray:
        """Return the scores of pairs, float64, in the order given.

        Pairs are cut only at the backbone's own limit.
        """
        # An empty sentence becomes a space, as in `encode`.
        first, second = (
            [text or " " for text in side] for side in sentence_sides(sentence1, sentence2)
        )
        scores = torch.empty(len(first))
        columns = self._pair_tokens(first, second, self.max_seq_length) if first else {}
        lengths = np.fromiter(map(len, columns.get("input_ids", [])), np.int64)

        def batch_of(index):
            rows = {name: [column[row] for row in index] for name, column in columns.items()}
            return self.tokenizer.pad(rows, return_tensors="pt")

        self._compute(scores, lengths, batch_size, batch_of)
        require_finite(scores, self.source, "score of pair")
        return scores.double().numpy()

    def encode(self, *_: Any, **__: Any) -> NoReturn:
        """Raise EncoderError: a cross-encoder has no embedding of one sentence."""
        raise EncoderError(
            "a cross-encoder has no embedding; use score(sentence1, sentence2), or train "
            "a bi-encoder"
        )

    def _write(self, folder: Path, card: Card, dtype: torch.dtype) -> None:
        config = self.backbone.config
        limit = self.max_seq_length
        # CrossEncoder would put a sigmoid on a single logit, which ties all confident pairs in
        # float32.
        config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
        save_checkpoint(folder, self.backbone, self.tokenizer, limit, dtype)
        kind = (
            f"{config.model_type} cross-encoder, cut at {limit} tokens; only the order of "
            "scores counts"
        )
        code = (
            "from sentence_transformers import CrossEncoder\n"
            "scores = CrossEncoder(folder).predict([(sentence1, sentence2)])"
        )
        write_card(folder, {"title": "Cross-encoder"} | card, kind, code, task="text-ranking")

    def _pair_tokens(self, first: list[str], second: list[str], limit: int) -> Any:
        return self.tokenizer(
            first, second, truncation="longest_first", max_length=min(limit, self.max_seq_length)
        )
