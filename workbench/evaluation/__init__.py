"""Evaluation: embeddings to correlations, accuracies, per-pair scores and rankings."""

from workbench.evaluation._baselines import (
    StaticWords as StaticWords,
    TfIdf as TfIdf,
    Whitened as Whitened,
)
from workbench.evaluation._evaluate import (
    Encode as Encode,
    Report as Report,
    dev_values as dev_values,
    evaluate as evaluate,
    evaluate_model as evaluate_model,
    load_baseline as load_baseline,
    per_query_metrics as per_query_metrics,
)
from workbench.evaluation._transfer import Classifier as Classifier, classify as classify
