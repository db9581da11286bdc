"""Write weights.json: checksums of the encoders that the demos of all methods train, by the library of one commit.

    OMP_NUM_THREADS=1 PYTHONPATH=CHECKOUT python tests/acceptance/make_weights.py RUNS

"demo" is the whole demo with seed 0; "short" is its first ten steps, which the tests repeat. Finished runs in RUNS are
used as they are. `python make_weights.py RUNS --check` writes nothing and prints which checksums differ.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import workbench
from workbench import CONFIGS, METHODS, Run, evaluate, fit, load_dev, load_suites, load_training

FILE = Path(__file__).with_name("weights.json")
# No number may depend on the instruction set of this processor.
SAME = {"device": "cpu", "precision": "fp32"}
SHORT = {"max_steps": 10, "eval_steps": 10, "log_steps": 1, "train_limit": 640}


def environment() -> dict[str, str | int]:
    """Return everything outside the library that the last bit of a weight depends on."""
    cpu = torch.backends.cpu.get_cpu_capability()
    return {"torch": torch.__version__, "cpu": cpu, "threads": torch.get_num_threads()}


def train_demo(method: str, runs: Path, **overrides: Any) -> Run:
    """Train and evaluate a method's demo with seed 0; RankEncoder's base is a SimCSE run."""
    changed = {**SAME, **overrides}
    if method == "rankencoder":
        changed["base"] = str(train_demo("simcse", runs, **overrides).path)
    config = CONFIGS[method].from_parameters("demo", 0, changed)
    run, model = Run.open(config, runs), METHODS[method](config)
    fit(model, load_training(config), dev=load_dev(config), run=run, quiet=True)
    evaluate(model, load_suites(config), run=run)
    return run


def encoder_checksum(run: Run) -> str:
    """Return the sha256 of the names and the bytes of all weights of a run's encoder."""
    total = hashlib.sha256()
    for name, value in sorted(load_file(run.path / "encoder" / "model.safetensors").items()):
        total.update(name.encode() + value.numpy().tobytes())
    return total.hexdigest()


def main(runs: Path, *, check: bool = False) -> None:
    """Train every demo, short and whole, and write weights.json or compare with it."""
    source = Path(workbench.__file__).parents[1]
    commit = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    made: dict[str, Any] = {"commit": commit.stdout.strip(), "environment": environment(), "short": {}, "demo": {}}
    before = json.loads(FILE.read_text()) if check else made
    for kind, overrides in {"short": SHORT, "demo": {}}.items():
        for method in CONFIGS:
            run = train_demo(method, runs / kind, **overrides)
            losses = run.history()["loss"].dropna().round(6).tolist()[:10]
            made[kind][method] = {"sha256": encoder_checksum(run), "losses": losses}
            verdict = "equal" if made[kind][method] == before[kind].get(method) else "DIFFERENT"
            print(f"{kind} {method} {made[kind][method]['sha256'][:12]} {verdict if check else run.path}", flush=True)
    if check:
        print(f"environment: {made['environment']}, weights.json was made in {before['environment']}")
    else:
        FILE.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), check="--check" in sys.argv)
