"""The losses' gradients, precision, extreme values, degenerate batches, size and mistakes."""

import inspect
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from workbench import losses


def cosines(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.rand(rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def unchecked(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The loss as a notebook calls it: without the shape checker that the tests put around every function."""

    def bare(*args: object, **kwargs: object) -> Tensor:
        return inspect.unwrap(loss)(*args, **kwargs)

    return bare


LISTS = {
    "info_nce": lambda s, t: losses.info_nce(s, temperature=0.3),
    "js": lambda s, t: losses.js_consistency(s, temperature=0.3),
    "entropy": lambda s, t: losses.entropy_consistency(s, temperature=0.3),
    "listnet": lambda s, t: losses.listnet(s, t, student_temperature=0.3, teacher_temperature=0.2),
    "listmle": lambda s, t: losses.listmle(s, t, temperature=0.3),
    "cosent_lists": lambda s, t: losses.cosent_lists(s, t, scale=3.0),
    "cosent": lambda s, t: losses.cosent(s.flatten(), t.flatten(), scale=3.0),
    "mse": lambda s, t: losses.mse(s.flatten(), t.flatten()),
    "contrastive": lambda s, t: losses.contrastive(s.flatten(), (t > 0).flatten(), epsilon=0.2),
    "hinge": lambda s, t: losses.contrastive(s.flatten(), (t > 0).flatten(), epsilon=0.2, form="hinge"),
    "rank_mse": lambda s, t: losses.rank_mse(s, t, lower=-0.5, upper=0.5),
    "triplet": lambda s, t: losses.triplet(s, t, t.flip(0), margin=1.0),
    "cosine_matrix": lambda s, t: losses.cosine_matrix(s, t).sum(),
}


@pytest.mark.parametrize("loss", LISTS.values(), ids=LISTS.keys())
def test_gradient_equals_finite_differences(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    scores, teacher = cosines(4, 4).requires_grad_(), (cosines(4, 4, seed=1) * 4).round() / 4
    assert torch.autograd.gradcheck(lambda s: loss(s, teacher), (scores,))


@pytest.mark.parametrize("loss", LISTS.values(), ids=LISTS.keys())
def test_autocast_and_bfloat16_inputs_are_computed_in_float32(loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    scores, teacher = cosines(8, 8).bfloat16(), cosines(8, 8, seed=1).bfloat16()
    wide = loss(scores.float(), teacher.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for value in (loss(scores, teacher), loss(scores.float(), teacher.float())):
            assert value.dtype == torch.float32
            assert torch.equal(value, wide)


@pytest.mark.parametrize("spread", [1 / 0.0125, 1e4])
@pytest.mark.parametrize("name", ["info_nce", "js", "entropy", "listnet", "listmle", "cosent_lists", "cosent"])
def test_extreme_logits_are_as_right_as_float32_can_hold_them(name: str, spread: float) -> None:
    scores, teacher = cosines(8, 8), cosines(8, 8, seed=1)
    results = []
    for dtype in (torch.float32, torch.float64):
        x = (scores.float() * spread).to(dtype).requires_grad_()
        value = LISTS[name](x, teacher.to(dtype))
        results.append((value.detach(), *torch.autograd.grad(value, x)))
    # A logit of at most spread / 0.2 (or 3 * 2 * spread) is off by half a unit in the last place, its log-sum too;
    # a probability is off by that factor, a gradient by that times 1 / temperature and a few terms.
    rounding = torch.finfo(torch.float32).eps * 6 * spread
    for narrow, wide in zip(*results, strict=True):
        assert narrow.isfinite().all()
        torch.testing.assert_close(narrow.double(), wide, rtol=rounding, atol=10 * rounding)


@pytest.mark.parametrize("name", ["info_nce", "js", "entropy", "listnet", "listmle", "cosent_lists", "cosent"])
def test_logits_near_the_end_of_float32_stay_finite(name: str) -> None:
    x = (cosines(8, 8).float() * 1e30).requires_grad_()
    value = LISTS[name](x, cosines(8, 8, seed=1).float())
    assert value.isfinite()
    assert torch.autograd.grad(value, x)[0].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masked", ["-inf", "lowest"])
def test_a_candidate_masked_out_counts_as_one_that_is_not_there(masked: str, dtype: torch.dtype) -> None:
    scores, teacher = cosines(6, 6).to(dtype), cosines(6, 6, seed=1).to(dtype)
    fill = -math.inf if masked == "-inf" else torch.finfo(dtype).min
    x, t = (matrix.clone().fill_diagonal_(fill) for matrix in (scores, teacher))
    x.requires_grad_()
    taus = {"student_temperature": 0.025, "teacher_temperature": 0.0125}
    shorter = {
        losses.listnet(x, t, **taus, exclude_positive=False): losses.listnet(scores, teacher, **taus),
        losses.listmle(x, t, temperature=0.05): losses.listmle(
            scores, teacher, temperature=0.05, exclude_positive=True
        ),
        losses.cosent_lists(x, t, exclude_positive=False): losses.cosent_lists(scores, teacher),
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
        losses.listnet(scores[:1, :1], ones[:1, :1], student_temperature=0.05, teacher_temperature=0.05),
        losses.rank_mse(scores, ones, lower=0.5, upper=0.8),
    ):
        assert value.item() == 0
        assert (torch.autograd.grad(value, scores)[0] == 0).all()


def test_rows_of_zeros_have_cosine_zero_and_a_bounded_gradient() -> None:
    a = torch.zeros(2, 3, requires_grad=True)
    matrix = losses.cosine_matrix(a, torch.eye(3))
    assert (matrix == 0).all()
    assert torch.autograd.grad(matrix.sum(), a)[0].abs().max() <= 1


def test_cosent_needs_a_few_numbers_a_pair_in_memory(memory_growth: Callable[[str, str], int]) -> None:
    step = """
import torch
from workbench import losses
def step(n):
    scores = torch.rand(n, requires_grad=True)
    torch.autograd.grad(losses.cosent(scores, torch.arange(n) % 6), scores)
step(1024)
"""
    # Scores, labels, order, places and their sorted, summed and differentiated forms: some 15 numbers of 4 and as many
    # of 8 bytes. A matrix would be 4 MB a pair; log2(n) = 20 sorted copies 160 bytes more.
    assert 0 < memory_growth(step, "step(2**20)") < 2**20 * (15 * 4 + 15 * 8)


def test_cosent_of_65536_pairs_is_right() -> None:
    n = 65_536
    scores, gold = cosines(1, n)[0].float().requires_grad_(), torch.arange(n) % 6
    value = losses.cosent(scores, gold)
    gradient = torch.autograd.grad(value, scores)[0]
    # Six labels: the equation in closed form, label by label, in float64.
    x = 20 * scores.detach().double()
    sums = [(torch.logsumexp(x[gold == k], 0), torch.logsumexp(-x[gold == k], 0)) for k in range(6)]
    total = torch.logsumexp(torch.stack([sums[j][0] + sums[i][1] for i in range(6) for j in range(i)]), 0)
    torch.testing.assert_close(value.double(), total, rtol=1e-6, atol=0)
    weight = torch.zeros_like(x)
    for k in range(6):
        for j in range(6):
            if j < k:
                weight[gold == k] -= torch.exp(sums[j][0] - x[gold == k] - total)
            if j > k:
                weight[gold == k] += torch.exp(sums[j][1] + x[gold == k] - total)
    torch.testing.assert_close(gradient.double(), 20 * weight, rtol=1e-4, atol=1e-7)


NAN = torch.tensor([0.1, math.nan])
MISTAKES = {
    "at least as many columns": lambda: losses.info_nce(torch.rand(3, 2), temperature=0.05),
    "temperature is 0": lambda: losses.info_nce(torch.rand(3, 3), temperature=0.0),
    "temperature is -1": lambda: losses.listmle(torch.rand(3, 3), torch.rand(3, 3), temperature=-1.0),
    "square": lambda: losses.js_consistency(torch.rand(2, 3), temperature=0.05),
    r"shape \(0, 0\)": lambda: losses.entropy_consistency(torch.rand(0, 0), temperature=0.05),
    "student and teacher have shapes": lambda: losses.cosent_lists(torch.rand(3, 3), torch.rand(2, 3)),
    "must be a vector": lambda: unchecked(losses.cosent)(torch.rand(2, 2), torch.rand(2, 2)),
    r"scores and gold have shapes \(3,\) and \(2,\)": lambda: losses.mse(torch.rand(3), torch.rand(2)),
    "gold contains nan": lambda: losses.cosent(torch.rand(2), NAN),
    "teacher contains nan": lambda: losses.listmle(torch.rand(1, 2), NAN[None], temperature=1.0),
    "target contains nan": lambda: losses.rank_mse(torch.rand(1, 2), NAN[None], lower=None, upper=None),
    "scale is nan": lambda: losses.cosent(torch.rand(2), torch.rand(2), scale=math.nan),
    "values other than 0 and 1": lambda: losses.contrastive(torch.rand(2), torch.tensor([0, 2]), epsilon=0.0),
    "form is 'soft'": lambda: losses.contrastive(torch.rand(2), torch.ones(2), epsilon=0.0, form="soft"),
    "margin is 0": lambda: losses.triplet(*torch.rand(3, 2, 2), margin=0.0),
    "how is 'max'": lambda: losses.compose([torch.rand(2, 3)], "max"),
    "too many values": lambda: losses.compose([torch.rand(2, 4)] * 3, "concat_halves"),
}


@pytest.mark.parametrize(("text", "call"), MISTAKES.items(), ids=MISTAKES.keys())
def test_a_mistake_is_refused(text: str, call: Callable[[], Tensor]) -> None:
    with pytest.raises(ValueError, match=text):
        call()
