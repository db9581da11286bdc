"""The scores of several systems on the same suites, from files, runs or encoders."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from workbench.data import Pairs
from workbench.errors import DataError
from workbench.evaluation import Report, extract_table
from workbench.files import Facts


def metrics_of(source: Any) -> Facts:
    """Return the metrics of a `Report`, or of a `Run`, which reads them."""
    if isinstance(source, Report):
        return source.metrics
    return source.metrics()


@dataclass(frozen=True, eq=False)
class SystemScores:
    """Scores and rankings of systems by name.

    Attributes:
        reports: system -> a `Report` or a finished `Run` for each of its seeds, a single one for a
            system without seeds. Its `scores` are empty for a suite that has only rankings, as
            judgements of documents have. In `rankings` the score of a target that the system did
            not retrieve is -inf.
        pairs: suite -> its scored pairs, which views show; a suite of rankings alone has none.
        notes: Sentences on what was guessed and on rows that were left out.
    """

    reports: dict[str, list[Any]]
    pairs: dict[str, Pairs] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def suites(self) -> list[str]:
        """The suites that a system was scored on."""
        return list(
            dict.fromkeys(
                suite
                for reports in self.reports.values()
                for report in reports
                for suite in metrics_of(report)
            )
        )

    @property
    def first(self) -> Facts:
        """system -> its report, that of the first seed; what views and explorers take."""
        return {name: reports[0] for name, reports in self.reports.items()}


def join_systems(parts: Iterable[SystemScores]) -> SystemScores:
    """Return the systems of several sources; one that occurs in two has the suites of both.

    Raises:
        DataError: Two sources have scores of one system on one suite.
    """
    reports = {}
    pairs = {}
    notes = []
    for part in parts:
        for name, own in part.reports.items():
            reports[name] = _joined(name, reports[name], own) if name in reports else own
        pairs |= part.pairs
        notes += part.notes
    return SystemScores(reports, pairs, notes)


def _joined(name: str, first: list[Any], second: list[Any]) -> list[Report]:
    """Return the reports of one system from two sources, which must have other suites."""
    if len(first) != len(second):
        raise DataError(
            f"{name} has {len(first)} seeds in one source and {len(second)} in another; compare "
            "them one at a time"
        )
    reports = []
    for pair in zip(first, second, strict=True):
        metrics, others = map(metrics_of, pair)
        if common := metrics.keys() & others.keys():
            raise DataError(
                f"two sources, or two parts of one, have scores of {name} on {min(common)}; rename "
                "the system in one of them, or give the path of a file with one of them (of mteb's "
                "predictions: of the folder that has both)"
            )
        tables = [
            pd.concat([extract_table(one, kind) for one in pair], ignore_index=True)
            for kind in ("scores", "rankings")
        ]
        reports.append(Report(metrics | others, *tables))
    return reports
