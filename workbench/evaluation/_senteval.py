"""SentEval's own classifier, with the settings of its published numbers ("pytorch-MLP-nhid0-adam-bs64")."""

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SEED = 1111
_BATCH, _EPOCHS, _MOST, _TENACITY, _HELD = 64, 4, 200, 5, 0.05
Rows = tuple[np.ndarray, np.ndarray]


def fit_senteval(train: Rows, held: Rows | None, strength: float) -> Callable[[np.ndarray], np.ndarray]:
    """A linear layer trained by Adam with weight decay `strength`; the best on `held`, None: on 5% of `train`.

    It is judged after every four epochs, 200 at most, and ends at the sixth time in all that it is no better than ever
    before (SentEval's count does not start again). The generators are its own: the same rows give the same weights.
    """
    order = np.random.RandomState(SEED)  # SentEval's generator
    x, y = torch.from_numpy(train[0]).float(), torch.from_numpy(train[1]).long()
    if held is None:
        shuffled = order.permutation(len(x))
        cut = int(_HELD * len(x))
        dev_x, dev_y, x, y = x[shuffled[:cut]], y[shuffled[:cut]], x[shuffled[cut:]], y[shuffled[cut:]]
    else:
        dev_x, dev_y = torch.from_numpy(held[0]).float(), torch.from_numpy(held[1]).long()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        layer = nn.Linear(x.shape[1], int(train[1].max()) + 1)
    optimizer = torch.optim.Adam(layer.parameters(), weight_decay=strength)
    best, kept, worse, epochs = -1.0, layer, 0, 0
    while worse <= _TENACITY and epochs <= _MOST:
        for _ in range(_EPOCHS):
            for batch in torch.from_numpy(order.permutation(len(x))).split(_BATCH):
                optimizer.zero_grad()
                functional.cross_entropy(layer(x[batch]), y[batch]).backward()
                optimizer.step()
        epochs += _EPOCHS
        accuracy = float((_classes(layer, dev_x) == dev_y).float().mean())
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(layer)
        else:
            worse += 1
    return lambda given: _classes(kept, torch.from_numpy(given).float()).numpy()


@torch.no_grad()
def _classes(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return layer(x).argmax(dim=1)
