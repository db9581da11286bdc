"""Sentences, scored pairs, triplets and transfer tasks: bundled, local, or from the hub."""

from workbench.config import parse_columns as parse_columns
from workbench.data._catalogue import (
    CATALOGUE as CATALOGUE,
    TRANSFER as TRANSFER,
    dataset_names as dataset_names,
)
from workbench.data._check import (
    check as check,
    describe as describe,
    overlaps as overlaps,
    report as report,
    training_commands as training_commands,
    unusable as unusable,
    write_split as write_split,
)
from workbench.data._loading import (
    checksum_here as checksum_here,
    default_suite as default_suite,
    kinds_of as kinds_of,
    load_data as load_data,
    load_dev as load_dev,
    load_own_pairs as load_own_pairs,
    load_pairs as load_pairs,
    load_sentences as load_sentences,
    load_suites as load_suites,
    load_task as load_task,
    load_training as load_training,
    own_columns as own_columns,
    require_columns as require_columns,
    require_in_one as require_in_one,
)
from workbench.data._sets import (
    AVERAGES as AVERAGES,
    LabelledSentences as LabelledSentences,
    Pairs as Pairs,
    Sentences as Sentences,
    TransferTask as TransferTask,
    Triplets as Triplets,
    labels as labels,
    scored_pairs as scored_pairs,
    split as split,
)
from workbench.data._tables import (
    read_manifest as read_manifest,
    read_own as read_own,
    read_table as read_table,
    read_text as read_text,
)
