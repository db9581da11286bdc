"""Compare the time of a training step of each method on one CPU thread, as ratios.

    python benchmarks/steps.py [--rounds 30] [--encoder world-encoder] [--train world] [--corpus
    10000] [--trainer]

A step includes collate, forward, backward, clipping and AdamW. All methods take turns within a
round on the same rows, so that other load on the machine affects all alike. Times are process
times; a ratio is the median over the rounds. Embeddings of teachers and of the base encoder E1 are
read from the cache. For comparison: an epoch of RankCSE takes 1.5 times one of SimCSE in the paper
(RankCSE table 11), because its teachers encode every batch again. `--trainer` also compares SimCSE
with sentence-transformers' trainer (MultipleNegativesRankingLoss on pairs of equal sentences)."""

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

from workbench import METHODS, fit
from workbench.config import CONFIGS
from workbench.data import Sentences, load_sentences

WAYS = {
    "simcse": ("simcse", {}),
    "compcse": ("compcse", {}),
    "rankcse listnet, 2 teachers": ("rankcse", {"ranking": "listnet"}),
    "rankcse listmle, 2 teachers": ("rankcse", {"ranking": "listmle"}),
    "rankcse without lists": ("rankcse", {"gamma": 0.0}),
    "rankencoder exact, in the step": ("rankencoder", {"similarity": "exact", "ranks": "step"}),
    "rankencoder exact, stored": ("rankencoder", {"similarity": "exact", "ranks": "stored"}),
    "rankencoder closed form": ("rankencoder", {"similarity": "gaussian"}),
}
TRAINED_ON = 2000


def settings_of(
    method: str, encoder: str, train: str, corpus: int, cache: str
) -> dict[str, object]:
    """Return settings that make the methods comparable, with embeddings cached in `cache`."""
    changes = {
        "rankcse": {"teachers": [encoder, "world-teacher"], "cache": cache},
        "rankencoder": {
            "base": encoder,
            "base_pooling": "cls",
            "corpus": train,
            "corpus_size": corpus,
            "cache": cache,
        },
    }
    return {
        "encoder": encoder,
        "device": "cpu",
        "precision": "fp32",
        "batch_size": 64,
        **changes.get(method, {}),
    }


def step_of(method: torch.nn.Module) -> Callable[[list[int]], None]:
    """Return a function that takes one training step on a list of rows."""
    optimizer = torch.optim.AdamW(method.parameters(), lr=1e-4, weight_decay=0.0, fused=True)

    def step(rows: list[int]) -> None:
        terms = method(method.collate(rows))
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(terms.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(method.parameters(), 1.0)
        optimizer.step()

    return step


def measure(steps: dict[str, Callable[[list[int]], None]], rounds: int) -> None:
    """Print the milliseconds of a SimCSE step and the ratio of each other step to it."""
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
    print(f"simcse: {1000 * statistics.median(times['simcse']):.1f} ms per step of 64 sentences")
    for way in list(steps)[1:]:
        ratios = sorted(
            mine / theirs for mine, theirs in zip(times[way], times["simcse"], strict=True)
        )
        low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
        print(
            f"  {way:31} x {statistics.median(ratios):.3f} (quartiles {low:.3f} to {high:.3f})",
            flush=True,
        )


def compare_with_trainer(encoder: str, data: Sentences, rounds: int, steps: int = 20) -> None:
    """Print the time of sentence-transformers' trainer divided by that of `fit`, for SimCSE."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    warnings.filterwarnings("ignore")
    # Neither side evaluates on dev or saves, so that only the steps are compared.
    options = settings_of("simcse", encoder, data.name, 0, "")
    options |= {"max_steps": steps, "save_steps": 10**6, "eval_steps": 10**6}
    config = CONFIGS["simcse"].from_parameters("demo", 0, options)
    pairs = Dataset.from_dict({"anchor": data.sentences, "positive": data.sentences})
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        METHODS["simcse"](config).encoder.save(f"{folder}/start")
        for _ in range(max(2, rounds // 10)):
            ours = METHODS["simcse"](config)
            model = SentenceTransformer(f"{folder}/start", device="cpu")
            arguments = SentenceTransformerTrainingArguments(
                output_dir=folder,
                max_steps=steps,
                per_device_train_batch_size=64,
                use_cpu=True,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            )
            loss = MultipleNegativesRankingLoss(model)
            trainer = SentenceTransformerTrainer(
                model=model, args=arguments, train_dataset=pairs, loss=loss
            )
            start = time.process_time()
            trainer.train()
            middle = time.process_time()
            fit(ours, data, quiet=True)
            ratios.append((middle - start) / (time.process_time() - middle))
    print(
        f"  sentence-transformers' trainer / fit: {statistics.median(ratios):.2f} "
        f"(lowest {min(ratios):.2f})"
    )


def main() -> None:
    """Print a line for each method and variant."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--encoder", default="world-encoder")
    parser.add_argument("--train", default="world")
    parser.add_argument("--corpus", type=int, default=10_000)
    parser.add_argument("--trainer", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = load_sentences(options.train, limit=TRAINED_ON, seed=0)
    print(
        f"{options.encoder}, {data.name}, corpus {options.corpus}; torch "
        f"{torch.__version__}, 1 thread, fp32"
    )
    with tempfile.TemporaryDirectory() as cache:
        steps = {}
        for way, (name, changes) in WAYS.items():
            shared = settings_of(name, options.encoder, options.train, options.corpus, cache)
            method = METHODS[name](CONFIGS[name].from_parameters("demo", 0, shared | changes))
            method.prepare(data)
            method.train()
            steps[way] = step_of(method)
        measure(steps, options.rounds)
    if options.trainer:
        compare_with_trainer(options.encoder, data, options.rounds)


if __name__ == "__main__":
    main()
