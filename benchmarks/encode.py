"""Compare the speed of Encoder.encode and of tokenization with sentence-transformers.

    python benchmarks/encode.py [--threads 1 2] [--rounds 5] [--limit 1500] [--precision fp32 bf16]

All take turns in one process, with the same checkpoint, sentences and threads: the sentences of
STS-B and SICK-R test (both columns, as in an evaluation) and of Wikipedia if WORKBENCH_DATA
contains them, otherwise of the bundled world. Both compute in fp32, the default of both, and in
bf16 where the processor does not emulate it; with optimum-intel installed, OpenVINO runs in bf16
too. Theirs run at the fastest of four batch sizes. "tokens" compares the encoder's token store
with the tokenizer on 10,000 sentences at a time. Ratios above 1 (medians) favour Encoder."""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import sentence_transformers
import torch
import transformers
from minilm import MISSING, find_minilm

from workbench.data import load_pairs, load_sentences
from workbench.encoder import Encoder
from workbench.errors import DataError

BATCHES = (16, 32, 64, 128)
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def corpora(limit: int) -> dict[str, list[str]]:
    """Return the sentences to encode by name, from at most `limit` pairs or lines each."""
    try:
        pairs = {name: load_pairs(name) for name in ("stsb-test", "sick-test")}
        texts = {
            name: [*data.sentence1[:limit], *data.sentence2[:limit]] for name, data in pairs.items()
        }
        return texts | {"wiki": load_sentences("wiki", limit=limit // 2, seed=0).sentences}
    except DataError as error:
        print(f"Using the bundled world instead of real sentences: {error}")
        return {"world": load_sentences("world", limit=limit, seed=0).sentences}


def timed(work: Callable[[], object]) -> float:
    """Return the wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def with_tokenizer(encoder: Encoder, sentences: list[str]) -> np.ndarray:
    """Return the tokens of all sentences from calls of the tokenizer on 10,000 each."""
    pieces = []
    for start in range(0, len(sentences), 10_000):
        chunk = sentences[start : start + 10_000]
        ids = encoder.tokenizer(chunk, truncation=True, max_length=32, return_attention_mask=False)[
            "input_ids"
        ]
        pieces.append(np.fromiter((token for row in ids for token in row), dtype=np.int32))
    return np.concatenate(pieces)


def openvino(folder: str, threads: int) -> dict[str, sentence_transformers.SentenceTransformer]:
    """Return the OpenVINO backend in bf16 on so many threads; nothing if it is not installed."""
    if importlib.util.find_spec("optimum") is None:
        return {}
    options = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": str(threads)}
    model = sentence_transformers.SentenceTransformer(
        folder, backend="openvino", model_kwargs={"ov_config": options}
    )
    return {"openvino": model}


def main() -> None:
    """Print sentences per second and the ratios, per corpus and number of threads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=1500)
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS)
    options = parser.parse_args()
    checkpoint = find_minilm()
    if checkpoint is None:
        print(f"skipped: {MISSING}")
        return
    folder = str(checkpoint)
    if options.precision is None:
        options.precision = ["fp32"]
        if Encoder.from_pretrained(folder, device="cpu").training_precision == "bf16":
            options.precision.append("bf16")
        else:
            print("bf16 is left out: this processor emulates it; --precision fp32 bf16 runs it too")
    ours = {
        kind: Encoder.from_pretrained(folder, device="cpu", precision=kind)
        for kind in options.precision
    }
    theirs = {
        kind: sentence_transformers.SentenceTransformer(
            folder, device="cpu", model_kwargs={"dtype": PRECISIONS[kind]}
        )
        for kind in options.precision
    }
    first = ours[options.precision[0]]
    print(
        f"all-MiniLM-L6-v2, pooling {first.pooling}; torch {torch.__version__}, transformers "
        f"{transformers.__version__}, sentence-transformers {sentence_transformers.__version__}; "
        f"cpu capability {torch.backends.cpu.get_cpu_capability()}"
    )
    for name, sentences in corpora(options.limit).items():
        print(f"{name}: {len(sentences)} sentences, {len(set(sentences))} distinct")
        many = (sentences * (20_000 // len(sentences) + 1))[:20_000]
        for threads in options.threads:
            torch.set_num_threads(threads)
            others = theirs | (openvino(folder, threads) if "bf16" in ours else {})
            work = {
                f"Encoder {kind}": partial(model.encode, sentences) for kind, model in ours.items()
            }
            for kind, model in others.items():
                best = min(
                    BATCHES,
                    key=lambda size: timed(partial(model.encode, sentences, batch_size=size)),
                )
                work[kind] = partial(model.encode, sentences, batch_size=best)
            work |= {
                "tokens": partial(first.token_rows, many),
                "tokenizer": partial(with_tokenizer, first, many),
            }
            rounds = [
                {side: timed(call) for side, call in work.items()} for _ in range(options.rounds)
            ]

            def ratio(other: str, own: str) -> float:
                return statistics.median(seconds[other] / seconds[own] for seconds in rounds)  # noqa: B023

            for kind in others:
                own = f"Encoder {kind if kind in ours else 'bf16'}"
                rate = len(sentences) / statistics.median(seconds[own] for seconds in rounds)
                label = "sentence-transformers in " + kind if kind in ours else kind
                print(
                    f"  {threads} thread(s): {own} {rate:.0f}/s; ratio to {label} "
                    f"{ratio(kind, own):.2f}",
                    flush=True,
                )
            print(f"  {threads} thread(s): tokens {ratio('tokenizer', 'tokens'):.2f}", flush=True)


if __name__ == "__main__":
    main()
