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

import numpy as np
import pandas as pd
from differences import Difference, Row, adjusted_p, difference, forest
from english import RESULTS, ROWS
from list_tables import list_tables
from order import QUESTIONS
from order_tables import (
    additions,
    additions_table,
    gains,
    lines_of,
    read_cells,
    study_table,
    values_table,
)

from workbench.files import project_path, write_text
from workbench.metrics import seed_spread
from workbench.systems import p_text

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
    (
        "SimCSE gains over its start",
        "+47.06 at [CLS] (CoSENT table III)",
        [("", "SimCSE", "the start")],
    ),
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
        "+0.55 (RankCSE tables 4 and 5)",
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


def main() -> None:
    for path, text in written().items():
        path.parent.mkdir(exist_ok=True)
        write_text(path, text)


def written() -> dict[Path, str]:
    """Return the texts of the pages and of the figures."""
    table = pd.read_csv(RESULTS)
    rows = differences(table)
    adjusted = adjust(rows)
    cells = read_cells()
    of_question = {name: [cell for cell in cells if cell.question == name] for name in QUESTIONS}
    gained = {name: gains(own) for name, own in of_question.items()}
    corrected = {name: adjusted_p(own) for name, own in gained.items()}
    study = {
        name: study_table(own, gained[name], corrected[name]) for name, own in of_question.items()
    }
    added = additions(of_question["lists"])
    added_p = adjusted_p(added)
    added_english = additions_table(added, added_p, is_world=False)
    parts_of = {pooling: parts(table[table["pooling"] == pooling]) for pooling in ("mean", "cls")}
    content = {
        DOCS / "results.md": {
            "claims": claims(rows, adjusted),
            "rankencoder": rank_parts(table),
            "study": study["lists"],
            "values": values_table(of_question["lists"]),
            "added": added_english,
            "added world": additions_table(added, added_p, is_world=True),
            "ranking": lines_of(added, added_p),
            "graded losses": study["pairs"],
            "views": study["views"],
            **{f"rankcse {pooling}": text for pooling, text in parts_of.items()},
        },
        DOCS / "results-details.md": {},
        PROJECT / "README.md": {"english": english_table(table), "added": added_english},
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
    figures[DOCS / "figures" / "forest.svg"] = draw(everything, named=True)
    # The world's differences are ten times as large: on one axis the English ones would be points.
    for name, is_world in (("order-world.svg", True), ("order-english.svg", False)):
        shown = [row for row in gained["lists"] if row.is_world == is_world]
        figures[DOCS / "figures" / name] = forest(shown, corrected["lists"])
    return pages | figures


def fill(path: Path, parts: dict[str, str]) -> str:
    """Return the text of a page with these parts between their marks."""
    text = path.read_text(encoding="utf-8")
    for name, part in parts.items():
        before, _, after = split_at_marks(path, text, name)
        text = before + part + after
    return text


def split_at_marks(path: Path, text: str, name: str) -> tuple[str, str, str]:
    """Return what is up to the first mark of a part of a page, the part, and the second mark on."""
    before, begin, rest = text.partition(f"<!-- {name} -->\n")
    part, end, after = rest.partition(f"<!-- /{name} -->")
    if not (begin and end):  # otherwise the rest of the page would be lost
        raise ValueError(f"{path}: the marks <!-- {name} --> and <!-- /{name} --> are missing")
    return before + begin, part, end + after


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
    """Return the mean of the differences of several starts, without their pairs: its interval is
    that of t over the starts."""
    return Difference(np.array([one.values.mean() for one in measured]), None)


def adjust(rows: list[Row]) -> dict[int, float]:
    """Return the id of each measured row -> its p, corrected by Holm within its claim."""
    adjusted = {}
    for claim, _, _ in CLAIMS:
        family = [row for row in rows if row.claim == claim and not row.is_derived]
        adjusted |= adjusted_p(family)
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


if __name__ == "__main__":
    main()
