"""Compare which kinds of targets methods rank right: paraphrases, negations, role swaps, ..."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from workbench.data import Pairs, load_pairs
from workbench.errors import DataError, require_known
from workbench.files import AnyPath, fill_template, set_name
from workbench.metrics import hierarchical_interval, holm
from workbench.systems import ALPHA, SystemScores, pair_seeds
from workbench.views._style import render
from workbench.views._table import Panel, View, or_problem
from workbench.views.comparison import systems_of_runs
from workbench.views.limits import MOST_QUERIES, MOST_RELATIONS, MOST_TARGETS, require_at_most
from workbench.views.notebooks import table_html
from workbench.views.pair_explorer import scores_in_order
from workbench.views.run_tables import pairs_of

SECOND = "second grader"  # the label of the column score_second
_COLUMNS = "label relation targets share above below difference low high p_value"
_FLIPS = 10_000  # of the test over queries
_RESAMPLES = 2_000  # of the queries, for the interval
Shares = dict[str, ndarray]  # label -> `ranked_right`
_SHOWN = 100  # targets behind a cell


def ranked_right(pairs: Pairs, scores: ndarray) -> ndarray:
    """Return for each target the share of its query's others that it is ranked right against.

    Equal scores count half.

    Args:
        pairs: n scored pairs; those of one `sentence1` are the targets of a query.
        scores: [n], of the pairs; a target without one (nan) is left out.

    Returns:
        [n, 3], in [0, 1]: of all targets with another grade, of those with a higher grade (right
        if they score higher) and of those with a lower one; nan without any.
    """
    shares = np.full((len(pairs), 3), np.nan)
    for rows in pd.Series(scores).groupby(pairs.sentence1, sort=False).indices.values():
        order = _signs_between(pairs.gold[rows])
        agreement = order * _signs_between(scores[rows])
        # 1, 0, and a half for equal scores; nan without a score.
        right = (1 + agreement) / 2
        for column, is_compared in enumerate((order != 0, order < 0, order > 0)):
            compared = DataFrame(np.where(is_compared, right, np.nan))
            # The mean of pandas leaves nan out, and warns of no row that has nothing else.
            shares[rows, column] = compared.mean(axis=1)
    return shares


def _signs_between(values: ndarray) -> ndarray:
    """Return [n, n]: 1 where the row's value is larger than the column's, -1 where smaller."""
    return np.sign(np.subtract.outer(values, values))


def phenomena(
    runs: DataFrame | SystemScores,
    suite: AnyPath = "ladders-all",
    baseline: str = "",
) -> "Phenomena":
    """Compare by relation which targets each method ranks right.

    Args:
        runs: As `finished_runs` returns them, scored on the suite; or systems with the suite's
            pairs and all of their seeds, such as `compare_systems(...).scores`.
        suite: A set, or your own file, of scored pairs with a column `relation`; a column
            `score_second` has the grades of a second person, whose shares are the ceiling as far
            as enough targets have one.
        baseline: As for `compare_runs`; of systems by default the first.

    Returns:
        The heat map, whose `table` and `sentences` have the results.

    Raises:
        DataError: The pairs have no relation or cannot be read, or a run did not score them.
        SettingError: The baseline is unknown.
    """
    if isinstance(runs, SystemScores):
        systems = runs
        name = baseline or next(iter(runs.reports))
        # Those that came with the scores, otherwise those of this name.
        pairs = systems.pairs.get(set_name(suite)) or load_pairs(suite)
    else:
        systems, name = systems_of_runs(runs, baseline)
        pairs = pairs_of(runs, suite) if isinstance(suite, str) else load_pairs(suite)
    if "relation" not in pairs.extra:
        raise DataError(f"{pairs.name}: its pairs have no column relation")
    require_at_most(
        len(set(pairs.extra["relation"])),
        MOST_RELATIONS,
        "relations",
        "let the column relation name kinds of targets",
    )
    targets = Counter(pairs.sentence1)
    remedy = "take a sample of them"
    require_at_most(len(targets), MOST_QUERIES, "queries", remedy)
    require_at_most(max(targets.values()), MOST_TARGETS, "targets of one query", remedy)
    shares, bases, gaps = _compare_shares(systems, pairs, name)
    if any(pairs.extra.get("score_second", ())):
        shares[SECOND] = ranked_right(pairs, _second_grades(pairs))
    table = _relation_table(pairs, shares, gaps)
    # Holm counts the tests that were made, not the empty cells, which are nan.
    table["adjusted"] = holm(table["p_value"])
    # Both must agree: the test is over queries only, the interval over seeds as well.
    excludes_zero = (table["low"] > 0) | (table["high"] < 0)
    is_clear = (table["adjusted"] < ALPHA) & excludes_zero
    table["verdict"] = np.sign(table["difference"]).where(is_clear, 0).astype(int)
    return Phenomena(table, pairs, shares, bases, baseline=name)


def _compare_shares(
    systems: SystemScores, pairs: Pairs, baseline: str
) -> tuple[Shares, Shares, Shares]:
    """Return the shares of each label, of the baseline's seeds that it is compared with, and gaps.

    Gaps are the differences of the compared seeds, label -> [seeds, n]. The baseline comes first,
    and is compared with nothing.
    """
    reports_of = systems.reports
    require_known("system", baseline, reports_of, "among those compared")
    # label -> [seeds, n, 3]
    of_seeds = {
        label: np.stack([_shares(label, report, pairs) for report in reports])
        for label, reports in reports_of.items()
    }
    everything = of_seeds.pop(baseline)
    shares = {baseline: everything.mean(axis=0)}
    bases = Shares()
    gaps = Shares()
    for label, values in of_seeds.items():
        mine, other = pair_seeds(reports_of[label], reports_of[baseline])
        own = values[mine]
        base = everything[other]
        shares[label] = own.mean(axis=0)
        bases[label] = base.mean(axis=0)
        gaps[label] = (own - base)[:, :, 0]
    return shares, bases, gaps


def _relation_table(pairs: Pairs, shares: Shares, gaps: Shares) -> Any:
    """Return the columns of `_COLUMNS` for each relation and label; gaps: label -> [seeds, n]."""
    query, queries = pd.factorize(np.array(pairs.sentence1, object))
    count = len(queries)
    # One draw of queries for all cells, so that they do not differ by the draw.
    draw = np.random.default_rng(0)
    counts = draw.multinomial(count, np.full(count, 1 / count), _RESAMPLES).astype(float)
    signs = draw.choice([-1.0, 1.0], (_FLIPS, count))
    relation_of = np.array(pairs.extra["relation"])
    rows = []
    for relation in dict.fromkeys(relation_of.tolist()):
        is_relation = relation_of == relation
        for label, values in shares.items():
            is_ranked = is_relation & np.isfinite(values[:, 0])
            if label in gaps:  # the baseline may lack a pair
                is_ranked &= np.isfinite(gaps[label]).all(axis=0)
            tested = [np.nan] * 4
            if label in gaps and is_ranked.any():
                ranked = query[is_ranked]
                sizes = np.bincount(ranked, minlength=count)
                totals = [np.bincount(ranked, gap[is_ranked], count) for gap in gaps[label]]
                tested = _difference(np.array(totals), sizes, counts, signs)
            means = DataFrame(values[is_ranked]).mean()
            rows.append([label, relation, is_ranked.sum(), *means, *tested])
    return DataFrame(rows, columns=_COLUMNS.split())


def _second_grades(pairs: Pairs) -> ndarray:
    try:
        return np.array([float(text or "nan") for text in pairs.extra["score_second"]])
    except ValueError as problem:
        raise DataError(
            f"{pairs.name}: score_second: {problem}; write numbers, or nothing"
        ) from None


def _shares(label: str, report: Any, pairs: Pairs) -> ndarray:
    scores = scores_in_order(label, report, pairs, set_name(pairs.name))
    if np.isnan(scores).all():
        raise DataError(f"{label} was not scored on {pairs.name}; score it: workbench evaluate")
    return ranked_right(pairs, scores)


def _difference(
    total: ndarray, size: ndarray, counts: ndarray, signs: ndarray
) -> tuple[float, ...]:
    """Return the mean difference over seeds and targets, its interval, and a p-value.

    The p-value is that of a sign-flip test over queries.

    Args:
        total: [seeds, queries], the summed differences of the targets.
        size: [queries], the number of targets.
        counts: [resamples, queries], how often each query was drawn.
        signs: [flips, queries], 1 or -1.
    """
    with np.errstate(invalid="ignore"):  # a resample without the relation
        resampled = (counts @ total.T) / (counts @ size)[:, None]
    is_defined = np.isfinite(resampled[:, 0])
    observed = total.sum(axis=1) / size.sum()
    interval = hierarchical_interval(observed, resampled[is_defined].T)
    mean_total = total.mean(axis=0)
    flipped = np.abs(signs @ mean_total)
    # The sums of equal numbers round apart: a flip that changes nothing is as large.
    as_large = (flipped >= abs(mean_total.sum()) - 1e-9).sum()
    # One is added to both: the observed signs are one of the possible flips.
    return (*interval, (1 + as_large) / (1 + len(signs)))


class Phenomena(View):
    """A heat map, relation by label, whose cells open their targets; made by `phenomena`.

    `table` has label, relation, targets, share of targets ranked right (and against higher grades,
    "above", and lower ones, "below"), all in [0, 1]; difference from the baseline with its 95%
    interval over seeds and queries (low, high; nan if the two have one seed in common), p_value,
    adjusted (Holm), and verdict: 1 gains, -1 loses, 0 not clear. The baseline's share is the mean
    over all its runs, or over all starts."""

    def __init__(
        self,
        table: DataFrame,
        pairs: Pairs,
        shares: Shares,
        bases: Shares,
        *,
        baseline: str,
    ) -> None:
        """Show `table`; `shares` and those of the baseline's runs that a label was compared with.

        Both are label -> [n, 3].
        """
        self.table = table
        self.pairs = pairs
        self.shares = shares
        self.bases = bases
        self.baseline = baseline
        self._open = ""
        self.targets = Panel(scrolls=True)
        self.heat = Panel(self.press, html=self._heat_map(is_live=True))
        super().__init__([self.heat, self.targets])

    @property
    def sentences(self) -> list[str]:
        """Return for each label on which relations it clearly gains or loses."""
        lines = []
        for label in self.bases:
            own: Any = self.table[self.table["label"] == label]
            relations = own.groupby("verdict")["relation"].agg(list)
            lines.append(
                fill_template(
                    "views/relations.txt",
                    label=label,
                    gains=relations.get(1),
                    losses=relations.get(-1),
                    has_interval=own["low"].notna().any(),
                )
            )
        return lines

    def press(self, value: str) -> None:
        """Show the targets behind a cell, "relation", a new line and "label", or close them."""
        self._open = "" if value == self._open else value
        self.targets.html = or_problem(self._targets, *value.split("\n")) if self._open else ""

    def targets_of(self, label: str, relation: str) -> DataFrame:
        """Return query, target, gold, and the shares in [0, 1] under the baseline and the label.

        The largest changes come first; under the baseline, or the second grader, the smallest
        shares.
        """
        pairs = self.pairs
        columns = {"query": pairs.sentence1, "target": pairs.sentence2, "gold": pairs.gold}
        table = DataFrame(columns, dtype=object)
        share = self.shares[label][:, 0]
        order = share
        if label in self.bases:
            base = self.bases[label][:, 0]
            table[self.baseline] = base
            order = -np.abs(share - base)
        table[label] = share
        is_relation = np.array(pairs.extra["relation"]) == relation
        # Stable: targets of equal changes stay in the order of the file.
        places = np.argsort(order[is_relation], kind="stable")
        return table.loc[is_relation].iloc[places].dropna().reset_index(drop=True)

    def _targets(self, relation: str, label: str) -> str:
        table = self.targets_of(label, relation)
        shown = table.head(_SHOWN).set_index("query")
        shares = shown.columns[2:]
        shown[shares] = shown[shares].mul(100).round()
        return render(
            "targets.html",
            relation=relation,
            label=label,
            is_compared=label in self.bases,
            shown=len(shown),
            count=len(table),
            table=table_html(shown),
        )

    def _heat_map(self, *, is_live: bool) -> str:
        return render("phenomena.html", view=self, is_live=is_live, alpha=ALPHA, second=SECOND)

    def static(self) -> str:
        return self._heat_map(is_live=False)
