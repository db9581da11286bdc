"""Differences of rows of results, paired by seed, with intervals over seeds and pairs, and their
forest, for the tables of docs/results.md."""

from html import escape
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from workbench.metrics import (
    Interval,
    effects_of_pairs,
    hierarchical_interval,
    hierarchical_p,
    holm,
    seed_interval,
    seed_spread,
    smallest_difference,
)

SEEDS_ONLY = "†"


class Difference(NamedTuple):
    """The differences of each seed or start, and these [seeds, draws] under resamples of pairs.

    rounding: By how much the true values may differ from those that were kept.
    """

    values: np.ndarray
    draws: np.ndarray | None = None
    rounding: float = 0.0

    @property
    def interval(self) -> Interval:
        """The 95% interval over seeds and pairs, or over seeds if no pairs were kept."""
        if self.draws is None:
            return seed_interval(self.values)
        return hierarchical_interval(self.values, self.draws)

    @property
    def seed_std(self) -> float:
        return seed_spread(self.values).std

    @property
    def pairs_std(self) -> float:
        return 0.0 if self.draws is None else float(effects_of_pairs(self.draws).std())

    @property
    def p(self) -> float:
        """Return the level at which the interval ends at 0, the largest that rounding allows.

        nan for one seed.
        """
        draws = () if self.draws is None else self.draws
        if not self.rounding:
            return hierarchical_p(self.values, draws)
        corners = product((-self.rounding, self.rounding), repeat=len(self.values))
        return max(hierarchical_p(self.values + corner, draws) for corner in corners)

    @property
    def smallest(self) -> float:
        return smallest_difference(self.seed_std, len(self.values), pairs_std=self.pairs_std)

    @property
    def bounds(self) -> str:
        """The interval as text; empty for one seed."""
        if len(self.values) < 2:
            return ""
        _, low, high = self.interval
        return f"[{low:+.2f}, {high:+.2f}]" + SEEDS_ONLY * (self.draws is None)

    def __str__(self) -> str:
        mean = f"{self.values.mean():+.2f}"
        return mean if len(self.values) < 2 else f"{mean} ({self.seed_std:.2f})"


class Row(NamedTuple):
    claim: str
    place: str
    start: str
    measured: Difference

    @property
    def is_derived(self) -> bool:
        return self.start.startswith("all starts")

    @property
    def is_world(self) -> bool:
        return self.start.startswith("world")


def difference(
    table: pd.DataFrame, row: str, base: str, column: str = "average"
) -> Difference | None:
    """Return the difference of two rows of one start and pooling over the seeds that both have;
    None without any."""
    read = table.columns.intersection(["seed", column, "difference", "resampled"])
    first = table.loc[table["row"] == row, read].set_index("seed")
    if not len(first):
        return None
    second = table.loc[table["row"] == base, read].set_index("seed")
    if base == "the start" and len(second):  # it has no seeds
        second = pd.concat([second] * len(first)).set_axis(first.index)
    values = (first[column] - second[column]).dropna()
    if "difference" in table and column == "average" and not len(values):
        # Of some rows only the difference to SimCSE was kept.
        values = first["difference"]
        rounding = rounding_of(values)
        if base != "SimCSE":
            values = values - second["difference"]
            rounding += rounding_of(second["difference"])
        values = values.dropna()
        if len(values):
            return Difference(values.to_numpy(), rounding=rounding)
    if not len(values):
        return None
    kept = first["resampled"].dropna().index.intersection(second["resampled"].dropna().index)
    if column != "average" or len(values) < 2 or len(values.index.difference(kept)):
        return Difference(values.to_numpy())
    drawn = [
        [np.array(side.loc[seed, "resampled"].split(), float) for seed in values.index]
        for side in (first, second)
    ]
    return Difference(values.to_numpy(), np.subtract(*drawn))


def rounding_of(values: pd.Series) -> float:
    """Return half of the last decimal that all of these values were kept to; 0 from the third."""
    for decimals in range(3):
        if (values - values.round(decimals)).abs().max() < 1e-9:
            return 0.5 * 10**-decimals
    return 0.0


def adjusted_p(rows: list[Row]) -> dict[int, float]:
    """Return the id of each row -> its p, corrected by Holm over these rows."""
    corrected = holm([row.measured.p for row in rows])
    return dict(zip(map(id, rows), corrected.tolist(), strict=True))


def forest(rows: list[Row], adjusted: dict[int, float], named: bool = False) -> str:
    """Draw the differences over three seeds or starts and more with their intervals.

    named: English, with claims. A colour marks what Holm's correction leaves below 0.05, a dashed
    line an interval over seeds (or starts) alone.
    """
    rows = [row for row in rows if len(row.measured.values) > 2 and not (named and row.is_world)]
    ends = [end for row in rows for end in row.measured.interval[1:]]
    low, high = min([*ends, -0.5]), max([*ends, 0.5])
    labels = [
        (": ".join(filter(None, [row.claim if named else "", row.place])), row.start)
        for row in rows
    ]
    longest = max((len(" ".join(label)) for label in labels), default=0)
    left, width, step = max(640 if named else 420, 20 + 6 * longest), 380, 22

    def x(value: float) -> float:
        return left + width * (value - low) / (high - low)

    lines = ['<rect width="100%" height="100%" fill="#fff"/>']
    lines += [
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="24" y2="{30 + step * len(rows)}" '
        'stroke="#888"/>'
    ]
    between = next(size for size in (1, 2, 5, 10, 20, 50) if (high - low) / size <= 11)
    for tick in range(between * int(np.ceil(low / between)), int(high) + 1, between):
        lines.append(
            f'<text x="{x(tick):.1f}" y="16" text-anchor="middle" fill="#555">{tick:+d}</text>'
        )
    for index, row in enumerate(rows):
        y, (mean, first, last) = 40 + step * index, row.measured.interval
        is_clear = adjusted.get(id(row), 1.0) < 0.05
        colour = "#555" if not is_clear else "#1b7837" if mean > 0 else "#b2182b"
        dashes = ' stroke-dasharray="4 3"' if row.measured.draws is None else ""
        weight = ' font-weight="bold"' if row.is_derived else ""
        text, start = (escape(part, quote=False) for part in labels[index])
        lines.append(
            f'<text x="4" y="{y + 4}"{weight}>{text} <tspan fill="#777">{start}</tspan></text>'
        )
        lines.append(
            f'<line x1="{x(first):.1f}" x2="{x(last):.1f}" y1="{y}" y2="{y}" '
            f'stroke="{colour}"{dashes}/>'
        )
        lines.append(f'<circle cx="{x(mean):.1f}" cy="{y}" r="4" fill="{colour}"/>')
    size = f'width="{left + width + 20}" height="{50 + step * len(rows)}"'
    style = 'font-family="sans-serif" font-size="12" stroke-width="2"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )
