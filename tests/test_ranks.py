"""Rank vectors against loops and SciPy; the closed form against exact ranks, if its assumption
holds or fails."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr
from torch import Tensor

from workbench import losses
from workbench.methods.rank_mixture import rank_similarity
from workbench.methods.rank_vectors import Corpus, rank_vectors


def unit_rows(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    rows = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(rows, dim=1).to(dtype)


def naive_rank_vector(scores: list[float]) -> list[float]:
    """Return RankEncoder eq. 3 with tie-averaged ranks: the mean position of all equal values."""
    n = len(scores)
    r = [
        sum(other < s for other in scores) + (sum(other == s for other in scores) + 1) / 2
        for s in scores
    ]
    mean = sum(r) / n
    std = math.sqrt(sum((x - mean) ** 2 for x in r) / n)
    return [(x - mean) / (math.sqrt(n) * std) for x in r]


@pytest.mark.parametrize("kinds", [2, 8, None])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 1e-7)])
def test_rank_vectors_equal_equation_3_with_averaged_ties(
    kinds: int | None, dtype: torch.dtype, tolerance: float
) -> None:
    scores = (
        unit_rows(5, 37, dtype=dtype)
        if kinds is None
        else (unit_rows(5, 37) * 3 * kinds).round().to(dtype)
    )
    assert kinds is None or all(len(row.unique()) > 1 for row in scores)
    expected = torch.tensor([naive_rank_vector(row) for row in scores.tolist()], dtype=dtype)
    torch.testing.assert_close(rank_vectors(scores), expected, rtol=0, atol=tolerance)


def test_products_are_spearman_and_rows_have_length_one_at_100_000() -> None:
    # Float32 already ties some hundred of these.
    scores = unit_rows(3, 100_000, dtype=torch.float32)
    assert len(scores[0].unique()) < 100_000
    u = rank_vectors(scores)
    assert u.dtype == torch.float32
    torch.testing.assert_close(
        u.double().square().sum(dim=1), torch.ones(3).double(), rtol=0, atol=1e-6
    )
    expected = torch.from_numpy(np.asarray(spearmanr(scores.numpy(), axis=1).statistic))
    torch.testing.assert_close(u.double() @ u.double().T, expected, rtol=0, atol=1e-6)


def test_a_constant_row_has_the_zero_vector_and_carries_no_gradient() -> None:
    scores = torch.ones(2, 5, requires_grad=True)
    vectors = rank_vectors(scores)
    assert torch.equal(vectors, torch.zeros(2, 5))
    assert not vectors.requires_grad


@pytest.mark.parametrize("block", [2**25, 120])
def test_exact_similarity_is_spearman_of_the_lists(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 120: three rows of scores are ranked at a time
    monkeypatch.setattr("workbench.methods.rank_vectors._BLOCK", block)
    a, b, corpus = unit_rows(6, 8), unit_rows(5, 8, seed=1), unit_rows(40, 8, seed=2)
    similarity = rank_similarity(a, b, corpus)
    for i in range(6):
        for j in range(5):
            expected = spearmanr((corpus @ a[i]).numpy(), (corpus @ b[j]).numpy()).statistic
            assert similarity[i, j].item() == pytest.approx(expected, abs=1e-12)
    own = rank_similarity(a, a, corpus)
    torch.testing.assert_close(
        own.diagonal(), torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-12
    )
    assert own.abs().max() <= 1


@pytest.mark.parametrize("width", [7, 128])
def test_copies_in_the_corpus_tie_whatever_the_matrix_product_rounds(width: int) -> None:
    a = unit_rows(4, width, dtype=torch.float32)
    distinct = unit_rows(5, width, seed=1, dtype=torch.float32)
    corpus = distinct.repeat(8, 1)[:37]
    expected = rankdata((a.double() @ distinct.double().T).numpy(), axis=1)
    lists = Corpus(corpus).lists(a)
    for row, order in zip(lists, expected, strict=True):
        assert len(row.unique()) == 5
        assert np.array_equal(rankdata([row[k].item() for k in range(5)]), order)
    assert (rank_similarity(a, a, distinct[:1].repeat(37, 1)) == 0).all()
    assert (rank_similarity(a, a, distinct[:1].repeat(37, 1), how="gaussian") == 0).all()


def test_bfloat16_and_autocast_are_ranked_in_float32() -> None:
    a, corpus = (
        unit_rows(3, 16, dtype=torch.bfloat16),
        unit_rows(300, 16, seed=1, dtype=torch.bfloat16),
    )
    wide = rank_similarity(a.float(), a.float(), corpus.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(rank_similarity(a, a, corpus), wide, rtol=0, atol=1e-6)


def test_corpus_covariance_equals_numpy_across_blocks() -> None:
    corpus = unit_rows(20_000, 6) + 3
    expected = torch.from_numpy(np.cov(corpus.numpy().T, bias=True))
    torch.testing.assert_close(losses.corpus_covariance(corpus), expected, rtol=1e-11, atol=1e-14)


def test_gaussian_equals_the_formula_by_hand() -> None:
    covariance = torch.diag(torch.tensor([4.0, 1.0], dtype=torch.float64))
    a, b = (
        torch.tensor([[1.0, 0.0]], dtype=torch.float64),
        torch.tensor([[1.0, 2.0]], dtype=torch.float64),
    )
    # r = 4 / sqrt(4 * 8) = 1 / sqrt(2)
    expected = 6 / math.pi * math.asin(1 / math.sqrt(2) / 2)
    assert losses.gaussian_rank_similarity(a, b, covariance).item() == pytest.approx(
        expected, abs=1e-15
    )


def test_gaussian_meets_exact_on_a_gaussian_corpus_at_the_rate_of_sampling() -> None:
    size = 40_000
    corpus = (
        torch.randn(size, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        @ unit_rows(5, 5, 4)
        + 1
    )
    a = unit_rows(20, 5, seed=5)
    gap = rank_similarity(a, a, corpus) - rank_similarity(a, a, corpus, how="gaussian")
    # Both estimate one number; each has a standard error of at most about 1 / sqrt(size), here
    # 0.005.
    assert gap.abs().max() < 4 / math.sqrt(size)  # over 190 pairs


def test_gaussian_is_differentiable_also_where_a_sentence_sees_no_spread() -> None:
    covariance = losses.corpus_covariance(unit_rows(50, 4))
    a, b = unit_rows(3, 4, seed=1).requires_grad_(), unit_rows(2, 4, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(losses.gaussian_rank_similarity, (a, b, covariance))
    flat = torch.zeros(4, 4, dtype=torch.float64)
    gradient = torch.autograd.grad(losses.gaussian_rank_similarity(a, b, flat).sum(), a)[0]
    assert torch.equal(gradient, torch.zeros_like(a))


def test_mistakes_are_reported() -> None:
    for call, text in (
        (
            lambda: rank_similarity(unit_rows(2, 3), unit_rows(2, 3), unit_rows(1, 3)),
            "the corpus has 1 sentence",
        ),
        (lambda: rank_similarity(*[unit_rows(1, 3)] * 3, how="gaussian"), "at least 2"),
        (lambda: rank_similarity(*unit_rows(27, 3).split(9), how="cosine"), "how is 'cosine'"),
        (lambda: rank_vectors(torch.tensor([[0.0, math.nan, 1.0]])), "nan in 1 of 1 rows"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
