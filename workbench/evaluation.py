"""Evaluation: embeddings to correlations, per-pair scores and rankings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from workbench.config import SEVEN_STS
from workbench.data import Pairs
from workbench.errors import DataError, EncoderError, RunError, SettingError, unknown_name
from workbench.methods.protocol import Method, numbers, unit_rows
from workbench.metrics import alignment, spearman, spearman_by_subset, uniformity
from workbench.rankings import per_query_metrics, ranking_table
from workbench.runs import Run, metrics_table

AVERAGE = "sts-average"  # in the metrics, when all seven STS sets are in
Encode = Callable[[list[str]], Any]
_HOW = ("all", "mean", "wmean")


class Scorer(Protocol):
    """Anything that scores pairs: a method, a cross-encoder, RankEncoder's mixture."""

    def score(self, sentence1: list[str], sentence2: list[str]) -> Any:
        """One number a pair, larger is closer."""
        ...


@dataclass(frozen=True)
class Report:
    """What an evaluation found. Correlations in [-1, 1]; `table` shows them x 100.

    metrics: suite -> {"spearman", "n", "subsets", "kcc", "ndcg", "queries"}; "sts-average" when all seven STS sets are
    in.
    scores: suite, subset, pair_id, gold, predicted. rankings: a row a query's target, rank 1 = best.
    """

    metrics: dict[str, Any]
    scores: pd.DataFrame = field(repr=False)
    rankings: pd.DataFrame = field(repr=False)

    def table(self) -> pd.DataFrame:
        """suite | pairs | Spearman | KCC | NDCG | queries, x 100."""
        return metrics_table(self.metrics)

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False, float_format="{:.2f}".format, na_rep="", escape=True)


def evaluate(
    model: Encode | Scorer,
    suites: Mapping[str, Pairs],
    *,
    run: Run | None = None,
    stage: str = "",
    how: Literal["all", "mean", "wmean"] = "all",
) -> Report:
    """Scores every suite with `model` and compares with gold.

    model: sentences -> vectors (a function, such as `encoder.encode`; cosine is the similarity), or what has a method
    `score` (first sentences, second sentences -> scores), such as a trained method with or without an embedding.
    how: Spearman over all pairs of a suite at once ("all", the field's protocol), or the mean over its subsets,
    plain ("mean") or weighted by size ("wmean"). `run` keeps the result on disk and, without `stage`, is finished by
    it; what the run already holds is read, not computed again.
    Raises RunError for a run that is not trained to its end or holds another evaluation; DataError, SettingError or
    EncoderError for suites, `how` or scores that nothing can be measured of.
    """
    _check(suites, how)
    if run is not None and run.has(stage):
        return _stored(run, stage, suites, how)
    if run is not None and not stage and not run.facts().get("trained"):
        raise RunError(
            f"the training of {run.path} has not come to its end, and this evaluation would finish the run: call "
            'fit(..., run=run) first, which goes on where it stopped, or evaluate without run= (stage="before" is for '
            "the encoder before training)"
        )
    metrics: dict[str, Any] = {}
    scores, rankings = [], []
    for suite, pairs in suites.items():
        predicted = _predicted(model, pairs)
        values, ranked = _measure(suite, pairs, predicted, how)
        metrics[suite] = values
        rankings.append(ranked)
        subset = pairs.subset or [""] * len(pairs.gold)
        columns = {
            "suite": suite,
            "subset": subset,
            "pair_id": pairs.pair_id,
            "gold": pairs.gold,
            "predicted": predicted,
        }
        scores.append(pd.DataFrame(columns))
    if all(name in metrics for name in SEVEN_STS):
        seven = [metrics[name] for name in SEVEN_STS]
        names = [name for name in ("spearman", "kcc", "ndcg") if all(name in values for values in seven)]
        metrics[AVERAGE] = {name: float(np.mean([values[name] for values in seven])) for name in names}
    # An empty table has no types, and would take those of the others away.
    rankings = [table for table in rankings if len(table)] or rankings[:1]
    report = Report(metrics, pd.concat(scores, ignore_index=True), pd.concat(rankings, ignore_index=True))
    if run is not None:
        for name, pairs in suites.items():
            run.record_suite(name, pairs.source, pairs.checksum)
        run.write_evaluation(report.metrics, report.scores, report.rankings, stage)
    return report


