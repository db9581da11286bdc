"""Every method from the same start with the same budget, a few seeds each: dev and test, mean and spread.

    python benchmarks/methods.py world [--runs runs] [--seeds 3] [--only RankCSE ...]
    WORKBENCH_DATA=<folder> python benchmarks/methods.py real --encoder <folder or hub id> --teacher <folder or hub id>

"world": the demo settings, all on the bundled world. "real": Wikipedia sentences (CoSENT: SNLI's dev part, for STS-B's
training sentences stand in STS12-16), STS-B dev chooses the checkpoint, and with seed 0 the learning rate of each group
of methods; the seven STS sets are reported once. Runs are kept under --runs and used again when they are finished.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from workbench import METHODS, evaluate, fit, load_dev, load_suites, load_training
from workbench.config import CONFIGS, SEVEN_STS, TrainingConfig
from workbench.data import load_pairs, load_sentences
from workbench.encoder import Encoder
from workbench.files import replacing
from workbench.methods.protocol import Method
from workbench.metrics import seed_spread
from workbench.runs import Run

WORLD: dict[str, tuple[str, dict[str, Any]]] = {
    "SimCSE": ("simcse", {}),
    "CompCSE": ("compcse", {}),
    "RankCSE, ListNet": ("rankcse", {}),
    "RankCSE, ListMLE": ("rankcse", {"ranking": "listmle"}),
    "RankCSE, CoSENT": ("rankcse", {"ranking": "cosent"}),
    "RankCSE, ListNet, own SimCSE": ("rankcse", {"teachers": ["<SimCSE>"]}),
    "RankEncoder": ("rankencoder", {"base": "<SimCSE>"}),
    "RankEncoder, the paper's lambda": (
        "rankencoder",
        {"base": "<SimCSE>", "combination": "max", "rank_weight": 0.05},
    ),
    "CoSENT": ("cosent", {}),
    **{f"CoSENT's baseline {name}": ("cosent", {"objective": name}) for name in ("mse", "softmax", "contrastive")},
    "CoSENT's baseline triplet": ("cosent", {"objective": "triplet"}),
    "CoSENT, interaction": ("cosent", {"model": "interaction"}),
}
CONTRASTIVE, TAUGHT = (1e-5, 1e-4), (1e-4, 4e-4)
REAL: dict[str, tuple[str, dict[str, Any], tuple[float, ...] | str]] = {
    "SimCSE": ("simcse", {}, CONTRASTIVE),
    "CompCSE": ("compcse", {}, "SimCSE"),
    "RankEncoder": ("rankencoder", {"base": "<SimCSE>", "corpus_size": 10_000}, "SimCSE"),
    "RankCSE, ListNet, own SimCSE": ("rankcse", {"teachers": ["<SimCSE>"]}, "SimCSE"),
    "RankCSE, ListNet, teacher": ("rankcse", {"teachers": ["<teacher>"]}, TAUGHT),
    "CoSENT, NLI": ("cosent", {"train": "snli-dev", "dev": "stsb-dev"}, TAUGHT),
}


def main() -> None:
    """Prints a line a method as it is finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", choices=["world", "real"])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="methods by the beginning of their line")
    parser.add_argument("--steps", type=int, default=250, help="real: steps of 64 sentences or pairs")
    parser.add_argument("--encoder", help="real: where all start")
    parser.add_argument("--teacher", help="real: what RankCSE's second line learns from")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.where == "real" and not (options.encoder and options.teacher):
        parser.error("real needs --encoder and --teacher")
    lines = world(options) if options.where == "world" else real(options)
    for label, runs in lines:
        print_line(label, [(dev_scores(run), run.metrics()) for run in runs])


def world(options: argparse.Namespace) -> Iterator[tuple[str, list[Run]]]:
    """The demo settings of each method."""
    for label, (method, settings) in chosen(WORLD, options.only):
        runs = []
        for seed in range(options.seeds):
            simcse = finished(CONFIGS["simcse"].from_parameters("demo", seed), options.runs)
            own = filled(settings, {"<SimCSE>": str(simcse.path)})
            runs.append(finished(CONFIGS[method].from_parameters("demo", seed, own), options.runs))
        yield label, runs


