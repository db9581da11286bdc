"""A model and suites to correlations, accuracies, per-pair scores and rankings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import numpy as np
import pandas as pd

from workbench.data import AVERAGES, Pairs, TransferTask, labels, load_suites
from workbench.encoder import naming
from workbench.errors import DataError, EncoderError, RunError, SettingError, unknown_name
from workbench.evaluation._transfer import Classifier, classify
from workbench.methods.protocol import Method, numbers, unit_rows
from workbench.metrics import alignment, spearman, spearman_by_subset, uniformity
from workbench.rankings import COLUMNS, per_query_metrics, ranking_table
from workbench.runs import Run, metrics_table

AVERAGE, TRANSFER_AVERAGE = AVERAGES
_AVERAGED = ("spearman", "kcc", "ndcg", "accuracy")  # of these measures those that all seven have
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

    metrics: suite -> {"spearman", "n", "subsets", "kcc", "ndcg", "queries"}, of a transfer task {"accuracy", "n", "f1"
    (of pairs), "dev_accuracy", "classifier"}; "sts-average" and "transfer-average" when all seven of a kind are in.
    scores: suite, subset, pair_id, gold, predicted (of a transfer task classes by number). rankings: a row a query's
    target, rank 1 = best.
    """

    metrics: dict[str, Any]
    scores: pd.DataFrame = field(repr=False)
    rankings: pd.DataFrame = field(repr=False)

    def table(self) -> pd.DataFrame:
        """suite | pairs | Spearman | KCC | NDCG | queries | classified | accuracy | F1, x 100, as far as there are."""
        return metrics_table(self.metrics)

    def _repr_html_(self) -> str:
        return self.table().to_html(index=False, float_format="{:.2f}".format, na_rep="", escape=True)


def evaluate(
    model: Encode | Scorer | Any,
    suites: Mapping[str, Pairs | TransferTask] | Sequence[str] | str,
    *,
    run: Run | None = None,
    stage: str = "",
    how: Literal["all", "mean", "wmean"] = "all",
    classifier: Classifier = "sklearn",
) -> Report:
    """Scores every suite with `model` and compares with gold.

    model: sentences -> vectors (a function, or what has a method `encode`, such as an Encoder or a SentenceTransformer;
    cosine is the similarity), or what has a method `score` (first sentences, second sentences -> scores), such as a
    trained method with or without an embedding. For transfer tasks what `model.vectors` gives where there is that:
    SentEval classifies vectors as they were pooled, not normalised.
    suites: by name, as `load_suites` gives them, or names: of scored pairs ("stsb-test", a file of your own) and of
    transfer tasks ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc").
    how: Spearman over all pairs of a suite at once ("all", the field's protocol), or the mean over its subsets,
    plain ("mean") or weighted by size ("wmean"). classifier: of the transfer tasks, see `classify`. `run` keeps the
    result on disk and, without `stage`, is finished by it; what the run already holds is read, not computed again.
    Raises RunError for a run that is not trained to its end or holds another evaluation; DataError, SettingError or
    EncoderError for suites, `how` or scores that nothing can be measured of.
    """
    names = [suites] if isinstance(suites, str) else suites
    if isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names):
        given: Any = load_suites(names)
    else:
        given = suites
    _check(given, how, classifier)
    if run is not None and run.has(stage):
        return _stored(run, stage, given, how, classifier)
    if run is not None and not stage and not run.facts().get("trained"):
        raise RunError(
            f"the training of {run.path} has not come to its end, and this evaluation would finish the run: call "
            'fit(..., run=run) first, which goes on where it stopped, or evaluate without run= (stage="before" is for '
            "the encoder before training)"
        )
    metrics: dict[str, Any] = {}
    scores, rankings = [], []
    for suite, data in given.items():
        if isinstance(data, TransferTask):
            with naming(suite):
                metrics[suite], predicted = classify(_embedder(model), data, classifier)
            scores.append(_score_rows(suite, None, range(len(data)), labels(data.judged), predicted))
        else:
            with naming(suite):
                predicted = _predicted(model, data)
            metrics[suite], ranked = _measure(suite, data, predicted, how)
            rankings.append(ranked)
            scores.append(_score_rows(suite, data.subset, data.pair_id, data.gold, predicted))
    for average, names in AVERAGES.items():
        if all(name in metrics for name in names):
            seven = [metrics[name] for name in names]
            shared = [name for name in _AVERAGED if all(name in values for values in seven)]
            metrics[average] = {name: float(np.mean([values[name] for values in seven])) for name in shared}
    # An empty table has no types, and would take those of the others away.
    rankings = [table for table in rankings if len(table)] or rankings[:1] or [pd.DataFrame(columns=list(COLUMNS))]
    report = Report(metrics, pd.concat(scores, ignore_index=True), pd.concat(rankings, ignore_index=True))
    if run is not None:
        for name, data in given.items():
            run.record_suite(name, data.source, data.checksum)
        run.write_evaluation(report.metrics, report.scores, report.rankings, stage)
    return report


