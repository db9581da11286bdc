"""Each loss against its equation written as plain loops over Python floats, and worked by hand."""

import math

import pytest
import torch
from torch import Tensor

from workbench import losses

# A loss of O(10) made of float64 sums of at most a few hundred terms.
EXACT = {"rtol": 1e-12, "atol": 1e-12}
Matrix = list[list[float]]


def cosines(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.rand(rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def softmax(row: list[float], temperature: float) -> list[float]:
    weights = [math.exp(score / temperature) for score in row]
    return [weight / sum(weights) for weight in weights]


def without(row: list[float], index: int) -> list[float]:
    return row[:index] + row[index + 1 :]


def naive_info_nce(scores: Matrix, temperature: float) -> float:
    return sum(-math.log(softmax(row, temperature)[i]) for i, row in enumerate(scores)) / len(scores)


def naive_js(scores: Matrix, temperature: float) -> float:
    total = 0.0
    for i, row in enumerate(scores):
        p, q = softmax(row, temperature), softmax([other[i] for other in scores], temperature)
        total += 0.5 * sum(
            a * math.log(2 * a / (a + b)) + b * math.log(2 * b / (a + b)) for a, b in zip(p, q, strict=True)
        )
    return total / len(scores)


def naive_listnet(student: Matrix, teacher: Matrix, tau2: float, tau3: float, exclude: bool) -> float:
    total = 0.0
    for i, (s, t) in enumerate(zip(student, teacher, strict=True)):
        listed = (without(s, i), without(t, i)) if exclude else (s, t)
        p, q = softmax(listed[1], tau3), softmax(listed[0], tau2)
        total -= sum(a * math.log(b) for a, b in zip(p, q, strict=True))
    return total / len(student)


def naive_listmle(student: Matrix, teacher: Matrix, tau2: float, exclude: bool) -> float:
    total = 0.0
    for i, (s, t) in enumerate(zip(student, teacher, strict=True)):
        kept = [j for j in range(len(t)) if not (exclude and j == i)]
        order = sorted(kept, key=lambda j: (-t[j], j))
        for k in range(len(order)):
            total -= math.log(softmax([s[j] for j in order[k:]], tau2)[0])
    return total / len(student)


def naive_cosent(scores: list[float], gold: list[float], scale: float) -> float:
    n = range(len(scores))
    return math.log(1 + sum(math.exp(scale * (scores[j] - scores[i])) for i in n for j in n if gold[i] > gold[j]))


def naive_rank_mse(scores: Matrix, target: Matrix, lower: float | None, upper: float | None) -> float:
    kept = [
        (t - s) ** 2
        for s_row, t_row in zip(scores, target, strict=True)
        for s, t in zip(s_row, t_row, strict=True)
        if (lower is None or lower <= t) and (upper is None or t <= upper)
    ]
    return sum(kept) / len(kept)


def close(value: Tensor, expected: float, tolerance: dict[str, float] = EXACT) -> None:
    torch.testing.assert_close(value.item(), expected, **tolerance)


def test_cosine_matrix_equals_the_loop_and_does_not_change_with_scale() -> None:
    a, b = cosines(4, 6), cosines(3, 6, seed=1)
    matrix = losses.cosine_matrix(a, b)
    for i in range(4):
        for j in range(3):
            dot = sum(x * y for x, y in zip(a[i].tolist(), b[j].tolist(), strict=True))
            close(matrix[i, j], dot / math.hypot(*a[i].tolist()) / math.hypot(*b[j].tolist()))
    for scale in (1e-30, 1e30):  # squares of these leave float32
        torch.testing.assert_close(
            losses.cosine_matrix(a.float() * scale, b.float()), matrix.float(), rtol=0, atol=1e-6
        )


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (5, 10)])
def test_info_nce_equals_equation_1_also_with_hard_negatives(rows: int, columns: int) -> None:
    scores = cosines(rows, columns)
    close(losses.info_nce(scores, temperature=0.05), naive_info_nce(scores.tolist(), 0.05))


def test_js_consistency_equals_equation_2() -> None:
    scores = cosines(6, 6)
    close(losses.js_consistency(scores, temperature=0.05), naive_js(scores.tolist(), 0.05))


