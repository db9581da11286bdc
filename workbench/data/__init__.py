"""Sentences, scored pairs, triples and transfer tasks: bundled, from a local data root, or from the hub."""

from workbench.data._catalogue import CATALOGUE, dataset_names
from workbench.data._columns import columns_said
from workbench.data._format import Table, describe_file, read_manifest, read_table, write_manifest
from workbench.data._inventory import check, check_and_keep, describe, fetch, unusable
from workbench.data._loading import (
    data_revisions,
    kind_of,
    kinds_of,
    load_dev,
    load_labelled,
    load_own,
    load_pairs,
    load_sentences,
    load_suites,
    load_task,
    load_training,
    load_triples,
)
from workbench.data._own import own_file
from workbench.data._report import overlaps, report, write_split
from workbench.data._sets import LabelledSentences, Pairs, Sentences, Triples, split
from workbench.data._tasks import AVERAGES, TRANSFER, TransferTask, labels, scored_pairs, sets_of, texts
