"""Train a detuned start in English, from which unsupervised methods can gain. It is not bundled and
not shipped.

    export WORKBENCH_DATA=DIR       # a data folder with the set "wiki" and STS-B dev
    python data/build/detuned.py OUT [--source FOLDER] [--steps 6000] [--keep 1500 3000]
        [--stop 3000] [--halves]

all-MiniLM-L6-v2, or another BERT that is tuned for sentences (--source), is trained back towards a
raw language model: masked language modelling of Wikipedia sentences of at most 24 tokens, with a
new head and dropout 0.1. OUT/<steps> is the last checkpoint; --keep names earlier steps to keep,
--stop ends the training early, on the same schedule. Prints Spearman x 100 on STS-B dev with mean
pooling and [CLS], and the agreement of the mean's cosines with those of the original model: the
tuning that is left is a confound of every gain from this start.

Masked words never use [CLS], so it keeps its tuning. With --halves [CLS] is also trained like
BERT's on two sentences: to predict whether two halves belong to one sentence; in half of the rows
the second half is from another sentence. Each half is truncated at half of those tokens."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pretraining import batches, load_tokenizer, mask_tokens, pad, train
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertForMaskedLM, PreTrainedTokenizerBase

from workbench import Encoder, load_pairs, load_sentences
from workbench.metrics import spearman

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from minilm import minilm

MAX_TOKENS, BATCH = 24, 32


def with_fresh_head(folder: Path) -> BertForMaskedLM:
    """Return the encoder of `folder` with a masked-language head whose dense layer starts as the
    identity."""
    rates: Any = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    model = BertForMaskedLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, **rates
    )
    dense = model.cls.predictions.transform.dense
    torch.nn.init.eye_(dense.weight)
    torch.nn.init.zeros_(dense.bias)
    return model


def split(sentence: str) -> tuple[str, str]:
    """Return the words before the middle and those after it."""
    words = sentence.split()
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


class Halves:
    """Predict from [CLS] whether two halves are of one sentence, through BERT's pooler and a linear
    layer."""

    def __init__(
        self, model: BertForMaskedLM, tokenizer: PreTrainedTokenizerBase, sentences: list[str]
    ) -> None:
        halves = [split(sentence) for sentence in sentences]
        self.first, self.second = (
            self._ids(tokenizer, list(side)) for side in zip(*halves, strict=True)
        )
        width = model.config.hidden_size
        self.head = torch.nn.Sequential(
            torch.nn.Linear(width, width),
            torch.nn.Tanh(),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(width, 2),
        )
        self.cls, self.sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        # Its weights are trained with the model's, and not saved with model.bert.
        model.halves = self.head

    @staticmethod
    def _ids(tokenizer: PreTrainedTokenizerBase, side: list[str]) -> list[list[int]]:
        return tokenizer(
            side, truncation=True, max_length=MAX_TOKENS // 2, add_special_tokens=False
        )["input_ids"]  # type: ignore[return-value]

    def draw(
        self, rows: list[int], generator: torch.Generator
    ) -> tuple[list[list[int]], Tensor, Tensor]:
        """Return token ids, token types, and 1 if the second half is from another sentence, for a
        batch."""
        strange = torch.rand(len(rows), generator=generator) < 0.5
        ids, types = [], []
        for index, row in enumerate(rows):
            first, second = self.first[row], self.second[rows[index - 1] if strange[index] else row]
            ids.append([self.cls, *first, self.sep, *second, self.sep])
            types.append([0] * (len(first) + 2) + [1] * (len(second) + 1))
        return ids, pad(types)[0], strange.long()


def cosines(folder: Path, pooling: str) -> np.ndarray:
    """Return the cosines of the pairs of STS-B dev."""
    dev, encoder = load_pairs("stsb-dev"), Encoder.from_pretrained(folder, pooling=pooling)
    return (encoder.encode(dev.sentence1) * encoder.encode(dev.sentence2)).sum(dim=1).numpy()


def report(folder: Path, source: Path) -> str:
    """Return one line: dev with both poolings, and agreement with the source."""
    gold = load_pairs("stsb-dev").gold
    mean = cosines(folder, "mean")
    dev = (
        f"mean {100 * spearman(gold, mean):.1f} [CLS] "
        f"{100 * spearman(gold, cosines(folder, 'cls')):.1f}"
    )
    return (
        f"{folder.name}: STS-B dev {dev}; agreement with the source "
        f"{100 * spearman(cosines(source, 'mean'), mean):.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--source", type=Path, help="folder of a BERT; default: all-MiniLM-L6-v2")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--stop", type=int, help="last step, if training ends before --steps")
    parser.add_argument("--keep", type=int, nargs="*", default=[])
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--mask-rate", type=float, default=0.15)
    parser.add_argument("--sentences", type=int, default=300_000)
    parser.add_argument("--halves", action="store_true", help="detune [CLS] too")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    last = options.stop or options.steps
    # The learning rate is 0 at --steps.
    if last > options.steps:
        parser.error(f"--stop {last} is after --steps {options.steps}")
    if any(step > last for step in options.keep):
        parser.error(f"--keep: the last step is {last}")
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    source = options.source or minilm()
    tokenizer, model = load_tokenizer(source), with_fresh_head(source)
    sentences = load_sentences("wiki", limit=options.sentences, seed=options.seed).sentences
    ids: list[list[int]] = tokenizer(sentences, truncation=True, max_length=MAX_TOKENS)["input_ids"]  # type: ignore[assignment]
    order = batches(ids, BATCH, generator)
    on_cpu = Encoder.from_pretrained(source, pooling="mean", device="cpu")
    fast = on_cpu.training_precision == "bf16"
    halves = Halves(model, tokenizer, sentences) if options.halves else None

    def keep(steps: int) -> None:
        folder = options.out / str(steps)
        model.bert.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        print(report(folder, source), flush=True)

    def loss_of_step(step: int) -> Tensor:
        if step in options.keep:
            keep(step)
        rows = next(order)
        drawn, types, strange = (
            halves.draw(rows, generator) if halves else ([ids[row] for row in rows], None, None)
        )
        tokens, attention = pad(drawn)
        hidden, labels = mask_tokens(tokens, tokenizer, options.mask_rate, generator)
        chosen = labels != -100
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=fast):
            states = model.bert(
                input_ids=hidden, attention_mask=attention, token_type_ids=types
            ).last_hidden_state
            loss = cross_entropy(model.cls(states[chosen]).float(), labels[chosen])
            if halves is None or strange is None:
                return loss
            return loss + cross_entropy(halves.head(states[:, 0]).float(), strange)

    rates = {"steps": options.steps, "learning_rate": options.learning_rate}
    train(model, loss_of_step, **rates, stop=last, name="masked words")
    keep(last)


if __name__ == "__main__":
    main()
