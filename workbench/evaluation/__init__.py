"""Evaluation: embeddings to correlations, accuracies, per-pair scores and rankings."""

from workbench.evaluation._evaluate import AVERAGE, TRANSFER_AVERAGE, Encode, Report, Scorer, dev_values, evaluate
from workbench.evaluation._mteb import for_mteb, to_mteb
from workbench.evaluation._recorded import evaluate_model
from workbench.evaluation._transfer import Classifier, classify
