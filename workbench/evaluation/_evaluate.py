"""Evaluate a model on suites: correlations, accuracies, scores of pairs and rankings."""

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from workbench.checkpoints import EncodingSpec, commit_on_hub, find_checkpoint
from workbench.config import BaselineConfig
from workbench.data import (
    AVERAGES,
    Pairs,
    TransferTask,
    labels,
    load_sentences,
    load_suites,
    own_columns,
    require_columns,
)
from workbench.encoder import Encode, finite_array, load_encoder, unit_rows
from workbench.errors import DataError, EncoderError, RunError, require_known
from workbench.evaluation._baselines import StaticWords, TfIdf, Whitened
from workbench.evaluation._reports import Report, join_rankings, report_pairs, scores_table
from workbench.evaluation._transfer import Classifier, classify
from workbench.files import Names
from workbench.methods.base import Method
from workbench.metrics import (
    alignment,
    spearman_by_subset,
    uniformity,
)
from workbench.printing import LOG
from workbench.runs import AnyPath, Run, finished_run

# Pairs of dev whose uniformity is computed; its time grows with their square.
_MOST = 5000
# Roles of inputs that are not suites; a suite of such a name is recorded as "suite dev".
_ROLES = "encoder train dev base corpus spans"
Suites = Mapping[str, Pairs | TransferTask]
AnySuites = Suites | Names


def evaluate(
    model: Any,
    suites: AnySuites,
    *,
    run: Run | None = None,
    stage: str = "",
    how: Literal["all", "mean", "wmean"] = "all",
    classifier: Classifier = "sklearn",
) -> Report:
    """Score every suite with a model and compare with gold.

    Args:
        model: An object with `score(sentence1, sentence2)`, one number per pair (larger is closer),
            one with `encode` (an Encoder, a SentenceTransformer), or a function from sentences to
            vectors, whose cosines are the scores. Transfer tasks classify vectors that are not
            normalised if `encode` has `normalize_embeddings`.
        suites: Datasets by name, as `load_suites` returns them, or names such as "stsb-test", a
            file or "mr".
        run: Stores the result, and is finished by it unless there is a `stage`; a stored result is
            read again.
        stage: "before" for the encoder before training.
        how: Spearman over all pairs of a suite at once ("all", the field's protocol), or the mean
            over its subsets, plain ("mean") or weighted by size ("wmean").
        classifier: Of the transfer tasks, see `classify`.

    Example:
        report = evaluate(encoder, ["stsb-test", "mr"])
        report.table()

    Raises:
        RunError: The run is not trained to its end, or contains another evaluation.
        DataError, EncoderError: A suite is unknown or of another kind, or a score is not finite.
    """
    require_known("classifier", classifier, get_args(Classifier), "of transfer tasks")
    data = _load(suites)
    if run is not None:
        if not isinstance(run, Run):
            raise RunError(f"run is {run!r}, not a Run; give Run({str(run)!r})")
        if not stage and not run.facts().get("trained"):
            raise RunError(
                f"the training of {run.path} has not finished; call fit(..., run=run) first"
            )
        inputs = {}
        for name, dataset in data.items():
            role = f"suite {name}" if name in _ROLES.split() else name
            inputs[role] = dataset.source, dataset.checksum
        if run.has(stage):
            _require_same(run, stage, data, how, classifier)
            run.record(inputs)  # which refuses a suite that has changed since
            return Report(run.metrics(stage), run.scores(stage), run.rankings(stage))
        if not stage and isinstance(model, Method):
            model.restore(run.path / "encoder")  # it may have been built anew since the training
    report = _score_suites(model, data, how, classifier)
    if run is not None:
        # Not before it is scored: what failed may be another version of the suite the next time.
        run.record(inputs)
        run.write_evaluation(report.metrics, report.scores, report.rankings, stage)
    return report


