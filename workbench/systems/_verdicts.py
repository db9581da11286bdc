"""The result of a comparison of systems: its numbers, its sentences, and tables of both."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from workbench.files import fill_template
from workbench.metrics import FEWEST_QUERIES, MEASURE_TITLES, RETRIEVAL
from workbench.systems._scores import SystemScores

ALPHA = 0.05  # level of a verdict, after Holm's correction over all tests


@dataclass(frozen=True, eq=False)
class SystemComparison:
    """Systems on suites, with tests against a baseline.

    Attributes:
        table: A row for each suite and system. Columns: suite, system, measure, seeds, pairs or
            queries; value (mean over seeds), their std, and the 95% interval low and high over
            pairs, of several seeds over both; kcc, ndcg, those of `RETRIEVAL` that a report has,
            queries; difference from the baseline (positive: better), difference_low,
            difference_high; seed_std and pairs_std, its standard deviations over seeds and over
            pairs, and paired_seeds, the number of seeds that it is a mean of; p_value of the paired
            permutation test, of several seeds the level at which the interval ends at 0; adjusted,
            the same after Holm's correction over the table; smallest, the true difference that is
            detected in 80 of 100 cases, nan if it is 0 or no difference can be as large. All
            measures are in [-1, 1]; what does not exist is nan.
        baseline: The name of the system that all others are compared with.
        notes: Sentences on what was guessed and left out.
        scores: What was compared, which views show.
    """

    table: DataFrame
    baseline: str
    scores: SystemScores
    notes: list[str]

    # Below every table: a number without its unit and its test is none.
    @property
    def caption(self) -> str:
        """What the numbers of the tables are."""
        table: Any = self.table
        is_of_pairs = table["measure"].isin(["spearman", "accuracy"])
        items = " or ".join(is_of_pairs.map({True: "pairs", False: "queries"}).unique())
        return fill_template(
            "systems/caption.txt",
            items=items,
            seeds=table["seeds"].max(),
            tests=table["adjusted"].count(),
            baseline=self.baseline,
            fewest=FEWEST_QUERIES,
        )

    def verdicts(self) -> list[str]:
        """Return a sentence for each system and suite that was compared with the baseline."""
        rows = self.table.dropna(subset="difference")
        return [
            fill_template(
                "systems/verdict.txt",
                row=row,
                title=_title(row["measure"]),
                baseline=self.baseline,
                p=p_text(row["adjusted"]),
                alpha=ALPHA,
                is_missing=pd.isna,
            )
            for row in rows.to_dict("records")
        ]

    def tables(self) -> Iterator[tuple[str, DataFrame]]:
        """Yield each suite with its table of texts, numbers x 100."""
        for suite, rows in self.table.groupby("suite", sort=False):
            yield str(suite), self._texts(rows)

    def overview(self) -> DataFrame:
        """Return a row for each system and a column for each suite, for a paper.

        A cell is the score x 100; with an arrow if the system is better or worse than the baseline.
        """
        rows = self.table
        # nan, such as of the baseline, is not below it.
        is_clear = rows["adjusted"] < ALPHA
        marks = np.where(rows["difference"] > 0, " ↑", " ↓")
        cells = _scores(rows) + np.where(is_clear, marks, "")
        table = rows.assign(cell=cells).pivot(index="system", columns="suite", values="cell")
        return table.loc[rows["system"].unique(), rows["suite"].unique()].fillna("")

    def _texts(self, rows: Any) -> DataFrame:
        measure = _title(rows["measure"].iloc[0])
        texts = DataFrame({"system": rows["system"]})
        for count in ("seeds", "pairs", "queries"):
            if count in rows and (count != "seeds" or rows[count].max() > 1):
                texts[count] = rows[count].dropna().map("{:.0f}".format)
        texts[measure] = _scores(rows)
        texts["95% interval"] = _ranges(rows["low"], rows["high"])
        for name in ("kcc", "ndcg", *RETRIEVAL):
            title = _title(name)
            if name not in rows or title == measure:
                continue
            values = rows[name]
            if name not in RETRIEVAL:
                # The mean over few queries says little; it stays in `table`. Averages count none.
                queries = rows.get("queries", 0 * values)
                values = values.where(queries >= FEWEST_QUERIES)
            texts[title] = _points(values)
        if rows["difference"].notna().any():
            texts[f"to {self.baseline}"] = _points(rows["difference"], "+.1f")
            # A column cannot have the name of another.
            texts["its 95% interval"] = _ranges(rows["difference_low"], rows["difference_high"])
            texts["p"] = rows["adjusted"].map(p_text)
            texts["smallest detectable"] = _points(rows["smallest"])
        # Such as KCC where no sentence is in four pairs.
        has_text = ((texts != "") & texts.notna()).any()
        return texts.loc[:, has_text]

    def to_html(self) -> str:
        """Return all tables, verdicts and notes for a page."""
        return fill_template("systems/comparison.html", compared=self)

    _repr_html_ = to_html

    def to_latex(self) -> str:
        """Return a table for each suite for a paper; it needs the package booktabs."""
        parts = []
        for suite, texts in self.tables():
            latex = texts.to_latex(
                index=False, escape=True, column_format="l" + "r" * (len(texts.columns) - 1)
            )
            # Of the usual fonts of text, < prints as another sign.
            parts.append(f"% {suite}\n{latex.replace('< .', '$<$ .')}")
        return "\n".join(parts)

    def to_json(self) -> str:
        """Return baseline, level, numbers, verdicts and notes as JSON."""
        # pandas writes what is missing as null; Python would write NaN, which is no JSON.
        rows: Any = self.table.to_json(orient="records", double_precision=15)
        return json.dumps(
            {
                "baseline": self.baseline,
                "alpha": ALPHA,
                "rows": json.loads(rows),
                "verdicts": self.verdicts(),
                "notes": self.notes,
            },
            indent=1,
        )


def p_text(p: float) -> str:
    # As journals write it: without the 0, which every p begins with.
    if pd.isna(p):
        return ""
    if 0.0495 <= p < ALPHA:  # rounded it would not be below
        return "< .05"
    return "< .001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _title(measure: str) -> str:
    return MEASURE_TITLES.get(measure, measure)


def _scores(rows: Any) -> Any:
    """Return the scores x 100, of several seeds with their standard deviation."""
    spread = np.where(rows["std"].notna(), " ± " + _points(rows["std"], ".2f"), "")
    return _points(rows["value"], ".2f") + spread


def _points(values: Any, form: str = ".1f") -> Any:
    return values.map(lambda value: "" if pd.isna(value) else format(100 * value, form))


def _ranges(low: Any, high: Any) -> list[str]:
    pairs = zip(_points(low), _points(high), strict=True)
    return [f"{one} to {two}" if one else "" for one, two in pairs]
