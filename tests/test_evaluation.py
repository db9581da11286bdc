"""Evaluation follows the usual protocol, and undefined metrics are left out."""

import dataclasses
import functools
import gzip
import shutil
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from scipy.stats import spearmanr

from workbench import RankMixture, SimCSE, rank_premise, views
from workbench.config import SEVEN_STS, BaselineConfig, SimCSEConfig
from workbench.data import Pairs, load_dev, load_pairs
from workbench.encoder import Encoder
from workbench.errors import DataError, EncoderError, RunError, SettingError
from workbench.evaluation import _evaluate, dev_values, evaluate, evaluate_model, per_query_metrics
from workbench.metrics import alignment, uniformity
from workbench.runs import Run, list_runs

WORDS = ["a b", "a c", "b c", "c d", "d e", "a e"]


def pairs(gold: list[float], subset: list[str] | None = None, name: str = "made") -> Pairs:
    first = (WORDS * 20)[: len(gold)]
    second = [" ".join(reversed(WORDS[(3 * i + 1) % 6])) + f" {i}" for i in range(len(gold))]
    ids = [str(i) for i in range(len(gold))]
    return Pairs(
        name, first, second, np.asarray(gold, float), subset, ids, (0.0, 5.0), "made here", "0"
    )


def by_letters(sentences: list[str]) -> np.ndarray:
    """Embed texts of any length as counts of letters and digits."""
    return np.array(
        [[sentence.count(letter) for letter in "abcde0123456789"] for sentence in sentences], float
    )


def cosines(made: Pairs) -> np.ndarray:
    a, b = by_letters(made.sentence1), by_letters(made.sentence2)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_dev_has_the_alignment_of_pairs_above_four_fifths_of_their_scale_and_the_uniformity_of_all(
    spread_encoder: Path, monkeypatch: pytest.MonkeyPatch
):
    gold = [1, 4.9, 5.0, 5.1, 6.0, 2.0]
    made = dataclasses.replace(pairs(gold), score_range=(1.0, 6.0))
    settings = {"encoder": str(spread_encoder), "device": "cpu"}
    method = SimCSE(SimCSEConfig.from_parameters("demo", 0, settings))
    first, second = (
        method.encode_plain(side).double().numpy() for side in (made.sentence1, made.sentence2)
    )
    found, _ = dev_values(method, made)
    is_close = made.gold > 5
    of_close = alignment(first[is_close], second[is_close])
    assert found["dev_alignment"] == pytest.approx(of_close, abs=1e-6)
    of_all = uniformity(np.concatenate([first, second]))
    assert found["dev_uniformity"] == pytest.approx(of_all, abs=1e-6)

    # Its time grows with the square of the pairs: of a large dev set the first ones do.
    monkeypatch.setattr(_evaluate, "_MOST", 2)
    found, _ = dev_values(method, made)
    of_first = uniformity(np.concatenate([first[:2], second[:2]]))
    assert found["dev_uniformity"] == pytest.approx(of_first, abs=1e-6)
    assert of_first != pytest.approx(of_all, abs=1e-3)
    assert found["dev_alignment"] == pytest.approx(of_close, abs=1e-6)


def test_spearman_is_over_all_pairs_unless_asked_by_subset_of_sentences_embedded_once():
    made = pairs(list(np.random.default_rng(1).uniform(0, 5, 60)), ["x"] * 40 + ["y"] * 20)
    seen: list[str] = []

    def watching(sentences: list[str]) -> np.ndarray:
        seen.extend(sentences)
        return by_letters(sentences) * np.arange(1, len(sentences) + 1)[:, None]  # of any length

    report = evaluate(watching, {"made": made})
    assert len(seen) == len(set(seen))
    np.testing.assert_allclose(report.scores["predicted"], cosines(made), atol=1e-12)
    x, y, both = (
        spearmanr(made.gold[a:b], cosines(made)[a:b]).statistic
        for a, b in ((0, 40), (40, 60), (0, 60))
    )
    assert report.metrics["made"]["spearman"] == pytest.approx(both, abs=1e-12)
    assert report.metrics["made"]["subsets"]["x"] == {"spearman": pytest.approx(x), "n": 40}
    for how, expected in {"mean": (x + y) / 2, "wmean": (40 * x + 20 * y) / 60}.items():
        assert evaluate(by_letters, {"made": made}, how=how).metrics["made"][
            "spearman"
        ] == pytest.approx(expected)
    for suite in (made, pairs([1.0, 2.0, 3.0])):
        with pytest.raises(ValueError, match="'median'; give all, mean or wmean"):
            evaluate(by_letters, {"made": suite}, how="median")


