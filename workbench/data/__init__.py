"""Sentences, scored pairs, triples and transfer tasks: bundled, from a local data root, or from the hub."""

from workbench.data.catalogue import dataset_names
from workbench.data.inventory import check, describe, fetch
from workbench.data.loading import (
    load_dev,
    load_labelled,
    load_pairs,
    load_sentences,
    load_suites,
    load_training,
    load_triples,
)
from workbench.data.sets import LabelledSentences, Pairs, Sentences, Triples
from workbench.errors import DataError

__all__ = [
    "DataError",
    "LabelledSentences",
    "Pairs",
    "Sentences",
    "Triples",
    "check",
    "dataset_names",
    "describe",
    "fetch",
    "load_dev",
    "load_labelled",
    "load_pairs",
    "load_sentences",
    "load_suites",
    "load_training",
    "load_triples",
]
