"""Receivers of each row of the history: progress, an experiment tracker, the caller's callbacks."""

import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from workbench.config import TrainingConfig
from workbench.distributed import process_rank
from workbench.errors import SettingError
from workbench.runs import Run

_PROJECT = "ranking-workbench"  # the name under which trackers show runs
_SECONDS_BETWEEN_LINES = 3.0

Row = dict[str, Any]
Listener = Callable[[Row], None]


@contextmanager
def open_listeners(
    config: TrainingConfig, steps: tuple[int, int], run: Run | None, callbacks: Sequence[Listener], *, quiet: bool
) -> Iterator[list[Listener]]:
    """Yield progress (of steps done and in all), the tracker of `run`, and callbacks; in the first process alone."""
    with ExitStack() as stack:
        listeners: list[Listener] = []
        if process_rank() == 0 and not quiet:
            listeners.append(stack.enter_context(closing(Progress(*steps))))
        if run is not None and config.report_to is not None:
            listeners.append(stack.enter_context(closing(_Tracker(config, run.path))))
        yield [*listeners, *callbacks] if process_rank() == 0 else []


class Progress:
    """Show how far training is: a bar in a live notebook or a terminal, otherwise a line every few seconds."""

    def __init__(self, done: int, total: int) -> None:
        self.total, self.done, self.loss, self.dev = total, done, "", ""
        self._started, self._printed = time.monotonic(), -_SECONDS_BETWEEN_LINES
        if done:
            print(f"going on from step {done} of {total}", flush=True)
        has_bar = (_is_notebook() and "TQDM_DISABLE" not in os.environ) or sys.stderr.isatty()
        self.bar = tqdm(total=total, initial=done, unit="step") if has_bar else None

    def __call__(self, row: Row) -> None:
        """Show the latest loss and dev Spearman."""
        step, now = row["step"], time.monotonic()
        if "loss" in row:
            self.loss = f"loss {row['loss']:.4f}"
        if "dev_spearman" in row:
            self.dev = f"dev Spearman {100 * row['dev_spearman']:.2f} (step {step})"
        news = "  ".join(filter(None, [self.loss, self.dev]))
        if self.bar is not None:
            self.bar.set_postfix_str(news, refresh=False)
            self.bar.update(step - self.bar.n)
        elif now - self._printed >= _SECONDS_BETWEEN_LINES or step == self.total:
            rate = (now - self._started) / max(1, step - self.done)
            passed, rest = (timedelta(seconds=round(each)) for each in (row["seconds"], rate * (self.total - step)))
            left = f", {rest} left" if self.done < step < self.total else ""
            print(f"step {step:>6}/{self.total}  {news}  {passed}{left}", flush=True)
            self._printed = now

    def close(self) -> None:
        """End the bar."""
        if self.bar is not None:
            self.bar.close()


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def require_tracker(config: TrainingConfig) -> None:
    """Raise SettingError unless the tracker of the setting `report_to` is installed."""
    if config.report_to is not None and importlib.util.find_spec(config.report_to) is None:
        raise SettingError(
            f"report_to: {config.report_to!r} is not installed; pip install {config.report_to}, or set report_to=none"
        )


class _Tracker:
    """Send rows to the experiment tracker that the setting `report_to` names."""

    def __init__(self, config: TrainingConfig, folder: Path) -> None:
        values = config.model_dump(mode="json")
        settings = {name: v if isinstance(v, (bool, int, float, str)) else str(v) for name, v in values.items()}
        if config.report_to == "tensorboard":
            from torch.utils.tensorboard import SummaryWriter

            writer = SummaryWriter(str(folder / _PROJECT), flush_secs=5)
            writer.add_hparams(settings, {})
            self._log = lambda values, step: [writer.add_scalar(name, value, step) for name, value in values.items()]
            self.close = writer.close
            return
        tracker = importlib.import_module(str(config.report_to))
        if config.report_to == "mlflow":
            tracker.set_experiment(_PROJECT)
            tracker.start_run()
            tracker.log_params(settings)
            self._log, self.close = tracker.log_metrics, tracker.end_run
        else:  # wandb, and trackio, which has the same functions
            run = tracker.init(project=_PROJECT, config=settings)
            self._log, self.close = run.log, run.finish

    def __call__(self, row: Row) -> None:
        self._log({name: value for name, value in row.items() if name != "step"}, step=row["step"])
