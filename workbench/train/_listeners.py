"""Who is told of each row of a history as it comes: whoever watches, a tracker, callbacks."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.config import TrainingConfig
from workbench.errors import SettingError
from workbench.processes import process_rank
from workbench.runs import clock

_BETWEEN = 3.0  # seconds between two lines of progress at least

Row = dict[str, Any]
Listener = Callable[[Row], None]


@contextlib.contextmanager
def listening(
    config: TrainingConfig, steps: tuple[int, int], folder: Path | None, callbacks: Sequence[Listener], *, quiet: bool
) -> Iterator[list[Listener]]:
    """Who is told of each row: progress, the tracker of a run's `folder`, callbacks; of several processes the first's.

    steps: done, and in all.
    """
    own: list[Progress | Tracker] = []
    try:
        if not quiet and process_rank() == 0:
            own.append(Progress(*steps))
        if folder is not None and config.track is not None and process_rank() == 0:
            own.append(Tracker(config, folder))
        yield [*own, *callbacks] if process_rank() == 0 else []
    finally:
        for listener in own:
            listener.close()


class Progress:
    """How far training is: a bar in a live notebook or a terminal, else a line every few seconds."""

    def __init__(self, done: int, total: int) -> None:
        self.total, self.done = total, done
        self.bar = None
        self._started = time.monotonic()
        self._printed, self._news = -_BETWEEN, {}
        if done:
            print(f"going on from step {done} of {total}", flush=True)
        if (_in_notebook() and "TQDM_DISABLE" not in os.environ) or sys.stderr.isatty():
            from tqdm.auto import tqdm

            self.bar = tqdm(total=total, initial=done, unit="step")

    def __call__(self, row: Row) -> None:
        """Shows what is known of one step, and with it what came since the line before."""
        step, now = row["step"], time.monotonic()
        if "loss" in row:
            self._news["loss"] = f"loss {row['loss']:.4f}"
        if "dev_spearman" in row:
            self._news["dev"] = f"dev Spearman {100 * row['dev_spearman']:.2f} (step {step})"
        shown = "  ".join(self._news[name] for name in ("loss", "dev") if name in self._news)
        if self.bar is not None:
            self.bar.set_postfix_str(shown, refresh=False)
            self.bar.update(step - self.bar.n)
        elif now - self._printed >= _BETWEEN or step == self.total:
            rate = (now - self._started) / max(1, step - self.done)
            left = f", {clock(rate * (self.total - step))} left" if self.done < step < self.total else ""
            print(f"step {step:>6}/{self.total}  {shown}  {clock(row['seconds'])}{left}", flush=True)
            self._printed, self._news = now, {}

    def close(self) -> None:
        """Ends the bar."""
        if self.bar is not None:
            self.bar.close()


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, whichever front end shows it."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class Tracker:
    """Sends rows to the experiment tracker that the setting `track` names, by accelerate."""

    def __init__(self, config: TrainingConfig, run_folder: Path) -> None:
        """Starts tracking; tensorboard's files lie in `run_folder`."""
        from accelerate import Accelerator

        require_tracker(config)
        self.accelerator = Accelerator(log_with=config.track, project_dir=str(run_folder))
        plain = (bool, int, float, str)
        settings = {n: v if isinstance(v, plain) else str(v) for n, v in config.model_dump(mode="json").items()}
        self.accelerator.init_trackers("ranking-workbench", config=settings)

    def __call__(self, row: Row) -> None:
        """Sends one row, by its step."""
        self.accelerator.log({name: value for name, value in row.items() if name != "step"}, step=row["step"])

    def close(self) -> None:
        """Ends tracking. Accelerator.end_training would end the process group too."""
        for tracker in self.accelerator.trackers:
            tracker.finish()


def require_tracker(config: TrainingConfig) -> None:
    """Raises SettingError unless the tracker of the setting `track` is installed."""
    if config.track is None:
        return
    from accelerate.tracking import get_available_trackers

    if config.track not in (found := [str(name) for name in get_available_trackers()]):
        have = f"installed are {', '.join(found)}" if found else "no tracker is installed"
        cure = f"pip install {config.track}, or give track=none"
        raise SettingError(f"track: {config.track!r} is not installed ({have}); {cure}")
