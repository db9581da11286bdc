"""Every public loss has a loop over its equation here, finite differences, and a row in
docs/methods.md."""

import inspect
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from test_losses import (
    LISTS,
    Matrix,
    close,
    cosines,
    naive_approx_ndcg,
    naive_cosent,
    naive_graded_listmle,
    naive_listmle,
    naive_listnet,
    softmax,
    without,
)
from torch import Tensor

from workbench import losses

METHODS_PAGE = Path(__file__).parent.parent / "docs" / "methods.md"


def transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def flat(matrix: Matrix) -> list[float]:
    return [number for row in matrix for number in row]


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def naive_info_nce(student: Matrix, _teacher: Matrix) -> float:
    return mean([-math.log(softmax(row, 0.3)[i]) for i, row in enumerate(student)])


def naive_js(student: Matrix, _teacher: Matrix) -> float:
    total = 0.0
    for row, column in zip(student, transposed(student), strict=True):
        for p, q in zip(softmax(row, 0.3), softmax(column, 0.3), strict=True):
            middle = (p + q) / 2
            total += (p * math.log(p / middle) + q * math.log(q / middle)) / 2
    return total / len(student)


def naive_entropy(student: Matrix, _teacher: Matrix) -> float:
    total = 0.0
    for row, column in zip(student, transposed(student), strict=True):
        total += sum(p * math.log(p) for p in softmax(row, 0.3) + softmax(column, 0.3)) / 2
    return total / len(student)


def naive_cosent_lists(student: Matrix, teacher: Matrix) -> float:
    lists = enumerate(zip(student, teacher, strict=True))
    return mean([naive_cosent(without(s, i), without(t, i), 3.0) for i, (s, t) in lists])


def naive_list_mse(student: Matrix, teacher: Matrix) -> float:
    lists = enumerate(zip(student, teacher, strict=True))
    return mean([naive_mse([without(s, i)], [without(t, i)]) for i, (s, t) in lists])


def naive_pearson(student: list[float], teacher: list[float]) -> float:
    centred = [
        (s - mean(student), t - mean(teacher)) for s, t in zip(student, teacher, strict=True)
    ]
    lengths = [math.sqrt(sum(pair[side] ** 2 for pair in centred)) for side in (0, 1)]
    return 1 - sum(s * t for s, t in centred) / (lengths[0] * lengths[1])


def naive_list_correlation(student: Matrix, teacher: Matrix) -> float:
    lists = enumerate(zip(student, teacher, strict=True))
    return mean([naive_pearson(without(s, i), without(t, i)) for i, (s, t) in lists])


def naive_rank_kl(student: Matrix, teacher: Matrix) -> float:
    scores, gold = flat(student), flat(teacher)
    targets = []
    for grade in gold:
        lower = sum(other < grade for other in gold)
        ties = sum(other == grade for other in gold)
        targets.append((lower + (ties - 1) / 2) / (len(gold) - 1))
    wanted, found = softmax(targets, 0.3), softmax(scores, 0.3)
    return sum(p * math.log(p / q) for p, q in zip(wanted, found, strict=True))


def naive_mse(student: Matrix, teacher: Matrix) -> float:
    pairs = zip(flat(student), flat(teacher), strict=True)
    return mean([(score - gold) ** 2 for score, gold in pairs])


def naive_contrastive(student: Matrix, teacher: Matrix) -> float:
    values = []
    for score, gold in zip(flat(student), flat(teacher), strict=True):
        values.append((1 - score) ** 2 / 2 if gold > 0 else max(0.2, score) ** 2 / 2)
    return mean(values)


def naive_rank_mse(student: Matrix, teacher: Matrix) -> float:
    pairs = zip(flat(student), flat(teacher), strict=True)
    return mean([(score - target) ** 2 for score, target in pairs if -0.5 <= target <= 0.5])


def naive_triplet(student: Matrix, teacher: Matrix) -> float:
    values = []
    for anchor, near, far in zip(student, teacher, teacher[::-1], strict=True):
        values.append(max(math.dist(anchor, near) - math.dist(anchor, far) + 1.0, 0.0))
    return mean(values)


