"""Transfer tasks by SentEval's protocol: the accuracy of a linear classifier on frozen vectors.

Without a split (MR, CR, SUBJ, MPQA): ten stratified folds, each classified by a classifier trained
on the other nine, whose regularisation is chosen on ten folds of those. With train and test (TREC,
MRPC): chosen on ten folds of train. With dev too (SST-2): chosen there. Rows are ordered and folds
drawn as in SentEval, so that the folds are the same."""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from workbench.data import TransferTask, labels
from workbench.encoder import distinct_vectors
from workbench.errors import DataError

Classifier = Literal["sklearn", "senteval"]
FOLDS = 10
SEED = 1111  # of the folds, and of SentEval's classifier ("pytorch-MLP-nhid0-adam-bs64")
_BATCH = 64
_EPOCHS = 4  # between two evaluations on held rows
_CHECKS = 51  # evaluations at most: SentEval goes on up to and with 200 epochs
_TENACITY = 5
_HELD = 0.05
Rows = tuple[np.ndarray, np.ndarray]  # features [n, d], classes [n]
Predict = Callable[[np.ndarray], np.ndarray]  # features -> the class of each row


def classify(
    encode: Callable[[list[str]], Any], task: TransferTask, classifier: Classifier = "sklearn"
) -> tuple[dict[str, Any], np.ndarray]:
    """Classify the vectors of a transfer task's sentences; for pairs |u - v| and u * v.

    Args:
        encode: Sentences -> vectors.
        task: As `load_task` returns it.
        classifier: "sklearn": scikit-learn's logistic regression with SentEval's grid for it (C
            from 1/4 to 8, with train and test from 1/2 to 32); "senteval": SentEval's own, a linear
            layer trained by Adam with early stopping and weight decay 1e-5 to 1e-2, which the
            published numbers are from.

    Returns:
        {"n", "accuracy", "dev_accuracy", "classifier"}, for pairs also "f1", shares in [0, 1], over
        folds their mean; and the predicted class of each row of `task.judged`.
    """
    if classifier == "senteval":
        fit = fit_senteval
        strengths = [10.0**power for power in range(-5, -1)]
    else:
        fit = _fit_sklearn
        powers = range(-1, 6) if set(task.splits) == {"train", "test"} else range(-2, 4)
        strengths = [2.0**power for power in powers]
    predicted = np.empty(len(task), dtype=int)
    accuracies = []
    dev_accuracies = []
    for train, test, dev, places in _splits(encode, task):
        right = []
        for some, held, _ in [(train, dev, None)] if dev else _folds(task.name, train):
            right.append(
                [np.mean(predict(held[0]) == held[1]) for predict in fit(some, held, strengths)]
            )
        # SentEval compares what it prints.
        shares = [round(float(mean), 4) for mean in np.mean(right, axis=0)]
        best = int(np.argmax(shares))
        (predict,) = fit(train, dev, [strengths[best]])
        predicted[places] = predict(test[0])
        accuracies.append(np.mean(predicted[places] == test[1]))
        dev_accuracies.append(shares[best])
    values: dict[str, Any] = {
        "n": len(task),
        "accuracy": float(np.mean(accuracies)),
        "dev_accuracy": float(np.mean(dev_accuracies)),
        "classifier": classifier,
    }
    if len(task.judged.texts) == 2:
        from sklearn.metrics import f1_score

        values["f1"] = float(f1_score(labels(task.judged), predicted))
    return values, predicted


def _splits(
    encode: Callable[[list[str]], Any], task: TransferTask
) -> Iterator[tuple[Rows, Rows, Rows | None, Any]]:
    """Yield train, test, dev or None, and the positions of the test rows in the task."""
    vectors, places = distinct_vectors(
        encode, *(side for data in task.splits.values() for side in data.texts)
    )
    each = iter(places)
    rows = {}
    order = {}
    for name, data in task.splits.items():
        classes = labels(data)
        lengths = [[len(text.split()) for text in side] for side in data.texts]
        by_length = np.lexsort([classes, *reversed(lengths)])  # then by class, as SentEval
        x, *other = (vectors[np.asarray(next(each))[by_length]] for _ in lengths)
        for y in other:
            x = np.hstack([np.abs(x - y), x * y])
        order[name] = by_length
        rows[name] = x, classes[by_length]
    if "all" in rows:
        for train, test, places in _folds(task.name, rows["all"]):
            yield train, test, None, order["all"][places]
    else:
        yield rows["train"], rows["test"], rows.get("dev"), order["test"]


