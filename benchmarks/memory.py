"""Resident, peak and used memory of a training on a CPU, and its processor time per step.

    python benchmarks/memory.py [--methods simcse rankcse ...] [--steps 60] [--encoder NAME]
                                [--train NAME] [--length 32] [--trainer]

Each row is a process of its own: every method with and without `HeapTrimmer`, and with --trainer
sentence-transformers' trainer (MultipleNegativesRankingLoss on pairs of equal sentences). "in use"
is what glibc has handed out between two steps; activations come on top within a step.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

METHODS = ("simcse", "rankcse", "compcse", "cosent", "rankencoder", "mixed", "lists")
MARKS = (10, 30, 60, 100, 200, 400)
GB = 1e9


# glibc's struct mallinfo2
_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd")
_FIELDS += ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def memory() -> dict[str, float]:
    """Return resident and peak memory of this process, and what glibc has handed out, in GB."""
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    info = mallinfo()
    resident, peak = (1024 * int(status[name].split()[0]) / GB for name in ("VmRSS", "VmHWM"))
    return {"resident": resident, "peak": peak, "in use": (info.uordblks + info.hblkhd) / GB}


class Meter:
    """Print the memory at some steps and the processor time per step since the first."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.started = 0.0

    def __call__(self, step: int) -> None:
        if step == 0:
            self.started = time.process_time()
        if step in MARKS:
            numbers = "  ".join(f"{name} {value:.2f} GB" for name, value in memory().items())
            per_step = 1000 * (time.process_time() - self.started) / step
            print(
                f"{self.title:28} step {step:4}  {numbers}  {per_step:6.0f} ms per step", flush=True
            )


def train(method: str, options: argparse.Namespace) -> None:
    """Train one method in this process."""
    import torch

    from workbench import METHODS as CLASSES, fit, load_training
    from workbench.config import CONFIGS
    from workbench.training._memory import HeapTrimmer

    torch.set_num_threads(1)
    title = method if options.trims else f"{method}, heap kept"
    meter = Meter(title)
    after_step = HeapTrimmer.after_step
    count = 0

    def counted(trimmer: Any) -> None:
        nonlocal count
        if options.trims:
            after_step(trimmer)
        count += 1
        meter(count)

    HeapTrimmer.after_step = counted
    changes = {"max_steps": options.steps, "device": "cpu", "batch_size": options.batch_size}
    if options.encoder:
        changes["encoder"] = options.encoder
        changes["pooling"] = "mean"
    if options.train:
        changes["train"] = options.train
    changes["max_seq_length"] = options.length
    if method == "rankencoder":  # its base would be a run of SimCSE
        changes |= {"base": options.encoder or "world-encoder", "base_pooling": "cls"}
    config = CONFIGS[method].from_parameters("demo", 0, changes)
    trained = CLASSES[method](config)
    data = load_training(config)
    meter(0)
    fit(trained, data, None, quiet=True)


def train_sentence_transformer(options: argparse.Namespace) -> None:
    """Train by sentence-transformers' trainer in this process."""
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.training_args import (
        SentenceTransformerTrainingArguments,
    )
    from transformers import TrainerCallback

    from workbench.checkpoints import find_checkpoint
    from workbench.data import load_sentences

    torch.set_num_threads(1)
    meter = Meter("sentence-transformers")

    class Callback(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            meter(state.global_step)

    folder = find_checkpoint(options.encoder or "world-encoder").root
    dtype = {"dtype": torch.float32}
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs=dtype)
    model.max_seq_length = options.length
    sentences = load_sentences(options.train or "world").sentences
    with tempfile.TemporaryDirectory() as output:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=output,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch_size,
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
            logging_strategy="no",
        )
        trainer = SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict({"anchor": sentences, "positive": sentences}),
            loss=MultipleNegativesRankingLoss(model, scale=20.0),
            callbacks=[Callback()],
        )
        meter(0)
        trainer.train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--methods", nargs="*", default=METHODS, choices=METHODS)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=32, help="tokens")
    parser.add_argument("--encoder", default="")
    parser.add_argument("--train", default="")
    parser.add_argument("--trainer", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--trims", type=json.loads, default=True, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.steps < MARKS[0]:
        parser.error(f"--steps: the first line is of step {MARKS[0]}")
    if options.one == "sentence-transformers":
        train_sentence_transformer(options)
        return
    if options.one:
        train(options.one, options)
        return
    for method in options.methods:
        for trims in ("true", "false"):
            subprocess.run(
                [sys.executable, *sys.argv, "--one", method, "--trims", trims], check=True
            )
    if options.trainer:
        subprocess.run([sys.executable, *sys.argv, "--one", "sentence-transformers"], check=True)


if __name__ == "__main__":
    main()
