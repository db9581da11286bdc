"""The tables and the forests of the questions of experiments/order.py, from data/order.csv.

A difference is against the base loss of its cell, paired by seed, with its interval over seeds and
pairs. Holm's correction is over all starts and losses of one question. experiments/claims.py writes
the tables.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from differences import Row, adjusted_p, difference
from order import FINAL_SEEDS, ITS_TEACHER, NO_RANKING, OWN, RESULTS, VECTORS

from workbench.metrics import seed_spread
from workbench.systems import ALPHA, p_text

CELL = ["start", "pooling", "teacher", "beside"]
OTHERS = {
    "stsb": "STS-B",
    "sick": "SICK",
    "ladders": "ladders, KCC",
    "trec": "TREC, accuracy",
}
# STS12 is apart: from english-450-d most of every gain over SimCSE is its.
WITHOUT_STS12 = ["sts13", "sts14", "sts15", "sts16", "stsb", "sick"]
BOTH_DEV = ["stsb-dev", "sick-trial"]
UNTRAINED = ["the start", "whitening of the start", "tf-idf"]
ON_VALUES = ["mean squared error", "correlation"]
ON_ORDER = ["ListMLE", "CoSENT on lists"]
IN_A_SOFTMAX = ["ListNet, the paper's temperatures", "ListNet, softer"]
OF_RANKING = [*ON_VALUES, *IN_A_SOFTMAX, *ON_ORDER, "only the first", VECTORS]
ORDER = [ITS_TEACHER, "SimCSE", NO_RANKING, *OF_RANKING]  # of the rows; others are as recorded
PLACES = {loss: place for place, loss in enumerate(ORDER)}


class Cell(NamedTuple):
    """The final trainings from one start by one teacher, what was measured without training, and
    the trials."""

    start: str
    pooling: str
    teacher: str
    beside: str
    rows: pd.DataFrame
    trials: pd.DataFrame

    @property
    def question(self) -> str:
        if self.beside != "-":
            return "lists"
        return "views" if self.teacher == "none" else "pairs"

    @property
    def base(self) -> str:
        """The row that the losses are compared with."""
        if self.beside == "alone":  # without infoNCE there is no SimCSE under the same conditions
            return "the start"
        if self.teacher == OWN:  # not the row SimCSE, whose rate was chosen on dev
            return ITS_TEACHER
        if self.question == "pairs":
            return "CoSENT"
        # A control of a cell, such as other rates, needs no SimCSE of its own.
        return "SimCSE" if "SimCSE" in set(self.rows["row"]) else NO_RANKING

    @property
    def name(self) -> str:
        start = f"{self.start}, {self.pooling}"
        if self.question == "views":
            return start
        if self.question == "pairs":
            return f"{start}; pairs: {self.teacher}"
        teacher = self.teacher.replace(OWN, "its SimCSE")
        alone = ", alone" if self.beside == "alone" else ""
        return f"{start}; teacher: {teacher}{alone}"


def read_cells() -> list[Cell]:
    """Return the cells with a loss that has all seeds, without losses that lack one."""
    table = pd.read_csv(RESULTS, dtype={"start": str})
    is_untrained = table["loss"].isin(UNTRAINED)
    table = table.rename(columns={"loss": "row"})
    final = table[(table["seed"] > 0) & ~is_untrained]
    trials = table[(table["seed"] == 0) & ~is_untrained]
    cells = []
    for (start, pooling, teacher, beside), own in final.groupby(CELL, sort=False):
        several = own.loc[own.duplicated(["row", "seed"]), "row"].unique()
        seeds = own.groupby("row")["seed"].transform("nunique")
        if len(several):  # it would be left out without a word
            raise ValueError(f"{start}, {beside}: two choices of {', '.join(several)} are recorded")
        finished = own[seeds == len(FINAL_SEEDS)]
        if finished.empty:
            continue
        finished = finished.sort_values("row", key=lambda row: row.map(PLACES), kind="stable")
        is_here = (table["start"] == start) & (table["pooling"] == pooling)
        # Without training, only graded pairs have test sets and sentences of their own.
        of_pairs = Cell(start, pooling, teacher, beside, own, own).question == "pairs"
        is_here &= table["teacher"] == (teacher if of_pairs else "-")
        rows = pd.concat([table[is_untrained & is_here], finished])
        of_cell = (trials[CELL] == [start, pooling, teacher, beside]).all(axis=1)
        cells.append(Cell(start, pooling, teacher, beside, rows, trials[of_cell]))
    return sorted(cells, key=_place)


def _place(cell: Cell) -> tuple[bool, ...]:
    """Return what cells are sorted by; others are in the order in which they were recorded."""
    return (
        cell.start != "world",
        cell.beside == "alone",
        cell.pooling == "cls",
        "larger rates" in cell.start,
        cell.teacher == OWN,
    )


def gains(cells: list[Cell]) -> list[Row]:
    """Return what each loss gains over the base: `place` is the loss, `start` the cell."""
    rows = []
    for cell in cells:
        trained = cell.rows.loc[~cell.rows["row"].isin(UNTRAINED), "row"].unique()
        for loss in trained[trained != cell.base]:
            measured = difference(cell.rows, loss, cell.base)
            if measured:
                rows.append(Row(f"gains over {cell.base}", loss, cell.name, measured))
    return rows


def compare(cells: list[Cell], losses: list[str], bases: list[str]) -> list[Row]:
    """Return what each of the losses gains over each of the others, where a cell has both."""
    rows = []
    for cell in cells:
        for base, loss in product(bases, losses):
            measured = difference(cell.rows, loss, base)
            if measured:
                rows.append(Row(f"over {base}", f"{loss} against {base}", cell.name, measured))
    return rows


def study_table(cells: list[Cell], gained: list[Row], adjusted: dict[int, float]) -> str:
    """Return a table for each cell: scores of each loss, and its difference from the base.

    gained, adjusted: Of `gains`, and their p corrected by Holm."""
    row_of = {(row.start, row.place): row for row in gained}
    lines: list[str] = []
    for cell in cells:
        lines += [f"#### {cell.name}", ""]
        columns = ["loss", "chosen on dev", "seeds", "dev", "average (sd)", f"to {cell.base}"]
        columns += ["95 % interval", "Holm p", "smallest detectable"]
        left_out = [] if cell.question == "pairs" else ["stsb", "sick"]
        others = [
            name
            for name in OTHERS
            if name not in left_out and name in cell.rows and cell.rows[name].notna().any()
        ]
        columns += [OTHERS[name] for name in others]
        is_english = cell.question == "lists" and cell.rows["sts12"].notna().any()
        if is_english:
            columns += [f"to {cell.base}, without STS12", "trial: STS-B dev, SICK trial"]
        lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        for loss in cell.rows["row"].unique():
            own = cell.rows[cell.rows["row"] == loss]
            row = row_of.get((cell.name, loss))
            texts = cells_of(loss, own, row, adjusted)
            for name in others:
                mean = own[name].mean()
                texts.append("" if pd.isna(mean) else f"{mean:.1f}")
            if is_english:
                texts += [without_sts12(cell, loss), on_both_dev(cell, own)]
            lines.append(f"| {' | '.join(texts)} |")
        lines.append("")
    return "\n".join(lines)


def without_sts12(cell: Cell, loss: str) -> str:
    """Return the mean difference from the base over the six other sets; of untrained rows none."""
    if loss in (*UNTRAINED, cell.base):
        return ""
    averages = cell.rows.groupby("row")[WITHOUT_STS12].mean().mean(axis=1)
    return f"{averages[loss] - averages[cell.base]:+.2f}"


def on_both_dev(cell: Cell, own: pd.DataFrame) -> str:
    """Return the two dev sets of the trial that was chosen, whose seed is none of the table's."""
    keys = ["row", "rate", "choice"]
    chosen = cell.trials.merge(own[keys].drop_duplicates(), on=keys)
    if chosen.empty:
        return ""
    return ", ".join(f"{value:.1f}" for value in chosen[BOTH_DEV].iloc[0])


