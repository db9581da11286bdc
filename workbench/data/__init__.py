"""Sentences, scored pairs, triples and transfer tasks: bundled, from a local data root, or from the hub."""

from workbench.data._catalogue import CATALOGUE as CATALOGUE, dataset_names as dataset_names
from workbench.data._columns import columns_said as columns_said
from workbench.data._format import (
    Table as Table,
    describe_file as describe_file,
    read_manifest as read_manifest,
    read_table as read_table,
    write_manifest as write_manifest,
)
from workbench.data._inventory import (
    check as check,
    check_and_keep as check_and_keep,
    describe as describe,
    fetch as fetch,
    unusable as unusable,
)
from workbench.data._loading import (
    data_revisions as data_revisions,
    kind_of as kind_of,
    kinds_of as kinds_of,
    load_dev as load_dev,
    load_labelled as load_labelled,
    load_own as load_own,
    load_pairs as load_pairs,
    load_sentences as load_sentences,
    load_suites as load_suites,
    load_task as load_task,
    load_training as load_training,
    load_triples as load_triples,
)
from workbench.data._own import own_file as own_file
from workbench.data._report import overlaps as overlaps, report as report, write_split as write_split
from workbench.data._sets import (
    LabelledSentences as LabelledSentences,
    Pairs as Pairs,
    Sentences as Sentences,
    Triples as Triples,
    split as split,
)
from workbench.data._tasks import (
    AVERAGES as AVERAGES,
    TRANSFER as TRANSFER,
    TransferTask as TransferTask,
    labels as labels,
    scored_pairs as scored_pairs,
    sets_of as sets_of,
    texts as texts,
)
from workbench.errors import DataError as DataError
