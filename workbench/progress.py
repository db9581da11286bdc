"""How far training is: a bar where someone watches, plain lines where a log is written."""

import os
import sys
from typing import Any


class Progress:
    """Shows rows of the history; a bar in a live notebook or a terminal, else a line for each dev measurement."""

    def __init__(self, total: int, done: int) -> None:
        self.total = total
        self.bar = None
        # JupyterLab names its session in the kernel's environment; papermill does not.
        if "JPY_SESSION_NAME" in os.environ or sys.stderr.isatty():
            from tqdm.auto import tqdm

            self.bar = tqdm(total=total, initial=done, unit="step")

    def show(self, row: dict[str, Any]) -> None:
        """Shows what is known of one step."""
        shown = {"loss": "{:.4f}", "dev_spearman": "{:.4f}"}
        parts = [f"{name} {form.format(row[name])}" for name, form in shown.items() if name in row]
        if self.bar is not None:
            self.bar.set_postfix_str(", ".join(parts), refresh=False)
            self.bar.update(row["step"] - self.bar.n)
        elif "dev_spearman" in row and ("loss" in row or not row["step"]):
            print(f"step {row['step']:>6}/{self.total}  {'  '.join(parts)}  {row['seconds']:.0f} s", flush=True)

    def close(self) -> None:
        """Ends the bar."""
        if self.bar is not None:
            self.bar.close()