def cells_of(
    loss: str, own: pd.DataFrame, row: Row | None, adjusted: dict[int, float]
) -> list[str]:
    """Return the texts of a loss's row in the table."""
    rate = f"{own['rate'].iloc[0]:g}" if loss not in UNTRAINED else ""
    settings = own["settings"].iloc[0]
    chosen = " ".join(filter(None, [rate, settings if isinstance(settings, str) else ""]))
    seeds = str(len(own)) if loss not in UNTRAINED else ""
    mean, std, n = seed_spread(own["average"])
    average = f"{mean:.2f}" + (f" ({std:.2f})" if n > 1 else "")
    texts = [loss, chosen, seeds, f"{own['dev'].mean():.2f}", average]
    if row is None:
        texts += [""] * 4
    else:
        p = p_text(adjusted[id(row)])
        texts += [f"{row.measured.values.mean():+.2f}", row.measured.bounds, p]
        texts.append(f"{row.measured.smallest:.2f}")
    return texts


def values_table(cells: list[Cell]) -> str:
    """Return the table of what losses on the values gain over losses in a softmax and on the
    order."""
    return comparison_table(compare(cells, ON_VALUES, [*IN_A_SOFTMAX, *ON_ORDER]))


def additions(cells: list[Cell]) -> list[Row]:
    """Return what each ranking loss adds to the same training without one.

    Where it is alone that is the start. Without a ranking loss no teacher is read, so that the row
    of another teacher, from the same start, serves a cell that has none of its own.
    """
    rows = []
    for cell in cells:
        if cell.beside == "alone":
            base, with_base = cell.base, cell
        else:
            base, with_base = NO_RANKING, with_no_ranking(cell, cells)
        for row in compare([with_base], OF_RANKING, [base]):
            rows.append(row._replace(place=row.place.removesuffix(f" against {base}")))
    return rows


