"""The interface between methods and the trainer, and the parts of contrastive methods."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import set_seed

from workbench import losses
from workbench.checkpoints import Checkpoint, find_checkpoint
from workbench.config import ContrastiveConfig, TrainingConfig
from workbench.data import Pairs
from workbench.encoder import (
    MULTIPLES,
    Card,
    CrossEncoder,
    Encoder,
    Rows,
    TokenRows,
    has_no_dropout,
    sentence_sides,
    unit_rows,
)
from workbench.errors import DataError, EncoderError, SettingError
from workbench.files import AnyPath, Facts
from workbench.losses import Embeddings, Scalar, Vectors
from workbench.methods.distributed import gather_rows
from workbench.methods.masked_language import MaskedLanguageModel
from workbench.methods.splitting import random_crops
from workbench.printing import LOG

_DROPOUT = 0.1  # BERT's own rate, the best of SimCSE's table 3

Batch = Facts
Terms = dict[str, Tensor]  # weighted losses by name
Inputs = dict[str, tuple[str, str]]  # role -> source, sha256
Observed = dict[str, list[Tensor]]  # name -> value of each step
Read = Callable[[Batch], Tensor]


def _redrawing(read: Read, device: torch.device) -> Read:
    """Return `read` that drops the same units when checkpointing calls it again.

    Torch restores the random state of every device for that but mps.
    """
    if device.type != "mps":
        return read
    seed = int(torch.randint(2**62, ()))

    def seeded(part: Batch) -> Tensor:
        torch.mps.manual_seed(seed)
        return read(part)

    return seeded


class Method(nn.Module):
    """One way to train an encoder: holds the encoder and everything that only training needs.

    The trainer and the evaluation use no more than `prepare`, `collate`, `forward`, `encode` and
    the methods below."""

    config_class: ClassVar[type[TrainingConfig]]
    pairwise: bool = False  # True for a model that scores pairs and does not embed sentences

    def __init__(self, config: TrainingConfig) -> None:
        """Load the starting encoder; every random weight derives from the seed of `config`."""
        super().__init__()
        if config.method != self.config_class.method:
            raise SettingError(
                f"{type(self).__name__} needs {self.config_class.__name__}, not "
                f"{type(config).__name__}"
            )
        # Before the first random weight: a pooler or a head of a start without one, then the
        # train-only layer. Two runs of one seed begin equal, whatever was computed before.
        set_seed(config.seed)
        self.config = config
        self._observed: Observed = {}
        # Whether batches have few shapes and nothing else that changes (`TrainingStep`).
        self.has_static_shapes = False
        options = {
            "train_length": config.max_seq_length,
            "new_pooler": True,
            "precision": config.precision,
            "device": config.device,
        }
        self.encoder = self.load_start(**options, dropout=config.dropout)
        # Views that only dropout tells apart would be one vector twice, and infoNCE would only
        # drive sentences apart. Some published checkpoints have a dropout of 0 in their files.
        if config.dropout_views and has_no_dropout(self.encoder.backbone.config):
            if config.dropout is None:
                self.encoder = self.load_start(**options, dropout=_DROPOUT)
                LOG.warning(
                    "dropout is set to %g: it is 0 in %s, so views would be equal",
                    _DROPOUT,
                    config.encoder,
                )
            else:
                LOG.warning(
                    "dropout is 0: views of the same words are equal, the loss only drives "
                    "sentences apart"
                )
        # Another start with the same name must not continue this training: the trainer stores it.
        self.starting_weights = self.encoder.checksum

    def load_start(self, **options: Any) -> Encoder:
        """Return the encoder that training begins with; options of `Encoder`."""
        checkpoint = self.find_start()
        spec = checkpoint.spec(self.config.pooling)
        assert spec  # a given pooling always has one
        # The losses compare cosines.
        return Encoder(checkpoint, replace(spec, similarity="cosine"), **options)

    def find_start(self) -> Checkpoint:
        """Return the checkpoint of the setting `encoder`.

        Raises SettingError if a default would change its pooling.
        """
        start = find_checkpoint(self.config.encoder, self.config.revisions.get(self.config.encoder))
        self.config.require_pooling(start.own_pooling)
        return start

    def prepare(self, data: Any) -> None:
        """Read the training set before the first step.

        Raises DataError if the method cannot train on it.
        """
        raise NotImplementedError

    def examples(self, data: Any) -> int:
        """Return the number of examples in the prepared set.

        An epoch passes each once to `collate`, by its number.
        """
        return len(data)

    def inputs(self) -> Inputs:
        """Return other inputs that `prepare` read, role -> (source, sha256).

        A resumed run refuses others.
        """
        return {}

    def collate(self, rows: Sequence[int]) -> Batch:
        """Return the batch for these row numbers (CPU tensors)."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> Terms:
        """Return weighted loss terms by name: the trainer minimises their sum and logs each."""
        raise NotImplementedError

    def pad(self, tokens: TokenRows, rows: Rows) -> Batch:
        """Return the tokens of these rows, for `embed`."""
        if not self.has_static_shapes:
            return tokens.batch(rows)
        multiple = MULTIPLES.get(self.encoder.device.type, 1)
        batch = tokens.batch(rows, multiple=multiple, most=self.encoder.train_length)
        del batch["lengths"]
        return batch

    def embed(self, tokens: Batch) -> Float[Tensor, "n *width"]:
        """Return the encoder's vectors for the rows of `tokens`, with gradient, for `forward`.

        With `mini_batch_size` or `mini_batch_tokens` the rows are read in chunks, each computed a
        second time in the backward pass with the same dropout masks: loss and gradients of the
        whole batch in the memory of one chunk.
        """
        return self._apply_in_chunks(self.encoder, tokens)

    def _chunks(self, tokens: Batch) -> list[slice]:
        """Return the rows of each chunk of a batch."""
        rows, width = tokens["input_ids"].shape
        most_rows = self.config.mini_batch_size or rows
        most_tokens = self.config.mini_batch_tokens or rows * width
        lengths = tokens.get("lengths") or [width] * rows
        starts = [0]
        count = 0  # tokens of the last chunk so far
        for row, length in enumerate(lengths):
            is_full = row - starts[-1] == most_rows or count + length > most_tokens
            if is_full and row > starts[-1]:
                starts.append(row)
                count = 0
            count += length
        return [slice(*bounds) for bounds in pairwise([*starts, rows])]

    def _apply_in_chunks(self, read: Read, tokens: Batch) -> Tensor:
        # GradCache (Gao et al. 2021) recomputes chunks by hand; checkpointing gives the same
        # gradient, and autograd handles the random state.
        chunks = self._chunks(tokens)
        if len(chunks) == 1 or not torch.is_grad_enabled():
            return read(tokens)
        # On the encoder's device: checkpoint keeps the random state of the devices that it sees.
        device = self.encoder.device
        on_device = {
            name: values.to(device) if isinstance(values, Tensor) else values
            for name, values in tokens.items()
        }
        vectors = []
        for rows in chunks:
            part = {name: values[rows] for name, values in on_device.items()}
            vectors.append(checkpoint(_redrawing(read, device), part, use_reentrant=False))
        return torch.cat(vectors)

    def observe(self, **values: Tensor) -> None:
        """Keep values of this step for the history.

        They stay on their device: reading them every step would wait for it.
        """
        for name, value in values.items():
            self._observed.setdefault(name, []).append(value.detach())

    @contextmanager
    def observed_apart(self) -> Iterator[Observed]:
        """Collect what is observed in this context, apart from the history."""
        kept = self._observed
        self._observed = apart = {}
        try:
            yield apart
        finally:
            self._observed = kept

    def observations(self) -> dict[str, float]:
        """Return what was observed since the last call: flags (bool) counted, numbers averaged."""
        observed = {}
        for name, steps in self._observed.items():
            values = torch.stack(steps)
            observed[name] = float(values.sum() if values.dtype == torch.bool else values.mean())
        self._observed = {}
        return observed

    def encode_plain(self, sentences: list[str] | str, batch_size: int = 64) -> Vectors:
        """Return unit rows of the encoder alone, which dev is measured with during training."""
        return self.encoder.encode(sentences, batch_size)

    def encode(
        self, sentences: list[str] | str, batch_size: int = 64, *, normalize_embeddings: bool = True
    ) -> Vectors:
        """Return unit rows (float32, CPU) in the order given.

        Their dot product is the method's similarity.

        With normalize_embeddings=False the encoder's vectors as pooled: the input of a classifier.
        """
        return self.encoder.encode(sentences, batch_size, normalize_embeddings=normalize_embeddings)

    def score(self, sentence1: list[str], sentence2: list[str]) -> np.ndarray:
        """Return the similarity of each pair: the dot product of the two embeddings.

        Of a cross-encoder it is the score, which need not be in [-1, 1].
        """
        if isinstance(self.encoder, CrossEncoder):
            return self.encoder.score(sentence1, sentence2)
        # In float64: Spearman of near ties would otherwise depend on the order of summation.
        first, second = unit_rows(self.encode, *sentence_sides(sentence1, sentence2))
        return (first * second).sum(axis=1)

    def save(self, folder: AnyPath, *, card: Card | None = None) -> None:
        """Save everything that `encode` needs, so that it can be used without this library."""
        self.encoder.save(folder, card=card)

    def restore(self, folder: AnyPath) -> None:
        """Load the weights that `save` wrote.

        Raises EncoderError if the folder has none, or another encoder's.
        """
        self.encoder.restore(folder)


