"""The scores of several systems on the same suites, from files, runs or encoders."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from workbench.data import Pairs
from workbench.errors import DataError
from workbench.evaluation import Report


@dataclass(frozen=True, eq=False)
class SystemScores:
    """Scores and rankings of systems by name.

    Attributes:
        reports: system -> a `Report` for each of its seeds, a single one for a system without
            seeds. Its `scores` are empty for a suite that has only rankings, as judgements of
            documents have. In `rankings` the score of a target that the system did not retrieve
            is -inf.
        pairs: suite -> its scored pairs, which views show; a suite of rankings alone has none.
        notes: Sentences on what was guessed and on rows that were left out.
    """

    reports: dict[str, list[Report]]
    pairs: dict[str, Pairs] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def suites(self) -> list[str]:
        """The suites that a system was scored on."""
        suites = dict.fromkeys(suite for own in self.reports.values() for suite in own[0].metrics)
        return list(suites)

    @property
    def first(self) -> dict[str, Report]:
        """system -> its report, that of the first seed; what views and explorers take."""
        return {name: reports[0] for name, reports in self.reports.items()}


def join_systems(parts: Iterable[SystemScores]) -> SystemScores:
    """Return the systems of several sources; one that occurs in two has the suites of both.

    Raises:
        DataError: Two sources have scores of one system on one suite.
    """
    reports: dict[str, list[Report]] = {}
    pairs: dict[str, Any] = {}
    notes: list[str] = []
    for part in parts:
        for name, own in part.reports.items():
            reports[name] = _joined(name, reports[name], own) if name in reports else own
        pairs |= part.pairs
        notes += part.notes
    return SystemScores(reports, pairs, notes)


def _joined(name: str, first: list[Report], second: list[Report]) -> list[Report]:
    """Return the reports of one system from two sources, which must have other suites."""
    import pandas as pd

    common = first[0].metrics.keys() & second[0].metrics.keys()
    if common:
        raise DataError(
            f"two sources have scores of {name} on {min(common)}; rename the system in one of them"
        )
    if len(first) != len(second):
        raise DataError(
            f"{name} has {len(first)} seeds in one source and {len(second)} in another; compare "
            "them one at a time"
        )
    return [
        Report(
            one.metrics | two.metrics,
            pd.concat([one.scores, two.scores], ignore_index=True),
            pd.concat([one.rankings, two.rankings], ignore_index=True),
        )
        for one, two in zip(first, second, strict=True)
    ]
