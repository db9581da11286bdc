"""Train the bundled starting encoder: a tiny BERT, trained only by masked language modelling on the
world's lines.

    python data/build/encoder.py                     # with its frozen tokenizer
    python data/build/encoder.py --new-tokenizer     # and a new one, whose vocabulary differs a little

About six minutes on one core."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretraining import (
    bert_config,
    masked_language_model,
    read_lines,
    save,
    tokenizer_for,
    train_tokenizer,
)

DATA = Path(__file__).resolve().parents[1]
SENTENCES = DATA / "world/world_sentences.tsv.gz"
FOLDER = DATA / "models/world-encoder"
PIECES = 2000

CARD = """\
---
language: en
license: mit
library_name: transformers
tags: [bert, fill-mask, toy]
---
# world-encoder

The starting point of the demonstrations: a BERT of 2 layers, 128 wide, 2 heads, {pieces} word pieces, trained for
{steps} steps of {batch_size} lines to fill in hidden words of the world's 30,000 unlabelled lines
(mask rate {mask_rate}, learning rate {learning_rate}, seed {seed}). It saw no graded pair. Its [CLS] vector, which is
what the demonstrations read, was never trained for anything: it is a poor sentence embedding on purpose.

Made by `python data/build/encoder.py`. It knows the words of the bundled world and no other English.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=Path, default=SENTENCES)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--mask-rate", type=float, default=0.25)
    parser.add_argument(
        "--new-tokenizer",
        action="store_true",
        help="train the tokenizer again instead of keeping it",
    )
    arguments = parser.parse_args()
    lines = read_lines(arguments.sentences)
    if arguments.new_tokenizer:
        train_tokenizer(lines, arguments.out, pieces=PIECES)
    tokenizer = tokenizer_for(arguments.out, FOLDER, is_new=arguments.new_tokenizer)
    settings = {
        name: getattr(arguments, name)
        for name in ("steps", "batch_size", "learning_rate", "mask_rate", "seed")
    }
    config = bert_config(tokenizer, layers=2, width=128, heads=2)
    model = masked_language_model(lines, tokenizer, config, **settings)
    save(model, arguments.out, CARD.format(pieces=len(tokenizer), **settings))


if __name__ == "__main__":
    main()
