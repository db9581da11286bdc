"""Builds a start in real English from which the unsupervised methods have something to gain. Not bundled, not shipped.

    export WORKBENCH_DATA=DIR       # a data root with the set "wiki" and STS-B dev
    python data/build/washed.py OUT [--steps 6000] [--keep 1500 3000]

all-MiniLM-L6-v2, tuned for sentences, is trained back towards a raw language model: to fill in hidden words of
Wikipedia sentences of at most 24 tokens, with a fresh head. OUT/<steps> is the end, the numbers after --keep are kept
on the way. Prints Spearman x 100 on STS-B dev of the mean and of [CLS], and how far the cosines of its mean still agree
with those of the model that it was washed from: what is left of the tuning is a confound of every gain from this start.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from pretraining import batches, load_tokenizer, mask_tokens, pad, train
from torch import Tensor
from transformers import BertForMaskedLM

from workbench import Encoder, load_pairs, load_sentences
from workbench.metrics import spearman

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from minilm import minilm

MAX_TOKENS, BATCH = 24, 32


def with_fresh_head(folder: Path) -> BertForMaskedLM:
    """The encoder of `folder` under a masked-language head whose dense layer starts as the identity."""
    model = BertForMaskedLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    dense = model.cls.predictions.transform.dense
    torch.nn.init.eye_(dense.weight)
    torch.nn.init.zeros_(dense.bias)
    return model


def cosines(folder: Path, pooling: str) -> np.ndarray:
    """Of the pairs of STS-B dev."""
    dev, encoder = load_pairs("stsb-dev"), Encoder.from_pretrained(folder, pooling=pooling)
    return (encoder.encode(dev.sentence1) * encoder.encode(dev.sentence2)).sum(dim=1).numpy()


def report(folder: Path, source: Path) -> str:
    """One line: dev of both poolings, agreement with the source."""
    gold = load_pairs("stsb-dev").gold
    mean = cosines(folder, "mean")
    dev = f"mean {100 * spearman(gold, mean):.1f} [CLS] {100 * spearman(gold, cosines(folder, 'cls')):.1f}"
    return (
        f"{folder.name}: STS-B dev {dev}; agreement with the source {100 * spearman(cosines(source, 'mean'), mean):.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--keep", type=int, nargs="*", default=[])
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--mask-rate", type=float, default=0.15)
    parser.add_argument("--sentences", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    source = minilm()
    tokenizer, model = load_tokenizer(source), with_fresh_head(source)
    sentences = load_sentences("wiki", limit=options.sentences, seed=options.seed).sentences
    ids: list[list[int]] = tokenizer(sentences, truncation=True, max_length=MAX_TOKENS)["input_ids"]  # type: ignore[assignment]
    order = batches(ids, BATCH, generator)

    def keep(steps: int) -> None:
        folder = options.out / str(steps)
        model.bert.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        print(report(folder, source), flush=True)

    def loss_of_step(step: int) -> Tensor:
        if step in options.keep:
            keep(step)
        tokens, attention = pad([ids[row] for row in next(order)])
        hidden, labels = mask_tokens(tokens, tokenizer, options.mask_rate, generator)
        chosen = labels != -100
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = model.cls(model.bert(input_ids=hidden, attention_mask=attention).last_hidden_state[chosen])
        return torch.nn.functional.cross_entropy(scores.float(), labels[chosen])

    train(model, loss_of_step, steps=options.steps, learning_rate=options.learning_rate, name="masked words")
    keep(options.steps)


if __name__ == "__main__":
    main()
