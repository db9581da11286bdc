"""Write the tables and the forest plot of docs/results.md from data/results.csv.

    python benchmarks/claims.py

A difference is that of the averages of the test sets, paired by seed: its mean, the standard deviation over seeds in
parentheses, and in brackets the 95 per cent interval of Student's t over seeds. "Seeds and pairs" is the interval that
also covers the sampling of the pairs; Holm's correction is over all rows of the table of claims. "Could show" is the
smallest true difference that as many seeds detect in 80 of 100 cases.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from english import RESULTS, ROWS
from scipy.stats import ttest_1samp

from workbench.files import project_path
from workbench.metrics import Interval, hierarchical_interval, holm, seed_interval, seed_spread, smallest_difference

DOCS = project_path("data").parent / "docs"
OWN = "RankCSE, ListNet, taught by its SimCSE, "
BETTER = "RankCSE, ListNet, taught by a better teacher, "
WITHOUT = "RankCSE without its ranking loss, consistency "
# Claim, its number in the paper, the row, and the row that it is compared with.
CLAIMS = [
    ("SimCSE above its start", "+19.55 (RankCSE table 2)", "SimCSE", "the start"),
    ("CompCSE above SimCSE", "+1.93 (CompCSE table 1)", "CompCSE", "SimCSE"),
    *(
        (f"RankCSE by its own SimCSE above SimCSE, {place}", "+1.23 (RankCSE table 5)", OWN + place, "SimCSE")
        for place in ("lists above", "lists below", "lists below, consistency above")
    ),
    *(
        (
            f"Its lists against no ranking loss, {place}",
            "+0.55 (RankCSE table 4)",
            f"{OWN}lists {place}",
            WITHOUT + place,
        )
        for place in ("above", "below")
    ),
    *(
        (f"RankCSE by a better teacher above SimCSE, {place}", "+3.41 (RankCSE table 5)", BETTER + place, "SimCSE")
        for place in ("lists above", "lists below")
    ),
    (
        "RankEncoder above the SimCSE of its E1",
        "+2.1 (RankEncoder table 4)",
        "RankEncoder, the paper's max with lambda 0.05",
        "SimCSE",
    ),
]


class Difference(NamedTuple):
    values: np.ndarray  # of each seed
    over_seeds: Interval
    over_pairs: Interval | None
    p: float

    def __str__(self) -> str:
        mean, low, high = self.over_seeds
        if len(self.values) < 2:
            return f"{mean:+.2f}"
        return f"{mean:+.2f} ({self.values.std(ddof=1):.2f}) [{low:+.2f}, {high:+.2f}]"


def main() -> None:
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")


def written() -> dict[Path, str]:
    """Return the texts of the page and of the figure."""
    page, table = DOCS / "results.md", pd.read_csv(RESULTS)
    text, rows = page.read_text(encoding="utf-8"), differences(table)
    parts_of_page = {"claims": claims(rows), "rankcse": parts(table, "RankCSE"), "rankencoder": rank_parts(table)}
    for name, part in parts_of_page.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        text = text.split(begin)[0] + begin + part + end + text.split(end)[1]
    return {page: text, DOCS / "forest.svg": forest(rows)}


def difference(table: pd.DataFrame, row: str, base: str, column: str = "average") -> Difference | None:
    """Return the difference of two rows of one start and pooling over the seeds that both have; None without any."""
    first, second = (table[table["row"] == name].set_index("seed") for name in (row, base))
    if base == "the start" and len(second):  # it has no seeds
        second = pd.concat([second] * len(first)).set_axis(first.index)
    values = (first[column] - second[column]).dropna()
    if "difference" in table and base == "SimCSE" and column == "average" and not len(values):
        values = first["difference"].dropna()  # of rows whose averages were not kept
    if not len(values):
        return None
    over_pairs, shared = None, values.index.intersection(first["resampled"].dropna().index)
    if len(shared) == len(values) > 1:
        drawn = [[np.array(side.loc[seed, "resampled"].split(), float) for seed in shared] for side in (first, second)]
        over_pairs = hierarchical_interval(values.to_numpy(), np.subtract(*drawn))
    p = float(ttest_1samp(values, 0).pvalue) if len(values) > 1 else float("nan")
    return Difference(values.to_numpy(), seed_interval(values.to_numpy()), over_pairs, p)


def differences(table: pd.DataFrame) -> list[tuple[str, str, str, Difference]]:
    """Return claim, paper's number, start with pooling, and difference."""
    rows = []
    for claim, paper, row, base in CLAIMS:
        for (start, pooling), own in table.groupby(["start", "pooling"], sort=False):
            if measured := difference(own, row, base):
                rows.append((claim, paper, f"{start}, {pooling}", measured))
    return rows


