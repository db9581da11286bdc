"""Every pair of a suite in a table with its ranks, and the chosen pair with its partners.

Partners of a sentence are those that it is paired with, on either side."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from pandas import DataFrame, Series

from workbench.data import Pairs, load_pairs
from workbench.errors import DataError
from workbench.files import AnyPath, reraise_os_error, set_name, user_path, write_text
from workbench.metrics import average_ranks, spearman
from workbench.views._style import read_part, render, shortened
from workbench.views.encoders import Encoders, label_encoders, scores_of
from workbench.views.explorer import Explorer, Sections
from workbench.views.queries import QueryView, Sources, extract_table, rank_displacement
from workbench.words import words_of

_SIDES = ["sentence1", "sentence2"]
# Columns of `pair_table` and how they are shown; gold with its own digits.
_SHOWN = json.loads(read_part("pair_columns.json"))


class PairExplorer(Explorer):
    """See every pair of a suite, its rank among all pairs, and one of them with its partners."""

    kind = "pairs"
    shows = "scores"
    distance = "distance between the ranks by a and b, or by a and gold, as a share of the list"

    def __init__(
        self,
        scores: Encoders,
        pairs: Pairs | str,
        *,
        encoders: Encoders = None,
        columns: dict[str, str] | None = None,
    ) -> None:
        """Show scores as of `pair_table`, or of the encoders of `Ask`, which are computed.

        Args:
            scores: label -> scores or an encoder; the table is `self.table`.
            pairs: Scored pairs, or the name of a set or file; DataError if unknown.
            encoders: As of `RankingExplorer`; by default those of `scores`.
            columns: Role -> column of a file, as of `load_data`.

        Example:
            PairExplorer(["english-encoder", "word-overlap"], "ladders-all")
        """
        name = None
        if isinstance(pairs, str):
            name = pairs
            pairs = load_pairs(name, columns=columns)
        self._data = pairs
        self._suite = set_name(pairs.name)
        sources = label_encoders(scores)
        data = {label: scores_of(source, pairs, name, columns) for label, source in sources.items()}
        if encoders is None:
            # What was scored here is an encoder; all others came as scores.
            encoders = {
                label: source for label, source in sources.items() if data[label] is not source
            }
        super().__init__(data, encoders, height=320, stars=True)
        self.children[1].layout.flex_flow = "column"

    def _load(self, data: Sources) -> None:
        table: Any = pair_table(data, self._data)
        both = table[_SIDES].stack()
        # sentence -> the rows that have it on either side
        partners = both.index.to_frame()[0].groupby(both).unique()
        # Without subset if no pair has one.
        columns = [column for column in _SHOWN if table[column["name"]].astype(str).any()]
        correlations = []
        labels = list(map(str, data))
        for label, short in shortened(labels, 24).items():
            error = f"error: {label}"
            columns.append(
                {"name": f"rank: {label}", "title": short, "hover": label, "error": error}
            )
            correlation = spearman(table["gold"], table[f"score: {label}"])
            correlations.append(f"{label} {100 * correlation:.1f}")
        # All is computed before anything is set, so that wrong data changes nothing.
        self.note = f"; Spearman with gold x 100: {', '.join(correlations)}"
        self.labels = labels
        self.title = f"Pairs of {self._suite}"
        self.ids = table["pair_id"].tolist()
        self.frame = table.filter(regex="^(?!pair_id$|score: )")
        self.columns = columns
        self.table = table
        self._partners = partners

    @property
    def selected(self) -> DataFrame:
        """Return the listed pairs, in their order: rows of `table`."""
        return self.table.iloc[self.grid.listed]

    @property
    def marked(self) -> DataFrame:
        """Return the pairs with a star, in the order of the data: rows of `table`."""
        return self.table.iloc[self.grid.ticked]

    def write_marked(self, path: AnyPath) -> Path:
        """Write the marked pairs to a new .csv, which `load_pairs` reads; return its path.

        Its header states the range of the scores; further columns have id, subset and the score by
        each label.

        Raises:
            DataError: No pair is marked, the file exists, or its name has another ending.

        Example:
            explorer.write_marked("marked.csv")
        """
        target = user_path(path)
        marked = self.marked
        if marked.empty or target.exists() or target.suffix != ".csv":
            raise DataError(
                f"cannot write {len(marked)} marked pairs to {target}: mark pairs with the key m, "
                "and name a .csv that does not exist yet"
            )
        columns = marked.filter(regex="^(pair_id|subset|sentence|gold|score: )")
        table = columns.rename(columns={"gold": f"score ({self._data.scale_text})"})
        with reraise_os_error(target, "another file"):
            write_text(target, table.to_csv(index=False))
        return target

    def distances(self, a: str, b: str | None = None) -> ndarray:
        if b is None:
            return self.table[f"error: {a}"].abs().to_numpy()
        places = (self.table[f"rank: {a}"] - self.table[f"rank: {b}"]).abs()
        return (places / max(len(self.table) - 1, 1)).to_numpy()

    def details(self, row: int, *, is_live: bool) -> str:
        return render("pair.html", pair=self.table.loc[row]) + super().details(row, is_live=is_live)

    def sections(self, rows: list[int]) -> Sections:
        """Yield a section for each first sentence, whose table marks these of its pairs.

        After it come its second sentences that no other section shows."""
        remarks = {row: self._remark(row) for row in rows}
        shown = {*self.table.loc[rows, "sentence1"]}  # sentences that have a table
        for query, pairs in self.table.loc[rows].groupby("sentence1", sort=False):
            views = [self._view(query, remarks)]
            for second in pairs["sentence2"]:
                # A sentence with one partner has the table of that one.
                if second not in shown and len(self._partners[second]) > 1:
                    shown.add(second)
                    views.append(self._view(second, remarks))
            yield str(pairs["pair_id"].iloc[0]), views

    def _remark(self, row: int) -> str:
        """Return the name of a pair and its ranks among all pairs, not among its partners."""
        pair = self.table.loc[row]
        ranks = [f"{rank:g}" for rank in pair.filter(regex="^rank: ")]
        return (
            f"{pair['subset']} {pair['pair_id']}; of {len(self.table):,} pairs: {', '.join(ranks)}"
        )

    def views(self, row: int) -> list[QueryView]:
        """Return the first sentence with all its partners, and the second if it has others."""
        first, second = self.table.loc[row, _SIDES]
        sentences = [first]
        if second != first and len(self._partners[second]) > 1:
            sentences.append(second)
        return [self._view(sentence, {row: "this pair"}) for sentence in sentences]

    def _view(self, sentence: str, remarks: Mapping[int, str]) -> QueryView:
        partners = self._partners[sentence]
        rows = self.table.iloc[partners]
        is_first = rows["sentence1"] == sentence
        targets = rows["sentence2"].where(is_first, rows["sentence1"]).tolist()
        scores = {label: rows[f"score: {label}"].to_numpy() for label in self.labels}
        shown = [remarks.get(row, "") for row in partners]
        gold = rows["gold"].to_numpy()
        return QueryView.from_scores(sentence, targets, gold, scores, self._suite, remarks=shown)


def pair_table(scores: Sources, pairs: Pairs) -> DataFrame:
    """Return every pair of a suite with its rank among all pairs under each label.

    Args:
        scores: label -> a `Run`, a `Report`, a table of their scores, or one score per pair, larger
            is closer.
        pairs: The scored pairs.

    Returns:
        A row for each pair that every label has scored, in the order of the data: pair_id, subset
        ("" if there is none), sentence1, sentence2, gold, overlap in [0, 1] (words in both of all
        their words), words (of both sentences), and for each label L "score: L", "rank: L" (1: the
        largest score of all pairs; equal ones share their average) and "error: L" in [-1, 1]: the
        share of the list by which L ranks the pair nearer (above 0) or further than gold does, 0
        anywhere among the places that gold ties.

    Raises ValueError for scores of other pairs or of another gold.
    """
    # A run's tables name the set, not the file that it was read from.
    suite = set_name(pairs.name)
    aligned = {
        str(label): scores_in_order(str(label), source, pairs, suite)
        for label, source in scores.items()
    }
    # Ranks are comparable only among the same pairs.
    scored = DataFrame(aligned).dropna()
    if scored.empty:
        raise ValueError(
            f"no pair of {suite} was scored by all of {', '.join(aligned)}; score them on one set"
        )
    columns = {
        "pair_id": pairs.pair_id,
        "subset": pairs.subset or "",
        "sentence1": pairs.sentence1,
        "sentence2": pairs.sentence2,
        "gold": pairs.gold,
    }
    table = DataFrame(columns).loc[scored.index]
    words = [table[side].map(words_of) for side in _SIDES]
    overlaps = []
    for one, two in zip(*words, strict=True):
        common = {*one} & {*two}
        overlaps.append(len(common) / max(len({*one, *two}), 1))
    table["overlap"] = overlaps
    table["words"] = words[0].str.len() + words[1].str.len()
    gold_ranks = average_ranks(-table["gold"])
    last = max(len(table) - 1, 1)
    for label, values in scored.items():
        ranks = average_ranks(-values)
        table[f"score: {label}"] = values
        table[f"rank: {label}"] = ranks
        table[f"error: {label}"] = rank_displacement(ranks, gold_ranks) / last
    return table.reset_index(drop=True)


def scores_in_order(label: str, source: Any, pairs: Pairs, suite: str) -> ndarray:
    """Return [n] scores of one label in the order of the pairs; nan for a pair without a score."""
    if isinstance(source, list | ndarray | Series):
        values = np.asarray(source, dtype=np.float64)
        if values.shape != (len(pairs),) or not np.isfinite(values).all():
            raise ValueError(
                f"{label!r} has scores of shape {values.shape}; "
                f"there must be {len(pairs)} finite numbers"
            )
        return values
    table = extract_table(source, "scores")
    rows = table.loc[table["suite"] == suite]
    # Ids are text in files, and numbers in some data.
    rows = rows.set_index(rows["pair_id"].astype(str)).reindex(list(map(str, pairs.pair_id)))
    values = rows["predicted"].to_numpy(float)
    # A pair without a score has no gold in the file to compare.
    gold = np.where(np.isnan(values), pairs.gold, rows["gold"])
    if not np.allclose(gold, pairs.gold, rtol=0, atol=1e-9):
        raise ValueError(
            f"{label!r} was scored on another version of {suite!r}: its gold differs; "
            "score it again"
        )
    return values