# Loss -> the loop over its equation, with the arguments that LISTS passes.
LOOPS: dict[str, Callable[[Matrix, Matrix], float]] = {
    "info_nce": naive_info_nce,
    "js_consistency": naive_js,
    "entropy_consistency": naive_entropy,
    "listnet": lambda s, t: naive_listnet(s, t, 0.3, 0.2, True),
    "listmle": lambda s, t: naive_listmle(s, t, 0.3, False),
    "cosent": lambda s, t: naive_cosent(flat(s), flat(t), 3.0),
    "cosent_lists": naive_cosent_lists,
    "list_mse": naive_list_mse,
    "list_correlation": naive_list_correlation,
    "pearson": lambda s, t: naive_pearson(flat(s), flat(t)),
    "rank_kl": naive_rank_kl,
    "graded_listmle": lambda s, t: mean(
        [naive_graded_listmle(*rows, 0.3) for rows in zip(s, t, strict=True)]
    ),
    "approx_ndcg": lambda s, t: mean(
        [
            naive_approx_ndcg(row, [abs(grade) for grade in grades], 0.3, "exponential")
            for row, grades in zip(s, t, strict=True)
        ]
    ),
    "mse": naive_mse,
    "contrastive": naive_contrastive,
    "rank_mse": naive_rank_mse,
    "triplet": naive_triplet,
}


def public_losses() -> list[str]:
    """Return the names of the public functions of `losses` that return a scalar."""
    names = []
    for name in sorted({*losses.__all__, *vars(losses)}):  # a name is loaded when it is first used
        function = getattr(losses, name)
        if not inspect.isfunction(function) or name.startswith("_"):
            continue
        returned = inspect.signature(function).return_annotation
        if str(returned) == str(losses.info_nce.__annotations__["return"]):
            names.append(name)
    return names


def test_the_public_losses_are_found():
    assert set(public_losses()) == LOOPS.keys() == LISTS.keys() - {"hinge", "cosine_matrix"}
    assert "cosine_matrix" not in public_losses()


@pytest.mark.parametrize("name", public_losses())
def test_each_public_loss_equals_a_loop_over_its_equation(name: str):
    assert name in LOOPS, f"write a loop over the equation of losses.{name} for LOOPS"
    student: Tensor = cosines(5, 5)
    teacher = (cosines(5, 5, seed=1) * 4).round() / 4  # with ties
    close(LISTS[name](student, teacher), LOOPS[name](student.tolist(), teacher.tolist()))


@pytest.mark.parametrize("name", public_losses())
def test_each_public_loss_is_compared_with_finite_differences(name: str):
    assert name in LISTS, f"add losses.{name} to LISTS of test_losses.py"


@pytest.mark.parametrize("name", public_losses())
def test_each_public_loss_has_a_row_in_the_page_of_the_methods(name: str):
    rows = [line for line in METHODS_PAGE.read_text(encoding="utf-8").splitlines() if "|" in line]
    assert any(f"losses.{name}" in row for row in rows), (
        f"docs/methods.md has no row on losses.{name}"
    )


def test_a_loss_that_no_list_names_is_reported(monkeypatch: pytest.MonkeyPatch):
    def unlisted(scores: Tensor) -> Tensor:
        return scores.sum()

    unlisted.__annotations__["return"] = losses.info_nce.__annotations__["return"]
    monkeypatch.setattr(losses, "unlisted", unlisted, raising=False)
    assert "unlisted" in public_losses()
    with pytest.raises(AssertionError, match="LOOPS"):
        test_each_public_loss_equals_a_loop_over_its_equation("unlisted")
    assert torch.isfinite(unlisted(torch.ones(2)))


def test_lists_and_batches_without_differences_have_a_finite_loss_and_no_gradient():
    equal = torch.full((3, 3), 0.3, requires_grad=True)
    teacher = cosines(3, 3)
    for loss in (losses.list_correlation(equal, teacher), losses.pearson(equal[0], teacher[0])):
        assert loss.item() == 1
        assert not torch.autograd.grad(loss, equal)[0].any()
    varied = cosines(3, 3).requires_grad_()
    tied = losses.list_correlation(varied, torch.ones(3, 3, dtype=torch.float64))
    assert tied.item() == 1
    assert not torch.autograd.grad(tied, varied)[0].any()
    alone = torch.ones(1, 1, requires_grad=True)
    for loss in (losses.list_mse, losses.list_correlation):
        value = loss(alone, torch.zeros(1, 1))
        assert value.item() == 0
        assert torch.autograd.grad(value, alone)[0].item() == 0
    one = torch.ones(1, requires_grad=True)
    assert losses.rank_kl(one, torch.ones(1), temperature=0.1).item() == 0


def test_correlation_follows_values_and_ignores_offset_and_scale():
    student, teacher = cosines(6, 6), cosines(6, 6, seed=1)
    moved = losses.list_correlation(5 * student - 2, teacher)
    close(losses.list_correlation(student, teacher), moved.item())
    assert losses.list_correlation(teacher, 3 * teacher + 1).item() == pytest.approx(0, abs=1e-12)
    assert losses.list_correlation(teacher, teacher.exp()).item() > 1e-4, "the order alone counts"
    ranked = losses.rank_kl(student[0], teacher[0], temperature=0.1)
    assert ranked == losses.rank_kl(student[0], teacher[0].exp(), temperature=0.1)
