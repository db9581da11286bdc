"""One table of all labels on all suites, with marks for differences that are more than chance."""

import html
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from workbench.data import AVERAGES
from workbench.errors import SettingError, unknown_name
from workbench.files import set_name
from workbench.metrics import holm, permutation_test
from workbench.runs import read_rows
from workbench.views.finished import default_baseline, format_spread, label_runs, read_or_warn
from workbench.views.paired import resampled, with_opponents

_LATEX = {"±": r"$\pm$", " ↑": r"$^{\uparrow}$", " ↓": r"$^{\downarrow}$"}


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
        """The meaning of values and marks."""
        return (
            "Spearman, of transfer tasks accuracy, x 100, mean ± standard deviation over seeds. ↑ better, ↓ worse than "
            f"{self.baseline} in every seed: paired permutation tests, p < {self.alpha:g} after Holm's correction for "
            f"{len(self.tests)} tests."
        )

    def cells(self) -> pd.DataFrame:
        """Return the texts of the table with their marks."""
        cells = self.values.copy()
        for label, suite, verdict in self.tests[["label", "suite", "verdict"]].itertuples(index=False):
            cells.loc[label, suite] += {"better": " ↑", "worse": " ↓", "": ""}[verdict]
        return cells

    def to_csv(self) -> str:
        """Return a line for each label and suite: value, difference (both x 100), p_value, adjusted, verdict."""
        long = self.values.reset_index().melt("label", var_name="suite", value_name="value")
        tests = self.tests.assign(difference=100 * self.tests["difference"])
        return long.merge(tests, how="left", on=["label", "suite"]).to_csv(index=False, lineterminator="\n")

    def to_markdown(self) -> str:
        """Return the table for a README."""
        cells = self.cells().rename_axis("").reset_index().replace(r"\|", r"\\|", regex=True)
        rows = [cells.columns, ["---"] * len(cells.columns), *cells.to_numpy()]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def to_latex(self) -> str:
        """Return the table for a paper; it needs the package booktabs."""
        cells = self.cells().rename_axis(None)
        latex = cells.to_latex(escape=True, column_format="l" + "r" * len(cells.columns))
        for mark, command in _LATEX.items():
            latex = latex.replace(mark, command)
        return latex

    def to_html(self) -> str:
        """Return the table for a page, with its caption."""
        return f"{self.cells().to_html(na_rep='')}<p>{html.escape(self.caption)}</p>"

    _repr_html_ = to_html


def compare(
    runs_root: str | Path = "runs",
    *,
    suites: Sequence[str] = (),
    baseline: str = "",
    alpha: float = 0.05,
    samples: int = 1000,
    tests: bool = True,
    mixed: bool = False,
) -> Comparison:
    """Compare every label of finished runs with the baseline on every suite, in one table.

    Args:
        runs_root: Folder of runs.
        suites: Columns of the table, in this order; none: all that a finished run was scored on.
        baseline: A label; "": the first SimCSE, otherwise the first label.
        alpha: Chance of any false mark in the table.
        samples: Of each permutation test. Its result is stored in the folder of the run.
        tests: Whether to test; without tests the table has no marks.
        mixed: Also average over runs of different data or code.

    Raises:
        SettingError: No such label or suite, or no finished run.
        ValueError: Runs of one label read different data or were made by different code, and not `mixed`.
    """
    rows = [row for row in read_rows(runs_root) if row["status"] == "finished"]
    known = list(dict.fromkeys(suite for row in rows for suite in row["scores"]))
    wanted = list(map(set_name, suites)) or known
    if not rows or set(wanted) - set(known):
        cure = f"suites there are {', '.join(known)}" if known else "start one with: workbench run simcse"
        raise SettingError(f"no finished run under {runs_root} was scored on {', '.join(wanted) or 'anything'}; {cure}")
    runs = pd.DataFrame(rows).assign(label=label_runs(rows))
    runs = runs.sort_values(["label", "seed"], ignore_index=True)
    labels = list(dict.fromkeys(runs["label"]))
    base = baseline or default_baseline(labels)
    if base not in labels:
        raise SettingError(unknown_name("runs", base, labels, f"under {runs_root}"))
    groups = list(runs.groupby("label", sort=False))
    if not mixed:
        for label, group in groups:
            _require_alike(str(label), group)
    values = {
        suite: [format_spread(np.array([s.get(suite, [np.nan])[0] for s in group["scores"]])) for _, group in groups]
        for suite in wanted
    }
    tested = _test_labels(runs if tests else runs.head(0), base, wanted, samples, alpha)
    return Comparison(pd.DataFrame(values, pd.Index(labels, name="label"), wanted), tested, base, alpha)


def _require_alike(label: str, group: pd.DataFrame) -> None:
    """Raise ValueError if the runs of a label read different inputs, or were made by different code."""
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, facts in zip(group["path"], group["facts"], strict=True):
        kinds["code"][str(facts.get("git_commit"))].append(path)
        for role, given in facts.get("inputs", {}).items():
            if role not in ("base", "encoder"):  # a run of the same seed
                kinds[role][given["sha256"][:12]].append(path)
    for kind, versions in kinds.items():
        if len(versions) > 1:
            listed = "; ".join(f"{version}: {', '.join(paths)}" for version, paths in versions.items())
            raise ValueError(f"{label}: runs of different {kind} are not averaged ({listed}); mixed=True averages them")


def _test_labels(runs: pd.DataFrame, base: str, suites: Sequence[str], samples: int, alpha: float) -> pd.DataFrame:
    """Return the tests of a Comparison; an average has no pairs of its own to test."""
    by_path, results = dict(zip(runs["path"], runs["scores"], strict=True)), defaultdict(list)
    for run, path, _ in with_opponents(runs, base):
        for suite in (suite for suite in suites if suite in run["scores"].keys() & by_path[path] - AVERAGES.keys()):
            test = partial(resampled, permutation_test, suite=suite, base=(path, ""))
            found = read_or_warn(run["path"], partial(test, measure=run["scores"][suite][1], samples=samples))
            if found is not None and not np.isnan(found).any():
                results[run["label"], suite].append(found)
    tests = []
    for (label, suite), found in results.items():
        gains, p_values = zip(*found, strict=True)
        one_way = min(gains) > 0 or max(gains) < 0
        tests.append((label, suite, float(np.mean(gains)), max(p_values) if one_way else 1.0))
    table = pd.DataFrame(tests, columns=["label", "suite", "difference", "p_value"])
    adjusted = holm(table["p_value"])
    verdict = np.where(adjusted < alpha, np.where(table["difference"] > 0, "better", "worse"), "")
    return table.assign(adjusted=adjusted, verdict=verdict)