def _check(suites: Mapping[str, Any], how: str, classifier: str) -> None:
    """Raises where nothing could be measured, before anything is computed."""
    if how not in _HOW:
        raise SettingError(unknown_name("aggregation", how, _HOW, "over the subsets of a suite"))
    if classifier not in get_args(Classifier):
        raise SettingError(unknown_name("classifier", classifier, get_args(Classifier), "for transfer tasks"))
    if not isinstance(suites, Mapping) or not suites:
        raise DataError(
            f"suites: got {'none' if isinstance(suites, Mapping) else type(suites).__name__}; give names such as "
            '["stsb-test", "mr"], or scored pairs by name, as load_suites gives them'
        )
    for name, data in suites.items():
        if not isinstance(data, (Pairs, TransferTask)):
            raise DataError(
                f"suites: {name!r} is a {type(data).__name__}; give scored pairs, as load_pairs does, or a transfer "
                "task, as load_task does"
            )
    for average, seven in AVERAGES.items():
        if average in suites and set(seven) <= set(suites):
            raise DataError(f"a suite is called {average}, as the average of its seven sets is; rename its file")


def _score_rows(suite: str, subset: list[str] | None, ids: Any, gold: np.ndarray, predicted: np.ndarray) -> Any:
    names = subset or [""] * len(gold)
    columns = {"suite": suite, "subset": names, "pair_id": [str(i) for i in ids], "gold": gold, "predicted": predicted}
    return pd.DataFrame(columns).astype({"gold": float, "predicted": float})


def _embedder(model: Any) -> Encode:
    """What gives a classifier its vectors: as they were pooled where the model, or that whose `encode` it is, has them.

    EncoderError for what embeds nothing.
    """
    if getattr(model, "pairwise", False):
        raise EncoderError(
            "this model scores pairs and has no embedding of a sentence; leave the transfer tasks out of the suites"
        )
    owner = getattr(model, "__self__", None) if str(getattr(model, "__name__", "")).startswith("encode") else model
    vectors = getattr(owner, "vectors", None)
    return vectors if callable(vectors) else encoder_of(model)


def encoder_of(model: Any) -> Encode:
    """Sentences -> vectors: the model's `encode`, else itself. EncoderError for what is neither."""
    encode = model if isinstance(model, str) else getattr(model, "encode", model)  # a text has an `encode` of its own
    if not callable(encode):
        raise EncoderError(
            f"got a {type(model).__name__}; give sentences -> vectors, or what has a method encode(sentences) or "
            "score(sentence1, sentence2)"
        )
    return encode


def _stored(run: Run, stage: str, suites: Mapping[str, Any], how: str, classifier: str) -> Report:
    """The evaluation that the run holds; RunError when it is not the one asked for."""
    metrics = run.metrics(stage)
    held = [name for name, values in metrics.items() if "n" in values]  # the average of the seven has none
    others = {values.get("aggregation", how) for values in metrics.values()} - {how}
    others |= {values.get("classifier", classifier) for values in metrics.values()} - {classifier}
    if held != list(suites) or others:
        by = f" by {others.pop()!r}" if others else ""
        raise RunError(
            f"{run.path} holds an evaluation of {', '.join(held)}{by}; asked for is {', '.join(suites)} by {how!r} "
            f"and {classifier!r}: "
            "evaluate without run=, or in a run with these suites in its settings"
        )
    for name, data in suites.items():
        run.record_suite(name, data.source, data.checksum)
    return Report(metrics, run.scores(stage), run.rankings(stage))


def dev_values(method: Method, dev: Pairs) -> dict[str, float]:
    """What training measures on dev: Spearman and, where the method embeds, alignment and uniformity.

    Alignment over the pairs whose gold lies above four fifths of its scale (STS: "higher than 4"), uniformity over all
    sentences of both sides.
    """
    with naming(dev.name):
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
    else:
        first, second = unit_rows(encoder_of(model), pairs.sentence1, pairs.sentence2)
        found = (first * second).sum(axis=1)
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
