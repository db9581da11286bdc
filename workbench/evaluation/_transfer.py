"""Transfer tasks by SentEval's protocol: the accuracy of a linear classifier on frozen vectors.

Without a split (MR, CR, SUBJ, MPQA): ten stratified folds, each classified by a classifier trained
on the other nine, whose regularisation is chosen on ten folds of those. With train and test (TREC,
MRPC): chosen on ten folds of train. With dev too (SST-2): chosen there. Rows are ordered and folds
drawn as in SentEval, so that the folds are the same."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy import ndarray
from torch import nn
from torch.nn import functional

from workbench.data import TransferTask, labels
from workbench.encoder import Encode, distinct_vectors
from workbench.errors import DataError
from workbench.files import Facts

Classifier = Literal["sklearn", "senteval"]
FOLDS = 10
SEED = 1111  # of the folds, and of SentEval's classifier ("pytorch-MLP-nhid0-adam-bs64")
_BATCH = 64
_EPOCHS = 4  # between two evaluations on held rows
_CHECKS = 51  # evaluations at most: SentEval goes on up to and with 200 epochs
_TENACITY = 5
_HELD = 0.05
Rows = tuple[ndarray, ndarray]  # features [n, d], classes [n]
Predict = Callable[[ndarray], ndarray]  # features -> the class of each row


def classify(
    encode: Encode, task: TransferTask, classifier: Classifier = "sklearn"
) -> tuple[Facts, ndarray]:
    """Classify the vectors of a transfer task's sentences; for pairs |u - v| and u * v.

    Args:
        encode: Sentences -> vectors.
        task: As `load_task` returns it.
        classifier: "sklearn": scikit-learn's logistic regression, of 2,000 iterations at most, with
            SentEval's grid for it (C from 1/4 to 8, with train and test from 1/2 to 32);
            "senteval": SentEval's own, a linear layer trained by Adam with early stopping and
            weight decay 1e-5 to 1e-2, which the published numbers are from.

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
    # Each row of the judged set is in one test part: of all folds, or of the only one.
    predicted = np.empty(len(task), int)
    accuracies = []
    dev_accuracies = []
    for train, test, dev, places in _splits(encode, task):
        trials = [(train, dev)] if dev else [fold[:2] for fold in _folds(task.name, train)]
        right = [
            [np.mean(predict(x) == y) for predict in fit(rest, (x, y), strengths)]
            for rest, (x, y) in trials
        ]
        # SentEval compares what it prints: of equal shares the first strength is chosen.
        shares = [round(float(mean), 4) for mean in np.mean(right, axis=0)]
        best = np.argmax(shares)
        (predict,) = fit(train, dev, [strengths[best]])
        x, y = test
        predicted[places] = predict(x)
        accuracies.append(np.mean(predicted[places] == y))
        dev_accuracies.append(shares[best])
    values = {
        "n": len(task),
        "accuracy": float(np.mean(accuracies)),
        "dev_accuracy": float(np.mean(dev_accuracies)),
        "classifier": classifier,
    }
    if len(task.judged.texts) == 2:
        from sklearn.metrics import f1_score

        values["f1"] = float(f1_score(labels(task.judged), predicted))
    return values, predicted


def _splits(encode: Encode, task: TransferTask) -> Iterator[tuple[Rows, Rows, Rows | None, Any]]:
    """Yield train, test, dev or None, and the positions of the test rows in the task."""
    sides = [side for data in task.splits.values() for side in data.texts]
    # All splits at once: a sentence of several is encoded once.
    vectors, places = distinct_vectors(encode, *sides)
    vectors_of_sides = (vectors[place] for place in places)
    rows = {}
    order = {}
    for name, data in task.splits.items():
        classes = labels(data)
        lengths = [[len(text.split()) for text in side] for side in data.texts]
        keys = [classes, *reversed(lengths)]  # by length, then by class, as SentEval
        order[name] = np.lexsort(keys)
        features = next(vectors_of_sides)
        if len(data.texts) == 2:
            second = next(vectors_of_sides)
            features = np.hstack([np.abs(features - second), features * second])
        rows[name] = _take_rows((features, classes), order[name])
    if "all" in rows:
        for train, test, fold in _folds(task.name, rows["all"]):
            yield train, test, None, order["all"][fold]
    else:
        yield rows["train"], rows["test"], rows.get("dev"), order["test"]


