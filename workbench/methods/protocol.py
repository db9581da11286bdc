"""What a method is to the trainer, and the pieces that the contrastive methods share."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import set_seed

from workbench.config import TrainingConfig
from workbench.data import Sentences
from workbench.encoder import Checkpoint, Encoder, Pooling, Reading, find_checkpoint, has_no_dropout, weights_checksum
from workbench.errors import DataError, EncoderError
from workbench.methods.masked_words import MaskedWords
from workbench.processes import gather_rows

_LOG = logging.getLogger("workbench")
_DROPOUT = 0.1  # BERT's own rate, the best of SimCSE's table 2

Batch = dict[str, Any]


class Method(nn.Module):
    """One way to train an encoder: owns the encoder and whatever it needs in training alone.

    A method is built from its settings. `prepare` sees the training set once, `collate` turns row numbers of that set
    into a batch, `forward` turns a batch into named loss terms, `encode` is the embedding whose dot products are the
    method's similarity. The trainer and the evaluation know no more than this.
    """

    config_class: ClassVar[type[TrainingConfig]]
    pairwise: bool = False  # True for a model that scores pairs and has no embedding of a sentence

    def __init__(self, config: TrainingConfig) -> None:
        """Loads the starting encoder; every random weight derives from the seed of `config`."""
        super().__init__()
        if not isinstance(config, self.config_class):
            raise TypeError(f"{type(self).__name__} takes a {self.config_class.__name__}, not {type(config).__name__}")
        set_seed(config.seed)
        self.config = config
        options: dict[str, Any] = {
            "pooling": config.pooling,
            "max_tokens": config.max_tokens,
            "revision": config.revisions.get(config.encoder),
            "precision": config.precision,
            "device": config.device,
        }
        self.encoder = self.starting_encoder(**options, dropout=config.dropout)
        if config.dropout_views and has_no_dropout(self.encoder.backbone.config):
            if config.dropout is None:
                self.encoder = self.starting_encoder(**options, dropout=_DROPOUT)
                _LOG.warning(
                    "dropout is set to %g: it is 0 in %s, and both views would be equal", _DROPOUT, config.encoder
                )
            else:
                _LOG.warning(
                    "dropout is 0: both views of a sentence are equal, and the loss only drives sentences apart"
                )
        self.starting_weights = weights_checksum(self.encoder)

    def starting_encoder(self, *, pooling: Pooling, revision: str | None, **options: Any) -> Encoder:
        """The encoder that training begins with, read as the settings want it; options of `Encoder.load`."""
        checkpoint = self.starting_checkpoint(revision)
        return Encoder.load(checkpoint, checkpoint.read(pooling) or Reading(pooling), **options)

    def starting_checkpoint(self, revision: str | None) -> Checkpoint:
        """That of the setting `encoder`. SettingError where a default would undo the pooling that it was saved with."""
        found = find_checkpoint(self.config.encoder, revision)
        self.config.require_pooling(found.stored and found.stored.pooling)
        return found

    def prepare(self, data: Any) -> None:
        """Reads the training set once, before the first step: tokens, frozen teachers, corpus statistics."""
        raise NotImplementedError

    def examples(self, data: Any) -> int:
        """How many examples the prepared set makes; an epoch passes each once, and `collate` gets their numbers."""
        return len(data)

    def inputs(self) -> dict[str, tuple[str, str]]:
        """What `prepare` read besides the training set: role -> source and sha256; a resumed run refuses others."""
        return {}

    def collate(self, rows: Sequence[int]) -> Batch:
        """The batch of these rows of the prepared training set, on the CPU."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Loss terms by name, weighted: the trainer minimises their sum and logs each."""
        raise NotImplementedError

    def embed(self, tokens: dict[str, Tensor]) -> Float[Tensor, "n *width"]:
        """What the encoder gives for each row of `tokens`, with gradient; `forward` asks for it here.

        With the setting `chunk_size`, so many rows at a time, each chunk computed once more on the way back with the
        same dropout masks: loss and gradients are those of the whole batch in the activation memory of one chunk.
        """
        return self._in_chunks(self.encoder, tokens)

    def _in_chunks(self, read: Callable[[dict[str, Tensor]], Tensor], tokens: dict[str, Tensor]) -> Tensor:
        """What `read` gives for `tokens`, one part behind the other."""
        size, rows = self.config.chunk_size, len(tokens["input_ids"])
        if size is None or size >= rows or not torch.is_grad_enabled():
            return read(tokens)
        # On the encoder's device: checkpoint keeps the random state of the devices that it sees.
        tokens = {name: values.to(self.encoder.device) for name, values in tokens.items()}
        chunks = ({name: v[start : start + size] for name, v in tokens.items()} for start in range(0, rows, size))
        return torch.cat([checkpoint(read, chunk, use_reentrant=False) for chunk in chunks])

    def observations(self) -> dict[str, float]:
        """What deserves a column of the history beside the losses: shares and counts since this was last asked."""
        return {}

    def encode_plain(self, sentences: list[str] | str, batch_size: int = 64) -> Float[Tensor, "*n d"]:
        """Unit rows of the encoder alone, of which dev is measured while weights change."""
        return self.encoder.encode(sentences, batch_size)

    def vectors(self, sentences: list[str], batch_size: int = 64) -> Float[Tensor, "n d"]:
        """The encoder's vectors as pooled, not normalised: what a classifier is given."""
        return self.encoder.vectors(sentences, batch_size)

    def encode(self, sentences: list[str] | str, batch_size: int = 64) -> Float[Tensor, "*n w"]:
        """Unit rows, float32, on the CPU, in the order given; their dot product is the method's similarity."""
        return self.encode_plain(sentences, batch_size)

    def score(self, sentence1: list[str], sentence2: list[str]) -> np.ndarray:
        """One similarity a pair; here the dot product of the two embeddings."""
        first, second = unit_rows(self.encode, sentence1, sentence2)
        return (first * second).sum(axis=1)

    def save(self, folder: str | Path, *, card: dict[str, Any] | None = None) -> None:
        """Writes what `encode` needs, so that it can be used without this library."""
        self.encoder.save(folder, card=card)

    def restore(self, folder: str | Path) -> None:
        """Takes back the weights that `save` wrote. EncoderError when the folder holds none, or another encoder's."""
        self.encoder.restore(folder)


