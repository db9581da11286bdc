"""Print RankEncoder's table 2 and its test: what rank vectors of an encoder know before a training.

    python experiments/rank_premise.py ENCODER ... [--pooling mean] [--corpus world]
    [--pairs world-dev ...] [--corpus-size 10000]

ENCODER is a bundled name, a folder, a run's folder, or a hub id. One row for each encoder and set
of pairs, embeddings first, rank vectors (eq. 2) second: uniformity of 1,000 sentences, alignment
of the pairs above four fifths of the gold scale, and Spearman x 100 on all pairs. Real sets need
WORKBENCH_DATA, the folder with the local data: --corpus wiki --pairs stsb-dev."""

import argparse
from collections.abc import Callable

import torch

from workbench import Encoder, RankMixture, load_pairs, load_sentences, rank_premise
from workbench.data import Pairs
from workbench.metrics import alignment

SENTENCES = 1_000  # whose uniformity is measured


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoders", nargs="+")
    parser.add_argument("--pooling", nargs="*", default=[None], help="default: the encoder's own")
    parser.add_argument("--corpus", default="world", help="a set of sentences, or a file")
    parser.add_argument("--pairs", nargs="+", default=["world-dev"])
    parser.add_argument("--corpus-size", type=int, default=10_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    # Copies of a sentence add nothing to a corpus: more are read than are needed.
    sentences = load_sentences(options.corpus, limit=2 * options.corpus_size).sentences
    corpus = list(dict.fromkeys(sentences))[: options.corpus_size]
    print("| encoder | pairs | uniformity | alignment | Spearman | eq. 2 against the cosine |")
    print("|---|---|---|---|---|---|")
    for name in options.encoders:
        for pooling in options.pooling:
            encoder = Encoder.from_pretrained(name, pooling=pooling)
            label = name if pooling is None else f"{name}, {pooling}"
            for pairs in map(load_pairs, options.pairs):
                print(f"| {label} | {pairs.name} | {cells(encoder, corpus, pairs)} |", flush=True)


def cells(encoder: Encoder, corpus: list[str], pairs: Pairs) -> str:
    """Return the cells of one encoder and set of pairs."""
    table = rank_premise(encoder.encode, corpus, corpus[:SENTENCES], pairs)
    by_cosine, by_ranks = table.loc[f"Spearman x 100, {pairs.name}"]
    uniformity = " and ".join(f"{value:.2f}" for value in table.loc["uniformity"])
    mixture = RankMixture(encoder.encode, corpus, weight=1.0)
    aligned = " and ".join(
        f"{alignment_of(embed, pairs):.2f}" for embed in (encoder.encode, mixture.encode)
    )
    spearman = f"{by_cosine:.1f} and {by_ranks:.1f}"
    return f"{uniformity} | {aligned} | {spearman} | {by_ranks - by_cosine:+.1f}"


def alignment_of(embed: Callable[..., torch.Tensor], pairs: Pairs) -> float:
    """Return the alignment of the pairs above four fifths of the gold scale."""
    low, high = pairs.score_range
    close = [row for row, gold in enumerate(pairs.gold) if gold > low + 0.8 * (high - low)]
    sides = ([side[row] for row in close] for side in (pairs.sentence1, pairs.sentence2))
    first, second = (embed(side).numpy() for side in sides)
    return alignment(first, second)


if __name__ == "__main__":
    main()
