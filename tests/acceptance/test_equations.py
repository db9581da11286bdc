"""Losses, ranks and metrics equal loops over their printed equations, or another library.

Float64 throughout. The longest sum has 64 terms and the largest exponent is 20, so that a result is
off by at most about 64 x 20 x 2^-53 = 1.4e-13 of itself: 1e-12 is the tolerance."""

from collections.abc import Callable
from math import exp, log

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau, rankdata, spearmanr
from sklearn.metrics import ndcg_score
from torch import Tensor

from workbench import losses, metrics
from workbench.methods.rank_mixture import rank_similarity
from workbench.methods.rank_vectors import rank_vectors

draw = np.random.default_rng(0)
# Scores of six anchors with six candidates; of student and teacher.
S, T = draw.uniform(-1, 1, (2, 6, 6))
T[2, 4] = T[2, 5]  # tied by the teacher
A, P, N = draw.normal(size=(3, 6, 8))  # six vectors of anchors, positives, negatives
X, GOLD = draw.uniform(-1, 1, 8), np.array([0.0, 1, 2, 2, 5, 4, 3, 0])
BINARY = (GOLD > 2).astype(float)
ROWS = range(6)


def softmax(row: list[float], temperature: float) -> list[float]:
    powers = [exp(value / temperature) for value in row]
    return [power / sum(powers) for power in powers]


def info_nce() -> float:
    return sum(-log(softmax(S[i], 0.05)[i]) for i in ROWS) / 6


def js_consistency() -> float:
    total = 0.0
    for i in ROWS:
        p, q = softmax(S[i], 0.05), softmax(S[:, i], 0.05)
        middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        total += (
            sum(a * log(a / m) + b * log(b / m) for a, b, m in zip(p, q, middle, strict=True)) / 2
        )
    return total / 6


def listnet() -> float:
    total = 0.0
    for i in ROWS:
        others = [j for j in ROWS if j != i]
        teacher, student = softmax(T[i, others], 0.1), softmax(S[i, others], 0.2)
        total -= sum(t * log(s) for t, s in zip(teacher, student, strict=True))
    return total / 6


def listmle() -> float:
    total = 0.0
    for i in ROWS:
        order = sorted(ROWS, key=lambda j: -T[i, j])  # ties in the order of columns
        for k in ROWS:
            total += log(sum(exp(S[i, j] / 0.1) for j in order[k:])) - S[i, order[k]] / 0.1
    return total / 6


def cosent() -> float:
    pairs = [(a, b) for a in range(8) for b in range(8) if GOLD[a] > GOLD[b]]
    return log(1 + sum(exp(20 * (X[b] - X[a])) for a, b in pairs))


def contrastive(form: str) -> float:
    total = 0.0
    for score, similar in zip(X, BINARY, strict=True):
        pushed = max(0.2, score) if form == "paper" else max(0.0, score - 0.2)
        total += similar * (1 - score) ** 2 / 2 + (1 - similar) * pushed**2 / 2
    return total / 8


def triplet() -> float:
    return (
        sum(
            max(np.sqrt(((A[i] - P[i]) ** 2).sum()) - np.sqrt(((A[i] - N[i]) ** 2).sum()) + 1, 0)
            for i in ROWS
        )
        / 6
    )


def rank_mse(lower: float, upper: float) -> float:
    kept = [(T[i, j] - S[i, j]) ** 2 for i in ROWS for j in ROWS if lower <= T[i, j] <= upper]
    return sum(kept) / len(kept)


def tensors(*arrays: np.ndarray) -> list[Tensor]:
    return [torch.tensor(array) for array in arrays]


