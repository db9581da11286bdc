"""Receivers of each row of the history: lines of progress, and an experiment tracker."""

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from workbench.config import TrainingConfig
from workbench.printing import LOG
from workbench.runs import Facts, Run

_PROJECT = "ranking-workbench"  # the name under which trackers show runs

Row = Facts
Listener = Callable[[Row], None]


class Progress:
    """Print loss, dev Spearman, time passed and time left; every 3 seconds, later less often."""

    def __init__(self, done: int, total: int) -> None:
        self.done = done
        self.total = total
        self._loss = ""
        self._dev = ""
        self._started = time.monotonic()
        self._next = 0.0
        if done:
            print(f"going on from step {done} of {total}", flush=True)

    def __call__(self, row: Row) -> None:
        """Print a line if it is time for one, or if this is the last step."""
        step = row["step"]
        now = time.monotonic()
        if "loss" in row:
            self._loss = f"loss {row['loss']:.4f}"
        if "dev_spearman" in row:
            self._dev = f"dev Spearman {100 * row['dev_spearman']:.2f} (step {step})"
        if now < self._next and step < self.total:
            return
        taken = now - self._started  # by the steps of this start
        passed = timedelta(seconds=round(row["seconds"]))  # of all starts
        news = "  ".join(filter(None, [self._loss, self._dev]))
        line = f"step {step:>6}/{self.total}  {news}  {passed}"
        if self.done < step < self.total:
            rate = taken / (step - self.done)
            rest = timedelta(seconds=min(round(rate * (self.total - step)), 10**9))
            line += f", {rest} left"
        print(line, flush=True)
        # A log of a day has some hundred lines and not thousands.
        self._next = now + max(3.0, taken / 50)


@contextmanager
def open_tracker(config: TrainingConfig, run: Run | None) -> Iterator[list[Listener]]:
    """Yield a list with the listener that sends rows to the tracker of `report_to`.

    The list is empty without a run or a tracker.
    """
    if not run or not config.report_to:
        yield []
        return
    settings = config.model_dump(mode="json")
    settings |= {"method": config.method, "run": run.path.name}  # a tracker has its own names
    # Only a tracker that is asked for is imported: none of them is a dependency.
    if config.report_to == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        tracker = SummaryWriter(str(run.path / _PROJECT), flush_secs=5)
        tracker.add_hparams({name: str(value) for name, value in settings.items()}, {})
        close = tracker.close

        def log(values: Row, step: int) -> None:
            for name, value in values.items():
                tracker.add_scalar(name, value, step)

    elif config.report_to == "mlflow":
        tracker = importlib.import_module("mlflow")
        tracker.set_experiment(_PROJECT)
        tracker.start_run()
        tracker.log_params(settings)
        log = tracker.log_metrics
        close = tracker.end_run
    else:  # wandb, and trackio, which has the same functions
        tracker = importlib.import_module(config.report_to).init(project=_PROJECT, config=settings)
        log = tracker.log
        close = tracker.finish

    def send(row: Row) -> None:
        values = dict(row)
        step = values.pop("step")
        try:
            log(values, step=step)
        except Exception as problem:  # its server does not answer; the run has the rows itself
            LOG.warning("%s did not take step %d: %s", config.report_to, step, problem)

    try:
        yield [send]
    finally:
        try:
            close()
        except Exception as problem:
            LOG.warning("%s did not end: %s", config.report_to, problem)
