"""Every method on the bundled world, from the same start with the same budget: dev and test, mean and spread.

    python benchmarks/methods.py [--runs runs] [--seeds 3] [--only RankCSE ...]

The demo settings, with what a row changes; dev chooses the checkpoint, test is reported once. Runs are kept under
--runs and used again when they are finished. The rows are those of docs/results.md.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from workbench import METHODS, evaluate, fit, load_dev, load_suites, load_training
from workbench.config import CONFIGS, TrainingConfig
from workbench.methods import Method
from workbench.metrics import seed_spread
from workbench.runs import Run

_OWN = {"teachers": ["<SimCSE>"]}
_LISTMLE = {"ranking": "listmle", "student_temperature": 0.05}  # RankCSE table 9 for BERT
_INTERACTION = {"architecture": "cross-encoder"}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "SimCSE": ("simcse", {}),
    "CompCSE": ("compcse", {}),
    "RankEncoder, E1 its SimCSE, summed with weight 100": ("rankencoder", {"base": "<SimCSE>"}),
    "RankEncoder, the paper's max with lambda 0.05": (
        "rankencoder",
        {"base": "<SimCSE>", "combination": "max", "rank_weight": 0.05},
    ),
    "RankCSE without its ranking loss (gamma 0)": ("rankcse", {"gamma": 0}),
    "RankCSE, ListNet, taught by its SimCSE": ("rankcse", _OWN),
    "RankCSE, ListMLE, taught by its SimCSE": ("rankcse", _LISTMLE | _OWN),
    "RankCSE, ListNet, taught by world-teacher": ("rankcse", {}),
    "RankCSE, ListMLE, taught by world-teacher": ("rankcse", _LISTMLE),
    "RankCSE, CoSENT as ranking loss, taught by world-teacher": ("rankcse", {"ranking": "cosent"}),
    "CoSENT": ("cosent", {}),
    **{f"baseline: {name}": ("cosent", {"objective": name}) for name in ("mse", "softmax", "contrastive", "triplet")},
    "CoSENT, interaction, lambda 20 as printed": ("cosent", _INTERACTION),
    "CoSENT, interaction, lambda 1 as coded": ("cosent", _INTERACTION | {"interaction_scale": "code"}),
    "interaction, cross-entropy": ("cosent", _INTERACTION | {"objective": "cross_entropy"}),
}


def main() -> None:
    """Prints a row of a Markdown table a method as it is finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="rows by their beginning")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| | dev Spearman | dev KCC | dev NDCG | test Spearman | test KCC | test NDCG |")
    print("|---|---|---|---|---|---|---|")
    for label, runs in rows(options):
        values = [(dev_scores(run), run.metrics()["world-test"]) for run in runs]
        cells = [
            str(seed_spread([100 * one[side][key] for one in values]))
            for side in (0, 1)
            for key in ("spearman", "kcc", "ndcg")
        ]
        print(f"| {label} | {' | '.join(cells)} |", flush=True)


def rows(options: argparse.Namespace) -> Iterator[tuple[str, list[Run]]]:
    """Each row's runs, one a seed; its own SimCSE is the one of the same seed."""
    for label, (method, settings) in ROWS.items():
        if options.only and not label.startswith(tuple(options.only)):
            continue
        runs = []
        for seed in range(options.seeds):
            simcse = str(finished(CONFIGS["simcse"].from_parameters("demo", seed), options.runs).path)
            own = {key: filled(value, simcse) for key, value in settings.items()}
            runs.append(finished(CONFIGS[method].from_parameters("demo", seed, own), options.runs))
        yield label, runs


def filled(value: Any, simcse: str, name: str = "<SimCSE>") -> Any:
    """A setting with the placeholder `name` replaced."""
    if isinstance(value, list):
        return [filled(one, simcse, name) for one in value]
    return simcse if value == name else value


def finished(config: TrainingConfig, root: Path, kind: type[Method] | None = None) -> Run:
    """The run of `config`, trained and evaluated unless it is there; `kind`: a variant of its method."""
    run = Run.open(config, root)
    if not run.finished:
        method = (kind or METHODS[config.method])(config)
        fit(method, load_training(config), dev=load_dev(config), run=run, quiet=True)
        evaluate(method, load_suites(config), run=run)
    return run


def dev_scores(run: Run) -> dict[str, Any]:
    """Dev of the kept checkpoint, by the method's own similarity."""
    method = METHODS[run.config.method](run.config)
    method.restore(run.path / "encoder")
    method.eval()
    return evaluate(method, {"dev": load_dev(run.config)}).metrics["dev"]


if __name__ == "__main__":
    main()
