"""SentEval's own classifier, with the settings of its published numbers ("pytorch-MLP-nhid0-adam-bs64")."""

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from workbench.errors import DataError

SEED = 1111
_BATCH, _EPOCHS, _MOST, _TENACITY, _HELD = 64, 4, 200, 5, 0.05
Rows = tuple[np.ndarray, np.ndarray]  # features [n, d], classes [n]
Classes = Callable[[np.ndarray], np.ndarray]  # features -> the class of each row


def fit_senteval(train: Rows, held: Rows | None, strengths: Sequence[float]) -> list[Classes]:
    """A linear layer a strength, trained by Adam with that weight decay; the best on `held`, None: on 5% of `train`.

    It is judged after every four epochs, 200 at most, and ends at the sixth time in all that it is no better than ever
    before (SentEval's count does not start again). The generators are its own: the same rows give the same weights.
    Every strength begins alike and reads the rows in one order, so that all layers are rows of one and train as one.
    Raises DataError where 5% of `train` is not one row.
    """
    order = np.random.RandomState(SEED)  # SentEval's generator
    x, y = torch.from_numpy(train[0]).float(), torch.from_numpy(train[1]).long()
    if held is None:
        shuffled = order.permutation(len(x))
        cut = int(_HELD * len(x))
        if not cut:
            raise DataError(f"{len(x)} rows, of which SentEval's classifier keeps 5% to stop by: give 20 or more")
        dev_x, dev_y, x, y = x[shuffled[:cut]], y[shuffled[:cut]], x[shuffled[cut:]], y[shuffled[cut:]]
    else:
        dev_x, dev_y = torch.from_numpy(held[0]).float(), torch.from_numpy(held[1]).long()
    layers = _Layers(x.shape[1], int(train[1].max()) + 1, strengths)
    optimizer = torch.optim.Adam([layers.weight, layers.bias], fused=True)
    best, worse, epochs = torch.full((len(strengths),), -1.0), torch.zeros(len(strengths)), 0
    kept = copy.deepcopy(layers)
    while (training := worse <= _TENACITY).any() and epochs <= _MOST:
        for _ in range(_EPOCHS):
            for batch in torch.from_numpy(order.permutation(len(x))).split(_BATCH):
                layers.learn(x[batch], y[batch])
                optimizer.step()
        epochs += _EPOCHS
        accuracy = (layers.classes(dev_x) == dev_y).float().mean(dim=1)
        better = training & (accuracy > best)
        kept.weight[better], kept.bias[better] = layers.weight[better], layers.bias[better]
        best, worse = torch.where(better, accuracy, best), worse + ~better
    return [lambda given, i=i: kept.classes(torch.from_numpy(given).float())[i].numpy() for i in range(len(strengths))]


class _Layers:
    """Linear layers of one start that see the same rows, each with a weight decay of its own."""

    def __init__(self, width: int, classes: int, strengths: Sequence[float]):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            layer = nn.Linear(width, classes)
        self.weight = layer.weight.detach().repeat(len(strengths), 1, 1)
        self.bias = layer.bias.detach().repeat(len(strengths), 1)
        self.decay = torch.tensor(strengths)[:, None]
        self.each = torch.eye(classes)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """[rows, layers, classes]."""
        flat = functional.linear(x, self.weight.flatten(0, 1), self.bias.flatten())
        return flat.unflatten(1, self.bias.shape)

    def classes(self, x: torch.Tensor) -> torch.Tensor:
        """[layers, rows]."""
        return self.logits(x).argmax(dim=2).T

    def learn(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """The gradients: of cross-entropy, and of the decay as Adam adds it."""
        wrong = (self.logits(x).softmax(dim=2) - self.each[y, None]) / len(x)
        self.weight.grad = (wrong.flatten(1).T @ x).view_as(self.weight).add_(self.decay[..., None] * self.weight)
        self.bias.grad = wrong.sum(dim=0).add_(self.decay * self.bias)
