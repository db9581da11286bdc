"""Evaluation: embeddings to correlations, accuracies, per-pair scores and rankings."""

from workbench.evaluation._evaluate import (
    AVERAGE as AVERAGE,
    TRANSFER_AVERAGE as TRANSFER_AVERAGE,
    Encode as Encode,
    Report as Report,
    Scorer as Scorer,
    dev_values as dev_values,
    evaluate as evaluate,
)
from workbench.evaluation._mteb import for_mteb as for_mteb, to_mteb as to_mteb
from workbench.evaluation._recorded import evaluate_model as evaluate_model
from workbench.evaluation._transfer import Classifier as Classifier, classify as classify