def real(options: argparse.Namespace) -> Iterator[tuple[str, list[Run]]]:
    """The papers' settings from one start, with a budget; the learning rate of each group chosen on dev with seed 0."""
    print_line("start", [start(options.encoder)])
    rates: dict[str, float] = {}
    simcse: list[Run] = []
    for label, (method, extra, grid) in chosen(REAL, ["SimCSE", *options.only] if options.only else None):
        settings = budget(options, "train" not in extra) | extra
        dev: dict[float, float] = {}
        for rate in () if isinstance(grid, str) else grid:
            first = real_run(method, settings | {"learning_rate": rate}, 0, options, simcse)
            history = first.history()
            # Step 0 is the start, which no run keeps: counted in, rates that all fall below it would tie.
            dev[rate] = float(history.loc[history["step"] > 0, "dev_spearman"].max())  # type: ignore[arg-type]
        rates[label] = rates[grid] if isinstance(grid, str) else max(dev, key=lambda rate: dev[rate])
        shown = ", ".join(f"{rate:g}: dev {100 * value:.2f}" for rate, value in dev.items())
        print(f"{label}: learning rate {rates[label]:g} ({shown or f'as {grid}'})", flush=True)
        settings |= {"learning_rate": rates[label]}
        runs = [real_run(method, settings, seed, options, simcse) for seed in range(options.seeds)]
        if label == "SimCSE":
            simcse = runs
        yield label, runs


def budget(options: argparse.Namespace, wiki: bool) -> dict[str, Any]:
    """What all share: start, pooling, steps, batch; `wiki`: the sample of Wikipedia sentences too."""
    found = {"encoder": options.encoder, "batch_size": 64, "max_steps": options.steps, "eval_steps": 25}
    found |= {"save_steps": 10 * options.steps, "max_tokens": 32, "pooling": "cls"}
    return found | ({"train": str(sample(64 * options.steps, options.runs))} if wiki else {})


def sample(size: int, folder: Path) -> Path:
    """A file of `size` Wikipedia sentences, drawn once: reading all of them takes longer than some of the trainings."""
    file = folder / f"wiki-{size}.txt"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(file) as fresh:
            fresh.write("\n".join(load_sentences("wiki", limit=size, seed=0).sentences) + "\n")
    return file.resolve()


def real_run(method: str, settings: dict[str, Any], seed: int, options: argparse.Namespace, simcse: list[Run]) -> Run:
    """One run; its own SimCSE is the one of the same seed."""
    names = {"<teacher>": options.teacher, "<SimCSE>": str(simcse[seed].path) if simcse else ""}
    return finished(CONFIGS[method].from_parameters("paper", seed, filled(settings, names)), options.runs)


def chosen(lines: dict[str, Any], only: list[str] | None) -> list[tuple[str, Any]]:
    """The lines that `only` names by their beginning, in order; None: all."""
    return [(label, line) for label, line in lines.items() if not only or label.startswith(tuple(only))]


def filled(settings: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """`settings` with the placeholders replaced."""
    return {
        key: [names.get(one, one) for one in value] if isinstance(value, list) else names.get(value, value)
        for key, value in settings.items()
    }


def finished(config: TrainingConfig, root: Path) -> Run:
    """The run of `config`, trained and evaluated unless it is there."""
    run = Run.create(config, root)
    if not run.finished:
        method = METHODS[config.method](config)
        fit(method, load_training(config), dev=load_dev(config), run=run)
        evaluate(method, load_suites(config), run=run)
    return run


def dev_scores(run: Run) -> dict[str, Any]:
    """Dev of the kept checkpoint, by the method's own similarity."""
    method: Method = METHODS[run.config.method](run.config)
    method.restore(run.path / "encoder")
    method.eval()
    return evaluate(method, {"dev": load_dev(run.config)}).metrics["dev"]


def start(encoder: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dev and the seven sets before any training."""
    first = Encoder.from_pretrained(encoder, pooling="cls")
    suites = {name: load_pairs(name) for name in SEVEN_STS}
    dev = evaluate(first.encode, {"dev": load_pairs("stsb-dev")}).metrics["dev"]
    return dev, evaluate(first.encode, suites).metrics


def print_line(label: str, found: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Method, then each figure x 100 as mean ± standard deviation over the seeds."""
    figures: dict[str, list[float]] = {}
    for dev, suites in found:
        for name, values in {"dev": dev, **suites}.items():
            for key in ("spearman", "kcc", "ndcg"):
                if values.get(key) is not None and (key == "spearman" or name == "dev" or name.startswith("world")):
                    figures.setdefault(f"{name} {key}", []).append(100 * values[key])
    shown = " | ".join(f"{name} {seed_spread(values)}" for name, values in figures.items())
    print(f"{label} ({len(found)}) | {shown}", flush=True)


if __name__ == "__main__":
    main()
