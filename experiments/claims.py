"""Write the tables and the plots of docs/results.md and README.md from data/results.csv.

    python experiments/claims.py

A difference is that of the averages of the test sets, paired by seed: its mean, the standard
deviation over seeds in parentheses, and in brackets its 95 per cent interval over seeds and pairs
(`metrics.hierarchical_interval`). If the pairs of a row were not kept, its interval is Student's t
over seeds alone, and a dagger says so. p inverts that interval, both of its parts taken as normal;
without pairs it is the t test. Holm's correction is over the measured rows of one claim. "Smallest
detectable" is the smallest true difference whose interval is above 0 in 80 of 100 cases. "All
starts" is derived: the mean over the English starts of a pooling, with the interval of t over
starts; starts that are one training count once, and it is no test of Holm's family.
"""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from english import RESULTS, ROWS
from list_tables import list_tables
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit

from workbench.files import project_path
from workbench.metrics import (
    Interval,
    effects_of_pairs,
    hierarchical_interval,
    holm,
    seed_interval,
    seed_spread,
    smallest_difference,
)

PROJECT = project_path("data").parent
DOCS = PROJECT / "docs"
OWN = "RankCSE, ListNet, taught by its SimCSE, "
BETTER = "RankCSE, ListNet, taught by a better teacher, "
COMBINED = "mixed, CompCSE's positives and ListNet, taught by "
WITHOUT = "RankCSE without its ranking loss, consistency "
PRINTED = "RankEncoder, the paper's max with lambda 0.05"
FOUR = "4 epochs of 128"
# Claim, its number in the paper, and its rows: what is special about one, the row, and the row it
# is compared with.
CLAIMS: list[tuple[str, str, list[tuple[str, str, str]]]] = [
    ("SimCSE gains over its start", "+19.55 (RankCSE table 2)", [("", "SimCSE", "the start")]),
    ("CompCSE gains over SimCSE", "+1.93 (CompCSE table 1)", [("", "CompCSE", "SimCSE")]),
    (
        "RankCSE, taught by its own SimCSE, gains over SimCSE",
        "+1.23 (RankCSE table 5)",
        [
            (place, OWN + place, "SimCSE")
            for place in ("lists above", "lists below", "lists below, consistency above")
        ],
    ),
    (
        "RankCSE's lists gain over RankCSE without a ranking loss",
        "+0.55 (RankCSE table 4)",
        [
            *((place, f"{OWN}lists {place}", WITHOUT + place) for place in ("above", "below")),
            *(
                (
                    f"{FOUR}, {place}, teacher: {teacher}",
                    f"RankCSE, ListNet, {FOUR}, taught by {teacher}, lists {place}",
                    f"RankCSE without its ranking loss, {FOUR}",
                )
                for teacher in ("its SimCSE", "its SimCSE and a larger one")
                for place in ("above", "below")
            ),
        ],
    ),
    (
        "RankCSE, taught by a better teacher, gains over SimCSE",
        "+3.41 (RankCSE table 5)",
        [(place, BETTER + place, "SimCSE") for place in ("lists above", "lists below")],
    ),
    (
        "RankEncoder gains over the SimCSE of its E1",
        "+2.1 (RankEncoder table 4)",
        [("", PRINTED, "SimCSE")],
    ),
    (
        "CompCSE's positives gain when added to RankCSE's lists (`mixed`)",
        "not tried",
        [
            (f"{place}, teacher: {teacher}", f"{COMBINED}{teacher}, {place}", f"{lists}{place}")
            for teacher, lists in (("a better teacher", BETTER), ("its SimCSE", OWN))
            for place in ("lists above", "lists below")
        ],
    ),
    (
        "Lists below the train-only layer gain over lists above it",
        "not stated",
        [
            (label, f"{row}lists below", f"{row}lists above")
            for label, row in (
                ("RankCSE, its SimCSE", OWN),
                ("RankCSE, a better teacher", BETTER),
                ("`mixed`, its SimCSE", f"{COMBINED}its SimCSE, "),
                ("`mixed`, a better teacher", f"{COMBINED}a better teacher, "),
            )
        ],
    ),
]
# Starts of one training, at an earlier step or on another processor: the other one counts.
SAME_TRAINING = {"MiniLM-900": "MiniLM-2400", "english-450-b": "english-450"}
# The English start of README.md, which has five seeds with kept pairs at both poolings and places.
SHOWN_START = "english-halves"
SHOWN_ROWS = {
    "start": "the start",
    "SimCSE": "SimCSE",
    "CompCSE": "CompCSE",
    "RankCSE, its SimCSE as teacher, lists above the layer": OWN + "lists above",
    "the same, lists below the layer": OWN + "lists below",
    "RankCSE, a better teacher, lists above": BETTER + "lists above",
    "the same, lists below": BETTER + "lists below",
    "CompCSE and RankCSE combined, a better teacher, lists above": COMBINED
    + "a better teacher, lists above",
    "the same combination, lists below": COMBINED + "a better teacher, lists below",
    "RankEncoder": PRINTED,
}
SEEDS_ONLY = "†"