def test_the_average_of_the_seven_exists_only_with_all_seven(monkeypatch: pytest.MonkeyPatch):
    generator = np.random.default_rng(2)
    suites = {name: pairs(list(generator.uniform(0, 5, 20)), name=name) for name in SEVEN_STS}
    metrics = evaluate(by_letters, suites).metrics
    average = {
        name: np.mean([metrics[n][name] for n in SEVEN_STS]) for name in ("spearman", "kcc", "ndcg")
    }
    assert metrics["sts-average"] == pytest.approx(average)
    suites.pop("sick-test")
    assert "sts-average" not in evaluate(by_letters, suites).metrics
    made = {"sts-average": suites["stsb-test"]}
    assert evaluate(by_letters, made).metrics["sts-average"]["n"] == 20, "a suite may have its name"
    with pytest.raises(DataError, match="rename its file"):
        evaluate(by_letters, dict.fromkeys((*SEVEN_STS, "sts-average"), made["sts-average"]))
    loaded = dict.fromkeys((*SEVEN_STS, "sts-average"), made["sts-average"])
    monkeypatch.setattr("workbench.evaluation._evaluate.load_suites", lambda names: loaded)
    with pytest.raises(DataError, match="rename its file"):
        evaluate(by_letters, [*SEVEN_STS, "sts-average.csv"])


class Predicting(torch.nn.Module):
    """As a cross-encoder: it is called with features, and scores pairs by `predict`."""

    def predict(self, pairs: list) -> list[float]:
        return [1.0] * len(pairs)


@pytest.mark.parametrize(
    ("encode", "words"),
    [
        (lambda s: np.full((len(s), 3), np.nan), "nan or infinity"),
        (lambda s: np.ones((2, 3)), "one row each"),
        (lambda s: None, "nan or infinity"),
        (lambda s: [[1.0] * (1 + number % 2) for number in range(len(s))], "no table of numbers"),
        ("world-encoder", "'world-encoder' is no model; give a function"),
        (Predicting(), "no model; give a function"),
    ],
)
def test_an_encoder_without_vectors_is_refused(encode, words: str):
    with pytest.raises(EncoderError, match=words):
        evaluate(encode, {"made": pairs([1.0, 2.0, 3.0])})


KINDS = [
    lambda rows: torch.tensor(rows, requires_grad=True),
    lambda rows: torch.tensor(rows).bfloat16(),  # small counts, exact in bf16
    lambda rows: list(torch.tensor(rows)),
    lambda rows: rows.astype(int).tolist(),
    csr_array,
    lambda rows: 1e200 * rows,
    lambda rows: 5e-324 * rows,
]


def test_vectors_of_any_kind_and_size_are_compared_by_cosine():
    made = pairs([1.0, 2.0, 3.0, 4.0] * 5)
    for kind in KINDS:
        report = evaluate(lambda s, kind=kind: kind(by_letters(s)), {"made": made})
        np.testing.assert_allclose(report.scores["predicted"], cosines(made), atol=1e-12)


def test_a_scorer_needs_no_vectors(caplog: pytest.LogCaptureFixture):
    made = pairs([1.0, 2.0, 3.0, 4.0])
    flat = evaluate(lambda s: 0 * by_letters(s), {"made": pairs([3.0] * 10)})
    assert np.isnan(flat.metrics["made"]["spearman"])
    assert "made: Spearman is undefined" in caplog.text
    assert flat.scores["predicted"].tolist() == [0.0] * 10, "a vector of zeros is like no other"
    report = evaluate(SimpleNamespace(score=lambda a, b: range(len(a))), {"made": made})
    assert report.metrics["made"]["spearman"] == pytest.approx(1.0)
    for wrong, words in (([1.0], "one each"), ([1.0, 2.0, 3.0, np.nan], "nan or infinity")):
        with pytest.raises(EncoderError, match=words):
            evaluate(SimpleNamespace(score=lambda a, b, wrong=wrong: wrong), {"made": made})


