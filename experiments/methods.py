"""Train every method on the bundled world from the same start with the same budget.

    python experiments/methods.py [--runs runs] [--seeds 3] [--only RankCSE ...]

Prints dev and test scores as mean and standard deviation over seeds, the rows of
docs/results-details.md. Each row changes some of the demo settings; dev selects the checkpoint,
test is evaluated once. Finished runs under --runs are reused."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from workbench import METHODS, evaluate, fit, load_dev, load_suites, load_training
from workbench.config import CONFIGS, TrainingConfig
from workbench.methods import Method
from workbench.runs import Run
from workbench.views.run_tables import format_spread

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
    **{
        f"baseline: {name}": ("cosent", {"objective": name})
        for name in ("mse", "softmax", "contrastive", "triplet")
    },
    **{
        f"lists: {name}": ("lists", {"ranking": name})
        for name in ("listnet", "listmle", "cosent", "approx_ndcg")
    },
    "CoSENT, interaction, lambda 20 as printed": ("cosent", _INTERACTION),
    "CoSENT, interaction, lambda 1 as coded": (
        "cosent",
        _INTERACTION | {"interaction_scale": "code"},
    ),
    "interaction, cross-entropy": ("cosent", _INTERACTION | {"objective": "cross_entropy"}),
}


def main() -> None:
    """Print a row of a Markdown table for each method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="only rows whose label begins with one of these")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.only and not any(label.startswith(tuple(options.only)) for label in ROWS):
        parser.error(f"--only: no row begins so; the rows are {', '.join(ROWS)}")
    torch.set_num_threads(options.threads)
    print("| | dev Spearman | dev KCC | dev NDCG | test Spearman | test KCC | test NDCG |")
    print("|---|---|---|---|---|---|---|")
    for label, runs in rows(options):
        values = [(dev_scores(run), run.metrics()["world-test"]) for run in runs]
        cells = [
            format_spread([one[side][key] for one in values])
            for side in (0, 1)
            for key in ("spearman", "kcc", "ndcg")
        ]
        print(f"| {label} | {' | '.join(cells)} |", flush=True)


def rows(options: argparse.Namespace) -> Iterator[tuple[str, list[Run]]]:
    """Yield the label and the runs of each row; <SimCSE> is the run of the same seed."""
    for label, (method, settings) in ROWS.items():
        if options.only and not label.startswith(tuple(options.only)):
            continue
        runs = []
        for seed in range(options.seeds):
            simcse = CONFIGS["simcse"].from_parameters("demo", seed)
            changes = fill_placeholder(settings, partial(trained_run, simcse, options.runs))
            runs.append(
                trained_run(CONFIGS[method].from_parameters("demo", seed, changes), options.runs)
            )
        yield label, runs


def fill_placeholder(
    settings: dict[str, Any], find: Callable[[], Run], name: str = "<SimCSE>"
) -> dict[str, Any]:
    """Return the settings with the folder of a run in the place of `name`; without `name` the run
    is not asked for, and so not trained."""
    if name not in str(settings):
        return settings
    folder = str(find().path)

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(one) for one in value]
        return folder if value == name else value

    return {key: filled(value) for key, value in settings.items()}


def trained_run(config: TrainingConfig, root: Path, kind: type[Method] | None = None) -> Run:
    """Return the run of `config`, trained and evaluated if unfinished, by class `kind`."""
    run = Run.open(config, root)
    if not run.finished:
        method = (kind or METHODS[config.method])(config)
        fit(method, load_training(config), dev=load_dev(config), run=run, quiet=True)
        evaluate(method, load_suites(config), run=run)
    return run


def dev_scores(run: Run) -> dict[str, Any]:
    """Return the dev scores of the selected checkpoint, by the method's similarity."""
    method = METHODS[run.config.method](run.config)
    method.restore(run.path / "encoder")
    method.eval()
    return evaluate(method, {"dev": load_dev(run.config)}).metrics["dev"]


if __name__ == "__main__":
    main()
