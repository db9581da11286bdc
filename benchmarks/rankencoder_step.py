"""A RankEncoder step against a SimCSE step, and its similarity at test against plain encoding, on one CPU thread.

    python benchmarks/rankencoder_step.py [--encoder world-encoder] [--train world] [--rounds 40] [--corpus 10000]

A step is what training does: collate, forward, backward, AdamW, with E1's embeddings cached. All ways take turns within
a round on the same rows, so that whatever else the machine does meets all alike; times are of the process, a ratio is
the median over the rounds. "stored" moves the ranking in front of the training; what that takes is printed too. Aim:
at most 1.15 with exact ranks of 10,000 corpus sentences and 1.05 with the closed form; the paper's whole training took
three times SimCSE's. The second table is of test: a corpus of random unit vectors, for only its size counts.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch

from workbench.config import RankEncoderConfig, SimCSEConfig
from workbench.data import Sentences, load_sentences
from workbench.encoder import Encoder
from workbench.methods.protocol import Method
from workbench.methods.rankencoder import RankEncoder, RankMixture
from workbench.methods.simcse import SimCSE
from workbench.ranks import Corpus

WAYS = {
    "exact, ranked in the step": ({"similarity": "exact", "ranks": "step"}, 1.15),
    "exact, stored ranks": ({"similarity": "exact", "ranks": "stored"}, 1.15),
    "closed form": ({"similarity": "gaussian"}, 1.05),
}
TRAINED_ON = 2000


def methods_of(encoder: str, data: Sentences, corpus: str, size: int, cache: str) -> dict[str, Method]:
    """SimCSE and each way of RankEncoder, prepared; prints what preparing took once the embeddings were cached."""
    shared = {"encoder": encoder, "device": "cpu", "precision": "fp32", "batch_size": 64}
    own = {"base": encoder, "base_pooling": "cls", "corpus": corpus, "corpus_size": size, "cache": cache}
    found: dict[str, Method] = {"simcse": SimCSE(SimCSEConfig.from_parameters("demo", 0, shared))}
    for name, (way, _) in WAYS.items():
        found[name] = RankEncoder(RankEncoderConfig.from_parameters("demo", 0, {**shared, **own, **way}))
    for name, method in found.items():
        method.prepare(data)
        start = time.process_time()
        method.prepare(data)
        print(f"  prepared {name}: {time.process_time() - start:.1f} s for {len(data)} sentences", flush=True)
        method.train()
    return found


def step_of(method: Method) -> Callable[[list[int]], None]:
    """One training step on the rows given."""
    optimizer = torch.optim.AdamW(method.parameters(), lr=1e-4, weight_decay=0.0, fused=True)

    def step(rows: list[int]) -> None:
        terms = method(method.collate(rows))
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(terms.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(method.parameters(), 1.0)
        optimizer.step()

    return step


def measure_steps(methods: dict[str, Method], rounds: int) -> None:
    """Prints the milliseconds of each way and its ratio to SimCSE."""
    steps = {way: step_of(method) for way, method in methods.items()}
    times: dict[str, list[float]] = {way: [] for way in steps}
    draw = np.random.default_rng(1)
    for number in range(rounds + 2):
        rows = draw.choice(TRAINED_ON, size=64, replace=False).tolist()
        order = list(steps)[number % len(steps) :] + list(steps)[: number % len(steps)]
        for way in order:
            start = time.process_time()
            steps[way](rows)
            if number > 1:  # the first rounds warm up
                times[way].append(time.process_time() - start)
    print(f"  SimCSE {1000 * statistics.median(times['simcse']):.1f} ms a step of 64 sentences")
    for way, (_, aim) in WAYS.items():
        ratios = sorted(mine / theirs for mine, theirs in zip(times[way], times["simcse"], strict=True))
        middle, low, high = statistics.median(ratios), ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
        verdict = "within" if middle <= aim else "ABOVE"
        print(f"  {way:26} x {middle:.3f} (quartiles {low:.3f} to {high:.3f}), {verdict} {aim}", flush=True)


def measure_test(encoder: Encoder, sentences: list[str], rounds: int) -> None:
    """Prints encoding with the mixture against plain encoding."""
    draw = np.random.default_rng(0)
    for size in (10_000, 100_000):
        rows = draw.standard_normal((size, encoder.width)).astype(np.float32)
        corpus = Corpus(torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True)))
        ways: dict[str, Callable[[], object]] = {"plain": lambda: encoder.encode(sentences)}
        for similarity in ("exact", "gaussian"):
            mixture = RankMixture(encoder.encode, sentences[:2], weight=0.1, similarity=similarity)  # type: ignore[arg-type]
            mixture.corpus = corpus
            ways[f"mixture, {similarity}"] = lambda m=mixture: m.encode(sentences)
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, work in ways.items():
                start = time.process_time()
                work()
                times[way].append(time.process_time() - start)
        plain = 1000 * statistics.median(times["plain"]) / len(sentences)
        print(f"  corpus {size}: plain {plain:.2f} ms a sentence", end="")
        for way in list(ways)[1:]:
            ratio = statistics.median(a / b for a, b in zip(times[way], times["plain"], strict=True))
            print(f"; {way} x {ratio:.2f}", end="")
        print(flush=True)


def main() -> None:
    """Prints the steps, then the similarity at test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="world-encoder")
    parser.add_argument("--train", default="world")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--corpus", type=int, default=10_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load_sentences(options.train, limit=TRAINED_ON, seed=0)
    print(f"{options.encoder}, {data.name}, corpus {options.corpus}; torch {torch.__version__}, 1 thread, fp32")
    with tempfile.TemporaryDirectory() as cache:
        measure_steps(methods_of(options.encoder, data, options.train, options.corpus, cache), options.rounds)
    encoder = Encoder.from_pretrained(options.encoder, pooling="cls", device="cpu", precision="fp32")
    measure_test(encoder, data.sentences[:256], max(3, options.rounds // 8))


if __name__ == "__main__":
    main()