class ContrastiveMethod(Method):
    """A method with a train-only layer on the sentence vectors, and masked language modelling.

    head_is_read: Whether a loss term reads the layer; otherwise there is none, because training in
    several processes refuses a layer without gradient.
    tokens, sentences: Of all texts, from `prepare`; sentences for crops alone.
    view_starts: The first row of each view in `tokens`; dropout views share theirs.
    """

    config: ContrastiveConfig
    tokens: TokenRows
    sentences: list[str]
    view_starts: Sequence[int] = (0, 0)

    def __init__(self, config: ContrastiveConfig, *, head_is_read: bool = True) -> None:
        super().__init__(config)
        # CompCSE's setting `mlp` has words, SimCSE's is a truth value.
        has_head = head_is_read and config.mlp not in (False, "none")
        self.head = MLPHead(self.encoder.dimension) if has_head else None
        self.words = MaskedLanguageModel(self.encoder) if config.mlm_weight else None

    def collate(self, rows: Sequence[int]) -> Batch:
        # One forward pass reads all views; each gets its own dropout.
        token_rows = [start + row for start in self.view_starts for row in rows]
        return {"tokens": self.token_batch(self.tokens, token_rows)}

    def loss_terms(self, vectors: Tensor, batch: Batch) -> Terms:
        """Return the weighted loss terms of a batch, from the vectors [texts, d] of its texts."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> Terms:
        # The words are guessed from each text on its own.
        terms = self.mlm_terms(batch["tokens"])
        return terms | self.loss_terms(self.embed(batch["tokens"]), batch)

    def token_batch(self, tokens: TokenRows, rows: Rows) -> Batch:
        """Return the tokens of these rows, for `embed` and `mlm_terms`, which masks words here."""
        batch = self.pad(tokens, rows)
        if not self.words:
            return batch
        return batch | self.words.mask(batch["input_ids"], static=self.has_static_shapes)

    def crop_batch(self, rows: Sequence[int], least_share: float) -> Batch:
        """Return the tokens of two random runs of the words of these sentences, view by view.

        They are drawn from torch's generator, which the trainer seeds for each step.
        """
        sentences = [self.sentences[row] for row in (*rows, *rows)]
        crops = random_crops(sentences, least_share)
        return self.token_batch(self.encoder.token_rows(crops), range(len(crops)))

    def mlm_terms(self, tokens: Batch) -> Terms:
        """Return {"mlm": mlm_weight x the mean loss of masked words}, or {} if the weight is 0."""
        words = self.words
        if not words:
            return {}
        # The sum of losses and the number of words, so that the mean is over the words of all
        # processes and not a mean of means.
        sums = self._apply_in_chunks(lambda part: words(self.encoder.token_states, part), tokens)
        of_processes = gather_rows(sums.sum(dim=0, keepdim=True))
        loss, count = of_processes.sum(dim=0)
        return {"mlm": self.config.mlm_weight * loss / count.clamp_min(1)}


def training_sentences(method: Method, data: Any, *, templates: bool = False) -> list[str]:
    """Return the sentences of a training set.

    Raises DataError for fewer than two sentences, EncoderError for a template if not allowed."""
    name = type(method).__name__
    if len(data) < 2:
        raise DataError(f"{data.name}: {len(data)} sentence; {name} needs at least 2")
    if method.encoder.template and not templates:
        raise EncoderError(
            f"pooling 'mask': {name} trains on plain sentences, not on a template; set "
            "another pooling"
        )
    return data.sentences


def require_kind(config: TrainingConfig, data: Any) -> None:
    """Raise DataError unless `data` is a training set of a kind that these settings train on."""
    kind = getattr(data, "kind", type(data).__name__)
    if kind not in config.train_kinds:
        name = getattr(data, "name", "the training set")
        kinds = " or ".join(config.train_kinds)
        raise DataError(
            f"{name}: {config.method} trains on {kinds} with these settings, not on {kind}; "
            "change train, in Python give Sentences, Pairs or Triplets (Sentences.from_frame(data))"
        )


def require_order(pairs: Pairs) -> None:
    """Raise DataError unless gold has two different labels.

    Equal ones say nothing about similarity.
    """
    if len(np.unique(pairs.gold)) < 2:
        raise DataError(
            f"{pairs.name}: all {len(pairs)} labels are {pairs.gold[0]:g}; training needs at least "
            "two different labels"
        )


def rank_labels(pairs: Pairs) -> np.ndarray:
    """Return the rank of each label among the distinct labels.

    As float32 targets, labels themselves could become equal.
    """
    return np.unique(pairs.gold, return_inverse=True)[1]


def gathered_views(
    vectors: Float[Tensor, "rows d"], head: nn.Module | None = None, *, count: int = 2
) -> list[Embeddings]:
    """Split the rows of one forward pass into views, each of all processes' sentences.

    A head is applied before they are gathered.
    """
    # Before gathering: each process applies the layer to its own rows, and gradients are not
    # counted twice.
    vectors = head(vectors) if head else vectors
    return [gather_rows(view) for view in vectors.chunk(count)]


def named_loss(name: str, values: Facts, scores: Tensor, target: Tensor) -> Scalar:
    """Return the loss of this name, which gets those of the values that it takes."""
    loss = getattr(losses, name)
    # So that a new loss is a function and a value of a setting, and no branch in a method.
    accepted = inspect.signature(loss).parameters.keys() & values.keys()
    return loss(scores, target, **{argument: values[argument] for argument in accepted})


class MLPHead(nn.Module):
    """z = tanh(W h + b) on the sentence vector, in training only (SimCSE sec. 6.3).

    It is initialised as BERT is.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        # BERT's initializer_range; torch's own default would be wider for small vectors.
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, vectors: Embeddings) -> Embeddings:
        return torch.tanh(self.linear(vectors))
