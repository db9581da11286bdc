"""Compare rank similarity in closed form with exact ranks, for all-MiniLM-L6-v2.

    WORKBENCH_DATA=<folder> python benchmarks/closed_form.py [--corpus 10000] [--suites sts12-test ... sick-test]

Without WORKBENCH_DATA or the package with MiniLM's files it uses the bundled world and its encoder. The corpus consists
of training sentences (Wikipedia or the world). Prints the absolute difference between the two similarities, and the
Spearman with gold (x 100) of the cosine, of exact ranks and of the closed form, on all pairs and on the similar third,
for each suite and on average.
"""

import argparse
import functools

import numpy as np
import torch
from minilm import minilm

from workbench.data import load_pairs, load_sentences
from workbench.encoder import Encoder
from workbench.errors import DataError
from workbench.methods.rank_mixture import RankMixture
from workbench.metrics import similar_third, spearman


def setting(size: int, suites: list[str]) -> tuple[Encoder, list[str], list[str]]:
    """Return encoder, corpus and suites: the real ones if available, otherwise the world."""
    try:
        load_pairs(suites[0])
        corpus = load_sentences("wiki", limit=size, seed=0).sentences
        return Encoder.from_pretrained(minilm(), device="cpu"), corpus, suites
    except (DataError, SystemExit) as missing:
        print(f"Using the bundled world instead of real sentences: {missing}")
    corpus = load_sentences("world", limit=size, seed=0).sentences
    return Encoder.from_pretrained("world-encoder", pooling="cls", device="cpu"), corpus, ["world-dev"]


def main() -> None:
    """Print the scores of each suite and their average."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=int, default=10_000)
    seven = [*(f"sts{year}-test" for year in range(12, 17)), "stsb-test", "sick-test"]
    parser.add_argument("--suites", nargs="+", default=seven)
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder, corpus, suites = setting(options.corpus, options.suites)
    corpus = list(dict.fromkeys(corpus))
    print(f"{encoder.source}, {len(corpus)} corpus sentences", flush=True)

    @functools.cache  # both similarities use the same corpus and pairs
    def embedded(sentences: tuple[str, ...]) -> torch.Tensor:
        return encoder.encode(list(sentences))

    def embed(sentences: list[str], batch_size: int) -> torch.Tensor:
        return embedded(tuple(sentences))

    ways = {how: RankMixture(embed, corpus, weight=1.0, similarity=how) for how in ("exact", "gaussian")}
    table: dict[str, list[tuple[float, float]]] = {}
    for suite in suites:
        pairs = load_pairs(suite)
        cosine, exact = ways["exact"].parts(pairs.sentence1, pairs.sentence2)
        closed = ways["gaussian"].score(pairs.sentence1, pairs.sentence2)
        gap = np.abs(closed - exact)
        similar = similar_third(pairs.gold, pairs.score_range)
        print(f"{suite}: difference mean {gap.mean():.4f}, 99% {np.quantile(gap, 0.99):.4f}, largest {gap.max():.4f}")
        for name, scores in {"cosine": cosine, "exact ranks": exact, "closed form": closed}.items():
            everywhere, close = spearman(pairs.gold, scores), spearman(pairs.gold[similar], scores[similar])
            print(f"  {name:12} {100 * everywhere:.2f}, similar third {100 * close:.2f}", flush=True)
            table.setdefault(name, []).append((everywhere, close))
    print(f"average of {len(suites)} suites")
    for name, values in table.items():
        everywhere, close = 100 * np.mean(values, axis=0)
        print(f"  {name:12} {everywhere:.2f}, similar third {close:.2f}")


if __name__ == "__main__":
    main()
