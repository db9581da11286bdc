"""Every pair of a suite as a table: gold, and its rank under each label."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import Pairs, load_pairs
from workbench.files import set_name
from workbench.metrics import average_ranks
from workbench.views.queries import extract_table, rank_displacement


def pair_table(scores: Mapping[str, Any], pairs: Pairs | str, *, suite: str | None = None) -> pd.DataFrame:
    """Return every pair of a suite with its rank among all pairs under each label.

    Args:
        scores: label -> a `Run`, a `Report`, a table of their scores, or one score per pair, larger is closer.
        pairs: The scored pairs, or the name of a set.
        suite: The name of the set in runs and reports, if it has another there.

    Returns:
        A row for each pair that every label has scored, in the order of the data: pair_id, subset ("" if there is
        none), sentence1, sentence2, gold, overlap in [0, 1] (words in both of all their words), words (of both
        sentences), and for each label L "score: L", "rank: L" (1: the largest score of all pairs; equal ones share
        their average) and "error: L" in [-1, 1]: the share of the list by which L ranks the pair nearer (above 0) or
        further than gold does, 0 anywhere among the places that gold ties.

    Raises:
        DataError: No such set.
        ValueError: Scores of other pairs, of another gold, or not one number each.
    """
    if not scores:
        raise ValueError("no scores; pass at least one, as {label: run, report or scores}")
    data = load_pairs(pairs) if isinstance(pairs, str) else pairs
    suite = set_name(suite or data.name)
    aligned = {str(label): _scores_in_order(str(label), source, data, suite) for label, source in scores.items()}
    is_scored = ~np.isnan(list(aligned.values())).any(axis=0)
    if not is_scored.any():
        raise ValueError(f"no pair of {data.name} was scored by all of {', '.join(aligned)}; score them on one set")
    words = [[text.casefold().split() for text in side] for side in (data.sentence1, data.sentence2)]
    columns: dict[str, Any] = {
        "pair_id": data.pair_id,
        "subset": data.subset or "",
        "sentence1": data.sentence1,
        "sentence2": data.sentence2,
        "gold": data.gold,
        "overlap": [len({*one} & {*two}) / max(len({*one, *two}), 1) for one, two in zip(*words, strict=True)],
        "words": [len(one) + len(two) for one, two in zip(*words, strict=True)],
    }
    table = pd.DataFrame(columns)[is_scored].reset_index(drop=True)
    gold_ranks, columns = average_ranks(-data.gold[is_scored]), {}
    for label, values in aligned.items():
        ranks = average_ranks(-values[is_scored])
        errors = rank_displacement(ranks, gold_ranks) / max(len(ranks) - 1, 1)
        columns |= {f"score: {label}": values[is_scored], f"rank: {label}": ranks, f"error: {label}": errors}
    return table.assign(**columns)


def _scores_in_order(label: str, source: Any, pairs: Pairs, suite: str) -> np.ndarray:
    """Return [n] scores of one label in the order of the pairs; nan for a pair without a score."""
    if isinstance(source, list | tuple | np.ndarray | pd.Series):
        values = np.asarray(source, dtype=np.float64)
        if values.shape != (len(pairs),) or not np.isfinite(values).all():
            raise ValueError(f"{label!r} has scores of shape {values.shape}; there must be {len(pairs)} finite numbers")
        return values
    table = extract_table(label, source, "scores")
    rows = table.loc[table["suite"] == suite]
    rows = rows.set_index(rows["pair_id"].astype(str)).reindex(list(map(str, pairs.pair_id)))
    is_scored = rows["predicted"].notna().to_numpy()
    if not is_scored.any():
        suites = ", ".join(table["suite"].unique())
        raise ValueError(f"{label!r} has no scores of these pairs as {suite!r}, but of {suites}; name its suite=")
    if not np.allclose(rows["gold"][is_scored], pairs.gold[is_scored], rtol=0, atol=1e-9):
        raise ValueError(f"{label!r} was scored on another version of {suite!r}: its gold differs; score it again")
    return rows["predicted"].to_numpy(dtype=np.float64)


def gold_bands(gold: np.ndarray, every: np.ndarray, bands: int = 5) -> tuple[list[str], np.ndarray]:
    """Return the names of equal bands of `every`, from whole number to whole number, and the band of each of `gold`.

    A band begins at its lower edge and ends before its upper one, the last at it.
    """
    least = np.floor(every.min())
    edges = np.linspace(least, max(np.ceil(every.max()), least + 1), bands + 1).round(12)  # 0.6 and not 0.6 + 1e-16
    names = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    return names, np.clip(np.digitize(gold, edges[1:-1]), 0, bands - 1)