class Difference(NamedTuple):
    """The differences of each seed or start, and these [seeds, draws] under resamples of pairs."""

    values: np.ndarray
    draws: np.ndarray | None = None

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
        """Return the level at which the interval ends at 0; nan for one seed."""
        n, mean = len(self.values), abs(float(self.values.mean()))
        if n < 2:
            return float("nan")
        seed_error = self.seed_std / n**0.5

        def end(log_p: float) -> float:
            quantile = 1 - np.exp(log_p) / 2
            over_seeds = stdtrit(n - 1, quantile) * seed_error
            over_pairs = ndtri(quantile) * self.pairs_std
            return mean - np.hypot(over_seeds, over_pairs)

        lowest = np.log(1e-12)
        return 1e-12 if end(lowest) > 0 else float(np.exp(brentq(end, lowest, 0)))

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


def main() -> None:
    for path, text in written().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def written() -> dict[Path, str]:
    """Return the texts of the pages and of the figures."""
    table = pd.read_csv(RESULTS)
    rows = differences(table)
    adjusted = adjust(rows)
    parts_of = {pooling: parts(table[table["pooling"] == pooling]) for pooling in ("mean", "cls")}
    content = {
        DOCS / "results.md": {
            "claims": claims(rows, adjusted),
            "rankencoder": rank_parts(table),
            **{f"rankcse {pooling}": text for pooling, text in parts_of.items()},
        },
        DOCS / "results-details.md": {},
        PROJECT / "README.md": {"english": english_table(table)},
    }
    for page, part, text in list_tables():
        content[DOCS / page][part] = text
    pages = {path: fill(path, parts) for path, parts in content.items()}
    draw = partial(forest, adjusted=adjusted)
    figures = {
        DOCS / "figures" / f"claim-{number}.svg": draw([row for row in rows if row.claim == claim])
        for number, (claim, _, _) in enumerate(CLAIMS, 1)
    }
    everything = [row for row in rows if row.claim != CLAIMS[0][0]]
    return pages | {DOCS / "figures" / "forest.svg": draw(everything, named=True)} | figures


def fill(path: Path, parts: dict[str, str]) -> str:
    """Return the text of a page with these parts between their marks."""
    text = path.read_text(encoding="utf-8")
    for name, part in parts.items():
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not (begin and end):  # otherwise the rest of the page would be lost
            raise ValueError(f"{path}: the marks <!-- {name} --> and <!-- /{name} --> are missing")
        text = before + begin + part + end + after
    return text


def difference(
    table: pd.DataFrame, row: str, base: str, column: str = "average"
) -> Difference | None:
    """Return the difference of two rows of one start and pooling over the seeds that both have;
    None without any."""
    first, second = (table[table["row"] == name].set_index("seed") for name in (row, base))
    if base == "the start" and len(second):  # it has no seeds
        second = pd.concat([second] * len(first)).set_axis(first.index)
    values = (first[column] - second[column]).dropna()
    if "difference" in table and column == "average" and not len(values):
        # Of some rows only the difference to SimCSE was kept.
        subtracted = 0 if base == "SimCSE" else second["difference"]
        values = (first["difference"] - subtracted).dropna()
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


