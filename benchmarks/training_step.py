"""Forward and backward of a BERT in training mode on one CPU thread: transformers as it is, and as an Encoder runs it.

    python benchmarks/training_step.py

The ways run in turn, so that whatever else the machine does meets all alike; times are of the process, ratios are
medians over the rounds. "cheap": dropout masks from 16 random bits an element. "encoder": that,
and no computing on padding.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers
from minilm import find_minilm
from transformers import BertConfig, BertModel

from workbench.data import load_sentences
from workbench.encoder import Encoder, fast_dropout
from workbench.errors import DataError

SHAPES = {"2 x 128": (2, 128, 2), "4 x 256": (4, 256, 4)}
ROWS, TOKENS, ROUNDS = 128, 32, 12


def batches(encoders: dict[str, Encoder]) -> dict[str, dict[str, torch.Tensor]]:
    """Batches of two views of 64 sentences: without padding, and of each corpus with the tokenizer that fits it."""
    full = torch.randint(5, 1000, (ROWS, TOKENS))
    found = {"all 32 tokens": {"input_ids": full, "attention_mask": torch.ones_like(full)}}
    for name, encoder in encoders.items():
        try:
            lines = load_sentences(name, limit=ROWS // 2, seed=0).sentences
        except DataError as error:
            print(f"{name} is left out: {error}")
            continue
        found[name] = encoder.tokenize(lines + lines, max_tokens=TOKENS)
    return found


def step_of(shape: tuple[int, int, int], way: str, tokenizer: Any) -> Callable[[dict[str, torch.Tensor]], None]:
    """One training step, without the optimizer, of a randomly initialised BERT."""
    layers, width, heads = shape
    config = BertConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    torch.manual_seed(0)
    model = BertModel(config, add_pooling_layer=False).train()
    if way == "cheap":
        fast_dropout(model)
    encoder = Encoder(model, tokenizer).train() if way == "encoder" else None

    def step(batch: dict[str, torch.Tensor]) -> None:
        model.zero_grad(set_to_none=True)
        output = encoder(batch) if encoder else model(**batch).last_hidden_state[:, 0]
        output.square().mean().backward()

    return step


def main() -> None:
    """Prints milliseconds a step and the ratios, per shape and batch."""
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, 1 thread, fp32, {ROWS} rows")
    encoders = {"world": Encoder.from_pretrained("world-encoder")}
    if real := find_minilm():
        encoders["wiki"] = Encoder.from_pretrained(real)
    tokenizer = max((encoder.tokenizer for encoder in encoders.values()), key=len)
    for shape_name, shape in SHAPES.items():
        steps = {way: step_of(shape, way, tokenizer) for way in ("transformers", "cheap", "encoder")}
        for batch_name, batch in batches(encoders).items():
            times: dict[str, list[float]] = {way: [] for way in steps}
            for round_number in range(ROUNDS + 1):
                for way, step in steps.items():
                    start = time.process_time()
                    step(batch)
                    if round_number:  # the first round warms up
                        times[way].append(time.process_time() - start)
            filled = batch["attention_mask"].float().mean().item()
            print(
                f"{shape_name}, {batch_name} ({filled:.0%} of {batch['input_ids'].shape[1]} columns filled): ", end=""
            )
            print(", ".join(f"{way} {1000 * statistics.median(t):.0f} ms" for way, t in times.items()), end="; ")
            for way in ("cheap", "encoder"):
                pairs = zip(times["transformers"], times[way], strict=True)
                print(f"transformers / {way} {statistics.median(a / b for a, b in pairs):.2f}", end=" ")
            print(flush=True)


if __name__ == "__main__":
    main()
