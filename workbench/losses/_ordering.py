"""Losses on the order of gold: CoSENT, ListMLE with ties, and an approximate NDCG.

CoSENT is over a batch or in lists.

Sorting makes the pairs of n items cost n log n instead of n squared.

With x = lambda * scores, the sum over all pairs of pairs factors by the higher one, i:
    sum_{y_i > y_j} exp(x_j - x_i) = sum_i exp(-x_i) * sum_{j: y_j < y_i} exp(x_j),
and in the order of the labels the inner sum is a running sum up to the first item of i's label.
"""

import math

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax, softplus

from workbench.losses._arguments import (
    AnyNumbers,
    AnyShape,
    PairScores,
    Scalar,
    Scores,
    full_precision,
    require_pairs,
    tied_ranks,
)
from workbench.losses._listwise import clamp_masked, paired_lists


def _lower_sums(logits: Scores, labels: Shaped[Tensor, "n m"]) -> Scores:
    """Return log sum_{labels_b < labels_a} exp(logits_b - logits_a) of each item a.

    Items are sorted by rising label; the value is -inf if none is lower.
    """
    numbers = labels.detach() + 0  # booleans become numbers
    labels, order = numbers.sort(dim=1, stable=True)
    logits = clamp_masked(logits.gather(1, order))
    lower = torch.searchsorted(labels, labels)  # how many items have a strictly lower label
    last_lower = (lower - 1).clamp_min(0)
    running = logits.logcumsumexp(dim=1).gather(1, last_lower)
    return torch.where(lower > 0, running - logits, -math.inf)


# softplus(t) = log(1 + e^t) switches to t itself at the threshold, where float64 cannot tell them
# apart.
def _cosent_rows(logits: Scores, labels: Shaped[Tensor, "n m"]) -> PairScores:
    """Return log(1 + sum_{labels_a > labels_b} exp(logits_b - logits_a)) for each row."""
    return softplus(_lower_sums(logits, labels).logsumexp(dim=1), threshold=40.0)


@full_precision
def cosent(scores: PairScores, gold: AnyNumbers, *, scale: float = 20.0) -> Scalar:
    """Return log(1 + sum_{gold_a > gold_b} exp(lambda (scores_b - scores_a))): CoSENT eq. 10.

    Eq. 11 is the same for the scores of an interaction model. One scalar for the batch, no
    division. Pairs of equal gold are not compared; if all gold is equal, loss and gradient are
    exactly 0. Time O(n log n), memory O(n).

    `scores` [n] has one score per sentence pair (a cosine, or a cross-encoder's logit), larger is
    closer; `gold` [n] contains floats or integers on any scale: only the order counts; it gets no
    gradient. scale (lambda > 0) multiplies score differences: 20 in the paper, 1 in both codes'
    interaction models. The value is >= 0; smaller is better.
    """
    # One list: the row of all pairs of the batch.
    require_pairs(scores, gold)
    return _cosent_rows(scale * scores[None], gold[None]).squeeze(0)


@full_precision
def rank_kl(scores: PairScores, gold: AnyNumbers, *, temperature: float) -> Scalar:
    """Return KL(softmax(r / tau) || softmax(s / tau)) of the pairs of a batch (CoDiEmb, 2025).

    r is a pair's rank by gold, from 0 for the lowest to 1 for the highest; equal gold shares the
    mean of its ranks. So the order of gold becomes a distribution, whatever its scale is.

    `scores` [n] has one score per sentence pair, larger is closer; `gold` [n] gets no gradient.
    temperature is tau > 0, by which both are divided. The value is >= 0; one pair has loss 0.
    """
    require_pairs(scores, gold)
    ranks = tied_ranks(gold.detach() + 0).to(scores.dtype)  # booleans become numbers
    target = ranks / max(1, len(scores) - 1) / temperature
    log_p = log_softmax(target, dim=0)
    log_q = log_softmax(scores / temperature, dim=0)
    return kl_div(log_q, log_p, reduction="sum", log_target=True)