def differences(table: pd.DataFrame) -> list[Row]:
    """Return the difference of each claim, place and start, and those over all English starts of a
    pooling."""
    rows = []
    for claim, _, compared in CLAIMS:
        for place, row, base in compared:
            for pooling in ("mean", "cls"):
                starts = table[table["pooling"] == pooling].groupby("start", sort=False)
                measured = {str(start): difference(own, row, base) for start, own in starts}
                of_starts = {start: one for start, one in measured.items() if one}
                rows += [
                    Row(claim, place, f"{start}, {pooling}", one)
                    for start, one in of_starts.items()
                ]
                several = {
                    start: one
                    for start, one in of_starts.items()
                    if start != "world" and len(one.values) > 1
                }
                once = [
                    one for start, one in several.items() if SAME_TRAINING.get(start) not in several
                ]
                if len(once) > 2:
                    rows.append(Row(claim, place, f"all starts, {pooling}", over_starts(once)))
    return rows


def over_starts(measured: list[Difference]) -> Difference:
    """Return the mean of the differences of several starts; their means take the place of seeds."""
    means = np.array([one.values.mean() for one in measured])
    draws = [one.draws.mean(axis=0) for one in measured if one.draws is not None]
    return Difference(means, np.array(draws) if len(draws) == len(measured) else None)


def adjust(rows: list[Row]) -> dict[int, float]:
    """Return the id of each measured row -> its p, corrected by Holm within its claim."""
    adjusted = {}
    for claim, _, _ in CLAIMS:
        family = [row for row in rows if row.claim == claim and not row.is_derived]
        corrected = holm([row.measured.p for row in family])
        adjusted |= dict(zip(map(id, family), corrected.tolist(), strict=True))
    return adjusted


def claims(rows: list[Row], adjusted: dict[int, float]) -> str:
    """Return a heading, a plot and a table for each claim."""
    lines = []
    for number, (claim, paper, _) in enumerate(CLAIMS, 1):
        lines += [f"#### Claim {number}: {claim}", "", f"In the paper: {paper}.", ""]
        lines += [f"![Differences with their intervals](figures/claim-{number}.svg)", ""]
        own = [row for row in rows if row.claim == claim]
        has_place = any(row.place for row in own)
        columns = ["variant"] * has_place + ["start, pooling", "seeds", "difference (sd)"]
        columns += ["95 % interval", "Holm p", "smallest detectable"]
        lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        for row in own:
            n = len(row.measured.values)
            cells = [row.place] * has_place
            cells += [row.start, f"{n} starts" if row.is_derived else str(n), str(row.measured)]
            cells += [row.measured.bounds, p_text(adjusted.get(id(row), np.nan))]
            cells.append(f"{row.measured.smallest:.2f}" if n > 1 else "")
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def p_text(p: float) -> str:
    if np.isnan(p):
        return ""
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def parts(table: pd.DataFrame) -> str:
    """Return a row for each setting of RankCSE and `mixed`: what dev and test gain over SimCSE, by
    start."""
    starts = {str(start): own for start, own in table.groupby("start", sort=False)}
    labels = [
        row
        for row in ROWS
        if row.startswith(("RankCSE", "mixed")) and "rank similarities" not in row
    ]
    on_test: dict[tuple[str, str], Difference] = {}
    on_dev: dict[tuple[str, str], Difference] = {}
    for row in labels:
        base = f"SimCSE, {FOUR}" if FOUR in row else "SimCSE"
        for start, own in starts.items():
            for measured, column in ((on_test, "average"), (on_dev, "dev")):
                if one := difference(own, row, base, column):
                    measured[row, start] = one
    shown = [start for start in starts if any(one == start for _, one in on_test)]

    def cell(row: str, start: str) -> str:
        key = row, start
        if key not in on_test:
            return ""
        one = on_test[key]
        text = f"{one} {one.bounds}".strip() + f", {len(one.values)}"
        return text + (f"; dev {on_dev[key].values.mean():+.2f}" if key in on_dev else "")

    lines = [f"| against SimCSE | {' | '.join(shown)} |", "|---|" + "---|" * len(shown)]
    lines += [
        f"| {row} | {' | '.join(cell(row, start) for start in shown)} |"
        for row in labels
        if any(one == row for one, _ in on_test)
    ]
    return "\n".join(lines) + "\n"


