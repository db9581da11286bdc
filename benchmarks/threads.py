"""Training steps a second by how threads wait for each other, alone and beside a busy process.

A step is divided among threads many hundred times, and at the end of each part the early ones wait for the last: in a
loop that keeps their core busy (libgomp's default), asleep (OMP_WAIT_POLICY=PASSIVE), or so many turns in the loop and
then asleep (GOMP_SPINCOUNT, which importing workbench before torch sets). Where another process wants the core too, the
loop is what the last thread waits for; where none does, falling asleep and waking costs more.

Each setting is measured in fresh processes, in turn over the rounds; printed are median, least and most.

    python benchmarks/threads.py [--encoder NAME] [--threads 1 2] [--busy 0 1] [--steps 40] [--rounds 3]
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time

WAYS: dict[str, dict[str, str]] = {
    "default": {},
    "asleep": {"OMP_WAIT_POLICY": "PASSIVE"},
    "workbench": {"GOMP_SPINCOUNT": "5000"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="world-encoder")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1], help="busy processes beside it")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # a process of its own: one measurement
    chosen = parser.parse_args()
    if chosen.here:
        print(steps_a_second(chosen.encoder, chosen.threads[0], chosen.steps))
        return
    settings = list(itertools.product(chosen.busy, chosen.threads, WAYS))
    found: dict[tuple[int, int, str], list[float]] = {setting: [] for setting in settings}
    for _, setting in itertools.product(range(chosen.rounds), settings):
        found[setting].append(measured(*setting, ["--encoder", chosen.encoder, "--steps", str(chosen.steps)]))
    print(f"{chosen.encoder}, batch 64, {os.cpu_count()} cores, {chosen.rounds} rounds of {chosen.steps} steps")
    print(f"{'busy beside':>11} {'threads':>7} {'waiting':>9} {'steps/s':>8} {'least':>6} {'most':>6}")
    for (busy, threads, way), values in found.items():
        spread = f"{statistics.median(values):8.2f} {min(values):6.2f} {max(values):6.2f}"
        print(f"{busy:>11} {threads:>7} {way:>9} {spread}")


def measured(busy: int, threads: int, way: str, arguments: list[str]) -> float:
    """Steps a second in a fresh process with so many busy ones beside it."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    environment |= {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", **WAYS[way]}
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        command = [sys.executable, __file__, "--here", "--threads", str(threads), *arguments]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    finally:
        for other in others:
            other.kill()
            other.wait()


def steps_a_second(encoder: str, threads: int, steps: int) -> float:
    """SimCSE's steps as `fit` takes them, dev and saving left out."""
    import torch  # before workbench, which would set its own count where the environment does not

    from workbench import SimCSE, SimCSEConfig, fit, load_training

    torch.set_num_threads(threads)
    options = {"encoder": encoder, "train_limit": 4000, "device": "cpu", "eval_steps": 10**6, "save_steps": 10**6}
    for count in (3, steps):  # the first warms up
        config = SimCSEConfig.from_parameters("demo", 0, options | {"max_steps": count})
        method, data = SimCSE(config), load_training(config)
        started = time.perf_counter()
        fit(method, data, quiet=True)
    return steps / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
