"""Compare finished runs: with each other, with their start, and by numbers of seeds and pairs."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pandas import DataFrame

from workbench.errors import SettingError, require_known
from workbench.evaluation import RANKING_COLUMNS, Report
from workbench.files import Names, as_list, set_name
from workbench.metrics import smallest_difference
from workbench.runs import BEFORE, Run, main_suite, read_row
from workbench.systems import SystemComparison, SystemScores, compare_scores
from workbench.views import run_tables
from workbench.views.run_tables import read_or_warn
from workbench.views.system_sources import runs_by_seed

# What a verdict says -> what to try.
_ADVICE = {
    "worse than": "Try a lower learning_rate, fewer epochs, or more training data.",
    "No clear difference": "Try more training data, more epochs or more test pairs.",
    "cannot be compared": "Use another suite or a lower learning_rate.",
}
# Of a table without rows.
_COLUMNS = "suite system measure seeds difference adjusted"


def compare_runs(
    runs: DataFrame, suites: Names, baseline: str = "", *, samples: int = 1000
) -> SystemComparison:
    """Compare the labels of finished runs on suites; the seeds of a label are one system.

    Args:
        runs: As `finished_runs` returns them.
        suites: A set, or an average of sets, whose pairs are resampled within each set; or several;
            (): all on which the runs were scored.
        baseline: A label, or "before": the encoders before training, of the same seed; by default
            the first SimCSE, otherwise the first label, and "before" if there is one label only.
        samples: As of `compare_scores`.

    Example:
        compare_runs(views.finished_runs("runs", "stsb-test"), "stsb-test").verdicts()

    Raises:
        SettingError: There is no such label; or runs of one seed began with different encoders and
            are to be compared with "before".
        DataError: Runs of one label, or the scores of two labels, are of different data.
    """
    scores, name = systems_of_runs(runs, baseline)
    if not scores.reports:
        nothing = DataFrame(columns=_COLUMNS.split())
        return SystemComparison(nothing, name, scores, [])
    names = [*map(set_name, as_list(suites))]
    return compare_scores(scores, baseline=name, suites=names, samples=samples)


def systems_of_runs(runs: DataFrame, baseline: str) -> tuple[SystemScores, str]:
    """Return the runs of each label as a system, and the name of the baseline.

    The arguments are those of `compare_runs`.
    """
    run_tables.require_labels(runs)
    labels = list(dict.fromkeys(runs["label"]))
    # With one label there is nothing to compare with but the start.
    name = baseline or (run_tables.default_baseline(labels) if len(labels) > 1 else BEFORE)
    if labels:
        require_known("runs", name, [*labels, BEFORE], "on this suite")
    systems = {}
    if name == BEFORE and (starts := _starts(runs)):
        systems[BEFORE] = starts
    for label, of_label in runs.groupby("label", sort=False):
        rows = [read_row(Path(path)) for path in of_label["path"]]
        if own := runs_by_seed(str(label), rows):
            systems[str(label)] = own
    # An evaluated encoder alone has no start: it is compared with nothing.
    if name == BEFORE:
        name = next(iter(systems), "")
    return SystemScores(systems), name


def smallest_differences(row: Mapping[str, Any]) -> DataFrame:
    """Return the smallest detectable differences by number of pairs (index) and of seeds (columns).

    A 95% interval (`hierarchical_interval`) is without 0 in 80 of 100 cases if the true difference
    is this one. Two trained settings differ less by pair than a run and its start.

    Args:
        row: Of `SystemComparison.table`, a system that was compared; one seed says nothing about
            others: all are nan.

    Returns:
        Differences in [0, 2] for a quarter, all, and four times the pairs, and for 2 to 10 seeds.
    """
    rows = {}
    for times in (0.25, 1, 4):
        # The deviation over pairs falls with the root of their number; that over seeds does not.
        pairs_std = row["pairs_std"] / math.sqrt(times)
        rows[round(times * row["pairs"])] = {
            n: smallest_difference(row["seed_std"], n, pairs_std=pairs_std) for n in range(2, 11)
        }
    return DataFrame.from_dict(rows, orient="index").rename_axis("pairs")


def compare_with_start(run: Run) -> str:
    """Return a sentence on whether the run is better than its start, and what to try if it is not.

    It is about an average of sets, or the first suite of the run.

    Example:
        print(views.compare_with_start(run))
    """
    if not run.has(BEFORE):
        return "The start was not evaluated, so the run cannot be compared with it."
    if run_tables.is_its_start(run):
        return (
            "It is its start: no step was better on dev, so that the start is kept. "
            "Try a lower learning_rate, more training data, or a teacher (rankcse)."
        )
    suite = main_suite(run.metrics())
    systems = {"its start": [_read_start(run)], run.config.method: [run]}
    verdicts = compare_scores(SystemScores(systems), suites=[suite]).verdicts()
    undefined = "The two cannot be compared: all gold scores, or all scores of one, are equal."
    verdict = next(iter(verdicts), undefined)
    advice = next((text for word, text in _ADVICE.items() if word in verdict), "")
    return f"{verdict} {advice}".strip()


def _starts(runs: DataFrame) -> list[Report]:
    """Return the encoder before training of each seed."""
    stored = runs.loc[[Run(path).has(BEFORE) for path in runs["path"]]]
    # Another device changes the last digits of a score.
    starts = stored.round({"before": 4}).drop_duplicates(["seed", "before"])
    if starts["seed"].duplicated().any():
        raise SettingError(
            "runs of one seed began with different encoders, so there is no one 'before'; choose "
            "the runs of one label, or a label as the baseline"
        )
    reports = (read_or_warn(path, _read_start) for path in starts["path"])
    return list(filter(None, reports))


def _read_start(run: Run) -> Report:
    # What runs were scored on has pairs, so that their rankings need not be read.
    rankings = DataFrame(columns=RANKING_COLUMNS)
    return Report(run.metrics(BEFORE), run.scores(BEFORE), rankings, run.config)
