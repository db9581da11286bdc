"""Memory and time of a SimCSE step on a whole batch and in chunks, each in a fresh process.

Memory is what the process came to hold at most in the steps, above what it held before the first. The loss of the
first step is printed too: without dropout it must be the same. Chunks are computed twice, so a step takes up to a
third longer; large batches may even gain where their activations no longer fit a cache.

    python benchmarks/chunks.py [--encoder NAME] [--batch-size 1024] [--chunks 512 128 32] [--steps 3]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="world-encoder")
    parser.add_argument("--train", default="world")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--chunks", type=int, nargs="*", default=[512, 128, 32])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)  # in a fresh process: this chunk, 0 for the whole
    chosen = parser.parse_args()
    if chosen.one is not None:
        print(json.dumps(measure(chosen)))
        return
    print(f"SimCSE, {chosen.encoder}, batch {chosen.batch_size} (two views each), {chosen.threads} thread(s)")
    environment = {**os.environ, "OMP_NUM_THREADS": str(chosen.threads), "TOKENIZERS_PARALLELISM": "false"}
    first = None
    for size in (0, *chosen.chunks):
        command = [sys.executable, __file__, *sys.argv[1:], "--one", str(size)]
        found = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
        first = first or found
        name = f"chunks of {size}" if size else "whole"
        memory, clock = (found[key] / first[key] for key in ("mib", "seconds"))
        print(f"{name:<15} {found['mib']:7.0f} MiB ({memory:4.0%})  {found['seconds']:6.2f} s a step", end=" ")
        print(f"(x {clock:.2f})  loss {found['loss']:.6f}", flush=True)


def measure(chosen: argparse.Namespace) -> dict[str, float]:
    """MiB above the start and process seconds a step, of steps without dropout."""
    import torch

    from workbench import SimCSE, SimCSEConfig, load_training
    from workbench.train import Plan, State

    torch.set_num_threads(chosen.threads)
    settings = {"encoder": chosen.encoder, "train": chosen.train, "batch_size": chosen.batch_size, "device": "cpu"}
    settings |= {"dropout": 0.0, "chunk_size": chosen.one or None, "precision": "fp32"}
    config = SimCSEConfig.from_parameters("demo", 0, settings)
    data = load_training(config)
    method = SimCSE(config)
    method.prepare(data)
    method.train()
    plan, optimizer = Plan(config, method.examples(data)), State(Path(), method).optimizer
    losses = []
    with Peak() as peak:
        start = time.process_time()
        for step in range(chosen.steps):
            terms = method(method.collate(plan.rows(step)))
            loss = torch.stack(list(terms.values())).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
        seconds = (time.process_time() - start) / chosen.steps
    return {"mib": peak.mib, "seconds": seconds, "loss": losses[0]}


class Peak:
    """The most memory that this process held within the block, above what it held at its start.

    The kernel's own peak is over the whole life of a process: it is taken where it moved, else pages are counted.
    """

    def __enter__(self) -> "Peak":
        self.start, self.before, self.seen, self.over = resident(), peak_so_far(), 0, threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()
        return self

    def _watch(self) -> None:
        while not self.over.wait(0.005):
            self.seen = max(self.seen, resident())

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.watcher.join()
        most = peak_so_far() if peak_so_far() > self.before else self.seen
        self.mib = max(0, most - self.start) / 2**20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_so_far() -> int:
    """Bytes of this process in memory at most, ever."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
