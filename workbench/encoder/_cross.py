"""The cross-encoder: two sentences read together, one score; it has no vector of a sentence."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.encoder._card import model_card
from workbench.encoder._loading import load_classifier
from workbench.encoder._model import Encoder
from workbench.encoder._reading import Checkpoint, Reading
from workbench.encoder._saving import replacing, write_checkpoint
from workbench.encoder._tokens import checked_sentences
from workbench.errors import EncoderError


class CrossEncoder(Encoder):
    """A sequence classifier of transformers with one output, read as the similarity of a pair.

    backbone: the whole classifier; a head that the checkpoint does not have is drawn from torch's generator. It is
    saved so that AutoModelForSequenceClassification and the CrossEncoder of sentence-transformers read the same score.
    max_tokens: where training pairs are cut, both sentences and their special tokens together, the longer sentence
    first. pooling and template are of no use here and are not looked at.
    """

    _load_model: ClassVar[Callable[..., nn.Module]] = staticmethod(load_classifier)

    def tokenize_pairs(self, sentence1: Sequence[str], sentence2: Sequence[str]) -> dict[str, Tensor]:
        """Both sentences in one row, padded, cut at the training limit."""
        return dict(self._pair_tokens(list(sentence1), list(sentence2), self.max_tokens, "pt"))

    def forward(self, batch: Mapping[str, Tensor]) -> Float[Tensor, " n"]:
        """The score of each pair: the classifier's single logit, with gradient; larger is closer."""
        return self.backbone(**{name: rows.to(self.device) for name, rows in batch.items()}).logits.squeeze(-1)

    def score(self, sentence1: Iterable[str], sentence2: Iterable[str], batch_size: int = 64) -> np.ndarray:
        """The scores of pairs, float64, in the order given; no dropout, cut only at the backbone's own limit."""
        first, second = checked_sentences(sentence1), checked_sentences(sentence2)
        if len(first) != len(second):
            raise EncoderError(f"{len(first)} first and {len(second)} second sentences; give as many of both")
        rows: Any = self._pair_tokens(first, second, self.limit, None) if first else {"input_ids": []}
        lengths = np.array([len(ids) for ids in rows["input_ids"]], dtype=np.int64)

        def batch_of(index: np.ndarray) -> Mapping[str, Tensor]:
            chosen = {name: [column[i] for i in index] for name, column in rows.items()}
            return self.tokenizer.pad(chosen, padding=True, return_tensors="pt")

        scores = self._computed(torch.empty(len(first)), lengths, batch_size, batch_of).double().numpy()
        if not np.isfinite(scores).all():
            raise EncoderError(f"some scores of {self.source} are not finite: its weights are broken")
        return scores

    def vectors(self, sentences: Iterable[str], batch_size: int = 64) -> NoReturn:
        """Raises EncoderError: a cross-encoder has no embedding, so neither has `encode`."""
        raise EncoderError(
            "an interaction model reads two sentences together and has no embedding of one; use "
            "score(sentence1, sentence2) or evaluate(method, suites), or train model=representation"
        )

    def save(
        self, folder: str | Path, *, card: dict[str, Any] | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        """Writes classifier, head and tokenizer as transformers does; see Encoder.save for the arguments."""
        config = self.backbone.config
        # CrossEncoder would put a sigmoid on a single logit, which ties all confident pairs in float32.
        config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
        with replacing(Path(folder)) as fresh:
            write_checkpoint(self, fresh, dtype)
            text = model_card(
                self, {"title": "Cross-encoder"} | (card or {}), pipeline="text-ranking", usage=_usage(self)
            )
            (fresh / "README.md").write_text(text, encoding="utf-8")

    @staticmethod
    def _read(checkpoint: Checkpoint, pooling: str | None, template: str | None) -> Reading:
        return Reading("cls")

    def _pair_tokens(self, first: list[str], second: list[str], limit: int, tensors: str | None) -> Any:
        return self.tokenizer(
            first,
            second,
            truncation="longest_first",
            max_length=min(limit, self.limit),
            padding=tensors is not None,
            return_tensors=tensors,
        )


def _usage(encoder: CrossEncoder) -> list[str]:
    return [
        f"A {encoder.backbone.config.model_type} cross-encoder: one score for two sentences of at most {encoder.limit} "
        "tokens together. Only the order of the scores has a meaning.",
        "",
        "```python",
        "from sentence_transformers import CrossEncoder",
        "scores = CrossEncoder(folder).predict([(sentence1, sentence2)])",
        "```",
        "",
    ]