class ContrastiveMethod(Method):
    """A method whose loss may read sentence vectors through a layer that training alone has, and guess masked words."""

    def __init__(self, config: TrainingConfig) -> None:
        super().__init__(config)
        self.head = MLPHead(self.encoder.width) if self.reads_head() else None
        self.words_weight = getattr(config, "mlm_weight", 0.0)
        self.words = MaskedWords(self.encoder) if self.words_weight else None

    def reads_head(self) -> bool:
        """Whether a term of the loss reads the layer: one without gradient is not allowed in several processes."""
        return getattr(self.config, "mlp", "none") not in (False, "none")

    def guess_words(self, tokens: dict[str, Tensor]) -> dict[str, Tensor]:
        """{"mlm": mlm_weight x the mean loss of the masked words of a batch's texts}; {} where that weight is 0.

        A forward asks for it before anything else, so that which words are masked follows from the seed alone.
        """
        guess = self.words
        if guess is None:
            return {}
        summed = self._in_chunks(lambda part: guess(self.encoder.token_states(part), part), guess.masked(tokens))
        loss, count = gather_rows(summed.sum(dim=0, keepdim=True)).sum(dim=0)
        return {"mlm": self.words_weight * loss / count.clamp_min(1)}


def unit_rows(
    encode: Callable[[list[str]], Any], sentence1: Sequence[str], sentence2: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of both sides of pairs, float64 [n, d] of length 1, each distinct sentence embedded once.

    Raises EncoderError unless `encode` gives one row of finite numbers a sentence.
    """
    vectors, (first, second) = distinct_vectors(encode, sentence1, sentence2)
    # The largest coordinate first: the square of 1e200 would be infinite, that of 1e-200 nothing.
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    vectors = vectors / np.where(largest == 0, 1.0, largest)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A zero vector has no direction; its cosine with everything is 0, as the published evaluation has it.
    vectors = vectors / np.where(lengths == 0, 1.0, lengths)
    return vectors[first], vectors[second]


def distinct_vectors(encode: Callable[[list[str]], Any], *lists: Sequence[str]) -> tuple[np.ndarray, list[list[int]]]:
    """One float64 row for each distinct sentence of all lists, and for each list the rows of its sentences.

    Raises EncoderError unless `encode` gives one row of finite numbers a sentence.
    """
    place: dict[str, int] = {}
    rows = [[place.setdefault(sentence, len(place)) for sentence in sentences] for sentences in lists]
    vectors = numbers(encode(list(place)), "encode")
    if vectors.ndim != 2 or len(vectors) != len(place) or not vectors.shape[1]:
        raise EncoderError(
            f"encode returned shape {vectors.shape} for {len(place)} sentences; it must give one row each"
        )
    return vectors, rows


def numbers(given: Any, of: str) -> np.ndarray:
    """What `of` ("encode" or "score") returned, a tensor, an array, a sparse matrix or lists, as finite float64."""
    if isinstance(given, (list, tuple)) and given and isinstance(given[0], Tensor):
        given = torch.stack(list(given)) if len({row.shape for row in given}) == 1 else [row.tolist() for row in given]
    if isinstance(given, Tensor):
        given = given.detach().cpu().to_dense()
        given = given.double() if given.is_floating_point() else given  # numpy has no bf16
    dense = getattr(given, "toarray", None)  # of scipy's sparse matrices
    try:
        found = np.asarray(given if dense is None else dense())
        if found.dtype.kind not in "fiub":
            raise ValueError(f"it holds {found.dtype}")  # noqa: TRY301 - one refusal for all that are no numbers
    except ValueError as problem:
        raise EncoderError(f"{of} returned no table of numbers ({problem}); give one row of numbers each") from None
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        raise EncoderError(f"{of} returned nan or infinity; the encoder is broken or diverged")
    return found


def training_sentences(method: Method, data: Any, *, templates: bool = False) -> list[str]:
    """The sentences of a training set, two or more.

    Raises DataError for anything else, EncoderError for an encoder with a template unless the method knows `templates`.
    """
    name = type(method).__name__
    if not isinstance(data, Sentences):
        raise DataError(f"{set_name(data)}: {name} trains on plain sentences, not on {type(data).__name__.lower()}")
    if len(data) < 2:
        raise DataError(f"{data.name}: {len(data)} sentence; {name} needs at least 2, for there to be others")
    if method.encoder.template is not None and not templates:
        raise EncoderError(
            f"pooling 'mask': {name} trains on plain sentences, not on a template; choose another pooling"
        )
    return data.sentences


def set_name(data: Any) -> str:
    """What a refusal calls a training set, which may be none of ours."""
    return getattr(data, "name", "the training set")


def gathered_views(
    vectors: Float[Tensor, "rows d"], head: nn.Module | None = None, *, count: int = 2
) -> list[Float[Tensor, "n d"]]:
    """The rows of each view out of those of one forward pass over all, under `head`, of all processes' sentences."""
    vectors = vectors if head is None else head(vectors)
    return [gather_rows(view) for view in vectors.chunk(count)]


class MLPHead(nn.Module):
    """z = tanh(W h + b), on the sentence vector in training only (SimCSE sec. 6.3), initialised as BERT is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, vectors: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return torch.tanh(self.linear(vectors))
