"""Choosing runs: which of them, with the encoder before training or without, their seeds averaged or one by one."""

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

import pandas as pd

from workbench.data import Pairs
from workbench.errors import WorkbenchError
from workbench.look._html import choice, field, framed, refused, table, td, th, tr
from workbench.look._listing import search_field, with_words
from workbench.look._live import Live
from workbench.look.comparison import readable, seed_table, suite_version
from workbench.look.of_runs import (
    SEEDS,
    encoders_of_runs,
    pairs_of_runs,
    paths_of_runs,
    rankings_of_runs,
    scores_of_runs,
)
from workbench.runs import Run, told_apart


class RunPicker(Live):
    """A table of finished runs with a box each; below it the means of those that are ticked.

    `runs` has the rows of what is ticked, for every table and figure that takes `finished_runs`; `rankings`, `scores`
    and `encoders` are what explorers take. The explorers that `feeds` names show what is ticked at once.
    """

    def __init__(
        self, runs: pd.DataFrame, suite: str, *, labels: Sequence[str] = (), before: bool = True, seeds: str = "first"
    ) -> None:
        """runs: as `finished_runs` gives them. labels, before, seeds: what is chosen at first, as `rankings_of_runs`
        takes it; without labels, the runs scored on the same version of the suite as the newest.

        Raises ValueError for a label that no run has.
        """
        paths_of_runs(runs, labels, seeds)
        self._all, self.suite, self.before, self.seeds = runs.reset_index(drop=True), suite, before, seeds
        facts = [readable(path, Run.facts) or {} for path in self._all["path"]]
        ended = [str(each.get("ended", "")) for each in facts]
        self._chosen, self._left = self._of(labels), ""
        if not labels and ended:
            versions = [suite_version(each, suite) for each in facts]
            newest = versions[ended.index(max(ended))]
            self._chosen = {number for number, version in enumerate(versions) if version == newest}
            rest = self._all.drop(index=[*self._chosen])
            names = ", ".join(f"{run['label']}, seed {run['seed']}" for run in rest.to_dict("records"))
            self._left = names and f"; scored on another version of {suite}, so not ticked at first: {names}"
        self._text = [" ".join(map(str, row)).casefold() for row in self._all[["label", "settings"]].to_numpy()]
        shared, own = told_apart(self._all["settings"].tolist())
        self._shared = f", all with {shared}" if shared else ""
        self._facts = self._all[["label"]].assign(
            settings=own,
            seed=self._all["seed"],
            score=(100 * self._all["spearman"].fillna(self._all["accuracy"])).map("{:.2f}".format),
            finished=[time[:16].replace("T", " ") for time in ended],
        )
        self._facts = self._facts.loc[:, (self._facts != "").any()]  # nothing that no run has
        self._fed: dict[str, Any] = {}
        self.search = self._problem = ""
        self._due = False  # whether those that are fed are to follow
        super().__init__("runs")

    @property
    def runs(self) -> pd.DataFrame:
        """The rows of what is ticked."""
        return self._all.loc[sorted(self._chosen)].reset_index(drop=True)

    @property
    def rankings(self) -> dict[str, pd.DataFrame]:
        """As `rankings_of_runs`, of what is ticked."""
        return rankings_of_runs(self.runs, self.suite, before=self.before, seeds=self.seeds)

    @property
    def scores(self) -> dict[str, pd.DataFrame]:
        """As `scores_of_runs`, of what is ticked."""
        return scores_of_runs(self.runs, self.suite, before=self.before, seeds=self.seeds)

    @property
    def pairs(self) -> Pairs:
        """As `pairs_of_runs`: the scored pairs of the suite. DataError where they are not on this machine."""
        return pairs_of_runs(self._all, self.suite)

    @property
    def encoders(self) -> dict[str, Any]:
        """As `encoders_of_runs`, of what is ticked."""
        return encoders_of_runs(self.runs, before=self.before, seeds=self.seeds)

    def feeds(self, *explorers: Any) -> None:
        """From here on a `RankingExplorer` and a `PairExplorer` show what is ticked; of nothing, what they showed.

        Of each kind the last alone: a cell that is run again makes another explorer.
        """
        self._fed |= {explorer.kind: explorer for explorer in explorers}

    def select(self, **chosen: Any) -> None:
        """Sets from code what is chosen: `labels`, all of whose runs are ticked, `before`, and how `seeds` are shown.

        None leaves what it names as it is. Raises TypeError for anything else, ValueError for a label that no run has
        and for no such way of seeds.
        """
        names = ("labels", "before", "seeds")
        self.put(names, {name: value for name, value in chosen.items() if value is not None or name not in names})

    def known(self) -> dict[str, Collection[str]]:
        return {"seeds": SEEDS}

    def given(self, name: str, value: Any) -> None:
        if name == "labels":
            paths_of_runs(self._all, value, "first")  # refuses what no run has
            self._chosen, self._due = self._of(value), True
        else:
            self.told(name, value)

    def controls(self) -> str:
        before = field("before", None, type="checkbox", checked=self.before)
        return (
            f'{choice("seeds", SEEDS, self.seeds)}<label title="the encoder before training">{before}before</label>'
            '<button name="tick" value="all">tick all listed</button><button name="tick" value="">none</button>'
            f"{search_field(self.search, 'words of label and settings')}"
        )

    def told(self, name: str, value: Any) -> None:
        if name in ("search", "before", "seeds"):
            setattr(self, name, value)
        elif name == "tick":
            listed = set(self._listed())
            self._chosen = self._chosen | listed if value else self._chosen - listed
        elif name.startswith("run "):
            number = {int(name.removeprefix("run "))}
            self._chosen = self._chosen | number if value else self._chosen - number
        self._due |= name != "search"

    def drawn(self) -> dict[str, str]:
        said = f"{len(self._chosen)} of {len(self._all)} runs ticked{escape(self._shared + self._left)}"
        return {
            "status": f'<span role="status" aria-live="polite">{said}</span>',
            "list": self._table(self._listed(), boxes=True),
            "means": self._means(),
            "problem": self._feed(),
        }

    def static(self) -> str:
        on = escape(self.suite + self._left)
        head = f"<p>{len(self._chosen)} of {len(self._all)} runs on {on}. Run the cell to choose.</p>"
        return head + self._table(sorted(self._chosen), boxes=False) + self._means()

    def _feed(self) -> str:
        """What cannot be shown together, such as seeds that ranked other targets; feeds, where it is due."""
        if not self._due:
            return self._problem
        problems, self._due = [], False
        for explorer in self._fed.values():
            try:
                if shown := getattr(self, explorer.shows):
                    explorer.look_at(shown, self.encoders)
            except (ValueError, WorkbenchError) as problem:  # the others follow all the same
                problems.append(refused(problem))
        self._problem = "".join(dict.fromkeys(problems))
        return self._problem

    def _of(self, labels: Iterable[str]) -> set[int]:
        wanted = set(labels)
        return {number for number, label in enumerate(self._all["label"]) if label in wanted}

    def _listed(self) -> list[int]:
        words = self.search.casefold().split()
        return [number for number, text in enumerate(self._text) if with_words(text, words)]

    def _table(self, numbers: Sequence[int], *, boxes: bool) -> str:
        rows = []
        for number in numbers:
            run = self._facts.loc[number]
            named, ticked = f"{run['label']}, seed {run['seed']}", number in self._chosen
            box = field(f"run {number}", None, type="checkbox", aria_label=named, checked=ticked) if boxes else "✓"
            rows.append([box, *(escape(str(text)) for text in run)])
        return _html(["", *self._facts], rows)

    def _means(self) -> str:
        if not self._chosen:
            return "<p>No run is ticked.</p>"
        means = seed_table(self.runs).drop(columns="settings", errors="ignore").reset_index()
        rows = [[escape(str(text)) for text in row] for row in means.itertuples(index=False, name=None)]
        return _html(list(means), rows)


def _html(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of these cells, which are HTML; labels and settings at the left."""
    kinds = ["text" if head in ("label", "settings") else "number" for head in heads]
    lines = [tr(map(td, cells, kinds)) for cells in rows]
    return framed(table("".join(map(th, heads, kinds)), lines))