def _folds(name: str, rows: Rows) -> Iterator[tuple[Rows, Rows, ndarray]]:
    """Yield the other rows, the rows of the fold, and their positions."""
    from sklearn.model_selection import StratifiedKFold

    # scikit-learn would only warn, and leave folds without a class.
    _, sizes = np.unique(rows[1], return_counts=True)
    if min(sizes) < FOLDS:
        raise DataError(
            f"{name}: a class has {min(sizes)} rows; {FOLDS} folds need at least {FOLDS}"
        )
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    for others, own in folds.split(*rows):
        yield _take_rows(rows, others), _take_rows(rows, own), own


def _take_rows(rows: Rows, which: ndarray) -> Rows:
    return rows[0][which], rows[1][which]


def _fit_sklearn(train: Rows, _: Rows | None, strengths: Sequence[float]) -> list[Predict]:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        # The warning advises to scale the vectors, which SentEval does not. At the end, after 2,300
        # to 2,500 iterations, 0 to 4 of TREC's 500 questions had another class for each of four
        # encoders.
        warnings.filterwarnings("ignore", r"lbfgs failed to converge.*status=1")
        return [
            LogisticRegression(C=strength, max_iter=2000).fit(*train).predict
            for strength in strengths
        ]


def fit_senteval(train: Rows, held: Rows | None, strengths: Sequence[float]) -> list[Predict]:
    """Train a linear layer for each weight decay by Adam; keep the best on held-out rows.

    It is evaluated after every four epochs, 204 at most, and stops at the sixth time in all that it
    is not better than before, as in SentEval. The same rows give the same weights: all layers start
    alike and read the rows in one order. Four layers take about four seconds for 2,500 rows of 384
    features on one core.

    Args:
        train: Features and classes.
        held: The held-out rows, by default 5% of `train`.
        strengths: The weight decays.

    Raises:
        DataError: `train` is too small to hold out 5% of it.
    """
    order = np.random.RandomState(SEED)  # SentEval's generator
    # The start is that of the seed, and the user's generator is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        start = nn.Linear(train[0].shape[1], int(train[1].max()) + 1)
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
    return [
        partial(_classes, _train_layer(deepcopy(start), train, held, strength, deepcopy(order)))
        for strength in strengths
    ]


def _train_layer(
    layer: nn.Linear, train: Rows, held: Rows, strength: float, order: np.random.RandomState
) -> nn.Linear:
    """Train the layer on batches in this order, and return the best on the held-out rows."""
    x = torch.from_numpy(train[0]).float()
    y = torch.from_numpy(train[1])
    optimizer = torch.optim.Adam(layer.parameters(), weight_decay=strength, fused=True)
    kept = layer
    best = -1.0
    failures = 0
    for _ in range(_CHECKS):
        for _ in range(_EPOCHS):
            for batch in torch.from_numpy(order.permutation(len(x))).split(_BATCH):
                optimizer.zero_grad()
                functional.cross_entropy(layer(x[batch]), y[batch]).backward()
                optimizer.step()
        accuracy = np.mean(_classes(layer, held[0]) == held[1])
        if accuracy > best:
            best = accuracy
            kept = deepcopy(layer)
        else:
            failures += 1
        if failures > _TENACITY:
            break
    return kept


def _classes(layer: nn.Linear, features: ndarray) -> ndarray:
    return layer(torch.from_numpy(features).float()).argmax(dim=1).numpy()
