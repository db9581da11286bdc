"""Evaluate an encoder as it is and store the result as a run."""

from pathlib import Path

from workbench.baselines import load_base
from workbench.config import BaseConfig
from workbench.data import load_suites
from workbench.evaluation._evaluate import evaluate
from workbench.runs import Run, is_finished, run_path


def evaluate_model(config: BaseConfig, runs_root: str | Path = "runs") -> Run:
    """Return the finished run `<root>/base/<digest>-s0` of a model as it is; one that exists is read."""
    model = None if is_finished(run_path(config, runs_root)) else load_base(config)
    suites = load_suites(config)
    run = Run.create(config, runs_root)
    try:
        if model is not None and not run.finished:
            run.record(trained=True)  # there is nothing to train
            evaluate(model, suites, run=run, classifier=config.classifier)
    finally:
        run.release()
    return run
