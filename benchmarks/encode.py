"""Encoder.encode against SentenceTransformer.encode at its defaults: the same checkpoint, sentences and threads.

    python benchmarks/encode.py [--threads 1 2] [--rounds 5] [--limit 1500]

Both run in turn on the sentences of STS-B and SICK-R test (both columns, as an evaluation asks for them) and of
Wikipedia when WORKBENCH_DATA has them, else on the bundled world. Ratios are medians over the rounds; above 1 Encoder
is faster.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import sentence_transformers
import torch
import transformers
from minilm import minilm

from workbench.data import load_pairs, load_sentences
from workbench.encoder import Encoder
from workbench.errors import DataError


def corpora(limit: int) -> dict[str, list[str]]:
    """The sentences to encode, by name: at most `limit` pairs or lines of each."""
    try:
        pairs = {name: load_pairs(name) for name in ("stsb-test", "sick-test")}
        found = {name: [*data.sentence1[:limit], *data.sentence2[:limit]] for name, data in pairs.items()}
        return found | {"wiki": load_sentences("wiki", limit=limit // 2, seed=0).sentences}
    except DataError as error:
        print(f"the bundled world instead of real sentences: {error}")
        return {"world": load_sentences("world", limit=limit, seed=0).sentences}


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of wall clock and of the process."""
    wall, process = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - process


def main() -> None:
    """Prints sentences a second of both and the ratios, per corpus and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=1500)
    options = parser.parse_args()
    ours = Encoder.from_pretrained(minilm(), device="cpu")
    theirs = sentence_transformers.SentenceTransformer(str(minilm()), device="cpu")
    print(
        f"all-MiniLM-L6-v2, pooling {ours.pooling}; Encoder {ours.precision}, SentenceTransformer fp32; torch "
        f"{torch.__version__}, transformers {transformers.__version__}, sentence-transformers "
        f"{sentence_transformers.__version__}; cpu capability {torch.backends.cpu.get_cpu_capability()}"
    )
    for name, sentences in corpora(options.limit).items():
        tokens = statistics.mean(map(len, ours.tokenizer(sentences)["input_ids"]))
        print(f"{name}: {len(sentences)} sentences, {len(set(sentences))} distinct, {tokens:.1f} tokens on average")
        for threads in options.threads:
            torch.set_num_threads(threads)
            rounds = [
                (timed(lambda: theirs.encode(sentences)), timed(lambda: ours.encode(sentences)))  # noqa: B023
                for _ in range(options.rounds)
            ]
            rates = [len(sentences) / statistics.median(r[side][0] for r in rounds) for side in (0, 1)]
            wall, process = (statistics.median(a[k] / b[k] for a, b in rounds) for k in (0, 1))
            print(
                f"  {threads} thread(s): SentenceTransformer {rates[0]:.0f}/s, Encoder {rates[1]:.0f}/s; "
                f"ratio {wall:.2f} by the clock, {process:.2f} by process time",
                flush=True,
            )


if __name__ == "__main__":
    main()