def _score_suites(model: Any, data: Suites, how: str, classifier: Classifier) -> Report:
    metrics = {}
    scores = []
    rankings = []
    for suite, dataset in data.items():
        if isinstance(dataset, TransferTask):
            metrics[suite], predicted = classify(_vectors_of(model), dataset, classifier)
            gold = labels(dataset.judged)
            scores.append(scores_table(suite, "", range(len(gold)), gold, predicted))
        else:
            report = report_pairs({suite: (dataset, _predict(model, dataset))}, how=how)
            metrics |= report.metrics
            scores.append(report.scores)
            rankings.append(report.rankings)
    # Only over all of its sets: a mean of six is not comparable with a published one.
    for average, names in AVERAGES.items():
        if {*names} <= metrics.keys():
            means = {}
            # Those that all seven sets have.
            for measure in ("spearman", "kcc", "ndcg", "accuracy"):
                values = [metrics[name].get(measure) for name in names]
                if None not in values:
                    means[measure] = float(np.mean(values))
            metrics[average] = means
    return Report(metrics, pd.concat(scores, ignore_index=True), join_rankings(rankings))


def evaluate_model(config: BaselineConfig, runs_root: AnyPath = "runs") -> Run:
    """Return the finished run `<root>/base/<digest>-s0` of a model as it is, reading a stored one.

    Example:
        run = evaluate_model(BaselineConfig(encoder="english-encoder"), "runs")
    """
    if finished := finished_run(config, runs_root):
        _require_same_commit(config, finished)
        if config.precision == "auto" and "precision" not in finished.facts():
            LOG.warning(
                "%s was evaluated by an earlier version, perhaps in bf16; for scores in "
                'fp32: workbench rm "%s", then evaluate again',
                finished.path,
                finished.path,
            )
        return finished
    require_columns(config)
    model = load_baseline(config)
    suites = load_suites(config)
    # Training may choose bf16; published numbers of a model as it is are of fp32.
    precision = "fp32" if config.precision == "auto" else config.precision
    run = Run.open(config, runs_root)
    try:
        if not run.finished:  # by another process meanwhile
            source = getattr(getattr(model, "encoder", model), "source", None)  # tf-idf has none
            # There is nothing to train.
            run.record(trained=True, source=source, precision=precision)
            evaluate(model, suites, run=run, classifier=config.classifier)
    finally:
        # Even after an error: another process may evaluate it now.
        run.release()
    return run


def _require_same_commit(config: BaselineConfig, finished: Run) -> None:
    """Raise RunError if a repository of the hub has other files than those that were evaluated."""
    source = finished.facts().get("source") or ""
    name, _, commit = source.partition("@")
    if "hub:" not in name or commit == config.revision:
        return
    newest = commit_on_hub(config.encoder.removeprefix("st:"), config.revision)
    # Without a network the recorded scores are those that can be had.
    if newest not in ("", commit):
        raise RunError(
            f"{finished.path} has the scores of {source}, and the hub has commit {newest} now; "
            f'`workbench rm "{finished.path}"`, or set revision to one of them'
        )


def load_baseline(config: BaselineConfig, sentences: Sequence[str] | None = None) -> Any:
    """Load the baseline of `config`.

    Args:
        config: Its settings.
        sentences: Those that whitening and tfidf are fitted on, by default `config.fit_on`.

    Returns:
        A model whose `encode(sentences)` returns unit rows, float32, on the CPU; zeros for a
        sentence without a known word.
    """
    if sentences is None and config.kind in ("whitening", "tfidf"):
        columns = own_columns(config.fit_on, config.columns)
        sentences = load_sentences(config.fit_on, limit=config.fit_limit, columns=columns).sentences
    if config.kind == "tfidf":
        # No checkpoint, device or precision: words are counted.
        return TfIdf(sentences or [], words=config.words)
    checkpoint = find_checkpoint(config.encoder, config.revision)
    spec = checkpoint.spec(config.pooling)
    if checkpoint.kind != "transformer" and config.precision not in ("auto", "fp32"):
        raise EncoderError(f"{config.encoder} computes in fp32: leave out precision")
    if config.template:
        # Sentences end as PromptBERT ends them.
        spec = EncodingSpec("mask", config.template, ".", ".?\"'")
    encoder = load_encoder(checkpoint, spec, precision=config.precision, device=config.device)
    if config.kind == "static":
        if checkpoint.kind != "transformer":
            raise EncoderError(
                f"{config.encoder} has no word embeddings under a transformer; leave kind out"
            )
        return StaticWords(encoder)
    if spec is None and checkpoint.kind == "transformer":
        LOG.warning("%s names no pooling: [CLS] is taken; set pooling", config.encoder)
    if config.kind == "whitening":
        return Whitened(encoder, sentences or [], width=config.width)
    return encoder