def claims(rows: list[tuple[str, str, str, Difference]]) -> str:
    """Return the table of claims, with a row per claim, start and pooling."""
    adjusted = holm([measured.p for *_, measured in rows])
    heading = "claim | in its paper | start, pooling | seeds | difference (sd) [95%] | Holm p | seeds and pairs"
    lines = [f"| {heading} | could show |", "|---|---|---|---|---|---|---|---|"]
    for (claim, paper, start, measured), p in zip(rows, adjusted, strict=True):
        n, pairs = len(measured.values), measured.over_pairs
        both = f"[{pairs.low:+.2f}, {pairs.high:+.2f}]" if pairs else ""
        shown = f"{smallest_difference(float(measured.values.std(ddof=1)), n):.2f}" if n > 1 else ""
        p_text = "" if np.isnan(p) else "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0")
        lines.append(f"| {claim} | {paper} | {start} | {n} | {measured} | {p_text} | {both} | {shown} |")
    return "\n".join(lines) + "\n"


def parts(table: pd.DataFrame, method: str) -> str:
    """Return a row for each setting of a method: what dev and test gain over SimCSE, by start and pooling."""
    groups = {f"{start}, {pooling}": own for (start, pooling), own in table.groupby(["start", "pooling"], sort=False)}
    labels = [row for row in ROWS if row.startswith((method, "mixed")) and "rank similarities" not in row]
    labels = [row for row in labels if (table["row"] == row).any()]
    cells = {}
    for row in labels:
        for group, own in groups.items():
            on_test, on_dev = (difference(own, row, "SimCSE", column) for column in ("average", "dev"))
            dev = "" if on_dev is None else f"; dev {on_dev.over_seeds.value:+.2f}"
            cells[row, group] = "" if on_test is None else f"{on_test}, {len(on_test.values)}{dev}"
    shown = [group for group in groups if any(cells[row, group] for row in labels)]
    lines = [f"| against SimCSE | {' | '.join(shown)} |", "|---|" + "---|" * len(shown)]
    lines += [f"| {row} | {' | '.join(cells[row, group] for group in shown)} |" for row in labels]
    return "\n".join(lines) + "\n"


def rank_parts(table: pd.DataFrame) -> str:
    """Return a row for each encoder that has rank vectors: averages by cosine, eq. 2 and eq. 7."""
    columns = ["cosine", "eq. 2", "eq. 7", "eq. 7 chosen"]
    lines = ["| | start, pooling | seeds | E's cosine | eq. 2 alone | eq. 7, 0.1 | eq. 7, share by dev | shares |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    table = table.reindex(columns=[*dict.fromkeys([*table.columns, *columns, "share"])])
    for (row, start, pooling), own in table.dropna(subset="eq. 2").groupby(["row", "start", "pooling"], sort=False):
        values = [seed_spread(own[column]) for column in columns]
        texts = [f"{mean:.2f}" + ("" if n == 1 else f" ({std:.2f})") for mean, std, n in values]
        shares = ", ".join(f"{share:g}" for share in own["share"])
        lines.append(f"| {row} | {start}, {pooling} | {len(own)} | {' | '.join(texts)} | {shares} |")
    return "\n".join(lines) + "\n"


def forest(rows: list[tuple[str, str, str, Difference]]) -> str:
    """Draw the differences in English with their intervals over three seeds or more; SimCSE's own are far larger."""
    rows = [row for row in rows if row[0] != CLAIMS[0][0] and row[2][:5] != "world" and len(row[3].values) > 2]
    ends = [end for *_, measured in rows for end in measured.over_seeds[1:]]
    low, high = min([*ends, -0.5]), max([*ends, 0.5])
    left, width, step = 560, 380, 22

    def x(value: float) -> float:
        return left + width * (value - low) / (high - low)

    lines = ['<rect width="100%" height="100%" fill="#fff"/>']
    lines += [f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="24" y2="{30 + step * len(rows)}" stroke="#888"/>']
    for tick in range(int(np.ceil(low)), int(high) + 1):
        lines.append(f'<text x="{x(tick):.1f}" y="16" text-anchor="middle" fill="#555">{tick:+d}</text>')
    for place, (claim, _, start, measured) in enumerate(rows):
        y, (mean, first, last) = 40 + step * place, measured.over_seeds
        colour = "#1b7837" if first > 0 else "#b2182b" if last < 0 else "#555"
        lines.append(f'<text x="4" y="{y + 4}">{claim} <tspan fill="#777">{start}</tspan></text>')
        lines.append(f'<line x1="{x(first):.1f}" x2="{x(last):.1f}" y1="{y}" y2="{y}" stroke="{colour}"/>')
        lines.append(f'<circle cx="{x(mean):.1f}" cy="{y}" r="4" fill="{colour}"/>')
    size = f'width="{left + width + 20}" height="{50 + step * len(rows)}"'
    style = 'font-family="sans-serif" font-size="12" stroke-width="2"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(lines) + "\n</svg>\n"


if __name__ == "__main__":
    main()
