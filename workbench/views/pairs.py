"""Every pair of a suite as a table: gold, and its rank under each label."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from workbench.data import Pairs, load_pairs
from workbench.files import set_name
from workbench.metrics import average_ranks
from workbench.views.queries import rank_displacement

# How pairs can be ordered: name -> (in a few words, what it orders by). a and b are labels.
PAIR_ORDERS = {
    "error": ("a is most wrong", "places between the ranks of gold and a"),
    "near": ("a has it too near", "places that a has it nearer than gold"),
    "far": ("a has it too far", "places that a has it further than gold"),
    "gain": ("b gains over a", "places that b is nearer to gold than a"),
    "loss": ("b loses against a", "places that b is further from gold than a"),
    "disagreement": ("a and b disagree", "places between the ranks of a and b"),
    "overlap": ("words in common", "words that both sentences have, of all their words"),
    "gold": ("gold", "gold"),
    "data": ("as in the data", "none, as the data has them"),
}


def pair_table(found: Mapping[str, Any], pairs: Pairs | str, *, suite: str | None = None) -> pd.DataFrame:
    """Return every pair of a suite with its rank among all pairs under each label.

    Args:
        found: label -> a `Run`, a `Report`, a table of their scores, or one score per pair, larger is closer.
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
    data = load_pairs(pairs) if isinstance(pairs, str) else pairs
    if not found:
        raise ValueError("no scores to look at; give at least one, as {label: run, report or scores}")
    words = [[text.casefold().split() for text in side] for side in (data.sentence1, data.sentence2)]
    table = pd.DataFrame(
        {
            "pair_id": data.pair_id,
            "subset": data.subset or "",
            "sentence1": data.sentence1,
            "sentence2": data.sentence2,
            "gold": data.gold,
            "overlap": [len({*one} & {*two}) / max(len({*one, *two}), 1) for one, two in zip(*words, strict=True)],
            "words": [len(one) + len(two) for one, two in zip(*words, strict=True)],
        }
    )
    suite = set_name(suite or data.name)
    scores = {str(label): _aligned_scores(str(label), given, data, suite) for label, given in found.items()}
    is_scored = ~np.isnan(list(scores.values())).any(axis=0)
    if not is_scored.any():
        raise ValueError(f"no pair of {data.name} was scored by all of {', '.join(scores)}; score them on one set")
    table, gold_ranks, columns = table[is_scored].reset_index(drop=True), average_ranks(-data.gold[is_scored]), {}
    for label, values in scores.items():
        ranks = average_ranks(-values[is_scored])
        errors = rank_displacement(ranks, gold_ranks) / max(len(ranks) - 1, 1)
        columns |= {f"score: {label}": values[is_scored], f"rank: {label}": ranks, f"error: {label}": errors}
    return pd.concat([table, pd.DataFrame(columns)], axis=1)


def _aligned_scores(label: str, given: Any, pairs: Pairs, suite: str) -> np.ndarray:
    """Return [n] scores of one label in the order of the pairs; nan for a pair without a score."""
    table = getattr(given, "scores", given)  # a run has a method of this name, a report a table
    table = table() if callable(table) else table
    if not isinstance(table, pd.DataFrame):
        values = np.asarray(table, dtype=np.float64)
        if values.shape != (len(pairs),) or not np.isfinite(values).all():
            raise ValueError(f"{label!r} has scores of shape {values.shape} for {len(pairs)} pairs; give a number each")
        return values
    rows = table.loc[table["suite"] == suite]
    rows = rows.set_index(rows["pair_id"].astype(str)).reindex(list(map(str, pairs.pair_id)))
    is_scored = rows["predicted"].notna().to_numpy()
    if not is_scored.any():
        suites = ", ".join(table["suite"].unique())
        raise ValueError(f"{label!r} has no scores of these pairs as {suite!r}, but of {suites}; name its suite=")
    if not np.allclose(rows["gold"][is_scored], pairs.gold[is_scored], rtol=0, atol=1e-9):
        raise ValueError(f"{label!r} was scored on another version of {suite!r}: its gold differs; score it again")
    return rows["predicted"].to_numpy(dtype=np.float64)


def order_values(table: pd.DataFrame, order: str, a: str, b: str) -> np.ndarray:
    """Return the values by which an order of `PAIR_ORDERS` sorts a `pair_table`, largest first."""
    first, second = table[f"error: {a}"], table[f"error: {b}"]
    values = {
        "error": first.abs(),
        "near": first,
        "far": -first,
        "gain": first.abs() - second.abs(),
        "loss": second.abs() - first.abs(),
        "disagreement": (table[f"rank: {a}"] - table[f"rank: {b}"]).abs(),
        "data": pd.Series(np.zeros(len(table))),
    }
    return (values[order] if order in values else table[order]).to_numpy()


def best_threshold(same: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return the threshold that classifies most pairs correctly, and the share of these pairs.

    same [n] bool, scores [n]. The threshold is half-way between two scores, the largest of several equally good ones,
    and -inf or inf if one class for all pairs is best.
    """
    order = np.argsort(-scores, kind="stable")
    right = np.concatenate([[0], np.cumsum(np.where(same[order], 1, -1))]) + (~same).sum()
    ends = np.concatenate([[np.inf], scores[order], [-np.inf]])
    right[ends[:-1] == ends[1:]] = -1  # equal scores are decided alike
    best = int(right.argmax())
    return float((ends[best] + ends[best + 1]) / 2), float(right[best] / len(same))


def gold_bands(gold: np.ndarray, every: np.ndarray, bands: int = 5) -> tuple[list[str], np.ndarray]:
    """Return the names of equal bands of `every`, from whole number to whole number, and the band of each of `gold`.

    A band begins at its lower edge and ends before its upper one, the last at it.
    """
    least = np.floor(every.min())
    edges = np.linspace(least, max(np.ceil(every.max()), least + 1), bands + 1).round(12)  # 0.6 and not 0.6 + 1e-16
    names = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    return names, np.clip(np.digitize(gold, edges[1:-1]), 0, bands - 1)
