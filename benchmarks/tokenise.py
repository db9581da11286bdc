"""Tokens of a million sentences: the encoder's store against the tokenizer's own call and Python lists.

    WORKBENCH_DATA=<folder> python benchmarks/tokenise.py [--sentences 1000000] [--way store|lists] [--encoder PATH]

Wikipedia sentences (else those of the bundled world), repeated as often as needed, made on the way so that their texts
take no memory. Each way runs in a process of its own, on all threads unless TOKENIZERS_PARALLELISM forbids it, and
prints its seconds, sentences a second and the growth of the process's memory beside the tokens' own four bytes each.
"lists" is the way that this replaced: the whole call of the tokenizer on 10,000 sentences at a time, its lists put
together at the end.
"""

import argparse
import itertools
import os
import resource
import subprocess
import sys
import time

import numpy as np

from workbench.data import load_sentences
from workbench.encoder import Encoder
from workbench.errors import DataError

WAYS = ("lists", "store")


def texts(count: int) -> list[str]:
    """The distinct sentences that are repeated."""
    try:
        return load_sentences("wiki", limit=min(count, 100_000), seed=0).sentences
    except DataError as error:
        print(f"the bundled world instead of Wikipedia: {error}")
        return load_sentences("world").sentences


def by_lists(encoder: Encoder, sentences: "itertools.islice[str]") -> int:
    """The tokens as lists of the tokenizer, then as one array."""
    pieces, lengths = [], []
    while chunk := list(itertools.islice(sentences, 10_000)):
        found = encoder.tokenizer(chunk, truncation=True, max_length=32, return_attention_mask=False)["input_ids"]
        lengths.extend(map(len, found))
        pieces.append(np.fromiter((token for ids in found for token in ids), dtype=np.int32))
    return len(np.concatenate(pieces))


def measure(way: str, path: str, count: int) -> None:
    """One way, in this process."""
    encoder = Encoder.from_pretrained(path, device="cpu")
    sentences = texts(count)
    encoder.token_rows(sentences[:4096])  # threads and caches are there
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some, started, worked = (
        itertools.islice(itertools.cycle(sentences), count),
        time.perf_counter(),
        time.process_time(),
    )
    tokens = len(encoder.token_rows(some).flat) if way == "store" else by_lists(encoder, some)
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{way}: {count} sentences, {tokens} tokens in {seconds:.1f} s ({cpu:.1f} s of processor time), "
        f"{count / seconds:,.0f} a second, {count / cpu:,.0f} a second of processor time; "
        f"memory grew by {grown:.0f} MiB, "
        f"the tokens are {4 * tokens / 2**20:.0f} MiB",
        flush=True,
    )


def main() -> None:
    """Prints a line a way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--encoder", default="world-encoder", help="a bundled name, a folder or a hub id")
    parser.add_argument("--way", choices=WAYS)
    options = parser.parse_args()
    if options.way is not None:
        measure(options.way, options.encoder, options.sentences)
        return
    print(
        f"{options.encoder}; TOKENIZERS_PARALLELISM {os.environ.get('TOKENIZERS_PARALLELISM', 'not set')}", flush=True
    )
    for way in WAYS:
        subprocess.run([sys.executable, *sys.argv, "--way", way], check=True)


if __name__ == "__main__":
    main()
