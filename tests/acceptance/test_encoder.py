"""An encoder gives the same embeddings in every library; any object that embeds or scores can be
evaluated."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau, spearmanr
from sentence_transformers import SentenceTransformer
from sklearn.metrics import ndcg_score
from torch.testing import assert_close
from transformers import AutoModel, AutoTokenizer

from workbench import Encoder, EncoderError, Run, RunError, evaluate, list_runs, load_pairs

ROUNDING = {"rtol": 0.0, "atol": 1e-5}  # of float32, in other batches or another library


@pytest.fixture(scope="module")
def encoder(spread_encoder: Path) -> Encoder:
    return Encoder.from_pretrained(str(spread_encoder), pooling="cls", device="cpu")


def states_and_mask(folder: Path, sentences: list[str]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return transformers' hidden states of all layers, and the mask without padding."""
    tokens = AutoTokenizer.from_pretrained(folder)(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = (
            AutoModel.from_pretrained(folder)
            .eval()(**tokens, output_hidden_states=True)
            .hidden_states
        )
    return list(states), tokens["attention_mask"][:, :, None]


def test_sentences_become_unit_rows_in_their_order_whatever_the_batch(
    encoder: Encoder, tiny_sentences: list[str]
):
    rows = encoder.encode(tiny_sentences)
    assert (rows.dtype, rows.device.type, tuple(rows.shape)) == (torch.float32, "cpu", (60, 16))
    assert_close(rows.norm(dim=1), torch.ones(60), **ROUNDING)
    assert_close(encoder.encode(tiny_sentences, batch_size=7), rows, **ROUNDING)
    assert_close(encoder.encode(tiny_sentences[::-1]).flip(0), rows, **ROUNDING)
    assert_close(
        torch.stack([encoder.encode([one])[0] for one in tiny_sentences[:5]]), rows[:5], **ROUNDING
    )
    assert float((rows[0] - rows[1]).abs().max()) > 0.01


POOLINGS: dict[str, Callable[[list[torch.Tensor], torch.Tensor], torch.Tensor]] = {
    "cls": lambda states, mask: states[-1][:, 0],
    "mean": lambda states, mask: (states[-1] * mask).sum(1) / mask.sum(1),
    "first_last": lambda states, mask: ((states[1] + states[-1]) / 2 * mask).sum(1) / mask.sum(1),
    "embedding_last": lambda states, mask: (
        ((states[0] + states[-1]) / 2 * mask).sum(1) / mask.sum(1)
    ),
    "max": lambda states, mask: states[-1].masked_fill(mask == 0, -torch.inf).amax(1),
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_pooling_is_what_it_is_called_and_survives_saving_for_three_libraries(
    pooling: str, spread_encoder: Path, tiny_sentences: list[str], tmp_path: Path
):
    encoder = Encoder.from_pretrained(str(spread_encoder), pooling=pooling, device="cpu")
    rows = encoder.encode(tiny_sentences)
    encoder.save(tmp_path / "saved")
    expected = POOLINGS[pooling](*states_and_mask(tmp_path / "saved", tiny_sentences))
    assert_close(rows, torch.nn.functional.normalize(expected, dim=1), **ROUNDING)
    theirs = SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(
        tiny_sentences, convert_to_tensor=True
    )
    assert_close(torch.nn.functional.normalize(theirs, dim=1), rows, **ROUNDING)
    assert torch.equal(
        Encoder.from_pretrained(tmp_path / "saved", device="cpu").encode(tiny_sentences), rows
    )


def test_the_length_at_which_training_cuts_is_not_one_of_encode(spread_encoder: Path):
    encoder = Encoder.from_pretrained(
        str(spread_encoder), pooling="mean", train_length=6, device="cpu"
    )
    long, start = encoder.encode(["the cat sees a red bird today", "the cat sees a"])
    assert float((long - start).abs().max()) > 0.01


def test_an_encoder_or_a_pooling_that_is_not_there_is_refused_with_its_name():
    with pytest.raises(EncoderError, match="no-such-encoder"):
        Encoder.from_pretrained("no-such-encoder")
    with pytest.raises(EncoderError, match="first_last"):
        Encoder.from_pretrained("world-encoder", pooling="frist_last")


def by_letters(sentences: list[str]) -> np.ndarray:
    """Embed a sentence as its letter counts."""
    return np.array(
        [[sentence.count(letter) for letter in "abcdehiklnoprst"] for sentence in sentences], float
    )


def cosines(first: list[str], second: list[str]) -> np.ndarray:
    a, b = by_letters(first), by_letters(second)
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_the_measures_of_a_suite_are_those_of_scipy_and_scikit_learn(files: SimpleNamespace):
    pairs = load_pairs(str(files.test))
    report = evaluate(by_letters, {"mine": pairs})
    predicted = cosines(pairs.sentence1, pairs.sentence2)
    np.testing.assert_allclose(report.scores["predicted"], predicted, rtol=0, atol=1e-12)
    expected = {"n": 30, "queries": 6, "spearman": spearmanr(pairs.gold, predicted).statistic}
    lists = [
        (pairs.gold[start : start + 5], predicted[start : start + 5]) for start in range(0, 30, 5)
    ]
    taus = [kendalltau(*both).statistic for both in lists]
    expected |= {
        "kcc": np.nanmean(taus),
        "ndcg": np.mean([ndcg_score([gold], [scores]) for gold, scores in lists]),
    }
    found = {name: report.metrics["mine"][name] for name in expected}
    assert found == pytest.approx(expected, abs=1e-12)
    ranked = report.rankings[report.rankings["query"] == pairs.sentence1[0]].sort_values("rank")
    assert ranked["score"].is_monotonic_decreasing
    assert ranked["target"].tolist() == [
        pairs.sentence2[row] for row in np.argsort(-predicted[:5], kind="stable")
    ]


class Scorer:
    def score(self, first: list[str], second: list[str]) -> np.ndarray:
        return cosines(first, second)


class LikeSentenceTransformer:
    def encode(
        self, sentences: list[str], batch_size: int = 32, convert_to_tensor: bool = False
    ) -> np.ndarray:
        return by_letters(sentences)


def test_a_function_an_object_with_encode_and_a_scorer_are_evaluated_alike(files: SimpleNamespace):
    suites = {"mine": load_pairs(str(files.test))}
    first = evaluate(by_letters, suites)
    for model in (
        Scorer(),
        LikeSentenceTransformer(),
        lambda texts: torch.tensor(by_letters(texts)),
    ):
        assert evaluate(model, suites).metrics["mine"] == pytest.approx(
            first.metrics["mine"], abs=1e-12
        )


def test_an_encoder_its_function_and_the_same_sentence_transformer_are_evaluated_alike(
    encoder: Encoder, files: SimpleNamespace, tmp_path: Path
):
    suites = {"mine": load_pairs(str(files.test))}
    encoder.save(tmp_path / "saved")
    ours, function = evaluate(encoder, suites), evaluate(encoder.encode, suites)
    theirs = evaluate(SentenceTransformer(str(tmp_path / "saved"), device="cpu"), suites)
    assert ours.metrics == function.metrics
    np.testing.assert_allclose(
        theirs.scores["predicted"], ours.scores["predicted"], rtol=0, atol=1e-5
    )


def test_what_a_run_was_evaluated_on_is_read_again_and_no_other_suite_mixed_in(
    train: Callable[..., Run], files: SimpleNamespace, tmp_path: Path
):
    run = train("simcse", tmp_path)
    suites = {"mine": load_pairs(str(files.test))}
    assert list(run.metrics()) == ["mine"]
    again = evaluate(lambda texts: pytest.fail("it was computed again"), suites, run=run)
    assert again.metrics == run.metrics()
    with pytest.raises(RunError):
        evaluate(by_letters, {"other": load_pairs(str(files.dev))}, run=run)
    listed = list_runs(tmp_path)
    assert listed[["method", "seed", "status"]].to_numpy().tolist() == [["simcse", 0, "finished"]]
    assert listed["path"].tolist() == [str(run.path)]


def test_a_transfer_task_is_classified_on_the_vectors(real_data: Path):
    def asks(sentences: list[str]) -> np.ndarray:
        words = ("who", "where", "when", "how many", "what does", "why")
        return np.array(
            [[word in sentence.lower() for word in words] for sentence in sentences], float
        )

    report = evaluate(asks, ["trec"])
    values, classes = report.metrics["trec"], report.scores
    assert values["n"] == len(classes) == 500
    assert values["accuracy"] == pytest.approx((classes["gold"] == classes["predicted"]).mean())
    # The largest class has 138 of the 500, and six words do not suffice for all.
    assert 0.35 < values["accuracy"] < 0.8