@full_precision
def cosent_lists(
    student: Scores,
    teacher: AnyShape,
    *,
    scale: float = 20.0,
    exclude_positive: bool = True,
) -> Scalar:
    """Return the mean over i of CoSENT inside anchor i's list.

    The list has the items j with scores S(i)_j and labels S^T(i)_j.

    CoSENT table III puts CoSENT in the place of RankCSE's ranking loss without giving a formula;
    this reading, lists as in RankCSE sec. 4.4 and positives out as in its footnote 1, is ours.

    S and S^T are [n, m]; the teacher receives no gradient. scale is lambda > 0 and multiplies.
    exclude_positive leaves column i out of row i's list and needs m >= n. The value is >= 0, and 0
    for lists that the teacher ties throughout.
    """
    student, teacher = paired_lists(student, teacher, exclude_positive)
    if student.shape[1] == 0:
        # One anchor without its positive: nothing to order, 0 with a gradient of 0.
        return student.sum()
    return _cosent_rows(scale * student, teacher).mean()


@full_precision
def graded_listmle(student: Scores, gold: AnyShape, *, temperature: float) -> Scalar:
    """Return the mean over lists i of ListMLE in which targets of equal gold do not compete.

    It is our extension to ties.

    It is sum_a log(1 + sum_{gold_b < gold_a} exp((S_b - S_a) / tau_2)): in RankCSE eq. 5 each
    target is drawn from itself and all that the order puts behind it, here from itself and all of
    lower gold. Without ties they are equal.

    S and gold are [n, m]; only the order of gold counts, and it gets no gradient. temperature is
    tau_2 > 0, by which scores are divided. Both are -inf for a target that is not there. The value
    is >= 0, and 0 if all gold is equal.
    """
    student, gold = paired_lists(student, gold)
    return softplus(_lower_sums(student / temperature, gold), threshold=40.0).sum(dim=1).mean()


@full_precision
def approx_ndcg(
    student: Scores,
    gold: AnyShape,
    *,
    temperature: float,
    gain: str = "exponential",
) -> Scalar:
    """Return the mean over lists i of 1 - ApproxNDCG (Qin, Liu and Li 2010).

    The rank of target j, 1 + the number of targets with a higher score, is replaced by 1 + sum_{k
    != j} sigmoid((S_k - S_j) / tau), and NDCG = sum_j gain_j / log2(1 + rank_j) divided by its
    largest possible value. The gain is 2^gold - 1 ("exponential", the paper's), or gold ("linear",
    that of the reported `metrics.ndcg`).

    S and gold are [n, m], gold >= 0 with a finite gain; gold gets no gradient. Both are -inf for a
    target that is not there. temperature is tau > 0 (the paper's 1 / alpha): the smaller, the
    closer the ranks are to whole numbers and the fewer pairs have a gradient. The value is in [0,
    1), up to rounding; a list whose gold is all 0 has loss 0."""
    student, gold = paired_lists(student, gold.detach())
    missing = gold == -math.inf
    relevance = gold.clamp_min(0).to(student.dtype)
    gains = {"exponential": torch.exp2(relevance) - 1, "linear": relevance}[gain]
    scores = student.masked_fill(missing, 0)
    # How far target k is ahead of target j, in (0, 1): [list, j, k].
    ahead = torch.sigmoid((scores[:, None] - scores[:, :, None]) / temperature)
    itself = torch.eye(gold.shape[1], dtype=torch.bool, device=gold.device)
    ahead = ahead.masked_fill(missing[:, None] | itself, 0)
    discounts = torch.log2(2 + ahead.sum(dim=2))
    dcg = (gains / discounts).sum(dim=1)
    ranks = torch.arange(gold.shape[1], device=gold.device, dtype=student.dtype)
    best_gains = gains.sort(dim=1, descending=True).values
    best_dcg = (best_gains / torch.log2(2 + ranks)).sum(dim=1)
    ndcg = dcg / best_dcg.clamp_min(torch.finfo(best_dcg.dtype).tiny)
    return torch.where(best_dcg > 0, 1 - ndcg, 0).mean()
