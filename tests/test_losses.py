"""Losses against loops over their equations; gradients, precision, extreme values, degenerate
batches, errors."""

import inspect
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from workbench import losses, metrics

# A loss of O(10) made of float64 sums of at most a few hundred terms.
EXACT = {"rtol": 1e-12, "atol": 1e-12}
Matrix = list[list[float]]


def cosines(rows: int, columns: int, seed: int = 0) -> Tensor:
    return (
        torch.rand(
            rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
        )
        * 2
        - 1
    )


def softmax(row: list[float], temperature: float) -> list[float]:
    weights = [math.exp(score / temperature) for score in row]
    return [weight / sum(weights) for weight in weights]


def without(row: list[float], index: int) -> list[float]:
    return row[:index] + row[index + 1 :]


def naive_listnet(
    student: Matrix, teacher: Matrix, tau2: float, tau3: float, exclude: bool
) -> float:
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
    return math.log(
        1
        + sum(math.exp(scale * (scores[j] - scores[i])) for i in n for j in n if gold[i] > gold[j])
    )


def naive_graded_listmle(scores: list[float], gold: list[float], tau: float) -> float:
    total = 0.0
    for a in range(len(gold)):
        drawn_from = [b for b in range(len(gold)) if b == a or gold[b] < gold[a]]
        total -= math.log(softmax([scores[b] for b in drawn_from], tau)[drawn_from.index(a)])
    return total


def naive_approx_ndcg(scores: list[float], gold: list[float], tau: float, gain: str) -> float:
    gold = [2**grade - 1 if gain == "exponential" else grade for grade in gold]
    n, reached = range(len(gold)), 0.0
    for j in n:
        rank = 1 + sum(1 / (1 + math.exp((scores[j] - scores[k]) / tau)) for k in n if k != j)
        reached += gold[j] / math.log2(1 + rank)
    best = sum(gain / math.log2(2 + place) for place, gain in enumerate(sorted(gold, reverse=True)))
    return 1 - reached / best


def close(value: Tensor, expected: float, tolerance: dict[str, float] = EXACT) -> None:
    torch.testing.assert_close(value.item(), expected, **tolerance)


