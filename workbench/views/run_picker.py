"""The picker of runs: which of them, with the encoder before training or without, and the rankings
that they have."""

from collections.abc import Iterable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd

from workbench.config import BaselineConfig
from workbench.data import Pairs
from workbench.errors import WorkbenchError
from workbench.files import set_name
from workbench.runs import Run, split_common_settings
from workbench.views._style import framed, problem_html
from workbench.views._table import Panel, TableWidget, View, dropdown, value_of
from workbench.views.ask import Untrained
from workbench.views.run_tables import (
    BEFORE,
    pairs_of,
    read_or_warn,
    rows_by_suite,
    seed_table,
    suite_version,
)
from workbench.views.notebooks import table_html

SEEDS = {"first": "the first of each", "each": "one by one"}


class RunPicker(View):
    """A table of finished runs to tick, and the means of those that are ticked.

    `runs` has the rows of the ticked runs, for every table and figure that takes `finished_runs`;
    `rankings`, `scores` and `encoders` are what explorers take. The explorers that `feeds` names
    show the ticked runs at once."""

    settable = ("labels", "seeds", "before")
    before, seeds = value_of("before"), value_of("seeds")

    def __init__(
        self,
        runs: pd.DataFrame,
        suite: str,
        *,
        labels: Sequence[str] = (),
        before: bool = True,
        seeds: str = "first",
    ) -> None:
        """Show `finished_runs` of a suite, with the runs of these labels ticked; ValueError for an
        unknown label.

        Without labels the newest setting of each method, with its seeds, and of each evaluated
        encoder is ticked, of runs on the same version of the suite as the newest. `before` (whether
        the encoder before training is shown too) and `seeds` are explained at `rankings`."""
        self._all = runs.reset_index(drop=True)
        self.suite = suite
        self._explorers: dict[str, Any] = {}
        facts = [read_or_warn(path, Run.facts) or {} for path in runs["path"]]
        ended = [str(each.get("ended", "")) for each in facts]
        group = runs["method"].where(runs["method"] != "base", runs["encoder"])
        times = self._all.assign(
            group=group.to_numpy(),
            ended=ended,
            version=[str(suite_version(each, suite)) for each in facts],
        ).sort_values("ended", kind="stable")
        is_newest = times["version"].isin(times["version"].tail(1))
        latest = times[is_newest].groupby("group")["label"].last()
        is_ticked = (is_newest & times["label"].isin(latest)).sort_index()
        shared, own = split_common_settings(runs["settings"].tolist())
        self._note = f", all with {shared}" if shared else ""
        if not (labels or is_ticked.all()):
            self._note += (
                "; at first the newest setting of each method is ticked, on the newest "
                "version of the suite"
            )
        self._facts = self._all[["label"]].assign(
            settings=own,
            seed=self._all["seed"],
            score=(100 * self._all["spearman"].fillna(self._all["accuracy"])).round(2),
            finished=[time[:16].replace("T", " ") for time in ended],
        )
        self.grid = TableWidget(label="runs", ticks=True, height=600)
        self.grid.set_rows(self._facts, [{"name": name} for name in self._facts])
        self._tick(np.flatnonzero(is_ticked))
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
        self.seeds = seeds
        if labels:
            self.labels = labels
        self.grid.observe(self._update, "ticked")
        every, none = (
            ipywidgets.Button(description=f"{verb} all listed") for verb in ("tick", "untick")
        )
        every.on_click(lambda _: self._tick({*self.grid.ticked, *self.grid.listed}))
        none.on_click(lambda _: self._tick({*self.grid.ticked} - {*self.grid.listed}))
        super().__init__(
            [
                ipywidgets.HBox([*self.controls.values(), every, none]),
                self.grid,
                self.problem,
                self.means,
            ]
        )
        self._update()

    @property
    def labels(self) -> list[str]:
        """Return the labels of the ticked runs; set to tick all runs of some labels, ValueError for
        an unknown one."""
        return list(dict.fromkeys(self.runs["label"]))

    @labels.setter
    def labels(self, labels: Sequence[str]) -> None:
        known = self._all["label"]
        if unknown := [label for label in labels if label not in known.array]:
            names = ", ".join(known.unique()) or "no finished runs"
            raise ValueError(f"no runs {', '.join(map(repr, unknown))}; there are {names}")
        self._tick(np.flatnonzero(known.isin(labels)))

    @property
    def runs(self) -> pd.DataFrame:
        """Return the rows of the ticked runs."""
        return self._all.iloc[sorted(self.grid.ticked)].reset_index(drop=True)

    @property
    def rankings(self) -> dict[str, pd.DataFrame]:
        """Return label -> rankings of the suite, of the encoders before training too if `before` is
        set.

        These are labelled "before", or "before LABEL" if runs started from different ones. If
        `seeds` is "first" the first ticked run of each label is shown, if it is "each" all of them,
        as "label, seed 0"."""
        return self._tables("rankings")

    @property
    def scores(self) -> dict[str, pd.DataFrame]:
        """Return label -> scores of the pairs of the suite, labelled as `rankings`."""
        return self._tables("scores")

    @property
    def encoders(self) -> dict[str, Any]:
        """Return label -> encoder for `Why` and `Ask`, labelled as `rankings`.

        A run that cannot encode a sentence alone, such as tf-idf or a cross-encoder, is left out.
        """
        sources = self._sources()
        return {
            name: encoder for name, path, stage in sources if (encoder := _encoder(path, stage))
        }

    @property
    def pairs(self) -> Pairs:
        """Return `pairs_of` the suite."""
        return pairs_of(self._all, self.suite)

    def _sources(self) -> list[tuple[str, str, str]]:
        """Return name, folder and stage of the shown encoders: first the starts, or those that have
        their scores."""
        runs = self.runs
        names = runs["label"]
        if self.seeds == "each":
            names = names + ", seed " + runs["seed"].astype(str)
        paths = runs.groupby(names, sort=False)["path"].first().to_dict()
        ends = [(name, path, "") for name, path in paths.items()]
        starts = []
        if self.before:
            for name, path in _starts(paths).items():
                start = name, path, BEFORE
                starts.append(next((end for end in ends if self._score_alike(start, end)), start))
        return list(dict.fromkeys([*starts, *ends]))

    def _score_alike(self, *sources: tuple[str, str, str]) -> bool:
        one, two = (self._table("scores", path, stage) for _, path, stage in sources)
        return 0 < len(one) == len(two) and np.allclose(
            one["predicted"], two["predicted"], rtol=0, atol=1e-5
        )

    def _table(self, kind: str, path: str, stage: str) -> pd.DataFrame:
        parts = read_or_warn(path, partial(rows_by_suite, kind=kind, stage=stage)) or {}
        return parts.get(set_name(self.suite), pd.DataFrame())

    def _tables(self, kind: str) -> dict[str, pd.DataFrame]:
        tables = {label: self._table(kind, path, stage) for label, path, stage in self._sources()}
        return {label: table.copy() for label, table in tables.items() if len(table)}

    def feeds(self, *explorers: Any) -> None:
        """Let a `RankingExplorer` and a `PairExplorer` show the ticked runs, from here on.

        Of each kind only the last one follows, because a cell that is run again makes another
        explorer. If nothing is ticked they go on showing what they showed."""
        self._explorers |= {explorer.kind: explorer for explorer in explorers}

    def _tick(self, rows: Iterable[int]) -> None:
        self.grid.ticked = sorted(map(int, rows))

    def _update(self, _: Any = None) -> None:
        """Show the ticked runs, here and in the explorers that follow."""
        self.grid.note = f"; {len(self.grid.ticked)} ticked{self._note}"
        self.means.html = self._means()
        problems = {}
        encoders = self.encoders if self._explorers else {}
        for explorer in self._explorers.values():
            try:
                if data := getattr(self, explorer.shows):
                    explorer.look_at(data, encoders)
            except (ValueError, WorkbenchError) as problem:  # the others follow all the same
                problems[problem_html(problem)] = None
        self.problem.html = "".join(problems)

    def _means(self) -> str:
        if not self.grid.ticked:
            return "<p>No run is ticked; the views below keep showing the last ones.</p>"
        return framed(table_html(seed_table(self.runs).drop(columns="settings", errors="ignore")))

    def static(self) -> str:
        text = (
            f"{len(self.grid.ticked)} of {len(self._all)} runs on {escape(self.suite + self._note)}"
        )
        ticked = table_html(self._facts.loc[sorted(self.grid.ticked)])
        return f"<p>{text}. Run the cell to choose.</p>{framed(ticked)}{self._means()}"


def _starts(paths: dict[str, str]) -> dict[str, str]:
    """Return a run for each different start, by label; that of the last run first, as explorers
    compare these two."""
    starts: dict[Any, tuple[str, str]] = {}
    for name, path in paths.items():
        if Run(path).has(BEFORE) and (facts := read_or_warn(path, Run.facts)):
            start = (
                facts.get("inputs", {}).get("encoder", {}).get("sha256"),
                facts["settings"].get("pooling"),
            )
            starts[start] = starts.pop(start, (name, path))
    return {
        BEFORE if len(starts) == 1 else f"{BEFORE} {name}": path
        for name, path in reversed(starts.values())
    }


def _encoder(path: str, stage: str) -> Path | Untrained | None:
    """Return the encoder of a run, or of its start if `stage` is given; None if it cannot encode a
    single sentence."""
    folder, config = Path(path) / "encoder", read_or_warn(path, lambda run: run.config)
    if isinstance(config, BaselineConfig):
        return Untrained(Path(path)) if config.kind == "pooling" else None
    if not folder.is_dir() or getattr(config, "architecture", "") == "cross-encoder":
        return None
    return Untrained(Path(path)) if stage else folder