def english_table(table: pd.DataFrame) -> str:
    """Return the table of README.md: averages from one English start, and what they gain."""
    starts = table[table["start"] == SHOWN_START]
    lines = ["| | mean pooling | [CLS] |", "|---|---|---|"]
    for label, row in SHOWN_ROWS.items():
        cells = []
        for pooling in ("mean", "cls"):
            own = starts[starts["pooling"] == pooling]
            average = own.loc[own["row"] == row, "average"].mean()
            one = difference(own, row, "SimCSE") if row not in ("the start", "SimCSE") else None
            gain = f", {one.values.mean():+.1f} [{one.interval.low:+.1f}, " if one else ""
            gain += f"{one.interval.high:+.1f}]" if one else ""
            cells.append(f"{average:.1f}{gain}")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def rank_parts(table: pd.DataFrame) -> str:
    """Return a row for each encoder that has rank vectors: averages by cosine, eq. 2 and eq. 7."""
    columns = ["cosine", "eq. 2", "eq. 7", "eq. 7 chosen"]
    lines = [
        "| | start, pooling | seeds | E's cosine | eq. 2 alone | eq. 7, 0.1 | eq. 7, "
        "share by dev: shares |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    table = table.reindex(columns=[*dict.fromkeys([*table.columns, *columns, "share"])])
    for (row, start, pooling), own in table.dropna(subset="eq. 2").groupby(
        ["row", "start", "pooling"], sort=False
    ):
        values = [seed_spread(own[column]) for column in columns]
        texts = [f"{mean:.2f}" + ("" if n == 1 else f" ({std:.2f})") for mean, std, n in values]
        shares = ", ".join(f"{share:g}" for share in own["share"])
        lines.append(f"| {row} | {start}, {pooling} | {len(own)} | {' | '.join(texts)}: {shares} |")
    return "\n".join(lines) + "\n"


def forest(rows: list[Row], adjusted: dict[int, float], named: bool = False) -> str:
    """Draw the differences over three seeds or starts and more with their intervals.

    named: English, with claims. A colour marks what Holm's correction leaves below 0.05, a dashed
    line an interval over seeds (or starts) alone.
    """
    rows = [
        row
        for row in rows
        if len(row.measured.values) > 2 and not (named and row.start.startswith("world"))
    ]
    ends = [end for row in rows for end in row.measured.interval[1:]]
    low, high = min([*ends, -0.5]), max([*ends, 0.5])
    left, width, step = 640 if named else 420, 380, 22

    def x(value: float) -> float:
        return left + width * (value - low) / (high - low)

    lines = ['<rect width="100%" height="100%" fill="#fff"/>']
    lines += [
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="24" y2="{30 + step * len(rows)}" '
        'stroke="#888"/>'
    ]
    for tick in range(int(np.ceil(low)), int(high) + 1, max(1, int(high - low) // 10)):
        lines.append(
            f'<text x="{x(tick):.1f}" y="16" text-anchor="middle" fill="#555">{tick:+d}</text>'
        )
    for index, row in enumerate(rows):
        y, (mean, first, last) = 40 + step * index, row.measured.interval
        is_clear = adjusted.get(id(row), 1.0) < 0.05
        colour = "#555" if not is_clear else "#1b7837" if mean > 0 else "#b2182b"
        dashes = ' stroke-dasharray="4 3"' if row.measured.draws is None else ""
        weight = ' font-weight="bold"' if row.is_derived else ""
        text = ": ".join(filter(None, [row.claim if named else "", row.place]))
        lines.append(
            f'<text x="4" y="{y + 4}"{weight}>{text} <tspan fill="#777">{row.start}</tspan></text>'
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


if __name__ == "__main__":
    main()