def test_hard_negatives_are_further_columns_of_info_nce() -> None:
    scores = cosines(5, 10)
    expected = sum(-math.log(softmax(row, 0.05)[i]) for i, row in enumerate(scores.tolist())) / 5
    close(losses.info_nce(scores, temperature=0.05), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_js_is_never_negative_zero_for_equal_lists_and_log_2_for_disjoint_ones(
    dtype: torch.dtype,
) -> None:
    for seed in range(20):
        half = cosines(16, 16, seed).to(dtype)
        assert 0 <= losses.js_consistency(half + half.T, temperature=0.05) < 1e-7
        assert losses.js_consistency(half, temperature=0.05) > 0.01
    # Rows point forward, columns back.
    scores = torch.tensor([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])
    close(losses.js_consistency(scores, temperature=0.01), math.log(2), {"rtol": 1e-6, "atol": 0})


def test_entropy_consistency_is_minus_the_mean_entropy_and_no_divergence() -> None:
    scores = cosines(6, 6)
    entropy = 0.0
    for i, row in enumerate(scores.tolist()):
        for p in softmax(row, 0.05) + softmax(scores[:, i].tolist(), 0.05):
            entropy -= p * math.log(p) / 12
    close(losses.entropy_consistency(scores, temperature=0.05), -entropy)


@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("shape", [(6, 6), (4, 7)])
def test_listnet_and_listmle_equal_equations_4_and_5_with_and_without_the_positive(
    exclude: bool, shape: tuple[int, int]
) -> None:
    # Ties keep the order of columns.
    student, teacher = cosines(*shape), (cosines(*shape, seed=1) * 2).round()
    taus = {"student_temperature": 0.05, "teacher_temperature": 0.025}
    value = losses.listnet(student, teacher, **taus, exclude_positive=exclude)
    close(value, naive_listnet(student.tolist(), teacher.tolist(), 0.05, 0.025, exclude))
    value = losses.listmle(student, teacher, temperature=0.05, exclude_positive=exclude)
    close(value, naive_listmle(student.tolist(), teacher.tolist(), 0.05, exclude))


def test_listmle_with_the_positive_first_is_listmle_without_plus_info_nce() -> None:
    student, teacher = cosines(8, 8), cosines(8, 8, seed=1).fill_diagonal_(1.0)
    parts = losses.listmle(student, teacher, temperature=0.05, exclude_positive=True)
    parts = parts + losses.info_nce(student, temperature=0.05)
    close(losses.listmle(student, teacher, temperature=0.05), parts.item())
    # Implementations that add 1e-7 inside the log return 27.8.
    ordered = torch.tensor([[0.0, -1.0, -2.0]])
    assert losses.listmle(ordered, ordered, temperature=0.05) < 1e-6


@pytest.mark.parametrize(("n", "kinds"), [(2, 2), (16, 5), (64, 1000)])
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


@pytest.mark.parametrize("kinds", [2, 1000])
def test_the_losses_of_graded_lists_equal_loops_with_and_without_ties(kinds: int) -> None:
    student, gold = cosines(5, 7), ((cosines(5, 7, seed=1) + 1) * kinds).round() / kinds
    lists = list(zip(student.tolist(), gold.tolist(), strict=True))
    expected = sum(naive_graded_listmle(s, g, 0.1) for s, g in lists) / 5
    close(losses.graded_listmle(student, gold, temperature=0.1), expected)
    for gain in ("exponential", "linear"):
        expected = sum(naive_approx_ndcg(s, g, 0.1, gain) for s, g in lists) / 5
        close(losses.approx_ndcg(student, gold, temperature=0.1, gain=gain), expected)


def test_graded_listmle_is_listmle_without_ties_and_indifferent_to_the_order_of_tied_targets() -> (
    None
):
    student, gold = cosines(4, 6), cosines(4, 6, seed=1)
    close(
        losses.graded_listmle(student, gold, temperature=0.1),
        losses.listmle(student, gold, temperature=0.1).item(),
    )
    tied, turned = gold.round(), torch.arange(5, -1, -1)
    assert not losses.listmle(student, tied, temperature=0.1).isclose(
        losses.listmle(student[:, turned], tied[:, turned], temperature=0.1)
    )
    expected = losses.graded_listmle(student[:, turned], tied[:, turned], temperature=0.1).item()
    close(losses.graded_listmle(student, tied, temperature=0.1), expected)


def test_approx_ndcg_approaches_ndcg_as_the_temperature_falls() -> None:
    student, gold = cosines(5, 7), cosines(5, 7, seed=1) + 1
    lists = list(zip(gold.numpy(), student.numpy(), strict=True))
    for gain in ("exponential", "linear"):
        exact = (
            1 - sum(metrics.ndcg(relevance, scores, gain=gain) for relevance, scores in lists) / 5
        )
        values = (
            losses.approx_ndcg(student, gold, temperature=tau, gain=gain)
            for tau in (0.1, 0.01, 0.001)
        )
        gaps = [abs(value.item() - exact) for value in values]
        assert gaps[0] > gaps[1] > gaps[2]
        assert gaps[2] < 1e-3


def test_the_two_forms_of_the_contrastive_loss_agree_at_epsilon_0_alone() -> None:
    scores, gold = cosines(1, 9)[0], torch.arange(9) % 2
    pairs = list(zip(scores.tolist(), gold.tolist(), strict=True))
    for eps in (-1.0, -0.5, 0.0, 0.5, 0.9):  # the sweep of CoSENT table I
        paper = sum(0.5 * y * (1 - s) ** 2 + 0.5 * (1 - y) * max(eps, s) ** 2 for s, y in pairs) / 9
        hinge = (
            sum(0.5 * y * (1 - s) ** 2 + 0.5 * (1 - y) * max(0, s - eps) ** 2 for s, y in pairs) / 9
        )
        close(losses.contrastive(scores, gold, epsilon=eps), paper)
        close(losses.contrastive(scores, gold, epsilon=eps, form="hinge"), hinge)
        assert (abs(paper - hinge) < 1e-12) == (eps == 0.0)


@pytest.mark.parametrize(("lower", "upper"), [(0.5, 0.8), (None, 0.5), (0.0, None)])
def test_the_bounds_of_rank_mse_are_inclusive(lower: float | None, upper: float | None) -> None:
    scores, target = cosines(6, 6), (cosines(6, 6, seed=1) * 10).round() / 10
    within = zip(scores.flatten().tolist(), target.flatten().tolist(), strict=True)
    kept = [
        (t - s) ** 2
        for s, t in within
        if (lower is None or lower <= t) and (upper is None or t <= upper)
    ]
    assert (target == (upper if lower is None else lower)).any()
    close(losses.rank_mse(scores, target, lower=lower, upper=upper), sum(kept) / len(kept))


def test_top_one_is_a_distribution_that_the_temperature_sharpens():
    scores = torch.tensor([[0.9, 0.5, -torch.inf], [0.1, 0.1, 0.1]], dtype=torch.float64)
    warm, cold = (losses.top_one(scores, temperature=tau) for tau in (1.0, 0.1))
    torch.testing.assert_close(warm.sum(dim=1), torch.ones(2, dtype=torch.float64))
    assert warm[0].tolist() == pytest.approx(
        [math.e**0.4 / (1 + math.e**0.4), 1 / (1 + math.e**0.4), 0]
    )
    assert cold[0, 0] > warm[0, 0]
    assert warm[1].tolist() == pytest.approx([1 / 3] * 3)


LISTS = {
    "info_nce": lambda s, t: losses.info_nce(s, temperature=0.3),
    "js_consistency": lambda s, t: losses.js_consistency(s, temperature=0.3),
    "entropy_consistency": lambda s, t: losses.entropy_consistency(s, temperature=0.3),
    "listnet": lambda s, t: losses.listnet(s, t, student_temperature=0.3, teacher_temperature=0.2),
    "listmle": lambda s, t: losses.listmle(s, t, temperature=0.3),
    "cosent_lists": lambda s, t: losses.cosent_lists(s, t, scale=3.0),
    "list_mse": losses.list_mse,
    "list_correlation": losses.list_correlation,
    "pearson": lambda s, t: losses.pearson(s.flatten(), t.flatten()),
    "rank_kl": lambda s, t: losses.rank_kl(s.flatten(), t.flatten(), temperature=0.3),
    "graded_listmle": lambda s, t: losses.graded_listmle(s, t, temperature=0.3),
    "approx_ndcg": lambda s, t: losses.approx_ndcg(s, t.abs(), temperature=0.3),
    "cosent": lambda s, t: losses.cosent(s.flatten(), t.flatten(), scale=3.0),
    "mse": lambda s, t: losses.mse(s.flatten(), t.flatten()),
    "contrastive": lambda s, t: losses.contrastive(s.flatten(), (t > 0).flatten(), epsilon=0.2),
    "hinge": lambda s, t: losses.contrastive(
        s.flatten(), (t > 0).flatten(), epsilon=0.2, form="hinge"
    ),
    "rank_mse": lambda s, t: losses.rank_mse(s, t, lower=-0.5, upper=0.5),
    "triplet": lambda s, t: losses.triplet(s, t, t.flip(0), margin=1.0),
    "cosine_matrix": lambda s, t: losses.cosine_matrix(s, t).sum(),
}


@pytest.mark.parametrize("loss", LISTS.values(), ids=LISTS.keys())
def test_gradient_equals_finite_differences(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    scores, teacher = cosines(4, 4).requires_grad_(), (cosines(4, 4, seed=1) * 4).round() / 4
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher), (scores,))


