"""The picker of runs, with or without their encoders before training, and of their rankings."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd
from pandas import DataFrame

from workbench.config import BaselineConfig
from workbench.data import Pairs
from workbench.errors import SettingError, WorkbenchError, unknown_name
from workbench.files import Facts, as_list, set_name
from workbench.runs import BEFORE, Run, split_common_settings
from workbench.views._style import problem_html, render
from workbench.views._table import Panel, TableWidget, View, dropdown, value_of
from workbench.views.encoders import StartingEncoder
from workbench.views.figures import Tables
from workbench.views.notebooks import table_html
from workbench.views.run_tables import pairs_of, read_or_warn, require_labels, seed_table

SEEDS = {"first": "the first of each", "each": "one by one"}
Source = tuple[str, str, str]  # label, folder of the run and stage


class RunPicker(View):
    """A table of finished runs to tick, and the means of those that are ticked.

    `runs` has the rows of the ticked runs, for every table and figure that takes `finished_runs`;
    `rankings`, `scores` and `encoders` are what explorers take. The explorers that `connect` names
    show the ticked runs at once.

    Example:
        picker = views.RunPicker(views.finished_runs("runs", "stsb-test"), "stsb-test")
        views.seed_table(picker.runs)
    """

    settable = ("labels", "seeds", "before")
    before = value_of("before")
    seeds = value_of("seeds")

    def __init__(
        self,
        runs: DataFrame,
        suite: str,
        *,
        labels: Sequence[str] = (),
        before: bool = True,
    ) -> None:
        """Show `finished_runs` of a suite, with the runs of these labels ticked.

        Args:
            runs: As `finished_runs` returns them.
            suite: That suite.
            labels: Labels, or methods for all of their labels. By default the newest setting of
                each method, with its seeds, and of each evaluated encoder, of runs on the same
                version of the suite as the newest; beside one of a single seed also the newest of
                several seeds.
            before: Whether the encoder before training is shown too, see `rankings`.

        Raises:
            SettingError: A label is unknown.
        """
        require_labels(runs)
        self._all = runs.reset_index(drop=True)
        self.suite = suite
        self._explorers = {}
        # What explorers show is read once, not with each tick.
        self._read = cache(_rows_of_suite)
        is_newest = self._are_newest()
        shared, differing = split_common_settings(runs["settings"].tolist())
        self._note = f", all with {shared}" if shared else ""
        if not (labels or is_newest.all()):
            self._note += (
                "; at first the newest setting of each method is ticked, on the newest "
                "version of the suite, and the newest of several seeds"
            )
        score = self._all["spearman"].fillna(self._all["accuracy"])
        # What the table shows; its rows have the numbers of those in `_all`.
        self._facts = self._all[["label"]].assign(
            settings=differing,
            seed=self._all["seed"],
            score=(100 * score).round(2),
            finished=self._all["ended"].str.slice(0, 16).str.replace("T", " "),
        )
        self.grid = TableWidget(label="runs", ticks=True, height=600)
        self.grid.set_rows(self._facts, [{"name": name} for name in self._facts])
        self._tick(np.flatnonzero(is_newest))
        self.problem = Panel()
        self.means = Panel()
        check = ipywidgets.Checkbox(
            before,
            description="before",
            tooltip="the encoder before training",
            indent=False,
            layout={"width": "auto"},
        )
        check.observe(self._update, "value")
        self.controls = {"seeds": dropdown("seeds", SEEDS, self._update), "before": check}
        if labels:
            self.labels = labels
        # From here on: the first ticks are drawn once, below.
        self.grid.observe(self._update, "ticked")
        tick = ipywidgets.Button(description="tick all listed")
        tick.on_click(lambda _: self._tick({*self.grid.ticked, *self.grid.listed}))
        untick = ipywidgets.Button(description="untick all listed")
        untick.on_click(lambda _: self._tick({*self.grid.ticked} - {*self.grid.listed}))
        row = ipywidgets.HBox([*self.controls.values(), tick, untick])
        super().__init__([row, self.grid, self.problem, self.means])
        self._update()

    def _are_newest(self) -> Any:
        """Return which runs are of the newest label of their method or evaluated encoder.

        The newest label of several seeds is among them.
        """
        is_baseline = self._all["method"] == BaselineConfig.method
        group = self._all["method"].mask(is_baseline, self._all["encoder"])
        # ISO times: their order as text is that in time, and a run without one is the oldest.
        runs = self._all.assign(group=group).sort_values("ended", kind="stable")
        # Scores on two versions of a set cannot be compared.
        is_current = runs["version"].isin(runs["version"].tail(1))
        current: Any = runs[is_current]
        # One later run does not hide the seeds of a sweep.
        seeds = current.groupby("label")["seed"].transform("nunique")
        parts = (current, current[seeds > 1])
        latest = pd.concat([part.groupby("group")["label"].last() for part in parts])
        return (is_current & runs["label"].isin(latest)).sort_index()

    @property
    def labels(self) -> list[str]:
        """Return the labels of the ticked runs; set them to tick all runs of some labels.

        A method that is no label stands for all of its labels.

        Raises:
            SettingError: A label that is set is unknown.
        """
        return list(dict.fromkeys(self.runs["label"]))

    @labels.setter
    def labels(self, labels: Sequence[str]) -> None:
        labels = as_list(labels)
        known = self._all["label"]
        methods = self._all["method"]
        others = set(labels).difference(known)
        if unknown := others.difference(methods):
            names = known.unique()
            raise SettingError(unknown_name("runs", min(unknown), names, f"on {self.suite}"))
        self._tick(np.flatnonzero(known.isin(labels) | methods.isin([*others])))

    @property
    def runs(self) -> DataFrame:
        """Return the rows of the ticked runs."""
        return self._all.iloc[sorted(self.grid.ticked)].reset_index(drop=True)

    @property
    def rankings(self) -> Tables:
        """Return label -> rankings of the suite.

        If `before` is set there are those of the encoders before training too, labelled "before",
        or "before LABEL" if runs started from different ones. If `seeds` is "first" the first
        ticked run of each label is shown, if it is "each" all of them, as "label, seed 0".
        """
        return self._tables("rankings")

    @property
    def scores(self) -> Tables:
        """Return label -> scores of the pairs of the suite, labelled as `rankings`."""
        return self._tables("scores")

    @property
    def encoders(self) -> Facts:
        """Return label -> encoder for `Why` and `Ask`, labelled as `rankings`.

        A run that cannot encode a sentence alone, such as tf-idf or a cross-encoder, is left out.
        """
        return {
            label: encoder
            for label, path, stage in self._sources()
            if (encoder := _encoder(path, stage))
        }

    @property
    def pairs(self) -> Pairs:
        """Return `pairs_of` the suite."""
        return pairs_of(self._all, self.suite)

    def _sources(self) -> list[Source]:
        """Return the shown encoders: first the starts, or the ends that have their scores.

        Explorers compare the first two: the start of the last run comes first.
        """
        runs = self.runs
        # With "first" the first ticked run of a label stands for all its seeds.
        names = runs["label"]
        if self.seeds == "each":
            names = names + ", seed " + runs["seed"].astype(str)
        paths: Any = runs.groupby(names, sort=False)["path"].first()
        ends: list[Source] = [(name, path, "") for name, path in paths.items()]
        starts = []
        for name, path, _ in reversed(ends):
            if self.before and Run(path).has(BEFORE):
                start = (name, path, BEFORE)
                # A start of several runs, or one that was evaluated too, is shown once.
                alike = (one for one in [*starts, *ends] if self._score_alike(start, one))
                starts.append(next(alike, start))
        sources = dict.fromkeys([*starts, *ends])
        is_single = sum(stage == BEFORE for *_, stage in sources) == 1
        shown = []
        for name, path, stage in sources:
            label = name
            if stage == BEFORE:
                label = BEFORE if is_single else f"{BEFORE} {name}"
            shown.append((label, path, stage))
        return shown

    def _score_alike(self, one: Source, two: Source) -> bool:
        first = self._table("scores", one)
        second = self._table("scores", two)
        if not 0 < len(first) == len(second):
            return False
        # Another batch or device changes the last digits of a score.
        return np.allclose(first["predicted"], second["predicted"], rtol=0, atol=1e-5)

    def _table(self, kind: str, source: Source) -> DataFrame:
        _, path, stage = source
        return self._read(path, stage, kind, set_name(self.suite))

    def _tables(self, kind: str) -> Tables:
        return {
            source[0]: table.copy()  # of a cached one
            for source in self._sources()
            if len(table := self._table(kind, source))
        }

    def connect(self, *explorers: Any) -> None:
        """Let a `RankingExplorer` and a `PairExplorer` show the ticked runs, from here on.

        Of each kind only the last one follows, because a cell that is run again makes another
        explorer. If nothing is ticked they go on showing what they showed.
        """
        self._explorers |= {explorer.kind: explorer for explorer in explorers}

    def _tick(self, rows: Iterable[int]) -> None:
        self.grid.ticked = sorted(map(int, rows))

    def _update(self, _: Any = None) -> None:
        """Show the ticked runs, here and in the explorers that follow."""
        self.grid.note = f"; {len(self.grid.ticked)} ticked{self._note}"
        self.means.html = self._means()
        # A dictionary, since two explorers may have the same problem.
        problems = {}
        encoders = self.encoders if self._explorers else {}
        for explorer in self._explorers.values():
            try:
                if data := getattr(self, explorer.shows):
                    explorer.set_data(data, encoders)
            except (ValueError, WorkbenchError) as problem:  # the others follow all the same
                problems[problem_html(problem)] = None
        self.problem.html = "".join(problems)

    def _means(self) -> str:
        if not self.grid.ticked:
            return "<p>No run is ticked; the views below keep showing the last ones.</p>"
        means = table_html(seed_table(self.runs).drop(columns="settings", errors="ignore"))
        # JupyterLab reads none of its text as mathematics.
        return f'<div class="mathjax_ignore"><div class="view">{means}</div></div>'

    def static(self) -> str:
        return render(
            "picker.html",
            view=self,
            count=len(self._all),
            note=self._note,
            ticked=table_html(self._facts.loc[sorted(self.grid.ticked)]),
            means=self._means(),
        )


def _rows_of_suite(path: str, stage: str, kind: str, suite: str) -> DataFrame:
    """Return the rows of scores.csv or rankings.csv (`kind`) of a suite; none, with a warning."""
    table = read_or_warn(path, getattr(Run, kind), stage=stage)
    if table is None:
        return DataFrame()
    return table[table["suite"] == suite].reset_index(drop=True)


def _encoder(path: str, stage: str) -> Run | StartingEncoder | None:
    """Return the encoder of a run, or of its start if `stage` is given.

    It is None if it cannot encode a sentence alone.
    """
    config = read_or_warn(path, lambda run: run.config)
    if isinstance(config, BaselineConfig):
        return StartingEncoder(Path(path)) if config.kind == "pooling" else None
    # A run without weights, such as one of tables only, still has its scores and rankings.
    folder = Path(path) / "encoder"
    if not folder.is_dir() or getattr(config, "architecture", "") == "cross-encoder":
        return None
    return StartingEncoder(Path(path)) if stage else Run(path)