def with_no_ranking(cell: Cell, cells: list[Cell]) -> Cell:
    """Return the cell with rows of the training without a ranking loss, if the start has any."""
    if NO_RANKING in set(cell.rows["row"]):
        return cell
    of_others = [
        other.rows[other.rows["row"] == NO_RANKING]
        for other in cells
        if (other.start, other.pooling) == (cell.start, cell.pooling)
    ]
    having = [rows for rows in of_others if len(rows)]
    return cell._replace(rows=pd.concat([cell.rows, *having[:1]]))


def additions_table(added: list[Row], adjusted: dict[int, float], *, is_world: bool) -> str:
    """Return a table with a line for each loss and a column for each cell.

    added, adjusted: Of `additions`, and their p corrected by Holm.
    """
    of_cells = [row for row in added if row.is_world == is_world]
    names = list(dict.fromkeys(row.start for row in of_cells))
    lines = [f"| | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    row_of = {(row.start, row.place): row for row in of_cells}
    for loss in OF_RANKING:
        texts = [loss]
        for name in names:
            row = row_of.get((name, loss))
            texts.append(addition_text(row, adjusted[id(row)]) if row else "")
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def addition_text(row: Row, p: float) -> str:
    """Return a difference with its interval and, if it is clear, a mark of its direction."""
    value, low, high = row.measured.interval
    return interval_text(value, low, high, np.sign(value) if p < ALPHA else 0)


def interval_text(value: float, low: float, high: float, verdict: float) -> str:
    """Return a difference with its interval; verdict: 1 or -1 if it is clear, with a mark then."""
    mark = {1: " ▲", -1: " ▼"}.get(verdict, "")
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]{mark}"


def comparison_table(rows: list[Row]) -> str:
    """Return a table of differences, corrected by Holm over all its rows."""
    return lines_of(rows, adjusted_p(rows))


def lines_of(rows: list[Row], adjusted: dict[int, float]) -> str:
    """Return a table with a line for each row."""
    lines = ["| start, pooling; teacher | loss | difference (sd) | 95 % interval | Holm p |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        texts = [row.start, row.place, str(row.measured), row.measured.bounds]
        lines.append(f"| {' | '.join([*texts, p_text(adjusted[id(row)])])} |")
    return "\n".join(lines) + "\n"
