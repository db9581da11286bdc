"""A RankCSE step with cached teachers against a SimCSE step, on one CPU thread.

    python benchmarks/rankcse_step.py [--rounds 40]

A step is what training does: collate, forward, backward, AdamW. All ways take turns within a round on the same rows, so
that whatever else the machine does meets all alike; times are of the process, a ratio is the median over the rounds.
Teachers are as wide as the paper's (768 and 1,024); what a step costs depends on their width, not on their values.
The aim: at most 1.15; the paper's own epochs take 1.5 times SimCSE's (RankCSE table 11), because there the teachers
read every batch anew.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import BertConfig, BertModel

from workbench.config import RankCSEConfig, SimCSEConfig
from workbench.data import Sentences, load_sentences
from workbench.methods.protocol import Method
from workbench.methods.rankcse import RankCSE
from workbench.methods.simcse import SimCSE

AIM = 1.15
WIDTHS = (768, 1024)
WAYS = {
    "listnet, 2 teachers": {"ranking": "listnet"},
    "listmle, 2 teachers": {"ranking": "listmle"},
    "cosent, 2 teachers": {"ranking": "cosent"},
    "listnet, 1 teacher": {"ranking": "listnet", "teachers": ["world-encoder"]},
    "no ranking": {"gamma": 0.0},
}


def long_sentences(count: int) -> Sentences:
    """World sentences put together until they fill the 32 tokens at which training cuts, as Wikipedia's mostly do."""
    found = load_sentences("world", limit=8 * count, seed=0).sentences
    return Sentences("long", [" ".join(found[start::count]) for start in range(count)], "made here", "0")


def methods_of(batch_size: int, data: Sentences, shape: tuple[int, int, int] | None) -> dict[str, Method]:
    """SimCSE and each way of RankCSE, ready to train; `shape`: layers, width, heads of a random BERT instead."""
    two = {"teachers": ["world-encoder", "world-teacher"]}
    settings = {"device": "cpu", "precision": "fp32", "batch_size": batch_size}
    found: dict[str, Method] = {"simcse": SimCSE(SimCSEConfig.from_parameters("demo", 0, settings))}
    for name, way in WAYS.items():
        config = RankCSEConfig.from_parameters("demo", 0, settings | two | way)
        method = RankCSE(config.model_copy(update={"gamma": 0.0}))  # prepared without its teachers, who follow below
        found[name] = method
    for name, method in found.items():
        if shape is not None:
            enlarge(method, *shape)
        method.prepare(data)
        if isinstance(method, RankCSE):
            method.config = RankCSEConfig.from_parameters("demo", 0, settings | two | WAYS[name])
            draw = np.random.default_rng(0)
            count = len(method.config.teachers) if method.config.gamma else 0
            method.teachers = [draw.standard_normal((len(data), width)).astype(np.float16) for width in WIDTHS[:count]]
        method.train()
    return found


def enlarge(method: Method, layers: int, width: int, heads: int) -> None:
    """Puts a randomly initialised BERT of this shape into the method, under the same tokenizer."""
    old = method.encoder.backbone.config
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    config = BertConfig(vocab_size=old.vocab_size, intermediate_size=4 * width, **sizes)
    config._attn_implementation = old._attn_implementation
    torch.manual_seed(0)
    fresh = type(method.encoder)(BertModel(config, add_pooling_layer=False), method.encoder.tokenizer)
    method.encoder = fresh
    head = getattr(method, "head", None)
    if head is not None:
        method.head = type(head)(width)


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


def measure(name: str, methods: dict[str, Method], batch_size: int, rounds: int) -> None:
    """Prints the milliseconds of each way and its ratio to SimCSE."""
    steps = {way: step_of(method) for way, method in methods.items()}
    times: dict[str, list[float]] = {way: [] for way in steps}
    draw = np.random.default_rng(1)
    for number in range(rounds + 2):
        rows = draw.choice(2000, size=batch_size, replace=False).tolist()
        order = list(steps)[number % len(steps) :] + list(steps)[: number % len(steps)]
        for way in order:
            start = time.process_time()
            steps[way](rows)
            if number > 1:  # the first rounds warm up
                times[way].append(time.process_time() - start)
    base = statistics.median(times["simcse"])
    print(f"{name}: SimCSE {1000 * base:.1f} ms")
    for way in WAYS:
        ratios = sorted(mine / theirs for mine, theirs in zip(times[way], times["simcse"], strict=True))
        middle, low, high = statistics.median(ratios), ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
        verdict = "within" if middle <= AIM else "ABOVE"
        print(f"  {way:20} x {middle:.3f} (quartiles {low:.3f} to {high:.3f}), {verdict} {AIM}")


def main() -> None:
    """Prints one block a setting: the demo's own, the paper's batch, and a larger encoder on sentences of 32 tokens."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread, fp32, cached teachers of {' and '.join(map(str, WIDTHS))} numbers")
    world, long = load_sentences("world", limit=2000, seed=0), long_sentences(2000)
    settings = {
        "2 x 128, batch 64, world": (64, world, None),
        "2 x 128, batch 128, 32 tokens": (128, long, None),
        "4 x 256, batch 128, 32 tokens": (128, long, (4, 256, 4)),
    }
    for name, (batch_size, data, shape) in settings.items():
        measure(name, methods_of(batch_size, data, shape), batch_size, rounds)


if __name__ == "__main__":
    main()
