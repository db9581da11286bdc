"""The cross-encoder: two sentences read together, one score; it has no vector of a sentence."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification

from workbench.encoder._checkpoint import Checkpoint, find_checkpoint, quiet
from workbench.encoder._tokens import checked_sentences, falling_batches
from workbench.encoder.choices import Precision, choose_device, choose_precision
from workbench.encoder.loading import load_config, load_tokenizer, set_dropout
from workbench.encoder.model import Encoder
from workbench.encoder.saving import model_card, replacing, write_checkpoint
from workbench.errors import EncoderError

_CPU_TOKENS = 1024  # padded tokens a batch on a CPU, as in Encoder.encode
# The parts of a sequence classifier that a plain checkpoint does not have: new ones are drawn for them.
_NEW_PARTS = {"classifier", "pooler", "pre_classifier", "score", "head"}


class CrossEncoder(Encoder):
    """A sequence classifier of transformers with one output, read as the similarity of a pair.

    backbone: the whole classifier, head included. It is saved so that AutoModelForSequenceClassification and the
    CrossEncoder of sentence-transformers read the same score from it.
    """

    @classmethod
    def from_pretrained(
        cls,
        path_or_hub_id: str | Path,
        pooling: Any = None,
        max_tokens: int = 32,
        *,
        template: str | None = None,
        revision: str | None = None,
        precision: Precision = "auto",
        device: str = "auto",
        dropout: float | None = None,
    ) -> "CrossEncoder":
        """The cross-encoder that stands on a checkpoint, in eval mode; see Encoder.from_pretrained for the arguments.

        A head that the checkpoint does not have is drawn from torch's generator. max_tokens: where training pairs are
        cut, both sentences and their special tokens together, the longer sentence first. pooling and template are of
        no use here and are not looked at.
        """
        checkpoint = find_checkpoint(str(path_or_hub_id), revision)
        place = choose_device(device)
        encoder = cls(
            _load_classifier(checkpoint, dropout),
            load_tokenizer(checkpoint),
            max_tokens=max_tokens,
            precision=choose_precision(precision, place),
            checkpoint=checkpoint,
        )
        return encoder.to(place).eval()

    def tokenize_pairs(
        self, sentence1: Sequence[str], sentence2: Sequence[str], *, max_tokens: int | None = None
    ) -> dict[str, Tensor]:
        """Both sentences in one row, padded, cut at max_tokens (None: the training limit)."""
        return dict(self._pair_tokens(list(sentence1), list(sentence2), max_tokens or self.max_tokens, "pt"))

    def forward(self, batch: Mapping[str, Tensor]) -> Float[Tensor, " n"]:
        """The score of each pair: the classifier's single logit, with gradient; larger is closer."""
        return self.backbone(**{name: rows.to(self.device) for name, rows in batch.items()}).logits.squeeze(-1)

    def score(self, sentence1: Iterable[str], sentence2: Iterable[str], batch_size: int = 64) -> np.ndarray:
        """The scores of pairs, float64, in the order given; no dropout, cut only at the backbone's own limit."""
        first, second = checked_sentences(sentence1), checked_sentences(sentence2)
        if len(first) != len(second):
            raise EncoderError(f"{len(first)} first and {len(second)} second sentences; give as many of both")
        scores = np.empty(len(first))
        rows: Any = self._pair_tokens(first, second, self.limit, None) if first else {"input_ids": []}
        lengths = np.array([len(ids) for ids in rows["input_ids"]], dtype=np.int64)
        tokens = _CPU_TOKENS if self.device.type == "cpu" else None
        was_training = self.training
        self.eval()
        with torch.no_grad(), self._autocast():
            for index in falling_batches(lengths, rows=batch_size, tokens=tokens):
                chosen = {name: [column[i] for i in index] for name, column in rows.items()}
                batch = self.tokenizer.pad(chosen, padding=True, return_tensors="pt")
                scores[index] = self(batch).float().cpu().numpy()
        self.train(was_training)
        if not np.isfinite(scores).all():
            raise EncoderError(f"some scores of {self.source} are not finite: its weights are broken")
        return scores

    def encode(self, sentences: Iterable[str], batch_size: int = 64, *, progress: bool = False) -> NoReturn:
        """Raises EncoderError: a cross-encoder has no embedding."""
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

    def _pair_tokens(self, first: list[str], second: list[str], limit: int, tensors: str | None) -> Any:
        return self.tokenizer(
            first,
            second,
            truncation="longest_first",
            max_length=min(limit, self.limit),
            padding=tensors is not None,
            return_tensors=tensors,
        )


def _load_classifier(checkpoint: Checkpoint, dropout: float | None) -> nn.Module:
    """The checkpoint as a sequence classifier with one label; EncoderError when it cannot be one."""
    config = load_config(checkpoint)
    if dropout is not None:
        set_dropout(config, dropout)
    if "ForSequenceClassification" in "".join(config.architectures or []) and config.num_labels != 1:
        raise EncoderError(
            f"{checkpoint.folder} is a classifier with {config.num_labels} labels; an interaction model has one score: "
            "start from the plain pretrained model"
        )
    config.num_labels = 1
    try:
        with quiet():
            model, report = AutoModelForSequenceClassification.from_pretrained(
                os.fspath(checkpoint.folder),
                config=config,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except Exception as error:
        raise EncoderError(f"{checkpoint.folder} cannot be loaded as a classifier of pairs: {error}") from error
    missing = sorted(key for key in report["missing_keys"] if not _NEW_PARTS & set(key.split(".")))
    if missing:
        raise EncoderError(
            f"{checkpoint.folder} lacks {len(missing)} weights of its backbone (such as {missing[0]}); "
            "the file is of another model or was saved in part: save the whole model again"
        )
    return model


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