def test_a_run_contains_its_evaluation_and_is_not_evaluated_twice(tmp_path: Path):
    wrong: Any = "runs/simcse"
    with pytest.raises(RunError, match="run is 'runs/simcse', not a Run"):
        evaluate(by_letters, {"made": pairs([1.0, 2.0])}, run=wrong)
    run = Run.open(SimCSEConfig.from_parameters("demo"), tmp_path)
    made = {"made": pairs([1.0, 2.0, 3.0, 4.5] * 6, ["x", "y"] * 12)}
    evaluate(by_letters, made, run=run, stage="before")
    with pytest.raises(RunError, match=r"has not finished; call fit\(..., run=run\) first"):
        evaluate(by_letters, made, run=run)
    assert not run.finished
    run.record(trained=True)
    report = evaluate(by_letters, made, run=run)
    assert run.finished
    assert run.facts()["inputs"]["made"]["sha256"] == "0"
    other = Run.open(SimCSEConfig.from_parameters("demo", 1), tmp_path)
    # Not the set that chooses the checkpoint.
    evaluate(by_letters, {"dev": made["made"]}, run=other, stage="before")
    assert list(other.facts()["inputs"]) == ["suite dev"]
    again = evaluate(lambda _: pytest.fail("a finished run was encoded again"), made, run=run)
    assert again.metrics == report.metrics
    pd.testing.assert_frame_equal(again.scores, report.scores, check_dtype=False)
    pd.testing.assert_frame_equal(again.rankings, report.rankings, check_dtype=False)
    with pytest.raises(RunError, match="contains an evaluation of made"):
        evaluate(by_letters, {"other": pairs([1.0, 2.0])}, run=run)
    with pytest.raises(DataError, match="suites must be names"):
        evaluate(by_letters, [])
    for unnamed in (pairs([1.0, 2.0]), [pairs([1.0, 2.0])]):
        with pytest.raises(SettingError, match=r"got Pairs; .* and sets as \{name: set\}"):
            evaluate(by_letters, unnamed)  # pyright: ignore[reportArgumentType]
    with pytest.raises(RunError, match="of made, all, sklearn, not of made, mean"):
        evaluate(by_letters, made, run=run, how="mean")


def test_queries_of_the_bundled_world_are_ranked():
    report = evaluate(
        lambda s: np.array([[len(x), x.count("e"), 1] for x in s], float), "world-test"
    )
    values, queries = report.metrics["world-test"], per_query_metrics(report.rankings)
    assert values["queries"] == values["queries_with_kcc"] == len(queries) == 250
    assert [values["kcc"], values["ndcg"]] == pytest.approx(
        queries[["kcc", "ndcg"]].mean().tolist()
    )


def test_an_encoder_is_evaluated_as_a_run_and_listed_among_the_runs(
    spread_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given = {
        "encoder": str(spread_encoder),
        "suites": ["world-dev"],
        "device": "cpu",
        "precision": "fp32",
    }
    config = BaselineConfig.from_parameters("as-it-is", 0, given)
    run = evaluate_model(config, tmp_path)
    wanted = evaluate(
        Encoder.from_pretrained(spread_encoder, device="cpu", precision="fp32"), "world-dev"
    )
    assert run.metrics() == wanted.metrics
    (row,) = list_runs(tmp_path).to_dict("records")
    assert (row["method"], row["status"]) == ("base", "finished")
    assert row["world-dev"] == round(100 * wanted.metrics["world-dev"]["spearman"], 2)
    runs = views.finished_runs(tmp_path, "world-dev")
    assert views.seed_table(runs).loc[spread_encoder.name, "seeds"] == 1
    assert len(views.compare_runs(runs, "world-dev", samples=9).table) == 1
    # It is read, not computed.
    monkeypatch.setattr("workbench.evaluation._evaluate.load_baseline", None)
    assert evaluate_model(config, tmp_path).metrics() == wanted.metrics


def data_root(folder: Path, sentence: str, score: str) -> None:
    """Create a data root with sentences and scored pairs under names of the catalogue."""
    texts = [f"a b {number}" for number in range(5)]
    pairs = [["pair_id", "sentence1", "sentence2", "score"]]
    pairs += [[str(number), text, texts[number - 1], "1.5"] for number, text in enumerate(texts)]
    rows = {
        "wiki/wiki1m_for_simcse.tsv.gz": [["sentence"], *([text] for text in [*texts, sentence])],
        "sts/sick.test.tsv.gz": [*pairs, ["5", "a b", "b", score]],
    }
    for file, cells in rows.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        text = "".join("\t".join(row) + "\n" for row in cells)
        (folder / file).write_bytes(gzip.compress(text.encode()))


def test_a_finished_evaluation_does_not_stand_for_other_data_under_the_same_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given = {"kind": "tfidf", "fit_on": "wiki1m", "suites": ["sick-test"]}
    config, runs = BaselineConfig(**given), tmp_path / "runs"
    data = {
        "one": ("c d", "4"),
        "copy": ("c d", "4"),
        "other text": ("d e", "4"),
        "other gold": ("c d", "2"),
    }
    for name, last in data.items():
        data_root(tmp_path / name, *last)

    def evaluated() -> Any:
        return evaluate_model(config, runs).metrics()

    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "one"))
    expected = evaluated()
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "copy"))
    assert evaluated() == expected
    for root, name in (("other text", "wiki1m"), ("other gold", "sick-test")):
        monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / root))
        with pytest.raises(
            RunError, match=rf"finished, but {name} is not what .*`workbench rm .*--runs"
        ):
            evaluated()
        evaluate_model(config, tmp_path / f"runs of {root}")
    data_root(tmp_path / "other gold", *data["one"])  # restored
    assert evaluated() == expected
    monkeypatch.delenv("WORKBENCH_DATA")  # on a machine without the data it is read all the same
    assert evaluated() == expected
    assert list_runs(runs)["status"].tolist() == ["finished"]


