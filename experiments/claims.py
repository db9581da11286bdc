"""Write the tables and the plots of docs/results.md from data/results.csv.

    python experiments/claims.py

A difference is that of the averages of the test sets, paired by seed: its mean, the standard
deviation over seeds in parentheses, and in brackets the 95 per cent interval of Student's t over
seeds. "Seeds and pairs" is the interval that also covers the sampling of the pairs; Holm's
correction is over all rows of the table of claims. "Smallest detectable" is the smallest true
difference that as many seeds detect in 80 of 100 cases. "All starts" is the mean over the English
starts of a pooling, with the interval of t over starts; pairs that were kept for each of them are
part of it.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from english import RESULTS, ROWS
from scipy.stats import ttest_1samp

from workbench.files import project_path
from workbench.metrics import (
    Interval,
    hierarchical_interval,
    holm,
    seed_interval,
    seed_spread,
    smallest_difference,
)

DOCS = project_path("data").parent / "docs"
OWN = "RankCSE, ListNet, taught by its SimCSE, "
BETTER = "RankCSE, ListNet, taught by a better teacher, "
WITHOUT = "RankCSE without its ranking loss, consistency "
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
        [("", "RankEncoder, the paper's max with lambda 0.05", "SimCSE")],
    ),
]


class Difference(NamedTuple):
    values: np.ndarray  # of each seed
    over_seeds: Interval
    over_pairs: Interval | None
    p: float
    draws: np.ndarray | None = None  # [seeds, draws] under common resamples of the pairs

    def __str__(self) -> str:
        mean, low, high = self.over_seeds
        if len(self.values) < 2:
            return f"{mean:+.2f}"
        return f"{mean:+.2f} ({self.values.std(ddof=1):.2f}) [{low:+.2f}, {high:+.2f}]"


class Row(NamedTuple):
    claim: str
    place: str
    start: str
    measured: Difference


def main() -> None:
    for path, text in written().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def written() -> dict[Path, str]:
    """Return the texts of the page and of the figures."""
    page, table = DOCS / "results.md", pd.read_csv(RESULTS)
    text, rows = page.read_text(encoding="utf-8"), differences(table)
    content = {"claims": claims(rows), "rankencoder": rank_parts(table)}
    content |= {
        f"rankcse {pooling}": parts(table[table["pooling"] == pooling])
        for pooling in ("mean", "cls")
    }
    for name, part in content.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        text = text.split(begin)[0] + begin + part + end + text.split(end)[1]
    figures = {
        DOCS / "figures" / f"claim-{number}.svg": forest(
            [row for row in rows if row.claim == claim]
        )
        for number, (claim, _, _) in enumerate(CLAIMS, 1)
    }
    everything = [row for row in rows if row.claim != CLAIMS[0][0]]
    return {page: text, DOCS / "figures" / "forest.svg": forest(everything, named=True)} | figures


def difference(
    table: pd.DataFrame, row: str, base: str, column: str = "average"
) -> Difference | None:
    """Return the difference of two rows of one start and pooling over the seeds that both have;
    None without any."""
    first, second = (table[table["row"] == name].set_index("seed") for name in (row, base))
    if base == "the start" and len(second):  # it has no seeds
        second = pd.concat([second] * len(first)).set_axis(first.index)
    values = (first[column] - second[column]).dropna()
    if "difference" in table and base == "SimCSE" and column == "average" and not len(values):
        values = first["difference"].dropna()  # of rows whose averages were not kept
    if not len(values):
        return None
    over_pairs, draws, shared = (
        None,
        None,
        values.index.intersection(first["resampled"].dropna().index),
    )
    if len(shared) == len(values) > 1:
        drawn = [
            [np.array(side.loc[seed, "resampled"].split(), float) for seed in shared]
            for side in (first, second)
        ]
        draws = np.subtract(*drawn)
        over_pairs = hierarchical_interval(values.to_numpy(), draws)
    p = float(ttest_1samp(values, 0).pvalue) if len(values) > 1 else float("nan")
    return Difference(values.to_numpy(), seed_interval(values.to_numpy()), over_pairs, p, draws)


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
                if "english-450" in several:  # of which `english-450-b` is a rebuild
                    several.pop("english-450-b", None)
                if len(several) > 2:
                    rows.append(
                        Row(
                            claim, place, f"all starts, {pooling}", over_starts([*several.values()])
                        )
                    )
    return rows


def over_starts(measured: list[Difference]) -> Difference:
    """Return the mean of the differences of several starts, with the interval of t over starts."""
    means = np.array([one.values.mean() for one in measured])
    both = None
    if all(one.draws is not None for one in measured):
        # Means of starts take the place of seeds.
        both = hierarchical_interval(means, [one.draws.mean(axis=0) for one in measured])
    return Difference(means, seed_interval(means), both, float(ttest_1samp(means, 0).pvalue))


def claims(rows: list[Row]) -> str:
    """Return a heading, a plot and a table for each claim; Holm's correction is over all of their
    rows."""
    adjusted = dict(zip(map(id, rows), holm([row.measured.p for row in rows]), strict=True))
    lines = []
    for number, (claim, paper, _) in enumerate(CLAIMS, 1):
        lines += [f"#### Claim {number}: {claim}", "", f"In the paper: {paper}.", ""]
        lines += [f"![Differences with their intervals](figures/claim-{number}.svg)", ""]
        heading = (
            "start, pooling | seeds | difference (sd) [95%] | seeds and pairs | Holm p "
            "| smallest detectable"
        )
        own = [row for row in rows if row.claim == claim]
        named = any(row.place for row in own)
        lines += [f"| {'variant | ' * named}{heading} |", "|---" * (6 + named) + "|"]
        for row in own:
            n, pairs, p = len(row.measured.values), row.measured.over_pairs, adjusted[id(row)]
            both = f"[{pairs.low:+.2f}, {pairs.high:+.2f}]" if pairs else ""
            shown = (
                f"{smallest_difference(float(row.measured.values.std(ddof=1)), n):.2f}"
                if n > 1
                else ""
            )
            p_text = "" if np.isnan(p) else "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0")
            count = f"{n} starts" if row.start.startswith("all") else n
            cells = [*[row.place] * named, row.start, count, row.measured, both, p_text, shown]
            lines.append(f"| {' | '.join(map(str, cells))} |")
        lines.append("")
    return "\n".join(lines)


def parts(table: pd.DataFrame) -> str:
    """Return a row for each setting of RankCSE and `mixed`: what dev and test gain over SimCSE, by
    start."""
    starts = {str(start): own for start, own in table.groupby("start", sort=False)}
    labels = [
        row
        for row in ROWS
        if row.startswith(("RankCSE", "mixed")) and "rank similarities" not in row
    ]
    cells = {}
    for row in [row for row in labels if (table["row"] == row).any()]:
        for start, own in starts.items():
            base = f"SimCSE, {FOUR}" if FOUR in row else "SimCSE"
            on_test, on_dev = (difference(own, row, base, column) for column in ("average", "dev"))
            dev = "" if on_dev is None else f"; dev {on_dev.over_seeds.value:+.2f}"
            cells[row, start] = "" if on_test is None else f"{on_test}, {len(on_test.values)}{dev}"
    shown = [
        start for start in starts if any(text for (_, one), text in cells.items() if one == start)
    ]
    lines = [f"| against SimCSE | {' | '.join(shown)} |", "|---|" + "---|" * len(shown)]
    lines += [
        f"| {row} | {' | '.join(cells[row, one] for one in shown)} |"
        for row in labels
        if (row, shown[0]) in cells
    ]
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


def forest(rows: list[Row], named: bool = False) -> str:
    """Draw the differences over three seeds or starts and more with their intervals; `named`:
    English, with claims."""
    rows = [
        row
        for row in rows
        if len(row.measured.values) > 2 and not (named and row.start.startswith("world"))
    ]
    ends = [end for row in rows for end in row.measured.over_seeds[1:]]
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
        y, (mean, first, last) = 40 + step * index, row.measured.over_seeds
        colour = "#1b7837" if first > 0 else "#b2182b" if last < 0 else "#555"
        weight = ' font-weight="bold"' if row.start.startswith("all") else ""
        text = ": ".join(filter(None, [row.claim if named else "", row.place]))
        lines.append(
            f'<text x="4" y="{y + 4}"{weight}>{text} <tspan fill="#777">{row.start}</tspan></text>'
        )
        lines.append(
            f'<line x1="{x(first):.1f}" x2="{x(last):.1f}" y1="{y}" y2="{y}" stroke="{colour}"/>'
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