def _folds(name: str, rows: Rows) -> Iterator[tuple[Rows, Rows, np.ndarray]]:
    """Yield the other rows, the rows of the fold, and their positions."""
    from sklearn.model_selection import StratifiedKFold

    fewest = np.unique(rows[1], return_counts=True)[1].min()
    if fewest < FOLDS:
        raise DataError(f"{name}: a class has {fewest} rows; {FOLDS} folds need at least {FOLDS}")
    for others, own in StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(*rows):
        yield _take_rows(rows, others), _take_rows(rows, own), own


def _take_rows(rows: Rows, which: np.ndarray) -> Rows:
    return rows[0][which], rows[1][which]


def _fit_sklearn(train: Rows, _: Rows | None, strengths: Sequence[float]) -> list[Predict]:
    from sklearn.linear_model import LogisticRegression

    return [
        LogisticRegression(C=strength, max_iter=2000).fit(*train).predict for strength in strengths
    ]


def fit_senteval(train: Rows, held: Rows | None, strengths: Sequence[float]) -> list[Predict]:
    """Train one linear layer per weight decay by Adam; keep the best on `held`, by default on 5% of
    `train`.

    It is evaluated after every four epochs, 200 at most, and stops at the sixth time in all that it
    is not better than before, as in SentEval. The same rows give the same weights. All layers start
    alike and read the rows in one order, so they are trained as the rows of one layer."""
    order = np.random.RandomState(SEED)  # SentEval's generator
    layers = _Layers(train[0].shape[1], int(train[1].max()) + 1, strengths)
    if held is None:
        shuffled = order.permutation(len(train[0]))
        cut = int(_HELD * len(shuffled))
        if not cut:
            raise DataError(
                f"{len(shuffled)} rows; SentEval's classifier needs 20 or more, 5% of "
                "which it stops by"
            )
        held = _take_rows(train, shuffled[:cut])
        train = _take_rows(train, shuffled[cut:])
    x, y = _tensors(train)
    dev_x, dev_y = _tensors(held)
    optimizer = torch.optim.Adam([layers.weight, layers.bias], fused=True)
    kept = copy.deepcopy(layers)
    best = torch.full_like(layers.decay[:, 0], -1)
    worse = torch.zeros_like(best)
    for _ in range(_CHECKS):
        training = worse <= _TENACITY
        if not training.any():
            break
        for _ in range(_EPOCHS):
            for batch in torch.from_numpy(order.permutation(len(x))).split(_BATCH):
                layers.backward(x[batch], y[batch])
                optimizer.step()
        accuracy = (layers.predict(dev_x) == dev_y).float().mean(dim=1)
        better = training & (accuracy > best)
        kept.weight[better] = layers.weight[better]
        kept.bias[better] = layers.bias[better]
        best = torch.where(better, accuracy, best)
        worse += ~better
    return [partial(_predict_one, kept, layer) for layer in range(len(strengths))]


def _tensors(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(rows[0]).float(), torch.from_numpy(rows[1]).long()


def _predict_one(layers: "_Layers", layer: int, rows: np.ndarray) -> np.ndarray:
    return layers.predict(torch.from_numpy(rows).float())[layer].numpy()


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
        return functional.linear(x, self.weight.flatten(0, 1), self.bias.flatten()).unflatten(
            1, self.bias.shape
        )

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes [layers, rows]."""
        return self.logits(x).argmax(dim=2).T

    def backward(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Set the gradients of cross-entropy, and of the decay as Adam adds it."""
        wrong = (self.logits(x).softmax(dim=2) - self.each[y, None]) / len(x)
        self.weight.grad = (
            (wrong.flatten(1).T @ x).view_as(self.weight).add_(self.decay[..., None] * self.weight)
        )
        self.bias.grad = wrong.sum(dim=0).add_(self.decay * self.bias)
