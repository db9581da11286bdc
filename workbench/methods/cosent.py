"""CoSENT (Huang et al. 2024): pairs with a higher label must score higher.

Also the losses that the paper compares it with.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn
from torch.nn import functional

from workbench.config import CoSENTConfig
from workbench.data import Pairs, Triplets
from workbench.encoder import CrossEncoder, Encoder
from workbench.errors import DataError
from workbench.losses import Embeddings, PairScores, Scalar, triplet, widen
from workbench.methods.base import (
    Batch,
    Method,
    Terms,
    gathered_views,
    named_loss,
    rank_labels,
    require_order,
)
from workbench.methods.distributed import gather_rows


class PairClassifier(nn.Module):
    """h = W (u, v, |u - v|): the classes of a pair from its two vectors (CoSENT eq. 5).

    Used in training only.
    """

    def __init__(self, width: int, classes: int, *, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * width, classes, bias=bias)

    def forward(self, first: Embeddings, second: Embeddings) -> Float[Tensor, "n c"]:
        return self.linear(torch.cat([first, second, (first - second).abs()], dim=1))


class CoSENT(Method):
    """The loss on the order of labels of the pairs of a batch (CoSENT eqs. 10, 11).

    It is log(1 + sum_{sim(i,j) > sim(k,l)} e^{lambda (s(k,l) - s(i,j))}).

    s is the cosine of two sentence vectors, or the score of a cross-encoder (setting
    `architecture`). Pairs of equal gold are not compared: in a batch of one label the loss is
    exactly 0 and so is its gradient; such batches are counted in the history. The setting
    `objective` replaces CoSENT by another supervised loss.
    """

    config_class = CoSENTConfig
    config: CoSENTConfig

    def __init__(self, config: CoSENTConfig) -> None:
        super().__init__(config)
        self.pairwise = config.architecture == "cross-encoder"
        self.classifier = None

    def load_start(self, **options: Any) -> Encoder:
        if self.config.architecture != "cross-encoder":
            return super().load_start(**options)
        return CrossEncoder(self.find_start(), **options)

    def prepare(self, data: Any) -> None:
        if self.config.objective == "triplet":
            self.texts = make_triplets(data, self.config.threshold)
            target = np.zeros(len(self.texts[0]))
        else:
            require_order(data)
            self.texts = data.texts
            target = self._make_target(data)
        self.target = torch.tensor(target, dtype=torch.float32)
        if not self.pairwise:
            self.tokens = self.encoder.token_rows(chain.from_iterable(self.texts))

    def _make_target(self, pairs: Pairs) -> ndarray:
        config = self.config
        if config.objective in ("mse", "cross_entropy"):
            return scale_labels(pairs)
        if config.objective == "pearson":
            return pairs.gold
        if config.objective == "contrastive":
            return split_labels(pairs, config.threshold)
        if config.objective == "softmax":
            numbers, classes = number_classes(pairs, config.softmax_labels)
            # Made here and not in __init__, because the number of classes is that of the data.
            head = PairClassifier(self.encoder.dimension, classes, bias=config.softmax_bias)
            self.classifier = head.to(next(self.encoder.parameters()))  # its device and its type
            return numbers
        return rank_labels(pairs)

    def examples(self, data: Any) -> int:
        """Return the number of pairs, or of triplets made from them."""
        return len(self.target)

    def collate(self, rows: Sequence[int]) -> Batch:
        batch: Batch = {"target": self.target[list(rows)]}
        if isinstance(self.encoder, CrossEncoder):
            first, second = ([texts[row] for row in rows] for texts in self.texts)
            batch["tokens"] = self.encoder.tokenize_pairs(first, second)
        else:
            # All first sentences, then all second ones (and third ones of triplets).
            starts = len(self.target) * np.arange(len(self.texts))
            batch["tokens"] = self.pad(self.tokens, np.add.outer(starts, rows).ravel())
        return batch

    def forward(self, batch: Batch) -> Terms:
        target = gather_rows(batch["target"].to(self.encoder.device))
        vectors = self.embed(batch["tokens"])
        return {self.config.objective: self._loss(vectors, target)}

    def _loss(self, vectors: Float[Tensor, "n *d"], target: Float[Tensor, " m"]) -> Scalar:
        if self.pairwise:
            return self._pair_loss(gather_rows(vectors), target)
        views = gathered_views(vectors, count=len(self.texts))
        if self.config.objective == "triplet":
            return triplet(*views, margin=self.config.margin)
        if self.classifier:
            return functional.cross_entropy(self.classifier(*views), target.long())
        return self._pair_loss(functional.cosine_similarity(*views, dim=1), target)

    def _pair_loss(self, scores: PairScores, target: PairScores) -> Scalar:
        """Return the loss of the objectives that read one score per pair."""
        config = self.config
        if config.objective == "cross_entropy":
            # Autocast refuses this loss in half precision.
            scores = widen(scores)
            return functional.binary_cross_entropy_with_logits(scores, target.to(scores.dtype))
        # A batch of one label says nothing of an order; the history counts them.
        if config.objective not in ("mse", "contrastive"):
            self.observe(unpaired_batches=(target == target[0]).all())
        # The code of the paper's interaction model does not multiply by lambda; the text does (eq.
        # 11).
        scale = 1.0 if self.pairwise and config.interaction_scale == "code" else config.scale
        values = {
            "scale": scale,
            "temperature": config.rank_temperature,
            "epsilon": config.epsilon,
            "form": config.contrastive_form,
        }
        return named_loss(config.objective, values, scores, target)


def scale_labels(pairs: Pairs) -> ndarray:
    """Return gold over the top of its scale, in [0, 1].

    As published code: STS / 5, SICK / 5 (so from 0.2), NLI / 2.
    """
    low, high = pairs.score_range
    if low < 0 or high <= 0:
        raise DataError(
            f"{pairs.name}: its scale is {low:g} to {high:g}; this objective needs one "
            "from 0 or more"
        )
    return pairs.gold / high


def split_labels(pairs: Pairs, threshold: float | None) -> ndarray:
    """Return 1 where gold is above `threshold`, otherwise 0.

    None: the middle of the scale (STS 2.5, SICK 3, NLI 1).

    Raises DataError if all pairs fall on one side.
    """
    cut = sum(pairs.score_range) / 2 if threshold is None else threshold
    similar = (pairs.gold > cut).astype(float)
    if similar.min() == similar.max():
        side = "above" if similar[0] == 0 else "at or below"
        raise DataError(
            f"{pairs.name}: no gold is {side} the threshold {cut:g}; set threshold to "
            f"{pairs.gold.min():g} or more, but below {pairs.gold.max():g}"
        )
    return similar


def number_classes(pairs: Pairs, graded: str) -> tuple[ndarray, int]:
    """Return the number of each label among the labels that occur, and how many there are.

    graded: What to do with labels between whole numbers: "whole" refuses them, "nearest" rounds
        half up, "floor" cuts."""
    whole = pairs.gold
    if graded == "nearest":
        whole = np.floor(whole + 0.5)
    if graded == "floor":
        whole = np.floor(whole)
    grades = whole[whole != np.floor(whole)]
    if len(grades):
        raise DataError(
            f"{pairs.name}: gold has grades such as {grades[0]:g}, and softmax needs classes; "
            "set softmax_labels to nearest or floor, or another objective"
        )
    labels, numbers = np.unique(whole, return_inverse=True)
    if len(labels) < 2:
        raise DataError(
            f"{pairs.name}: all labels fall into class {labels[0]:g}; softmax needs two or more"
        )
    return numbers, len(labels)


def make_triplets(data: Pairs | Triplets, threshold: float | None) -> list[list[str]]:
    """Return anchors, positives and negatives.

    Of pairs, each first sentence with each similar and dissimilar second.

    Raises DataError if no first sentence of the pairs has both.
    """
    if isinstance(data, Triplets):
        return data.texts
    similar = split_labels(data, threshold).astype(int)
    partners_of = defaultdict(lambda: ([], []))  # first sentence -> negatives, positives
    for first, second, is_similar in zip(data.sentence1, data.sentence2, similar, strict=True):
        partners_of[first][is_similar].append(second)
    triplets = []
    for anchor, (negatives, positives) in partners_of.items():
        triplets += product([anchor], positives, negatives)
    if not triplets:
        raise DataError(
            f"{data.name}: no first sentence has a similar and a dissimilar partner to make a "
            "triplet; train on triplets such as nli-simcse, or set another objective"
        )
    return [list(column) for column in zip(*triplets, strict=True)]
