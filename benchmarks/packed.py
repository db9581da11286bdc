"""Whether a start that has read pairs helps the interaction model: the control of its poor showing on the world.

    python benchmarks/packed.py [--runs runs] [--seeds 3] [--steps 1500]

world-encoder goes on as BERT was trained: packs "a [SEP] b" of the world's unlabelled sentences, hidden words to guess,
and whether b is one of the five nearest to a by tf-idf or any sentence (half of the packs each). No gold is read. Then
the interaction model learns from either start in the demo settings; Spearman x 100, dev chooses the checkpoint. The
start and the runs are kept under --runs and used again.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from methods import finished
from sklearn.feature_extraction.text import TfidfVectorizer
from transformers import AutoTokenizer, BertForPreTraining

from workbench.config import CONFIGS
from workbench.data import load_sentences
from workbench.metrics import seed_spread

PROJECT = Path(__file__).resolve().parent.parent
WORLD = PROJECT / "data" / "models" / "world-encoder"
SIZE, NEAREST, SEED = 64, 5, 0
ROWS: dict[str, dict[str, Any]] = {
    "CoSENT, lambda 20 as printed": {},
    "CoSENT, lambda 1 as coded": {"interaction_scale": "code"},
    "cross-entropy": {"objective": "cross_entropy"},
}


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    packed = options.runs / "made" / f"packed-{options.steps}"
    if not packed.is_dir():
        pretrain(packed, options.steps)
    print("| interaction | start | seeds | dev | test |\n|---|---|---|---|---|")
    for label, settings in ROWS.items():
        for start, encoder in (("world-encoder", "world-encoder"), ("packed pairs", str(packed))):
            given = settings | {"model": "interaction", "encoder": encoder}
            runs = [
                finished(CONFIGS["cosent"].from_parameters("demo", seed, given), options.runs)
                for seed in range(options.seeds)
            ]
            dev = seed_spread([100 * run.history()["dev_spearman"].iloc[1:].max() for run in runs])
            test = seed_spread([100 * run.metrics()["world-test"]["spearman"] for run in runs])
            print(f"| {label} | {start} | {options.seeds} | {dev} | {test} |", flush=True)


def pretrain(folder: Path, steps: int) -> None:
    """Writes the start that has read packs, with the loss at its beginning and end on the standard error."""
    sys.path.insert(0, str(PROJECT / "data" / "build"))
    from pretraining import mask_tokens, train  # pyright: ignore[reportMissingImports]

    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    tokenizer: Any = AutoTokenizer.from_pretrained(WORLD)
    model = BertForPreTraining.from_pretrained(WORLD, dtype=torch.float32)
    packs = draw_packs(load_sentences("world").sentences)

    def loss_of_step(_: int) -> torch.Tensor:
        first, second, near = next(packs)
        rows = tokenizer(first, second, padding=True, truncation=True, return_tensors="pt")
        hidden, labels = mask_tokens(rows["input_ids"], tokenizer, 0.25, generator)
        rows["input_ids"] = hidden
        return model(**rows, labels=labels, next_sentence_label=torch.from_numpy(~near).long()).loss  # 0: near

    train(model, loss_of_step, steps=steps, learning_rate=1e-3, name="packed pairs")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def draw_packs(sentences: list[str]) -> Iterator[tuple[list[str], list[str], np.ndarray]]:
    """Batches of first sentences, second ones, and whether the second was drawn among the nearest of the first."""
    draw = np.random.default_rng(SEED)
    vectors = TfidfVectorizer().fit_transform(sentences)
    while True:
        first = draw.choice(len(sentences), SIZE, replace=False)
        closeness = (vectors[first] @ vectors.T).toarray()
        closeness[np.arange(SIZE), first] = -1  # not itself
        nearest = np.argpartition(-closeness, NEAREST, axis=1)[:, :NEAREST]
        near = draw.random(SIZE) < 0.5
        second = np.where(
            near, nearest[np.arange(SIZE), draw.integers(NEAREST, size=SIZE)], draw.choice(len(sentences), SIZE)
        )
        yield [sentences[row] for row in first], [sentences[row] for row in second], near


if __name__ == "__main__":
    main()
