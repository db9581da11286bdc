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
Predict = Callable[[np.ndarray], np.ndarray]  # features -> the class of each row


def fit_senteval(train: Rows, held: Rows | None, strengths: Sequence[float]) -> list[Predict]:
    """Train one linear layer per weight decay by Adam; keep the best on `held`, by default on 5% of `train`.

    It is evaluated after every four epochs, 200 at most, and stops at the sixth time in all that it is not better than
    before, as in SentEval. The same rows give the same weights. All layers start alike and read the rows in one order,
    so they are trained as the rows of one layer.
    """
    order = np.random.RandomState(SEED)  # SentEval's generator
    x, y = torch.from_numpy(train[0]).float(), torch.from_numpy(train[1]).long()
    if held is None:
        shuffled = order.permutation(len(x))
        cut = int(_HELD * len(x))
        if not cut:
            raise DataError(f"{len(x)} rows; SentEval's classifier needs 20 or more, 5% of which it stops by")
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
                layers.backward(x[batch], y[batch])
                optimizer.step()
        epochs += _EPOCHS
        accuracy = (layers.predict(dev_x) == dev_y).float().mean(dim=1)
        better = training & (accuracy > best)
        kept.weight[better], kept.bias[better] = layers.weight[better], layers.bias[better]
        best, worse = torch.where(better, accuracy, best), worse + ~better
    return [lambda rows, i=i: kept.predict(torch.from_numpy(rows).float())[i].numpy() for i in range(len(strengths))]


class _Layers:
    """Linear layers with one start and the same rows, each with its own weight decay."""

    def __init__(self, width: int, classes: int, strengths: Sequence[float]):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            layer = nn.Linear(width, classes)
        self.weight = layer.weight.detach().repeat(len(strengths), 1, 1)
        self.bias = layer.bias.detach().repeat(len(strengths), 1)
        self.decay = torch.tensor(strengths)[:, None]
        self.each = torch.eye(classes)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """Return [rows, layers, classes]."""
        return functional.linear(x, self.weight.flatten(0, 1), self.bias.flatten()).unflatten(1, self.bias.shape)

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes [layers, rows]."""
        return self.logits(x).argmax(dim=2).T

    def backward(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Set the gradients of cross-entropy, and of the decay as Adam adds it."""
        wrong = (self.logits(x).softmax(dim=2) - self.each[y, None]) / len(x)
        self.weight.grad = (wrong.flatten(1).T @ x).view_as(self.weight).add_(self.decay[..., None] * self.weight)
        self.bias.grad = wrong.sum(dim=0).add_(self.decay * self.bias)