def test_scores_of_another_commit_of_the_hub_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # The layout of the hub's cache: a folder for each commit, and the name of the branch's.
    commits = ["1" * 40, "2" * 40]
    repository = tmp_path / "models--me--mine"
    for commit, name in zip(commits, ("world-encoder", "english-encoder"), strict=True):
        encoder = Encoder.from_pretrained(name, "mean", device="cpu")
        encoder.save(repository / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def evaluated(**changes: str) -> Any:
        config = BaselineConfig(encoder="me/mine", suites=["world-dev"], device="cpu", **changes)
        return evaluate_model(config, tmp_path / "runs").metrics()["world-dev"]["spearman"]

    def fetch(commit: str) -> None:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(commit)

    def answer(commit: str) -> None:
        def model_info(*_: object, **__: object) -> SimpleNamespace:
            return SimpleNamespace(sha=commit)

        monkeypatch.setattr("huggingface_hub.HfApi.model_info", model_info)

    fetch(commits[0])
    before = evaluated()
    assert evaluated() == before
    fetch(commits[1])
    assert evaluated() == before, "without an answer of the hub the scores are those of the run"
    path = str(next((tmp_path / "runs" / "base").iterdir()))
    with pytest.raises(RunError, match="has changed since"):
        views.compare_systems([path], ["world-test"], samples=5)
    answer(commits[0])
    assert evaluated() == before
    answer(commits[1])
    with pytest.raises(RunError, match=f"me/mine@{commits[0]}, and the hub has commit {'2' * 40}"):
        evaluated()
    assert evaluated(revision=commits[0]) == before
    assert evaluated(revision=commits[1]) != before
    monkeypatch.undo()
    shutil.rmtree(repository)  # a machine without network and cache
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert evaluated() == before


def test_an_evaluation_that_cannot_be_leaves_no_folder_and_names_the_cause(tmp_path: Path):
    with pytest.raises(DataError, match="world-dve"):
        evaluate_model(
            BaselineConfig.from_parameters("demo", 0, {"suites": ["world-dve"]}), tmp_path
        )
    with pytest.raises(EncoderError, match="nowhere"):
        evaluate_model(
            BaselineConfig.from_parameters(
                "as-it-is", 0, {"encoder": "nowhere", "suites": "world-dev"}
            ),
            tmp_path,
        )
    assert not list(tmp_path.iterdir())


@functools.cache
def majority_signs(text: str) -> np.ndarray:
    """Return sixteen numbers of 1/4 or -1/4, each by the majority of the words' checksums.

    Their products and sums are exact in any order, and so on every processor."""
    checksums = np.array([zlib.crc32(word.encode()) for word in text.split()])
    bits = checksums[:, None] >> np.arange(16) & 1
    return np.where(bits.mean(axis=0) >= 0.5, 0.25, -0.25)


def by_signs(sentences: list[str], batch_size: int = 64) -> torch.Tensor:
    rows = np.array([majority_signs(sentence) for sentence in sentences])
    return torch.tensor(rows, dtype=torch.float32)


def test_a_dev_of_two_sets_chooses_by_the_mean_of_their_spearman():
    config = SimCSEConfig(profile="demo", dev="world-dev+ladders-all")
    dev = load_dev(config)
    both = [load_pairs(name) for name in ("world-dev", "ladders-all")]
    assert dev.sentence2 == both[0].sentence2 + both[1].sentence2
    assert [len(dev), dev.gold.min(), dev.gold.max()] == [len(both[0]) + len(both[1]), 0.0, 1.0]
    method: Any = SimpleNamespace(pairwise=False, encode_plain=by_signs)
    values, scores = dev_values(method, dev)
    alone = [dev_values(method, each)[0]["dev_spearman"] for each in both]
    assert values["dev_spearman"] == pytest.approx(np.mean(alone), abs=1e-12)
    of_all_pairs = spearmanr(dev.gold, scores).statistic
    assert abs(of_all_pairs - np.mean(alone)) > 1e-3, "the two ways would not be told apart"
    corpus = dev.sentence1[:50]
    mixture = RankMixture(by_signs, corpus, weight=0.1)
    alone = [mixture.try_weights(each, [0.3]).item() for each in both]
    assert mixture.try_weights(dev, [0.3]).item() == pytest.approx(np.mean(alone), abs=1e-12)
    premise, *alone = (
        rank_premise(by_signs, corpus, corpus, each).iloc[-1].to_numpy() for each in (dev, *both)
    )
    np.testing.assert_allclose(premise, np.mean(alone, axis=0), atol=1e-12)
    assert config.digest() != SimCSEConfig(profile="demo", dev="world-dev").digest()
