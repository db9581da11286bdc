"""Train the bundled teacher: a larger BERT of the same world, supervised by graded pairs.

    python data/build/teacher.py                     # with its frozen tokenizer
    python data/build/teacher.py --new-tokenizer     # and a new one, whose vocabulary differs a little

About twelve minutes on one core. It is trained by masked language modelling first, then on graded pairs: on their order (CoSENT), and
on request on their values, so that its cosines spread over the whole scale. The bundled teacher was
trained on the order only. The pairs are those of world-train and further pairs of other meanings
from the generator; no meaning of world-dev or world-test is among them."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from meaning import Frame, World
from pretraining import (
    bert_config,
    masked_language_model,
    pad,
    read_lines,
    save,
    tokenizer_for,
    train,
    train_tokenizer,
)
from torch import Tensor
from transformers import BertModel, PreTrainedTokenizerBase
from world import QUERIES, Pair, build_pairs

DATA = Path(__file__).resolve().parents[1]
SENTENCES = DATA / "world/world_sentences.tsv.gz"
FOLDER = DATA / "models/world-teacher"
PIECES = 1500

CARD = """\
---
language: en
license: mit
library_name: transformers
tags: [bert, sentence-similarity, toy]
---
# world-teacher

The teacher of the demonstrations: a BERT of 4 layers, 192 wide, 4 heads, with a vocabulary of its own ({pieces} word
pieces, not those of world-encoder). Trained for {masked_steps} steps to fill in hidden words of the world's unlabelled
lines, then for {order_steps} steps of {batch_size} graded pairs to put them in order (CoSENT on the cosine of the
[CLS] vectors){level}: the pairs of world-train and {queries} further queries of the generator, none of whose meanings occurs
in world-dev or world-test. Seed {seed}.

Made by `python data/build/teacher.py`. It knows the words of the bundled world and no other English.
"""


def graded_pairs(seed: int, queries: int) -> list[Pair]:
    """Return world-train and `queries` more queries with seven targets each; no meaning is in dev
    or test."""
    world, owner = World(seed), {}
    splits: dict[str, list[Pair]] = {
        split: build_pairs(world, owner, split, count) for split, count in QUERIES.items()
    }
    held_out: dict[Frame, str] = {
        frame: split for frame, split in owner.items() if split != "train"
    }
    return splits["train"] + build_pairs(world, held_out, "more", queries)


def cosent(cosines: Tensor, gold: Tensor, scale: float = 20.0) -> Tensor:
    """Return log(1 + sum exp(scale (cos_j - cos_i))) over the pairs i, j of the batch with gold_i >
    gold_j."""
    difference = scale * (cosines[None, :] - cosines[:, None])
    wrong_if_positive = difference[gold[:, None] > gold[None, :]]
    return torch.logsumexp(torch.cat([wrong_if_positive.new_zeros(1), wrong_if_positive]), dim=0)


def squared_error(cosines: Tensor, gold: Tensor) -> Tensor:
    """Return the mean of (cos - gold / 5) ** 2."""
    return torch.nn.functional.mse_loss(cosines, gold / 5)


def learn_gold(
    model: BertModel,
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[Pair],
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> None:
    """Train `model` so that the cosine of two [CLS] vectors agrees with the gold of a pair, by
    `loss`."""
    torch.manual_seed(seed)
    shuffled = list(pairs)
    random.Random(seed).shuffle(shuffled)

    def loss_of_step(step: int) -> Tensor:
        start = step * batch_size % (len(shuffled) - batch_size + 1)
        batch = shuffled[start : start + batch_size]
        texts = [p.sentence1 for p in batch] + [p.sentence2 for p in batch]
        tokens, attention = pad(tokenizer(texts)["input_ids"])  # type: ignore[arg-type]
        vectors = model(input_ids=tokens, attention_mask=attention).last_hidden_state[:, 0]
        cosines = torch.cosine_similarity(*vectors.chunk(2))
        return loss(cosines, torch.tensor([p.score for p in batch]))

    train(model, loss_of_step, steps=steps, learning_rate=learning_rate, name=loss.__name__)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--masked-steps", type=int, default=1200)
    parser.add_argument("--order-steps", type=int, default=1000)
    parser.add_argument("--level-steps", type=int, default=0, help="0, as bundled: order alone")
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument(
        "--new-tokenizer",
        action="store_true",
        help="train the tokenizer again instead of keeping it",
    )
    chosen = parser.parse_args()
    lines = read_lines(SENTENCES)
    if chosen.new_tokenizer:
        train_tokenizer(lines, chosen.out, pieces=PIECES)
    tokenizer = tokenizer_for(chosen.out, FOLDER, is_new=chosen.new_tokenizer)
    config = bert_config(tokenizer, layers=4, width=192, heads=4)
    model = masked_language_model(
        lines,
        tokenizer,
        config,
        steps=chosen.masked_steps,
        batch_size=128,
        learning_rate=1e-3,
        mask_rate=0.25,
        seed=chosen.seed,
    )
    pairs = graded_pairs(0, chosen.queries)
    for loss, steps, rate in (
        (cosent, chosen.order_steps, 3e-4),
        (squared_error, chosen.level_steps, 2e-4),
    ):
        options = {
            "steps": steps,
            "batch_size": chosen.batch_size,
            "learning_rate": rate,
            "seed": chosen.seed,
        }
        if steps:
            learn_gold(model, tokenizer, pairs, loss, **options)
    settings = {
        name: value for name, value in vars(chosen).items() if name not in ("out", "new_tokenizer")
    }
    of_level = f", then for {chosen.level_steps} steps to meet gold / 5 (mean squared error)"
    level = of_level if chosen.level_steps else ""
    save(model.eval(), chosen.out, CARD.format(pieces=len(tokenizer), level=level, **settings))


if __name__ == "__main__":
    main()