@pytest.mark.parametrize("loss", LISTS.values(), ids=LISTS.keys())
def test_autocast_and_bfloat16_inputs_are_computed_in_float32(
    loss: Callable[[Tensor, Tensor], Tensor],
) -> None:
    scores, teacher = cosines(8, 8).bfloat16(), cosines(8, 8, seed=1).bfloat16()
    wide = loss(scores.float(), teacher.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for value in (loss(scores, teacher), loss(scores.float(), teacher.float())):
            assert value.dtype == torch.float32
            assert torch.equal(value, wide)


@pytest.mark.parametrize("spread", [1 / 0.0125, 1e4])
@pytest.mark.parametrize(
    "name",
    [
        "info_nce",
        "js_consistency",
        "entropy_consistency",
        "listnet",
        "listmle",
        "graded_listmle",
        "cosent_lists",
        "cosent",
    ],
)
def test_extreme_logits_are_as_right_as_float32_can_hold_them(name: str, spread: float) -> None:
    scores, teacher = cosines(8, 8), cosines(8, 8, seed=1)
    results = []
    for dtype in (torch.float32, torch.float64):
        x = (scores.float() * spread).to(dtype).requires_grad_()
        value = LISTS[name](x, teacher.to(dtype))
        results.append((value.detach(), *torch.autograd.grad(value, x)))
    # A logit of at most spread / 0.2 (or 3 * 2 * spread) is off by half a unit in the last place,
    # its log-sum too; a probability is off by that factor, a gradient by that times 1 / temperature
    # and a few terms.
    rounding = torch.finfo(torch.float32).eps * 6 * spread
    for narrow, wide in zip(*results, strict=True):
        assert narrow.isfinite().all()
        torch.testing.assert_close(narrow.double(), wide, rtol=rounding, atol=10 * rounding)
    x = (scores.float() * 1e30).requires_grad_()  # near the end of float32
    value = LISTS[name](x, teacher.float())
    assert value.isfinite()
    assert torch.autograd.grad(value, x)[0].isfinite().all()


def without_diagonal(matrix: Tensor) -> Tensor:
    return torch.stack([row[torch.arange(len(row)) != place] for place, row in enumerate(matrix)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_target_that_is_not_there_changes_no_approximate_ndcg(dtype: torch.dtype) -> None:
    scores, gold = cosines(6, 6).to(dtype), (cosines(6, 6, seed=1) + 1).to(dtype)
    x, g = (matrix.clone().fill_diagonal_(-math.inf) for matrix in (scores, gold))
    value = losses.approx_ndcg(x.requires_grad_(), g, temperature=0.1)
    expected = losses.approx_ndcg(*map(without_diagonal, (scores, gold)), temperature=0.1)
    torch.testing.assert_close(value, expected, rtol=16 * torch.finfo(dtype).eps, atol=0)
    gradient = torch.autograd.grad(value, x)[0]
    assert gradient.isfinite().all()
    assert (gradient.diagonal() == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", ["-inf", "lowest"])
def test_a_candidate_masked_out_counts_as_one_that_is_not_there(
    masked: str, dtype: torch.dtype
) -> None:
    scores, teacher = cosines(6, 6).to(dtype), cosines(6, 6, seed=1).to(dtype)
    fill = -math.inf if masked == "-inf" else torch.finfo(dtype).min
    x, t = (matrix.clone().fill_diagonal_(fill) for matrix in (scores, teacher))
    x.requires_grad_()
    taus = {"student_temperature": 0.025, "teacher_temperature": 0.0125}
    shorter = {
        losses.listnet(x, t, **taus, exclude_positive=False): losses.listnet(
            scores, teacher, **taus
        ),
        losses.listmle(x, t, temperature=0.05): losses.listmle(
            scores, teacher, temperature=0.05, exclude_positive=True
        ),
        losses.cosent_lists(x, t, exclude_positive=False): losses.cosent_lists(scores, teacher),
        losses.graded_listmle(x, t, temperature=0.05): losses.graded_listmle(
            *map(without_diagonal, (scores, teacher)), temperature=0.05
        ),
        losses.js_consistency(x, temperature=0.05): losses.js_consistency(
            scores.clone().fill_diagonal_(-20), temperature=0.05
        ),
    }
    for value, expected in shorter.items():
        # Both are sums of the same terms, those of the masked candidates being 0.
        torch.testing.assert_close(value, expected, rtol=8 * torch.finfo(dtype).eps, atol=0)
        gradient = torch.autograd.grad(value, x)[0]
        assert gradient.isfinite().all()
        assert (gradient.diagonal() == 0).all()


def test_batches_that_cannot_pair_cost_nothing_and_move_nothing() -> None:
    scores = cosines(3, 3).requires_grad_()
    ones = torch.ones(3, 3, dtype=torch.float64)
    for value in (
        losses.cosent(scores.flatten(), ones.flatten()),
        losses.cosent(scores[0, :1], ones[0, :1]),
        losses.cosent_lists(scores, ones),
        losses.cosent_lists(scores[:1, :1], ones[:1, :1]),
        losses.listmle(scores[:1, :1], ones[:1, :1], temperature=0.05, exclude_positive=True),
        losses.graded_listmle(scores, ones, temperature=0.05),
        losses.approx_ndcg(scores, 0 * ones, temperature=0.05),
        losses.listnet(
            scores[:1, :1], ones[:1, :1], student_temperature=0.05, teacher_temperature=0.05
        ),
        losses.rank_mse(scores, ones, lower=0.5, upper=0.8),
    ):
        assert value.item() == 0
        assert (torch.autograd.grad(value, scores)[0] == 0).all()


def test_cosines_do_not_change_with_scale_and_rows_of_zeros_have_cosine_zero() -> None:
    a = torch.zeros(2, 3, requires_grad=True)
    matrix = losses.cosine_matrix(a, torch.eye(3))
    assert (matrix == 0).all()
    assert torch.autograd.grad(matrix.sum(), a)[0].abs().max() <= 1
    b, c = cosines(4, 6).float(), cosines(3, 6, seed=1).float()
    for scale in (1e-30, 1e30):  # squares of these leave float32
        torch.testing.assert_close(
            losses.cosine_matrix(b * scale, c), losses.cosine_matrix(b, c), rtol=0, atol=1e-6
        )


def test_cosent_needs_a_few_numbers_a_pair_in_memory(
    memory_growth: Callable[[str, str], int],
) -> None:
    step = """
import torch
from workbench import losses
def step(n):
    scores = torch.rand(n, requires_grad=True)
    torch.autograd.grad(losses.cosent(scores, torch.arange(n) % 6), scores)
step(1024)
"""
    # Scores, labels, order, places and their sorted, summed and differentiated forms: some 15
    # numbers of 4 and as many of 8 bytes. A matrix would be 4 MB a pair; log2(n) = 20 sorted copies
    # 160 bytes more.
    assert 0 < memory_growth(step, "step(2**20)") < 2**20 * (15 * 4 + 15 * 8)


def test_cosent_of_65536_pairs_is_right() -> None:
    n = 65_536
    scores, gold = cosines(1, n)[0].float().requires_grad_(), torch.arange(n) % 6
    value = losses.cosent(scores, gold)
    gradient = torch.autograd.grad(value, scores)[0]
    # The equation in closed form, label by label, in float64.
    x = 20 * scores.detach().double().requires_grad_()
    sums = [(torch.logsumexp(x[gold == k], 0), torch.logsumexp(-x[gold == k], 0)) for k in range(6)]
    total = torch.logsumexp(
        torch.stack([sums[j][0] + sums[i][1] for i in range(6) for j in range(i)]), 0
    )
    torch.testing.assert_close(value.double(), total, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        gradient.double(), 20 * torch.autograd.grad(total, x)[0], rtol=1e-4, atol=1e-7
    )


MISTAKES = {
    "square": lambda: losses.js_consistency(torch.rand(2, 3), temperature=0.05),
    "scores have shape .*as many columns": lambda: losses.info_nce(
        torch.rand(3, 2), temperature=0.05
    ),
    "matrix of lists": lambda: inspect.unwrap(losses.listmle)(
        *torch.rand(2, 2, 3, 3), temperature=1.0
    ),
    "lists have shape .*as many columns": lambda: losses.cosent_lists(
        torch.rand(3, 2), torch.rand(3, 2)
    ),
    "student and teacher have shapes": lambda: losses.cosent_lists(
        torch.rand(3, 3), torch.rand(2, 3)
    ),
    "must be a vector": lambda: inspect.unwrap(losses.cosent)(torch.rand(2, 2), torch.rand(2, 2)),
    r"scores and gold have shapes \(3,\) and \(2,\)": lambda: losses.mse(
        torch.rand(3), torch.rand(2)
    ),
}


@pytest.mark.parametrize(("text", "call"), MISTAKES.items(), ids=MISTAKES.keys())
def test_a_mistake_is_refused(text: str, call: Callable[[], Tensor]) -> None:
    with pytest.raises(ValueError, match=text):
        call()
