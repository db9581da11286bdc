"""Transfer tasks by SentEval's protocol: how well a linear classifier does on frozen vectors.

Without a split (MR, CR, SUBJ, MPQA): ten stratified folds, each classified by what learned from the other nine, its
regularisation chosen on ten folds of those. With train and test (TREC, MRPC): chosen on ten folds of train. With dev
too (SST-2): chosen there. Rows are ordered and folds drawn as SentEval's, so that the folds are the same.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from workbench.data import TransferTask, labels
from workbench.errors import DataError
from workbench.evaluation._senteval import SEED, Classes, Rows, fit_senteval
from workbench.methods.protocol import distinct_vectors

Classifier = Literal["sklearn", "senteval"]
Fit = Callable[[Rows, Rows | None, Sequence[float]], list[Classes]]  # one a strength
FOLDS = 10


def classify(encode: Callable[[list[str]], Any], task: TransferTask, classifier: Classifier = "sklearn") -> Any:
    """Accuracy of a linear classifier on the vectors that `encode` gives, and the class that it gives each row.

    Of pairs it sees |u - v| and u * v. classifier: "sklearn" is scikit-learn's logistic regression with SentEval's grid
    for it (C from 1/4 to 8, with train and test from 1/2 to 32); "senteval" SentEval's own, a linear layer trained by
    Adam with early stopping and weight decay 1e-5 to 1e-2, of which the published numbers are.

    Returns:
        {"n", "accuracy", "dev_accuracy", "classifier"}, of pairs "f1" too, shares in [0, 1]; and the predicted classes
        of `task.judged`, in its order. Accuracy over folds is the mean of the folds'.

    Raises:
        DataError: A class has too few rows for the folds. EncoderError: `encode` gives no row of numbers a sentence.
    """
    rows, order = _features(encode, task)
    judge = _Judge(task.name, _fit_sklearn if classifier == "sklearn" else fit_senteval, _grid(classifier, task))
    predicted = np.empty(len(task), dtype=int)
    if "all" in rows:
        shares, chosen = [], []
        for train, held in _folds(task.name, rows["all"]):
            guessed, dev = judge(_some(rows["all"], train), test := _some(rows["all"], held))
            predicted[order["all"][held]] = guessed
            shares.append(np.mean(guessed == test[1]))
            chosen.append(dev)
        accuracy, dev = np.mean(shares), np.mean(chosen)
    else:
        guessed, dev = judge(rows["train"], rows["test"], rows.get("dev"))
        predicted[order["test"]] = guessed
        accuracy = np.mean(guessed == rows["test"][1])
    values = {"n": len(task), "accuracy": float(accuracy), "dev_accuracy": float(dev), "classifier": classifier}
    if len(task.judged.texts) == 2:
        from sklearn.metrics import f1_score

        values["f1"] = float(f1_score(labels(task.judged), predicted))
    return values, predicted


def _features(encode: Callable[[list[str]], Any], task: TransferTask) -> tuple[dict[str, Rows], dict[str, np.ndarray]]:
    """What the classifier sees of each split, by length and class as SentEval orders it; and that order."""
    sides = {name: data.texts for name, data in task.splits.items()}
    vectors, places = distinct_vectors(encode, *(side for both in sides.values() for side in both))
    each = iter(places)
    rows, order = {}, {}
    for name, data in task.splits.items():
        lengths = [[len(text.split()) for text in side] for side in sides[name]]
        order[name] = np.lexsort(np.array([labels(data), *reversed(lengths)]))  # the last key first
        one, *other = (vectors[np.asarray(next(each))[order[name]]] for _ in sides[name])
        x = np.hstack([np.abs(one - other[0]), one * other[0]]) if other else one
        rows[name] = x, labels(data)[order[name]]
    return rows, order


def _grid(classifier: Classifier, task: TransferTask) -> list[float]:
    if classifier == "senteval":
        return [10.0**power for power in range(-5, -1)]
    return [2.0**power for power in (range(-1, 6) if set(task.splits) == {"train", "test"} else range(-2, 4))]


@dataclass(frozen=True)
class _Judge:
    """Chooses among strengths of regularisation, learns with the best and classifies."""

    name: str
    fit: Fit
    grid: list[float]

    def __call__(self, train: Rows, test: Rows, dev: Rows | None = None) -> tuple[np.ndarray, float]:
        """The classes given to the rows of `test`, and the accuracy with which the strength was chosen.

        That is on dev, or the mean over ten folds of train.
        """
        parts = [(train, dev)] if dev else ((_some(train, a), _some(train, b)) for a, b in _folds(self.name, train))
        right = [self._accuracies(learned, held) for learned, held in parts]
        scores = [round(float(mean), 4) for mean in np.mean(right, axis=0)]  # what SentEval prints as equal is equal
        best = int(np.argmax(scores))
        (guess,) = self.fit(train, dev, self.grid[best : best + 1])
        return guess(test[0]), scores[best]

    def _accuracies(self, learned: Rows, held: Rows) -> list[float]:
        """On `held`, a strength each."""
        return [float(np.mean(guess(held[0]) == held[1])) for guess in self.fit(learned, held, self.grid)]


def _folds(name: str, rows: Rows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import StratifiedKFold

    fewest = np.unique(rows[1], return_counts=True)[1].min()
    if fewest < FOLDS:
        raise DataError(f"{name}: a class has {fewest} rows to learn from, and {FOLDS} folds need as many; give more")
    return StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(*rows)


def _some(rows: Rows, which: np.ndarray) -> Rows:
    return rows[0][which], rows[1][which]


def _fit_sklearn(train: Rows, _: Rows | None, strengths: Sequence[float]) -> list[Classes]:
    from sklearn.linear_model import LogisticRegression

    return [LogisticRegression(C=strength, max_iter=2000).fit(*train).predict for strength in strengths]