def test_js_of_two_disjoint_lists_is_log_2() -> None:
    scores = torch.tensor([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])  # rows point forward, columns back
    close(losses.js_consistency(scores, temperature=0.01), math.log(2), {"rtol": 1e-6, "atol": 0})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_js_is_never_negative_and_zero_for_equal_lists(dtype: torch.dtype) -> None:
    for seed in range(20):
        half = cosines(16, 16, seed).to(dtype)
        assert 0 <= losses.js_consistency(half + half.T, temperature=0.05) < 1e-7
        assert losses.js_consistency(half, temperature=0.05) > 0.01


def test_entropy_consistency_is_minus_the_mean_entropy_and_no_divergence() -> None:
    scores = cosines(6, 6)
    entropy = 0.0
    for i, row in enumerate(scores.tolist()):
        for p in softmax(row, 0.05) + softmax(scores[:, i].tolist(), 0.05):
            entropy -= p * math.log(p) / 12
    close(losses.entropy_consistency(scores, temperature=0.05), -entropy)
    close(losses.entropy_consistency(torch.zeros(4, 4), temperature=0.05), -math.log(4), {"rtol": 1e-6, "atol": 0})


@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("shape", [(6, 6), (4, 7)])
def test_listnet_equals_equation_4(exclude: bool, shape: tuple[int, int]) -> None:
    student, teacher = cosines(*shape), cosines(*shape, seed=1)
    value = losses.listnet(
        student, teacher, student_temperature=0.05, teacher_temperature=0.025, exclude_positive=exclude
    )
    close(value, naive_listnet(student.tolist(), teacher.tolist(), 0.05, 0.025, exclude))


@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("shape", [(6, 6), (4, 7)])
def test_listmle_equals_equation_5_with_ties_in_column_order(exclude: bool, shape: tuple[int, int]) -> None:
    student, teacher = cosines(*shape), (cosines(*shape, seed=1) * 2).round()
    value = losses.listmle(student, teacher, temperature=0.05, exclude_positive=exclude)
    close(value, naive_listmle(student.tolist(), teacher.tolist(), 0.05, exclude))


def test_listmle_by_hand() -> None:
    # Order 2, 0, 1 with weights e^s = 1, 2, 3: P = 3/6 * 1/3 * 2/2.
    student, teacher = torch.tensor([[1.0, 2.0, 3.0]]).log(), torch.tensor([[0.2, 0.1, 0.9]])
    close(losses.listmle(student, teacher, temperature=1.0), -math.log(3 / 6 * 1 / 3), {"rtol": 1e-6, "atol": 0})


def test_listmle_with_the_positive_first_is_listmle_without_plus_info_nce() -> None:
    student, teacher = cosines(8, 8), cosines(8, 8, seed=1).fill_diagonal_(1.0)
    parts = losses.listmle(student, teacher, temperature=0.05, exclude_positive=True)
    parts = parts + losses.info_nce(student, temperature=0.05)
    close(losses.listmle(student, teacher, temperature=0.05), parts.item())


def test_listmle_is_zero_for_the_right_order_at_a_spread_where_a_constant_in_the_log_is_not() -> None:
    student, teacher = torch.tensor([[0.0, -1.0, -2.0]]), torch.tensor([[3.0, 2.0, 1.0]])
    assert losses.listmle(student, teacher, temperature=0.05) < 1e-6  # methods that add 1e-7 in the log give 27.8


@pytest.mark.parametrize("kinds", [2, 5, 1000])
@pytest.mark.parametrize("n", [2, 16, 64])
def test_cosent_equals_equation_10_with_and_without_ties(n: int, kinds: int) -> None:
    scores, gold = cosines(1, n)[0], (cosines(1, n, seed=1)[0] * kinds).round()
    close(losses.cosent(scores, gold), naive_cosent(scores.tolist(), gold.tolist(), 20.0))


def test_cosent_by_hand_and_indifferent_to_order_and_scale_of_the_labels() -> None:
    scores, gold = torch.tensor([0.5, 0.4, 0.1], dtype=torch.float64), torch.tensor([1, 2, 0])
    expected = math.log(1 + math.exp(20 * 0.1) + math.exp(20 * -0.4) + math.exp(20 * -0.3))
    close(losses.cosent(scores, gold), expected)
    close(losses.cosent(scores.flip(0), gold.flip(0) * 7.5 - 3), expected)
    close(losses.cosent(scores, gold > 0), math.log(1 + math.exp(20 * -0.4) + math.exp(20 * -0.3)))


