"""One table of all labels on all suites, with marks for differences that are more than chance."""

import html
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

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
    mixed: bool = False,
) -> Comparison:
    """Compare every label of finished runs with the baseline on every suite, in one table.

    Args:
        runs_root: Folder of runs.
        suites: Columns of the table; none: all that a finished run was scored on.
        baseline: A label; "": the first SimCSE, otherwise the first label.
        alpha: Chance of any false mark in the table.
        samples: Of each permutation test. Its result is stored in the folder of the run.
        mixed: Also average over runs of different data or code.

    Raises:
        SettingError: No such label or suite, or no finished run.
        ValueError: Runs of one label read different data or were made by different code, and not `mixed`.
    """
    rows = [row for row in read_rows(runs_root) if row["status"] == "finished"]
    known = list(dict.fromkeys(suite for row in rows for suite in row["scores"]))
    columns = list(map(set_name, suites)) or known
    if unknown := set(columns) - set(known):
        raise SettingError(unknown_name("suite", min(unknown), known, f"of finished runs under {runs_root}"))
    if not rows:
        raise SettingError(f"no finished run under {runs_root}; start one with: workbench run simcse")
    runs = pd.DataFrame(rows).assign(label=label_runs(rows)).sort_values(["label", "seed"], ignore_index=True)
    groups = {str(label): group for label, group in runs.groupby("label")}
    base = baseline or default_baseline([*groups])
    if base not in groups:
        raise SettingError(unknown_name("runs", base, groups, f"under {runs_root}"))
    for label, group in groups.items() if not mixed else ():
        _require_alike(label, group)
    scores = pd.DataFrame([{suite: score for suite, (score, _) in row.items()} for row in runs["scores"]])
    table = scores.reindex(columns=columns).groupby(runs["label"]).agg(format_spread)
    return Comparison(table, _test_labels(runs, base, columns, samples, alpha), base, alpha)


def _require_alike(label: str, group: pd.DataFrame) -> None:
    """Raise ValueError if the runs of a label read different inputs, or were made by different code."""
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, facts in zip(group["path"], group["facts"], strict=True):
        kinds["code"][str(facts.get("git_commit"))].append(path)
        for role, source in facts.get("inputs", {}).items():
            if role not in ("base", "encoder"):  # a run of the same seed
                kinds[role][source["sha256"][:12]].append(path)
    for kind, versions in kinds.items():
        if len(versions) > 1:
            listed = "; ".join(f"{version}: {', '.join(paths)}" for version, paths in versions.items())
            raise ValueError(f"{label}: runs of different {kind} are not averaged ({listed}); mixed=True averages them")


def _test_labels(runs: pd.DataFrame, base: str, suites: Sequence[str], samples: int, alpha: float) -> pd.DataFrame:
    """Return the tests of a Comparison; an average has no pairs of its own to test."""
    scores, rows = runs.set_index("path")["scores"], []
    for run, path, _ in with_opponents(runs, base):
        for suite in (suite for suite in suites if suite in run["scores"].keys() & scores[path] - AVERAGES.keys()):
            options = {"suite": suite, "base": (path, ""), "measure": run["scores"][suite][1], "samples": samples}
            numbers = read_or_warn(run["path"], partial(resampled, permutation_test, **options))
            rows += [(run["label"], suite, *numbers)] if numbers else []
    tests: Any = pd.DataFrame(rows, columns=["label", "suite", "difference", "p_value"]).dropna()
    tests = tests.groupby(["label", "suite"], sort=False)
    table = tests.agg({"difference": "mean", "p_value": "max"}).reset_index()
    one_way = (tests["difference"].min() > 0) | (tests["difference"].max() < 0)
    table["p_value"] = table["p_value"].where(one_way.to_numpy(), 1.0)
    adjusted = holm(table["p_value"])
    verdict = np.where(adjusted < alpha, np.where(table["difference"] > 0, "better", "worse"), "")
    return table.assign(adjusted=adjusted, verdict=verdict)
