"""How far training is: a bar where someone watches, plain lines where a log is written."""

import os
import sys
import time
from typing import Any

_BETWEEN = 3.0  # seconds between two lines at least


class Progress:
    """Shows rows of the history; a bar in a live notebook or a terminal, else a line every few seconds."""

    def __init__(self, total: int, done: int) -> None:
        self.total = total
        self.bar = None
        self._printed, self._news = -_BETWEEN, {}
        # JupyterLab names its session in the kernel's environment; papermill does not.
        if "JPY_SESSION_NAME" in os.environ or sys.stderr.isatty():
            from tqdm.auto import tqdm

            self.bar = tqdm(total=total, initial=done, unit="step")

    def show(self, row: dict[str, Any]) -> None:
        """Shows what is known of one step, and with it what came since the line before."""
        step = row["step"]
        if "loss" in row:
            self._news["loss"] = f"loss {row['loss']:.4f}"
        if "dev_spearman" in row:
            self._news["dev"] = f"dev Spearman {row['dev_spearman']:.4f} (step {step})"
        shown = "  ".join(self._news[name] for name in ("loss", "dev") if name in self._news)
        if self.bar is not None:
            self.bar.set_postfix_str(shown, refresh=False)
            self.bar.update(step - self.bar.n)
        # A step's loss comes after its dev Spearman: one line for both.
        elif ("loss" in row or not step) and (time.monotonic() - self._printed >= _BETWEEN or step == self.total):
            print(f"step {step:>6}/{self.total}  {shown}  {row['seconds']:.0f} s", flush=True)
            self._printed, self._news = time.monotonic(), {}

    def close(self) -> None:
        """Ends the bar."""
        if self.bar is not None:
            self.bar.close()
