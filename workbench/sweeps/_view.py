"""How a sweep shows what it does: a live table on a terminal and in a notebook, a line an event in a log."""

import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from workbench.runs import clock, failure_of
from workbench.sweeps._plan import Cell
from workbench.sweeps._process import tail
from workbench.sweeps._sweep import Sweep

_SHOWN = 12  # rows of a live table at most


class View:
    """Told of each cell that begins or ends."""

    def __init__(self, sweep: Sweep, to_run: int, console: Console | None = None) -> None:
        self.sweep, self.to_run = sweep, to_run
        self.console = console or Console()
        self.counts: dict[str, int] = {}
        self._begun: set[str] = set()
        self._started = time.monotonic()
        wanted = self.console.is_terminal or self.console.is_jupyter
        self.live = Live(console=self.console, refresh_per_second=2) if wanted else None

    def __enter__(self) -> "View":
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, running: list[tuple[Cell, float]], waiting: int) -> None:
        """What runs (with the moment it began) and how many cells wait."""
        if self.live is not None:
            self.live.update(self._table(running, waiting))
            return
        for cell, _ in running:
            if cell.path not in self._begun:
                self._begun.add(cell.path)
                self._say(f"started  {cell.title}")

    def ended(self, cell: Cell, state: str) -> None:
        """A cell is over: finished, failed, or left out because one that it needs failed."""
        self.counts[state] = self.counts.get(state, 0) + 1
        self._begun.discard(cell.path)
        why = ""
        if state == "failed":
            log = self.sweep.log(cell)
            told = failure_of(self.sweep.path(cell)) or tail(log) or "it left no message"  # on a full disk
            why = f": {told.splitlines()[0]}\n  log: {log}"
        elif state == "left out":
            why = ": a run that it needs failed"
        if self.live is None or state != "finished":
            self._say(f"{state:<8} {cell.title}{why}")

    def _say(self, text: str) -> None:
        done = sum(self.counts.values())
        self.console.print(f"[{done}/{self.to_run}] {text}", markup=False, highlight=False, soft_wrap=True)

    def _table(self, running: list[tuple[Cell, float]], waiting: int) -> Group:
        table = Table(expand=True, box=None, pad_edge=False)
        table.add_column("running", ratio=2, no_wrap=True, overflow="ellipsis")
        table.add_column("last line of its log", ratio=3, no_wrap=True, overflow="ellipsis")
        table.add_column("for", justify="right", no_wrap=True)
        now = time.monotonic()
        for cell, started in running[:_SHOWN]:
            table.add_row(Text(cell.title), Text(tail(self.sweep.log(cell))), clock(now - started))
        return Group(table, Text(self.line(len(running), waiting)))

    def line(self, running: int, waiting: int) -> str:
        """Counts, and the time left at the pace so far."""
        done = sum(self.counts.values())
        counts = [f"{count} {state}" for state, count in self.counts.items()]
        spent = time.monotonic() - self._started
        left = f", about {clock(spent / done * (self.to_run - done))} left" if done and done < self.to_run else ""
        counts += [f"{running} running", f"{waiting} waiting"]
        return f"{done}/{self.to_run}: {', '.join(counts)}; {clock(spent)}{left}"