@pytest.mark.parametrize("exclude", [True, False])
def test_cosent_lists_is_the_mean_of_cosent_inside_each_list(exclude: bool) -> None:
    student, teacher = cosines(6, 6), (cosines(6, 6, seed=1) * 3).round()
    rows = [
        naive_cosent(*((without(s, i), without(t, i)) if exclude else (s, t)), 20.0)
        for i, (s, t) in enumerate(zip(student.tolist(), teacher.tolist(), strict=True))
    ]
    close(losses.cosent_lists(student, teacher, exclude_positive=exclude), sum(rows) / 6)


def test_mse_contrastive_and_triplet_equal_their_equations() -> None:
    scores, gold = cosines(1, 9)[0], torch.arange(9) % 2
    pairs = list(zip(scores.tolist(), gold.tolist(), strict=True))
    close(losses.mse(scores, gold / 2), sum((s - y / 2) ** 2 for s, y in pairs) / 9)
    for eps in (-1.0, -0.5, 0.0, 0.5, 0.9):  # the sweep of CoSENT table I
        paper = sum(0.5 * y * (1 - s) ** 2 + 0.5 * (1 - y) * max(eps, s) ** 2 for s, y in pairs) / 9
        hinge = sum(0.5 * y * (1 - s) ** 2 + 0.5 * (1 - y) * max(0, s - eps) ** 2 for s, y in pairs) / 9
        close(losses.contrastive(scores, gold, epsilon=eps), paper)
        close(losses.contrastive(scores, gold, epsilon=eps, form="hinge"), hinge)
        assert (abs(paper - hinge) < 1e-12) == (eps == 0.0)
    a, p, n = (cosines(5, 4, seed) for seed in range(3))
    expected = sum(
        max(math.dist(x, y) - math.dist(x, z) + 1.0, 0) for x, y, z in zip(*map(Tensor.tolist, (a, p, n)), strict=True)
    )
    close(losses.triplet(a, p, n, margin=1.0), expected / 5)


@pytest.mark.parametrize(("lower", "upper"), [(0.5, 0.8), (None, 0.5), (0.0, None), (None, None)])
def test_rank_mse_equals_equations_4_and_6_with_inclusive_bounds(lower: float | None, upper: float | None) -> None:
    scores, target = cosines(6, 6), (cosines(6, 6, seed=1) * 10).round() / 10
    target.fill_diagonal_(1.0)
    assert lower is None or (target == lower).any()  # a pair lies on the bound itself
    value = losses.rank_mse(scores, target, lower=lower, upper=upper)
    close(value, naive_rank_mse(scores.tolist(), target.tolist(), lower, upper))


def test_compose_by_hand() -> None:
    left, right = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[5.0, 6.0, 7.0, 8.0]])
    assert losses.compose([left, right], "avg").tolist() == [[3.0, 4.0, 5.0, 6.0]]
    assert losses.compose([left, right, right], "sum").tolist() == [[11.0, 14.0, 17.0, 20.0]]
    assert losses.compose([left, right], "concat_halves").tolist() == [[1.0, 2.0, 7.0, 8.0]]


def test_top_one_is_a_distribution_that_the_temperature_sharpens():
    scores = torch.tensor([[0.9, 0.5, -torch.inf], [0.1, 0.1, 0.1]], dtype=torch.float64)
    warm, cold = (losses.top_one(scores, temperature=tau) for tau in (1.0, 0.1))
    torch.testing.assert_close(warm.sum(dim=1), torch.ones(2, dtype=torch.float64))
    assert warm[0].tolist() == pytest.approx([math.e**0.4 / (1 + math.e**0.4), 1 / (1 + math.e**0.4), 0])
    assert cold[0, 0] > warm[0, 0]
    assert warm[1].tolist() == pytest.approx([1 / 3] * 3)
    with pytest.raises(ValueError, match="temperature is 0"):
        losses.top_one(scores, temperature=0.0)
