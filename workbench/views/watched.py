"""How a ranking forms: a query of dev under gold, the start and each measured step."""

from typing import Any

import ipywidgets

from workbench.errors import DataError
from workbench.runs import Run
from workbench.views._table import TypedView, dropdown, value_of
from workbench.views.page import view_html
from workbench.views.queries import QueryView
from workbench.views.run_tables import kept_checkpoint


class WatchedRanking(TypedView):
    """Move through the steps of a training and see the targets of a query change places.

    The queries are the first of dev with four to twenty targets of different gold; each measurement
    of dev has their scores. At first the step of the kept checkpoint is shown.
    """

    settable = ("query", "step")
    query, step = map(value_of, settable)

    def __init__(self, run: Run) -> None:
        """Show a run's training, or that no query of its dev was watched."""
        self._rows = run.watched()
        self.kept = int(kept_checkpoint(run.history())["step"])
        queries = {query: query for query in self._rows["query"]}
        # A slider needs a choice, even next to the message that nothing was watched.
        steps = self._rows["step"].unique().tolist() or [self.kept]
        slider = ipywidgets.SelectionSlider(
            options=[(self._label(step), step) for step in steps],
            # A run that was killed may have kept a step that it had not measured.
            value=self.kept if self.kept in steps else steps[-1],
            description="step",
            layout={"width": "26em"},
        )
        choices = dropdown("query", queries, lambda _: None)
        super().__init__({"query": choices, "step": slider}, is_row=True)

    def _label(self, step: int) -> str:
        return f"{step}, kept" if step == self.kept else str(step)

    @property
    def selected(self) -> QueryView:
        """Return the query with its ranks under gold, the start and the chosen step."""
        if self._rows.empty:
            raise DataError(
                "the run has no watched rankings: no query of its dev has four to twenty targets "
                "of different gold, or it is older than this view"
            )
        rows: Any = self._rows[self._rows["query"] == self.query]
        start = rows[rows["step"] == 0]
        now = rows[rows["step"] == self.step]
        scores = {
            "start": start["score"].to_numpy(),
            f"step {self._label(self.step)}": now["score"].to_numpy(),
        }
        return QueryView.from_scores(
            self.query, start["target"].tolist(), start["gold"].to_numpy(), scores, "dev"
        )

    def html(self, *, is_live: bool) -> str:
        return view_html(self.selected, is_live=is_live)