def _check(suites: Mapping[str, Pairs], how: str) -> None:
    """Raises where nothing could be measured, before anything is computed."""
    if how not in _HOW:
        raise SettingError(unknown_name("aggregation", how, _HOW, "over the subsets of a suite"))
    if not isinstance(suites, Mapping) or not suites:
        raise DataError(
            f"suites: got {'none' if isinstance(suites, Mapping) else type(suites).__name__}; give scored pairs by "
            'name, such as {"stsb-test": load_pairs("stsb-test")}'
        )
    for name, pairs in suites.items():
        if not isinstance(pairs, Pairs):
            raise DataError(f"suites: {name!r} is a {type(pairs).__name__}; give scored pairs, as load_pairs does")
    if AVERAGE in suites and set(SEVEN_STS) <= set(suites):
        raise DataError(f"a suite is called {AVERAGE}, as the average of the seven STS sets is; rename its file")


def _stored(run: Run, stage: str, suites: Mapping[str, Pairs], how: str) -> Report:
    """The evaluation that the run holds; RunError when it is not the one asked for."""
    metrics = run.metrics(stage)
    held = [name for name, values in metrics.items() if "n" in values]  # the average of the seven has none
    others = {values["aggregation"] for values in metrics.values() if "aggregation" in values} - {how}
    if held != list(suites) or others:
        by = f" by {others.pop()!r}" if others else ""
        raise RunError(
            f"{run.path} holds an evaluation of {', '.join(held)}{by}; asked for is {', '.join(suites)} by {how!r}: "
            "evaluate without run=, or in a run with these suites in its settings"
        )
    for name, pairs in suites.items():
        run.record_suite(name, pairs.source, pairs.checksum)
    return Report(metrics, run.scores(stage), run.rankings(stage))


def dev_values(method: Method, dev: Pairs) -> dict[str, float]:
    """What training measures on dev: Spearman and, where the method embeds, alignment and uniformity.

    Alignment over the pairs whose gold lies above four fifths of its scale (STS: "higher than 4"), uniformity over all
    sentences of both sides.
    """
    if method.pairwise:
        return {"dev_spearman": spearman(dev.gold, _predicted(method, dev))}
    first, second = unit_rows(method.encode_plain, dev.sentence1, dev.sentence2)
    low, high = dev.scale
    close = dev.gold > low + 0.8 * (high - low)
    return {
        "dev_spearman": spearman(dev.gold, (first * second).sum(axis=1)),
        "dev_alignment": alignment(first[close], second[close]) if close.any() else float("nan"),
        "dev_uniformity": uniformity(np.concatenate([first, second])),
    }


def _predicted(model: Encode | Scorer, pairs: Pairs) -> np.ndarray:
    """One finite score a pair."""
    if hasattr(model, "score"):
        found = numbers(model.score(pairs.sentence1, pairs.sentence2), "score")
    elif callable(model):
        first, second = unit_rows(model, pairs.sentence1, pairs.sentence2)
        found = (first * second).sum(axis=1)
    else:
        raise EncoderError(
            f"got a {type(model).__name__}; give sentences -> vectors, such as encoder.encode, or what has a method "
            "score(sentence1, sentence2)"
        )
    if found.shape != (len(pairs.gold),):
        raise EncoderError(f"score returned shape {found.shape} for {len(pairs.gold)} pairs; it must give one each")
    return found


def _measure(suite: str, pairs: Pairs, predicted: np.ndarray, how: str) -> tuple[dict[str, Any], pd.DataFrame]:
    values: dict[str, Any] = {"n": len(pairs.gold)}
    if pairs.subset is None:
        values["spearman"] = spearman(pairs.gold, predicted)
    else:
        values["spearman"] = spearman_by_subset(pairs.gold, predicted, pairs.subset, how=how)
        values["aggregation"] = how
        names = np.asarray(pairs.subset)
        values["subsets"] = {
            name: {
                "spearman": spearman(pairs.gold[names == name], predicted[names == name]),
                "n": int((names == name).sum()),
            }
            for name in dict.fromkeys(pairs.subset)
        }
    ranked = ranking_table(pairs, predicted, suite)
    if len(ranked):
        queries = per_query_metrics(ranked)
        # A query whose gold or scores are all equal has no tau; it is left out of the mean, and the count says so.
        kcc, ndcg = queries[["kcc", "ndcg"]].mean().tolist()
        known = int(queries["kcc"].notna().to_numpy().sum())
        values |= {"kcc": kcc, "ndcg": ndcg, "queries": len(queries), "queries_with_kcc": known}
    return values, ranked