s, t, x, gold, binary = tensors(S, T, X, GOLD, BINARY)
a, p, n = tensors(A, P, N)
LOSSES: dict[str, tuple[Callable[[], Tensor], Callable[[], float]]] = {
    "info_nce": (lambda: losses.info_nce(s, temperature=0.05), info_nce),
    "js_consistency": (lambda: losses.js_consistency(s, temperature=0.05), js_consistency),
    "listnet": (
        lambda: losses.listnet(s, t, student_temperature=0.2, teacher_temperature=0.1),
        listnet,
    ),
    "listmle": (lambda: losses.listmle(s, t, temperature=0.1), listmle),
    "cosent": (lambda: losses.cosent(x, gold), cosent),
    "mse": (lambda: losses.mse(x, gold / 5), lambda: sum((X - GOLD / 5) ** 2) / 8),
    "contrastive": (
        lambda: losses.contrastive(x, binary, epsilon=0.2),
        lambda: contrastive("paper"),
    ),
    "hinge": (
        lambda: losses.contrastive(x, binary, epsilon=0.2, form="hinge"),
        lambda: contrastive("hinge"),
    ),
    "triplet": (lambda: losses.triplet(a, p, n, margin=1.0), triplet),
    "rank_mse": (lambda: losses.rank_mse(s, t, lower=0.0, upper=0.8), lambda: rank_mse(0.0, 0.8)),
    "rank_mse of all": (
        lambda: losses.rank_mse(s, t, lower=None, upper=None),
        lambda: rank_mse(-1, 1),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_equals_a_loop_over_its_equation(name: str):
    loss, loop = LOSSES[name]
    assert float(loss()) == pytest.approx(loop(), rel=1e-12)


def test_cosines_and_compositions_equal_theirs():
    cosines = [[float(u @ v) / np.sqrt((u @ u) * (v @ v)) for v in N] for u in A]
    np.testing.assert_allclose(losses.cosine_matrix(a, n), cosines, rtol=0, atol=1e-12)
    np.testing.assert_allclose(losses.compose([a, p], "avg"), (A + P) / 2, rtol=1e-12)
    np.testing.assert_allclose(losses.compose([a, p], "sum"), A + P, rtol=1e-12)
    np.testing.assert_array_equal(
        losses.compose([a, p], "concat_halves"), np.hstack([A[:, :4], P[:, 4:]])
    )


def test_rank_vectors_are_the_ranks_with_ties_averaged_as_unit_rows():
    tied = draw.integers(0, 6, (5, 20)).astype(float)
    expected = np.stack([rankdata(row) for row in tied])
    expected -= expected.mean(axis=1, keepdims=True)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(rank_vectors(torch.tensor(tied)), expected, rtol=0, atol=1e-12)


def test_exact_rank_similarity_is_the_spearman_correlation_of_how_two_sentences_order_the_corpus():
    u, v, corpus = (
        torch.nn.functional.normalize(torch.tensor(draw.normal(size=(rows, 5))), dim=1)
        for rows in (4, 3, 30)
    )
    expected = [[spearmanr(corpus @ one, corpus @ other).statistic for other in v] for one in u]
    np.testing.assert_allclose(
        rank_similarity(u, v, corpus, how="exact"), expected, rtol=0, atol=1e-12
    )


def test_correlations_equal_those_of_scipy_and_are_nan_where_they_are_undefined():
    first, second = draw.integers(0, 6, 50).astype(float), draw.integers(0, 20, 50).astype(float)
    assert metrics.spearman(first, second) == pytest.approx(
        spearmanr(first, second).statistic, abs=1e-12
    )
    assert metrics.kendall(first, second) == pytest.approx(
        kendalltau(first, second).statistic, abs=1e-12
    )
    assert np.isnan(
        [
            metrics.spearman([1, 1], [1, 2]),
            metrics.kendall([1, 2], [3, 3]),
            metrics.ndcg([0, 0], [1, 2]),
        ]
    ).all()


def test_ndcg_equals_that_of_scikit_learn_also_with_ties():
    relevance, scores = (
        draw.integers(0, 6, 30).astype(float),
        draw.integers(0, 10, 30).astype(float),
    )
    assert metrics.ndcg(relevance, scores) == pytest.approx(
        ndcg_score([relevance], [scores]), abs=1e-12
    )
    exponential = ndcg_score([2**relevance - 1], [scores])
    assert metrics.ndcg(relevance, scores, gain="exponential") == pytest.approx(
        exponential, abs=1e-12
    )


def test_alignment_and_uniformity_equal_theirs():
    u, v = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (A, P))
    assert metrics.alignment(A, P) == pytest.approx(
        np.mean([((u[i] - v[i]) ** 2).sum() for i in ROWS]), rel=1e-12
    )
    potential = [exp(-2 * ((u[i] - u[j]) ** 2).sum()) for i in ROWS for j in range(i)]
    assert metrics.uniformity(A) == pytest.approx(log(np.mean(potential)), rel=1e-12)


def test_subsets_are_averaged_as_asked():
    subset = ["one"] * 20 + ["two"] * 30
    first, second = draw.normal(size=(2, 50))
    each = [
        spearmanr(first[:20], second[:20]).statistic,
        spearmanr(first[20:], second[20:]).statistic,
    ]
    expected = {
        "all": spearmanr(first, second).statistic,
        "mean": np.mean(each),
        "wmean": 0.4 * each[0] + 0.6 * each[1],
    }
    for how, value in expected.items():
        assert metrics.spearman_by_subset(first, second, subset, how=how) == pytest.approx(
            value, abs=1e-12
        ), how


def test_a_sentence_in_more_than_three_pairs_is_a_query():
    groups = metrics.ranking_groups(
        ["q", "q", "q", "x", "r"], ["a", "b", "c", "q", "s"], [4, 3, 2, 1, 0]
    )
    assert {query: list(group) for query, group in groups.items()} == {"q": ["a", "b", "c", "x"]}
