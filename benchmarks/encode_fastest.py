"""Encoder.encode against the fastest settings of sentence-transformers on a CPU: bf16, and ONNX optimised (O3).

    python benchmarks/encode_fastest.py [--onnx-python PATH] [--threads 1 2] [--rounds 5] [--limit 1500]

Same checkpoint (all-MiniLM-L6-v2), sentences and threads. The exporter of the ONNX backend needs an older transformers
than this project, so that side runs under a Python of an environment of its own (`pip install "sentence-transformers<6"
"optimum[onnxruntime]" "transformers<4.58" torch==2.13.0`), which --onnx-python names; without it that side is left out,
and said so. Each side is one process that waits for its turn; each takes the batch size of 16, 32, 64, 128 that is
quickest for it. Ratios are medians over the rounds; above 1 Encoder is faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_BATCHES = (16, 32, 64, 128)

_WORKER = """
import json, sys, tempfile, time
import torch
from sentence_transformers import SentenceTransformer
folder, kind, threads, file = sys.argv[1:]
torch.set_num_threads(int(threads))
options = {}
if kind == "bf16":
    model = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.bfloat16})
elif kind == "onnx-O3":
    import onnxruntime
    from sentence_transformers import export_optimized_onnx_model
    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads = int(threads)
    options = {"provider": "CPUExecutionProvider", "session_options": session}
    made = tempfile.mkdtemp()
    first = SentenceTransformer(folder, device="cpu", backend="onnx", model_kwargs={**options, "export": True})
    first.save_pretrained(made)
    export_optimized_onnx_model(first, "O3", made)
    name = {"file_name": "onnx/model_O3.onnx"}
    model = SentenceTransformer(made, device="cpu", backend="onnx", model_kwargs={**options, **name})
else:
    model = SentenceTransformer(folder, device="cpu")
sentences = json.load(open(file, encoding="utf-8"))
print("ready", file=sys.stderr, flush=True)
for line in sys.stdin:
    started = time.perf_counter()
    model.encode(sentences, batch_size=int(line))
    print(time.perf_counter() - started, flush=True)
"""


class Side:
    """One setting of sentence-transformers in a process of its own."""

    def __init__(self, python: str, kind: str, folder: Path, threads: int, file: Path) -> None:
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        if python != sys.executable:
            environment.pop("PYTHONPATH", None)
        command = [python, "-c", _WORKER, str(folder), kind, str(threads), str(file)]
        self.process: Any = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment
        )
        self.batch = min(_BATCHES, key=lambda size: min(self.seconds(size) for _ in range(2)))

    def seconds(self, batch: int | None = None) -> float:
        """Of one pass over the sentences."""
        self.process.stdin.write(f"{batch or self.batch}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        while answer and not answer[:1].isdigit():  # what a library prints
            answer = self.process.stdout.readline()
        if not answer:
            self.log.seek(0)
            sys.exit(f"the other side ended:\n{self.log.read()[-3000:]}")
        return float(answer)

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    """Prints sentences a second of all sides and the ratios, per corpus and number of threads."""
    import torch
    from encode import corpora
    from minilm import minilm

    from workbench.encoder import Encoder

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onnx-python", help="a Python whose environment has sentence-transformers[onnx]")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=1500)
    options = parser.parse_args()
    ours = Encoder.from_pretrained(minilm(), device="cpu")
    sides = {"fp32": sys.executable, "bf16": sys.executable}
    if options.onnx_python:
        sides["onnx-O3"] = options.onnx_python
    else:
        print("ONNX is left out: give --onnx-python")
    print(f"all-MiniLM-L6-v2; Encoder {ours.precision}; cpu capability {torch.backends.cpu.get_cpu_capability()}")
    for name, sentences in corpora(options.limit).items():
        for threads in options.threads:
            torch.set_num_threads(threads)
            with tempfile.TemporaryDirectory() as scratch:
                file = Path(scratch) / "sentences.json"
                file.write_text(json.dumps(sentences), encoding="utf-8")
                others = {kind: Side(python, kind, minilm(), threads, file) for kind, python in sides.items()}
                ours.encode(sentences)
                rounds = []
                for _ in range(options.rounds):
                    started = time.perf_counter()
                    ours.encode(sentences)
                    mine = time.perf_counter() - started
                    rounds.append((mine, {kind: side.seconds() for kind, side in others.items()}))
            rate = len(sentences) / statistics.median(mine for mine, _ in rounds)
            found = []
            for kind, side in others.items():
                theirs = len(sentences) / statistics.median(other[kind] for _, other in rounds)
                ratio = statistics.median(other[kind] / mine for mine, other in rounds)
                found.append(f"{kind} {theirs:.0f}/s (batch {side.batch}), ratio {ratio:.2f}")
                side.close()
            print(f"{name}, {threads} thread(s): Encoder {rate:.0f}/s; {'; '.join(found)}", flush=True)


if __name__ == "__main__":
    main()
