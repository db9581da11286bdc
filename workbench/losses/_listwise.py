"""Losses over lists: each row of a score matrix is one anchor's list.

Every loss is a mean over rows.

RankCSE prints its sums over the batch (eqs. 1-5); the mean divides all terms alike, so their ratios
are the paper's. Shapes that must be equal are compared in the functions, because the annotations
are only checked in the tests.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, softmax

from workbench.losses._arguments import AnyShape, Scalar, Scores, full_precision, require_same_shape


def without_positive(scores: Scores) -> Float[Tensor, "n m_less_1"]:
    """Drop column i from row i; the other columns keep their order."""
    rows, columns = scores.shape
    if columns < rows:
        raise ValueError(
            f"lists have shape {tuple(scores.shape)}; there must be at least as many "
            "columns as rows"
        )
    kept = torch.arange(columns - 1, device=scores.device).expand(rows, -1)
    # The columns from the i-th on move by one: a gather in place of a loop over rows.
    return scores.gather(1, kept + torch.ones_like(kept).triu())


def clamp_masked(logits: Tensor) -> Tensor:
    """Clamp masked candidates, which then have weight 0.

    These are -inf, or the dtype's lowest number before scaling.

    At half the lowest number its difference from any other logit is finite, so that 0 log 0 is 0
    and not nan.
    """
    return logits.clamp_min(torch.finfo(logits.dtype).min / 2)


def paired_lists(
    student: Tensor, teacher: Tensor, exclude_positive: bool = False
) -> tuple[Tensor, Tensor]:
    """Check the student's and the teacher's lists, and drop the positives if asked."""
    if student.ndim != 2:
        raise ValueError(f"student has shape {tuple(student.shape)}; it must be a matrix of lists")
    require_same_shape(student, teacher, "student and teacher")
    return (
        (without_positive(student), without_positive(teacher))
        if exclude_positive
        else (student, teacher)
    )


@full_precision
def info_nce(scores: Scores, *, temperature: float) -> Scalar:
    """Return the mean of -log softmax(scores_i / tau_1)_i over anchors i: RankCSE eq. 1.

    It compares in one direction only.

    `scores` are [n, m], m >= n. Row i is anchor i, column i its positive, every other column a
    negative; columns past the n-th are negatives of all anchors (hard negatives). temperature is
    tau_1 > 0, by which scores are divided. The loss is >= 0; smaller is better.
    """
    rows, columns = scores.shape
    if columns < rows or not rows:
        raise ValueError(
            f"scores have shape {rows, columns}; there must be rows, and at least as many columns"
        )
    return cross_entropy(scores / temperature, torch.arange(rows, device=scores.device))


def _both_directions(scores: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return log P_i and log Q_i of RankCSE sec. 4.3.

    They are the top-one distributions of the rows and of the columns.
    """
    if scores.shape[0] != scores.shape[1]:
        raise ValueError(
            f"scores have shape {tuple(scores.shape)}; two views of one batch give a square matrix"
        )
    logits = clamp_masked(scores / temperature)
    return log_softmax(logits, dim=1), log_softmax(logits.T, dim=1)


@full_precision
def js_consistency(scores: Scores, *, temperature: float) -> Scalar:
    """Return the mean over i of JS(P_i || Q_i), natural logarithm: RankCSE eq. 2.

    P_i = softmax of row i of scores / tau_1 and Q_i = softmax of row i of its transpose: the lists
    of the two views. The positives stay in the lists and gradient flows through both. `scores` [n,
    n] compares view 1 (rows) with view 2 (columns); temperature is tau_1 > 0. The value is in [0,
    ln 2]; 0 when both views give the same lists."""
    # In logarithms throughout: at tau = 0.0125 a probability may be exp(-160), which float32 cannot
    # hold.
    log_p, log_q = _both_directions(scores, temperature)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    divergence = 0.5 * (log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)).sum(dim=1)
    # Rounding puts the divergence of equal lists some 1e-8 to either side of 0: lift the value,
    # keep the gradient.
    return (divergence + (divergence.clamp_min(0) - divergence).detach()).mean()


@full_precision
def entropy_consistency(scores: Scores, *, temperature: float) -> Scalar:
    """Return the mean over i of -(H(P_i) + H(Q_i)) / 2.

    The public RankCSE code computes this in place of eq. 2.

    That code clamps log M from below at 1e-7; log M is never positive, so it becomes the constant
    1e-7 (left out here) and the divergence from the mixture is lost. What remains flattens the
    lists and compares nothing. The value is in [-ln n, 0]; arguments are those of `js_consistency`.
    """
    log_p, log_q = _both_directions(scores, temperature)
    return 0.5 * (log_p.exp() * log_p + log_q.exp() * log_q).sum(dim=1).mean()


@full_precision
def top_one(scores: Scores, *, temperature: float) -> Scores:
    """Return sigma(S / tau) of RankCSE sec. 3.

    It is the probability of each item of a list to be its first.

    `scores` are [n, m], one list per row; -inf masks an item out. temperature is tau > 0, by which
    scores are divided: the smaller, the more the largest score takes. The rows of the result, [n,
    m], sum to 1.
    """
    return softmax(clamp_masked(scores / temperature), dim=1)


@full_precision
def listnet(
    student: Scores,
    teacher: AnyShape,
    *,
    student_temperature: float,
    teacher_temperature: float,
    exclude_positive: bool = True,
) -> Scalar:
    """Return the cross-entropy of the teacher's and the student's lists: RankCSE eq. 4.

    It is the mean over i of -sum_j softmax(S^T_i / tau_3)_j log softmax(S_i / tau_2)_j.

    S and S^T are [n, m]; gradient flows into the teacher's unless it was computed without.
    student_temperature is tau_2 > 0 and teacher_temperature tau_3 > 0; both divide. The positive,
    column i of row i's list (m >= n), is left out of both softmaxes by default (footnote 1); an
    empty list has loss 0. The least is the teacher's mean entropy.
    """
    student, teacher = paired_lists(student, teacher, exclude_positive)
    # The teacher's numbers may be float64 from a cache; the loss has the student's precision.
    target = top_one(teacher, temperature=teacher_temperature).to(student.dtype)
    return (
        -(target * log_softmax(clamp_masked(student / student_temperature), dim=1))
        .sum(dim=1)
        .mean()
    )


@full_precision
def listmle(
    student: Scores,
    teacher: AnyShape,
    *,
    temperature: float,
    exclude_positive: bool = False,
) -> Scalar:
    """Return the mean over i of -log P(pi_i | S_i, tau_2): RankCSE eq. 5.

    pi_i is the teacher's order, best first.

    -log P = sum_k [log sum_{l >= k} exp(S_pi(l) / tau_2) - S_pi(k) / tau_2], summed over the list.
    Candidates that the teacher ties keep the order of their columns. Only the teacher's order
    counts, never its scale.

    S and S^T are [n, m]; the teacher receives no gradient. temperature is tau_2 > 0, by which
    scores are divided. exclude_positive drops column i of row i (m >= n); an empty list has loss 0.
    The loss is >= 0; smaller is better.
    """
    student, teacher = paired_lists(student, teacher, exclude_positive)
    # stable: ties keep the order of the columns on every device.
    order = teacher.detach().argsort(dim=1, descending=True, stable=True)
    logits = clamp_masked(student.gather(1, order) / temperature)
    # A running sum from the end: what is still to be drawn at each place.
    remaining = logits.flip(1).logcumsumexp(dim=1).flip(1)
    return (remaining - logits).sum(dim=1).mean()
