"""CoSENT, every pair of pairs against the sorted form: time of value and gradient, and how far apart they are.

    python benchmarks/cosent.py [--largest 4000]

Prints a table; ratios are comparable between machines, milliseconds are not.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from workbench.losses import cosent

SIZES = (64, 256, 1_000, 4_000, 16_000, 65_536)


def cosent_by_matrix(scores: Tensor, gold: Tensor, *, scale: float = 20.0) -> Tensor:
    """CoSENT eq. 10 as it is printed: an n x n matrix of differences."""
    differences = scale * (scores[None, :] - scores[:, None])
    differences = differences.masked_fill(gold[:, None] <= gold[None, :], -torch.inf).flatten()
    return torch.cat([scores.new_zeros(1), differences]).logsumexp(dim=0)


def milliseconds(call: Callable[[], object], repeats: int = 7) -> float:
    call()
    samples = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return 1000 * statistics.median(samples)


def value_and_gradient(loss: Callable[..., Tensor], scores: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
    scores = scores.clone().requires_grad_()
    value = loss(scores, gold)
    return value.detach(), torch.autograd.grad(value, scores)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=4_000, help="largest batch for the matrix (16,000 needs 4 GB)")
    largest = parser.parse_args().largest
    generator = torch.Generator().manual_seed(0)
    print(f"{'pairs':>7} {'matrix ms':>10} {'sorted ms':>10} {'ratio':>7}   difference of loss, gradient (float32)")
    for n in SIZES:
        scores = torch.rand(n, generator=generator) * 2 - 1
        gold = torch.randint(0, 26, (n,), generator=generator) / 5
        fast = milliseconds(lambda s=scores, g=gold: value_and_gradient(cosent, s, g))
        if n > largest:
            print(f"{n:7d} {'-':>10} {fast:10.2f} {'-':>7}")
            continue
        slow = milliseconds(lambda s=scores, g=gold: value_and_gradient(cosent_by_matrix, s, g))
        by_sort = value_and_gradient(cosent, scores, gold)
        by_matrix = value_and_gradient(cosent_by_matrix, scores, gold)
        gap = [float((a - b).abs().max()) for a, b in zip(by_sort, by_matrix, strict=True)]
        print(f"{n:7d} {slow:10.2f} {fast:10.2f} {slow / fast:7.1f}   {gap[0]:.1e}, {gap[1]:.1e}")


if __name__ == "__main__":
    main()
