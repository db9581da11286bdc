"""Labels beside labels on every suite: one table, marked where a difference is more than chance, for papers too."""

import functools
import html
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import SettingError, unknown_name
from workbench.files import set_name
from workbench.metrics import holm, permutation_test
from workbench.runs import Run, read_rows, scored
from workbench.views._kept import kept, scores_checksum
from workbench.views.comparison import first_baseline, labels_of, on_same_pairs, readable, spread

_MARKS = {"better": ("↑", r"$^{\uparrow}$"), "worse": ("↓", r"$^{\downarrow}$")}


@dataclass(frozen=True)
class Comparison:
    """Spearman or accuracy x 100, mean ± deviation over seeds, of every label (row) on every suite (column).

    tests: label, suite, difference (mean over seeds, [-2, 2]), p_value (the largest over seeds), adjusted (by Holm over
    all tests of the table), verdict ("better", "worse" or ""). A verdict holds in every seed.
    """

    values: pd.DataFrame
    tests: pd.DataFrame
    baseline: str
    alpha: float

    @property
    def caption(self) -> str:
        """What the marks say."""
        return (
            "Spearman, of transfer tasks accuracy, x 100, mean ± standard deviation over seeds. ↑ better, ↓ worse than "
            f"{self.baseline} in every seed: paired permutation tests, p < {self.alpha:g} after Holm's correction for "
            f"{len(self.tests)} tests."
        )

    def cells(self, style: int = 0) -> pd.DataFrame:
        """The texts of the table, marked; style 0: characters, 1: LaTeX."""
        found = self.values.copy()
        for row in self.tests.to_dict("records"):
            if row["verdict"]:
                mark = _MARKS[row["verdict"]][style]
                found.loc[row["label"], row["suite"]] += mark if style else f" {mark}"
        return found

    def to_csv(self) -> str:
        """label, suite, value and difference (x 100 both), p_value, adjusted, verdict: a line each."""
        long = self.values.reset_index().melt("label", var_name="suite", value_name="value")
        tests = self.tests.assign(difference=100 * self.tests["difference"])
        return long.merge(tests, how="left", on=["label", "suite"]).to_csv(index=False, lineterminator="\n")

    def to_markdown(self) -> str:
        """A table for a README."""
        cells = self.cells()
        lines = [
            ["", *cells],
            ["---"] * (1 + len(cells.columns)),
            *([label, *row] for label, *row in cells.itertuples()),
        ]
        return "".join(f"| {' | '.join(str(text).replace('|', chr(92) + '|') for text in row)} |\n" for row in lines)

    def to_latex(self) -> str:
        """A table for a paper; needs the package booktabs."""
        cells = self.cells(1)
        rows = [[_tex(label), *(text.replace("±", r"$\pm$") for text in row)] for label, *row in cells.itertuples()]
        body = "".join(f"{' & '.join(row)} \\\\\n" for row in rows)
        head = " & ".join(["", *map(_tex, cells)])
        columns = "l" + "r" * len(cells.columns)
        begin, end = f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n", "\\bottomrule\n\\end{tabular}\n"
        return f"{begin}{head} \\\\\n\\midrule\n{body}{end}"

    def to_html(self) -> str:
        """A table for a page, with what the marks say under it."""
        return f"{self.cells().to_html(na_rep='')}<p>{html.escape(self.caption)}</p>"

    _repr_html_ = to_html


def compare(
    runs_root: str | Path = "runs",
    *,
    suites: tuple[str, ...] | list[str] = (),
    baseline: str = "",
    alpha: float = 0.05,
    samples: int = 1000,
    tests: bool = True,
    mixed: bool = False,
) -> Comparison:
    """Every label of finished runs against the baseline on every suite, in one table.

    Args:
        runs_root: Folder of runs.
        suites: Which, in this order; none: all that a finished run was scored on.
        baseline: A label; "": the first SimCSE, else the first label.
        alpha: Chance of any false mark in the table.
        samples: Of each permutation test; what was computed stands beside the run and is not computed again.
        tests: Whether to test at all; without, the table has no marks and is there at once.
        mixed: Average also over runs of other data or other code.

    Raises:
        SettingError: No such label or suite, or no finished run.
        ValueError: Runs of one label that began with other data or were made by other code
            (and not `mixed`): the text says which.
    """
    rows = [row for row in read_rows(runs_root) if row["status"] == "finished"]
    every = list(dict.fromkeys(suite for row in rows for suite in scored(row)))
    wanted = list(map(set_name, suites)) or every
    if not rows or set(wanted) - set(every):
        there = f"suites there are {', '.join(every)}" if every else "start one with: workbench run simcse"
        raise SettingError(
            f"no finished run under {runs_root} was scored on {', '.join(wanted) or 'anything'}; {there}"
        )
    groups = _by_label(rows)
    base = baseline or first_baseline(list(groups))
    if base not in groups:
        raise SettingError(unknown_name("runs", base, groups, f"under {runs_root}"))
    if not mixed:
        for label, group in groups.items():
            _require_alike(label, group)
    scores = {label: [scored(row) for row in group] for label, group in groups.items()}
    texts = {
        suite: [spread(np.array([one.get(suite, (np.nan, ""))[0] for one in group])) for group in scores.values()]
        for suite in wanted
    }
    values = pd.DataFrame(texts, index=pd.Index(groups, name="label"), columns=wanted)
    tested = groups if tests else {base: groups[base]}
    return Comparison(values, _tests(tested, base, wanted, samples, alpha), base, alpha)