def dev_values(method: Method, dev: Pairs) -> tuple[dict[str, float], np.ndarray]:
    """Return the values of dev, and the score of each pair, [n].

    They are dev_spearman and, if the method embeds sentences, dev_alignment (gold above 4 of 5) and
    dev_uniformity (of the first 5,000 pairs).
    """
    geometry = {}
    if method.pairwise:
        scores = _predict(method, dev)
    else:
        first, second = unit_rows(method.encode_plain, dev.sentence1, dev.sentence2)
        scores = (first * second).sum(axis=1)
        # Above 4 of 5, on whatever scale this dev set has.
        low, high = dev.score_range
        close = dev.gold > low + 0.8 * (high - low)
        geometry = {
            "dev_alignment": alignment(first[close], second[close]),
            "dev_uniformity": uniformity(np.concatenate([first[:_MOST], second[:_MOST]])),
        }
    correlation = spearman_by_subset(dev.gold, scores, dev.subset, how=dev.how)
    return {"dev_spearman": correlation, **geometry}, scores


def encoder_of(model: Any) -> Encode:
    """Return the model's `encode`, or the model itself if it is a function.

    Raises:
        EncoderError: It is neither.
    """
    encode = getattr(model, "encode", model)
    # str.encode is another function, and a cross-encoder is called with features.
    is_other = isinstance(model, str) or (encode is model and hasattr(model, "predict"))
    if is_other or not callable(encode):
        raise EncoderError(
            f"{model!r:.80} is no model; give a function or an object with `encode` or `score`"
        )
    return encode


def _vectors_of(model: Any) -> Encode:
    if getattr(model, "pairwise", False):
        raise EncoderError(
            "this model scores pairs and has no vectors; leave the transfer tasks out of the suites"
        )
    encode: Any = encoder_of(model)
    # Lengths carry information for a classifier; SentEval does not normalise either.
    if encode is not model and "normalize_embeddings" in inspect.signature(encode).parameters:
        return partial(encode, normalize_embeddings=False)
    return encode


def _predict(model: Any, pairs: Pairs) -> np.ndarray:
    if hasattr(model, "score"):
        predicted = finite_array(model.score(pairs.sentence1, pairs.sentence2), "score")
    else:
        first, second = unit_rows(encoder_of(model), pairs.sentence1, pairs.sentence2)
        predicted = (first * second).sum(axis=1)
    if predicted.shape != (len(pairs.gold),):
        raise EncoderError(
            f"score returned shape {predicted.shape} for {len(pairs.gold)} pairs; return one each"
        )
    return predicted


def _load(suites: Any) -> Suites:
    if not isinstance(suites, Mapping):
        suites = load_suites(suites)
    if not suites or not {*map(type, suites.values())} <= {Pairs, TransferTask}:
        raise DataError(
            "suites must be names such as ['stsb-test', 'mr'], or scored pairs and transfer tasks "
            "by name, as {'mine': pairs}"
        )
    # The average would overwrite the scores of that suite.
    for average, seven in AVERAGES.items():
        if {average, *seven} <= suites.keys():
            raise DataError(
                f"a suite is called {average}, like the average of its seven sets; rename its file"
            )
    return suites


def _require_same(run: Run, stage: str, suites: Suites, how: str, classifier: str) -> None:
    """Raise RunError if the evaluation that the run contains is not the one asked for."""
    asked = [*suites, how, classifier]
    metrics = run.metrics(stage)
    stored = [name for name, values in metrics.items() if "n" in values]  # averages have none
    for name, usual in (("aggregation", how), ("classifier", classifier)):
        stored += sorted({values.get(name, usual) for values in metrics.values()})
    if stored != asked:
        raise RunError(
            f"{run.path} contains an evaluation of {', '.join(stored)}, not of "
            f"{', '.join(asked)}; evaluate without run="
        )
