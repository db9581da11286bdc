"""Rank vectors: NumPy's argsort against torch's, ties included or not, and the closed form against both.

    python benchmarks/ranks.py [--sentences 64] [--width 384]

Prints a table of medians; ratios are comparable between machines, milliseconds are not. The corpus is
random and anisotropic.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

from workbench.ranks import (
    Corpus,
    corpus_covariance,
    gaussian_rank_similarity,
    rank_similarity,
    rank_vectors,
)


def milliseconds(call: Callable[[], object], repeats: int = 5) -> float:
    call()
    samples = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return 1000 * statistics.median(samples)


def ordinal_ranks_by_torch(scores: Tensor) -> Tensor:
    """What the published code does, batched: ranks without averaging of ties, then equation 3."""
    order = scores.argsort(dim=1)
    places = torch.arange(scores.shape[1], dtype=scores.dtype).expand_as(scores)
    centred = torch.empty_like(scores).scatter_(1, order, places) - (scores.shape[1] - 1) / 2
    return centred / centred.norm(dim=1, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--width", type=int, default=384)
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    centre = torch.randn(1, options.width, generator=generator)

    def embed(n: int) -> Tensor:
        return normalize(centre + torch.randn(n, options.width, generator=generator), dim=1)

    batch = embed(options.sentences)
    header = (
        f"{'corpus':>7} {'argsort torch':>14} {'numpy':>8} {'ratio':>6} {'ordinal, torch':>15} {'averaged, ours':>15}"
    )
    print(f"{header} {'lists':>7} {'exact, all':>11} {'closed form':>12} {'gap mean, max':>14}")
    for size in (10_000, 100_000):
        corpus = embed(size)
        scores = Corpus(corpus).lists(batch)
        by_torch = milliseconds(lambda s=scores: s.argsort(dim=1))
        by_numpy = milliseconds(lambda s=scores: s.numpy().argsort(axis=1))
        ordinal = milliseconds(lambda s=scores: ordinal_ranks_by_torch(s))
        averaged = milliseconds(lambda s=scores: rank_vectors(s))
        lists = milliseconds(lambda c=corpus: Corpus(c).lists(batch))
        exact = milliseconds(lambda c=corpus: rank_similarity(batch, batch, c))
        covariance = corpus_covariance(corpus)
        closed = milliseconds(lambda c=covariance: gaussian_rank_similarity(batch, batch, c))
        gap = (gaussian_rank_similarity(batch, batch, covariance) - rank_similarity(batch, batch, corpus)).abs()
        print(
            f"{size:7d} {by_torch:14.1f} {by_numpy:8.1f} {by_torch / by_numpy:6.1f} {ordinal:15.1f} {averaged:15.1f} "
            f"{lists:7.1f} {exact:11.1f} {closed:12.2f} {gap.mean():8.4f}, {gap.max():.3f}"
        )


if __name__ == "__main__":
    main()
