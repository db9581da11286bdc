"""Add the methods that losses.json lacks: the losses of the first ten steps of their demos.

    PYTHONPATH=CHECKOUT python tests/acceptance/make_losses.py

What is stored stays, so that a new method moves no loss of another. Delete the entry of a method
whose losses are meant to change; "commit" is that of the first ones. It also prints a checksum of
the weights that each demo ends with. Two commits may be compared by it on one machine; on two
machines it differs, because processors, their libraries and threads add in another order."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from workbench import CONFIGS, METHODS, Run, fit, load_training

FILE = Path(__file__).with_name("losses.json")
# "auto" would be bf16 on some processors, which changes losses by up to 1e-2 of themselves.
SAME = {"device": "cpu", "precision": "fp32"}
SHORT = {"max_steps": 10, "logging_steps": 1, "train_limit": 640}
# RankEncoder keeps pairs within two thresholds. If rounding moves a pair across one, a loss jumps
# by 2e-3 of itself.
MORE = {"rankencoder": {"lower": None, "upper": None}}


def train_demo(method: str, runs: Path, **overrides: Any) -> Run:
    """Train the first ten steps of a method's demo with seed 0; the base of RankEncoder is such a
    SimCSE encoder."""
    changed = {**SAME, **SHORT, **MORE.get(method, {}), **overrides}
    if method == "rankencoder" and "base" not in changed:
        changed["base"] = str(train_demo("simcse", runs).path / "encoder")
    config = CONFIGS[method].from_parameters("demo", changed.pop("seed", 0), changed)
    run = Run.open(config, runs)
    fit(METHODS[method](config), load_training(config), run=run, quiet=True)
    return run


def losses_of(run: Run) -> list[float]:
    """Return the loss of each step of a run."""
    return run.history()["loss"].dropna().tolist()


def encoder_checksum(run: Run) -> str:
    """Return the sha256 of the names and the bytes of all weights of a run's encoder."""
    total = hashlib.sha256()
    for name, value in sorted(load_file(run.path / "encoder" / "model.safetensors").items()):
        total.update(name.encode() + value.numpy().tobytes())
    return total.hexdigest()


def main() -> None:
    """Train the demos of methods without losses and write losses.json."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    losses = stored["losses"]
    with tempfile.TemporaryDirectory() as folder:
        for method in CONFIGS.keys() - losses.keys():
            run = train_demo(method, Path(folder))
            losses[method] = [float(f"{loss:.7g}") for loss in losses_of(run)]
            print(method, encoder_checksum(run), flush=True)
    FILE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