def _by_label(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Label -> its runs, by seed."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for label, row in sorted(zip(labels_of(rows), rows, strict=True), key=lambda pair: (pair[0], pair[1]["seed"])):
        groups[label].append(row)
    return groups


def _require_alike(label: str, group: list[dict[str, Any]]) -> None:
    """Raises ValueError where the runs of a label differ in what they read, or in the code that made them."""
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in group:
        facts = row["facts"]
        kinds["code"][str(facts.get("git_commit"))].append(row["path"])
        for role, found in facts.get("inputs", {}).items():
            if role not in ("base", "encoder"):  # a run of the same seed
                kinds[role][found["sha256"][:12]].append(row["path"])
    for what, found in kinds.items():
        if len(found) > 1:
            told = "; ".join(f"{value}: {', '.join(paths)}" for value, paths in found.items())
            raise ValueError(f"{label}: runs of different {what} are not averaged ({told}); mixed=True averages them")


def _tests(
    groups: dict[str, list[dict[str, Any]]], base: str, suites: list[str], samples: int, alpha: float
) -> pd.DataFrame:
    """The tests of a Comparison."""
    theirs = {row["seed"]: _Scored(row) for row in groups[base]}
    first, found = theirs[min(theirs)], []
    for label in (label for label in groups if label != base):
        seeds = [_against(_Scored(row), theirs.get(row["seed"], first), suites, samples) for row in groups[label]]
        for suite in suites:
            known = [seed[suite] for seed in seeds if suite in seed]
            if known:
                gains, chances = zip(*known, strict=True)
                one_way = min(gains) > 0 or max(gains) < 0
                found.append((label, suite, float(np.mean(gains)), max(chances) if one_way else 1.0))
    tests = pd.DataFrame(found, columns=["label", "suite", "difference", "p_value"])
    adjusted = holm(tests["p_value"])
    verdict = np.where(adjusted < alpha, np.where(tests["difference"] > 0, "better", "worse"), "")
    return tests.assign(adjusted=adjusted, verdict=verdict)


class _Scored:
    """A run's scored pairs, read when they are needed."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.path, self.scored = Path(row["path"]), scored(row)
        self.checksum = scores_checksum(row["facts"])

    @functools.cached_property
    def _parts(self) -> dict[Any, pd.DataFrame]:
        scores = readable(self.path, Run.scores)
        return {} if scores is None else dict(tuple(scores.groupby("suite", sort=False)))

    def of(self, suite: str) -> pd.DataFrame | None:
        return self._parts.get(suite)


def _against(ours: _Scored, theirs: _Scored, suites: list[str], samples: int) -> dict[str, list[float]]:
    """Suite -> difference and p-value of two runs."""

    def test(suite: str) -> tuple[float, float] | None:
        one, two = ours.of(suite), theirs.of(suite)
        if one is None or two is None:
            return None
        sides = on_same_pairs(str(ours.path), one, str(theirs.path), two, suite)
        measure: Any = ours.scored[suite][1]
        columns = [sides[name] for name in ("gold", "predicted", "predicted_base")]
        return permutation_test(*columns, measure=measure, samples=samples)

    known = ours.checksum and theirs.checksum
    key = f"{samples} exchanges of ranks, {ours.checksum} against {theirs.checksum}" if known else ""
    return {suite: found for suite, found in kept(ours.path, key, suites, test).items() if not np.isnan(found).any()}


def _tex(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "_%&#$" else letter for letter in str(text))
