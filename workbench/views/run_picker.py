"""The picker of runs: which of them, with the encoder before training or without, their seeds averaged or not."""

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

import ipywidgets
import pandas as pd

from workbench.data import Pairs
from workbench.errors import WorkbenchError
from workbench.runs import Run, told_apart
from workbench.views._html import framed, problem_html, table, td, th, tr
from workbench.views._table import Panel, Table, View, dropdown, value_of
from workbench.views.finished import read_or_warn, seed_table, suite_version
from workbench.views.run_contents import (
    SEEDS,
    encoders_of_runs,
    pairs_of_runs,
    paths_of_runs,
    rankings_of_runs,
    scores_of_runs,
)


class RunPicker(View):
    """A table of finished runs to tick, and the means of those that are ticked.

    `runs` has the rows of the ticked runs, for every table and figure that takes `finished_runs`; `rankings`, `scores`
    and `encoders` are what explorers take. The explorers that `feeds` names show what is ticked at once.
    """

    before, seeds = value_of("before"), value_of("seeds")

    def __init__(
        self, runs: pd.DataFrame, suite: str, *, labels: Sequence[str] = (), before: bool = True, seeds: str = "first"
    ) -> None:
        """Show runs.

        Args:
            runs: As `finished_runs` returns them.
            suite: On which set they are compared.
            labels: The labels whose runs are ticked at first; none: the runs scored on the same version of the suite
                as the newest.
            before: Whether the encoder before training is shown too.
            seeds: How seeds are shown, as `rankings_of_runs` takes it.

        Raises:
            ValueError: A label that no run has.
        """
        paths_of_runs(runs, labels, seeds)
        self._all, self.suite = runs.reset_index(drop=True), suite
        self._fed: dict[str, Any] = {}
        facts = [read_or_warn(path, Run.facts) or {} for path in self._all["path"]]
        ended = [str(each.get("ended", "")) for each in facts]
        versions = [suite_version(each, suite) for each in facts]
        ticked = self._of(labels)
        if not labels and ended:
            newest = versions[ended.index(max(ended))]
            ticked = {row for row, version in enumerate(versions) if version == newest}
        others = [] if labels else [row for row in range(len(ended)) if row not in ticked]
        self.controls = {
            "seeds": dropdown("seeds", SEEDS, seeds, self._changed),
            "before": ipywidgets.Checkbox(before, description="before", indent=False, layout={"width": "auto"}),
        }
        self.controls["before"].tooltip = "the encoder before training"
        self.controls["before"].observe(self._changed, "value")
        every = ipywidgets.Button(description="tick all listed", layout={"width": "auto"})
        none = ipywidgets.Button(description="untick all listed", layout={"width": "auto"})
        every.on_click(lambda _: self._tick(self._ticked | set(self.grid.listed.tolist())))
        none.on_click(lambda _: self._tick(self._ticked - set(self.grid.listed.tolist())))
        shared, own = told_apart(self._all["settings"].tolist())
        self._shared = f", all with {shared}" if shared else ""
        self._facts = self._all[["label"]].assign(
            settings=own,
            seed=self._all["seed"],
            score=100 * self._all["spearman"].fillna(self._all["accuracy"]),
            finished=[time[:16].replace("T", " ") for time in ended],
        )
        self._facts = self._facts.loc[:, (self._facts.astype(str) != "").any()]  # no column that no run has
        self.grid = Table(label="runs", ticks=True, height=260, row_height=28)
        names = [f"{label}, seed {seed}" for label, seed in zip(self._all["label"], self._all["seed"], strict=True)]
        columns = [{"name": name, **({"digits": 2} if name == "score" else {})} for name in self._facts]
        self.grid.set_rows(self._facts.assign(name=names), columns)
        self.grid.ticked = sorted(ticked)
        older = ", ".join(names[row] for row in others)
        self._older = older and f"; scored on another version of {suite}, so not ticked at first: {older}"
        self.grid.observe(self._changed, "ticked")
        self.means, self.problem = Panel(), Panel()
        choices = ipywidgets.HBox([*self.controls.values(), every, none])
        super().__init__([choices, self.grid, self.problem, self.means])
        self._draw()

    @property
    def _ticked(self) -> set[int]:
        return set(self.grid.ticked)

    @property
    def runs(self) -> pd.DataFrame:
        """Return the rows of the ticked runs."""
        return self._all.loc[sorted(self._ticked)].reset_index(drop=True)

    @property
    def rankings(self) -> dict[str, pd.DataFrame]:
        """Return `rankings_of_runs` of the ticked runs."""
        return rankings_of_runs(self.runs, self.suite, before=self.before, seeds=self.seeds)

    @property
    def scores(self) -> dict[str, pd.DataFrame]:
        """Return `scores_of_runs` of the ticked runs."""
        return scores_of_runs(self.runs, self.suite, before=self.before, seeds=self.seeds)

    @property
    def pairs(self) -> Pairs:
        """Return the scored pairs of the suite, as `pairs_of_runs`; DataError if they are not on this machine."""
        return pairs_of_runs(self._all, self.suite)

    @property
    def encoders(self) -> dict[str, Any]:
        """Return `encoders_of_runs` of the ticked runs."""
        return encoders_of_runs(self.runs, before=self.before, seeds=self.seeds)

    def feeds(self, *explorers: Any) -> None:
        """Let a `RankingExplorer` and a `PairExplorer` show what is ticked, from here on.

        Of each kind only the last one follows, because a cell that is run again makes another explorer. If nothing is
        ticked they go on showing what they showed.
        """
        self._fed |= {explorer.kind: explorer for explorer in explorers}

    def selectable(self) -> list[str]:
        return ["labels", *super().selectable()]

    def select(self, **values: Any) -> None:
        """Set from code: `labels`, all of whose runs are ticked, `before`, and how `seeds` are shown.

        None leaves a choice as it is. Raises TypeError and ValueError as `View.select`, and ValueError for a label
        that no run has.
        """
        names = self.selectable()
        super().select(**{name: each for name, each in values.items() if each is not None or name not in names})

    def set_value(self, name: str, value: Any) -> None:
        if name == "labels":
            paths_of_runs(self._all, value, "first")  # raises for a label that no run has
            self._tick(self._of(value))
        else:
            super().set_value(name, value)

    def _tick(self, rows: Collection[int]) -> None:
        unchanged = set(rows) == self._ticked
        self.grid.ticked = sorted(rows)
        if unchanged:  # explorers that came later follow now
            self._changed()

    def _of(self, labels: Iterable[str]) -> set[int]:
        wanted = set(labels)
        return {row for row, label in enumerate(self._all["label"]) if label in wanted}

    def _changed(self, _: Any = None) -> None:
        problems = []
        for explorer in self._fed.values():
            try:
                if shown := getattr(self, explorer.shows):
                    explorer.look_at(shown, self.encoders)
            except (ValueError, WorkbenchError) as problem:  # the others follow all the same
                problems.append(problem_html(problem))
        self.problem.html = "".join(dict.fromkeys(problems))
        self._draw()

    def _draw(self) -> None:
        self.grid.note = f"; {len(self._ticked)} ticked{self._shared}{self._older}"
        self.means.html = self._means()

    def _means(self) -> str:
        if not self._ticked:
            return "<p>No run is ticked.</p>"
        return _table(seed_table(self.runs).drop(columns="settings", errors="ignore").reset_index())

    def static(self) -> str:
        ticked = sorted(self._ticked)
        suite = escape(self.suite + self._older)
        head = f"<p>{len(ticked)} of {len(self._all)} runs on {suite}. Run the cell to choose.</p>"
        facts = self._facts.loc[ticked]
        facts = facts.assign(score=facts["score"].map("{:.2f}".format)) if "score" in facts else facts
        return head + _table(facts) + self._means()


def _table(frame: pd.DataFrame) -> str:
    """Return a table of texts; labels and settings are aligned left."""
    kinds = ["text" if head in ("label", "settings") else "number" for head in frame]
    rows = frame.itertuples(index=False, name=None)
    lines = [tr(map(td, (escape(str(each)) for each in row), kinds)) for row in rows]
    return framed(table("".join(map(th, frame, kinds)), lines))
